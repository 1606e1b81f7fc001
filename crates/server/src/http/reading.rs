//! Reading a document or a push after its body has arrived, which may take long: a few kilobytes of
//! RDF/XML or JSON-LD can take a parser seconds. So it happens on threads that may block, a few
//! long ones at a time, and it ends when the client is gone or the time is up.
//!
//! The one thing to know before changing it: parsers read the bytes through [`Reading::reader`],
//! which is where reading ends early. A parser may have read far before its first statement.

use crate::http::error::{ApiError, ApiResult};
use crate::http::rdf::syntax_error;
use axum::http::StatusCode;
use oxrdfio::{RdfFormat, RdfParseError};
use somersault::{CancelToken, EngineError};
use std::fmt::Display;
use std::io::{self, Read};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// Longest bodies that are read without a turn, in syntaxes that are read in one pass.
const SHORT_BYTES: usize = 4 << 20;
/// The same in other syntaxes.
const SHORT_COSTLY_BYTES: usize = 16 << 10;
/// Bytes that a parser gets at once.
const PIECE: usize = 4 << 10;

/// Whether reading a body may take long, so that few may be read at one time.
pub(crate) fn is_long(bytes: usize, format: RdfFormat) -> bool {
    use RdfFormat::{NQuads, NTriples, TriG, Turtle};
    match format {
        NQuads | NTriples | TriG | Turtle => bytes > SHORT_BYTES,
        _ => bytes > SHORT_COSTLY_BYTES,
    }
}

/// The reading of one body.
#[derive(Debug)]
pub(crate) struct Reading {
    gone: CancelToken,
    started: Instant,
    time: Duration,
    turn: Option<OwnedSemaphorePermit>,
}

impl Reading {
    /// Starts reading: `gone` is cancelled when the client no longer waits.
    pub(crate) fn start(
        gone: CancelToken,
        time: Duration,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Reading {
        Reading {
            gone,
            started: Instant::now(),
            time,
            turn,
        }
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// 422 after the time for a document; 503 if the client is gone, which it does not see.
    pub(crate) fn check(&self) -> ApiResult<()> {
        if self.gone.is_cancelled() {
            return Err(EngineError::Cancelled.into());
        }
        if self.started.elapsed() > self.time {
            return Err(ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "document_time",
                format!(
                    "Reading the body took more than {} s. Nothing of it was used; send it in parts, or in N-Triples or N-Quads.",
                    self.time.as_secs_f32()
                ),
            ));
        }
        Ok(())
    }

    /// Ends the turn of a body that is read; another one may begin.
    pub(crate) fn done(&mut self) {
        self.turn = None;
    }

    /// Returns a reader of the bytes that fails when [`Reading::check`] does.
    pub(crate) fn reader<'r>(&'r self, bytes: &'r [u8]) -> impl Read + 'r {
        Watched {
            reading: self,
            rest: bytes,
        }
    }

    /// Returns the reason for which the reader of a document failed, if it did.
    ///
    /// # Errors
    /// The error of the result, or that of [`Reading::check`].
    pub(crate) fn ended<T>(&self, result: Result<T, EngineError>) -> ApiResult<T> {
        result.map_err(|error| match error {
            EngineError::Io { .. } => self.failed(error),
            error => error.into(),
        })
    }

    /// Returns the reason for which a parser failed.
    pub(crate) fn refused(&self, error: RdfParseError) -> ApiError {
        match error {
            RdfParseError::Syntax(error) => syntax_error(&error),
            RdfParseError::Io(error) => self.failed(error),
        }
    }

    fn failed(&self, error: impl Display) -> ApiError {
        match self.check() {
            Err(ended) => ended,
            Ok(()) => ApiError::internal(error),
        }
    }
}

struct Watched<'r> {
    reading: &'r Reading,
    rest: &'r [u8],
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reading.check().map_err(io::Error::other)?;
        let length = buffer.len().min(PIECE);
        self.rest.read(&mut buffer[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ends_when_the_client_is_gone_or_the_time_is_up() {
        let gone = CancelToken::new();
        let reading = Reading::start(gone.clone(), Duration::from_secs(3600), None);
        let bytes = vec![b' '; 3 * PIECE];
        let mut reader = reading.reader(&bytes);
        let mut piece = vec![0; bytes.len()];
        assert_eq!(reader.read(&mut piece).expect("a piece"), PIECE);
        gone.cancel();
        assert!(reader.read(&mut piece).is_err());
        let late = Reading::start(CancelToken::new(), Duration::ZERO, None);
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(late.check().expect_err("late").status(), 422);
    }
}
