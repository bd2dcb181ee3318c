//! Folders of sessions on this host, and the check that a path stays in one.
//!
//! A session's workspace is the only place from which its tools read files: not the video folder, where other sessions'
//! videos are, and not the temporary folder. The operator may name further roots (`EXTERNAL_VIDEO_ALLOWED_ROOTS`).

use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};

use ambient_files::remove_tree_if_there;
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use fs_err::os::unix::fs as unix_fs;

use super::BackendError;
use super::shell::TEMPORARY;
use crate::ids::SessionId;

/// Nobody but the engine's user looks into a workspace.
const FOLDER_MODE: u32 = 0o700;
/// The bits that let somebody write to a file.
const WRITE_BITS: u32 = 0o222;

/// The workspaces of all sessions.
#[derive(Clone, Debug)]
pub(crate) struct Workspaces {
    root: Utf8PathBuf,
    extra_roots: Vec<Utf8PathBuf>,
}

impl Workspaces {
    /// Workspaces below `root`; `extra_roots` are readable for every session.
    pub(crate) fn new(root: Utf8PathBuf, extra_roots: Vec<Utf8PathBuf>) -> Self {
        Self { root, extra_roots }
    }

    /// Where the workspace of a session is, whether or not it exists.
    pub(crate) fn folder(&self, session: &SessionId) -> Utf8PathBuf {
        self.root.join(session.as_str())
    }

    /// Makes the workspace of a session, if it is not there.
    pub(crate) async fn open(&self, session: &SessionId) -> Result<Utf8PathBuf, BackendError> {
        let folder = self.folder(session);
        let temporary = folder.join(TEMPORARY);
        blocking(move || std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&temporary))
            .await
            .map_err(|error| unusable("made", &error))?;
        Ok(folder)
    }

    /// Puts the session's video into its workspace, read-only, without a copy of its bytes where the file system can.
    pub(crate) async fn link(&self, session: &SessionId, source: &Utf8Path) -> Result<Utf8PathBuf, BackendError> {
        let folder = self.open(session).await?;
        let link = folder.join(source.file_name().unwrap_or("source"));
        let (from, to) = (source.to_owned(), link.clone());
        blocking(move || put_link(&from, &to)).await.map_err(|error| unusable("filled", &error))?;
        Ok(link)
    }

    /// Removes the workspace with all it holds.
    pub(crate) async fn remove(&self, session: &SessionId) -> Result<(), BackendError> {
        remove_folder(self.folder(session)).await.map_err(|error| unusable("removed", &error))
    }

    /// The file that `text` names, with all links resolved: relative paths start in the workspace, and what lies outside
    /// is refused.
    ///
    /// # Errors
    /// [`BackendError::Path`] with what is wrong, to be put behind the name of the argument.
    pub(crate) async fn confine(&self, session: &SessionId, text: &str) -> Result<Utf8PathBuf, BackendError> {
        let refused = |reason: String| Err(BackendError::Path(reason));
        if text.trim().is_empty() || text.contains('\0') {
            return refused("must be a non-empty absolute file path".to_owned());
        }
        if text.contains("://") || text.starts_with('-') {
            return refused(format!("must be a local file path, not a URL/flag: `{}`", shown(text)));
        }
        let folder = self.open(session).await?;
        let wanted = normalised(&folder.join(text));
        let roots: Vec<Utf8PathBuf> = std::iter::once(&folder).chain(&self.extra_roots).cloned().collect();
        // Decided twice: on the text, so that nothing outside is even looked for, and on what is really there.
        let resolved = blocking(move || {
            let mut real_roots = Vec::new();
            for root in &roots {
                real_roots.extend(canonical(root).ok());
            }
            let is_inside = |path: &Utf8Path| roots.iter().chain(&real_roots).any(|root| path.starts_with(root));
            if !is_inside(&wanted) {
                return Ok(Found::Outside);
            }
            let Ok(path) = canonical(&wanted) else { return Ok(Found::Nothing) };
            if !real_roots.iter().any(|root| path.starts_with(root)) {
                return Ok(Found::Outside);
            }
            let is_file = fs_err::metadata(&path).is_ok_and(|facts| facts.is_file());
            Ok(if is_file { Found::File(path) } else { Found::Nothing })
        })
        .await
        .map_err(|error| unusable("read", &error))?;
        match resolved {
            Found::File(path) => Ok(path),
            Found::Nothing => refused(format!("does not exist or is not a file: `{}`", shown(text))),
            Found::Outside => refused(format!(
                "is outside the allowed roots: `{}`; give the path of a file in this session's workspace `{folder}`",
                shown(text)
            )),
        }
    }
}

