//! The memory of a prepared query between executions: its plan, and the ids of constants that the
//! dictionary knew. A plan is correct for any constants and on any view, since estimates only steer
//! it. So a remembered plan can cost time and never a correct answer.
//!
//! A new plan is made when a graph or window that it reads has grown or shrunk by a factor. When an
//! execution costs much more than the plan promised, a plan for its constants is made as well, and
//! the better one stays.

use crate::exec::step::Plan;
use crate::view::sources::Graphs;
use crate::view::term_source::TermSource;
use parking_lot::RwLock;
use somersault_model::{Tag, TermId};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The factor by which a source may grow or shrink before a new plan is made.
const CHANGE: u64 = 2;
/// Smaller sources than this are all alike to a plan.
const SMALL: u64 = 64;
/// The factor by which an execution may exceed the expected rows before the plan is doubted.
const SURPRISE: u64 = 16;
/// Fewer rows than this are no surprise to any plan: making another would cost more.
const NO_SURPRISE: u64 = 1 << 12;
/// The factor by which another plan must look better to replace the remembered one.
const BETTER: u64 = 4;
/// The longest pause, in executions, between two tries to run in place.
const LONGEST_PAUSE: u32 = 63;

/// A plan with the sizes that it was made for.
#[derive(Debug)]
pub(crate) struct CachedPlan {
    pub(crate) plan: Plan,
    /// The number of statements in each source, and the number of cells.
    sizes: Vec<u64>,
    /// The number of rows that all its steps together are expected to make; raised when more turn
    /// out usual.
    expected: AtomicU64,
}

impl CachedPlan {
    pub(crate) fn new(plan: Plan, graphs: &Graphs<'_>, cells: usize) -> CachedPlan {
        let expected = plan.expected_rows() as u64;
        CachedPlan {
            plan,
            sizes: sizes(graphs, cells).collect(),
            expected: AtomicU64::new(expected),
        }
    }

    /// The number of rows that its steps are expected to make.
    pub(crate) fn expected(&self) -> u64 {
        self.expected.load(Ordering::Relaxed)
    }

    /// Whether the view is still about as large as the plan was made for, and the cells about as
    /// many.
    fn fits(&self, graphs: &Graphs<'_>, cells: usize) -> bool {
        let mut before = self.sizes.iter();
        let alike = sizes(graphs, cells)
            .all(|now| before.next().is_some_and(|before| !far_apart(*before, now)));
        alike && before.next().is_none()
    }

    /// Whether an execution that made this many rows casts doubt on it.
    pub(crate) fn is_surprised_by(&self, rows: u64) -> bool {
        rows > NO_SURPRISE && rows > self.expected().saturating_mul(SURPRISE)
    }
}

/// Whether a plan that was made for one size is doubtful for another.
fn far_apart(before: u64, now: u64) -> bool {
    let (before, now) = (before.max(SMALL), now.max(SMALL));
    now > before.saturating_mul(CHANGE) || before > now.saturating_mul(CHANGE)
}

/// The sizes that a plan's estimates are based on.
fn sizes<'g>(graphs: &'g Graphs<'_>, cells: usize) -> impl Iterator<Item = u64> + 'g {
    let dataset = graphs.view().dataset();
    let named = dataset.named.listed();
    let sources = dataset.default.iter().chain(named.iter().map(|(_, s)| s));
    let statements = sources.map(|source| graphs.view().statement_count(*source));
    statements.chain([cells as u64])
}

/// A plan that an execution uses and its thread keeps afterwards. Otherwise all threads that
/// execute one query would write to the lock and to the reference count of one plan.
#[derive(Debug)]
pub(crate) struct ThreadPlan {
    /// The number of its [`PlanMemory`].
    kept: u64,
    /// Its version there.
    version: u64,
    pub(crate) plan: Arc<CachedPlan>,
}

/// The number of plans that a thread holds.
const HELD: usize = 16;

