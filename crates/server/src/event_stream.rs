//! Event streams: the texts of their events, shared by all subscribers, and the threads that serve
//! their connections.

pub(crate) mod texts;
pub(crate) mod threads;
