//! Videos that were downloaded whole, within a budget.
//!
//! Several processes may share the folder (each media command in a sandbox is one), so all that counts stands in it: a copy is a file whose name
//! says which content it is, its time of change says when it was used last, and whoever uses it holds a shared lock on it. A download has its
//! full length from the beginning and an exclusive lock, so that it counts before it has come. What nobody holds may be removed, the copy that
//! was not used for longest first.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use fs_err::OpenOptions;
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

use super::object::RemoteObject;
use crate::error::MediaError;
use crate::objects::{ObjectError, ObjectStore};

/// Copies end in this; a download ends in something else until it is whole.
const COPY: &str = ".copy";
const DOWNLOAD: &str = ".part";
/// Held while room is made, so that two downloads do not take the same room.
const GATE: &str = ".gate";
/// How often a process looks whether another one has finished a download or made room.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

const KEEP: &str = "keep a video of the bucket";

/// See the module.
#[derive(Debug)]
pub(super) struct Copies {
    folder: Utf8PathBuf,
    max_bytes: u64,
    /// One download of a name at a time in this process; those behind it find the copy.
    turns: Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

/// A whole video on this host. It stays at least as long as this is held.
#[derive(Debug)]
pub(crate) struct LocalCopy {
    path: Utf8PathBuf,
    /// Carries the shared lock.
    _held: File,
}

impl LocalCopy {
    pub(crate) fn path(&self) -> &Utf8Path {
        &self.path
    }

    pub(crate) async fn head(&self, bytes: usize) -> Result<Bytes, MediaError> {
        let file = fs_err::tokio::File::open(&self.path).await.map_err(MediaError::file(KEEP))?;
        let mut head = Vec::with_capacity(bytes);
        let limit = u64::try_from(bytes).expect("a few kilobytes");
        file.take(limit).read_to_end(&mut head).await.map_err(MediaError::file(KEEP))?;
        Ok(head.into())
    }
}

impl Copies {
    pub(super) fn new(folder: Utf8PathBuf, max_bytes: u64) -> Self {
        Self { folder, max_bytes, turns: Mutex::default() }
    }

    /// The copy of an object: the one that is there, or a new one.
    pub(super) async fn get(&self, store: &ObjectStore, object: &RemoteObject) -> Result<LocalCopy, MediaError> {
        let name = name_of(object);
        let turn = self.turn(&name);
        let _turn = turn.lock().await;
        fs_err::tokio::create_dir_all(&self.folder).await.map_err(MediaError::file(KEEP))?;
        let path = self.folder.join(format!("{name}{COPY}"));
        let size_bytes = object.size_bytes();
        loop {
            let there = path.clone();
            let found = blocking(move || hold(&there, size_bytes)).await?;
            if let Some(held) = found {
                return Ok(LocalCopy { path, _held: held });
            }
            let part = self.folder.join(format!("{name}{DOWNLOAD}"));
            // Another process may be at it; then its copy will do.
            let Some(room) = self.make_room(&part, size_bytes).await? else {
                tokio::time::sleep(LOOK_AGAIN).await;
                continue;
            };
            let facts = store.download(object.key(), &room.path).await?;
            if facts.mark.as_deref() != object.mark() || facts.size_bytes != size_bytes {
                return Err(object.replaced().into());
            }
            let target = path.clone();
            let held = blocking(move || room.finish(&target)).await?;
            tracing::info!(object.key = %object.key(), object.size_bytes = size_bytes, "a video of the bucket was downloaded whole");
            return Ok(LocalCopy { path, _held: held });
        }
    }

    fn turn(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().expect("nothing panics while it holds the lock");
        turns.retain(|_name, turn| turn.strong_count() > 0);
        let there = turns.get(name).and_then(Weak::upgrade);
        there.unwrap_or_else(|| {
            let turn = Arc::default();
            turns.insert(name.to_owned(), Arc::downgrade(&turn));
            turn
        })
    }

