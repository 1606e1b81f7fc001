//! The callers' way to the sequencer: requests, reads and their answers. A caller waits for an
//! answer here; in a driver without threads it gives the process its turns meanwhile.

use super::process::CallerDriven;
use crate::credit::{NoRoom, Permit};
use crate::error::RuntimeError;
use crate::lane::{LaneCounters, LaneEvent};
use crate::sequencer::{Event, InputReceipt, Read, Request, Shared};
use crate::slot::{Answering, Awaited, Found, slot};
use crossbeam_channel::{Receiver, SendTimeoutError, Sender, TrySendError, bounded};
use somersault_checkpoint::Manifest;
use somersault_log::{LogError, Position};
use somersault_stream::Coordinator;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The interval at which a reader checks whether the sequencer has ended.
const LOOK: Duration = Duration::from_millis(100);

/// A caller's end of the channels to the sequencer.
pub(crate) struct Handle {
    pub(super) shared: Arc<Shared>,
    pub(super) requests: Sender<Request>,
    pub(super) events: Sender<Event>,
    pub(super) reads: Sender<Read>,
    /// To the lane of transactions.
    pub(super) lane: Sender<LaneEvent>,
    pub(super) counters: Arc<LaneCounters>,
    /// The other end of `reads`: once the sequencer has ended, readers answer themselves.
    pub(super) unanswered: Receiver<Read>,
    /// The other end of `requests`: a request that comes after the end is dropped.
    pub(super) untaken: Receiver<Request>,
    /// For a driver without threads.
    pub(super) caller_driven: Option<CallerDriven>,
}

impl Handle {
    /// Sends a request and waits for its answer.
    pub(super) fn ask<T>(
        &self,
        request: impl FnOnce(Answering<Result<T, RuntimeError>>) -> Request,
    ) -> Result<T, RuntimeError> {
        let (reply, answer) = slot();
        self.send(request(reply))?;
        self.wait(&answer)?
    }

    /// Waits until there is room for an input of this many bytes.
    pub(super) fn credit(
        &self,
        bytes: usize,
        patience: Duration,
    ) -> Result<Option<Permit>, RuntimeError> {
        if bytes == 0 {
            return Ok(None);
        }
        let credit = &self.shared.credit;
        let bytes = bytes as u64;
        let taken = match &self.caller_driven {
            None => credit.take(bytes, patience),
            Some(driven) => credit.take_by_turns(bytes, || driven.turn(self)),
        };
        let permit = taken.map_err(|NoRoom { level_bytes }| RuntimeError::NoRoom {
            bytes,
            level_bytes,
            budget_bytes: credit.budget_bytes(),
        })?;
        Ok(Some(permit))
    }

    pub(super) fn send(&self, request: Request) -> Result<(), RuntimeError> {
        let sent = self.requests.send(request);
        self.shared.discard_untaken(&self.untaken);
        sent.map_err(|_| self.ended())
    }