enum Found {
    File(Utf8PathBuf),
    Nothing,
    Outside,
}

/// Removes a folder with all it holds; one that is not there is no fault.
pub(crate) async fn remove_folder(folder: Utf8PathBuf) -> std::io::Result<()> {
    blocking(move || {
        let named = |error: std::io::Error| std::io::Error::new(error.kind(), format!("`{folder}`: {error}"));
        remove_tree_if_there(folder.as_std_path()).map_err(named)
    })
    .await
}

/// A hard link shares the bytes and cannot be followed out of the workspace; between file systems there is none.
fn put_link(source: &Utf8Path, link: &Utf8Path) -> std::io::Result<()> {
    let facts = fs_err::metadata(source)?;
    if let Ok(there) = fs_err::metadata(link)
        && (there.dev(), there.ino()) == (facts.dev(), facts.ino())
    {
        return Ok(());
    }
    // A slip of a command must not write into the video; whoever owns it can still remove it.
    let mode = facts.permissions().mode();
    if mode & WRITE_BITS != 0 {
        fs_err::set_permissions(source, std::fs::Permissions::from_mode(mode & !WRITE_BITS))?;
    }
    match fs_err::remove_file(link) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let linked = fs_err::hard_link(source, link).or_else(|_other_file_system| unix_fs::symlink(source, link));
    match linked {
        // Two calls at once: the other one's link is as good.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome,
    }
}

fn canonical(path: &Utf8Path) -> std::io::Result<Utf8PathBuf> {
    let path = fs_err::canonicalize(path)?;
    Utf8PathBuf::from_path_buf(path).map_err(|_path| std::io::Error::other("the path is not UTF-8"))
}

/// Without `.` and `..`, by the text alone.
fn normalised(path: &Utf8Path) -> Utf8PathBuf {
    let mut out = Utf8PathBuf::new();
    for component in path.components() {
        match component {
            Utf8Component::ParentDir => {
                out.pop();
            }
            Utf8Component::CurDir => {}
            Utf8Component::Prefix(_) | Utf8Component::RootDir | Utf8Component::Normal(_) => out.push(component),
        }
    }
    out
}

/// A model's path, short enough for a message.
fn shown(text: &str) -> String {
    const MOST_CHARACTERS: usize = 200;
    text.chars().take(MOST_CHARACTERS).collect()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> std::io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(broke_off) => Err(std::io::Error::other(broke_off)),
    }
}

