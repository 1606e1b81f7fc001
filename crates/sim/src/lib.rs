//! Seeded scenarios on the simulated fabric and the simulated disk: random streams, windows, registrations, pushes, updates and crashes,
//! with every answer compared with a dull twin of the window semantics. First safety: no firing is wrong, twice, or out of order.
//! Then liveness: once everything has healed, every due firing has happened. A seed that fails is printed and fails again.

pub mod draw;
mod expect;
pub mod run;
pub mod scenario;
pub mod twin;

pub use run::{Failure, Plant, Summary, run, run_planted};
