//! The query pool of Somersault: threads that execute firings and one-shot queries, and that share
//! the work of heavy ones. It knows no query: a job is a closure. Beside the pool, [`in_parallel`]
//! shares the work of one call among threads of its own.
//!
//! Only `task` (work borrowed from the caller's stack) and `cores` (calls of the system) hold
//! `unsafe`.

mod cores;
mod helpers;
mod parallel;
mod pool;
mod queues;
mod task;
mod workers;

pub use cores::lower_own_priority;
pub use helpers::Workers;
pub use parallel::in_parallel;
pub use pool::QueryPool;
pub use queues::Class;
