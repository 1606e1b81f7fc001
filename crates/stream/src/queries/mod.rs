//! The registered continuous queries. Every one is a **member** of a **cohort**: the queries of one
//! shape, which differ in their names and constants alone. A query without a shape is the only
//! member of a cohort that no other joins.
//!
//! The one thing to know before changing it: the cohort is what fires, under the uid of its first
//! member; the member is what is registered, paused, resumed and dropped. A member that joins later
//! sees what it would see alone: its windows are those of the cohort, whose group has kept their
//! slices since before it came, and it fires for no close up to its own base.

mod cohort;
mod derive;
mod explain;
mod lifecycle;
mod members;
mod replace;

pub(crate) use cohort::{Cohort, Delivery, shape_of};
pub(crate) use replace::RetiringQuery;

use crate::coordinator::Coordinator;
use cohort::ShapeKey;
use hashbrown::HashTable;
use members::PauseHistory;
use rustc_hash::{FxBuildHasher, FxHashMap};
use somersault_lang::lift::Shape;
use somersault_lang::token::have_same_tokens;
use somersault_model::{EventTime, QueryUid};
use std::collections::BTreeMap;
use std::hash::BuildHasher;

/// A registered query: a slot of its cohort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberId {
    /// The uid of its cohort.
    pub cohort: QueryUid,
    /// Its slot in the cohort; no other member ever has it.
    pub slot: u32,
}

/// All cohorts, by uid and by shape, and their members, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queries {
    /// Looked up only, never walked over: the order of a hash map is no order.
    cohorts: FxHashMap<QueryUid, Cohort>,
    /// For each shape, its newest cohort, which further queries may join.
    by_shape: BTreeMap<ShapeKey, QueryUid>,
    /// Looked up only. The names are in the lists of the members.
    by_name: HashTable<MemberId>,
    /// The uid that the next registration gets.
    next_uid: u64,
}

/// A registered query, with its cohort's data about it.
pub(crate) struct MemberView<'q> {
    pub(crate) id: MemberId,
    pub(crate) uid: QueryUid,
    pub(crate) name: &'q str,
    /// The time after which it fires, or fired before it was paused.
    pub(crate) base: EventTime,
    pub(crate) history: PauseHistory,
    pub(crate) cohort: &'q Cohort,
}

impl MemberView<'_> {
    pub(crate) fn is_paused(&self) -> bool {
        self.history.paused.is_some()
    }

    /// The newest close that it fired for.
    pub(crate) fn last_close(&self) -> Option<EventTime> {
        let of_cohort = self.cohort.last_close();
        self.cohort.members.last_close(self.id.slot, of_cohort)
    }

    pub(crate) fn text(&self) -> String {
        self.cohort.members.text(self.id.slot)
    }

    /// Whether it was registered with this text, white space and comments aside.
    pub(crate) fn has_text(&self, text: &str, namespace: Option<&str>) -> bool {
        self.cohort.namespace() == namespace && have_same_tokens(&self.text(), text)
    }

    /// Whether it was registered with the text of this shape and these words, white space and
    /// comments aside.
    pub(crate) fn has_words(
        &self,
        shape: &Shape,
        words: &[String],
        namespace: Option<&str>,
    ) -> bool {
        let members = &self.cohort.members;
        self.cohort.namespace() == namespace
            && (members.has_text(self.id.slot, shape, words)
                || have_same_tokens(&self.text(), &shape.text(words)))
    }
}

impl Queries {
    pub(crate) fn get(&self, cohort: QueryUid) -> Option<&Cohort> {
        self.cohorts.get(&cohort)
    }

    pub(crate) fn get_mut(&mut self, cohort: QueryUid) -> Option<&mut Cohort> {
        self.cohorts.get_mut(&cohort)
    }

    /// The uids of all cohorts, ascending.
    pub(crate) fn cohort_uids(&self) -> Vec<QueryUid> {
        let mut uids: Vec<QueryUid> = self.cohorts.keys().copied().collect();
        uids.sort_unstable();
        uids
    }

