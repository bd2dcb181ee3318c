//! A Docker engine that answered.

use std::io;
use std::path::Path;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::{Address, DockerError, Origin};

/// How long an engine may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long one request may take, in seconds. Stopping a container waits for its own grace period, which may be long.
const REQUEST_SECONDS: u64 = 600;

/// From this version of the API on a container can be created with all its networks.
const ALL_NETWORKS_AT_ONCE: (u32, u32) = (1, 44);

/// The engine, and where it was found.
#[derive(Debug)]
pub struct Connection {
    pub(super) docker: Docker,
    /// Where it is.
    pub address: Address,
    /// The newest API that it speaks.
    api: (u32, u32),
}

impl Connection {
    /// The first engine that answers.
    ///
    /// # Errors
    /// [`DockerError::Missing`], [`DockerError::Refused`] or [`DockerError::Silent`]; of several places the one that says
    /// most: one that refuses before one that is silent, and that before one that is not there.
    pub async fn open(addresses: &[Address]) -> Result<Self, DockerError> {
        let mut worst: Option<DockerError> = None;
        let mut missing = Vec::new();
        for address in addresses {
            match Self::at(address).await {
                Ok(connection) => return Ok(connection),
                Err(DockerError::Missing(places)) => missing.extend(places),
                Err(error) => {
                    let says_more = matches!(error, DockerError::Refused { .. });
                    if worst.is_none() || says_more {
                        worst = Some(error);
                    }
                }
            }
        }
        Err(worst.unwrap_or(DockerError::Missing(missing)))
    }

    async fn at(address: &Address) -> Result<Self, DockerError> {
        let (url, docker) = if let Some(path) = address.url.strip_prefix("unix://") {
            knock(&address.url, timeout(PATIENCE, UnixStream::connect(Path::new(path))).await)?;
            (address.url.clone(), Docker::connect_with_unix(&address.url, REQUEST_SECONDS, API_DEFAULT_VERSION))
        } else if let Some(host) = address.url.strip_prefix("tcp://").or_else(|| address.url.strip_prefix("http://")) {
            let host = host.trim_end_matches('/');
            let host = if host.contains(':') { host.to_owned() } else { format!("{host}:2375") };
            knock(&address.url, timeout(PATIENCE, TcpStream::connect(&host)).await)?;
            let url = format!("tcp://{host}");
            let docker = Docker::connect_with_http(&url, REQUEST_SECONDS, API_DEFAULT_VERSION);
            (url, docker)
        } else {
            return Err(DockerError::Address { address: address.url.clone(), origin: address.origin.to_string() });
        };
        let silent = |source| DockerError::Silent { address: url.clone(), source };
        let docker = docker.map_err(|error| silent(Some(io::Error::other(error))))?;
        let version = match timeout(PATIENCE, docker.version()).await {
            Ok(Ok(version)) => version,
            Ok(Err(error)) => return Err(silent(Some(io::Error::other(error)))),
            Err(_elapsed) => return Err(silent(None)),
        };
        let api = version.api_version.as_deref().and_then(parse).unwrap_or((1, 24));
        Ok(Self { docker, address: address.clone(), api })
    }

    /// Whether a container is created with all its networks; else they are connected one by one afterwards.
    pub(super) fn creates_with_all_networks(&self) -> bool {
        self.api >= ALL_NETWORKS_AT_ONCE
    }

    /// Where the engine was found, for a message.
    pub fn place(&self) -> String {
        match &self.address.origin {
            Origin::Usual => self.address.url.clone(),
            origin => format!("{} ({origin})", self.address.url),
        }
    }
}

/// Tells by the way in which a connection failed what is wrong.
fn knock<S>(address: &str, answer: Result<io::Result<S>, tokio::time::error::Elapsed>) -> Result<(), DockerError> {
    let address = address.to_owned();
    match answer {
        Ok(Ok(_open)) => Ok(()),
        Err(_elapsed) => Err(DockerError::Silent { address, source: None }),
        Ok(Err(error)) => Err(match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => DockerError::Missing(vec![address]),
            io::ErrorKind::PermissionDenied => DockerError::Refused { address, source: error },
            _ => DockerError::Silent { address, source: Some(error) },
        }),
    }
}

fn parse(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn address(path: &Path) -> Address {
        Address { url: format!("unix://{}", path.display()), origin: Origin::Variable }
    }

    #[tokio::test]
    async fn missing_silent_and_refused_are_three_things() {
        let folder = tempfile::tempdir().unwrap();
        let missing = address(&folder.path().join("none.sock"));
        let error = Connection::open(std::slice::from_ref(&missing)).await.unwrap_err();
        assert!(error.to_string().starts_with("docker is missing"), "{error}");

        let stale_path = folder.path().join("stale.sock");
        drop(UnixListener::bind(&stale_path).unwrap());
        let stale = address(&stale_path);
        let error = Connection::open(&[missing.clone(), stale.clone()]).await.unwrap_err();
        assert!(error.to_string().starts_with("docker is silent"), "{error}");

        if !nix::unistd::geteuid().is_root() {
            let shut_path = folder.path().join("shut.sock");
            let _listener = UnixListener::bind(&shut_path).unwrap();
            std::fs::set_permissions(&shut_path, std::fs::Permissions::from_mode(0o0)).unwrap();
            let error = Connection::open(&[missing, stale, address(&shut_path)]).await.unwrap_err();
            assert!(error.to_string().starts_with("docker refused"), "{error}");
        }
    }

    #[test]
    fn a_denied_connection_is_a_refusal_also_for_root() {
        let denied: io::Result<()> = Err(io::Error::from(io::ErrorKind::PermissionDenied));
        let error = knock("unix:///x", Ok(denied)).unwrap_err();
        assert!(error.to_string().starts_with("docker refused: `unix:///x`"), "{error}");
    }

    #[tokio::test]
    async fn addresses_that_we_do_not_speak_are_named_with_their_origin() {
        let ssh = Address { url: "ssh://host".to_owned(), origin: Origin::Variable };
        let error = Connection::open(&[ssh]).await.unwrap_err().to_string();
        assert!(error.contains("`ssh://host` (from `DOCKER_HOST`)"), "{error}");
    }
}
