//! The memory of the firings that wait for subscribers, and its limits.
//!
//! The one thing to know before changing it: subscribers of one query wait for the same firings.
//! What waits for several of them is there once, and counts once over all; for each of them it
//! counts whole.

use crate::answer::Answer;
use crate::subscription::FiringResult;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a firing takes beside its answer, about.
const FIRING_BYTES: u64 = 256;
/// What a cell takes with its term, which the dictionary may keep for the sake of the answer,
/// about.
const CELL_BYTES: u64 = 48;
/// A subscriber with no more firings than these does not pay for what others leave waiting.
const PROMPT: usize = 4;

/// How much memory firings may take that wait for the subscribers who share this; clones are
/// handles to one count. Set as [`SubscribeOptions::backlog`](crate::SubscribeOptions::backlog).
///
/// ```
/// use somersault::{Backlog, SubscribeOptions, WhenSlow};
/// let backlog = Backlog::new(1 << 20, 64 << 20);
/// let options = SubscribeOptions {
///     backlog: Some(backlog.clone()),
///     when_slow: WhenSlow::End,
///     ..Default::default()
/// };
/// assert_eq!((backlog.bytes(), backlog.slow()), (0, 0));
/// # drop(options);
/// ```
#[derive(Clone, Debug)]
pub struct Backlog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    subscriber_bytes: u64,
    total_bytes: u64,
    waiting: Mutex<Waiting>,
    slow: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: u64,
    /// By the address of a firing, which somebody holds as long as it is here.
    firings: FxHashMap<usize, Shares>,
}

#[derive(Debug)]
struct Shares {
    subscribers: u64,
    bytes: u64,
}

impl Backlog {
    /// At most so many bytes for each subscriber and so many for all of them. A firing that waits
    /// alone is kept whatever it takes.
    pub fn new(subscriber_bytes: u64, total_bytes: u64) -> Backlog {
        Backlog(Arc::new(Shared {
            subscriber_bytes,
            total_bytes,
            waiting: Mutex::default(),
            slow: AtomicU64::new(0),
        }))
    }

    /// What waits now takes so many bytes.
    pub fn bytes(&self) -> u64 {
        self.0.waiting.lock().bytes
    }

    /// How often firings were given up because a subscriber read too slowly.
    pub fn slow(&self) -> u64 {
        self.0.slow.load(Ordering::Relaxed)
    }

    /// A firing waits for one more subscriber; returns its bytes.
    pub(crate) fn hold(&self, firing: &Arc<FiringResult>) -> u64 {
        let mut waiting = self.0.waiting.lock();
        let shares = waiting.firings.entry(address(firing));
        let mut added = 0;
        let shares = shares.or_insert_with(|| {
            added = firing_bytes(firing);
            Shares {
                subscribers: 0,
                bytes: added,
            }
        });
        shares.subscribers += 1;
        let bytes = shares.bytes;
        waiting.bytes += added;
        bytes
    }

    /// A firing waits for one subscriber less; returns its bytes.
    pub(crate) fn release(&self, firing: &Arc<FiringResult>) -> u64 {
        let mut waiting = self.0.waiting.lock();
        let address = address(firing);
        let Some(shares) = waiting.firings.get_mut(&address) else {
            return 0;
        };
        shares.subscribers -= 1;
        let (bytes, is_last) = (shares.bytes, shares.subscribers == 0);
        if is_last {
            waiting.firings.remove(&address);
            waiting.bytes -= bytes;
        }
        bytes
    }

    /// Whether a subscriber for whom this waits has to give something up.
    pub(crate) fn is_too_much(&self, firings: usize, bytes: u64) -> bool {
        let is_over = firings > 1 && bytes > self.0.subscriber_bytes;
        is_over || (firings > PROMPT && self.bytes() > self.0.total_bytes)
    }

    pub(crate) fn note_slow(&self) {
        self.0.slow.fetch_add(1, Ordering::Relaxed);
    }
}

fn address(firing: &Arc<FiringResult>) -> usize {
    Arc::as_ptr(firing) as usize
}

fn firing_bytes(firing: &FiringResult) -> u64 {
    let answer_bytes = |answer: &Answer| {
        let cells = answer.len() as u64 * answer.variables().len() as u64;
        (answer.inner().memory_bytes() as u64).max(cells * CELL_BYTES)
    };
    FIRING_BYTES + firing.answer.as_ref().map_or(0, answer_bytes)
}
