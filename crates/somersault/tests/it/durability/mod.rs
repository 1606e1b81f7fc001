//! What the log keeps: after a crash, from an earlier version, and before anything is reported.

mod checkpoints;
mod durable;
mod listed;
mod old_log;
mod restart;
mod triggers;
