//! Seeded scenarios on a simulated process and a simulated disk: random streams, windows,
//! registrations, pushes, updates and crashes, with every answer compared with a dull twin of the
//! window semantics. First safety: no firing is wrong, arrives twice, or is out of order. Then
//! liveness: once there are no more crashes, every due firing has happened.
//!
//! Before changing anything here: a run is a function of its seed. The seed decides what is done,
//! which part of the process has the next turn, what a crash keeps, and which subscribers read. So
//! nothing here may depend on the machine: no clock, no thread, no order of a hash map. Two runs of
//! one seed have one [`trace`](trace::Trace), to the byte.
//!
//! Rooms, lowest first: draw, model, algebra, trace, twin, transactions, render, report, engine,
//! expect, generate, shrink, simulation, run, many, histories.

pub mod algebra;
pub mod draw;
mod engine;
mod expect;
pub mod generate;
pub mod histories;
pub mod many;
pub mod model;
pub mod render;
mod report;
mod run;
mod shrink;
mod simulation;
pub mod trace;
pub mod transactions;
pub mod twin;

pub use report::{Failure, Summary};
pub use run::{run, run_part, run_planted, run_twice, trace_of};
pub use twin::Plant;
