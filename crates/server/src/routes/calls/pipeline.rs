//! Many calls in one request: a line of JSON each. They are handed in as they are read and answered
//! in their order, a line each, as their answers come.
//!
//! 1. The body is pumped to a thread that may block (`http/feed`).
//! 2. That thread reads lines and hands calls in. At most [`UNDER_WAY`] of them are not answered.
//! 3. Another thread waits for the answers in their order and writes them.
//! 4. A client that takes no answers holds up 3, then 2, then 1, and after a while it is given up.
//!
//! Before changing anything here: the lane of transactions never waits for a client. It leaves an
//! answer where a call's place for it is. There are no more places than calls under way, and a call
//! whose answer would not fit beside those that wait is refused.

use super::answers::append_line;
use super::{NamedCall, PATH, arguments, settings};
use crate::http::error::{ApiError, ApiResult};
use crate::http::feed::{BodyFeed, body_feed};
use crate::routes::batch::check_lines;
use crate::routes::declarations::name_of;
use crate::state::App;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use parking_lot::{Condvar, Mutex};
use somersault::{AnswerRoom, CancelToken, Engine, PendingCall};
use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Sender, channel};

/// Calls of one request that are not answered.
const UNDER_WAY: usize = 1_024;
/// Memory of answers of one request that are not written yet.
const UNREAD_BYTES: u64 = 32 << 20;
/// Calls under way before the first answer, which says how large answers are.
const FIRST_UNDER_WAY: u64 = 32;
/// Bytes of answers that are sent together.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces that wait for the client.
const PIECES: usize = 2;

/// A line on its way to its answer.
struct Line {
    number: u64,
    call: ApiResult<PendingCall>,
}

/// The calls of a request.
struct Calls {
    engine: Engine,
    /// The procedure of all lines; `None` where each line names it.
    procedure: Option<String>,
    timeout: Option<Duration>,
    longest_line: u64,
    room: Arc<AnswerRoom>,
    window: Arc<Window>,
    /// Cancelled when nobody waits for answers any more.
    gone: CancelToken,
}

/// The calls of a request that are not answered, as many as their answers have room for.
#[derive(Default)]
struct Window {
    under_way: Mutex<u64>,
    answered: Condvar,
}

impl Window {
    /// Adds a call, when there is room for another answer like the largest one so far.
    fn enter(&self, room: &AnswerRoom, gone: &CancelToken) {
        let most = || match room.largest() {
            0 => FIRST_UNDER_WAY,
            largest => (UNREAD_BYTES / 2 / largest).clamp(1, UNDER_WAY as u64),
        };
        let mut under_way = self.under_way.lock();
        while *under_way >= most() && !gone.is_cancelled() {
            self.answered.wait(&mut under_way);
        }
        *under_way += 1;
    }

    /// Nobody waits for answers any more.
    fn close(&self, gone: &CancelToken) {
        // Under the lock: whoever enters has seen it, or waits for the notification.
        let _under_way = self.under_way.lock();
        gone.cancel();
        self.answered.notify_one();
    }

    /// Takes a call away.
    fn leave(&self) {
        *self.under_way.lock() -= 1;
        self.answered.notify_one();
    }
}

/// Carries out the calls of `POST /procedures/{name}/calls` and of `POST /calls`.
pub(crate) async fn calls(app: App, request: Request) -> ApiResult {
    let (head, body) = request.into_parts();
    let timeout = settings(&app, &head.uri)?;
    let procedure = match head.uri.path() {
        "/calls" => None,
        path => Some(name_of(path, PATH, "/calls")?),
    };
    check_lines(&head.headers)?;
    let place = app.feed_place()?;
    let calls = Calls {
        engine: app.engine.clone(),
        procedure,
        timeout,
        longest_line: app.config.text_limit,
        room: Arc::new(AnswerRoom::new(UNREAD_BYTES)),
        window: Arc::default(),
        gone: CancelToken::new(),
    };
    let (window, gone) = (Arc::clone(&calls.window), calls.gone.clone());
    let (parts, feed) = body_feed();
    let (lines, answered) = sync_channel(UNDER_WAY);
    let (pieces, mut written) = channel(PIECES);
    let patience = app.config.stall_timeout;
    tokio::spawn(async move {
        let remedy = "The calls of the lines before were answered.";
        app.bodies.pump(body, parts, remedy).await;
    });
    tokio::task::spawn_blocking(move || calls.hand_in(feed, &lines));
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        let _place: OwnedSemaphorePermit = place;
        write(&answered, &window, &pieces, (&runtime, patience));
        // After the last answer, or because the client takes no more: then what did not run need
        // not run.
        window.close(&gone);
    });
    let stream = futures_util::stream::poll_fn(move |context| {
        (written.poll_recv(context)).map(|piece| piece.map(Ok::<Bytes, Infallible>))
    });
    let mut response = Response::new(Body::from_stream(stream));
    let media_type = HeaderValue::from_static("application/x-ndjson");
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    Ok(response)
}

