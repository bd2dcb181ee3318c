//! What a command leaves: its end and what it wrote, up to a limit.

use std::borrow::Cow;

use crate::protocol::process::ProcessEnd;

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code; -1 when a signal ended it.
    pub code: i32,
    /// Whether it ended by itself, not by a signal.
    pub exited: bool,
    /// The agent's words: `exit status 1`, `signal: killed`.
    pub status: String,
}

impl Exit {
    /// Whether it ended by itself with 0.
    pub fn is_success(&self) -> bool {
        self.exited && self.code == 0
    }
}

impl From<ProcessEnd> for Exit {
    fn from(end: ProcessEnd) -> Self {
        // Agents of old say nothing but the code of a command that ended well.
        let exited = end.exited || (end.exit_code == 0 && end.error.is_none() && !end.status.starts_with("signal"));
        Self { code: end.exit_code, exited, status: end.status }
    }
}

/// The beginning of one output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    bytes: Vec<u8>,
    dropped_bytes: u64,
}

impl Captured {
    /// The bytes that were kept.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many more came than were kept.
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    /// The text of what was kept. Where the limit cut a character, its beginning is left out; bytes that are no UTF-8 become U+FFFD.
    pub fn text(&self) -> Cow<'_, str> {
        let kept = match std::str::from_utf8(&self.bytes) {
            Err(error) if self.dropped_bytes > 0 && error.error_len().is_none() => &self.bytes[..error.valid_up_to()],
            _ => self.whole_characters(),
        };
        String::from_utf8_lossy(kept)
    }

    /// The same when broken bytes stand before the cut, so that the first error is not the cut's.
    fn whole_characters(&self) -> &[u8] {
        if self.dropped_bytes == 0 {
            return &self.bytes;
        }
        let last_start = self.bytes.iter().rposition(|byte| byte & 0b1100_0000 != 0b1000_0000).unwrap_or(0);
        match std::str::from_utf8(&self.bytes[last_start..]) {
            Err(error) if error.error_len().is_none() => &self.bytes[..last_start],
            _ => &self.bytes,
        }
    }

    fn push(&mut self, bytes: &[u8], limit: usize) {
        let room = limit.saturating_sub(self.bytes.len());
        let (kept, dropped) = bytes.split_at(room.min(bytes.len()));
        self.bytes.extend_from_slice(kept);
        self.dropped_bytes += dropped.len() as u64;
    }
}

/// Takes in what a command writes, up to a limit for each stream. What came before a command failed stays in it.
#[derive(Clone, Debug)]
pub struct Capture {
    stdout: Captured,
    stderr: Captured,
    limit: usize,
}

impl Capture {
    /// Keeps the first `limit` bytes of each stream.
    pub fn new(limit: usize) -> Self {
        Self { stdout: Captured::default(), stderr: Captured::default(), limit }
    }

    /// What came on standard output, or on the terminal.
    pub fn stdout(&self) -> &Captured {
        &self.stdout
    }

    /// What came on standard error.
    pub fn stderr(&self) -> &Captured {
        &self.stderr
    }

    pub(crate) fn push_stdout(&mut self, bytes: &[u8]) {
        self.stdout.push(bytes, self.limit);
    }

    pub(crate) fn push_stderr(&mut self, bytes: &[u8]) {
        self.stderr.push(bytes, self.limit);
    }

    /// What was taken in, together with the end.
    pub fn into_output(self, exit: Exit) -> Output {
        Output { exit, stdout: self.stdout, stderr: self.stderr }
    }
}

/// A command that ended, whatever its exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// What it wrote to standard output, or to its terminal.
    pub stdout: Captured,
    /// What it wrote to standard error.
    pub stderr: Captured,
}

impl Output {
    /// Whether it ended by itself with 0.
    pub fn is_success(&self) -> bool {
        self.exit.is_success()
    }
}

#[cfg(test)]
mod tests {
    use super::{Capture, Exit};
    use crate::protocol::process::ProcessEnd;

    #[test]
    fn what_is_over_the_limit_is_counted_and_never_cuts_a_character() {
        for (limit, text, dropped) in
            [(0, "", 7), (1, "a", 6), (2, "a", 5), (3, "a", 4), (4, "a猫", 3), (7, "a猫猫", 0), (9, "a猫猫", 0)]
        {
            let mut capture = Capture::new(limit);
            for piece in "a猫猫".as_bytes().chunks(2) {
                capture.push_stdout(piece);
            }
            assert_eq!((&*capture.stdout().text(), capture.stdout().dropped_bytes()), (text, dropped), "limit {limit}");
        }
    }

    #[test]
    fn broken_bytes_show_and_the_cut_does_not() {
        let mut capture = Capture::new(4);
        capture.push_stderr(b"\xffa\xe7\x8c\xab");
        assert_eq!(capture.stderr().text(), "\u{FFFD}a");
    }

    #[test]
    fn an_exit_is_read_with_what_is_left_out() {
        let end = |exit_code, exited, status: &str, error: Option<&str>| {
            Exit::from(ProcessEnd { exit_code, exited, status: status.into(), error: error.map(str::to_owned) })
        };
        assert!(end(0, true, "exit status 0", None).is_success());
        assert!(end(0, false, "", None).is_success());
        assert!(!end(1, true, "exit status 1", Some("exit status 1")).is_success());
        assert!(!end(-1, false, "signal: killed", Some("signal: killed")).exited);
    }
}
