//! Clips and pictures on disk, under names that come from what they are.
//!
//! The name holds the source and every parameter, so the same wish finds the same files and another wish never meets them.
//! A note beside the files says what they really hold; it is written last, so a wish that was cut off is made again. Two
//! equal wishes at once are made once.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use bytes::Bytes;
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::BackendError;
use super::room::{self, Room};
use crate::ids::VideoId;

/// Where media of sessions' own files are, below the root.
pub(super) const SESSION_MEDIA: &str = "session-media";

/// Changes when the same wish would give other files than before.
const FORMAT: u32 = 1;
/// Bytes of the hash that stand in a name.
const NAME_BYTES: usize = 16;

/// Outputs below one folder.
#[derive(Debug)]
pub(crate) struct Outputs {
    root: Utf8PathBuf,
    being_made: Mutex<HashMap<Utf8PathBuf, Weak<tokio::sync::Mutex<()>>>>,
    room: Arc<Room>,
}

/// A file as it came from the media work, and what kind it is.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) path: Utf8PathBuf,
    pub(crate) extension: &'static str,
}

/// What stands in a note: the names of the files, and what is to be known of them.
#[derive(Debug, Serialize, Deserialize)]
struct Note<T> {
    files: Vec<String>,
    facts: T,
}

impl Outputs {
    /// Outputs below `root`, which may take so much room; references are relative to it.
    pub(crate) fn new(root: Utf8PathBuf, limit_bytes: u64) -> Self {
        Self { root, being_made: Mutex::default(), room: Arc::new(Room::new(limit_bytes)) }
    }

    /// The files of a wish (their paths relative to the root) and what is known of them: found, or made by `make`.
    ///
    /// `folder` is relative to the root, and `wish` is all that decides what the files hold.
    pub(crate) async fn find_or_make<T, W, F>(
        &self,
        folder: &Utf8Path,
        wish: &W,
        stop: &CancellationToken,
        make: impl FnOnce() -> F + Send,
    ) -> Result<(Vec<Utf8PathBuf>, T), BackendError>
    where
        T: Serialize + DeserializeOwned + Send + Sync,
        W: Serialize + Sync,
        F: Future<Output = Result<(Vec<Fresh>, T), BackendError>> + Send,
    {
        let name = name_of(wish);
        let note = folder.join(format!("{name}.json"));
        let one_at_a_time = self.lock_of(&note);
        let _held = tokio::select! {
            () = stop.cancelled() => return Err(BackendError::Cancelled),
            held = one_at_a_time.lock() => held,
        };
        if let Some(Note { files, facts }) = self.read_note(&note).await {
            self.used(note).await;
            return Ok((files.iter().map(|file| folder.join(file)).collect(), facts));
        }
        let (fresh, facts) = make().await?;
        let files = self.keep(folder, &name, fresh).await.map_err(|error| unkept(&error))?;
        let paths: Vec<Utf8PathBuf> = files.iter().map(|file| folder.join(file)).collect();
        let kept = Note { files, facts };
        self.write_note(&note, &kept).await.map_err(|error| unkept(&error))?;
        self.make_room(&paths).await;
        Ok((paths, kept.facts))
    }

    /// Notes a use, so that what is used stays longest.
    async fn used(&self, note: Utf8PathBuf) {
        // File times are the system's, so the time to compare them with is too.
        let (note, now) = (self.root.join(note), SystemTime::now());
        let _touched = tokio::task::spawn_blocking(move || room::touch(&note, now)).await;
    }

    /// Removes what is too much, once enough was added.
    async fn make_room(&self, added: &[Utf8PathBuf]) {
        let mut bytes = 0;
        for path in added {
            bytes += fs_err::tokio::metadata(self.root.join(path)).await.map_or(0, |facts| facts.len());
        }
        if !self.room.grew(bytes) {
            return;
        }
        let (room, root, now) = (Arc::clone(&self.room), self.root.clone(), SystemTime::now());
        let making = tokio::task::spawn_blocking(move || room.make(&folders(&root), now));
        if making.await.is_err() {
            tracing::error!("making room for media outputs panicked");
        }
    }

    fn lock_of(&self, note: &Utf8Path) -> Arc<tokio::sync::Mutex<()>> {
        let mut being_made = self.being_made.lock().unwrap_or_else(PoisonError::into_inner);
        being_made.retain(|_note, lock| lock.strong_count() > 0);
        let there = being_made.get(note).and_then(Weak::upgrade);
        there.unwrap_or_else(|| {
            let lock = Arc::new(tokio::sync::Mutex::new(()));
            being_made.insert(note.to_owned(), Arc::downgrade(&lock));
            lock
        })
    }

    /// A note that reads back and whose files are all there.
    async fn read_note<T: DeserializeOwned>(&self, note: &Utf8Path) -> Option<Note<T>> {
        let text = fs_err::tokio::read(self.root.join(note)).await.ok()?;
        let found: Note<T> = serde_json::from_slice(&text).ok()?;
        let folder = self.root.join(note.parent()?);
        for file in &found.files {
            fs_err::tokio::metadata(folder.join(file)).await.ok().filter(std::fs::Metadata::is_file)?;
        }
        Some(found)
    }

    async fn keep(&self, folder: &Utf8Path, name: &str, fresh: Vec<Fresh>) -> std::io::Result<Vec<String>> {
        fs_err::tokio::create_dir_all(self.root.join(folder)).await?;
        let mut kept: Vec<String> = Vec::with_capacity(fresh.len());
        let mut moved: HashMap<Utf8PathBuf, String> = HashMap::new();
        for (number, file) in fresh.into_iter().enumerate() {
            // Two moments may share one picture and so one file.
            if let Some(already) = moved.get(&file.path) {
                kept.push(already.clone());
                continue;
            }
            let target = format!("{name}-{number:04}.{}", file.extension);
            fs_err::tokio::rename(&file.path, self.root.join(folder).join(&target)).await?;
            moved.insert(file.path, target.clone());
            kept.push(target);
        }
        Ok(kept)
    }

