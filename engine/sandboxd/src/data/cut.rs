//! Answers that break when their sandbox stops running.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A body that ends in an error at the cut: the client sees a broken stream, not an end.
struct Cut<B> {
    inner: B,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// The same body, which breaks at the cut.
pub(super) fn body<B>(inner: B, cut: &CancellationToken) -> Body
where
    B: HttpBody<Data = Bytes, Error = hyper::Error> + Send + Unpin + 'static,
{
    Body::new(Cut { inner, cut: Box::pin(cut.clone().cancelled_owned()) })
}

impl<B: HttpBody<Data = Bytes, Error = hyper::Error> + Unpin> HttpBody for Cut<B> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.cut.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(io::Error::other("the sandbox stopped"))));
        }
        Pin::new(&mut self.inner).poll_frame(context).map_err(io::Error::other)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
