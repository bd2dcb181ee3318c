//! Reads of one kind that come together are one read.
//!
//! While one read of the store is under way, further ones gather; the next read is for all of them at once. So a session
//! that many clients poll costs the database little, no answer is older than its request, and who comes alone waits for
//! nobody.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};

/// A read for many. Whoever waits for it drives it on, so it comes to its end as long as anybody does.
type Read<K, V> = Shared<BoxFuture<'static, Arc<HashMap<K, V>>>>;

type Reader<K, V> = Arc<dyn Fn(Vec<K>) -> BoxFuture<'static, HashMap<K, V>> + Send + Sync>;

/// Gathers reads of values by key. Cheap to clone.
pub struct Gather<K, V> {
    reader: Reader<K, V>,
    reads: Arc<Mutex<Reads<K, V>>>,
}

struct Reads<K, V> {
    /// The one that began last.
    last: Option<Read<K, V>>,
    /// The one that begins when that one ends, and what it is for.
    next: Option<(Read<K, V>, Vec<K>)>,
}

impl<K, V> Clone for Gather<K, V> {
    fn clone(&self) -> Self {
        Self { reader: Arc::clone(&self.reader), reads: Arc::clone(&self.reads) }
    }
}

impl<K, V> fmt::Debug for Gather<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gather")
    }
}

impl<K, V> Gather<K, V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Reads by `reader`, which is given each key once, and leaves out those that it finds nothing for.
    pub fn new<F>(reader: impl Fn(Vec<K>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = HashMap<K, V>> + Send + 'static,
    {
        let reads = Reads { last: None, next: None };
        Self { reader: Arc::new(move |keys| reader(keys).boxed()), reads: Arc::new(Mutex::new(reads)) }
    }

    fn reads(&self) -> MutexGuard<'_, Reads<K, V>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of this key, read after the call began.
    pub async fn get(&self, key: &K) -> Option<V> {
        self.join(key).await.get(key).cloned()
    }

    /// The next read, which is for this key too.
    fn join(&self, key: &K) -> Read<K, V> {
        let mut reads = self.reads();
        if let Some((read, keys)) = &mut reads.next {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
            return read.clone();
        }
        let (gather, before) = (self.clone(), reads.last.take());
        let read = async move {
            if let Some(before) = before {
                before.await;
            }
            // Those who were answered just now may ask again at once: they are let in first.
            tokio::task::yield_now().await;
            let keys = gather.begin();
            Arc::new((gather.reader)(keys).await)
        };
        let read = read.boxed().shared();
        reads.next = Some((read.clone(), vec![key.clone()]));
        read
    }

    /// The next read begins: what comes from now on is for another one.
    fn begin(&self) -> Vec<K> {
        let mut reads = self.reads();
        let (read, keys) = reads.next.take().unzip();
        reads.last = read;
        keys.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    /// Reads ten times the key, once somebody opens the gate for it; gives how many reads there were.
    fn gated() -> (Gather<u32, u32>, Arc<Semaphore>, Arc<AtomicUsize>) {
        let (gate, reads) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let (waits, counts) = (Arc::clone(&gate), Arc::clone(&reads));
        let gather = Gather::new(move |keys: Vec<u32>| {
            let gate = Arc::clone(&waits);
            counts.fetch_add(1, Ordering::SeqCst);
            async move {
                gate.acquire().await.unwrap().forget();
                keys.into_iter().filter(|key| *key < 100).map(|key| (key, key * 10)).collect()
            }
        });
        (gather, gate, reads)
    }

    #[tokio::test]
    async fn what_comes_while_one_reads_is_read_at_once() {
        let (gather, gate, reads) = gated();
        let mut first = Box::pin(gather.get(&7));
        assert!(futures::poll!(&mut first).is_pending());
        let keys: Vec<u32> = (0..50).map(|n| n % 5).collect();
        let others = join_all(keys.iter().map(|key| gather.get(key)));
        let open = async { gate.add_permits(2) };
        let (first, others, ()) = tokio::join!(first, others, open);
        assert_eq!(first, Some(70));
        assert_eq!(others, keys.iter().map(|key| Some(key * 10)).collect::<Vec<_>>());
        assert_eq!(reads.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn nobody_gets_what_was_read_before_he_came() {
        let (gather, gate, reads) = gated();
        for wanted in 1..4 {
            gate.add_permits(1);
            assert_eq!(gather.get(&1).await, Some(10));
            assert_eq!(reads.load(Ordering::SeqCst), wanted);
        }
        gate.add_permits(1);
        assert_eq!(gather.get(&100).await, None);
    }

    #[tokio::test]
    async fn a_reader_who_goes_away_leaves_nobody_waiting() {
        let (gather, gate, _reads) = gated();
        let mut first = Box::pin(gather.get(&1));
        assert!(futures::poll!(&mut first).is_pending());
        let mut second = Box::pin(gather.get(&2));
        assert!(futures::poll!(&mut second).is_pending());
        let third = gather.get(&3);
        drop(first);
        drop(second);
        gate.add_permits(2);
        assert_eq!(third.await, Some(30));
    }

    #[tokio::test]
    async fn nothing_is_kept_once_everybody_has_gone() {
        let (gather, gate, reads) = gated();
        let mut gone = Box::pin(gather.get(&1));
        assert!(futures::poll!(&mut gone).is_pending());
        drop(gone);
        gate.add_permits(3);
        assert_eq!(gather.get(&2).await, Some(20));
        assert_eq!(reads.load(Ordering::SeqCst), 1, "a read that had not begun is for both");
    }
}
