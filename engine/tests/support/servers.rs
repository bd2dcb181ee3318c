//! Real servers for the tests.
//!
//! An environment variable names one that stands already (`tests/run.sh` starts them). Without it the first test starts one from the system's packages, all test processes share it, and it ends by itself
//! some seconds after the last of them. A server that cannot be had fails the test: no story is skipped.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How long a server may take to answer.
const START_LIMIT: Duration = Duration::from_mins(1);

/// Runs the server below and ends it once nobody has held `users` for two looks in a row. Who comes while it ends waits
/// for the lock, and then finds no `url`.
const KEEPER: &str = r#"
    cd "$1" || exit 1
    shift
    "$@" </dev/null >server.log 2>&1 9>&- &
    server=$!
    idle=0
    while sleep 2 && kill -0 "$server" 2>/dev/null; do
        if flock -n -x 9; then
            idle=$((idle + 1))
            [ "$idle" -ge 2 ] && break
            flock -u 9
        else
            idle=0
        fi
    done
    rm -f url
    kill -INT "$server" 2>/dev/null
    wait "$server"
"#;

/// A server that test processes share.
pub(crate) struct Shared {
    /// Names its folder.
    pub(crate) name: &'static str,
    /// Makes what the server needs in this folder and gives its command line.
    pub(crate) prepare: fn(&Path, u16) -> Result<Vec<String>, Failure>,
    /// Its address.
    pub(crate) url: fn(u16) -> String,
}

/// The address that `variable` names, else that of a server that this process shares with the others.
#[expect(clippy::disallowed_methods, reason = "how the test script hands over its servers")]
pub(crate) fn address_of(variable: &str, cell: &OnceLock<String>, server: &Shared) -> Result<String, Failure> {
    match std::env::var(variable) {
        Ok(url) => Ok(url),
        Err(_unset) => once(cell, server),
    }
}

fn once(cell: &OnceLock<String>, server: &Shared) -> Result<String, Failure> {
    if let Some(url) = cell.get() {
        return Ok(url.clone());
    }
    let url = join_or_start(server)?;
    Ok(cell.get_or_init(|| url).clone())
}

fn join_or_start(server: &Shared) -> Result<String, Failure> {
    let folder = std::env::temp_dir().join(format!("ambient-test-{}-{}", server.name, geteuid()));
    fs::create_dir_all(&folder)?;
    // Held for as long as this process lives: that is what keeps the server.
    let users = Flock::lock(open(&folder.join("users"))?, FlockArg::LockShared).map_err(|(_file, errno)| errno)?;
    std::mem::forget(users);
    let _starter =
        Flock::lock(open(&folder.join("starter"))?, FlockArg::LockExclusive).map_err(|(_file, errno)| errno)?;
    let noted = folder.join("url");
    if let Ok(url) = fs::read_to_string(&noted)
        && answers(&url)
    {
        return Ok(url);
    }
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let command = (server.prepare)(&folder, port)?;
    keep(&folder, &command)?;
    let url = (server.url)(port);
    #[expect(clippy::disallowed_methods, reason = "polls a server that starts, with a deadline")]
    for _look in 0..START_LIMIT.as_millis() / 50 {
        if answers(&url) {
            fs::write(&noted, &url)?;
            return Ok(url);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let log = fs::read_to_string(folder.join("server.log")).unwrap_or_default();
    Err(format!("the {} of the tests did not answer within {START_LIMIT:?}; it said: {log}", server.name).into())
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

/// Whether the server at this address takes a connection and is ready for more than that.
fn answers(url: &str) -> bool {
    let address = url.rsplit('@').next().unwrap_or(url).trim_start_matches("redis://");
    let address = address.split('/').next().unwrap_or(address);
    let Ok(mut stream) = std::net::TcpStream::connect(address) else { return false };
    let ready = |stream: &mut std::net::TcpStream, question: &[u8], answer: u8| {
        use std::io::{Read as _, Write as _};
        let mut first = [0; 1];
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(question)?;
        stream.read_exact(&mut first)?;
        Ok::<bool, io::Error>(first[0] == answer)
    };
    if url.starts_with("redis") {
        ready(&mut stream, b"PING\r\n", b'+').unwrap_or(false)
    } else {
        // A start message for user and database `ambient`; a server that is still starting answers `E` (error).
        let words = b"user\0ambient\0database\0postgres\0\0";
        let mut message = Vec::from(u32::try_from(words.len() + 8).unwrap_or_default().to_be_bytes());
        message.extend(196_608_u32.to_be_bytes());
        message.extend(words);
        ready(&mut stream, &message, b'R').unwrap_or(false)
    }
}

/// Starts the keeper, in a session of its own, with the lock file as its file 9.
#[expect(clippy::disallowed_methods, reason = "starts the servers of the tests")]
fn keep(folder: &Path, command: &[String]) -> Result<(), Failure> {
    let log = File::create(folder.join("keeper.log"))?;
    std::process::Command::new("setsid")
        .args(["sh", "-c", &format!("exec 9>>\"$1/users\"\n{KEEPER}"), "keeper"])
        .arg(folder)
        .args(command)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .map_err(|error| format!("`setsid` could not be started: {error}"))?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "prepares the servers of the tests")]
pub(crate) fn run(mut words: impl Iterator<Item = String>) -> Result<(), Failure> {
    let program = words.next().unwrap_or_default();
    let output = std::process::Command::new(&program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{program}` could not be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`{program}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}
