//! A thread of a connector, and the signal that asks it to stop.
//!
//! The one thing to know before changing it: a worker that is dropped waits for its thread. So
//! whatever a thread does has to look at the signal within some seconds.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Says whether a connector is to stop; clones share it.
#[derive(Clone, Debug, Default)]
pub struct StopSignal(Arc<Signal>);

#[derive(Debug, Default)]
struct Signal {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl StopSignal {
    /// Asks the connector to stop.
    pub fn set(&self) {
        *self.state() = true;
        self.0.changed.notify_all();
    }

    /// Whether the connector is to stop.
    pub fn is_set(&self) -> bool {
        *self.state()
    }

    /// Waits this long, or until the connector is to stop. Returns whether it is.
    pub fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut is_set = self.state();
        while !*is_set {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.0.changed.wait_timeout(is_set, left);
            is_set = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *is_set
    }

    fn state(&self) -> MutexGuard<'_, bool> {
        let state = self.0.is_set.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread of a connector. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    stop: StopSignal,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread, which returns soon after its signal is set.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(
        name: String,
        run: impl FnOnce(StopSignal) + Send + 'static,
    ) -> io::Result<Worker> {
        let stop = StopSignal::default();
        let own = stop.clone();
        let thread = thread::Builder::new().name(name).spawn(move || run(own))?;
        Ok(Worker {
            stop,
            thread: Some(thread),
        })
    }

    /// Asks the thread to end, without waiting for it.
    pub(crate) fn ask_to_stop(&self) {
        self.stop.set();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.set();
        if self.thread.take().is_some_and(|it| it.join().is_err()) {
            tracing::error!("the thread of a connector panicked");
        }
    }
}
