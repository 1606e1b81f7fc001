//! The connections that are open at one time, and the choice of the one that makes way for another.
//!
//! The one thing to know before changing it: a connection may be closed only while it is idle, and
//! only the thread that serves it knows whether it is. So closing is a request: the accepting
//! thread marks an idle connection, and the connection closes itself, or serves the request that it
//! has begun in the meantime.

use crate::http::held_body::HeldBody;
use axum::Router;
use axum::http::{HeaderValue, Request, Response, header};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::Id;

/// Connections that are accepted beyond the limit while no other is idle. Their requests are
/// refused because the server is full; only `/health`, `/livez` and `/ready` are answered.
const RESERVED: usize = 64;

/// A client takes nothing of its event stream if its bytes wait at this number of looks in a row,
/// this long apart.
const UNREAD_LOOKS: u32 = 10;
const UNREAD_LOOK: Duration = Duration::from_millis(100);

/// A request is being handled, or its answer is being sent.
const BUSY: u8 = 1;
/// The client has not yet taken all bytes.
const STALLED: u8 = 2;
/// The connection is about to be closed.
const EVICTED: u8 = 4;

/// Marks requests on connections beyond the limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserved;

/// Marks an answer that is an event stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventStream;

/// Marks an answer that ends with the server: it may take long to send, and a client that gets a
/// part of it can ask again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndsWithServer;

/// The state of a connection that other threads see.
#[derive(Debug)]
pub(crate) struct Connection {
    is_reserved: bool,
    flags: AtomicU8,
    opened: Instant,
    /// Time at which it last became idle, in nanoseconds since it was opened.
    idle_since: AtomicU64,
    evicted: Notify,
    /// Whether the body of the current request has not been read to its end.
    has_unread_body: AtomicBool,
    /// Whether an answer on it was an event stream.
    is_event_stream: AtomicBool,
    /// Notified once its last answer is one that ends with the server.
    ends_with_server: Notify,
}

