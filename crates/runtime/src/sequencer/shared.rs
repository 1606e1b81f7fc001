//! The state that the handle, the sequencer and the log's thread share.
//!
//! Before changing anything here: the coordinator is not part of it. The sequencer owns the
//! coordinator, and others send it their reads.

use super::acks::Acks;
use super::directory::Directory;
use super::requests::{InputReceipt, Read, Request};
use crate::checkpoints::{CheckpointConfig, CheckpointStatus, CheckpointedNumbers};
use crate::clock::Clock;
use crate::credit::Credit;
use crate::error::RuntimeError;
use crate::feeds::Feeds;
use crate::host::{Host, PinClock};
use crate::resolver::Resolver;
use crossbeam_channel::Receiver;
use parking_lot::Mutex;
use somersault_log::{Log, Position};
use somersault_store::Store;
use somersault_stream::{Coordinator, StreamLimits};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Driver settings.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// Whether inputs are refused because the log is only read.
    pub read_only: bool,
    /// A cut is made at least this often while something waits for one.
    pub freshness: Duration,
    /// The number of firings of each query that are kept for subscribers, and executed again by
    /// recovery.
    pub kept_firings: usize,
    /// The time for which a firing may keep its snapshot pinned (S9).
    pub pin_time: Duration,
    /// The bytes of replaced data that may be kept for readers of earlier SNs. Beyond it, the
    /// oldest of them that may be given up are.
    pub superseded_bytes: u64,
    /// The number of inputs that may wait for the sequencer.
    pub inbox: usize,
    /// The memory of inputs that may be on its way to the shards.
    pub inflight_bytes: u64,
    /// The time for which a push waits for room for its bytes before it is refused.
    pub inflight_patience: Duration,
    /// Limits on what inputs may do to streams.
    pub limits: StreamLimits,
    /// The number of statements of an open batch that the shards prepare together. With
    /// `usize::MAX`, nothing is prepared.
    pub portion: usize,
    /// The time that an input may take to cut the closes that it makes due before other inputs get
    /// their turn.
    pub closes_patience: Duration,
    /// When checkpoints are taken.
    pub checkpoints: CheckpointConfig,
}

/// The state that the handle, the sequencer and the log's thread share.
pub(crate) struct Shared {
    pub(crate) config: DriverConfig,
    pub(crate) store: Arc<Store>,
    pub(crate) log: Arc<Log>,
    pub(crate) resolver: Resolver,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) acks: Acks<InputReceipt>,
    pub(crate) credit: Arc<Credit>,
    pub(crate) pin_clock: PinClock,
    pub(crate) figures: Figures,
    pub(crate) directory: Directory,
    /// The messages of interior streams that have readers.
    pub(crate) feeds: Feeds,
    /// `None` where nothing is written to a folder.
    checkpoints: Mutex<Option<CheckpointStatus>>,
    checkpointed: Mutex<Option<CheckpointedNumbers>>,
    failure: Mutex<Option<RuntimeError>>,
    /// The coordinator, once the sequencer has ended.
    last: OnceLock<Coordinator>,
}

/// Numbers that the sequencer publishes; any thread reads them.
#[derive(Default)]
pub(crate) struct Figures {
    unstable: AtomicU64,
    outstanding: AtomicU64,
    queries: AtomicU64,
    newest_command: AtomicU64,
    behind: AtomicBool,
}

impl Figures {
    pub(crate) fn set_unstable(&self, sns: usize) {
        self.unstable.store(sns as u64, Ordering::Relaxed);
    }

    /// SNs that were cut and are not yet stable.
    pub(crate) fn unstable(&self) -> u64 {
        self.unstable.load(Ordering::Relaxed)
    }

    pub(crate) fn set_outstanding(&self, firings: usize) {
        self.outstanding.store(firings as u64, Ordering::Relaxed);
    }

