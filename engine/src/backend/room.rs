//! The room that outputs may take on disk, and what goes when they take more.
//!
//! What was not used for longest goes first, a whole wish at a time: its note, so that nobody finds it any more, then its
//! files. What was used a moment ago stays even if the limit is passed, since somebody is about to read it. A conversation
//! that still names a file that went is told so in words.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use camino::{Utf8Path, Utf8PathBuf};

use super::tiles;

/// Used within this time counts as in use.
const IN_USE: Duration = Duration::from_mins(10);
/// The disk is looked at again when so small a part of the limit was added.
const LOOK_AFTER_PART: u64 = 16;
/// Down to so many tenths of the limit, so that the next output does not begin it all again.
const DOWN_TO_TENTHS: u64 = 9;
/// Deeper folders are not of our making.
const DEPTH: usize = 4;

/// The limit, and what was added since the disk was looked at.
#[derive(Debug)]
pub(super) struct Room {
    limit_bytes: u64,
    added_bytes: AtomicU64,
}

/// The files of one wish.
#[derive(Debug)]
struct Group {
    /// The note that makes them one; without it they are left over from a crash.
    note: Option<Utf8PathBuf>,
    files: Vec<Utf8PathBuf>,
    bytes: u64,
    used: SystemTime,
}

impl Room {
    pub(super) fn new(limit_bytes: u64) -> Self {
        // Nobody knows yet what is there: the first output looks.
        Self { limit_bytes, added_bytes: AtomicU64::new(u64::MAX) }
    }

    /// Notes that outputs grew; `true` says that it is time for [`Self::make`].
    pub(super) fn grew(&self, bytes: u64) -> bool {
        let before = self
            .added_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |added| Some(added.saturating_add(bytes)));
        let added = before.unwrap_or_else(|added| added).saturating_add(bytes);
        let is_time = added > self.limit_bytes / LOOK_AFTER_PART;
        if is_time {
            self.added_bytes.store(0, Ordering::Relaxed);
        }
        is_time
    }

    /// Removes what is too much below these folders. Blocks.
    pub(super) fn make(&self, folders: &[Utf8PathBuf], now: SystemTime) {
        let mut groups = HashMap::new();
        for folder in folders {
            collect(folder, DEPTH, &mut groups);
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        let mut total: u64 = groups.iter().map(|group| group.bytes).sum();
        if total <= self.limit_bytes {
            return;
        }
        let wanted = self.limit_bytes / 10 * DOWN_TO_TENTHS;
        let (before, mut removed) = (total, 0_usize);
        groups.sort_by_key(|group| group.used);
        for group in groups {
            let is_in_use = now.duration_since(group.used).is_ok_and(|since| since < IN_USE);
            if total <= wanted || is_in_use {
                break;
            }
            for path in group.note.iter().chain(&group.files) {
                if let Err(error) = fs_err::remove_file(path) {
                    tracing::warn!(%error, "a media output could not be removed");
                }
            }
            total -= group.bytes;
            removed += 1;
        }
        tracing::info!(before_bytes = before, after_bytes = total, removed, "media outputs made room");
    }
}

/// Marks the files of a note as used just now.
pub(super) fn touch(note: &Utf8Path, now: SystemTime) {
    let touched = fs_err::OpenOptions::new().write(true).open(note).and_then(|file| file.file().set_modified(now));
    if let Err(error) = touched {
        tracing::debug!(%error, "the use of a media output was not noted");
    }
}

/// The note of an output file: what stands in its name before the number.
pub(super) fn note_of(file: &Utf8Path) -> Option<Utf8PathBuf> {
    let (name, _number) = file.file_stem()?.split_once('-')?;
    Some(file.with_file_name(format!("{name}.json")))
}

