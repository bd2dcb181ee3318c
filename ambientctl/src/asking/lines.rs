//! Lines of stdin, read beside everything else.

use std::io::{self, BufRead as _};

use tokio::sync::mpsc::{Receiver, channel};

/// Reads stdin from here on. The channel closes at its end; a line that is no text comes with what cannot be read replaced.
///
/// A thread of its own, since a read of a terminal cannot be given up: it ends with the process, and nothing waits for it.
pub(super) fn lines() -> Receiver<io::Result<String>> {
    // One line ahead at most: what is piped in waits in the pipe.
    let (sender, receiver) = channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n') {
            let is_end = line.is_err();
            let line = line.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
            if sender.blocking_send(line).is_err() || is_end {
                return;
            }
        }
    });
    receiver
}
