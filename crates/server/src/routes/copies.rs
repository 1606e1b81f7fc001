//! `/backup` and `/dump/…`: everything that the server holds, for backups and for other engines.
//! A thread writes the body while it is sent, at the client's pace.
//!
//! The one thing to know: when the client is gone or stalls, its connection is dropped, and with it
//! the body. The thread then ends at its next piece, and frees what it holds: the snapshot, or the
//! files of the backup. A stop of the server does the same at once: a part of a copy is refused by
//! those who read it, and the client asks again.

use crate::http::connections::EndsWithServer;
use crate::http::error::ApiResult;
use crate::http::gate::Lane;
use crate::http::packed::Packable;
use crate::http::text::Params;
use crate::state::App;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::poll_fn;
use somersault::{Dump, Engine, EngineError};
use std::io::{self, Write};
use tokio::sync::mpsc;

/// Bytes of a piece.
const PIECE_BYTES: usize = 256 * 1024;
/// Pieces that wait for the client at most.
const PIECES_AHEAD: usize = 4;
const SN: HeaderName = HeaderName::from_static("somersault-sn");

/// `POST /backup`: the files of a data folder as a tar archive.
pub(crate) async fn backup(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let place = app.large_answer()?;
    let backup = app.run(Lane::Control, |engine| engine.backup()).await?;
    let position = backup.position();
    let body = written(place, move |out| backup.write_to(out));
    let mut response = Response::new(body);
    response.extensions_mut().insert(EndsWithServer);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-tar"),
    );
    headers.insert(
        HeaderName::from_static("somersault-position"),
        HeaderValue::from(position),
    );
    Ok(response)
}

/// `GET /dump/statements`: all stored statements at one snapshot, as N-Quads.
pub(crate) async fn statements(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let content_type = HeaderValue::from_static("application/n-quads");
    written_out(&app, content_type, |engine| engine.dump()).await
}

/// Sends all stored statements, as `begin` begins to write them out.
pub(crate) async fn written_out(
    app: &App,
    content_type: HeaderValue,
    begin: impl FnOnce(&Engine) -> Result<Dump, EngineError> + Send + 'static,
) -> ApiResult {
    let place = app.large_answer()?;
    let mut dump = app.run(Lane::Control, begin).await?;
    let sn = dump.sn();
    let body = written(place, move |out| dump.write_to(out));
    let mut response = Response::new(body);
    response.extensions_mut().insert(EndsWithServer);
    response.extensions_mut().insert(Packable);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(SN, HeaderValue::from(sn.0));
    Ok(response)
}

/// `GET /dump/declarations`: all streams and continuous queries, as statements.
pub(crate) async fn declarations(app: App, request: Request) -> ApiResult {
    Params::of(request.uri())?.only(&[])?;
    let text = app
        .run(Lane::Control, |engine| engine.declarations())
        .await?;
    let content_type = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    Ok((content_type, text).into_response())
}

/// A body that a thread writes. If that fails, the body breaks off visibly.
fn written(
    place: tokio::sync::OwnedSemaphorePermit,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> Body {
    let (sender, mut receiver) = mpsc::channel(PIECES_AHEAD);
    tokio::task::spawn_blocking(move || {
        let _place = place;
        let mut pieces = PieceWriter {
            sender,
            piece: Vec::with_capacity(PIECE_BYTES),
        };
        let outcome = write(&mut pieces).and_then(|()| pieces.flush());
        if let Err(error) = outcome
            && !pieces.sender.is_closed()
        {
            tracing::warn!(%error, "a backup or a dump could not be sent to its end");
            // A client that has gone meanwhile cannot be told.
            let _ = pieces.sender.blocking_send(Err(error));
        }
    });
    Body::from_stream(poll_fn(move |context| receiver.poll_recv(context)))
}

/// Hands what is written to the connection, piece by piece.
struct PieceWriter {
    sender: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        let sent = self.sender.blocking_send(Ok(piece.into()));
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the client has gone away"))
    }
}