fn collect(folder: &Utf8Path, depth: usize, groups: &mut HashMap<Utf8PathBuf, Group>) {
    let Some(deeper) = depth.checked_sub(1) else { return };
    for entry in fs_err::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(path) = Utf8PathBuf::from_path_buf(entry.path()) else { continue };
        // Links are none of ours.
        let Ok(facts) = fs_err::symlink_metadata(&path) else { continue };
        if facts.is_dir() {
            // Tiles without a bucket are made once with much work, and are none of the outputs.
            if path.file_name() != Some(tiles::LOCAL) {
                collect(&path, deeper, groups);
            }
        } else if facts.is_file() {
            let is_note = path.extension() == Some("json");
            let Some(note) = (if is_note { Some(path.clone()) } else { note_of(&path) }) else { continue };
            let used = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let group = groups.entry(note).or_insert_with(|| Group {
                note: None,
                files: Vec::new(),
                bytes: 0,
                used: SystemTime::UNIX_EPOCH,
            });
            group.bytes += facts.len();
            group.used = group.used.max(used);
            if is_note { group.note = Some(path) } else { group.files.push(path) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Shelf {
        _folder: tempfile::TempDir,
        root: Utf8PathBuf,
        now: SystemTime,
    }

    impl Shelf {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let root = Utf8PathBuf::from_path_buf(folder.path().to_owned()).expect("UTF-8");
            fs_err::create_dir_all(root.join("vid/clips")).expect("a writable folder");
            Self { _folder: folder, root, now: SystemTime::now() }
        }

        fn put(&self, name: &str, minutes_ago: u64) {
            let used = self.now - Duration::from_mins(minutes_ago);
            for (path, bytes) in [(format!("{name}-0000.mp4"), 1000), (format!("{name}.json"), 0)] {
                let path = self.root.join("vid/clips").join(path);
                fs_err::write(&path, vec![0; bytes]).expect("a writable folder");
                touch(&path, used);
            }
        }

        fn left(&self, limit_bytes: u64) -> Vec<String> {
            Room::new(limit_bytes).make(std::slice::from_ref(&self.root), self.now);
            let files = fs_err::read_dir(self.root.join("vid/clips")).expect("it is there").flatten();
            let mut names: Vec<String> = files.filter_map(|file| file.file_name().into_string().ok()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn what_was_not_used_for_longest_goes_with_all_its_files() {
        let shelf = Shelf::new();
        for (name, minutes_ago) in [("aa", 30), ("bb", 60), ("cc", 20)] {
            shelf.put(name, minutes_ago);
        }
        assert_eq!(shelf.left(3000).len(), 6, "nothing goes while there is room");
        assert_eq!(shelf.left(2500), ["aa-0000.mp4", "aa.json", "cc-0000.mp4", "cc.json"]);
        assert_eq!(shelf.left(1500), ["cc-0000.mp4", "cc.json"]);
    }

    #[test]
    fn tiles_of_this_host_stay_and_those_of_the_bucket_go() {
        let shelf = Shelf::new();
        let files = ["tiles/manifest.json", "tiles/tile_00000.mp4", "fetched-tiles/vid_0.aa-tile_00000.mp4"];
        for name in files {
            let path = shelf.root.join("vid").join(name);
            fs_err::create_dir_all(path.parent().expect("a folder")).expect("a writable folder");
            fs_err::write(&path, vec![0; 1000]).expect("a writable folder");
            touch(&path, shelf.now - Duration::from_mins(30));
        }
        assert!(shelf.left(100).is_empty());
        assert_eq!(files.map(|name| shelf.root.join("vid").join(name).exists()), [true, true, false]);
    }

    #[test]
    fn what_is_in_use_stays_whatever_the_limit() {
        let shelf = Shelf::new();
        shelf.put("aa", 1);
        shelf.put("bb", 11);
        assert_eq!(shelf.left(0), ["aa-0000.mp4", "aa.json"]);
    }

    #[test]
    fn the_disk_is_looked_at_first_and_then_now_and_then() {
        let room = Room::new(16_000);
        assert!(room.grew(1));
        assert!(!room.grew(600));
        assert!(room.grew(600));
        assert!(!room.grew(600));
    }

    #[test]
    fn a_file_leads_to_its_note() {
        assert_eq!(note_of(Utf8Path::new("v/clips/ab12-0003.jpg")), Some("v/clips/ab12.json".into()));
        assert_eq!(note_of(Utf8Path::new("v/source.mp4")), None);
    }
}
