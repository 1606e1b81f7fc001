//! Prepared queries by their text, so that a text that comes again is not parsed again. Bounded, with
//! a second chance: a text that was used since it was last looked at stays. The one thing to know
//! before changing it: finding a text takes a lock that others may share, and writes nothing but a mark.

use crate::{Bound, Prepared};
use parking_lot::RwLock;
use rustc_hash::{FxHashMap, FxHasher};
use somersault_lang::Query;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A bounded cache of prepared queries.
pub struct PlanCache {
    texts: Table<Bound>,
}

impl PlanCache {
    /// A cache of at most `capacity` queries (at least one).
    pub fn new(capacity: usize) -> PlanCache {
        PlanCache {
            texts: Table::new(capacity),
        }
    }

    /// The prepared query of a text; parsed with `parse` where it is new. `base` is what else the
    /// parsing depends on.
    ///
    /// # Errors
    /// What `parse` returns; nothing is cached then.
    pub fn get_or_prepare<E>(
        &self,
        text: &str,
        base: Option<&str>,
        parse: impl FnOnce() -> Result<Query, E>,
    ) -> Result<Arc<Bound>, E> {
        let key = Key::new(text, base);
        if let Some(bound) = self.texts.get(&key) {
            return Ok(bound);
        }
        // Parsed outside the lock: a long text holds nobody up.
        let bound = Arc::new(Bound::without(Prepared::new(parse()?)));
        self.texts.put(&key, Arc::clone(&bound));
        Ok(bound)
    }

    /// How many queries are cached.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether none is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What an entry is found by: a text, and the base IRI that it is read with.
#[derive(Clone, Copy)]
pub(crate) struct Key<'k> {
    text: &'k str,
    base: Option<&'k str>,
    hash: u64,
}

impl<'k> Key<'k> {
    pub(crate) fn new(text: &'k str, base: Option<&'k str>) -> Key<'k> {
        let mut hasher = FxHasher::default();
        hasher.write(text.as_bytes());
        hasher.write(base.unwrap_or_default().as_bytes());
        Key {
            text,
            base,
            hash: hasher.finish(),
        }
    }
}

/// A bounded table of shared values.
pub(crate) struct Table<V> {
    capacity: usize,
    inner: RwLock<Inner<V>>,
}

struct Inner<V> {
    /// Where an entry is, by the hash of its key. Of two keys with one hash the later replaces the
    /// earlier: that costs a parse, and nothing else.
    places: FxHashMap<u64, usize>,
    entries: Vec<Entry<V>>,
    /// The entry that is looked at next when one has to go.
    hand: usize,
}

struct Entry<V> {
    hash: u64,
    text: Box<str>,
    base: Option<Box<str>>,
    value: Arc<V>,
    used: AtomicBool,
}

impl<V> Entry<V> {
    fn is(&self, key: &Key<'_>) -> bool {
        *self.text == *key.text && self.base.as_deref() == key.base
    }
}

impl<V> Table<V> {
    pub(crate) fn new(capacity: usize) -> Table<V> {
        Table {
            capacity: capacity.max(1),
            inner: RwLock::new(Inner {
                places: FxHashMap::default(),
                entries: Vec::new(),
                hand: 0,
            }),
        }
    }

    pub(crate) fn get(&self, key: &Key<'_>) -> Option<Arc<V>> {
        let inner = self.inner.read();
        let entry = &inner.entries[*inner.places.get(&key.hash)?];
        if !entry.is(key) {
            return None;
        }
        // Mostly set already: then the line stays shared between the readers.
        if !entry.used.load(Ordering::Relaxed) {
            entry.used.store(true, Ordering::Relaxed);
        }
        Some(Arc::clone(&entry.value))
    }

    pub(crate) fn put(&self, key: &Key<'_>, value: Arc<V>) {
        let entry = Entry {
            hash: key.hash,
            text: key.text.into(),
            base: key.base.map(Box::from),
            value,
            used: AtomicBool::new(false),
        };
        // What is replaced is dropped after the lock is given back.
        let _old = {
            let mut inner = self.inner.write();
            let at = inner.place(key.hash, self.capacity);
            inner.places.insert(key.hash, at);
            if at == inner.entries.len() {
                inner.entries.push(entry);
                None
            } else {
                let old = std::mem::replace(&mut inner.entries[at], entry);
                if old.hash != key.hash {
                    inner.places.remove(&old.hash);
                }
                Some(old)
            }
        };
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.read().entries.len()
    }
}

impl<V> Inner<V> {
    /// Where an entry with this hash goes: its own place, a new one, or that of one that was not used
    /// since the hand came by.
    fn place(&mut self, hash: u64, capacity: usize) -> usize {
        if let Some(at) = self.places.get(&hash) {
            return *at;
        }
        if self.entries.len() < capacity {
            return self.entries.len();
        }
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.entries.len();
            if !std::mem::take(self.entries[at].used.get_mut()) {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key<'_> {
        Key::new(text, None)
    }

    #[test]
    fn what_is_used_stays() {
        let table = Table::new(3);
        for text in ["a", "b", "c"] {
            table.put(&key(text), Arc::new(text.to_owned()));
        }
        assert!(table.get(&key("a")).is_some() && table.get(&key("c")).is_some());
        table.put(&key("d"), Arc::new("d".to_owned()));
        let there = |text: &str| table.get(&key(text)).map(|value| (*value).clone());
        assert_eq!(there("b"), None);
        for text in ["a", "c", "d"] {
            assert_eq!(there(text).as_deref(), Some(text));
        }
        for number in 0..100 {
            let text = number.to_string();
            table.put(&key(&text), Arc::new(text.clone()));
            assert_eq!(there(&text).as_deref(), Some(text.as_str()));
            assert_eq!(table.len(), 3);
        }
    }

    #[test]
    fn two_keys_of_one_hash_are_told_apart() {
        let table = Table::new(2);
        let (mut a, mut b) = (key("a"), key("b"));
        (a.hash, b.hash) = (1, 1);
        table.put(&a, Arc::new(1));
        assert!(table.get(&b).is_none());
        table.put(&b, Arc::new(2));
        assert_eq!(table.get(&b).as_deref(), Some(&2));
        assert!(table.get(&a).is_none());
        let with_base = Key {
            base: Some("http://x/"),
            ..b
        };
        assert!(table.get(&with_base).is_none());
        assert_eq!(table.len(), 1);
    }
}
