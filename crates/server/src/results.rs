//! Answers on their way out. A small one is written at once and sent with its length. A large one is
//! written by a blocking thread into a short queue of chunks, at the pace at which the client reads, so
//! that it is never in memory as a whole; if writing breaks off, so does the response, visibly.

use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::negotiate::{Accept, Offer, RDF_OFFERS, RESULT_OFFERS};
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use oxrdfio::RdfFormat;
use somersault::{Answer, AnswerKind, EngineError, QueryResults, QueryResultsFormat};
use std::io::{self, Write};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Up to this many rows an answer is written in one piece.
const WHOLE_ROWS: usize = 4096;
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks that wait for the client.
const CHUNKS_AHEAD: usize = 4;
/// Large answers that are sent at one time; each has a thread while it lasts.
pub(crate) const LARGE_ANSWERS: usize = 64;

/// The format that an answer will have, once its shape is known.
#[derive(Debug, Clone, Copy)]
enum Format {
    Results(Offer<QueryResultsFormat>),
    Graph(Offer<RdfFormat>),
}

impl Format {
    fn choose(kind: AnswerKind, accept: &Accept) -> ApiResult<Format> {
        match kind {
            AnswerKind::Graph => accept
                .choose(RDF_OFFERS, "a graph (the answer of CONSTRUCT or DESCRIBE)")
                .map(Format::Graph),
            AnswerKind::Solutions | AnswerKind::Boolean => accept
                .choose(RESULT_OFFERS, "the answer of SELECT or ASK")
                .map(Format::Results),
        }
    }

    fn content_type(self) -> HeaderValue {
        match self {
            Format::Results(offer) => offer.content_type(),
            Format::Graph(offer) => offer.content_type(),
        }
    }

    /// Whether there are graphs that the format cannot say: found out before a large one is half sent.
    fn may_not_hold_all(self) -> bool {
        matches!(self, Format::Graph(offer) if matches!(offer.format, RdfFormat::JsonLd { .. } | RdfFormat::RdfXml))
    }

    /// Writing to memory fails for one reason only: the format has no words for something in the answer.
    fn cannot_hold(self, error: &EngineError) -> ApiError {
        let (given, available) = match self {
            Format::Results(offer) => (offer.media_type, names(RESULT_OFFERS)),
            Format::Graph(offer) => (offer.media_type, names(RDF_OFFERS)),
        };
        ApiError::new(
            StatusCode::NOT_ACCEPTABLE,
            "not_acceptable",
            format!("This answer cannot be written as {given} ({error}). Ask for another of the media types in \"available\"."),
        )
        .detail("available", available)
    }

    fn write(self, answer: &Answer, writer: impl Write) -> Result<(), EngineError> {
        match self {
            Format::Results(offer) => answer.write_results(offer.format, writer),
            Format::Graph(offer) => answer.write_graph(offer.format, writer),
        }
    }
}

fn names<F>(offers: &[Offer<F>]) -> Vec<&'static str> {
    offers.iter().map(|offer| offer.media_type).collect()
}

/// Refuses before anything is evaluated when no answer of any shape could be accepted.
pub(crate) fn acceptable(accept: &Accept) -> ApiResult<()> {
    match accept.choose(RESULT_OFFERS, "the answer of SELECT or ASK") {
        Ok(_) => Ok(()),
        Err(error) => accept
            .choose(RDF_OFFERS, "a graph")
            .map(|_| ())
            .map_err(|_| error),
    }
}

/// An answer, chosen and where it is small already written. Made on the thread that ran the query.
#[derive(Debug)]
pub(crate) struct Prepared {
    results: QueryResults,
    format: Format,
    whole: Option<Vec<u8>>,
}

impl Prepared {
    /// # Errors
    /// 406 where the answer's shape comes in no format that the client accepts.
    pub(crate) fn new(results: QueryResults, accept: &Accept) -> ApiResult<Prepared> {
        let format = Format::choose(results.answer.kind(), accept)?;
        let whole = if results.answer.len() <= WHOLE_ROWS {
            let mut bytes = Vec::new();
            let wrote = format.write(&results.answer, &mut bytes);
            wrote.map_err(|error| format.cannot_hold(&error))?;
            Some(bytes)
        } else {
            if format.may_not_hold_all() {
                let wrote = format.write(&results.answer, io::sink());
                wrote.map_err(|error| format.cannot_hold(&error))?;
            }
            None
        };
        Ok(Prepared {
            results,
            format,
            whole,
        })
    }

    /// The response, of which a large body is still being written.
    pub(crate) async fn into_response(self, app: &App) -> ApiResult {
        let Prepared {
            results,
            format,
            whole,
        } = self;
        let body = match whole {
            Some(bytes) => Body::from(bytes),
            None => large_body(app, results.answer, format).await?,
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, format.content_type());
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
        headers.insert(
            HeaderName::from_static("somersault-sn"),
            HeaderValue::from(results.sn),
        );
        let micros = u64::try_from(results.execution.as_micros()).unwrap_or(u64::MAX);
        headers.insert(
            HeaderName::from_static("somersault-execution-us"),
            HeaderValue::from(micros),
        );
        Ok(response)
    }
}

enum Piece {
    Chunk(Bytes),
    /// The answer is complete. A queue that ends without this was broken off.
    End,
}

async fn large_body(app: &App, answer: Answer, format: Format) -> ApiResult<Body> {
    let permit = Arc::clone(&app.large_answers).try_acquire_owned().map_err(|_| {
        ApiError::busy(
            format!("This server is sending {LARGE_ANSWERS} large answers already. Try again in a few seconds, or ask for less with LIMIT."),
            5,
        )
    })?;
    let (pieces, queue) = mpsc::channel(CHUNKS_AHEAD);
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut writer = Chunks {
            buffer: Vec::with_capacity(CHUNK_BYTES),
            pieces,
        };
        match format.write(&answer, &mut writer) {
            Ok(()) => writer.finish(),
            Err(error) => tracing::debug!(%error, "an answer was not sent to its end"),
        }
    });
    let stream = futures_util::stream::unfold(Some(queue), |queue| async {
        let mut queue = queue?;
        match queue.recv().await {
            Some(Piece::Chunk(bytes)) => Some((Ok(bytes), Some(queue))),
            Some(Piece::End) => None,
            None => Some((
                Err(io::Error::other(
                    "the answer could not be written to its end",
                )),
                None,
            )),
        }
    });
    Ok(Body::from_stream(stream))
}

/// The places of large answers.
pub(crate) fn large_answer_places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(LARGE_ANSWERS))
}

/// Cuts what is written into chunks, and waits while the queue is full.
struct Chunks {
    buffer: Vec<u8>,
    pieces: mpsc::Sender<Piece>,
}

impl Chunks {
    fn pass_on(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK_BYTES));
        self.pieces
            .blocking_send(Piece::Chunk(bytes.into()))
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the client went away"))
    }

    fn finish(mut self) {
        if self.pass_on().is_ok() {
            let _ = self.pieces.blocking_send(Piece::End);
        }
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.pass_on()?;
        }
        Ok(bytes.len())
    }

    // A serialiser's flush asks for nothing here: chunks go out when they are full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
