//! Removes a folder with all that is in it, however deep.
//!
//! What is below is moved to the top, a folder at a time, and emptied there: with two open folders and no recursion, and by names that hold no path.
//! Neither the stack nor memory, the limit of a path's length nor that of open files sets an end to it, and no link leads out of the folder.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, fchmod, fstat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::geteuid;

/// A folder and none that a link leads to.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes the folder and everything in it, also what its owner, when that is this process's user, took the rights to. Whoever writes to it meanwhile
/// can make it fail, and nothing more.
///
/// # Errors
/// What the system says; what had not been removed by then is left, not necessarily where it was.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let top = open(CWD, path)?;
    let mut lifted = Lifted::default();
    each(&top, |entry| {
        if !is_removed(&top, entry)? {
            clear(&top, entry.file_name(), &mut lifted)?;
        }
        while let Some(name) = lifted.next() {
            clear(&top, &name, &mut lifted)?;
        }
        Ok(())
    })?;
    std::fs::remove_dir(path)
}

/// The same; a folder that is not there is as good as removed.
///
/// # Errors
/// As [`remove_tree`].
pub fn remove_tree_if_there(path: &Path) -> io::Result<()> {
    match remove_tree(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Folders that were moved to the top, which are named by numbers: those that are still to be removed are the last ones.
#[derive(Debug, Default)]
struct Lifted {
    removed: u64,
    given: u64,
}

impl Lifted {
    fn name(number: u64) -> CString {
        CString::new(number.to_string()).unwrap_or_default()
    }

    /// A name for one more.
    fn give(&mut self) -> CString {
        self.given += 1;
        Self::name(self.given)
    }

    /// The one to be removed next.
    fn next(&mut self) -> Option<CString> {
        (self.removed < self.given).then(|| {
            self.removed += 1;
            Self::name(self.removed)
        })
    }
}

/// Removes a folder at the top. What is not empty in there is at the top then.
fn clear(top: &OwnedFd, name: &CStr, lifted: &mut Lifted) -> io::Result<()> {
    let folder = match open(top, name) {
        // A name that was given and not used: something else had it, which is or will be met by itself.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        outcome => outcome?,
    };
    each(&folder, |entry| {
        if !is_removed(&folder, entry)? {
            lift(&folder, entry.file_name(), top, lifted)?;
        }
        Ok(())
    })?;
    match unlinkat(top, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens a folder to be emptied.
fn open<P: Arg + Copy>(parent: impl AsFd, name: P) -> rustix::io::Result<OwnedFd> {
    let folder = match openat(&parent, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => {
            allow(&parent, name)?;
            openat(&parent, name, FOLDER, Mode::empty())
        }
        outcome => outcome,
    }?;
    let facts = fstat(&folder)?;
    if !Mode::from_raw_mode(facts.st_mode).contains(Mode::RWXU) && facts.st_uid == geteuid().as_raw() {
        fchmod(&folder, Mode::RWXU)?;
    }
    Ok(folder)
}

/// Gives the owner of a folder the rights to it. A link that came in its place is not followed, for which Linux, before 6.6, has no call: nor does its
/// `fchmod` take what was opened without rights.
#[cfg(target_os = "linux")]
fn allow<P: Arg>(parent: impl AsFd, name: P) -> rustix::io::Result<()> {
    use std::os::fd::AsRawFd as _;

    let place = openat(parent, name, FOLDER.union(OFlags::PATH), Mode::empty())?;
    rustix::fs::chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), Mode::RWXU)
}

#[cfg(not(target_os = "linux"))]
fn allow<P: Arg>(parent: impl AsFd, name: P) -> rustix::io::Result<()> {
    rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW)
}

/// Does something for each entry of a folder.
fn each(folder: &OwnedFd, mut work: impl FnMut(&DirEntry) -> io::Result<()>) -> io::Result<()> {
    let mut entries = Dir::read_from(folder)?;
    while let Some(entry) = entries.read() {
        let entry = entry?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            work(&entry)?;
        }
    }
    Ok(())
}

/// Removes an entry of a folder. `false` says that it is a folder which is not empty.
fn is_removed(folder: &OwnedFd, entry: &DirEntry) -> io::Result<bool> {
    let name = entry.file_name();
    let kind = match entry.file_type() {
        FileType::Unknown => FileType::from_raw_mode(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode),
        known => known,
    };
    let how = if kind == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    match unlinkat(folder, name, how) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Moves a folder to the top.
fn lift(folder: &OwnedFd, name: &CStr, top: &OwnedFd, lifted: &mut Lifted) -> rustix::io::Result<()> {
    loop {
        let free = lifted.give();
        let moved = match renameat(folder, name, top, &free) {
            Err(Errno::ACCESS) => {
                // The folder above it is noted in a folder: that needs the right to write to it.
                allow(folder, name)?;
                renameat(folder, name, top, &free)
            }
            outcome => outcome,
        };
        match moved {
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use rustix::fs::{CWD, Mode, mkdirat, openat};

    use super::{FOLDER, remove_tree, remove_tree_if_there};

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
    fn names_and_rights_are_no_matter() {
        let outside = tempfile::tempdir().unwrap();
        let top = outside.path().join("top");
        // The numbers are names that others have: of files, links, and folders full and empty, which are met before and after those that are moved.
        for branch in 0..40 {
            fs::create_dir_all(top.join(format!("{branch}/{branch}/1/2/3"))).unwrap();
            fs::create_dir_all(top.join(format!("a/{branch}/b/{branch}"))).unwrap();
            fs::create_dir(top.join((100 + branch).to_string())).unwrap();
            fs::write(top.join((200 + branch).to_string()), "a file").unwrap();
            std::os::unix::fs::symlink("a", top.join((300 + branch).to_string())).unwrap();
        }
        for shut in ["a/7/b/7", "a/7/b", "a/7", "a", "8/8/1/2", "8/8", ""] {
            fs::set_permissions(top.join(shut), fs::Permissions::from_mode(0o000)).unwrap();
        }
        remove_tree(&top).unwrap();
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
        remove_tree_if_there(&top).unwrap();
        remove_tree_if_there(&outside.path().join("other")).unwrap_err();
    }
}