impl Connection {
    fn new(is_reserved: bool) -> Connection {
        Connection {
            is_reserved,
            flags: AtomicU8::new(0),
            opened: Instant::now(),
            idle_since: AtomicU64::new(0),
            evicted: Notify::new(),
            has_unread_body: AtomicBool::new(false),
            is_event_stream: AtomicBool::new(false),
            ends_with_server: Notify::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Connection {
        Connection::new(false)
    }

    /// Whether the connection is beyond the limit.
    pub(crate) fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// Records whether the client has yet to take bytes that were sent.
    pub(crate) fn set_stalled(&self, is_stalled: bool) {
        if is_stalled {
            self.flags.fetch_or(STALLED, Ordering::AcqRel);
        } else {
            self.flags.fetch_and(!STALLED, Ordering::AcqRel);
        }
    }

    /// Whether the connection carries an event stream, or has carried one.
    pub(crate) fn is_event_stream(&self) -> bool {
        self.is_event_stream.load(Ordering::Acquire)
    }

    pub(crate) fn set_event_stream(&self) {
        self.is_event_stream.store(true, Ordering::Release);
    }

    /// Completes when its answer is one that ends with the server.
    pub(crate) async fn ends_with_server(&self) {
        self.ends_with_server.notified().await;
    }

    /// Completes when the connection carries an event stream of which its client has taken nothing
    /// for a moment.
    pub(crate) async fn is_unread_event_stream(&self) {
        let mut looks = 0;
        while looks < UNREAD_LOOKS {
            tokio::time::sleep(UNREAD_LOOK).await;
            let is_unread = self.is_event_stream() && self.is_stalled();
            looks = if is_unread { looks + 1 } else { 0 };
        }
    }

    fn is_stalled(&self) -> bool {
        self.flags.load(Ordering::Acquire) & STALLED != 0
    }

    /// Completes when the connection must make way for another.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Whether a request is being handled, or bytes of an answer wait for the client.
    pub(crate) fn is_in_use(&self) -> bool {
        self.flags.load(Ordering::Acquire) & (BUSY | STALLED) != 0
    }

    fn begin(self: &Arc<Connection>) -> InUse {
        self.flags.fetch_or(BUSY, Ordering::AcqRel);
        InUse(Arc::clone(self))
    }

    fn idle_since(&self) -> Instant {
        self.opened + Duration::from_nanos(self.idle_since.load(Ordering::Relaxed))
    }

    /// Marks the connection as evicted if it is idle; returns whether it was.
    fn evict(&self) -> bool {
        let order = Ordering::AcqRel;
        let is_idle = (self.flags).compare_exchange(0, EVICTED, order, Ordering::Relaxed);
        if is_idle.is_ok() {
            self.evicted.notify_one();
        }
        is_idle.is_ok()
    }
}

/// A connection is in use until this is dropped.
#[derive(Debug)]
pub(crate) struct InUse(Arc<Connection>);

impl Drop for InUse {
    fn drop(&mut self) {
        let Connection { opened, flags, .. } = &*self.0;
        let now = u64::try_from(opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.idle_since.store(now, Ordering::Relaxed);
        flags.fetch_and(!BUSY, Ordering::AcqRel);
    }
}

/// A request's body that records when it has been read to its end.
struct RequestBody {
    inner: Incoming,
    connection: Arc<Connection>,
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.inner.is_end_stream() {
            let unread = &self.connection.has_unread_body;
            unread.store(false, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// An answer's body that keeps its connection in use.
pub(crate) type ResponseBody = HeldBody<InUse>;

/// Handles one request on a connection and returns its answer. If the request's body was not read,
/// the connection cannot carry another request, and the answer says so.
pub(crate) async fn exchange(
    router: TowerToHyperService<Router>,
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody>, Infallible> {
    let in_use = connection.begin();
    let has_body = !request.body().is_end_stream();
    let unread = &connection.has_unread_body;
    unread.store(has_body, Ordering::Relaxed);
    let mut request = request.map(|inner| RequestBody {
        inner,
        connection: Arc::clone(&connection),
    });
    if connection.is_reserved {
        request.extensions_mut().insert(Reserved);
    }
    let mut response = router.call(request).await?;
    if response.extensions().get::<EventStream>().is_some() {
        connection.set_event_stream();
    }
    let is_last = response.extensions().get::<EndsWithServer>().is_some();
    if is_last {
        connection.ends_with_server.notify_one();
    }
    if is_last || connection.is_reserved || unread.load(Ordering::Relaxed) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    Ok(response.map(|inner| HeldBody::new(inner, in_use)))
}

/// The open connections of one server.
#[derive(Debug)]
pub(crate) struct Connections {
    limit: usize,
    regular: HashMap<Id, Arc<Connection>>,
    reserved: HashMap<Id, Arc<Connection>>,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Connections {
        Connections {
            limit: limit.max(1),
            regular: HashMap::new(),
            reserved: HashMap::new(),
        }
    }

    /// Returns a new connection. At the limit, the connection that has been idle longest is closed
    /// for it. Returns `None` if all connections are in use, including the reserved ones.
    pub(crate) fn admit(&mut self) -> Option<Arc<Connection>> {
        let has_room = self.regular.len() < self.limit || evict_longest_idle(&mut self.regular);
        if has_room {
            return Some(Arc::new(Connection::new(false)));
        }
        let has_room = self.reserved.len() < RESERVED || evict_longest_idle(&mut self.reserved);
        has_room.then(|| Arc::new(Connection::new(true)))
    }

    /// Closes the connection that has been idle longest, if any is idle.
    pub(crate) fn make_room(&mut self) {
        if !evict_longest_idle(&mut self.regular) {
            evict_longest_idle(&mut self.reserved);
        }
    }

    /// Records that the task with this id serves a connection.
    pub(crate) fn opened(&mut self, task: Id, connection: Arc<Connection>) {
        if connection.is_reserved {
            self.reserved.insert(task, connection);
        } else {
            self.regular.insert(task, connection);
        }
    }

    pub(crate) fn closed(&mut self, task: Id) {
        if self.regular.remove(&task).is_none() {
            self.reserved.remove(&task);
        }
    }
}

fn evict_longest_idle(connections: &mut HashMap<Id, Arc<Connection>>) -> bool {
    loop {
        let idle = connections
            .iter()
            .filter(|(_, connection)| connection.flags.load(Ordering::Relaxed) == 0);
        let longest = idle.min_by_key(|(_, connection)| connection.idle_since());
        let Some((&task, _)) = longest else {
            return false;
        };
        // A request may have arrived since.
        let is_evicted = connections.get(&task).is_some_and(|it| it.evict());
        if is_evicted {
            connections.remove(&task);
            return true;
        }
    }
}
