//! A program in place of yt-dlp that replays what lies beside it; see its own head.

use std::os::unix::fs::PermissionsExt;

use camino::{Utf8Path, Utf8PathBuf};

/// See the module.
pub(crate) struct YtDlp {
    folder: Utf8PathBuf,
}

impl YtDlp {
    /// One whose downloads give this video.
    pub(crate) fn new(folder: &Utf8Path, video: &Utf8Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/media/tests/data/youtube");
        for name in ["yt-dlp", "info.json", "progress.txt"] {
            std::fs::copy(format!("{data}/{name}"), folder.join(name))?;
        }
        std::fs::copy(video, folder.join("video"))?;
        let it = Self { folder: folder.to_owned() };
        std::fs::set_permissions(it.program(), std::fs::Permissions::from_mode(0o700))?;
        Ok(it)
    }

    /// What to run.
    pub(crate) fn program(&self) -> Utf8PathBuf {
        self.folder.join("yt-dlp")
    }

    /// Says how the next calls go.
    pub(crate) fn put(&self, name: &str, content: &str) -> std::io::Result<()> {
        std::fs::write(self.folder.join(name), content)
    }

    /// Takes that back.
    pub(crate) fn remove(&self, name: &str) -> std::io::Result<()> {
        std::fs::remove_file(self.folder.join(name))
    }

    /// How often it was called.
    pub(crate) fn calls(&self) -> usize {
        let calls = std::fs::read_to_string(self.folder.join("calls")).unwrap_or_default();
        calls.lines().filter(|line| *line == "call").count()
    }

    /// The number of the process that a stuck download left behind, once it is there.
    pub(crate) fn grandchild(&self) -> Option<u32> {
        std::fs::read_to_string(self.folder.join("grandchild")).ok()?.trim().parse().ok()
    }
}

/// Whether a process is gone, or only waits for its parent to notice.
pub(crate) fn has_ended(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    matches!(state, None | Some("Z" | "X"))
}
