//! The bell of a reader that waits for answers.
//!
//! The one thing to know before changing it: a reader looks for answers after it has silenced the
//! bell, so an answer that comes in between rings again.

use parking_lot::{Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Wakes one reader, on a thread or in a task.
#[derive(Default)]
pub(crate) struct Bell {
    state: Mutex<BellState>,
    rang: Condvar,
}

#[derive(Default)]
struct BellState {
    has_rung: bool,
    waker: Option<Waker>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        let mut state = self.state.lock();
        state.has_rung = true;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        self.rang.notify_all();
    }

    pub(crate) fn silence(&self) {
        self.state.lock().has_rung = false;
    }

    /// Waits until it rings; `false` if it has not rung by this time.
    pub(crate) fn wait_until(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        while !state.has_rung {
            if self.rang.wait_until(&mut state, until).timed_out() {
                return state.has_rung;
            }
        }
        true
    }

    /// Is ready once it has rung.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.has_rung {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
