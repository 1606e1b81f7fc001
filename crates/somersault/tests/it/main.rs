//! The engine end to end, on cases small enough to be worked out by hand.

#![allow(clippy::unwrap_used)]

mod changes;
mod clearing;
mod delta;
mod derived;
mod endpoint;
mod groups;
mod jumps;
mod kinds;
mod lifecycle;
mod limits;
mod lines;
mod listed;
mod loading;
mod old_log;
mod queries;
mod refusals;
mod replacing;
mod restart;
mod scenario;
mod shards;
mod slow;
mod together;
mod transient;
mod updates;
mod windows;
