//! Caches prepared queries by text, so that a repeated text is not parsed again, and by shape (the
//! text without its constants), so that a text that differs in constants alone is not either. The
//! cache is bounded, with a second chance: an entry that was used since the hand last passed it
//! stays. The one thing to know before changing it: a hit takes a shared lock, and writes only a
//! mark.

use crate::algebra::compile::compile;
use crate::prepared::Prepared;
use crate::prepared::parameters::BoundQuery;
use oxrdf::Term;
use parking_lot::RwLock;
use rustc_hash::{FxHashMap, FxHasher};
use somersault_lang::Query;
use somersault_lang::lift::{Lifted, lift};
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The number of texts of known shapes that are remembered until they are used again.
const SEEN: usize = 1 << 10;

/// A bounded cache of prepared queries.
pub struct PlanCache {
    texts: BoundedTable<BoundQuery>,
    /// By shape; `None` = texts of this shape are parsed one by one.
    shapes: BoundedTable<Option<Prepared>>,
    /// Hashes of texts that were seen once. Most texts with lifted constants are never repeated,
    /// and should not push out those that are.
    seen: Box<[AtomicU64]>,
}

impl PlanCache {
    /// A cache of at most `capacity` texts and as many shapes (at least one).
    pub fn new(capacity: usize) -> PlanCache {
        PlanCache {
            texts: BoundedTable::new(capacity),
            shapes: BoundedTable::new(capacity),
            seen: std::iter::repeat_with(AtomicU64::default)
                .take(SEEN)
                .collect(),
        }
    }

    /// The prepared query of a text; parsed with `parse` where it is new. Parsing depends on `base`
    /// as well. Readers of different `scope` share nothing, so that the time of an answer tells
    /// none of them what others ask.
    ///
    /// # Errors
    /// What `parse` returns; nothing is cached then.
    pub fn get_or_prepare<E>(
        &self,
        text: &str,
        base: Option<&str>,
        scope: u64,
        parse: impl Fn(&str) -> Result<Query, E>,
    ) -> Result<Arc<BoundQuery>, E> {
        let key = CacheKey::new(text, base, scope);
        if let Some(bound) = self.texts.get(&key) {
            return Ok(bound);
        }
        let Some(lifted) = lift(text, base) else {
            // Parsed outside the lock, so that a long text delays no other query.
            let bound = Arc::new(BoundQuery::without(Prepared::new(parse(text)?)));
            self.texts.put(&key, Arc::clone(&bound));
            return Ok(bound);
        };
        // The shape may hold relative IRIs.
        let shape = CacheKey::new(&lifted.shape, base, scope);
        let template = match self.shapes.get(&shape) {
            Some(template) => template,
            None => {
                let template = template(text, &lifted, &parse)?;
                let template = Arc::new(template);
                self.shapes.put(&shape, Arc::clone(&template));
                template
            }
        };
        let bound = (template.as_ref().as_ref())
            .and_then(|prepared| BoundQuery::new(prepared.clone(), lifted.constants).ok());
        let (bound, is_lifted) = match bound {
            Some(bound) => (bound, true),
            None => (BoundQuery::without(Prepared::new(parse(text)?)), false),
        };
        let bound = Arc::new(bound);
        if !is_lifted || self.has_seen(key.hash) {
            self.texts.put(&key, Arc::clone(&bound));
        }
        Ok(bound)
    }

    /// Whether a text was seen before. Records that it is seen now.
    fn has_seen(&self, hash: u64) -> bool {
        let place = &self.seen[(hash >> 32) as usize % SEEN];
        place.swap(hash, Ordering::Relaxed) == hash
    }

    /// The number of texts that are cached.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether none is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of shapes that are cached.
    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }
}

/// The query that all texts of a shape share, with its constants as parameters; `None` where it
/// cannot be shared. It must equal the query of this text except for the constants.
fn template<E>(
    text: &str,
    lifted: &Lifted,
    parse: &impl Fn(&str) -> Result<Query, E>,
) -> Result<Option<Prepared>, E> {
    let plain = parse(text)?;
    let template = lifted.template();
    let Ok(query) = parse(&template.text) else {
        return Ok(None);
    };
    Ok(shared(
        &plain,
        query,
        template.placeholders,
        &lifted.constants,
    ))
}

