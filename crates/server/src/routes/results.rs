//! Sending answers. An answer that fits into one piece is sent with its length. A larger one is
//! sent piece by piece, and each piece is written when the socket has taken the one before: the
//! client sets the pace, and neither a thread nor the whole text waits for it. If writing fails,
//! the response breaks off visibly.

use crate::http::error::{ApiError, ApiResult};
use crate::http::negotiate::{
    Accept, DATASET_OFFERS, Offer, RDF_OFFERS, RESULT_OFFERS, ResultFormat,
};
use crate::http::packed::Packable;
use crate::state::App;
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use oxrdfio::RdfFormat;
use somersault::{Answer, AnswerError, AnswerKind, AnswerWriter, QueryResults, QueryResultsFormat};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::OwnedSemaphorePermit;

/// Largest answer that is sent in one piece, in bytes.
const WHOLE_BYTES: usize = 256 * 1024;
/// Bytes that are written before the first is sent, for a format that cannot express every answer:
/// the answer may prove inexpressible, and then the response must be an error. A longer answer is
/// first written to nowhere to find out.
const TRIED_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a larger answer that are written at a time. That takes a fraction of a millisecond.
const PIECE_BYTES: usize = 64 * 1024;
/// Pieces after which other connections have their turn, however fast the client takes them.
const PIECES_IN_A_ROW: u32 = 4;

/// The format of an answer, chosen once the answer's shape is known.
#[derive(Debug, Clone, Copy)]
enum Format {
    Results(Offer<ResultFormat>),
    Graph(Offer<RdfFormat>),
}