impl Calls {
    /// Hands the calls of a body in, until its end or until nobody waits for answers.
    fn hand_in(self, feed: BodyFeed, lines: &SyncSender<Line>) {
        let mut reader = BufReader::new(feed);
        let mut text = Vec::new();
        for number in 1.. {
            text.clear();
            let mut limited = reader.by_ref().take(self.longest_line + 1);
            let read = limited.read_until(b'\n', &mut text);
            let is_long = text.len() as u64 > self.longest_line;
            let is_last = is_long || read.is_err();
            let call = match read {
                Ok(0) => return,
                Ok(_) if is_long => Err(self.long_line()),
                Ok(_) if text.trim_ascii().is_empty() => continue,
                Ok(_) => self.begin(&text),
                Err(error) => Err(reader.get_mut().take_failure().unwrap_or_else(|| {
                    let sentence = format!("The body ended before it was complete ({error}).");
                    ApiError::bad_request("broken_body", sentence)
                })),
            };
            if lines.send(Line { number, call }).is_err() || is_last {
                return;
            }
        }
    }

    fn begin(&self, text: &[u8]) -> ApiResult<PendingCall> {
        let refused = |said: String| {
            ApiError::bad_request("bad_arguments", format!("The line cannot be read: {said}."))
        };
        let text = std::str::from_utf8(text).map_err(|_| refused("it is not UTF-8".to_owned()))?;
        let line = arguments::line(text).map_err(refused)?;
        let procedure = match (line.procedure, &self.procedure) {
            (Some(named), Some(of_address)) if named != *of_address => {
                let said =
                    format!("it calls {named}, and this address calls {of_address}; use /calls");
                return Err(refused(said));
            }
            (Some(named), _) => named,
            (None, Some(of_address)) => of_address.clone(),
            (None, None) => {
                return Err(refused(
                    "\"call\", the name of the procedure, is missing".to_owned(),
                ));
            }
        };
        let call = NamedCall {
            procedure,
            arguments: line.arguments,
            key: line.key,
        };
        let call = call.request(&self.engine, self.timeout);
        let call = call.cancel(&self.gone).within(&self.room);
        self.window.enter(&self.room, &self.gone);
        Ok(call.begin().inspect_err(|_| self.window.leave())?)
    }

    fn long_line(&self) -> ApiError {
        let sentence = format!(
            "The line is longer than {} bytes, and no line behind it is read. Shorten it, or start the server with a larger --text-bytes.",
            self.longest_line
        );
        ApiError::bad_request("long_line", sentence)
    }
}

/// Writes the answers in their order, until the last or until the client takes no more.
fn write(
    answered: &Receiver<Line>,
    window: &Window,
    pieces: &Sender<Bytes>,
    (runtime, patience): (&Handle, Duration),
) {
    let mut text = Vec::new();
    let send = |text: &mut Vec<u8>| {
        if text.is_empty() {
            return true;
        }
        let piece = Bytes::from(std::mem::take(text));
        let sent =
            runtime.block_on(async { tokio::time::timeout(patience, pieces.send(piece)).await });
        matches!(sent, Ok(Ok(())))
    };
    loop {
        let line = match answered.try_recv() {
            Ok(line) => line,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                if !send(&mut text) {
                    return;
                }
                match answered.recv() {
                    Ok(line) => line,
                    Err(_) => break,
                }
            }
        };
        let waits = line.call.as_ref().is_ok_and(|call| !call.is_answered());
        if (waits || text.len() >= PIECE_BYTES) && !send(&mut text) {
            return;
        }
        let outcome = line.call.and_then(|call| {
            let outcome = call.wait();
            window.leave();
            Ok(outcome?)
        });
        if let Err(error) = append_line(outcome, line.number, &mut text) {
            tracing::warn!(%error, "the answer of a call could not be written");
            return;
        }
    }
    send(&mut text);
}
