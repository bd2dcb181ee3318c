//! `filesystem.Filesystem`: what needs no file content. Acts with root's rights; what is made belongs to the user of the call.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ambient_e2b::protocol::connect::{Code, ConnectError};
use ambient_e2b::protocol::filesystem::{Entries, EntryAnswer, EntryInfo, ListDir, MoveEntry, PathRequest};
use ambient_e2b::protocol::process::Empty;
use ambient_files::remove_tree;

use super::entry::describe;
use super::paths;
use super::process::Ending;
use super::state::{Agent, Shared};
use super::users::User;

/// The path that a call means.
pub(super) fn resolve(path: &str, user: &User, agent: &Agent) -> Result<PathBuf, ConnectError> {
    paths::resolve(path, user, agent.default_workdir.as_deref())
        .map_err(|error| ConnectError::new(Code::InvalidArgument, error.to_string()))
}

/// Runs work that waits for the disk, off the one thread that serves.
pub(super) async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ConnectError> + Send + 'static,
) -> Result<T, ConnectError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|panic| Err(ConnectError::new(Code::Internal, format!("a file operation broke off: {panic}"))))
}

fn internal(what: &str, path: &Path, error: &io::Error) -> ConnectError {
    ConnectError::new(Code::Internal, format!("error {what} {}: {error}", path.display()))
}

/// `Stat`.
pub(super) async fn stat(agent: Shared, user: User, request: PathRequest) -> Result<EntryAnswer, ConnectError> {
    let path = resolve(&request.path, &user, &agent)?;
    on_disk(move || entry(&path).map(|entry| EntryAnswer { entry })).await
}

fn entry(path: &Path) -> Result<EntryInfo, ConnectError> {
    describe(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            ConnectError::new(Code::NotFound, format!("file not found: {}: {error}", path.display()))
        }
        _ => internal("getting info of", path, &error),
    })
}

/// `ListDir`.
pub(super) async fn list_dir(agent: Shared, user: User, request: ListDir) -> Result<Entries, ConnectError> {
    let path = resolve(&request.path, &user, &agent)?;
    let depth = request.depth.max(1);
    on_disk(move || {
        existing_folder(&path)?;
        let mut entries = Vec::new();
        list_below(&path, depth, &mut entries).map_err(|error| internal("listing", &path, &error))?;
        Ok(Entries { entries })
    })
    .await
}

/// An error unless a directory is there, through a link or not.
pub(super) fn existing_folder(path: &Path) -> Result<(), ConnectError> {
    match fs::metadata(path) {
        Ok(known) if known.is_dir() => Ok(()),
        Ok(_other) => {
            Err(ConnectError::new(Code::InvalidArgument, format!("path is not a directory: {}", path.display())))
        }
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(ConnectError::new(Code::NotFound, format!("path not found: {}: {error}", path.display())))
        }
        Err(error) => Err(internal("looking at", path, &error)),
    }
}

fn list_below(folder: &Path, depth: u32, entries: &mut Vec<EntryInfo>) -> io::Result<()> {
    let mut names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    for name in names {
        let path = folder.join(name);
        // Whatever goes while it is listed is not there.
        let Ok(entry) = describe(&path) else { continue };
        let goes_deeper = depth > 1 && fs::symlink_metadata(&path).is_ok_and(|known| known.is_dir());
        entries.push(entry);
        if goes_deeper {
            match list_below(&path, depth - 1, entries) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// `MakeDir`.
pub(super) async fn make_dir(agent: Shared, user: User, request: PathRequest) -> Result<EntryAnswer, ConnectError> {
    let path = resolve(&request.path, &user, &agent)?;
    on_disk(move || {
        match fs::metadata(&path) {
            Ok(known) if known.is_dir() => {
                let message = format!("directory already exists: {}", path.display());
                return Err(ConnectError::new(Code::AlreadyExists, message));
            }
            Ok(_other) => {
                let message = format!("path already exists but it is not a directory: {}", path.display());
                return Err(ConnectError::new(Code::InvalidArgument, message));
            }
            Err(_missing) => {}
        }
        make_folders(&path, &user).map_err(|error| made_nothing(&path, &error))?;
        entry(&path).map(|entry| EntryAnswer { entry })
    })
    .await
}

fn made_nothing(path: &Path, error: &io::Error) -> ConnectError {
    let code = if error.kind() == ErrorKind::NotADirectory { Code::InvalidArgument } else { Code::Internal };
    ConnectError::new(code, format!("error creating directory {}: {error}", path.display()))
}

/// Makes what is missing of a directory and gives it to the user.
pub(super) fn make_folders(path: &Path, user: &User) -> io::Result<()> {
    let missing: Vec<_> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    for folder in missing.into_iter().rev() {
        match fs::DirBuilder::new().mode(0o755).create(folder) {
            Ok(()) => chown(folder, Some(user.uid), Some(user.gid))?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    if fs::metadata(path)?.is_dir() { Ok(()) } else { Err(ErrorKind::NotADirectory.into()) }
}

/// `Move`.
pub(super) async fn move_entry(agent: Shared, user: User, request: MoveEntry) -> Result<EntryAnswer, ConnectError> {
    let source = resolve(&request.source, &user, &agent)?;
    let destination = resolve(&request.destination, &user, &agent)?;
    let (from, to) = (source.clone(), destination.clone());
    let renamed = on_disk(move || {
        if let Err(error) = fs::symlink_metadata(&from) {
            let message = format!("source file not found: {}: {error}", from.display());
            return Err(ConnectError::new(Code::NotFound, message));
        }
        if let Some(parent) = to.parent() {
            make_folders(parent, &user).map_err(|error| made_nothing(parent, &error))?;
        }
        match fs::rename(&from, &to) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::CrossesDevices => Ok(false),
            Err(error) => Err(internal("renaming", &from, &error)),
        }
    });
    if !renamed.await? {
        move_across(&agent, &source, &destination).await.map_err(|error| internal("moving", &source, &error))?;
    }
    on_disk(move || entry(&destination).map(|entry| EntryAnswer { entry })).await
}

/// The kernel renames no directory of a lower layer, and nothing into another file system (`/dev/shm`): `mv` copies then, with owners,
/// times and links.
async fn move_across(agent: &Agent, source: &Path, destination: &Path) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "a program of the sandbox, run in the sandbox")]
    let mut command = Command::new("/bin/mv");
    command.args(["-T", "--"]).arg(source).arg(destination).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match agent.processes.run(&mut command).await? {
        Ending::Exited(0) => Ok(()),
        other => Err(io::Error::other(format!("`mv` ended with {}", other.status()))),
    }
}

/// `Remove`.
pub(super) async fn remove(agent: Shared, user: User, request: PathRequest) -> Result<Empty, ConnectError> {
    let path = resolve(&request.path, &user, &agent)?;
    on_disk(move || {
        let removed = match fs::symlink_metadata(&path) {
            Ok(known) if known.is_dir() => remove_tree(&path),
            Ok(_other) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) => Ok(Empty {}),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(Empty {}),
            Err(error) => Err(internal("removing", &path, &error)),
        }
    })
    .await
}
