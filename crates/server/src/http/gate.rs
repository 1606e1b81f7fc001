//! The way from async handlers to the engine. The engine's calls block, so each runs on a thread of
//! the blocking pool. Three kinds do not: light queries are answered on the async thread, heavy
//! ones are submitted without waiting, and updates and calls of procedures are handed in and
//! awaited.
//! The number of calls of each kind is limited. A call beyond the limit is refused soon (503)
//! instead of piling up. Pushes have a lane of their own, so that slow queries never hold up a
//! source.

use crate::config::ServerConfig;
use crate::http::error::{ApiError, ApiResult};
use crate::http::reading::Reading;
use somersault::CancelToken;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The lane of a call: a call waits only for others in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// One-shot queries, and reading graphs.
    Query,
    /// Pushes, advances, updates, graph writes: these wait for the disk.
    Write,
    /// Declarations, registrations, status.
    Control,
}

/// Calls in the control lane are short, so this many suffice.
const CONTROL_CALLS: usize = 32;
/// Tokio's pool has 512 threads; the lanes together must leave some of them free.
const MOST_CALLS_PER_LANE: usize = 224;
/// The time for which a call waits for its turn before it is refused.
const PATIENCE: Duration = Duration::from_millis(500);

/// Counts the calls in each lane.
#[derive(Debug)]
pub(crate) struct Gate {
    queries: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    control: Arc<Semaphore>,
    /// Long documents that are read at one time. More would take the processors from the threads
    /// that serve other clients.
    documents: Arc<Semaphore>,
    document_time: Duration,
}

impl Gate {
    pub(crate) fn new(config: &ServerConfig) -> Gate {
        let lane = |calls: usize| Arc::new(Semaphore::new(calls.clamp(1, MOST_CALLS_PER_LANE)));
        Gate {
            queries: lane(config.concurrent_queries),
            writes: lane(config.concurrent_writes),
            control: lane(CONTROL_CALLS),
            documents: lane(std::thread::available_parallelism().map_or(1, usize::from)),
            document_time: config.document_time,
        }
    }

    /// Runs a blocking call and waits for its result. A client that disconnects does not interrupt
    /// it.
    ///
    /// # Errors
    /// 503 if the lane is full; 500 if the call panicked.
    pub(crate) async fn run<T, W>(&self, lane: Lane, work: W) -> ApiResult<T>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let place = self.enter(lane).await?;
        self.run_in(place, work).await
    }

    /// As [`Gate::run`], for a call that has its place.
    ///
    /// # Errors
    /// 500 if the call panicked.
    pub(crate) async fn run_in<T, W>(&self, place: Place, work: W) -> ApiResult<T>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let call = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        call.await.map_err(|failure| {
            if failure.is_panic() {
                broken_off()
            } else {
                stopping()
            }
        })
    }

    /// Awaits what was handed in to the engine. A client that disconnects does not take it back,
    /// and the place is taken until it has ended.
    pub(crate) fn wait<F>(
        &self,
        place: Place,
        handed_in: F,
    ) -> impl Future<Output = F::Output> + Send + use<F>
    where
        F: Future<Output: Send> + Send + Unpin + 'static,
    {
        let mut handed_in = HandedIn(Some((handed_in, place)));
        poll_fn(move |context| handed_in.poll(context))
    }

    /// Runs a blocking call that reads a body and writes what is in it. The reading ends when the
    /// client disconnects, and a long one waits for its turn.
    ///
    /// # Errors
    /// Those of [`Gate::run`], and those of the work.
    pub(crate) async fn read<T, W>(&self, is_long: bool, work: W) -> ApiResult<T>
    where
        T: Send + 'static,
        W: FnOnce(&mut Reading) -> ApiResult<T> + Send + 'static,
    {
        let gone = CancelOnDrop::default();
        let token = gone.token();
        let turn = match is_long {
            true => Some(self.turn().await?),
            false => None,
        };
        let time = self.document_time;
        let read = move || work(&mut Reading::start(token, time, turn));
        self.run(Lane::Write, read).await?
    }

    async fn turn(&self) -> ApiResult<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.documents).acquire_owned();
        match tokio::time::timeout(self.document_time, turn).await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(_closed)) => Err(stopping()),
            Err(_elapsed) => Err(ApiError::busy(
                "Other long documents are being read. Try again in a minute.",
                60,
            )),
        }
    }

    /// Makes a call that does not block and passes its result to a [`Reply`] later. Waits for that
    /// result.
    ///
    /// # Errors
    /// 503 if the lane is full, or if the reply is dropped unused; 500 if the work panicked.
    pub(crate) async fn ask<T>(&self, lane: Lane, call: impl FnOnce(Reply<T>)) -> ApiResult<T> {
        let permit = self.enter(lane).await?;
        let (sender, answer) = oneshot::channel();
        call(Reply {
            sender,
            _permit: permit,
        });
        match answer.await {
            Ok(Some(result)) => Ok(result),
            Ok(None) => Err(broken_off()),
            Err(_dropped) => Err(stopping()),
        }
    }

    /// Takes a place in a lane.
    ///
    /// # Errors
    /// 503 if the lane is full.
    pub(crate) async fn enter(&self, lane: Lane) -> ApiResult<Place> {
        let (lane, what) = match lane {
            Lane::Query => (&self.queries, "queries is running or waiting"),
            Lane::Write => (&self.writes, "pushes and updates is waiting for the disk"),
            Lane::Control => (
                &self.control,
                "registrations and status requests is waiting",
            ),
        };
        if let Ok(permit) = Arc::clone(lane).try_acquire_owned() {
            return Ok(permit);
        }
        match tokio::time::timeout(PATIENCE, Arc::clone(lane).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_closed)) => Err(ApiError::busy("The server is stopping.", 5)),
            Err(_elapsed) => Err(ApiError::busy(
                format!("The maximum number of {what}. Try again in a second."),
                1,
            )),
        }
    }
}