    /// How many queries are registered.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// All registered queries, in no order.
    pub(crate) fn members(&self) -> impl Iterator<Item = MemberView<'_>> {
        self.by_name.iter().filter_map(|id| self.view(*id))
    }

    /// The registered query of a name.
    pub(crate) fn find(&self, name: &str) -> Option<MemberView<'_>> {
        let is_it = |id: &MemberId| self.name_of(*id) == name;
        self.view(*self.by_name.find(hash(name), is_it)?)
    }

    fn view(&self, id: MemberId) -> Option<MemberView<'_>> {
        let cohort = self.cohorts.get(&id.cohort)?;
        let found = cohort.members.find(id.slot)?;
        Some(MemberView {
            id,
            uid: found.uid,
            name: found.name,
            base: found.base,
            history: found.history,
            cohort,
        })
    }

    /// The cohort that queries of a shape may join.
    pub(crate) fn of_shape(&self, namespace: Option<&str>, shape: &Shape) -> Option<&Cohort> {
        let key = ShapeKey::of(namespace, shape)?;
        self.cohorts.get(self.by_shape.get(&key)?)
    }

    /// The name of a member of a cohort, for messages.
    pub(crate) fn shown_name(&self, cohort: QueryUid) -> &str {
        let name = self.get(cohort).and_then(|it| it.members.names().next());
        name.unwrap_or("a query")
    }

    /// The uid that the next registration gets.
    pub(crate) fn next_uid(&self) -> QueryUid {
        QueryUid(self.next_uid.max(1))
    }

    fn name_of(&self, id: MemberId) -> &str {
        let cohort = self.cohorts.get(&id.cohort);
        cohort.map_or("", |cohort| cohort.members.name(id.slot))
    }

    fn enter_name(&mut self, id: MemberId) {
        let cohorts = &self.cohorts;
        let hash_of = |id: &MemberId| {
            let cohort = cohorts.get(&id.cohort);
            hash(cohort.map_or("", |cohort| cohort.members.name(id.slot)))
        };
        self.by_name.insert_unique(hash_of(&id), id, hash_of);
    }

    fn remove_name(&mut self, id: MemberId) {
        let hash = hash(self.name_of(id));
        if let Ok(entry) = self.by_name.find_entry(hash, |other| *other == id) {
            entry.remove();
        }
    }

    fn add(&mut self, cohort: Cohort) {
        if let Some(key) = cohort.shape_key() {
            self.by_shape.insert(key.clone(), cohort.uid);
        }
        self.cohorts.insert(cohort.uid, cohort);
    }

    fn remove(&mut self, uid: QueryUid) -> Option<Cohort> {
        let cohort = self.cohorts.remove(&uid)?;
        if let Some(key) = cohort.shape_key()
            && self.by_shape.get(key) == Some(&uid)
        {
            self.by_shape.remove(key);
        }
        Some(cohort)
    }
}

fn hash(name: &str) -> u64 {
    FxBuildHasher.hash_one(name)
}

impl Coordinator {
    /// How many queries are registered.
    pub fn query_count(&self) -> usize {
        self.queries.len()
    }

    /// The cohort of the queries that have the shape of a text, and their number.
    pub fn group_of(&self, text: &str, namespace: Option<&str>) -> Option<(QueryUid, usize)> {
        let (shape, _) = Shape::of(text)?;
        let cohort = self.queries.of_shape(namespace, &shape)?;
        Some((cohort.uid, cohort.members.len()))
    }

    /// All cohorts: the uid, the name of one member, and the number of members.
    pub fn firing_queries(&self) -> Vec<(QueryUid, String, usize)> {
        let uids = self.queries.cohorts.values();
        let mut all: Vec<_> = uids
            .map(|cohort| {
                let name = self.queries.shown_name(cohort.uid).to_owned();
                (cohort.uid, name, cohort.members.len())
            })
            .collect();
        all.sort_unstable_by(|(_, a, _), (_, b, _)| a.cmp(b));
        all
    }

    /// The close that a member fires for next, if it runs and its closes have begun.
    pub(crate) fn next_of_member(&self, member: &MemberView<'_>) -> Option<EventTime> {
        let group = member.cohort.group.filter(|_| !member.is_paused())?;
        self.groups.get(group).next_of(&self.streams, member.base)
    }
}
