//! A body that is read while it comes: few of its bytes are in memory at one time.
//!
//! Before changing anything here: the reader is on a thread that may block, the body on one that
//! may not, and a channel is between them. A body has ended only if its end was sent: when the
//! client is gone, the channel closes without one, and its last bytes must not be taken for the
//! last message.

use crate::http::error::ApiError;
use axum::body::Bytes;
use std::io::{self, Read};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The parts of a body that may wait for the reader.
const PARTS: usize = 2;

/// A part of a body on its way to the reader.
pub(crate) enum FeedPart {
    Bytes(Bytes),
    /// The body is whole.
    End,
    /// It cannot be read on.
    Failed(ApiError),
}

/// The reader of a body.
pub(crate) struct BodyFeed {
    parts: Receiver<FeedPart>,
    rest: Bytes,
    has_ended: bool,
    failure: Option<ApiError>,
}

/// A reader, and the way to it.
pub(crate) fn body_feed() -> (Sender<FeedPart>, BodyFeed) {
    let (sender, parts) = channel(PARTS);
    let feed = BodyFeed {
        parts,
        rest: Bytes::new(),
        has_ended: false,
        failure: None,
    };
    (sender, feed)
}

impl BodyFeed {
    /// Why the body could not be read on, if it could not.
    pub(crate) fn take_failure(&mut self) -> Option<ApiError> {
        self.failure.take()
    }
}

impl Read for BodyFeed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() && !self.has_ended {
            match self.parts.blocking_recv() {
                Some(FeedPart::Bytes(bytes)) => self.rest = bytes,
                Some(FeedPart::End) => self.has_ended = true,
                Some(FeedPart::Failed(error)) => {
                    let text = error.to_string();
                    self.failure = Some(error);
                    return Err(io::Error::other(text));
                }
                None => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        let length = buffer.len().min(self.rest.len());
        buffer[..length].copy_from_slice(&self.rest.split_to(length));
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_without_its_end_is_an_error() {
        for is_whole in [true, false] {
            let (sender, mut feed) = body_feed();
            let part = FeedPart::Bytes(Bytes::from_static(b"whole"));
            assert!(sender.try_send(part).is_ok());
            if is_whole {
                assert!(sender.try_send(FeedPart::End).is_ok());
            }
            drop(sender);
            let mut text = String::new();
            assert_eq!(feed.read_to_string(&mut text).is_ok(), is_whole);
            assert_eq!(text, "whole");
        }
    }
}
