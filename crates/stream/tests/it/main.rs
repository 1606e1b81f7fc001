//! The tests of the coordinator from outside: laws against a dull twin, cases, refusals, and
//! invariants broken on purpose.
#![allow(clippy::unwrap_used)]

mod ahead;
mod cases;
mod checkpoints;
mod clock;
mod cohorts;
mod cuts;
mod derived;
mod due;
mod harness;
mod laws;
mod live;
mod messages;
mod refusals;
mod replacing;
mod time;
mod twin;
mod world;
