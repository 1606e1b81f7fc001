//! The times of a stream's sources, found by name without a lock.
//!
//! Before changing anything here: the sources form a tree that only grows. The bits of a name's
//! hash say which branch to take, and a node never moves, so a reader needs no lock and adding a
//! source touches one branch. The hash has fixed keys, and no answer depends on the order of a walk
//! (S6).

use somersault_model::EventTime;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

/// The number of branches of a node.
const BRANCHES: usize = 4;

/// An event time that one thread writes and others read; without a value at first.
#[derive(Debug)]
pub(super) struct Time(AtomicI64);

impl Default for Time {
    fn default() -> Self {
        Time(AtomicI64::new(i64::MIN))
    }
}

impl Time {
    pub(super) fn get(&self) -> Option<EventTime> {
        match self.0.load(Ordering::Acquire) {
            i64::MIN => None,
            time => Some(EventTime(time)),
        }
    }

    pub(super) fn set(&self, time: EventTime) {
        self.0.store(time.0, Ordering::Release);
    }
}

/// The part of a source that every thread may read.
#[derive(Debug)]
pub(crate) struct SourceClock {
    name: Box<str>,
    /// Counts the stream's sources from 0 in order of appearance; part of the names of its blank
    /// nodes.
    number: u32,
    /// Its newest event time less LATENESS: the source promises nothing older. Without a value
    /// before its first accepted statement.
    time: Time,
    /// When the source last sent something, by the clock in the records.
    heard_ms: AtomicI64,
    /// The highest sequence number that it has used, plus one; 0 for none.
    numbers_to: AtomicU64,
}

impl SourceClock {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn time(&self) -> Option<EventTime> {
        self.time.get()
    }

    pub(super) fn heard_ms(&self) -> i64 {
        self.heard_ms.load(Ordering::Acquire)
    }

    /// Whether a push with this number may be a repeat.
    pub(super) fn may_have_used(&self, number: u64) -> bool {
        number.saturating_add(1) <= self.numbers_to.load(Ordering::Acquire)
    }

    pub(super) fn set_time(&self, time: EventTime) {
        self.time.set(time);
    }

    pub(super) fn set_heard(&self, heard_ms: i64) {
        self.heard_ms.store(heard_ms, Ordering::Release);
    }

    pub(super) fn use_number(&self, number: u64) {
        let to = number.saturating_add(1);
        self.numbers_to.fetch_max(to, Ordering::Release);
    }

    /// Takes over the numbers that the source has used in the stream's life before.
    pub(super) fn use_numbers_of(&self, before: &SourceClock) {
        let to = before.numbers_to.load(Ordering::Acquire);
        self.numbers_to.store(to, Ordering::Release);
    }
}

type Branches = [OnceLock<Box<Node>>; BRANCHES];

#[derive(Debug)]
struct Node {
    source: SourceClock,
    branches: Branches,
}

/// The sources of a stream by name.
#[derive(Debug, Default)]
pub(super) struct SourceClocks {
    root: Branches,
    count: AtomicU32,
}

impl SourceClocks {
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire) as usize
    }

    pub(super) fn find(&self, name: &str) -> Option<&SourceClock> {
        let mut branches = &self.root;
        for branch in path(name) {
            let node = branches[branch].get()?;
            if *node.source.name == *name {
                return Some(&node.source);
            }
            branches = &node.branches;
        }
        None
    }

    /// Returns a source, which is added if it is new.
    pub(super) fn add(&self, name: &str, heard_ms: i64) -> &SourceClock {
        let mut branches = &self.root;
        for branch in path(name) {
            let node = branches[branch].get_or_init(|| {
                let number = self.count.fetch_add(1, Ordering::AcqRel);
                Box::new(Node {
                    source: SourceClock {
                        name: name.into(),
                        number,
                        time: Time::default(),
                        heard_ms: AtomicI64::new(heard_ms),
                        numbers_to: AtomicU64::new(0),
                    },
                    branches: Branches::default(),
                })
            });
            if *node.source.name == *name {
                return &node.source;
            }
            branches = &node.branches;
        }
        unreachable!("a path has no end")
    }

    /// All sources, in no order that an answer may depend on.
    pub(super) fn iter(&self) -> impl Iterator<Item = &SourceClock> {
        Walk {
            open: vec![self.root.iter()],
        }
    }
}

/// A walk over a tree of sources.
struct Walk<'t> {
    open: Vec<std::slice::Iter<'t, OnceLock<Box<Node>>>>,
}

impl<'t> Iterator for Walk<'t> {
    type Item = &'t SourceClock;

    fn next(&mut self) -> Option<&'t SourceClock> {
        loop {
            match self.open.last_mut()?.next() {
                None => drop(self.open.pop()),
                Some(branch) => {
                    if let Some(node) = branch.get() {
                        self.open.push(node.branches.iter());
                        return Some(&node.source);
                    }
                }
            }
        }
    }
}

/// The branches that lead to a name, without end: after the bits of one hash come those of another.
fn path(name: &str) -> impl Iterator<Item = usize> {
    const LEVELS: u32 = u64::BITS / BRANCHES.ilog2();
    (0u64..).flat_map(move |round| {
        let mut hasher = DefaultHasher::new();
        round.hash(&mut hasher);
        name.hash(&mut hasher);
        let hash = hasher.finish();
        (0..LEVELS).map(move |level| (hash >> (level * BRANCHES.ilog2())) as usize % BRANCHES)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn sources_are_found_by_name_while_others_are_added() {
        let clocks = SourceClocks::default();
        let name = |number: u32| format!("source {number}");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..5_000 {
                    let source = clocks.add(&name(number), 7);
                    assert_eq!(source.number(), number);
                    source.set_time(EventTime(i64::from(number)));
                }
            });
            for _ in 0..3 {
                for number in (0..5_000).rev() {
                    if let Some(source) = clocks.find(&name(number)) {
                        assert_eq!((source.name(), source.heard_ms()), (&*name(number), 7));
                    }
                }
            }
        });
        assert_eq!(clocks.len(), 5_000);
        assert!(clocks.find("").is_none());
        assert_eq!(clocks.add(&name(9), 8).number(), 9);
        let walked: BTreeSet<u32> = clocks.iter().map(SourceClock::number).collect();
        assert_eq!(walked, (0..5_000).collect());
        let time = |number| clocks.find(&name(number)).and_then(SourceClock::time);
        assert_eq!(time(4_999), Some(EventTime(4_999)));
    }

    #[test]
    fn a_number_at_or_below_the_highest_may_be_a_repeat() {
        let clocks = SourceClocks::default();
        let source = clocks.add("", 0);
        assert!(!source.may_have_used(0));
        source.use_number(7);
        source.use_number(3);
        assert!(source.may_have_used(5) && source.may_have_used(7) && !source.may_have_used(8));
        source.use_number(u64::MAX);
        assert!(source.may_have_used(u64::MAX));
    }
}