    /// Room for a download, which has its full length at once; `None` while another process downloads the same.
    async fn make_room(&self, part: &Utf8Path, size_bytes: u64) -> Result<Option<Room>, MediaError> {
        if size_bytes > self.max_bytes {
            return Err(self.no_room(size_bytes));
        }
        let (folder, part, max_bytes) = (self.folder.clone(), part.to_owned(), self.max_bytes);
        match blocking(move || reserve(&folder, part, size_bytes, max_bytes)).await? {
            Reserved::Room(room) => Ok(Some(room)),
            Reserved::Busy => Ok(None),
            Reserved::Full => Err(self.no_room(size_bytes)),
        }
    }

    fn no_room(&self, needed_bytes: u64) -> MediaError {
        MediaError::NoRoom { needed_bytes, limit_bytes: self.max_bytes }
    }
}

/// The beginning of a download. Dropped before it is finished, it leaves nothing.
#[derive(Debug)]
struct Room {
    path: Utf8PathBuf,
    file: Option<File>,
}

impl Room {
    /// Gives the download its name, and keeps it locked for reading.
    fn finish(mut self, target: &Utf8Path) -> io::Result<File> {
        fs_err::rename(&self.path, target)?;
        let file = self.file.take().ok_or_else(|| io::Error::other("the download was finished before"))?;
        file.lock_shared()?;
        Ok(file)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.file.is_some()
            && let Err(error) = fs_err::remove_file(&self.path)
        {
            tracing::warn!(media.path = %self.path, %error, "could not remove an unfinished download");
        }
    }
}

enum Reserved {
    Room(Room),
    /// Somebody else downloads the same.
    Busy,
    /// What is there is in use.
    Full,
}

/// A copy that is there, locked against removal and marked as used.
fn hold(path: &Utf8Path, size_bytes: u64) -> io::Result<Option<File>> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file.into_parts().0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    file.lock_shared()?;
    let is_whole = file.metadata()?.len() == size_bytes;
    // Between opening and locking it may have been removed.
    let is_there = path.exists();
    if !is_whole || !is_there {
        return Ok(None);
    }
    file.set_modified(SystemTime::now())?;
    Ok(Some(file))
}

fn reserve(folder: &Utf8Path, part: Utf8PathBuf, size_bytes: u64, max_bytes: u64) -> io::Result<Reserved> {
    let gate = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join(GATE))?.into_parts().0;
    gate.lock()?;
    let there = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&part)?.into_parts().0;
    if !is_free(&there)? {
        return Ok(Reserved::Busy);
    }
    // What a process that died has left there counts for nothing.
    there.set_len(0)?;
    let mut others = Vec::new();
    let mut taken = 0;
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let Ok(path) = Utf8PathBuf::from_path_buf(entry.path()) else { continue };
        let facts = entry.metadata()?;
        if path != part && (path.as_str().ends_with(COPY) || path.as_str().ends_with(DOWNLOAD)) {
            taken += facts.len();
            others.push((path.as_str().ends_with(COPY), facts.modified()?, facts.len(), path));
        }
    }
    // Downloads that nobody goes on with first, then copies, the one that was not used for longest first.
    others.sort();
    for (_is_copy, _used, bytes, path) in others {
        if taken.saturating_add(size_bytes) <= max_bytes {
            break;
        }
        let Ok(file) = File::open(&path) else { continue };
        if is_free(&file)? {
            fs_err::remove_file(&path)?;
            taken -= bytes;
            tracing::info!(media.path = %path, media.size_bytes = bytes, "a downloaded video made room for another one");
        }
    }
    if taken.saturating_add(size_bytes) > max_bytes {
        fs_err::remove_file(&part)?;
        return Ok(Reserved::Full);
    }
    there.set_len(size_bytes)?;
    Ok(Reserved::Room(Room { path: part, file: Some(there) }))
}

