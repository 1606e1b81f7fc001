//! Streams: their pushes, times, windows and terms.

mod clocks;
mod derived;
mod jumps;
mod lines;
mod messages;
mod transient;
mod window_kinds;
mod windows;
