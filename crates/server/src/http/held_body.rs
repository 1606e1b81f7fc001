//! An answer's body that holds something until it is sent, or its client has gone.

use axum::body::Body as AnyBody;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body, and what it holds.
#[derive(Debug)]
pub(crate) struct HeldBody<T> {
    inner: AnyBody,
    _held: T,
}

impl<T> HeldBody<T> {
    pub(crate) fn new(inner: AnyBody, held: T) -> HeldBody<T> {
        HeldBody { inner, _held: held }
    }
}

impl<T: Unpin> Body for HeldBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
