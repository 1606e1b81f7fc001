//! Answers that are packed while they are sent, if the client asks for it.
//!
//! The one thing to know before changing it: only answers that end are packed, those that are
//! marked [`Packable`]. Nothing is flushed before their end, so what a client follows would wait in
//! the packer.

use crate::http::coding::Coding;
use axum::body::{Body, BodyDataStream, Bytes, HttpBody as _};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::Stream;
use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Shorter answers are sent as they are: they fit into one packet.
const SHORTEST_BYTES: u64 = 1_000;
/// Both levels are the quickest that pack well: answers are sent once.
const GZIP_LEVEL: u32 = 1;
const ZSTD_LEVEL: i32 = 1;

/// Marks an answer that may be packed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packable;

/// How the client of a request wants its answer.
pub(crate) fn wish(method: &Method, headers: &HeaderMap) -> Option<Coding> {
    match *method == Method::HEAD {
        true => None,
        false => Coding::of_answer(headers),
    }
}

/// The answer, packed if it may be and if the client wants it.
pub(crate) fn pack(mut response: Response, wish: Option<Coding>) -> Response {
    if response.extensions_mut().remove::<Packable>().is_none() {
        return response;
    }
    let vary = HeaderValue::from_static("Accept-Encoding");
    response.headers_mut().append(header::VARY, vary);
    let is_short = response
        .body()
        .size_hint()
        .upper()
        .is_some_and(|length| length < SHORTEST_BYTES);
    let Some(coding) = wish.filter(|_| !is_short) else {
        return response;
    };
    let packer = match Packer::new(coding) {
        Ok(packer) => packer,
        Err(error) => {
            tracing::warn!(%error, "an answer is sent unpacked");
            return response;
        }
    };
    let (mut head, body) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers
        .insert(header::CONTENT_ENCODING, coding.value());
    let packed = PackedBody {
        source: body.into_data_stream(),
        packer: Some(packer),
    };
    Response::from_parts(head, Body::from_stream(packed))
}

enum Packer {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Packer {
    fn new(coding: Coding) -> io::Result<Packer> {
        Ok(match coding {
            Coding::Gzip => Packer::Gzip(GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL))),
            Coding::Zstd => {
                Packer::Zstd(zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?)
            }
        })
    }

    /// Takes bytes; returns the packed ones that are ready, perhaps none.
    fn take(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Packer::Gzip(encoder) => {
                encoder.write_all(bytes)?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Packer::Zstd(encoder) => {
                encoder.write_all(bytes)?;
                Ok(std::mem::take(encoder.get_mut()))
            }
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Packer::Gzip(encoder) => encoder.finish(),
            Packer::Zstd(encoder) => encoder.finish(),
        }
    }
}

/// The body of a packed answer. If the answer breaks off, so does this.
struct PackedBody {
    source: BodyDataStream,
    /// `None` at the end.
    packer: Option<Packer>,
}

impl Stream for PackedBody {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while let Some(packer) = &mut this.packer {
            let packed = match ready!(Pin::new(&mut this.source).poll_next(context)) {
                Some(Ok(bytes)) => packer.take(&bytes),
                Some(Err(error)) => Err(io::Error::other(error)),
                None => match this.packer.take() {
                    Some(packer) => packer.finish(),
                    None => break,
                },
            };
            match packed {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Poll::Ready(Some(Ok(bytes.into()))),
                Err(error) => {
                    this.packer = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Ready(None)
    }
}