fn broken_off() -> ApiError {
    ApiError::internal("the call was broken off by an internal fault")
}

fn stopping() -> ApiError {
    ApiError::busy(
        "The server is stopping. Send the request again when it is back.",
        5,
    )
}

/// A place in a lane, until it is dropped.
pub(crate) type Place = OwnedSemaphorePermit;

/// Something that was handed in to the engine, until it has ended.
struct HandedIn<F: Future<Output: Send> + Send + Unpin + 'static>(Option<(F, Place)>);

impl<F: Future<Output: Send> + Send + Unpin + 'static> HandedIn<F> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some((handed_in, _)) = &mut self.0 else {
            return Poll::Pending;
        };
        let polled = Pin::new(handed_in).poll(context);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send + Unpin + 'static> Drop for HandedIn<F> {
    fn drop(&mut self) {
        // Its client has disconnected.
        if let Some((handed_in, place)) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move {
                handed_in.await;
                drop(place);
            });
        }
    }
}

/// Receives the result of [`Gate::ask`], and holds the call's place in its lane.
pub(crate) struct Reply<T> {
    sender: oneshot::Sender<Option<T>>,
    _permit: Place,
}

impl<T> Reply<T> {
    /// Runs `work` and sends its result. Skips `work` if the caller no longer waits for it.
    pub(crate) fn fulfil(self, work: impl FnOnce() -> T) {
        if !self.sender.is_closed() {
            let result = catch_unwind(AssertUnwindSafe(work)).ok();
            let _ = self.sender.send(result);
        }
    }
}

/// Cancels its token when it is dropped: because the client disconnected, or has its answer.
#[derive(Debug, Default)]
pub(crate) struct CancelOnDrop(CancelToken);

impl CancelOnDrop {
    pub(crate) fn token(&self) -> CancelToken {
        self.0.clone()
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_full_lane_refuses_and_the_others_go_on() {
        let config = ServerConfig {
            concurrent_queries: 1,
            ..ServerConfig::default()
        };
        let gate = Arc::new(Gate::new(&config));
        let (release, wait) = mpsc::channel::<()>();
        let (started, running) = tokio::sync::oneshot::channel();
        let busy = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move {
                gate.run(Lane::Query, move || {
                    let _ = started.send(());
                    let _ = wait.recv();
                })
                .await
            }
        });
        running.await.expect("the first query runs");
        let refused = gate
            .run(Lane::Query, || ())
            .await
            .expect_err("the lane is full");
        assert_eq!(refused.status(), 503);
        assert_eq!(gate.run(Lane::Write, || 7).await.expect("another lane"), 7);
        drop(release);
        busy.await.expect("joined").expect("answered");
        gate.run(Lane::Query, || ()).await.expect("free again");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_client_that_disconnects_keeps_its_place_until_the_end() {
        let gate = Arc::new(Gate::new(&ServerConfig {
            concurrent_writes: 1,
            ..ServerConfig::default()
        }));
        let (end, ended) = oneshot::channel::<u32>();
        let place = gate.enter(Lane::Write).await.expect("the first");
        let handler = tokio::spawn(gate.wait(place, ended));
        handler.abort();
        assert!(handler.await.expect_err("it was aborted").is_cancelled());
        let refused = gate.run(Lane::Write, || ()).await;
        assert_eq!(refused.expect_err("the place is taken").status(), 503);
        end.send(7).expect("it is awaited still");
        gate.run(Lane::Write, || ()).await.expect("free again");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_is_an_error_and_frees_its_place() {
        let gate = Gate::new(&ServerConfig {
            concurrent_queries: 1,
            ..ServerConfig::default()
        });
        for _ in 0..2 {
            let failed = gate
                .run(Lane::Query, || panic!("planted"))
                .await
                .expect_err("a fault");
            assert_eq!(failed.status(), 500);
        }
    }
}
