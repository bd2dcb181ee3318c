//! What `docker login` left for a registry: the same files and helpers that the `docker` command asks.
//!
//! The configuration names a helper for one registry (`credHelpers`) or for all of them (`credsStore`), a program that keeps
//! keys in the system's own store; without one the keys stand in the file itself. A helper that is broken is no reason not to
//! pull what anybody may pull: it is told when the pull fails.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bollard::auth::DockerCredentials;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use crate::environment::Environment;

/// How the registry is called from which images without a registry in their name come.
const USUAL_REGISTRY: &str = "https://index.docker.io/v1/";

/// Its other names.
const ITS_OTHER_NAMES: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

/// How long a helper may take; it may ask the person to unlock a store.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a helper says when it has nothing.
const NOTHING: &str = "credentials not found";

/// The user's name that a helper gives when what it has is a token.
const TOKEN: &str = "<token>";

/// What is known for a registry.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    pub(super) found: Option<DockerCredentials>,
    /// Why perhaps nothing was found.
    pub(super) trouble: Option<String>,
}

/// What is known for the registry of an image.
pub(super) async fn of(image: &str, environment: &Environment) -> Credentials {
    let Some(config) = configuration(environment) else { return Credentials::default() };
    let registry = registry(image);
    let helper = config["credHelpers"].get(registry).or_else(|| config.get("credsStore")).and_then(Value::as_str);
    let mut trouble = None;
    if let Some(helper) = helper.filter(|name| !name.is_empty()) {
        match ask(helper, registry, environment).await {
            Ok(Some(found)) => return Credentials { found: Some(found), trouble: None },
            Ok(None) => {}
            Err(problem) => {
                trouble = Some(format!("the credential helper `docker-credential-{helper}` {problem}"));
            }
        }
    }
    Credentials { found: written(&config, registry), trouble }
}

fn configuration(environment: &Environment) -> Option<Value> {
    let set = |name| environment.variable(name).filter(|value| !value.is_empty());
    let folder =
        set("DOCKER_CONFIG").map(PathBuf::from).or_else(|| Some(PathBuf::from(set("HOME")?).join(".docker")))?;
    serde_json::from_str(&std::fs::read_to_string(folder.join("config.json")).ok()?).ok()
}

/// The registry of an image, as the configuration names it.
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if ITS_OTHER_NAMES.contains(&host) => USUAL_REGISTRY,
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => USUAL_REGISTRY,
    }
}

