//! Open files that this process got from whoever started it, kept from what it starts.
//!
//! A shell or a supervisor may have left anything open: a socket, a folder of the machine. What runs in a sandbox, or for a shell of the
//! agent, could go on from there, past every root and every mount that was put before it.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::FdFlags;

/// Where the open files of the asking process are listed, on every system that this program is built for.
const LIST: &str = "/dev/fd";

/// The number of standard errors; what follows is extra.
const LAST_STANDARD: RawFd = 2;

/// Keeps them back from now on. Standard input, output and errors go on as they are.
pub(crate) fn keep_back() {
    // Without the list (nothing is mounted there) files stay as they are; there is no logging yet that could say so.
    let _as_before = mark();
}

#[expect(unsafe_code, reason = "these numbers come from a list, and belong to nobody in this program")]
fn mark() -> io::Result<()> {
    for entry in std::fs::read_dir(LIST)? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        if let Some(number) = number.filter(|number| *number > LAST_STANDARD) {
            // SAFETY: the process has one thread, which opened nothing since the list was read, so the number is not another file's;
            // one that is closed by now is refused.
            let file = unsafe { BorrowedFd::borrow_raw(number) };
            let _closed_by_now = rustix::io::fcntl_setfd(file, FdFlags::CLOEXEC);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

    use super::keep_back;

    #[test]
    fn a_file_that_was_left_open_is_not_passed_on() {
        let file = File::open("/").unwrap();
        fcntl_setfd(&file, FdFlags::empty()).unwrap();
        keep_back();
        assert_eq!(fcntl_getfd(&file).unwrap(), FdFlags::CLOEXEC);
        assert_eq!(fcntl_getfd(std::io::stderr()).unwrap(), FdFlags::empty());
    }
}