thread_local! {
    /// The plans that this thread used last. Two queries whose numbers share a place take turns.
    static OF_THREAD: RefCell<[Option<ThreadPlan>; HELD]> =
        const { RefCell::new([const { None }; HELD]) };
}

impl ThreadPlan {
    /// Takes the plan in a query's place out of this thread's plans. It may be another query's.
    pub(crate) fn take(kept: &PlanMemory) -> Option<ThreadPlan> {
        let place = kept.number as usize % HELD;
        OF_THREAD.with_borrow_mut(|plans| plans[place].take())
    }

    /// Puts the plan in its place among this thread's plans.
    pub(crate) fn hold(self) {
        let place = self.kept as usize % HELD;
        let before = OF_THREAD.with_borrow_mut(|plans| plans[place].replace(self));
        // A plan is dropped only after the borrow has ended.
        drop(before);
    }
}

/// The version of a plan that is not remembered.
const NEVER: u64 = u64::MAX;

/// The number of the next [`PlanMemory`].
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The plan that a prepared query has at the moment, and how its executions in place went.
#[derive(Debug)]
pub(crate) struct PlanMemory {
    /// Unique in the process.
    number: u64,
    plan: RwLock<Option<Arc<CachedPlan>>>,
    /// The number of plans that it has had; written with the plan locked.
    version: AtomicU64,
    /// The number of further executions that are not tried in place.
    pause: AtomicU32,
    last_pause: AtomicU32,
}

impl Default for PlanMemory {
    fn default() -> PlanMemory {
        PlanMemory {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            plan: RwLock::new(None),
            version: AtomicU64::new(0),
            pause: AtomicU32::new(0),
            last_pause: AtomicU32::new(0),
        }
    }
}

impl PlanMemory {
    /// The plan, if it suits the view and this many cells; `held` is the plan that the thread kept
    /// in its place.
    pub(crate) fn get(
        &self,
        graphs: &Graphs<'_>,
        cells: usize,
        held: Option<ThreadPlan>,
    ) -> Option<ThreadPlan> {
        let newest = self.version.load(Ordering::Relaxed);
        let own = held.filter(|held| held.kept == self.number && held.version == newest);
        let held = match own {
            Some(held) => held,
            None => {
                let plan = self.plan.read();
                ThreadPlan {
                    kept: self.number,
                    version: self.version.load(Ordering::Relaxed),
                    plan: Arc::clone(plan.as_ref()?),
                }
            }
        };
        held.plan.fits(graphs, cells).then_some(held)
    }

    /// The number of rows that the plan expects to make, if there is one.
    pub(crate) fn expected(&self) -> Option<u64> {
        self.plan.read().as_ref().map(|plan| plan.expected())
    }

    /// Replaces the remembered plan.
    pub(crate) fn put(&self, plan: Arc<CachedPlan>) -> ThreadPlan {
        let mut kept = self.plan.write();
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        *kept = Some(Arc::clone(&plan));
        self.held(plan, version)
    }

    /// A plan that is not remembered: no later execution finds it.
    pub(crate) fn unkept(&self, plan: Arc<CachedPlan>) -> ThreadPlan {
        self.held(plan, NEVER)
    }

    fn held(&self, plan: Arc<CachedPlan>, version: u64) -> ThreadPlan {
        ThreadPlan {
            kept: self.number,
            version,
            plan,
        }
    }

    /// After a surprising execution: remembers the plan that was made for its constants if it
    /// promises to be much better, else records that this many rows are usual.
    pub(crate) fn reconsider(&self, used: &CachedPlan, rows: u64, other: CachedPlan) {
        if other.expected().saturating_mul(BETTER) < rows {
            self.put(Arc::new(other));
        } else {
            used.expected.fetch_max(rows, Ordering::Relaxed);
        }
    }

