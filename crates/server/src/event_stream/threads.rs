//! The threads that serve the connections which carry an event stream.
//!
//! The one thing to know before changing it: a connection becomes an event stream with an answer,
//! in the middle of its life. The threads of all requests serve it until then; from then on the
//! threads here poll it. Its socket stays registered with the runtime that accepted it, which
//! only wakes it. Thus filling the buffers of a thousand subscribers delays other event streams,
//! and no push and no query.

use crate::http::connections::Connection;
use crate::http::repoll::Repoll;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

/// The threads that serve event streams.
pub(crate) struct EventThreads(Option<Runtime>);

impl EventThreads {
    /// Starts a thread for every two cores.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub(crate) fn start() -> io::Result<EventThreads> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let runtime = Builder::new_multi_thread()
            .worker_threads((cores / 2).max(1))
            .thread_name("somersault-events")
            .enable_all()
            .build()?;
        Ok(EventThreads(Some(runtime)))
    }

    pub(crate) fn handle(&self) -> Handle {
        let runtime = self
            .0
            .as_ref()
            .expect("it is taken only when this is dropped");
        runtime.handle().clone()
    }
}

impl Drop for EventThreads {
    fn drop(&mut self) {
        // Waiting for the threads would block the asynchronous thread on which this is dropped.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Serves a connection to its end, on `events` once it carries an event stream.
pub(crate) async fn serve_apart(
    events: Handle,
    connection: Arc<Connection>,
    serving: impl Future<Output = ()> + Send + 'static,
) {
    let mut serving = Repoll::new(serving);
    let has_ended = poll_fn(|context| match Pin::new(&mut serving).poll(context) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending if connection.is_event_stream() => Poll::Ready(false),
        Poll::Pending => Poll::Pending,
    });
    if !has_ended.await {
        // It fails only if the server stops meanwhile.
        let _ = AbortOnDrop(events.spawn(serving)).await;
    }
}

/// A task that ends with the future that waits for it.
struct AbortOnDrop(JoinHandle<()>);

impl Future for AbortOnDrop {
    type Output = Result<(), tokio::task::JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_connection_changes_its_threads_when_it_becomes_an_event_stream() {
        let threads = EventThreads::start().expect("threads start");
        let main = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("main")
            .build()
            .expect("a runtime");
        let connection = Arc::new(Connection::for_tests());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let serving = {
            let (seen, connection) = (Arc::clone(&seen), Arc::clone(&connection));
            async move {
                let note = || {
                    let name = std::thread::current().name().unwrap_or("none").to_owned();
                    seen.lock().expect("no panic").push(name);
                };
                note();
                tokio::task::yield_now().await;
                note();
                connection.set_event_stream();
                tokio::task::yield_now().await;
                note();
            }
        };
        let served = main.spawn(serve_apart(threads.handle(), connection, serving));
        main.block_on(served).expect("no panic");
        let seen = seen.lock().expect("no panic");
        assert_eq!(*seen, ["main", "main", "somersault-events"]);
    }
}
