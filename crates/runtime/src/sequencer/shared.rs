//! What the handle, the sequencer and the log's thread share.

use super::acks::Acks;
use super::requests::{Done, Request};
use crate::clock::Clock;
use crate::error::RuntimeError;
use crate::host::{Fired, Host, PinClock};
use crate::resolver::Resolver;
use crossbeam_channel::{Receiver, Sender};
use parking_lot::Mutex;
use somersault_log::{Log, Position};
use somersault_store::Store;
use somersault_stream::{Coordinator, StreamLimits};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

/// Driver settings.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// Whether inputs are refused because the log is only read.
    pub read_only: bool,
    /// A cut is made at least this often while something waits for one.
    pub freshness: Duration,
    /// How many firings of each query are kept for subscribers, and executed again by recovery.
    pub kept_firings: usize,
    /// How long a firing may keep its snapshot pinned (S9).
    pub pin_time: Duration,
    /// How many inputs may wait for the sequencer.
    pub inbox: usize,
    /// Limits on what inputs may do to streams.
    pub limits: StreamLimits,
    /// How long an input may take to cut the closes that it makes due before others get their turn.
    pub closes_patience: Duration,
}

/// The state that the handle and the sequencer share.
pub(crate) struct Shared {
    pub(crate) config: DriverConfig,
    pub(crate) store: Arc<Store>,
    pub(crate) log: Arc<Log>,
    pub(crate) coordinator: Mutex<Coordinator>,
    pub(crate) resolver: Resolver,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) acks: Acks<Done>,
    /// When each position became durable, until the sequencer has read it.
    pub(crate) durable_at: Mutex<VecDeque<(Position, Instant)>>,
    pub(crate) pin_clock: PinClock,
    pub(crate) failure: Mutex<Option<RuntimeError>>,
    pub(crate) aborted: AtomicBool,
    pub(crate) unstable: AtomicU64,
    pub(crate) outstanding: AtomicU64,
    /// The position of the newest command in the log.
    pub(crate) newest_command: AtomicU64,
    /// Whether closes wait for their cut while other inputs are taken.
    pub(crate) behind: AtomicBool,
}

impl Shared {
    pub(crate) fn failure(&self) -> Option<RuntimeError> {
        self.log
            .failed()
            .map(RuntimeError::Log)
            .or_else(|| self.failure.lock().clone())
    }
}

/// Tells the sequencer that something may have moved; many signals become one.
#[derive(Clone)]
pub(crate) struct Waker(pub(crate) Sender<()>);

impl Waker {
    pub(crate) fn wake(&self) {
        // A full channel means that a signal is waiting already.
        let _ = self.0.try_send(());
    }
}

/// The channels that the sequencer receives from.
pub(crate) struct Channels {
    pub(crate) requests: Receiver<Request>,
    pub(crate) fired: Receiver<Fired>,
    pub(crate) woken: Receiver<()>,
}
