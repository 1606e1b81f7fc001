//! Prepared queries by their text, so that a text that comes again is not parsed again. Bounded:
//! the entry that was not used for longest goes first.

use crate::Prepared;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use somersault_lang::Query;

/// A bounded cache of prepared queries.
pub struct PlanCache {
    capacity: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: FxHashMap<String, Entry>,
    uses: u64,
}

struct Entry {
    prepared: Prepared,
    last_use: u64,
}

impl PlanCache {
    /// A cache of at most `capacity` queries (at least one).
    pub fn new(capacity: usize) -> PlanCache {
        PlanCache {
            capacity: capacity.max(1),
            inner: Mutex::new(Inner::default()),
        }
    }

    /// The prepared query under `key` (the text, and what else its parsing depends on: base and
    /// default namespace); parsed with `parse` where it is new.
    ///
    /// # Errors
    /// What `parse` returns; nothing is cached then.
    pub fn get_or_prepare<E>(
        &self,
        key: &str,
        parse: impl FnOnce() -> Result<Query, E>,
    ) -> Result<Prepared, E> {
        if let Some(prepared) = self.get(key) {
            return Ok(prepared);
        }
        // Parsed outside the lock: a long text holds nobody up.
        let prepared = Prepared::new(parse()?);
        let mut inner = self.inner.lock();
        inner.uses += 1;
        let last_use = inner.uses;
        if inner.entries.len() >= self.capacity
            && let Some(oldest) = inner
                .entries
                .iter()
                .min_by_key(|(_, entry)| entry.last_use)
                .map(|(key, _)| key.clone())
        {
            inner.entries.remove(&oldest);
        }
        let entry = Entry {
            prepared: prepared.clone(),
            last_use,
        };
        inner.entries.insert(key.to_owned(), entry);
        Ok(prepared)
    }

    fn get(&self, key: &str) -> Option<Prepared> {
        let mut inner = self.inner.lock();
        inner.uses += 1;
        let now = inner.uses;
        let entry = inner.entries.get_mut(key)?;
        entry.last_use = now;
        Some(entry.prepared.clone())
    }

    /// How many queries are cached.
    pub fn len(&self) -> usize {
        self.inner.lock().entries.len()
    }

    /// Whether none is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