fn unusable(what: &str, error: &std::io::Error) -> BackendError {
    tracing::warn!(%error, "a session's workspace could not be {what}");
    BackendError::Media(format!("the session's workspace could not be {what} on this engine: {}", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(workspaces: &Workspaces, session: &SessionId, text: &str) -> String {
        match workspaces.confine(session, text).await {
            Err(BackendError::Path(reason)) => reason,
            other => panic!("`{text}` gave {other:?}"),
        }
    }

    #[tokio::test]
    async fn only_files_of_the_own_workspace_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        let (mine, other) = (SessionId::generate(), SessionId::generate());
        let workspaces = Workspaces::new(root.join("sessions"), Vec::new());
        let here = workspaces.open(&mine).await.unwrap();
        let there = workspaces.open(&other).await.unwrap();
        fs_err::write(root.join("secret.mp4"), "x").unwrap();
        fs_err::write(there.join("secret.mp4"), "x").unwrap();
        fs_err::create_dir(here.join("sub")).unwrap();
        fs_err::write(here.join("sub/a b.mp4"), "x").unwrap();
        unix_fs::symlink(root.join("secret.mp4"), here.join("link.mp4")).unwrap();
        unix_fs::symlink(&there, here.join("folder")).unwrap();
        assert_eq!(here.metadata().unwrap().permissions().mode() & 0o777, FOLDER_MODE);

        for good in ["sub/a b.mp4", "./sub/../sub/a b.mp4", here.join("sub/a b.mp4").as_str()] {
            assert_eq!(workspaces.confine(&mine, good).await.unwrap(), here.join("sub/a b.mp4"), "{good}");
        }
        let outside = [
            "link.mp4".to_owned(),
            "folder/secret.mp4".to_owned(),
            "../../secret.mp4".to_owned(),
            "../../missing.mp4".to_owned(),
            format!("../{other}/secret.mp4"),
            root.join("secret.mp4").into_string(),
            "/etc/passwd".to_owned(),
            "/proc/self/environ".to_owned(),
            format!("{here}x/secret.mp4"),
        ];
        for path in &outside {
            let reason = refused(&workspaces, &mine, path).await;
            assert!(reason.starts_with("is outside the allowed roots"), "{path}: {reason}");
        }
        assert!(refused(&workspaces, &mine, "sub").await.starts_with("does not exist or is not a file"));
        assert!(refused(&workspaces, &mine, "no.mp4").await.starts_with("does not exist or is not a file"));
        for flag in ["-i", "http://x/y.mp4", "file:///etc/passwd", "concat://x"] {
            assert!(refused(&workspaces, &mine, flag).await.starts_with("must be a local file path"), "{flag}");
        }
        assert!(refused(&workspaces, &mine, "  ").await.starts_with("must be a non-empty"));
    }

    #[tokio::test]
    async fn a_root_that_the_operator_named_is_readable() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        fs_err::create_dir(root.join("shared")).unwrap();
        fs_err::write(root.join("shared/a.mp4"), "x").unwrap();
        let workspaces = Workspaces::new(root.join("sessions"), vec![root.join("shared")]);
        let path = workspaces.confine(&SessionId::generate(), root.join("shared/a.mp4").as_str()).await.unwrap();
        assert_eq!(path, root.join("shared/a.mp4"));
    }

    #[tokio::test]
    async fn the_video_is_linked_read_only_and_survives_the_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        let source = root.join("vid_0123456789abcdef.mp4");
        fs_err::write(&source, "bytes").unwrap();
        let session = SessionId::generate();
        let workspaces = Workspaces::new(root.join("sessions"), Vec::new());
        let link = workspaces.link(&session, &source).await.unwrap();
        assert_eq!(workspaces.link(&session, &source).await.unwrap(), link);
        assert_eq!(fs_err::read_to_string(&link).unwrap(), "bytes");
        assert_eq!(link.metadata().unwrap().permissions().mode() & WRITE_BITS, 0);
        assert_eq!(workspaces.confine(&session, link.as_str()).await.unwrap(), link);

        fs_err::create_dir_all(workspaces.folder(&session).join("shut/inside")).unwrap();
        fs_err::set_permissions(workspaces.folder(&session).join("shut"), std::fs::Permissions::from_mode(0o000))
            .unwrap();
        workspaces.remove(&session).await.unwrap();
        workspaces.remove(&session).await.unwrap();
        assert!(!workspaces.folder(&session).exists());
        assert_eq!(fs_err::read_to_string(&source).unwrap(), "bytes");
    }

    #[tokio::test]
    async fn a_workspace_is_removed_however_deep_a_command_made_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        let session = SessionId::generate();
        let workspaces = Workspaces::new(root.join("sessions"), Vec::new());
        let here = workspaces.open(&session).await.unwrap();
        let (deep, over) = (here.join("deep"), here.join("over"));
        fs_err::create_dir(&deep).unwrap();
        // More levels than a process may open files, by default.
        for _level in 0..1500 {
            fs_err::create_dir(&over).unwrap();
            fs_err::rename(&deep, over.join("deep")).unwrap();
            fs_err::rename(&over, &deep).unwrap();
        }
        workspaces.remove(&session).await.unwrap();
        assert!(!here.exists());
    }
}
