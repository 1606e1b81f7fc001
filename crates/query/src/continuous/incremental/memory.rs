//! The room that what is kept from one execution to the next takes: all that lists and maps hold, be it in use or not. The
//! one thing to know before changing it: a burst makes them large, and nothing but what is here makes them small again.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// What holds room for no more than this is left alone.
const LEAST: usize = 1 << 10;

/// Whether of the places that are held so few are in use that the others are given back.
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

/// Gives back what a list holds and does not need, but for some to grow.
pub(super) fn shrink_list<T>(list: &mut Vec<T>) {
    if is_sparse(list.len(), list.capacity()) {
        list.shrink_to(2 * list.len());
    }
}

/// The same of a map.
pub(super) fn shrink_map<K: Eq + Hash, V>(map: &mut FxHashMap<K, V>) {
    if is_sparse(map.len(), map.capacity()) {
        map.shrink_to(2 * map.len());
    }
}