    /// Firings that are due and not yet answered.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding.load(Ordering::Relaxed)
    }

    pub(crate) fn set_queries(&self, queries: usize) {
        self.queries.store(queries as u64, Ordering::Release);
    }

    /// The number of continuous queries that are registered.
    pub(crate) fn queries(&self) -> usize {
        usize::try_from(self.queries.load(Ordering::Acquire)).unwrap_or(usize::MAX)
    }

    pub(crate) fn set_newest_command(&self, position: Position) {
        self.newest_command.store(position.0, Ordering::Release);
    }

    /// The position of the newest command in the log.
    pub(crate) fn newest_command(&self) -> Position {
        Position(self.newest_command.load(Ordering::Acquire))
    }

    pub(crate) fn set_behind(&self, behind: bool) {
        self.behind.store(behind, Ordering::Relaxed);
    }

    /// Whether closes wait for their cut.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Relaxed)
    }
}

/// The parts of a driver that the sequencer and its handle share.
pub(crate) struct SharedParts {
    pub(crate) config: DriverConfig,
    pub(crate) store: Arc<Store>,
    pub(crate) log: Arc<Log>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Shared {
    pub(crate) fn new(parts: SharedParts) -> Shared {
        let pin_clock = PinClock::new(Arc::clone(&parts.clock), parts.config.pin_time);
        Shared {
            resolver: Resolver::new(Arc::clone(&parts.store), Arc::clone(&parts.log)),
            credit: Credit::new(parts.config.inflight_bytes),
            config: parts.config,
            store: parts.store,
            log: parts.log,
            host: parts.host,
            clock: parts.clock,
            acks: Acks::new(),
            pin_clock,
            figures: Figures::default(),
            directory: Directory::default(),
            feeds: Feeds::default(),
            checkpoints: Mutex::new(None),
            checkpointed: Mutex::new(None),
            failure: Mutex::new(None),
            last: OnceLock::new(),
        }
    }

    /// What is known of checkpoints; `None` where nothing is written to a folder.
    pub(crate) fn checkpoints(&self) -> Option<CheckpointStatus> {
        self.checkpoints.lock().clone()
    }

    pub(crate) fn show_checkpoints(&self, status: CheckpointStatus) {
        *self.checkpoints.lock() = Some(status);
    }

    /// The sequence numbers of sources that the newest checkpoint covers; `None` without one.
    pub(crate) fn checkpointed(&self) -> Option<CheckpointedNumbers> {
        self.checkpointed.lock().clone()
    }

    pub(crate) fn show_checkpointed(&self, numbers: CheckpointedNumbers) {
        *self.checkpointed.lock() = Some(numbers);
    }

    /// Whether inputs are on their way or firings are due.
    pub(crate) fn is_busy(&self) -> bool {
        self.credit.level_bytes() > 0
            || self.figures.unstable() > 0
            || self.figures.outstanding() > 0
    }

    /// The failure after which nothing becomes stable any more.
    pub(crate) fn failure(&self) -> Option<RuntimeError> {
        self.log
            .failed()
            .map(RuntimeError::Log)
            .or_else(|| self.failure.lock().clone())
    }

    /// Records a failure, unless there was one before.
    pub(crate) fn fail(&self, error: RuntimeError) {
        self.failure.lock().get_or_insert(error);
        self.credit.end();
    }

    /// Keeps the coordinator of a sequencer that has ended: it can still be read. Answers the reads
    /// that it left behind.
    pub(crate) fn end(
        &self,
        coordinator: Coordinator,
        (reads, requests): (&Receiver<Read>, &Receiver<Request>),
    ) {
        // One sequencer ends, and it ends once.
        let _ = self.last.set(coordinator);
        self.credit.end();
        self.answer_last(reads);
        self.discard_untaken(requests);
    }

    /// Drops requests that a sequencer which has ended will not take: their callers would wait for
    /// an answer. A caller calls this after it has sent a request.
    pub(crate) fn discard_untaken(&self, requests: &Receiver<Request>) {
        // One of two threads sees what the other has done: the caller the end, or the end the
        // request.
        fence(Ordering::SeqCst);
        if self.last.get().is_some() {
            requests.try_iter().for_each(drop);
        }
    }

    /// Answers reads, if the sequencer has ended.
    pub(crate) fn answer_last(&self, reads: &Receiver<Read>) {
        if let Some(last) = self.last.get() {
            reads.try_iter().for_each(|read| read(last));
        }
    }
}
