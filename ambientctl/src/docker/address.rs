//! Where a Docker engine may be, as the `docker` command looks for it, and then in the places that it does not look in.
//!
//! A flag, `DOCKER_HOST`, `DOCKER_CONTEXT` and the current context each name one address, and then no other counts. Without
//! any, the usual socket comes first and those of rootless Docker, Docker Desktop and its kin after it.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::DockerError;
use crate::compose::hash::sha256;
use crate::environment::Environment;

/// The usual socket.
const USUAL: &str = "/var/run/docker.sock";

/// An engine's address, and who named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `unix:///path`, `tcp://host:port` or `ssh://user@host:port`.
    pub url: String,
    /// Who named it.
    pub origin: Origin,
    /// The folder of `ca.pem`, `cert.pem` and `key.pem`, for a `tcp://` address with TLS.
    pub tls: Option<PathBuf>,
}

/// Who named an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The word `--docker`.
    Flag,
    /// The variable `DOCKER_HOST`.
    Variable,
    /// A context of the `docker` command.
    Context(String),
    /// It is where engines usually are.
    Usual,
    /// It is where this kind of engine is.
    Known(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("`--docker`"),
            Self::Variable => f.write_str("`DOCKER_HOST`"),
            Self::Context(name) => write!(f, "the docker context `{name}`"),
            Self::Usual => f.write_str("the usual place"),
            Self::Known(kind) => f.write_str(kind),
        }
    }
}

/// The addresses to try, in their order.
///
/// # Errors
/// When a context is named that is not there.
pub fn addresses(flag: Option<&str>, environment: &Environment) -> Result<Vec<Address>, DockerError> {
    let set = |name| environment.variable(name).filter(|value| !value.is_empty());
    let home = set("HOME").map(PathBuf::from);
    let config = set("DOCKER_CONFIG").map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(".docker")));
    let named = flag.map(|url| (url.to_owned(), Origin::Flag));
    if let Some((url, origin)) = named.or_else(|| Some((set("DOCKER_HOST")?, Origin::Variable))) {
        let certificates = || set("DOCKER_CERT_PATH").map(PathBuf::from).or_else(|| config.clone());
        let is_wanted = set("DOCKER_TLS_VERIFY").is_some() || url.starts_with("https://");
        let tls = if is_wanted { certificates() } else { None };
        return Ok(vec![Address { url, origin, tls }]);
    }
    if let Some(config) = config {
        let named = set("DOCKER_CONTEXT").map(|name| (name, "`DOCKER_CONTEXT`"));
        let current = || current_context(&config).map(|name| (name, "`currentContext` of the docker configuration"));
        if let Some((name, origin)) = named.or_else(current).filter(|(name, _)| name != "default") {
            let (url, tls) = context(&config, &name, origin)?;
            return Ok(vec![Address { url, origin: Origin::Context(name), tls }]);
        }
    }
    let runtime = set("XDG_RUNTIME_DIR").map(PathBuf::from);
    Ok(known(home.as_deref(), runtime.as_deref(), nix::unistd::getuid().as_raw()))
}

