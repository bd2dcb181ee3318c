//! A Docker engine that answered.

use std::io;
use std::path::Path;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, Docker};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::ssh::{self, Tunnel};
use super::{Address, DockerError, Origin};
use crate::environment::Environment;

/// How long an engine may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it may take when ssh has to get there first.
const PATIENCE_WITH_SSH: Duration = Duration::from_secs(30);

/// The ports that are meant when an address has none.
const PLAIN_PORT: u16 = 2375;
const TLS_PORT: u16 = 2376;

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
    /// The way to it, where that is not a plain one.
    _tunnel: Option<Tunnel>,
}

impl Connection {
    /// The first engine that answers.
    ///
    /// # Errors
    /// [`DockerError::Missing`], [`DockerError::Refused`] or [`DockerError::Silent`]; of several places the one that says
    /// most: one that refuses before one that is silent, and that before one that is not there.
    pub async fn open(addresses: &[Address], environment: &Environment) -> Result<Self, DockerError> {
        let mut worst: Option<DockerError> = None;
        let mut missing = Vec::new();
        for address in addresses {
            match Self::at(address, environment).await {
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

    async fn at(address: &Address, environment: &Environment) -> Result<Self, DockerError> {
        let url = address.url.as_str();
        let (docker, tunnel) = if let Some(path) = url.strip_prefix("unix://") {
            knock(url, timeout(PATIENCE, UnixStream::connect(Path::new(path))).await)?;
            (Docker::connect_with_unix(url, REQUEST_SECONDS, API_DEFAULT_VERSION), None)
        } else if let Some(host) = over_tcp(url) {
            let host = host.trim_end_matches('/');
            let port = if address.tls.is_some() { TLS_PORT } else { PLAIN_PORT };
            let host = if host.contains(':') { host.to_owned() } else { format!("{host}:{port}") };
            knock(url, timeout(PATIENCE, TcpStream::connect(&host)).await)?;
            let tcp = format!("tcp://{host}");
            (with_or_without_tls(&tcp, address)?, None)
        } else if url.starts_with("ssh://") {
            let tunnel = ssh::open(url, environment).await.map_err(|problem| match problem {
                Some(source) => DockerError::Ssh { address: url.to_owned(), source },
                None => DockerError::Address { address: url.to_owned(), origin: address.origin.to_string() },
            })?;
            let socket = format!("unix://{}", tunnel.socket.display());
            (Docker::connect_with_unix(&socket, REQUEST_SECONDS, API_DEFAULT_VERSION), Some(tunnel))
        } else {
            return Err(DockerError::Address { address: url.to_owned(), origin: address.origin.to_string() });
        };
        let silent = |source| DockerError::Silent { address: url.to_owned(), source };
        let docker = docker.map_err(|error| silent(Some(io::Error::other(error))))?;
        let patience = if tunnel.is_some() { PATIENCE_WITH_SSH } else { PATIENCE };
        let version = match timeout(patience, docker.version()).await {
            Ok(Ok(version)) => version,
            Ok(Err(error)) => {
                return Err(tls_failure(address, &error).unwrap_or_else(|| silent(Some(io::Error::other(error)))));
            }
            Err(_elapsed) => return Err(silent(None)),
        };
        let api = version.api_version.as_deref().and_then(parse).unwrap_or((1, 24));
        Ok(Self { docker, address: address.clone(), api, _tunnel: tunnel })
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

fn over_tcp(url: &str) -> Option<&str> {
    ["tcp://", "http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme))
}

fn with_or_without_tls(url: &str, address: &Address) -> Result<Result<Docker, bollard::errors::Error>, DockerError> {
    let Some(folder) = &address.tls else {
        return Ok(Docker::connect_with_http(url, REQUEST_SECONDS, API_DEFAULT_VERSION));
    };
    let file = |name| folder.join(name);
    // The one that has to be there; an engine that asks for the other two says so.
    if let Err(source) = std::fs::metadata(file("ca.pem")) {
        let problem = format!("`{}` cannot be read: {source}", file("ca.pem").display());
        return Err(DockerError::Tls { address: address.url.clone(), problem });
    }
    let (key, certificate, authority) = (file("key.pem"), file("cert.pem"), file("ca.pem"));
    Ok(Docker::connect_with_ssl(url, &key, &certificate, &authority, REQUEST_SECONDS, API_DEFAULT_VERSION))
}

/// A failure of TLS, or of not having it.
fn tls_failure(address: &Address, error: &bollard::errors::Error) -> Option<DockerError> {
    let failed = |problem: &str| Some(DockerError::Tls { address: address.url.clone(), problem: problem.to_owned() });
    if let bollard::errors::Error::DockerResponseServerError { message, .. } = error
        && message.contains("HTTPS server")
    {
        return failed("it wants TLS, and `DOCKER_TLS_VERIFY` is not set");
    }
    address.tls.as_ref()?;
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    failed(&deepest.to_string())
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
        Address { url: format!("unix://{}", path.display()), origin: Origin::Variable, tls: None }
    }

    #[tokio::test]
    async fn missing_silent_and_refused_are_three_things() {
        let folder = tempfile::tempdir().unwrap();
        let missing = address(&folder.path().join("none.sock"));
        let error = Connection::open(std::slice::from_ref(&missing), &Environment::default()).await.unwrap_err();
        assert!(error.to_string().starts_with("docker is missing"), "{error}");

        let stale_path = folder.path().join("stale.sock");
        drop(UnixListener::bind(&stale_path).unwrap());
        let stale = address(&stale_path);
        let error = Connection::open(&[missing.clone(), stale.clone()], &Environment::default()).await.unwrap_err();
        assert!(error.to_string().starts_with("docker is silent"), "{error}");

        if !nix::unistd::geteuid().is_root() {
            let shut_path = folder.path().join("shut.sock");
            let _listener = UnixListener::bind(&shut_path).unwrap();
            std::fs::set_permissions(&shut_path, std::fs::Permissions::from_mode(0o0)).unwrap();
            let error =
                Connection::open(&[missing, stale, address(&shut_path)], &Environment::default()).await.unwrap_err();
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
        for url in ["npipe:////./pipe/docker_engine", "ssh://ann:password@host", "nonsense"] {
            let address = Address { url: url.to_owned(), origin: Origin::Variable, tls: None };
            let error = Connection::open(&[address], &Environment::default()).await.unwrap_err().to_string();
            assert!(error.contains(&format!("`{url}` (from `DOCKER_HOST`)")), "{error}");
        }
    }

    #[tokio::test]
    async fn tls_without_an_authority_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("tcp://{}", listener.local_addr().unwrap());
        let address = Address { url: url.clone(), origin: Origin::Variable, tls: Some(folder.path().to_owned()) };
        let error = Connection::open(&[address], &Environment::default()).await.unwrap_err().to_string();
        let file = folder.path().join("ca.pem");
        let start = format!("docker does not speak TLS with us at `{url}`: `{}` cannot be read", file.display());
        assert!(error.starts_with(&start), "{error}");
    }
}
