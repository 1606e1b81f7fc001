//! Memory primitives without a lock: a growing array, a hash table of numbers, and prefetching.

mod growing;
mod prefetch;
mod slots;

pub(crate) use growing::Growing;
pub use prefetch::prefetch;
pub use slots::Slots;
