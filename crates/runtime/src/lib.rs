//! The runtime of the engine: shards and their injectors, the fabric between them, and the driver,
//! which is the one thread that puts inputs in order.
//!
//! Shards, dictionary and slices are owned outside the fabric and survive it (S16); queries run on
//! the pool, never inside a timely operator; nothing is answered, fired or delivered from a
//! snapshot number that is not stable (S5).

mod acks;
mod clock;
mod driver;
mod due_windows;
mod error;
mod fabric;
mod host;
mod injectors;
mod resolver;

pub use clock::{Clock, ManualClock, SystemClock};
pub use driver::{
    Change, Done, Driver, DriverConfig, DriverParts, DriverStatus, Outcome, PendingInput,
    UpdateJob, UpdateResult,
};
pub use due_windows::{DueWindows, window_version};
pub use error::RuntimeError;
pub use fabric::{
    Apply, Fabric, FabricError, OnApplied, ShardWork, SimFabric, SliceKind, SliceWork, TimelyFabric,
};
pub use host::{Answered, Derives, DueSnapshot, FiringJob, Host};
pub use injectors::{Injectors, ShardCounters};
pub use resolver::{gather_blocks, intern_quad, intern_quad_with};
