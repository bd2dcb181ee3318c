//! A request's body that tells how far it got, so that a slow connection can be told from a dead one.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use aws_sdk_s3::primitives::{ByteStream, SdkBody};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

/// How much is handed to the connection at a time; what it took counts as progress.
const FRAME_BYTES: usize = 64 << 10;

/// How much longer than between two pieces we wait for the answer: what the system still buffers has to leave first, and then a server may
/// have to put a large object together.
const ANSWER_FACTOR: u32 = 5;

/// When a request last moved.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    began: Instant,
    /// Milliseconds since `began`, and in the lowest bit whether the whole body has left.
    last: Arc<AtomicU64>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), last: Arc::default() }
    }

    /// The same for a request whose body is small and whose answer takes long.
    pub(super) fn whole(self) -> Self {
        self.moved(true);
        self
    }

    fn moved(&self, is_all: bool) {
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX >> 1);
        self.last.store(elapsed << 1 | u64::from(is_all), Ordering::Relaxed);
    }

    /// Comes back when nothing has moved for `limit`, or the answer has not come for some times that. Else never.
    pub(super) async fn stalled(&self, limit: Duration) {
        loop {
            let last = self.last.load(Ordering::Relaxed);
            tokio::time::sleep_until(self.began + given_up(last, limit)).await;
            if self.last.load(Ordering::Relaxed) == last {
                return;
            }
        }
    }

    /// A body of known content and length: the signature can cover it, and a second attempt can send it again.
    pub(super) fn watch(&self, bytes: Bytes) -> ByteStream {
        let progress = self.clone();
        let content = bytes.clone();
        let watched = move |_inner| {
            progress.moved(content.is_empty());
            SdkBody::from_body_1_x(Watched { rest: content.clone(), progress: progress.clone() })
        };
        ByteStream::new(SdkBody::from(bytes).map_preserve_contents(watched))
    }
}

/// How long after its beginning a request that moved last at `last` is given up.
fn given_up(last: u64, limit: Duration) -> Duration {
    let patience = if last & 1 == 1 { limit * ANSWER_FACTOR } else { limit };
    Duration::from_millis(last >> 1) + patience
}

/// A length in memory, as S3 counts.
pub(super) fn length_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("a length in memory fits")
}

struct Watched {
    rest: Bytes,
    progress: Progress,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.rest.len().min(FRAME_BYTES);
        if length == 0 {
            return Poll::Ready(None);
        }
        let piece = self.rest.split_to(length);
        self.progress.moved(self.rest.is_empty());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(length_of(&self.rest))
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_s3::primitives::SdkBody;
    use http_body_util::BodyExt;

    use super::*;

    const LIMIT: Duration = Duration::from_mins(1);

    #[test]
    fn the_answer_to_a_whole_body_may_take_longer_than_a_piece_of_it() {
        assert_eq!(given_up(0, LIMIT), LIMIT, "nothing moved yet");
        assert_eq!(given_up(40_000 << 1, LIMIT).as_secs(), 40 + 60);
        assert_eq!(given_up(40_000 << 1 | 1, LIMIT).as_secs(), 40 + 300);
    }

    #[tokio::test]
    async fn a_body_that_nobody_takes_is_stalled() {
        let progress = Progress::new();
        let _body = progress.watch(Bytes::from_static(b"never read"));
        progress.stalled(Duration::from_millis(1)).await;
    }

    #[tokio::test]
    async fn a_body_comes_in_pieces_with_its_length_known_and_can_be_sent_again() {
        let content = Bytes::from(vec![7; 3 * FRAME_BYTES + 5]);
        let progress = Progress::new();
        let body: SdkBody = progress.watch(content.clone()).into_inner();
        assert_eq!(body.bytes(), Some(&content[..]), "the signature needs the content");
        let again = body.try_clone().expect("a second attempt needs a second body");
        for mut body in [body, again] {
            assert_eq!(http_body::Body::size_hint(&body).exact(), Some(content.len() as u64));
            let mut received = Vec::new();
            while let Some(frame) = body.frame().await {
                let piece = frame.unwrap().into_data().unwrap();
                assert!(piece.len() <= FRAME_BYTES);
                received.extend(piece);
            }
            assert_eq!(received, content);
            assert_eq!(progress.last.load(Ordering::Relaxed) & 1, 1, "the whole body has left");
        }
    }
}
