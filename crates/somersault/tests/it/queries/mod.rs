//! Queries: one-shot ones, and the life and the answers of continuous ones.

mod changes;
mod delta;
mod groups;
mod lifecycle;
mod live;
mod members;
mod one_shot;
mod replacing;
mod shards;