    async fn write_note<T: Serialize + Sync>(&self, note: &Utf8Path, kept: &Note<T>) -> std::io::Result<()> {
        let text = serde_json::to_vec(kept)?;
        let aside = self.root.join(format!("{note}.{:016x}", rand::random::<u64>()));
        fs_err::tokio::write(&aside, text).await?;
        fs_err::tokio::rename(aside, self.root.join(note)).await
    }

    /// The bytes of a file below the root.
    pub(crate) async fn read(&self, path: &Utf8Path) -> Result<Bytes, BackendError> {
        if !path.components().all(|component| matches!(component, Utf8Component::Normal(_))) {
            return Err(BackendError::Path(format!("the media reference `{path}` leaves the video folder")));
        }
        match fs_err::tokio::read(self.root.join(path)).await {
            Ok(bytes) => {
                if let Some(note) = room::note_of(path) {
                    self.used(note).await;
                }
                Ok(bytes.into())
            }
            Err(error) => {
                tracing::warn!(media.path = %path, %error, "a stored medium could not be read");
                Err(BackendError::Media(format!("the stored medium `{path}` could not be read: {}", error.kind())))
            }
        }
    }
}

/// Where outputs are: a folder for each video, and one for what sessions made of their own files. Videos themselves and
/// workspaces lie beside them.
fn folders(root: &Utf8Path) -> Vec<Utf8PathBuf> {
    let entries = fs_err::read_dir(root).into_iter().flatten().flatten();
    let paths = entries.filter_map(|entry| Utf8PathBuf::from_path_buf(entry.path()).ok());
    paths
        .filter(|path| path.is_dir())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default();
            name == SESSION_MEDIA || name.parse::<VideoId>().is_ok()
        })
        .collect()
}

fn name_of(wish: &impl Serialize) -> String {
    let text = serde_json::to_vec(&(FORMAT, wish)).expect("wishes are plain values with text for keys");
    let mut name = String::with_capacity(2 * NAME_BYTES);
    for byte in Sha256::digest(text).iter().take(NAME_BYTES) {
        write!(name, "{byte:02x}").expect("a string takes all text");
    }
    name
}

fn unkept(error: &std::io::Error) -> BackendError {
    tracing::warn!(%error, "a media output could not be kept");
    BackendError::Media(format!("the result could not be stored on this engine: {}", error.kind()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Place {
        _folder: tempfile::TempDir,
        root: Utf8PathBuf,
        outputs: Outputs,
        made: AtomicUsize,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let root = Utf8PathBuf::from_path_buf(folder.path().to_owned()).expect("UTF-8");
            Self { outputs: Outputs::new(root.clone(), u64::MAX), root, _folder: folder, made: AtomicUsize::new(0) }
        }

        async fn ask(&self, wish: &(f64, f64)) -> (Vec<Utf8PathBuf>, f64) {
            let make = || async {
                let number = self.made.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                let path = self.root.join(format!("fresh-{number}"));
                fs_err::write(&path, format!("{wish:?}")).expect("a writable folder");
                Ok((vec![Fresh { path: path.clone(), extension: "mp4" }, Fresh { path, extension: "mp4" }], wish.0))
            };
            let never = CancellationToken::new();
            self.outputs.find_or_make(Utf8Path::new("vid/clips"), wish, &never, make).await.expect("an output")
        }
    }

    #[tokio::test]
    async fn the_same_wish_is_made_once_even_at_once() {
        let place = Place::new();
        let wish = (1.0, 2.0);
        let (one, two) = tokio::join!(place.ask(&wish), place.ask(&wish));
        assert_eq!(one, two);
        assert_eq!(place.ask(&wish).await, one);
        assert_eq!(place.made.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn another_wish_has_other_files_and_a_lost_file_is_made_again() {
        let place = Place::new();
        let (one, _) = place.ask(&(1.0, 2.0)).await;
        let (two, facts) = place.ask(&(1.5, 2.0)).await;
        assert!((facts - 1.5).abs() < f64::EPSILON);
        assert_ne!(one, two);
        fs_err::remove_file(place.root.join(&one[0])).unwrap();
        let (again, _) = place.ask(&(1.0, 2.0)).await;
        assert_eq!(again, one);
        assert_eq!(place.made.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn a_reference_cannot_leave_the_folder() {
        let place = Place::new();
        for bad in ["../x", "/etc/passwd", "a/../../x"] {
            assert!(matches!(place.outputs.read(Utf8Path::new(bad)).await, Err(BackendError::Path(_))), "{bad}");
        }
        assert!(matches!(place.outputs.read(Utf8Path::new("missing")).await, Err(BackendError::Media(_))));
    }

    #[tokio::test]
    async fn waiting_for_an_equal_wish_ends_with_the_stop() {
        let place = Place::new();
        let wish = (1.0, 2.0);
        let lock = place.outputs.lock_of(Utf8Path::new(&format!("vid/clips/{}.json", name_of(&wish))));
        let _held = lock.lock().await;
        let stop = CancellationToken::new();
        stop.cancel();
        let make = || async { Ok((Vec::new(), 0.0)) };
        let outcome = place.outputs.find_or_make::<f64, _, _>(Utf8Path::new("vid/clips"), &wish, &stop, make).await;
        assert!(matches!(outcome, Err(BackendError::Cancelled)));
    }
}
