//! The memory of state that is retained between executions: the full capacity of lists and maps.
//! The one thing to know before changing it: a burst makes them large, and only the functions here
//! shrink them again.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// A list or map with at most this capacity is never shrunk.
const LEAST: usize = 1 << 10;

/// Whether so little of the capacity is in use that the rest is released.
pub(super) fn is_sparse(used: usize, held: usize) -> bool {
    held > LEAST && held / 4 > used
}

/// Memory of a list.
pub(super) fn of_list<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// Memory of a map, without what its keys and values hold themselves.
pub(super) fn of_map<K, V>(map: &FxHashMap<K, V>) -> usize {
    // One place in eight stays free, and each has a byte of its own.
    map.capacity() * (size_of::<(K, V)>() + 1) * 8 / 7
}

/// Releases the unused capacity of a list, except for some to grow.
pub(super) fn shrink_list<T>(list: &mut Vec<T>) {
    if is_sparse(list.len(), list.capacity()) {
        list.shrink_to(2 * list.len());
    }
}

/// The same for a map.
pub(super) fn shrink_map<K: Eq + Hash, V>(map: &mut FxHashMap<K, V>) {
    if is_sparse(map.len(), map.capacity()) {
        map.shrink_to(2 * map.len());
    }
}
