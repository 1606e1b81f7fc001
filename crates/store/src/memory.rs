//! Memory of the store's own: arrays that are mapped from the system.

mod array;

pub(crate) use array::{Array, Plain};
