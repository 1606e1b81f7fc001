//! Seeded scenarios on the simulated fabric and the simulated disk: random streams, windows,
//! registrations, pushes, updates and crashes, with every answer compared with a dull twin of the
//! window semantics. First safety: no firing is wrong, twice, or out of order. Then liveness: once
//! everything has healed, every due firing has happened. The seed decides all that is done and all
//! that a crash keeps; only how far the log's and the pool's threads have come at a crash is the
//! machine's, so that a rare failure may need a few runs.

pub mod algebra;
pub mod draw;
mod engine;
mod expect;
pub mod generate;
pub mod many;
pub mod model;
mod queries;
mod register;
pub mod render;
mod report;
mod run;
mod shrink;
pub mod twin;

pub use report::{Failure, Summary};
pub use run::{run, run_part, run_planted};
pub use twin::Plant;
