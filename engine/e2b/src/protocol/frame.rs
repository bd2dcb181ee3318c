//! The envelope around every message of a streamed RPC: one flag byte, four bytes of length (most significant first), the message.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use serde::Serialize;

use super::connect::EndOfStream;

/// Bytes in front of each message.
pub const FRAME_HEADER_BYTES: usize = 5;

const COMPRESSED: u8 = 0x01;
const END: u8 = 0x02;

/// One message of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message in JSON.
    Message(Bytes),
    /// The last frame: an [`EndOfStream`] in JSON.
    End(Bytes),
}

impl Frame {
    /// The frame of a message.
    pub fn message<T: Serialize>(message: &T) -> Result<Bytes, serde_json::Error> {
        Ok(encode_frame(false, &serde_json::to_vec(message)?))
    }

    /// The frame that ends a stream, well or with an error.
    pub fn end(end: &EndOfStream) -> Result<Bytes, serde_json::Error> {
        Ok(encode_frame(true, &serde_json::to_vec(end)?))
    }
}

/// Puts a payload into its envelope; `is_end` marks the last one.
pub fn encode_frame(is_end: bool, payload: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(FRAME_HEADER_BYTES + payload.len());
    frame.put_u8(if is_end { END } else { 0 });
    // A payload over 4 GiB is no message anybody could take; it would be cut off by the reader's limit whatever stands here.
    frame.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    frame.put_slice(payload);
    frame.freeze()
}

/// Why bytes are no frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A message longer than the reader takes.
    #[error("a message of {size} bytes, more than the {limit} that are taken")]
    TooLong {
        /// What the envelope says.
        size: usize,
        /// What the decoder takes.
        limit: usize,
    },
    /// A compressed message, which nobody asked for.
    #[error("a compressed message, though no compression was offered")]
    Compressed,
    /// Flags that the protocol does not know.
    #[error("a message with the unknown flags {flags:#04x}")]
    UnknownFlags {
        /// The flag byte.
        flags: u8,
    },
    /// Bytes after the end frame.
    #[error("bytes after the end of the stream")]
    AfterEnd,
    /// The stream stopped in the middle of a frame.
    #[error("the stream broke off in the middle of a message")]
    CutOff,
    /// The stream stopped between frames, but without its end frame.
    #[error("the stream broke off without its end")]
    NoEnd,
}

/// Puts frames together again, wherever the bytes were cut.
#[derive(Debug)]
pub struct FrameDecoder {
    pending: BytesMut,
    limit: usize,
    ended: bool,
}