impl Format {
    fn choose(kind: AnswerKind, accept: &Accept) -> ApiResult<Format> {
        match kind {
            AnswerKind::Graph => accept
                .choose(RDF_OFFERS, "a graph (the answer of CONSTRUCT or DESCRIBE)")
                .map(Format::Graph),
            AnswerKind::Dataset => accept
                .choose(
                    DATASET_OFFERS,
                    "a dataset (the answer of CONSTRUCT with GRAPH in its template)",
                )
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

    /// Whether the format cannot express some answers, which must be found out before half of a
    /// large one is sent.
    fn may_not_hold_all(self) -> bool {
        match self {
            Format::Results(offer) => offer.format == ResultFormat::Sparql(QueryResultsFormat::Xml),
            Format::Graph(offer) => {
                matches!(offer.format, RdfFormat::JsonLd { .. } | RdfFormat::RdfXml)
            }
        }
    }

    /// Returns the 406 for an answer that the format cannot express. Writing to memory fails for no
    /// other reason.
    fn cannot_hold(self, error: &AnswerError) -> ApiError {
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

    fn writer(self, answer: &Answer) -> Result<AnswerWriter, AnswerError> {
        match self {
            Format::Results(offer) => match offer.format {
                ResultFormat::Sparql(format) => answer.results_writer(format),
                ResultFormat::Lines => answer.lines_writer(),
            },
            Format::Graph(offer) => answer.graph_writer(offer.format),
        }
    }

    fn try_all(self, answer: &Answer) -> Result<(), AnswerError> {
        match self {
            Format::Results(offer) => match offer.format {
                ResultFormat::Sparql(format) => answer.write_results(format, io::sink()),
                ResultFormat::Lines => Ok(()),
            },
            Format::Graph(offer) => answer.write_graph(offer.format, io::sink()),
        }
    }
}

fn names<F>(offers: &[Offer<F>]) -> Vec<&'static str> {
    offers.iter().map(|offer| offer.media_type).collect()
}

/// Refuses a request before it is evaluated, if the client accepts no format for any shape of
/// answer.
pub(crate) fn acceptable(accept: &Accept) -> ApiResult<()> {
    match accept.choose(RESULT_OFFERS, "the answer of SELECT or ASK") {
        Ok(_) => Ok(()),
        Err(error) => accept
            .choose(RDF_OFFERS, "a graph")
            .map(|_| ())
            .map_err(|_| error),
    }
}

/// An answer whose first piece is written. Made on the thread that ran the query.
#[derive(Debug)]
pub(crate) struct Prepared {
    format: Format,
    sn: u64,
    micros: u64,
    first: Vec<u8>,
    /// Writes the rest, if there is any.
    rest: Option<AnswerWriter>,
}

impl Prepared {
    /// # Errors
    /// 406 if the client accepts no format for the answer's shape, or if the chosen format cannot
    /// express something in the answer.
    pub(crate) fn new(results: QueryResults, accept: &Accept) -> ApiResult<Prepared> {
        Prepared::begin(results, accept)?.finish()
    }

    /// Writes only as much of an answer as an async worker has time for.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub(crate) fn begin(results: QueryResults, accept: &Accept) -> ApiResult<Partial> {
        let answer = results.answer;
        let format = Format::choose(answer.kind(), accept)?;
        let refused = |error| format.cannot_hold(&error);
        let mut writer = format.writer(&answer).map_err(refused)?;
        let mut first = Vec::with_capacity(writer.expected_bytes(WHOLE_BYTES));
        let more = writer
            .next_piece(&mut first, WHOLE_BYTES)
            .map_err(refused)?;
        let prepared = Prepared {
            format,
            sn: results.sn.0,
            micros: u64::try_from(results.execution.as_micros()).unwrap_or(u64::MAX),
            first,
            rest: more.then_some(writer),
        };
        Ok(Partial { answer, prepared })
    }

    /// Returns the response. A large body is written while it is sent.
    pub(crate) fn into_response(self, app: &App) -> ApiResult {
        let first = Bytes::from(self.first);
        let body = match self.rest {
            None if first.len() <= 2 * WHOLE_BYTES => Body::from(first),
            rest => Body::from_stream(Pieces::new(app, first, rest)?),
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, self.format.content_type());
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
        headers.insert(
            HeaderName::from_static("somersault-sn"),
            HeaderValue::from(self.sn),
        );
        headers.insert(
            HeaderName::from_static("somersault-execution-us"),
            HeaderValue::from(self.micros),
        );
        response.extensions_mut().insert(Packable);
        Ok(response)
    }
}

/// An answer that is prepared as far as a short time allows.
#[derive(Debug)]
pub(crate) struct Partial {
    answer: Answer,
    prepared: Prepared,
}

impl Partial {
    /// Whether finishing it would hold up an async worker for too long.
    pub(crate) fn is_long(&self) -> bool {
        self.prepared.rest.is_some() && self.prepared.format.may_not_hold_all()
    }

    /// Makes sure that the format can express the answer, for formats that may not.
    ///
    /// # Errors
    /// 406 if it cannot.
    pub(crate) fn finish(self) -> ApiResult<Prepared> {
        let Partial {
            answer,
            mut prepared,
        } = self;
        let format = prepared.format;
        let Some(mut writer) = prepared.rest.take_if(|_| format.may_not_hold_all()) else {
            return Ok(prepared);
        };
        let refused = |error| format.cannot_hold(&error);
        let mut piece = Vec::new();
        let mut more = true;
        while more && prepared.first.len() < TRIED_BYTES {
            more = writer
                .next_piece(&mut piece, WHOLE_BYTES)
                .map_err(refused)?;
            prepared.first.append(&mut piece);
        }
        if more {
            format.try_all(&answer).map_err(refused)?;
            prepared.rest = Some(writer);
        }
        Ok(prepared)
    }
}

/// The body of a large answer.
struct Pieces {
    /// A piece that is already written.
    first: Option<Bytes>,
    /// `None` when all is written or writing has failed.
    writer: Option<AnswerWriter>,
    turns: Turns,
    _place: OwnedSemaphorePermit,
}

impl Pieces {
    fn new(app: &App, first: Bytes, writer: Option<AnswerWriter>) -> ApiResult<Pieces> {
        let place = app.large_answer()?;
        Ok(Pieces {
            first: Some(first),
            writer,
            turns: Turns::default(),
            _place: place,
        })
    }

