//! An engine on another machine, by way of `ssh`: what `ssh://` addresses mean to the `docker` command too.
//!
//! Each connection is a program `ssh HOST docker system dial-stdio` of its own, with its stdin and stdout as the wire. A
//! socket in a private folder stands between it and the client. Keys, names of hosts and questions are ssh's own business.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{self, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::environment::Environment;

/// How long ssh may take to reach the other machine, in seconds.
const REACH_SECONDS: &str = "ConnectTimeout=15";

/// How much of what ssh says is kept for a message, in bytes.
const SAID: u64 = 4096;

/// A way to an engine. It is there as long as this value.
#[derive(Debug)]
pub(super) struct Tunnel {
    /// The socket that leads there.
    pub(super) socket: PathBuf,
    _folder: tempfile::TempDir,
    _connections: JoinSet<()>,
}

/// Where an address leads: `ssh://[USER@]HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Destination {
    host: String,
    user: Option<String>,
    port: Option<u16>,
}

impl Destination {
    fn parse(address: &str) -> Option<Self> {
        let url = url::Url::parse(address).ok()?;
        let host = url.host_str().filter(|host| !host.is_empty() && !host.starts_with('-'))?;
        let is_plain = url.password().is_none() && matches!(url.path(), "" | "/") && url.query().is_none();
        let user = Some(url.username()).filter(|user| !user.is_empty()).map(str::to_owned);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        is_plain.then_some(Self { host, user, port: url.port() })
    }

    fn words(&self) -> Vec<String> {
        let mut words = vec!["-T".to_owned(), "-o".to_owned(), REACH_SECONDS.to_owned()];
        if let Some(user) = &self.user {
            words.extend(["-l".to_owned(), user.clone()]);
        }
        if let Some(port) = self.port {
            words.extend(["-p".to_owned(), port.to_string()]);
        }
        words.extend(["--", &self.host, "docker", "system", "dial-stdio"].map(str::to_owned));
        words
    }
}

/// Opens a way to an engine, after trying once that ssh gets there and finds a `docker` command.
///
/// # Errors
/// `None` for an address that is none, else why ssh does not get there.
pub(super) async fn open(address: &str, environment: &Environment) -> Result<Tunnel, Option<io::Error>> {
    let destination = Destination::parse(address).ok_or(None)?;
    let folder = tempfile::Builder::new().prefix("ambientctl-ssh").tempdir().map_err(Some)?;
    let socket = folder.path().join("docker.sock");
    let listener = UnixListener::bind(&socket).map_err(Some)?;
    try_once(&destination, environment).await.map_err(Some)?;
    let environment = environment.clone();
    let mut connections = JoinSet::new();
    connections.spawn(async move {
        let mut running = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            running.spawn(carry(client, destination.clone(), environment.clone()));
            // Those that ended are let go.
            while running.try_join_next().is_some() {}
        }
    });
    Ok(Tunnel { socket, _folder: folder, _connections: connections })
}

#[expect(clippy::disallowed_methods, reason = "the person's own ssh, with their keys and their settings")]
fn ssh(destination: &Destination, environment: &Environment) -> Command {
    let mut command = Command::new("ssh");
    command.args(destination.words()).env_clear().envs(environment.variables.iter().cloned());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Sends the engine its shortest question; where there is no answer, ssh has said why.
async fn try_once(destination: &Destination, environment: &Environment) -> io::Result<()> {
    let mut child = ssh(destination, environment).spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(io::ErrorKind::NotFound, "the program `ssh` is not in PATH"),
        _ => error,
    })?;
    let (Some(mut stdin), Some(mut stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("ssh was started without its pipes"));
    };
    let asked = stdin.write_all(b"GET /_ping HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n").await;
    let mut first = [0; 1];
    if asked.is_ok() && stdout.read_exact(&mut first).await.is_ok() {
        return Ok(());
    }
    drop(stdin);
    let mut said = Vec::new();
    stderr.take(SAID).read_to_end(&mut said).await?;
    let said = String::from_utf8_lossy(&said);
    let last = said.trim().lines().last().unwrap_or("ssh ended without a word").trim().to_owned();
    Err(io::Error::other(last))
}

/// One connection, until either side ends it.
async fn carry(client: UnixStream, destination: Destination, environment: Environment) {
    let Ok(mut child) = ssh(&destination, &environment).stderr(Stdio::null()).spawn() else { return };
    let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let upward = async move {
        let _either_may_hang_up = io::copy(&mut from_client, &mut stdin).await;
    };
    let downward = async move {
        let _either_may_hang_up = io::copy(&mut stdout, &mut to_client).await;
    };
    tokio::join!(upward, downward);
    let _reaped = child.wait().await;
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn addresses_become_words_and_nothing_else_does() {
        let words = |address: &str| Destination::parse(address).map(|destination| destination.words().split_off(3));
        let docker = ["docker", "system", "dial-stdio"];
        let all = |first: &[&str]| Some(first.iter().chain(&docker).map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words("ssh://host"), all(&["--", "host"]));
        assert_eq!(words("ssh://ann@host:2222/"), all(&["-l", "ann", "-p", "2222", "--", "host"]));
        assert_eq!(words("ssh://[::1]:22"), all(&["-p", "22", "--", "::1"]));
        for wrong in ["ssh://", "ssh://ann:pw@host", "ssh://host/var/run/docker.sock", "ssh://-oProxyCommand=x"] {
            assert_eq!(words(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn what_ssh_says_is_the_reason() {
        let home = tempfile::tempdir().unwrap();
        let fake = home.path().join("ssh");
        fs::write(
            &fake,
            "#!/bin/sh\necho some banner >&2\necho 'ann@host: Permission denied (publickey).' >&2\nexit 255\n",
        )
        .unwrap();
        fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/bin:/bin", home.path().display());
        let environment = Environment { variables: vec![("PATH".into(), path.into())], env_file: None };
        let error = open("ssh://ann@host", &environment).await.unwrap_err().unwrap();
        assert_eq!(error.to_string(), "ann@host: Permission denied (publickey).");
        assert!(open("ssh://ann:pw@host", &environment).await.unwrap_err().is_none());
        let nothing = Environment { variables: vec![("PATH".into(), "/nowhere".into())], env_file: None };
        let error = open("ssh://host", &nothing).await.unwrap_err().unwrap();
        assert_eq!(error.to_string(), "the program `ssh` is not in PATH");
    }
}
