//! Procedures: called, refused, aborted, called again under their keys, and after crashes.

mod calls;
mod checkpoints;
mod crashes;
mod listings;
mod streams;
mod weak;
