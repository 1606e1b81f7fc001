//! The credit of inputs: a bound, in bytes, on what is on its way from callers to the shards.
//!
//! An input's statements count from their caller's call until every shard has applied them, except
//! while they lie in a batch that waits for its cut. Such a batch may wait for the stream's time,
//! which only further inputs move, or for firings. The stream's BUDGET limits it.
//!
//! Before changing anything here: whatever counts must become less without a further input, or the
//! callers that wait here wait for each other. The level has two parts, and each has one writer:
//! the permits that travel with inputs write `handed_in`, and the sequencer alone stores
//! `injected`. It does so before it gives a permit back, so the level never falls too early. The
//! sequencer itself never waits for credit.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The bound, and the callers that wait for room.
#[derive(Debug)]
pub(crate) struct Credit {
    budget_bytes: u64,
    /// Bytes of inputs that callers have handed in, and that are not yet answered.
    handed_in: AtomicU64,
    /// Bytes of SNs that some shard has not applied.
    injected: AtomicU64,
    /// The number of inputs that have had to wait.
    waits: AtomicU64,
    /// The length of `queue`.
    waiting: AtomicUsize,
    queue: Mutex<Queue>,
    /// Whether nothing waits any more: the sequencer refuses all inputs.
    is_over: AtomicBool,
}

/// The callers that wait, in the order in which they came. A large input would otherwise wait for
/// as long as small ones keep coming.
#[derive(Debug, Default)]
struct Queue {
    next: u64,
    waiting: VecDeque<(u64, Thread)>,
}

/// The bytes of one input, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    credit: Arc<Credit>,
    bytes: u64,
}

/// There was no room for an input in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom {
    pub(crate) level_bytes: u64,
}

impl Credit {
    pub(crate) fn new(budget_bytes: u64) -> Arc<Credit> {
        Arc::new(Credit {
            budget_bytes,
            handed_in: AtomicU64::new(0),
            injected: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            queue: Mutex::default(),
            is_over: AtomicBool::new(false),
        })
    }

    /// The bytes that may be on their way at a time.
    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// The bytes that are on their way.
    pub(crate) fn level_bytes(&self) -> u64 {
        // In this order: bytes that move from one part to the other count twice rather than never.
        let handed_in = self.handed_in.load(Ordering::Acquire);
        handed_in + self.injected.load(Ordering::Acquire)
    }

    /// The number of inputs that have had to wait.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// A permit for these bytes, if there is room for them. Anything has room while nothing is on
    /// its way.
    pub(crate) fn try_take(self: &Arc<Credit>, bytes: u64) -> Option<Permit> {
        let more = |handed_in: u64| {
            let level = handed_in + self.injected.load(Ordering::Acquire);
            let has_room = level == 0 || level + bytes <= self.budget_bytes || self.is_over();
            has_room.then_some(handed_in + bytes)
        };
        let order = Ordering::AcqRel;
        let taken = (self.handed_in).fetch_update(order, Ordering::Acquire, more);
        taken.ok().map(|_| Permit {
            credit: Arc::clone(self),
            bytes,
        })
    }

    /// A permit for these bytes. Waits until there is room for them, behind the inputs that wait
    /// already, and for no longer than `patience`.
    ///
    /// # Errors
    /// There was no room in time.
    pub(crate) fn take(
        self: &Arc<Credit>,
        bytes: u64,
        patience: Duration,
    ) -> Result<Permit, NoRoom> {
        if self.waiting.load(Ordering::Acquire) == 0
            && let Some(permit) = self.try_take(bytes)
        {
            return Ok(permit);
        }
        self.wait(bytes, patience)
    }

    #[cold]
    fn wait(self: &Arc<Credit>, bytes: u64, patience: Duration) -> Result<Permit, NoRoom> {
        self.count_wait();
        let until = Instant::now() + patience;
        let place = self.line_up();
        let permit = loop {
            // One of two threads sees what the other has done: this one the room, or the one that
            // makes room this caller.
            fence(Ordering::SeqCst);
            if self.is_first(place)
                && let Some(permit) = self.try_take(bytes)
            {
                break Ok(permit);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let level_bytes = self.level_bytes();
                break Err(NoRoom { level_bytes });
            }
            thread::park_timeout(left);
        };
        self.leave(place);
        permit
    }

    /// As [`Credit::take`], where the caller makes room itself: `turn` does a part of what is to be
    /// done, and returns whether there was something.
    pub(crate) fn take_by_turns(
        self: &Arc<Credit>,
        bytes: u64,
        turn: impl Fn() -> bool,
    ) -> Result<Permit, NoRoom> {
        if let Some(permit) = self.try_take(bytes) {
            return Ok(permit);
        }
        self.count_wait();
        loop {
            let goes_on = turn();
            if let Some(permit) = self.try_take(bytes) {
                return Ok(permit);
            }
            if !goes_on {
                let level_bytes = self.level_bytes();
                return Err(NoRoom { level_bytes });
            }
        }
    }

