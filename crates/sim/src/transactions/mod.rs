//! Streaming transactions without a thread, a log or a lane: the core decides what runs, the
//! statements and messages are plain vectors, and each transaction runs to its end before the next
//! one begins. It is the dull twin of the lane, and it runs the public suites.
//!
//! Before changing anything here: what this twin does is what procedures promise, one thing after
//! the other. A way to do two things at once belongs to the lane, never here.

mod serial;
mod stream;
mod suite_run;

pub use serial::{CallOutcome, SerialEngine, Snapshots};
pub use stream::{PushOutcome, TwinMessage};
pub use suite_run::{TwinPace, run_suite};
