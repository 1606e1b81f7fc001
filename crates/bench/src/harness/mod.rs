//! The base of every measurement: the machine, cores, memory, requests, targets, and the interface
//! of an engine that can be measured.

pub(crate) mod affinity;
pub(crate) mod checkpoints;
pub(crate) mod contender;
pub(crate) mod heap;
pub(crate) mod http;
pub(crate) mod machine;
pub(crate) mod markdown;
pub(crate) mod process;
pub(crate) mod target;
