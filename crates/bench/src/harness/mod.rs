//! What every measurement needs: the machine, cores, memory, requests, targets, and what an engine
//! has to offer to be measured.

pub(crate) mod affinity;
pub(crate) mod contender;
pub(crate) mod heap;
pub(crate) mod http;
pub(crate) mod machine;
pub(crate) mod markdown;
pub(crate) mod target;