    fn next(&mut self) -> Option<io::Result<Bytes>> {
        let writer = self.writer.as_mut()?;
        let mut piece = Vec::with_capacity(writer.expected_bytes(PIECE_BYTES));
        match writer.next_piece(&mut piece, PIECE_BYTES) {
            Ok(true) => {}
            Ok(false) => self.writer = None,
            Err(error) => {
                tracing::warn!(%error, "an answer could not be written to its end");
                self.writer = None;
                return Some(Err(io::Error::other(error)));
            }
        }
        Some(Ok(piece.into()))
    }
}

impl Stream for Pieces {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        ready!(self.turns.poll_next(context));
        Poll::Ready(self.next())
    }
}

/// Counts pieces, and yields to other connections in between.
#[derive(Default)]
pub(crate) struct Turns {
    in_a_row: u32,
    /// Pending while other connections have their turn.
    others: Option<BoxFuture<'static, ()>>,
}

impl Turns {
    /// Completes when the next piece may be written.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.in_a_row == PIECES_IN_A_ROW {
            // A wake at this point would make the connection poll again at once (`repoll`). This
            // one comes after the runtime has looked at its other tasks.
            let others = (self.others).get_or_insert_with(|| Box::pin(tokio::task::yield_now()));
            ready!(others.as_mut().poll(context));
            self.others = None;
            self.in_a_row = 0;
        }
        self.in_a_row += 1;
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::repoll::Repoll;
    use axum::http::HeaderMap;
    use futures_util::future::poll_fn;
    use somersault::{Engine, EngineConfig};
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_few_long_rows_are_written_a_piece_at_a_time() {
        let engine = Engine::open(EngineConfig::default()).expect("opens");
        let long = "long ".repeat(10_000);
        let rows: String = (0..12)
            .map(|row| format!("<http://e/{row}> <http://e/p> \"{row} {long}\" . "))
            .collect();
        engine
            .update(&format!("INSERT DATA {{ {rows} }}"))
            .run()
            .expect("is taken");
        let begin = |media_type: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(media_type));
            let results = engine
                .query("SELECT ?o { ?s ?p ?o }")
                .run()
                .expect("answers");
            Prepared::begin(results, &Accept::from_headers(&headers)).expect("begins")
        };
        let xml = begin("application/sparql-results+xml");
        assert!(xml.is_long());
        assert!(xml.prepared.first.len() < WHOLE_BYTES + 2 * long.len());
        let xml = xml.finish().expect("XML holds it");
        assert!(xml.rest.is_none());
        assert!(xml.first.len() > 12 * long.len());
        // JSON expresses every answer, so nothing has to be found out before the first piece is
        // sent.
        let json = begin("application/sparql-results+json");
        assert!(!json.is_long());
        assert!(json.finish().expect("JSON holds it").rest.is_some());
    }

    #[test]
    fn others_have_their_turn_between_the_pieces() {
        const PIECES: usize = 5 * PIECES_IN_A_ROW as usize;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let trace = Arc::new(Mutex::new(String::new()));
        let note = |what: char| {
            let trace = Arc::clone(&trace);
            move || trace.lock().expect("no panic").push(what)
        };
        let piece = note('p');
        let connection = Repoll::new(async move {
            let mut turns = Turns::default();
            for _ in 0..PIECES {
                poll_fn(|context| turns.poll_next(context)).await;
                piece();
            }
        });
        let other = note('-');
        runtime.block_on(async {
            let connection = tokio::spawn(connection);
            while !connection.is_finished() {
                other();
                tokio::task::yield_now().await;
            }
            connection.await.expect("no panic");
        });
        let trace = trace.lock().expect("no panic");
        assert_eq!(trace.matches('p').count(), PIECES);
        let longest = trace.split('-').map(str::len).max();
        assert_eq!(longest, Some(PIECES_IN_A_ROW as usize), "{trace}");
    }
}
