//! Connections: accepting them, guarding them against clients that neither send nor read, and
//! stopping in an orderly way. The router handles the content of HTTP; this file knows only
//! sockets.

mod middleware;
mod router;

use crate::config::ServerConfig;
use crate::event_stream::threads::{EventThreads, serve_apart};
use crate::http::connections::{Connection, Connections, exchange};
use crate::http::head;
use crate::http::hosts::Hosts;
use crate::http::socket::Guarded;
use crate::state::Service;
use crate::tls::Wire;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use somersault::Engine;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};

/// Stack of each thread that handles requests. Parsing and planning recurse over the nesting of a
/// text; the deepest that the language allows nearly fills the usual 2 MB.
pub const STACK_BYTES: usize = 8 << 20;
/// Time a client may take for its head on a connection beyond the limit.
const RESERVED_HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between checks whether a full server has room.
const FULL_PAUSE: Duration = Duration::from_millis(50);

/// Serves `engine` on `listener` until `shutdown` completes, then stops: accepts no more
/// connections, ends event streams, and gives running requests [`ServerConfig::shutdown_grace`].
/// The engine keeps running.
///
/// # Errors
/// If a host or URL of the configuration is invalid, if the system gives no random bytes, or if the
/// listener becomes unusable. A fault of one connection ends only that connection.
pub async fn serve(
    engine: Engine,
    listener: TcpListener,
    config: ServerConfig,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let (stop, stopping) = watch::channel(false);
    let grace = config.shutdown_grace;
    let mut open = Connections::new(config.connections);
    let hosts = Hosts::new(&config, listener.local_addr()?)?;
    let app = Service::new(engine, config, hosts, stopping)?;
    let router = router::router(app.clone());
    let mut shutdown = pin!(shutdown);
    let event_threads = EventThreads::start()?;
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(ended) = tasks.join_next_with_id(), if !tasks.is_empty() => {
                open.closed(task_of(&ended));
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let socket = match accepted {
            Ok((socket, _peer)) => socket,
            Err(error) => {
                // Out of file descriptors, or the connection was reset before it was accepted.
                // Neither is a reason to stop serving, and the first needs a moment to pass.
                tracing::warn!(%error, "a connection could not be accepted");
                open.make_room();
                tokio::time::sleep(FULL_PAUSE).await;
                continue;
            }
        };
        let connection = loop {
            if let Some(connection) = open.admit() {
                break Some(connection);
            }
            tokio::select! {
                () = &mut shutdown => break None,
                Some(ended) = tasks.join_next_with_id() => open.closed(task_of(&ended)),
                // A connection may have become idle by then.
                () = tokio::time::sleep(FULL_PAUSE) => {}
            }
        };
        let Some(connection) = connection else {
            break;
        };
        let serving = serve_connection(app.clone(), socket, router.clone(), connection.clone());
        let task = tasks.spawn(serve_apart(
            event_threads.handle(),
            connection.clone(),
            serving,
        ));
        open.opened(task.id(), connection);
    }
    drop(listener);
    let _ = stop.send(true);
    let drained = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, drained).await.is_err() {
        tracing::warn!("some requests were still running after the grace period and are cut off");
    }
    Ok(())
}

fn task_of(ended: &Result<(Id, ()), JoinError>) -> Id {
    match ended {
        Ok((task, ())) => *task,
        Err(error) => error.id(),
    }
}

/// Serves one connection from its first byte to its last.
async fn serve_connection(
    app: Service,
    socket: TcpStream,
    router: axum::Router,
    connection: Arc<Connection>,
) {
    let _ = socket.set_nodelay(true);
    let head_timeout = match connection.is_reserved() {
        true => app.config.head_timeout.min(RESERVED_HEAD_TIMEOUT),
        false => app.config.head_timeout,
    };
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(head_timeout);
    head::limit(&mut http);
    let Some(wire) = begin(&app, socket, &connection, head_timeout).await else {
        return;
    };
    let router = TowerToHyperService::new(router);
    let exchanged = Arc::clone(&connection);
    let service =
        service_fn(move |request| exchange(router.clone(), Arc::clone(&exchanged), request));
    let mut serving = pin!(http.serve_connection(TokioIo::new(wire), service));
    let result = tokio::select! {
        result = serving.as_mut() => result,
        () = connection.evicted() => {
            if !connection.is_in_use() {
                return;
            }
            serving.as_mut().graceful_shutdown();
            serving.await
        }
        () = app.stopped() => {
            serving.as_mut().graceful_shutdown();
            tokio::select! {
                result = serving.as_mut() => result,
                () = connection.ends_with_server() => return,
                // The client can ask for the rest with the last id that it has.
                () = connection.is_unread_event_stream() => return,
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Begins a connection within a time limit; `None` if that fails, or if it has to make way.
async fn begin(
    app: &Service,
    socket: TcpStream,
    connection: &Arc<Connection>,
    limit: Duration,
) -> Option<Wire<Guarded>> {
    let stall = app.config.stall_timeout;
    let wrap = |socket| Guarded::new(socket, stall, Arc::clone(connection));
    let begun = Wire::begin(app.config.tls.as_deref(), socket, wrap);
    tokio::select! {
        biased;
        begun = tokio::time::timeout(limit, begun) => match begun {
            Ok(Ok(wire)) => Some(wire),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a connection could not begin");
                None
            }
            Err(_elapsed) => {
                tracing::debug!("the handshake of a connection took too long");
                None
            }
        },
        () = connection.evicted() => None,
        () = app.stopped() => None,
    }
}

/// A server on a thread of its own, for programs that are not asynchronous: the demo, tests,
/// embedding. Dropping it stops the server and waits until it has stopped.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    scheme: &'static str,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<io::Result<()>>>,
}

impl Running {
    /// Starts serving on a bound listener, for example `TcpListener::bind("127.0.0.1:0")`.
    ///
    /// # Errors
    /// If the listener or the server's threads cannot be set up.
    pub fn start(
        engine: Engine,
        listener: std::net::TcpListener,
        config: ServerConfig,
    ) -> io::Result<Running> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let scheme = config.scheme();
        // One worker per core, because workers answer light queries themselves.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("somersault-http")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("somersault-http".to_owned())
            .spawn(move || {
                let served = runtime.block_on(async {
                    let listener = TcpListener::from_std(listener)?;
                    serve(engine, listener, config, async {
                        let _ = stopped.await;
                    })
                    .await
                });
                // A call that is still inside the engine cannot be interrupted, so it is left
                // running.
                runtime.shutdown_timeout(Duration::from_secs(1));
                served
            })?;
        Ok(Running {
            address,
            scheme,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `http://…` or `https://…` of [`Running::address`], without a slash at the end.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Stops the server and waits until it has stopped.
    ///
    /// # Errors
    /// The error that [`serve`] returned.
    pub fn stop(mut self) -> io::Result<()> {
        self.join()
    }

    fn join(&mut self) -> io::Result<()> {
        drop(self.stop.take());
        match self.thread.take().map(std::thread::JoinHandle::join) {
            None => Ok(()),
            Some(Ok(served)) => served,
            Some(Err(_panic)) => Err(io::Error::other("the server's thread panicked")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.join();
    }
}
