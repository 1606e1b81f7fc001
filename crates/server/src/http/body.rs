//! Reads a request's body: at most the limit's bytes, at most the budget over all requests, only
//! while the client keeps sending, and only in encodings that the server understands.

use crate::config::ServerConfig;
use crate::http::coding::Coding;
use crate::http::error::{ApiError, ApiResult};
use crate::http::feed::{FeedPart, body_feed};
use crate::http::negotiate;
use crate::http::unpacked::{UnpackedFeed, unpack};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use futures_util::StreamExt as _;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes per permit of the budget's semaphore, so that its permits suffice for any budget.
const GRAIN: u64 = 4096;
/// Bytes that the server still reads and discards from a body that it refuses for its size. A
/// client that is cut off while it sends often never looks at the answer.
const LINGER_BYTES: u64 = 16 << 20;
/// The time for that.
pub(crate) const LINGER: Duration = Duration::from_secs(3);
/// Bytes of a form beside its query or update.
const FORM_FIELDS: u64 = 64 << 10;

/// The budget of bytes that all request bodies may occupy together.
#[derive(Debug, Clone)]
struct Budget(Arc<Semaphore>);

impl Budget {
    fn new(bytes: u64) -> Budget {
        let grains = usize::try_from(bytes.div_ceil(GRAIN)).unwrap_or(usize::MAX);
        Budget(Arc::new(Semaphore::new(
            grains.clamp(1, Semaphore::MAX_PERMITS),
        )))
    }

    fn take(&self, grains: u32) -> ApiResult<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_many_owned(grains).map_err(|_| {
            ApiError::busy("The request bodies that this server is reading use up its memory for bodies. Try again in a second, or send smaller bodies.", 1)
        })
    }
}

/// A body in memory. Dropping it returns its share of the budget.
#[derive(Debug)]
pub(crate) struct BodyBytes {
    bytes: Vec<u8>,
    _share: Option<OwnedSemaphorePermit>,
}