    /// Whether it is worth trying in place, by how the last executions went.
    pub(crate) fn is_worth_trying(&self) -> bool {
        let less_one = |pause: u32| pause.checked_sub(1);
        self.pause.load(Ordering::Relaxed) == 0
            || self
                .pause
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less_one)
                .is_err()
    }

    /// Records whether an execution in place kept within its budget.
    pub(crate) fn tried(&self, done: bool) {
        let before = self.last_pause.load(Ordering::Relaxed);
        let pause = match done {
            true if before == 0 => return,
            true => 0,
            false => (2 * before + 1).min(LONGEST_PAUSE),
        };
        self.last_pause.store(pause, Ordering::Relaxed);
        self.pause.store(pause, Ordering::Relaxed);
    }
}

/// The ids of some terms that a dictionary knows permanently. A permanent id is never given to
/// another term, so it stays valid. An unknown term is looked up again each time, and so is one
/// that only timing statements mention. Only the first dictionary that is used is remembered.
#[derive(Debug)]
pub(crate) struct KnownIds {
    /// The number of that dictionary; 0 while there is none.
    dictionary: AtomicU64,
    ids: Box<[AtomicU64]>,
}

impl KnownIds {
    pub(crate) fn new(terms: usize) -> KnownIds {
        let unknown = || AtomicU64::new(TermId::UNBOUND.raw());
        KnownIds {
            dictionary: AtomicU64::new(0),
            ids: std::iter::repeat_with(unknown).take(terms).collect(),
        }
    }

    /// Whether these are ids of this dictionary.
    pub(crate) fn are_of(&self, dictionary: u64) -> bool {
        let order = Ordering::Relaxed;
        match self.dictionary.load(order) {
            0 => {
                let claimed = self
                    .dictionary
                    .compare_exchange(0, dictionary, order, order);
                claimed.is_ok() || claimed == Err(dictionary)
            }
            known => known == dictionary,
        }
    }

    /// The id at a place, found with `find` where it is not known.
    #[inline]
    pub(crate) fn id(
        &self,
        at: usize,
        dictionary: TermSource<'_>,
        find: impl FnOnce() -> TermId,
    ) -> TermId {
        // A thread that sees the id must see the dictionary's entry for it too.
        let known = TermId::from_raw(self.ids[at].load(Ordering::Acquire));
        if !known.is_unbound() {
            return known;
        }
        let id = find();
        let stays = !id.is_transient() || dictionary.is_permanent(id);
        if id.tag() != Tag::Local && stays {
            self.ids[at].store(id.raw(), Ordering::Release);
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::NamedNode;
    use somersault_dictionary::Dictionary;
    use somersault_model::StreamUid;

    #[test]
    fn failures_in_place_make_ever_longer_pauses() {
        let kept = PlanMemory::default();
        let pause = || {
            let mut count = 0;
            while !kept.is_worth_trying() {
                count += 1;
            }
            count
        };
        assert_eq!(pause(), 0);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            kept.tried(false);
            pauses.push(pause());
        }
        assert_eq!(pauses, [1, 3, 7, 15, 31, 63, 63, 63]);
        kept.tried(true);
        kept.tried(false);
        assert_eq!(pause(), 1);
    }

    #[test]
    fn ids_of_one_dictionary_alone_are_known() {
        let known = KnownIds::new(1);
        let dictionary = Dictionary::new();
        assert!(known.are_of(7));
        assert!(!known.are_of(8));
        assert!(known.are_of(7));
        let local = TermId::local(3);
        assert_eq!(known.id(0, (&dictionary).into(), || local), local);
        let lease = dictionary.lease(StreamUid(1));
        let name = NamedNode::new_unchecked("http://example.com/");
        let name = name.as_ref().into();
        let transient = dictionary.mention(name, &mut dictionary.mentions(&lease));
        assert_eq!(known.id(0, (&dictionary).into(), || transient), transient);
        assert_eq!(
            known.id(0, (&dictionary).into(), || local),
            local,
            "it may go"
        );
        dictionary.make_permanent(transient);
        assert_eq!(known.id(0, (&dictionary).into(), || transient), transient);
        assert_eq!(
            known.id(0, (&dictionary).into(), || local),
            transient,
            "it stays"
        );
    }
}
