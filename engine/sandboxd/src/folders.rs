//! Where things lie below the data folder.
//!
//! ```text
//! lock                  held by the host that uses the folder
//! templates.json        templates, their tags and builds
//! l/NAME                layers: base roots, images, steps of builds
//! docker/               the same two of the Docker driver; a layer in there is the sign of an image
//! t/NAME                layers that are being made
//! f/TEAM/HASH           archives of COPY steps
//! s/ID/{u,w,r}          a sandbox: what it wrote, the overlay's own, where its root is mounted
//! s/ID/door             a container: where host and agent meet
//! run/ID                a sandbox's socket
//! ```
//!
//! Layers of one driver are nothing to the other, and so neither are templates; base roots and archives are.
//! Names are short because the kernel takes one page of them when it mounts the layers of a root.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use ambient_files::remove_tree;
use camino::{Utf8Path, Utf8PathBuf};
use nix::fcntl::{Flock, FlockArg};

use crate::driver::Driver;

/// The data folder, locked for this host.
#[derive(Debug)]
pub(crate) struct Folders {
    root: Utf8PathBuf,
    /// Where templates and layers are.
    kept: Utf8PathBuf,
    run: std::fs::File,
    _lock: Flock<std::fs::File>,
}

/// Why the data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderFailure {
    #[error("another host uses `{0}`")]
    InUse(Utf8PathBuf),
    #[error("cannot use the data folder `{folder}`")]
    Io {
        folder: Utf8PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Folders {
    /// Makes what is missing and takes the lock.
    pub(crate) fn open(root: &Utf8Path, driver: &Driver) -> Result<Self, FolderFailure> {
        let failed = |source| FolderFailure::Io { folder: root.to_owned(), source };
        let kept = match driver {
            Driver::Namespace => "",
            Driver::Docker { .. } => "docker",
        };
        for folder in ["", "l", "t", "f", "s", "run"].map(|name| root.join(name)) {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        std::fs::create_dir_all(root.join(kept).join("l")).map_err(failed)?;
        // Roots of sandboxes are in here, with programs that run as root: nobody else is to reach them.
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(root, private).map_err(failed)?;
        let root = root.canonicalize_utf8().map_err(failed)?;
        let lock = std::fs::File::create(root.join("lock")).map_err(failed)?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(|(_file, error)| match error {
            nix::errno::Errno::EWOULDBLOCK => FolderFailure::InUse(root.clone()),
            other => failed(other.into()),
        })?;
        let run = std::fs::File::open(root.join("run")).map_err(failed)?;
        Ok(Self { kept: root.join(kept), root, run, _lock: lock })
    }

    pub(crate) fn root(&self) -> &Utf8Path {
        &self.root
    }

    pub(crate) fn templates(&self) -> Utf8PathBuf {
        self.kept.join("templates.json")
    }

    pub(crate) fn layers(&self) -> Utf8PathBuf {
        self.kept.join("l")
    }

    /// Where base roots are, whatever the driver.
    pub(crate) fn roots(&self) -> Utf8PathBuf {
        self.root.join("l")
    }

    pub(crate) fn unfinished(&self) -> Utf8PathBuf {
        self.root.join("t")
    }

    pub(crate) fn archives(&self) -> Utf8PathBuf {
        self.root.join("f")
    }

    pub(crate) fn sandboxes(&self) -> Utf8PathBuf {
        self.root.join("s")
    }

    /// Removes what sandboxes and unfinished layers of an earlier host left. Mounts of a sandbox that is just ending are not seen from here,
    /// so there is nothing but files. What cannot be removed is no reason not to start.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for folder in [self.sandboxes(), self.unfinished(), self.root.join("run")] {
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                let path = entry.path();
                let removed =
                    if entry.file_type()?.is_dir() { remove_tree(&path) } else { std::fs::remove_file(&path) };
                if let Err(error) = removed {
                    tracing::warn!(%error, path = %path.display(), "what an earlier host left stays");
                }
            }
        }
        Ok(())
    }

    /// The socket of a sandbox, by a path that is short enough for an address however deep the data folder is.
    pub(crate) fn socket(&self, id: &str) -> String {
        format!("/proc/self/fd/{}/{id}", self.run.as_fd().as_raw_fd())
    }
}