impl Deref for BodyBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl BodyBytes {
    /// Appends bytes, with their share of the budget.
    ///
    /// # Errors
    /// 503 if the budget is used up.
    fn append(&mut self, bytes: &[u8], budget: &Budget) -> ApiResult<()> {
        let charged = (self.bytes.len() as u64).div_ceil(GRAIN);
        let needed = ((self.bytes.len() + bytes.len()) as u64).div_ceil(GRAIN);
        if needed > charged {
            let more = budget.take(u32::try_from(needed - charged).unwrap_or(u32::MAX))?;
            match &mut self._share {
                Some(share) => share.merge(more),
                None => self._share = Some(more),
            }
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the body as text, without a byte order mark.
    ///
    /// # Errors
    /// 400 with the position of the first byte that is not UTF-8.
    pub(crate) fn text(&self) -> ApiResult<&str> {
        let text = std::str::from_utf8(&self.bytes);
        text.map(crate::http::text::without_mark).map_err(|error| {
            let (line, column) = crate::http::text::place(&self.bytes[..error.valid_up_to()]);
            ApiError::bad_request("bad_encoding", format!("The body is not UTF-8: line {line}, column {column} holds an invalid byte. Convert it to UTF-8."))
                .at(line, column)
        })
    }
}

/// The limits on request bodies, and the budget that they share.
#[derive(Debug)]
pub(crate) struct Bodies {
    limit: u64,
    text_limit: u64,
    stall_timeout: Duration,
    budget: Budget,
}

impl Bodies {
    pub(crate) fn new(config: &ServerConfig) -> Bodies {
        Bodies {
            limit: config.body_limit,
            text_limit: config.text_limit,
            stall_timeout: config.stall_timeout,
            budget: Budget::new(config.body_budget),
        }
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// 413 over the limit, also of a packed body that unpacks to more, 415 for a `Content-Encoding`
    /// that is not known, 408 when the client stops sending, 400
    /// when it disconnects, 503 when the budget is used up.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body) -> ApiResult<BodyBytes> {
        self.read_up_to(self.limit, too_large, headers, body).await
    }

    /// Reads a body that is a text, or a form with one.
    ///
    /// # Errors
    /// Those of [`Bodies::read`].
    pub(crate) async fn read_text(
        &self,
        headers: &HeaderMap,
        body: Body,
        is_form: bool,
    ) -> ApiResult<BodyBytes> {
        // Each byte of a text takes up to three in a form, which has other fields as well.
        let longest = match is_form {
            true => self
                .text_limit
                .saturating_mul(3)
                .saturating_add(FORM_FIELDS),
            false => self.text_limit,
        };
        match longest < self.limit {
            true => self.read_up_to(longest, long_text, headers, body).await,
            false => self.read(headers, body).await,
        }
    }

    async fn read_up_to(
        &self,
        limit: u64,
        refuse: fn(u64, Option<u64>) -> ApiError,
        headers: &HeaderMap,
        body: Body,
    ) -> ApiResult<BodyBytes> {
        let coding = Coding::of_body(headers)?;
        let held = self.read_sent(limit, refuse, headers, body).await?;
        let Some(coding) = coding else {
            return Ok(held);
        };
        let budget = self.budget.clone();
        // On a thread that may block: a short body may unpack to a long one.
        let unpacked = tokio::task::spawn_blocking(move || {
            let mut unpacked = BodyBytes {
                bytes: Vec::new(),
                _share: None,
            };
            unpack(&held, coding, |piece| {
                match (unpacked.len() + piece.len()) as u64 > limit {
                    true => Err(refuse(limit, None)),
                    false => unpacked.append(piece, &budget),
                }
            })?;
            Ok(unpacked)
        });
        unpacked.await.map_err(ApiError::internal)?
    }

    /// Reads the body as it was sent.
    async fn read_sent(
        &self,
        limit: u64,
        refuse: fn(u64, Option<u64>) -> ApiError,
        headers: &HeaderMap,
        body: Body,
    ) -> ApiResult<BodyBytes> {
        let declared = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let mut stream = body.into_data_stream();
        if declared.is_some_and(|length| length > limit) {
            linger(&mut stream).await;
            return Err(refuse(limit, declared));
        }
        let mut held = BodyBytes {
            bytes: Vec::with_capacity(declared.unwrap_or(0).min(1 << 20) as usize),
            _share: None,
        };
        loop {
            let Some(chunk) = self.next_chunk(&mut stream).await? else {
                return Ok(held);
            };
            let length = (held.bytes.len() + chunk.len()) as u64;
            if length > limit {
                drop(held);
                linger(&mut stream).await;
                return Err(refuse(limit, declared));
            }
            held.append(&chunk, &self.budget)?;
        }
    }

    /// A body that is read while it comes, in any length; a packed one unpacks to the limit's bytes
    /// at most. The first part hands it on to the second, which a thread reads that may block.
    ///
    /// # Errors
    /// 415 for a `Content-Encoding` that is not known.
    pub(crate) fn feed(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> ApiResult<(impl Future<Output = ()>, UnpackedFeed)> {
        let coding = Coding::of_body(headers)?;
        let (parts, feed) = body_feed();
        let feed = UnpackedFeed::new(feed, coding, self.limit, too_large)?;
        let remedy = "The messages that were taken are listed; send those from \"from\" on again.";
        Ok((self.pump(body, parts, remedy), feed))
    }

    /// Hands a body on to its reader, part by part. `remedy` is for a client whose body breaks off.
    pub(crate) async fn pump(&self, body: Body, parts: Sender<FeedPart>, remedy: &str) {
        let mut stream = body.into_data_stream();
        loop {
            let part = match self.next_part(&mut stream).await {
                Ok(Some(bytes)) => FeedPart::Bytes(bytes),
                Ok(None) => FeedPart::End,
                Err(broken) => FeedPart::Failed(self.broken(&broken, remedy)),
            };
            let is_last = !matches!(part, FeedPart::Bytes(_));
            if parts.send(part).await.is_err() {
                // The reader has its answer: the client gets it once it has sent its body.
                linger(&mut stream).await;
                return;
            }
            if is_last {
                return;
            }
        }
    }

    /// The next part of a body; `None` after the last.
    ///
    /// # Errors
    /// The body ends too early (400), or its client sends nothing for too long (408).
    async fn next_chunk(
        &self,
        stream: &mut axum::body::BodyDataStream,
    ) -> ApiResult<Option<Bytes>> {
        let part = self.next_part(stream).await;
        part.map_err(|broken| self.broken(&broken, "Nothing of it was used; send it again."))
    }

    async fn next_part(
        &self,
        stream: &mut axum::body::BodyDataStream,
    ) -> Result<Option<Bytes>, BrokenBody> {
        match tokio::time::timeout(self.stall_timeout, stream.next()).await {
            Ok(part) => part.transpose().map_err(BrokenBody::Ended),
            Err(_elapsed) => Err(BrokenBody::Stalled),
        }
    }

    fn broken(&self, broken: &BrokenBody, remedy: &str) -> ApiError {
        match broken {
            BrokenBody::Ended(error) => ApiError::bad_request(
                "broken_body",
                format!("The body ended before it was complete ({error}). {remedy}"),
            ),
            BrokenBody::Stalled => ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "stalled_body",
                format!(
                    "Nothing more of the body came for {} s. {remedy}",
                    self.stall_timeout.as_secs_f32()
                ),
            ),
        }
    }
}

/// Why a body cannot be read to its end.
enum BrokenBody {
    /// It ends too early.
    Ended(axum::Error),
    /// Its client sends nothing.
    Stalled,
}

/// Reads and discards the body of a request that is refused for its head, for a while.
pub(crate) async fn discard(body: Body) {
    linger(&mut body.into_data_stream()).await;
}

async fn linger(stream: &mut axum::body::BodyDataStream) {
    let (end, mut left) = (Instant::now() + LINGER, LINGER_BYTES);
    while let Some(wait) = end.checked_duration_since(Instant::now()) {
        match tokio::time::timeout(wait, stream.next()).await {
            Ok(Some(Ok(chunk))) if chunk.len() as u64 <= left => left -= chunk.len() as u64,
            _ => return,
        }
    }
}

fn too_large(limit: u64, declared: Option<u64>) -> ApiError {
    let size = declared.map_or("more".to_owned(), |length| format!("{length} bytes"));
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("The body may have at most {limit} bytes, and has {size}. Send it in parts, or start the server with a larger --body-bytes."),
    )
    .detail("limit_bytes", limit)
}

fn long_text(limit: u64, declared: Option<u64>) -> ApiError {
    let size = declared.map_or("more".to_owned(), |length| format!("{length} bytes"));
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "text_too_large",
        format!("A body with a text may have at most {limit} bytes, and this one has {size}. Shorten the text, load data instead of writing them into an update, or start the server with a larger --text-bytes."),
    )
    .detail("limit_bytes", limit)
}

