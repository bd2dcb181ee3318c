//! Removes a folder with all that is in it, however deep: what is in a sandbox is of its user's making.
//!
//! One level at a time, with two open folders and no recursion, and by names that hold no path: neither the stack nor the limit of a path's length
//! nor that of open files sets an end to it, and no link leads out of the folder.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

/// A folder and none that a link leads to.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What tells a folder from any other, as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

/// A folder that is being emptied, and the name in it of the one that comes first.
struct Above {
    identity: Identity,
    name: CString,
}

/// Removes the folder and everything in it. A failure leaves what had not been removed by then.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let mut folder = openat(CWD, path, FOLDER, Mode::empty())?;
    let mut above = Vec::new();
    loop {
        if let Some(name) = empty(&folder)? {
            let below = openat(&folder, &name, FOLDER, Mode::empty())?;
            above.push(Above { identity: identity(&folder)?, name });
            folder = below;
            continue;
        }
        let Some(Above { identity: wanted, name }) = above.pop() else { break };
        let parent = openat(&folder, c"..", FOLDER, Mode::empty())?;
        if identity(&parent)? != wanted {
            return Err(io::Error::other("a folder was moved while it was being removed"));
        }
        unlinkat(&parent, &name, AtFlags::REMOVEDIR)?;
        folder = parent;
    }
    drop(folder);
    std::fs::remove_dir(path)
}

fn identity(folder: &OwnedFd) -> io::Result<Identity> {
    let facts = fstat(folder)?;
    Ok(Identity { device: facts.st_dev, inode: facts.st_ino })
}

/// Removes what is in a folder, up to the first folder that is not empty: its name.
fn empty(folder: &OwnedFd) -> io::Result<Option<CString>> {
    let mut entries = Dir::read_from(folder)?;
    while let Some(entry) = entries.read() {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => FileType::from_raw_mode(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode),
            known => known,
        };
        let how = if kind == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match unlinkat(folder, name, how) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(Some(name.to_owned())),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::path::Path;

    use rustix::fs::{CWD, Mode, mkdirat, openat};

    use super::{FOLDER, remove_tree};

    /// Folders in each other.
    fn dig(top: &Path, depth: usize) {
        let mut folder = openat(CWD, top, FOLDER, Mode::empty()).unwrap();
        for _level in 0..depth {
            mkdirat(&folder, c"a folder", Mode::RWXU).unwrap();
            folder = openat(&folder, c"a folder", FOLDER, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn depth_sets_no_end() {
        let outside = tempfile::tempdir().unwrap();
        let top = outside.path().join("top");
        fs::create_dir(&top).unwrap();
        // With a frame of a kilobyte for each, or an open file, this would be far too deep.
        dig(&top, 3_000);
        let small = std::thread::Builder::new().stack_size(64 << 10);
        let removed = small.spawn({
            let top = top.clone();
            move || remove_tree(&top)
        });
        removed.unwrap().join().unwrap().unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn links_lead_nowhere() {
        let outside = tempfile::tempdir().unwrap();
        let (top, kept) = (outside.path().join("top"), outside.path().join("kept"));
        fs::create_dir_all(top.join("full/of/folders")).unwrap();
        fs::create_dir(top.join("full/empty")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "kept").unwrap();
        fs::write(top.join("full/file"), "gone").unwrap();
        for link in ["link", "full/link", "full/of/link"] {
            std::os::unix::fs::symlink(&kept, top.join(link)).unwrap();
        }
        std::os::unix::fs::symlink(&kept, outside.path().join("other")).unwrap();
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        remove_tree(&outside.path().join("other")).unwrap_err();
        assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "kept");
        assert_eq!(remove_tree(&top).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
