//! Shares of heavy queries on the query pool. The thread that runs a heavy query works on it, and
//! idle threads of the pool take shares of it. After each share a helper checks whether a job
//! waits, and leaves if one does. So a job waits for a helper no longer than for one share, which
//! ends early where the work itself checks for waiting jobs.
//!
//! The one thing to know before changing it: the work is borrowed from the caller's stack. A helper
//! touches it only between [`Task::enter`] and [`Task::leave`], and [`Task::run`] returns, or
//! panics, only when the task is closed and all helpers have left.
#![allow(unsafe_code)]

use crate::cores::look_out;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The time that the owner spins for the last helper to leave before it goes to sleep: a wake-up
/// takes about as long as a share.
const AWAKE: Duration = Duration::from_micros(60);

type Work<'w> = dyn Fn(usize) + Sync + 'w;

thread_local! {
    /// Whether this thread is inside of a share.
    static SHARING: Cell<bool> = const { Cell::new(false) };
    /// The start time of this thread's current query, if it may take long.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs `call`, which never panics, as part of a query that began at `at`, if that may take long.
/// Helpers with its tasks learn the start time.
pub(crate) fn begun<T>(at: Option<Instant>, call: impl FnOnce() -> T) -> T {
    let before = BEGUN.replace(at);
    let result = call();
    BEGUN.set(before);
    result
}

/// Work that several threads share.
pub(crate) struct Task {
    /// Borrowed for longer than its type says; see the head of this file.
    work: *const Work<'static>,
    shares: usize,
    begun: Option<Instant>,
    /// The next share to be taken.
    next: AtomicUsize,
    /// The number of helpers inside; written with the state locked.
    helpers: AtomicUsize,
    state: Mutex<State>,
    left: Condvar,
}

// SAFETY: `work` points to something that is `Sync`, and is followed only while that lives (see the
// module); the other fields are `Send` and `Sync` themselves.
unsafe impl Send for Task {}
// SAFETY: as for `Send`.
unsafe impl Sync for Task {}

#[derive(Default)]
struct State {
    closed: bool,
    panic: Option<Box<dyn Any + Send>>,
}

impl Task {
    /// Executes all shares of some work, on this thread and on those that `call` brings to
    /// [`Task::help`]. Inside a share this thread does all of it alone.
    pub(crate) fn run(shares: usize, work: &Work<'_>, call: impl FnOnce(&Arc<Task>)) {
        if SHARING.get() || shares < 2 {
            (0..shares).for_each(work);
            return;
        }
        let work: *const Work<'_> = work;
        let task = Arc::new(Task {
            // SAFETY: only the lifetime changes. The pointer is followed inside of `take_shares`
            // alone: by this thread below, while `work` is borrowed, and by helpers between `enter`
            // and `leave`, for whom `close` waits before this function is left in any way.
            work: unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) },
            shares,
            begun: BEGUN.get(),
            next: AtomicUsize::new(0),
            helpers: AtomicUsize::new(0),
            state: Mutex::default(),
            left: Condvar::new(),
        });
        // Whatever happens in between, the task is closed before the work goes out of scope.
        let closing = Closing(&task);
        call(&task);
        task.take_shares(&|| false);
        drop(closing);
        let panic = task.state.lock().panic.take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// The start time of the query that the task belongs to, if that may take long. All tasks of
    /// one query have the same one.
    pub(crate) fn begun(&self) -> Option<Instant> {
        self.begun
    }

    /// Takes shares until none are left, or until `leave` returns true after a share. Returns
    /// whether some may be left.
    pub(crate) fn help(&self, leave: &dyn Fn() -> bool) -> bool {
        if !self.enter() {
            return false;
        }
        self.take_shares(leave);
        self.leave();
        self.next.load(Ordering::Relaxed) < self.shares
    }

    fn enter(&self) -> bool {
        let state = self.state.lock();
        if state.closed {
            return false;
        }
        self.helpers.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn leave(&self) {
        let _state = self.state.lock();
        if self.helpers.fetch_sub(1, Ordering::Release) == 1 {
            self.left.notify_all();
        }
    }

    /// Admits no more helpers and waits for those inside.
    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let all_left = || self.helpers.load(Ordering::Acquire) == 0;
        if !all_left() {
            MutexGuard::unlocked(&mut state, || look_out(AWAKE, all_left));
        }
        while !all_left() {
            self.left.wait(&mut state);
        }
    }

    /// Called by the owner before the task is closed, and by helpers that have entered.
    fn take_shares(&self, leave: &dyn Fn() -> bool) {
        let before = SHARING.replace(true);
        loop {
            let share = self.next.fetch_add(1, Ordering::Relaxed);
            if share >= self.shares {
                // The number stays near the end, however many threads ask for a share.
                self.next.store(self.shares, Ordering::Relaxed);
                break;
            }
            // SAFETY: the caller of `run` is still inside of it: this is that thread, or a helper
            // that has entered and not left, for which `close` waits.
            let work = unsafe { &*self.work };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(share))) {
                self.next.store(self.shares, Ordering::Relaxed);
                self.state.lock().panic.get_or_insert(panic);
                break;
            }
            if leave() {
                break;
            }
        }
        SHARING.set(before);
    }
}