    /// Sends a request if there is a place for it. Whether there was.
    pub(super) fn try_send(&self, request: Request) -> Result<bool, RuntimeError> {
        let sent = self.requests.try_send(request);
        self.shared.discard_untaken(&self.untaken);
        match sent {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Disconnected(_)) => Err(self.ended()),
        }
    }

    /// Asks the sequencer to stop, and waits for its answer for no longer than this.
    pub(super) fn stop(&self, deadline: Duration, slack: Duration) {
        let (reply, answer) = slot();
        let stop = Request::Stop { deadline, reply };
        // A backlogged sequencer takes no requests, so neither the hand-over nor the answer is sure
        // to come in time.
        if self.requests.send_timeout(stop, deadline).is_ok() {
            self.shared.discard_untaken(&self.untaken);
            // Whatever it says: the sequencer is told to end, if it has not.
            let _ = self.wait_for(&answer, deadline + slack);
        }
    }

    /// Asks for the checkpoint of a clean shutdown, and waits for no longer than this.
    pub(super) fn last_checkpoint(&self, patience: Duration) -> Result<Manifest, RuntimeError> {
        let late = || RuntimeError::LateCheckpoint {
            waited_ms: patience.as_millis(),
        };
        let since = self.shared.clock.instant();
        let (reply, answer) = slot();
        let sent = (self.requests).send_timeout(Request::LastCheckpoint { reply }, patience);
        self.shared.discard_untaken(&self.untaken);
        sent.map_err(|error| match error {
            SendTimeoutError::Timeout(_) => late(),
            SendTimeoutError::Disconnected(_) => self.ended(),
        })?;
        let waited = (self.shared.clock.instant()).saturating_duration_since(since);
        let answered = self.wait_for(&answer, patience.saturating_sub(waited))?;
        answered.unwrap_or_else(|| Err(late()))
    }

    /// Why a sequencer that has ended answers nothing.
    fn ended(&self) -> RuntimeError {
        self.shared.failure().unwrap_or(RuntimeError::Stopped)
    }

    /// Waits for an answer.
    pub(super) fn wait<A>(&self, answer: &Awaited<A>) -> Result<A, RuntimeError> {
        match &self.caller_driven {
            None => match answer.wait(None) {
                Found::Answer(answer) => Ok(answer),
                Found::Nothing | Found::Closed => Err(self.ended()),
            },
            Some(driven) => wait_by_turns(answer, || driven.turn(self))?.ok_or_else(|| {
                RuntimeError::Internal(
                    "a request is not answered, and nothing in the process is left to do"
                        .to_owned(),
                )
            }),
        }
    }

    /// Takes an answer, or has the future woken that waits for it. In a driver without threads the
    /// caller gives turns until it is there.
    pub(super) fn poll<A>(
        &self,
        answer: &Awaited<A>,
        context: &mut Context<'_>,
    ) -> Poll<Result<A, RuntimeError>> {
        if self.caller_driven.is_some() {
            return Poll::Ready(self.wait(answer));
        }
        (answer.poll(context)).map(|answer| answer.ok_or_else(|| self.ended()))
    }

    /// Waits for an answer; `None` if it does not come in time. A process without threads has all
    /// the time until nothing in it is left to do.
    pub(super) fn wait_for<A>(
        &self,
        answer: &Awaited<A>,
        timeout: Duration,
    ) -> Result<Option<A>, RuntimeError> {
        match &self.caller_driven {
            None => match answer.wait_for(timeout) {
                Found::Answer(answer) => Ok(Some(answer)),
                Found::Nothing => Ok(None),
                Found::Closed => Err(self.ended()),
            },
            Some(driven) => wait_by_turns(answer, || driven.turn(self)),
        }
    }

    /// Reads the registry between two steps of the sequencer.
    pub(super) fn read<T: Send + 'static>(
        &self,
        of: impl FnOnce(&Coordinator) -> T + Send + 'static,
    ) -> T {
        let (reply, answer) = bounded(1);
        let read: Read = Box::new(move |coordinator| {
            // A reader waits for its answer.
            let _ = reply.send(of(coordinator));
        });
        // The handle has a receiver itself, so a read can always be sent.
        let _ = self.reads.send(read);
        if let Some(driven) = &self.caller_driven {
            driven.answer_reads();
        }
        loop {
            if let Ok(answer) = answer.try_recv() {
                return answer;
            }
            self.shared.answer_last(&self.unanswered);
            if let Ok(answer) = answer.recv_timeout(LOOK) {
                return answer;
            }
        }
    }

    /// Waits until the commands that a list shows are durable: what it shows must survive a crash.
    pub(super) fn await_commands(&self) {
        let newest = self.shared.figures.newest_command();
        if let Err(error) = self.await_durable(newest) {
            // The engine takes no more commands then, and its health reports the failure too.
            tracing::debug!("a list shows commands that are not durable: {error}");
        }
    }

    /// Waits until the records up to a position are durable.
    pub(super) fn await_durable(&self, position: Position) -> Result<(), LogError> {
        let log = &self.shared.log;
        if position <= log.durable() {
            return Ok(());
        }
        match &self.caller_driven {
            None => log.wait_durable(position),
            Some(driven) => {
                while log.durable() < position && log.failed().is_none() && driven.turn(self) {}
                log.failed().map_or(Ok(()), Err)
            }
        }
    }
}

/// Gives turns until there is an answer; `None` if nothing is left to do before.
fn wait_by_turns<A>(
    answer: &Awaited<A>,
    turn: impl Fn() -> bool,
) -> Result<Option<A>, RuntimeError> {
    let mut has_turned = true;
    loop {
        match answer.look() {
            Found::Answer(answer) => return Ok(Some(answer)),
            Found::Closed => return Err(RuntimeError::Stopped),
            // The last turn may have answered and found nothing more to do.
            Found::Nothing if !has_turned => return Ok(None),
            Found::Nothing => has_turned = turn(),
        }
    }
}

/// An input that was handed in and may not be answered yet. It is answered when its record is
/// durable.
pub type PendingInput = Pending<InputReceipt>;

/// A request that was handed in and may not be answered yet.
/// As a future it ends when the request is answered.
pub struct Pending<T> {
    pub(super) answer: Awaited<Result<T, RuntimeError>>,
    pub(super) handle: Arc<Handle>,
}

impl<T> Pending<T> {
    /// Whether the answer is there: [`Pending::wait`] returns at once then.
    pub fn is_answered(&self) -> bool {
        self.answer.is_answered()
    }

    /// Waits until the request is answered.
    ///
    /// # Errors
    /// The request is refused, or the log has failed.
    pub fn wait(self) -> Result<T, RuntimeError> {
        self.handle.wait(&self.answer)?
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, RuntimeError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        (self.handle.poll(&self.answer, context)).map(|answer| answer?)
    }
}
