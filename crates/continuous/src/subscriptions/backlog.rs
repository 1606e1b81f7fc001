//! The memory of the firings that wait for subscribers, and its limits.
//!
//! The one thing to know before changing it: subscribers of one query wait for the same firings. A
//! firing that waits for several of them exists once, and counts once in the total; it counts whole
//! for each of them.

use super::firing_result::FiringResult;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use somersault_results::Answer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The approximate memory of a firing besides its answer.
const FIRING_BYTES: u64 = 256;
/// The approximate memory of a cell with its term, which the dictionary may keep for the sake of
/// the answer.
const CELL_BYTES: u64 = 48;
/// A subscriber with at most this many firings does not pay for what others leave waiting.
const PROMPT: usize = 4;

/// A limit on the memory of firings that wait for the subscribers that share it; clones are handles
/// to one count. Set as [`SubscribeOptions::backlog`](crate::SubscribeOptions::backlog).
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
pub struct Backlog(Arc<BacklogState>);

#[derive(Debug)]
struct BacklogState {
    subscriber_bytes: u64,
    total_bytes: u64,
    waiting: Mutex<HeldFirings>,
    slow: AtomicU64,
}

#[derive(Debug, Default)]
struct HeldFirings {
    bytes: u64,
    /// By the address of a firing, which a subscriber holds as long as its entry exists.
    firings: FxHashMap<usize, Shares>,
}

#[derive(Debug)]
struct Shares {
    subscribers: u64,
    bytes: u64,
}

impl Backlog {
    /// Returns a backlog with limits in bytes for each subscriber and for all of them together. A
    /// firing that waits alone is kept however large it is.
    ///
    /// ```
    /// use somersault::{Backlog, SubscribeOptions};
    /// // 1 MiB for a subscriber, 64 MiB for all of them.
    /// let backlog = Backlog::new(1 << 20, 64 << 20);
    /// let options = SubscribeOptions { backlog: Some(backlog), ..Default::default() };
    /// # drop(options);
    /// ```
    pub fn new(subscriber_bytes: u64, total_bytes: u64) -> Backlog {
        Backlog(Arc::new(BacklogState {
            subscriber_bytes,
            total_bytes,
            waiting: Mutex::default(),
            slow: AtomicU64::new(0),
        }))
    }

    /// Returns the memory of all waiting firings, in bytes.
    ///
    /// ```
    /// let backlog = somersault::Backlog::new(1 << 20, 64 << 20);
    /// assert_eq!(backlog.bytes(), 0, "it has no subscriber");
    /// ```
    pub fn bytes(&self) -> u64 {
        self.0.waiting.lock().bytes
    }

    /// Returns how often firings were dropped because a subscriber read too slowly.
    ///
    /// ```
    /// let backlog = somersault::Backlog::new(1 << 20, 64 << 20);
    /// assert_eq!(backlog.slow(), 0, "it has no subscriber");
    /// ```
    pub fn slow(&self) -> u64 {
        self.0.slow.load(Ordering::Relaxed)
    }

    /// Adds a subscriber for which a firing waits; returns the firing's bytes.
    pub(super) fn hold(&self, firing: &Arc<FiringResult>) -> u64 {
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

    /// Removes a subscriber for which a firing waits; returns the firing's bytes.
    pub(super) fn release(&self, firing: &Arc<FiringResult>) -> u64 {
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

    /// Whether a subscriber with these waiting firings must drop something.
    pub(super) fn is_too_much(&self, firings: usize, bytes: u64) -> bool {
        let is_over = firings > 1 && bytes > self.0.subscriber_bytes;
        is_over || (firings > PROMPT && self.bytes() > self.0.total_bytes)
    }

    pub(super) fn note_slow(&self) {
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