impl FrameDecoder {
    /// A decoder that takes messages of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { pending: BytesMut::new(), limit, ended: false }
    }

    /// Adds what came next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole frame, or `None` when more bytes are needed. An error is final.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        if self.ended {
            return if self.pending.is_empty() { Ok(None) } else { Err(FrameError::AfterEnd) };
        }
        let Some((&[flags, a, b, c, d], _rest)) = self.pending.split_first_chunk::<FRAME_HEADER_BYTES>() else {
            return Ok(None);
        };
        let is_end = match flags {
            0 => false,
            END => true,
            flags if flags & COMPRESSED != 0 => return Err(FrameError::Compressed),
            flags => return Err(FrameError::UnknownFlags { flags }),
        };
        let size = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if size > self.limit {
            return Err(FrameError::TooLong { size, limit: self.limit });
        }
        if self.pending.len() < FRAME_HEADER_BYTES + size {
            self.pending.reserve(FRAME_HEADER_BYTES + size - self.pending.len());
            return Ok(None);
        }
        self.pending.advance(FRAME_HEADER_BYTES);
        let payload = self.pending.split_to(size).freeze();
        self.ended = is_end;
        Ok(Some(if is_end { Frame::End(payload) } else { Frame::Message(payload) }))
    }

    /// Whether the end frame has been taken.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// What to make of the connection's end: an error unless the end frame came before it.
    pub fn finish(&self) -> Result<(), FrameError> {
        match (self.ended, self.pending.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(FrameError::AfterEnd),
            (false, true) => Err(FrameError::NoEnd),
            (false, false) => Err(FrameError::CutOff),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::{any, prop, proptest};

    use super::{Frame, FrameDecoder, FrameError, encode_frame};

    fn read_all(decoder: &mut FrameDecoder) -> Result<Vec<Frame>, FrameError> {
        let mut frames = Vec::new();
        while let Some(frame) = decoder.next_frame()? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[test]
    fn a_frame_is_its_flag_its_length_and_its_bytes() {
        assert_eq!(&encode_frame(false, b"{}")[..], b"\0\0\0\0\x02{}");
        assert_eq!(&encode_frame(true, b"")[..], b"\x02\0\0\0\0");
    }

    #[test]
    fn a_stream_cut_at_any_byte_says_how_it_broke() {
        let whole = [encode_frame(false, b"{\"a\":1}"), encode_frame(false, b""), encode_frame(true, b"{}")].concat();
        for cut in 0..=whole.len() {
            let mut decoder = FrameDecoder::new(100);
            decoder.push(&whole[..cut]);
            let frames = read_all(&mut decoder).unwrap();
            let (expected, end) = match cut {
                0 => (0, Err(FrameError::NoEnd)),
                12 => (1, Err(FrameError::NoEnd)),
                17 => (2, Err(FrameError::NoEnd)),
                24 => (3, Ok(())),
                cut => (
                    if cut < 12 {
                        0
                    } else if cut < 17 {
                        1
                    } else {
                        2
                    },
                    Err(FrameError::CutOff),
                ),
            };
            assert_eq!((frames.len(), decoder.finish()), (expected, end), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for (bytes, error) in [
            (&b"\x01\0\0\0\0"[..], FrameError::Compressed),
            (b"\x03\0\0\0\0", FrameError::Compressed),
            (b"\x40\0\0\0\0", FrameError::UnknownFlags { flags: 0x40 }),
            (b"\0\0\0\0\x0b", FrameError::TooLong { size: 11, limit: 10 }),
            (b"\0\xff\xff\xff\xff", FrameError::TooLong { size: 0xffff_ffff, limit: 10 }),
            (b"<html", FrameError::UnknownFlags { flags: b'<' }),
        ] {
            let mut decoder = FrameDecoder::new(10);
            decoder.push(bytes);
            assert_eq!(decoder.next_frame(), Err(error), "{bytes:?}");
        }
    }

    #[test]
    fn nothing_may_follow_the_end() {
        let mut decoder = FrameDecoder::new(10);
        decoder.push(&encode_frame(true, b"{}"));
        decoder.push(b"\0");
        assert_eq!(decoder.next_frame(), Ok(Some(Frame::End(Bytes::from_static(b"{}")))));
        assert_eq!(decoder.next_frame(), Err(FrameError::AfterEnd));
        assert_eq!(decoder.finish(), Err(FrameError::AfterEnd));
    }

    proptest! {
        #[test]
        fn frames_come_back_however_they_are_cut(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            piece in 1_usize..20,
        ) {
            let mut bytes: Vec<u8> = payloads.iter().flat_map(|payload| encode_frame(false, payload)).collect();
            bytes.extend(encode_frame(true, b"{}"));
            let mut decoder = FrameDecoder::new(40);
            let mut frames = Vec::new();
            for part in bytes.chunks(piece) {
                decoder.push(part);
                frames.extend(read_all(&mut decoder).unwrap());
            }
            assert_eq!(decoder.finish(), Ok(()));
            let mut expected: Vec<Frame> = payloads.into_iter().map(|payload| Frame::Message(payload.into())).collect();
            expected.push(Frame::End(Bytes::from_static(b"{}")));
            assert_eq!(frames, expected);
        }
    }
}