/// A registry's host, also where the configuration has it as an address.
fn host(key: &str) -> &str {
    let rest = key.split_once("://").map_or(key, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// What stands in the configuration itself.
fn written(config: &Value, registry: &str) -> Option<DockerCredentials> {
    let all = config["auths"].as_object()?;
    let entry = all
        .get(registry)
        .or_else(|| all.iter().find(|(key, _)| host(key) == host(registry)).map(|(_, value)| value))?;
    let text = |key: &str| entry[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let pair = text("auth").and_then(|auth| {
        let decoded = String::from_utf8(STANDARD.decode(auth).ok()?).ok()?;
        let (username, password) = decoded.split_once(':')?;
        Some((username.to_owned(), password.trim_end_matches('\0').to_owned()))
    });
    let pair = pair.or_else(|| Some((text("username")?, text("password")?)));
    let token = text("identitytoken");
    if pair.is_none() && token.is_none() {
        return None;
    }
    let (username, password) = pair.unzip();
    Some(DockerCredentials {
        username,
        password: password.filter(|_| token.is_none()),
        identitytoken: token,
        serveraddress: Some(registry.to_owned()),
        ..DockerCredentials::default()
    })
}

/// Asks a helper: the registry goes to its stdin, and a document with a name and a key comes back.
#[expect(clippy::disallowed_methods, reason = "the person's own configuration names this program")]
async fn ask(helper: &str, registry: &str, environment: &Environment) -> Result<Option<DockerCredentials>, String> {
    let run = async {
        let mut child = Command::new(format!("docker-credential-{helper}"))
            .arg("get")
            .env_clear()
            .envs(environment.variables.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that does not read it may still know the answer.
            let _may_be_gone = stdin.write_all(registry.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    let output = timeout(PATIENCE, run)
        .await
        .map_err(|_elapsed| format!("did not answer within {} s", PATIENCE.as_secs()))?
        .map_err(|error| format!("could not be started: {error}"))?;
    if !output.status.success() {
        // Helpers tell their failures on stdout.
        let said = String::from_utf8_lossy(&output.stdout);
        let said = said.lines().next().unwrap_or_default().trim();
        return if said.contains(NOTHING) { Ok(None) } else { Err(format!("failed: {said}")) };
    }
    let answer: Value = serde_json::from_slice(&output.stdout).map_err(|_no_json| "gave no JSON".to_owned())?;
    let (Some(username), Some(secret)) = (answer["Username"].as_str(), answer["Secret"].as_str()) else {
        return Err("gave no name and key".to_owned());
    };
    let serveraddress = Some(registry.to_owned());
    Ok(Some(if username == TOKEN {
        DockerCredentials { identitytoken: Some(secret.to_owned()), serveraddress, ..DockerCredentials::default() }
    } else {
        DockerCredentials {
            username: Some(username.to_owned()),
            password: Some(secret.to_owned()),
            serveraddress,
            ..DockerCredentials::default()
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A home with this configuration and these helpers; what is found for an image in it.
    fn found(config: &str, helpers: &[(&str, &str)], image: &str) -> Credentials {
        let home = tempfile::tempdir().expect("a temporary folder can be made");
        fs::write(home.path().join("config.json"), config).expect("it can be written into");
        for (name, script) in helpers {
            let path = home.path().join(format!("docker-credential-{name}"));
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("it can be written into");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
        }
        let path = format!("{}:/usr/bin:/bin", home.path().display());
        let variables = vec![("DOCKER_CONFIG".into(), home.path().into()), ("PATH".into(), path.into())];
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
        runtime.block_on(of(image, &Environment { variables, env_file: None }))
    }

    fn pair(credentials: &Credentials) -> Option<(&str, &str)> {
        let found = credentials.found.as_ref()?;
        Some((found.username.as_deref()?, found.password.as_deref()?))
    }

    #[test]
    fn registries_are_told_from_parts_of_a_name() {
        for (image, expected) in [
            ("redis", USUAL_REGISTRY),
            ("library/redis", USUAL_REGISTRY),
            ("docker.io/library/redis", USUAL_REGISTRY),
            ("localhost/x", "localhost"),
            ("host:5000/a/b", "host:5000"),
            ("ghcr.io/a/b:1", "ghcr.io"),
        ] {
            assert_eq!(registry(image), expected, "{image}");
        }
    }

    #[test]
    fn what_stands_in_the_file_is_found_under_each_way_of_writing_the_registry() {
        let auth = STANDARD.encode("ann:pass:word");
        for key in ["ghcr.io", "https://ghcr.io", "https://ghcr.io/v2/"] {
            let config = format!(r#"{{"auths":{{"{key}":{{"auth":"{auth}"}}}}}}"#);
            assert_eq!(pair(&found(&config, &[], "ghcr.io/a/b:1")), Some(("ann", "pass:word")), "{key}");
            assert!(found(&config, &[], "redis:7").found.is_none());
        }
        let config = format!(r#"{{"auths":{{"{USUAL_REGISTRY}":{{"username":"u","password":"p"}}}}}}"#);
        assert_eq!(pair(&found(&config, &[], "docker.io/a/b")), Some(("u", "p")));
        let token = found(r#"{"auths":{"r.io":{"identitytoken":"t"}}}"#, &[], "r.io/a").found.unwrap();
        assert_eq!(token.identitytoken.as_deref(), Some("t"));
        assert!(found("no json", &[], "redis").found.is_none());
    }

    #[test]
    fn a_helper_is_asked_with_the_registry_on_its_stdin() {
        let answers = r#"read server; echo "{\"ServerURL\":\"$server\",\"Username\":\"$1 $server\",\"Secret\":\"s\"}""#;
        let all = r#"{"credsStore":"all","credHelpers":{"r.io":"one"}}"#;
        let helpers = [("one", answers), ("all", r#"echo '{"Username":"<token>","Secret":"t"}'"#)];
        assert_eq!(pair(&found(all, &helpers, "r.io/a")), Some(("get r.io", "s")));
        let token = found(all, &helpers, "redis").found.unwrap();
        assert_eq!((token.identitytoken.as_deref(), token.username), (Some("t"), None));
    }

    #[test]
    fn a_helper_that_has_nothing_or_is_broken_leaves_the_file() {
        let auth = STANDARD.encode("ann:x");
        let config = format!(r#"{{"credsStore":"h","auths":{{"r.io":{{"auth":"{auth}"}}}}}}"#);
        let empty = [("h", "echo credentials not found in native keychain; exit 1")];
        let without = found(&config, &empty, "r.io/a");
        assert_eq!((pair(&without), &without.trouble), (Some(("ann", "x")), &None));
        for (helpers, expected) in [
            (vec![], "`docker-credential-h` could not be started"),
            (vec![("h", "echo locked; exit 1")], "`docker-credential-h` failed: locked"),
            (vec![("h", "echo nonsense")], "`docker-credential-h` gave no JSON"),
            (vec![("h", "echo '{}'")], "`docker-credential-h` gave no name and key"),
        ] {
            let broken = found(&config, &helpers, "r.io/a");
            assert_eq!(pair(&broken), Some(("ann", "x")));
            assert!(broken.trouble.as_ref().is_some_and(|trouble| trouble.contains(expected)), "{broken:?}");
        }
    }
}