/// The query of a template, if it equals the plain query except for the constants.
pub(crate) fn shared(
    plain: &Query,
    query: Query,
    placeholders: Vec<Term>,
    constants: &[Term],
) -> Option<Prepared> {
    let pairs: Vec<(Term, Term)> = (placeholders.iter().cloned())
        .zip(constants.iter().cloned())
        .collect();
    let is_written = |name: &&String| !name.starts_with(['_', '.']);
    let same = query.pattern.eq_modulo_constants(&plain.pattern, &pairs)
        && query.form == plain.form
        && query.dataset == plain.dataset
        && query.base == plain.base
        && query.variables.len() == plain.variables.len()
        && (query.variables.iter().filter(is_written))
            .eq(plain.variables.iter().filter(is_written));
    if !same {
        return None;
    }
    let compiled = compile(&query, &query.pattern);
    let query = query.without_pattern();
    let parameters = placeholders.into_iter();
    let parameters = parameters.map(|term| (term, None, false)).collect();
    // Predicates belong to the shape, since plans depend on them.
    let prepared = Prepared::placed(query, compiled, parameters);
    prepared.filter(|prepared| !prepared.inner().gives_predicate)
}

/// The key of an entry: a text, the base IRI that it is parsed with, and the rights of its readers
/// as a number.
#[derive(Clone, Copy)]
pub(crate) struct CacheKey<'k> {
    text: &'k str,
    base: Option<&'k str>,
    scope: u64,
    hash: u64,
}

impl<'k> CacheKey<'k> {
    pub(crate) fn new(text: &'k str, base: Option<&'k str>, scope: u64) -> CacheKey<'k> {
        let mut hasher = FxHasher::default();
        hasher.write(text.as_bytes());
        hasher.write(base.unwrap_or_default().as_bytes());
        hasher.write_u64(scope);
        CacheKey {
            text,
            base,
            scope,
            hash: hasher.finish(),
        }
    }
}

/// A bounded table of shared values.
pub(crate) struct BoundedTable<V> {
    capacity: usize,
    inner: RwLock<Entries<V>>,
}

struct Entries<V> {
    /// The place of an entry, by the hash of its key. Of two keys with one hash the later replaces
    /// the earlier: that costs a parse, and nothing else.
    places: FxHashMap<u64, usize>,
    entries: Vec<Entry<V>>,
    /// The entry that is considered next for eviction.
    hand: usize,
}

struct Entry<V> {
    hash: u64,
    text: Box<str>,
    base: Option<Box<str>>,
    scope: u64,
    value: Arc<V>,
    used: AtomicBool,
}

impl<V> Entry<V> {
    fn is(&self, key: &CacheKey<'_>) -> bool {
        self.scope == key.scope && *self.text == *key.text && self.base.as_deref() == key.base
    }
}

impl<V> BoundedTable<V> {
    pub(crate) fn new(capacity: usize) -> BoundedTable<V> {
        BoundedTable {
            capacity: capacity.max(1),
            inner: RwLock::new(Entries {
                places: FxHashMap::default(),
                entries: Vec::new(),
                hand: 0,
            }),
        }
    }

    pub(crate) fn get(&self, key: &CacheKey<'_>) -> Option<Arc<V>> {
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

    pub(crate) fn put(&self, key: &CacheKey<'_>, value: Arc<V>) {
        let entry = Entry {
            hash: key.hash,
            text: key.text.into(),
            base: key.base.map(Box::from),
            scope: key.scope,
            value,
            used: AtomicBool::new(false),
        };
        // A replaced entry is dropped after the lock is released.
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

impl<V> Entries<V> {
    /// The place for an entry with this hash: its own, a new one, or that of an entry that was not
    /// used since the hand last passed it.
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

    fn key(text: &str) -> CacheKey<'_> {
        CacheKey::new(text, None, 0)
    }

    #[test]
    fn used_plans_stay_in_the_cache() {
        let table = BoundedTable::new(3);
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
    fn two_keys_with_one_hash_are_distinguished() {
        let table = BoundedTable::new(2);
        let (mut a, mut b) = (key("a"), key("b"));
        (a.hash, b.hash) = (1, 1);
        table.put(&a, Arc::new(1));
        assert!(table.get(&b).is_none());
        table.put(&b, Arc::new(2));
        assert_eq!(table.get(&b).as_deref(), Some(&2));
        assert!(table.get(&a).is_none());
        let with_base = CacheKey {
            base: Some("http://x/"),
            ..b
        };
        assert!(table.get(&with_base).is_none());
        assert!(table.get(&CacheKey { scope: 7, ..b }).is_none());
        assert_eq!(table.len(), 1);
    }
}
