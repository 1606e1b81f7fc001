//! The state of one execution: its limits, its buffers, the binding table, and the answer. Imports
//! `algebra`, `view` and `value`.

pub(crate) mod answer;
pub(crate) mod cells;
pub(crate) mod environment;
pub(crate) mod execution;
pub(crate) mod group_answer;
pub(crate) mod limiter;
pub(crate) mod table;
pub(crate) mod watch;
pub(crate) mod workspace;
