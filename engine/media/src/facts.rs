//! Everything that operations need to know about one file, found out once and remembered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::container::Container;
use crate::header::{Audio, Header, Video};
use crate::index::{Index, Stamp};
use crate::source::{Identity, Opened};
use crate::time::MediaTime;

/// How many files are remembered; each takes some kilobytes.
const REMEMBERED_FILES: usize = 256;

/// How much shorter than promised a file may be before we call it cut off: headers round, and some writers promise a little too much.
pub(crate) const CUT_OFF_NANOS: i128 = 1_000_000_000;

/// Containers that count in milliseconds round the last picture and its length, so their end may be that much too early.
pub(crate) const ROUNDING: Duration = Duration::from_millis(5);

/// A file that has pictures.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) opened: Opened,
    pub(crate) header: Header,
    pub(crate) video: Video,
    /// The first and the last picture, in ticks.
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// All pictures, where the file is small enough to have been read whole.
    pub(crate) whole: Option<Arc<Index>>,
    /// Where the last picture ends.
    pub(crate) end: MediaTime,
    /// Where the longest stream ends.
    pub(crate) file_end: MediaTime,
    /// Where the sound ends, if there is any.
    pub(crate) sound: Option<(Audio, MediaTime)>,
    /// The length that the header claims, if the file ends well before.
    pub(crate) promised: Option<MediaTime>,
}

impl Facts {
    /// Whether a time lies past the last picture by more than the rounding of coarse time bases.
    pub(crate) fn is_past(&self, time: MediaTime) -> bool {
        time > self.end.plus(ROUNDING)
    }

    pub(crate) const fn container(&self) -> Container {
        self.opened.container
    }
}

/// When a stream's last packet ends, in nanoseconds of the file's clock.
pub(crate) fn end_of(stamps: &[Stamp], stream: u32, base: crate::time::TimeBase) -> Option<i128> {
    let ends = stamps.iter().filter(|stamp| stamp.stream == stream && !stamp.is_hidden);
    ends.filter_map(|stamp| Some(stamp.shown.or(stamp.decoded)?.saturating_add(stamp.length)))
        .max()
        .map(|end| base.nanos(end))
}

/// The files seen last. A changed file is another file.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<VecDeque<(Identity, Arc<Facts>)>>);

impl Memory {
    pub(crate) fn recall(&self, identity: &Identity) -> Option<Arc<Facts>> {
        let files = self.0.lock().expect("nothing panics while it holds the lock");
        files.iter().find(|(known, _facts)| known == identity).map(|(_known, facts)| Arc::clone(facts))
    }

    pub(crate) fn keep(&self, facts: &Arc<Facts>) {
        let identity = facts.opened.identity.clone();
        let mut files = self.0.lock().expect("nothing panics while it holds the lock");
        files.retain(|(known, _facts)| *known != identity);
        if files.len() == REMEMBERED_FILES {
            files.pop_front();
        }
        files.push_back((identity, Arc::clone(facts)));
    }
}