struct Closing<'t>(&'t Task);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Runs a task with `helpers` helpers that come at any time, and come back after each share.
    fn with_helpers(helpers: usize, shares: usize, work: &Work<'_>) {
        std::thread::scope(|scope| {
            Task::run(shares, work, |task| {
                for _ in 0..helpers {
                    let task = Arc::clone(task);
                    scope.spawn(move || while task.help(&|| true) {});
                }
            });
        });
    }

    #[test]
    fn each_share_is_done_once() {
        for shares in [0, 1, 2, 7, 64] {
            for helpers in 0..4 {
                for _ in 0..25 {
                    let done: Vec<AtomicU64> = (0..shares).map(|_| AtomicU64::new(0)).collect();
                    with_helpers(helpers, shares, &|share| {
                        done[share].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
                }
            }
        }
    }

    #[test]
    fn a_panic_is_passed_on_when_all_have_left() {
        for helpers in 0..4 {
            for _ in 0..25 {
                let inside = AtomicU64::new(0);
                let run = catch_unwind(AssertUnwindSafe(|| {
                    with_helpers(helpers, 16, &|share| {
                        inside.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        assert_ne!(share, 5, "planted");
                    });
                }));
                assert!(run.is_err());
                assert_eq!(inside.load(Ordering::SeqCst), 0);
            }
        }
    }

    #[test]
    fn shares_inside_of_shares_are_done_in_line() {
        let sum = AtomicU64::new(0);
        with_helpers(2, 8, &|_| {
            let own = std::thread::current().id();
            Task::run(
                4,
                &|share| {
                    assert_eq!(std::thread::current().id(), own);
                    sum.fetch_add(share as u64, Ordering::Relaxed);
                },
                |_| panic!("nobody is called"),
            );
        });
        assert_eq!(sum.load(Ordering::Relaxed), 8 * 6);
    }

    #[test]
    fn a_helper_leaves_after_a_share_if_it_is_needed_elsewhere() {
        let helped = AtomicU64::new(0);
        let owner = std::thread::current().id();
        let count = |_| {
            if std::thread::current().id() != owner {
                helped.fetch_add(1, Ordering::Relaxed);
            }
        };
        Task::run(1_000, &count, |task| {
            let more = std::thread::scope(|scope| {
                let helper = scope.spawn(|| task.help(&|| true));
                helper.join().expect("no share panics")
            });
            assert!(more);
        });
        assert_eq!(helped.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_late_helper_finds_the_task_closed() {
        let mut late = None;
        Task::run(3, &|_| (), |task| late = Some(Arc::clone(task)));
        assert!(!late.expect("was called").help(&|| false));
    }
}
