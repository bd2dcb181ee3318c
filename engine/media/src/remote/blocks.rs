//! Blocks of videos, the last ones in memory.
//!
//! Each program that opens a file reads its index first, and one operation starts several programs; so the same bytes are wanted again within
//! moments. A block that several want at once is fetched once, and one that nobody waits for any more comes to its end:
//! a program that seeks away leaves it to the next one.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;

use super::object::{Fetch, RemoteObject};

/// The size of a block: a request over a slow line brings enough, and a seek wastes little.
pub(super) const BLOCK_BYTES: u64 = 1 << 20;
/// How many blocks stay in memory: the index of a video of some hours, and what is being read.
const BLOCKS_KEPT: usize = 64;

type Cell = Arc<OnceCell<Bytes>>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Used last at the back.
    kept: Mutex<VecDeque<((u64, u64), Cell)>>,
    /// What is on its way.
    fetches: TaskTracker,
}

impl Blocks {
    /// The block with that number.
    pub(super) async fn block(&self, object: &Arc<RemoteObject>, number: u64) -> Result<Bytes, Fetch> {
        let cell = self.cell((object.id(), number));
        if let Some(block) = cell.get() {
            return Ok(block.clone());
        }
        let (object, range) = (Arc::clone(object), range_of(number, object.size_bytes()));
        let wanted = Arc::clone(&object);
        let fetch = async move { cell.get_or_try_init(|| object.fetch(range)).await.cloned() };
        let came = self.fetches.spawn(fetch).await;
        came.unwrap_or_else(|_panic| Err(Fetch::Failed(wanted.bad_answer("reading it broke off"))))
    }

    /// The place of a block, empty at first.
    fn cell(&self, name: (u64, u64)) -> Cell {
        let mut kept = self.kept.lock().expect("nothing panics while it holds the lock");
        let there = kept.iter().position(|(known, _cell)| *known == name);
        let entry = there.and_then(|at| kept.remove(at)).unwrap_or_else(|| (name, Cell::default()));
        let cell = Arc::clone(&entry.1);
        kept.push_back(entry);
        if kept.len() > BLOCKS_KEPT {
            kept.pop_front();
        }
        cell
    }
}

/// Which bytes a block holds.
pub(super) fn range_of(number: u64, size_bytes: u64) -> Range<u64> {
    let first = number * BLOCK_BYTES;
    first..size_bytes.min(first + BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_used_last_stay_and_memory_is_bounded() {
        let blocks = Blocks::default();
        let first = blocks.cell((0, 0));
        for number in 1..200 {
            blocks.cell((0, number));
            assert!(Arc::ptr_eq(&first, &blocks.cell((0, 0))), "used all the time");
        }
        let kept = blocks.kept.lock().unwrap();
        assert_eq!(kept.len(), BLOCKS_KEPT);
        assert!(!kept.iter().any(|(name, _cell)| *name == (0, 1)), "not used since");
    }

    #[test]
    fn blocks_cover_an_object_without_gap_or_overlap() {
        let size = 2 * BLOCK_BYTES + 7;
        let ranges: Vec<_> = (0..3).map(|number| range_of(number, size)).collect();
        assert_eq!(ranges, [0..BLOCK_BYTES, BLOCK_BYTES..2 * BLOCK_BYTES, 2 * BLOCK_BYTES..size]);
    }
}
