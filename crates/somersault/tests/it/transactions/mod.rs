//! Procedures: called, refused, aborted, called again under their keys, and after crashes.

mod analyse;
mod calls;
mod checkpoints;
mod crashes;
mod listings;
mod native;
mod rules;
mod streams;
mod weak;