/// Whether nobody holds a file; from then on the caller does.
fn is_free(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn name_of(object: &RemoteObject) -> String {
    let mut name = String::with_capacity(32);
    for byte in Sha256::digest(object.identity()).iter().take(16) {
        write!(name, "{byte:02x}").expect("a string takes all text");
    }
    name
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, MediaError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(MediaError::file(KEEP)),
        Err(_broke_off) => Err(MediaError::BrokeOff),
    }
}

impl From<ObjectError> for MediaError {
    fn from(error: ObjectError) -> Self {
        Self::Bucket(Arc::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        _folder: tempfile::TempDir,
        folder: Utf8PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap();
            Self { folder: path, _folder: folder }
        }

        fn download(&self, name: &str, bytes: u64, max_bytes: u64) -> Reserved {
            reserve(&self.folder, self.folder.join(format!("{name}{DOWNLOAD}")), bytes, max_bytes).unwrap()
        }

        /// Downloads and finishes; gives the lock on the copy.
        fn copy(&self, name: &str, bytes: u64, max_bytes: u64) -> Option<File> {
            match self.download(name, bytes, max_bytes) {
                Reserved::Room(room) => Some(room.finish(&self.path(name)).unwrap()),
                Reserved::Busy | Reserved::Full => None,
            }
        }

        fn path(&self, name: &str) -> Utf8PathBuf {
            self.folder.join(format!("{name}{COPY}"))
        }

        fn age(&self, name: &str, seconds: u64) {
            let file = File::options().write(true).open(self.path(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
        }
    }

    #[test]
    fn what_was_not_used_for_longest_makes_room_and_the_budget_holds() {
        let place = Place::new();
        for (name, age) in [("old", 300), ("older", 500), ("used", 400)] {
            drop(place.copy(name, 30, 100).unwrap());
            place.age(name, age);
        }
        drop(hold(&place.path("used"), 30).unwrap().unwrap());
        drop(place.copy("new", 40, 100).unwrap());
        let is_there = |name: &str| place.path(name).exists();
        assert!(!is_there("older") && is_there("old") && is_there("used") && is_there("new"));
        drop(place.copy("large", 60, 100).unwrap());
        assert!(!is_there("old") && !is_there("used") && is_there("new") && is_there("large"));
    }

    #[test]
    fn what_is_in_use_stays() {
        let place = Place::new();
        let held = place.copy("held", 60, 100).unwrap();
        assert!(place.copy("another", 60, 100).is_none(), "there is no room beside what is in use");
        assert!(place.path("held").exists());
        assert!(!place.folder.join(format!("another{DOWNLOAD}")).exists());
        drop(held);
        assert!(place.copy("another", 60, 100).is_some());
        assert!(!place.path("held").exists());
    }

    #[test]
    fn a_download_under_way_counts_in_full_and_a_dead_one_does_not() {
        let place = Place::new();
        let under_way = place.download("first", 60, 100);
        let Reserved::Room(room) = under_way else { panic!("there is room") };
        assert!(matches!(place.download("first", 60, 100), Reserved::Busy), "somebody is at it");
        assert!(matches!(place.download("second", 60, 100), Reserved::Full));
        drop(room);
        fs_err::write(place.folder.join(format!("dead{DOWNLOAD}")), [0; 90]).unwrap();
        assert!(matches!(place.download("second", 60, 100), Reserved::Room(_)));
        let left: Vec<_> =
            place.folder.read_dir_utf8().unwrap().map(|entry| entry.unwrap().file_name().to_owned()).collect();
        assert_eq!(left, [GATE], "an unfinished download leaves nothing");
    }

    #[test]
    fn a_copy_of_the_wrong_size_is_none() {
        let place = Place::new();
        drop(place.copy("cut", 10, 100).unwrap());
        assert!(hold(&place.path("cut"), 11).unwrap().is_none());
        assert!(hold(&place.path("cut"), 10).unwrap().is_some());
        assert!(hold(&place.path("missing"), 10).unwrap().is_none());
    }
}
