//! The beginning and the end of a stream, kept while it is read.
//!
//! Endless output costs no memory: what lies between is counted and forgotten. Text is decoded once, from the joined
//! bytes, so that a character which came in two pieces is whole, and where bytes are left out the cut lies between
//! characters.

use std::collections::VecDeque;

/// Most continuation bytes that a UTF-8 character can have behind its first one.
const MOST_CONTINUATIONS: usize = 3;

/// Keeps at most a limit of bytes of one stream.
#[derive(Debug)]
pub(crate) struct Capture {
    head: Vec<u8>,
    head_limit: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    total: u64,
}

impl Capture {
    /// Keeps `limit` bytes: half of them from the beginning, half from the end.
    pub(crate) fn new(limit: usize) -> Self {
        let head_limit = limit.div_ceil(2);
        Self { head: Vec::new(), head_limit, tail: VecDeque::new(), tail_limit: limit - head_limit, total: 0 }
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let to_head = bytes.len().min(self.head_limit - self.head.len());
        let (first, rest) = bytes.split_at(to_head);
        self.head.extend_from_slice(first);
        // Only the end of a large piece can stay in the tail.
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// Bytes that came so far, kept or not.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The text, with a mark where bytes were left out, and how many those are.
    pub(crate) fn finish(mut self) -> (String, u64) {
        let kept = (self.head.len() + self.tail.len()) as u64;
        if self.total == kept {
            self.head.extend(&self.tail);
            return (String::from_utf8_lossy(&self.head).into_owned(), 0);
        }
        let head = without_cut_end(&self.head);
        let tail = without_cut_start(self.tail.make_contiguous());
        let cut = self.total - (head.len() + tail.len()) as u64;
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
        (format!("{head}\n[… {cut} bytes left out …]\n{tail}"), cut)
    }
}

/// Without the beginning of a character whose rest was left out.
fn without_cut_end(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    // `error_len` is `None` exactly when the bytes end inside a character that is right so far.
    while let Err(error) = std::str::from_utf8(rest) {
        let bad = error.valid_up_to();
        match error.error_len() {
            None => return &bytes[..bytes.len() - (rest.len() - bad)],
            Some(length) => rest = &rest[bad + length..],
        }
    }
    bytes
}

/// Without the rest of a character whose beginning was left out.
fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let is_continuation = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let strays = bytes.iter().take(MOST_CONTINUATIONS).take_while(is_continuation).count();
    &bytes[strays..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(limit: usize, pieces: &[&[u8]]) -> (String, u64) {
        let mut capture = Capture::new(limit);
        for piece in pieces {
            capture.push(piece);
        }
        capture.finish()
    }

    #[test]
    fn a_character_in_two_pieces_is_whole() {
        assert_eq!(captured(100, &[b"a\xe7\x8c", b"\xab!"]), ("a猫!".to_owned(), 0));
    }

    #[test]
    fn head_and_tail_stay_and_the_middle_is_counted() {
        assert_eq!(captured(6, &[b"abc", b"defgh", b"ij"]), ("abc\n[… 4 bytes left out …]\nhij".to_owned(), 4));
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        let cats = "猫".repeat(100);
        for limit in 6..20 {
            let (text, cut) = captured(limit, &[cats.as_bytes()]);
            assert!(!text.contains('\u{fffd}'), "limit {limit}: {text}");
            assert_eq!(cut % 3, 0, "limit {limit}");
        }
    }

    #[test]
    fn half_a_character_at_the_very_end_is_shown_as_unreadable() {
        assert_eq!(captured(100, &[b"\xe7\x8c"]), ("\u{fffd}".to_owned(), 0));
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_no_byte_is_lost_uncounted(
            limit in 2_usize..64,
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..12),
        ) {
            let mut capture = Capture::new(limit);
            let mut whole = Vec::new();
            for piece in &pieces {
                capture.push(piece);
                whole.extend_from_slice(piece);
                prop_assert!(capture.head.len() + capture.tail.len() <= limit);
            }
            prop_assert_eq!(capture.total(), whole.len() as u64);
            let (text, cut) = capture.finish();
            if whole.len() <= limit {
                prop_assert_eq!(cut, 0);
                prop_assert_eq!(text, String::from_utf8_lossy(&whole).into_owned());
            } else {
                prop_assert!(cut >= (whole.len() - limit) as u64);
                prop_assert!(cut <= (whole.len() - limit) as u64 + 6);
            }
        }
    }
}