/// Refuses transfer codings other than `chunked` (RFC 9112, section 6.1). A body in another one
/// would be taken as it is, still packed.
///
/// # Errors
/// 501 for another transfer coding.
pub(crate) fn check_transfer_coding(headers: &HeaderMap) -> ApiResult<()> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::NOT_IMPLEMENTED,
        "unsupported_encoding",
        "This server knows no transfer coding but chunked. Send the body as it is, with its Content-Length, or chunked.",
    ))
}

/// Returns the media type of a body, `type/subtype` in lower case, or `None` if the request has
/// none.
///
/// # Errors
/// 415 if the type names a charset other than UTF-8, 400 if there are two types.
pub(crate) fn media_type(headers: &HeaderMap) -> ApiResult<Option<String>> {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(ApiError::bad_request(
            "repeated_header",
            "The request has two Content-Type headers. Send one.",
        ));
    }
    let value = value.to_str().map_err(|_| {
        ApiError::bad_request("bad_header", "The Content-Type header is not plain ASCII.")
    })?;
    if let Some(charset) = negotiate::parameter(value, "charset")
        && !["utf-8", "utf8", "us-ascii"]
            .iter()
            .any(|known| charset.eq_ignore_ascii_case(known))
    {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_charset",
            format!(
                "The body's charset is \"{}\"; this server reads UTF-8 only. Convert the body to UTF-8.",
                crate::http::text::shorten(charset)
            ),
        ));
    }
    let essence = negotiate::essence(value);
    Ok((!essence.is_empty()).then_some(essence))
}

/// Returns a 415: the route does not read the body's media type.
pub(crate) fn unsupported(given: Option<&str>, supported: &[&str]) -> ApiError {
    let found = match given {
        None => "The request has a body but no Content-Type.".to_owned(),
        Some(given) => format!(
            "This address does not read bodies of type {}.",
            crate::http::text::shorten(given)
        ),
    };
    ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        format!("{found} Set Content-Type to the type of the body, one of those in \"supported\"."),
    )
    .detail("supported", supported.to_vec())
}
