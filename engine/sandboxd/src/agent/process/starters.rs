//! Threads that start processes. They are there from the beginning: when a sandbox has no room for another process, it has none for another
//! thread either, and its user must still be able to have a process ended.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// How many start at a time.
const THREADS: usize = 4;

/// They make system calls, and read a few small files.
const STACK_BYTES: usize = 256 << 10;

type Start = Box<dyn FnOnce() + Send>;

/// The threads. They end when this is dropped.
#[derive(Debug)]
pub(in crate::agent) struct Starters(Sender<Start>);

impl Starters {
    /// Must be called within the runtime, which the threads' work then is in too.
    pub(in crate::agent) fn new() -> io::Result<Self> {
        let (sender, starts) = channel();
        let starts = Arc::new(Mutex::new(starts));
        for _ in 0..THREADS {
            let (starts, runtime) = (Arc::clone(&starts), Handle::current());
            let thread = thread::Builder::new().name("starter".to_owned()).stack_size(STACK_BYTES);
            thread.spawn(move || {
                let _within = runtime.enter();
                while let Some(start) = next(&starts) {
                    // Its caller hears of it, and the thread is there for the next one.
                    let _broke_off = catch_unwind(AssertUnwindSafe(start));
                }
            })?;
        }
        Ok(Self(sender))
    }

    /// Runs it on a thread that has nothing else to do. It goes on whether the caller waits or not; `None` says that it broke off.
    pub(super) async fn run<T: Send + 'static>(&self, start: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, started) = oneshot::channel();
        let start = Box::new(move || {
            let _nobody_may_wait_any_more = sender.send(start());
        });
        self.0.send(start).ok()?;
        started.await.ok()
    }
}

fn next(starts: &Mutex<Receiver<Start>>) -> Option<Start> {
    // One waits in the channel, the others for it to get something.
    starts.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::{Starters, THREADS};

    #[tokio::test]
    async fn a_start_that_breaks_off_takes_no_thread_along() {
        let starters = Starters::new().unwrap();
        for _ in 0..2 * THREADS {
            assert_eq!(starters.run(|| panic!("a fault of a start")).await, None::<()>);
        }
        assert_eq!(starters.run(|| "still there").await, Some("still there"));
    }

    #[tokio::test]
    async fn several_start_at_a_time() {
        let starters = Starters::new().unwrap();
        let all_there = Arc::new(Barrier::new(THREADS));
        let starts = (0..THREADS).map(|number| {
            let all_there = Arc::clone(&all_there);
            starters.run(move || {
                all_there.wait();
                number
            })
        });
        let started = futures::future::join_all(starts).await;
        assert_eq!(started, (0..THREADS).map(Some).collect::<Vec<_>>());
    }
}
