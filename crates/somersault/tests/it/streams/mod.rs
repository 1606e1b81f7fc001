//! Streams: their pushes, times, windows and terms.

mod clocks;
mod contexts;
mod derived;
mod documents;
mod jumps;
mod lines;
mod messages;
mod transient;
mod window_kinds;
mod windows;