fn current_context(config: &Path) -> Option<String> {
    let text = std::fs::read_to_string(config.join("config.json")).ok()?;
    let value: Value = serde_json::from_str(&text).ok()?;
    value["currentContext"].as_str().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The address that a context holds, and the folder of its certificates. Its folders are named by the hash of its name.
fn context(config: &Path, name: &str, origin: &'static str) -> Result<(String, Option<PathBuf>), DockerError> {
    let hash = sha256(name);
    let path = config.join("contexts/meta").join(&hash).join("meta.json");
    let wrong = |problem| DockerError::Context { name: name.to_owned(), origin, problem, path: path.clone() };
    let text = std::fs::read_to_string(&path).map_err(|_unreadable| wrong("is not there or cannot be read"))?;
    let value: Value = serde_json::from_str(&text).map_err(|_broken| wrong("is no JSON"))?;
    let host = value["Endpoints"]["docker"]["Host"].as_str().filter(|host| !host.is_empty());
    let host = host.map(str::to_owned).ok_or_else(|| wrong("names no docker engine"))?;
    if value["Endpoints"]["docker"]["SkipTLSVerify"] == true {
        return Err(wrong("wants TLS that is not verified, which protects from nobody"));
    }
    let tls = config.join("contexts/tls").join(hash).join("docker");
    Ok((host, tls.is_dir().then_some(tls)))
}

fn known(home: Option<&Path>, runtime: Option<&Path>, user: u32) -> Vec<Address> {
    let mut places: Vec<(PathBuf, Origin)> = vec![(PathBuf::from(USUAL), Origin::Usual)];
    let mut add = |path: PathBuf, kind| places.push((path, Origin::Known(kind)));
    if let Some(runtime) = runtime {
        add(runtime.join("docker.sock"), "rootless Docker");
    }
    add(PathBuf::from(format!("/run/user/{user}/docker.sock")), "rootless Docker");
    if let Some(home) = home {
        for (path, kind) in [
            (".docker/run/docker.sock", "Docker Desktop"),
            (".docker/desktop/docker.sock", "Docker Desktop"),
            (".colima/default/docker.sock", "Colima"),
            (".orbstack/run/docker.sock", "OrbStack"),
            (".rd/docker.sock", "Rancher Desktop"),
        ] {
            add(home.join(path), kind);
        }
    }
    if let Some(runtime) = runtime {
        add(runtime.join("podman/podman.sock"), "Podman");
    }
    let mut addresses: Vec<Address> = Vec::new();
    for (path, origin) in places {
        let url = format!("unix://{}", path.display());
        if addresses.iter().all(|known| known.url != url) {
            addresses.push(Address { url, origin, tls: None });
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Environment { variables, env_file: None }
    }

    fn found(flag: Option<&str>, variables: &[(&str, &str)]) -> Vec<(String, String)> {
        let all = addresses(flag, &environment(variables)).unwrap();
        all.into_iter().map(|address| (address.url, address.origin.to_string())).collect()
    }

    /// A docker configuration with one context.
    fn configuration(current: &str) -> std::io::Result<tempfile::TempDir> {
        let home = tempfile::tempdir()?;
        let config = home.path().join(".docker");
        // The SHA-256 of `colima`.
        let meta = config.join("contexts/meta/f24fd3749c1368328e2b149bec149cb6795619f244c5b584e844961215dadd16");
        std::fs::create_dir_all(&meta)?;
        std::fs::write(
            meta.join("meta.json"),
            r#"{"Name":"colima","Endpoints":{"docker":{"Host":"unix:///c.sock"}}}"#,
        )?;
        std::fs::write(config.join("config.json"), format!(r#"{{"currentContext":"{current}"}}"#))?;
        Ok(home)
    }

    #[test]
    fn the_first_that_names_an_engine_counts_and_no_other() {
        let home = configuration("colima").unwrap();
        let home = home.path().to_str().unwrap();
        let one = |url: &str, origin: &str| vec![(url.to_owned(), origin.to_owned())];
        let context = "the docker context `colima`";
        assert_eq!(found(Some("tcp://f"), &[("DOCKER_HOST", "tcp://v"), ("HOME", home)]), one("tcp://f", "`--docker`"));
        assert_eq!(found(None, &[("DOCKER_HOST", "tcp://v"), ("HOME", home)]), one("tcp://v", "`DOCKER_HOST`"));
        assert_eq!(found(None, &[("HOME", home)]), one("unix:///c.sock", context));
        assert_eq!(found(None, &[("HOME", home), ("DOCKER_HOST", "")]), one("unix:///c.sock", context));
        assert_eq!(found(None, &[("HOME", home), ("DOCKER_CONTEXT", "default")])[0].1, "the usual place");
    }

    #[test]
    fn certificates_are_where_the_docker_command_has_them() {
        let home = configuration("colima").unwrap();
        let tls = |variables: &[(&str, &str)]| addresses(None, &environment(variables)).unwrap()[0].tls.clone();
        let named = home.path().to_str().unwrap();
        let host = ("DOCKER_HOST", "tcp://h:2376");
        assert_eq!(tls(&[host]), None);
        assert_eq!(tls(&[host, ("DOCKER_TLS_VERIFY", "1"), ("DOCKER_CERT_PATH", "/c")]), Some("/c".into()));
        assert_eq!(tls(&[host, ("DOCKER_TLS_VERIFY", "1"), ("HOME", named)]), Some(home.path().join(".docker")));
        assert_eq!(tls(&[("DOCKER_HOST", "https://h"), ("HOME", named)]), Some(home.path().join(".docker")));
        assert_eq!(tls(&[("HOME", named)]), None);
        let folder = "contexts/tls/f24fd3749c1368328e2b149bec149cb6795619f244c5b584e844961215dadd16/docker";
        let folder = home.path().join(".docker").join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(tls(&[("HOME", named)]), Some(folder));
    }

    #[test]
    fn a_context_that_is_not_there_is_no_reason_to_take_another_engine() {
        let home = configuration("gone").unwrap();
        let home = home.path().to_str().unwrap();
        let error = addresses(None, &environment(&[("HOME", home)])).unwrap_err().to_string();
        assert!(error.contains("the docker context `gone` (from `currentContext`"), "{error}");
    }

    #[test]
    fn without_a_name_the_known_places_are_tried_each_once() {
        let all = found(None, &[("HOME", "/home/ann"), ("XDG_RUNTIME_DIR", "/run/user/7")]);
        assert_eq!(all[0], ("unix:///var/run/docker.sock".to_owned(), "the usual place".to_owned()));
        assert_eq!(all[1], ("unix:///run/user/7/docker.sock".to_owned(), "rootless Docker".to_owned()));
        assert!(all.iter().any(|(url, _)| url == "unix:///home/ann/.docker/run/docker.sock"));
        assert_eq!(all.last().unwrap().1, "Podman");
        let mut urls: Vec<_> = all.iter().map(|(url, _)| url).collect();
        urls.sort();
        urls.dedup();
        assert_eq!(urls.len(), all.len());
    }
}
