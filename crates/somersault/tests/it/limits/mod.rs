//! What the engine refuses, bounds and gives up, and what it says then, after a fault too.

mod faults;
mod firings;
mod inflight;
mod old_snapshots;
mod refusals;
mod slow_subscribers;