    /// Counts an input that has to wait.
    fn count_wait(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    fn line_up(&self) -> u64 {
        let mut queue = self.queue.lock();
        let place = queue.next;
        queue.next += 1;
        queue.waiting.push_back((place, thread::current()));
        self.waiting.store(queue.waiting.len(), Ordering::Release);
        place
    }

    /// Whether a caller is the first in the queue. When all is over, each is.
    fn is_first(&self, place: u64) -> bool {
        self.is_over() || (self.queue.lock().waiting.front()).is_some_and(|(it, _)| *it == place)
    }

    fn leave(&self, place: u64) {
        let mut queue = self.queue.lock();
        queue.waiting.retain(|(it, _)| *it != place);
        self.waiting.store(queue.waiting.len(), Ordering::Release);
        // There may be room for the next one too.
        queue.wake_first();
    }

    /// Lets the first caller look whether there is room now.
    fn made_room(&self) {
        // The fence is the one of `wait`.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Acquire) > 0 {
            self.queue.lock().wake_first();
        }
    }

    /// Stores the bytes of SNs that some shard has not applied.
    pub(crate) fn set_injected(&self, bytes: u64) {
        if self.injected.swap(bytes, Ordering::AcqRel) > bytes {
            self.made_room();
        }
    }

    /// Whether nothing waits any more.
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// From now on nothing waits: the sequencer refuses all inputs, or there is none.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        let queue = self.queue.lock();
        queue.waiting.iter().for_each(|(_, thread)| thread.unpark());
    }
}

impl Queue {
    fn wake_first(&self) {
        if let Some((_, thread)) = self.waiting.front() {
            thread.unpark();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.credit
            .handed_in
            .fetch_sub(self.bytes, Ordering::AcqRel);
        self.credit.made_room();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_input_that_is_larger_than_the_budget_passes_alone() {
        let credit = Credit::new(100);
        let small = credit.take(1, Duration::ZERO).unwrap();
        let refused = credit.take(1_000, Duration::ZERO).unwrap_err();
        assert_eq!(refused, NoRoom { level_bytes: 1 });
        drop(small);
        let large = credit.take(1_000, Duration::ZERO).unwrap();
        assert_eq!(credit.level_bytes(), 1_000);
        assert!(credit.take(1, Duration::ZERO).is_err());
        drop(large);
        assert_eq!((credit.level_bytes(), credit.waits()), (0, 2));
    }

    #[test]
    fn what_the_shards_have_not_applied_counts_as_well() {
        let credit = Credit::new(100);
        credit.set_injected(60);
        assert!(credit.try_take(41).is_none());
        let permit = credit.try_take(40).unwrap();
        assert_eq!(credit.level_bytes(), 100);
        credit.set_injected(0);
        assert_eq!(credit.level_bytes(), 40);
        drop(permit);
    }

    #[test]
    fn threads_wait_and_the_level_stays_below_the_budget() {
        let credit = Credit::new(100);
        let most = AtomicU64::new(0);
        thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (credit, most) = (&credit, &most);
                scope.spawn(move || {
                    for round in 0..500 {
                        let permit = credit.take(1 + (thread * 31 + round) % 60, LONG);
                        most.fetch_max(credit.level_bytes(), Ordering::SeqCst);
                        drop(permit.unwrap());
                    }
                });
            }
        });
        assert!((1..=100).contains(&most.into_inner()));
        assert_eq!(credit.level_bytes(), 0);
        assert_eq!(credit.waiting.load(Ordering::SeqCst), 0);
    }

    /// Waits until this many callers wait.
    fn await_waiting(credit: &Credit, callers: usize) {
        while credit.waiting.load(Ordering::SeqCst) != callers {
            thread::yield_now();
        }
    }

    #[test]
    fn a_large_input_waits_for_those_before_it_and_for_none_after_it() {
        let credit = Credit::new(100);
        let before = credit.take(50, Duration::ZERO).unwrap();
        thread::scope(|scope| {
            let large = scope.spawn(|| drop(credit.take(90, LONG).unwrap()));
            await_waiting(&credit, 1);
            // There is room for this one, but it came later.
            assert!(credit.take(1, Duration::ZERO).is_err());
            drop(before);
            large.join().unwrap();
        });
        assert!(credit.take(1, Duration::ZERO).is_ok());
    }

    #[test]
    fn one_that_gives_up_lets_the_next_one_pass() {
        let credit = Credit::new(100);
        let before = credit.take(50, Duration::ZERO).unwrap();
        thread::scope(|scope| {
            let gives_up = scope.spawn(|| credit.take(90, Duration::from_millis(50)).is_err());
            await_waiting(&credit, 1);
            let next = scope.spawn(|| credit.take(20, LONG).is_ok());
            assert!(gives_up.join().unwrap());
            assert!(next.join().unwrap());
        });
        drop(before);
        assert_eq!(credit.level_bytes(), 0);
    }

    #[test]
    fn at_the_end_nothing_waits() {
        let credit = Credit::new(100);
        let before = credit.take(100, Duration::ZERO).unwrap();
        thread::scope(|scope| {
            let waiting = [(); 3].map(|()| scope.spawn(|| credit.take(70, LONG).is_ok()));
            await_waiting(&credit, 3);
            credit.end();
            for caller in waiting {
                assert!(caller.join().unwrap());
            }
        });
        drop(before);
        assert!(credit.take(1_000, Duration::ZERO).is_ok());
        assert_eq!(credit.level_bytes(), 0);
    }
}
