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
mod needs;
mod replace;
mod saved;
mod shared_list;
mod subscriptions;

pub(crate) use cohort::{Cohort, Delivery, schedule_on};
pub(crate) use lifecycle::Registrar;
pub(crate) use needs::PlannedNeeds;
pub(crate) use replace::Replacements;
pub(crate) use saved::FrozenQueries;
pub(crate) use subscriptions::Subscriptions;

use crate::closes::close_group::CloseGroup;
use crate::closes::close_groups::{CloseGroups, SkippedCloses};
use crate::live::LiveFiring;
use crate::output::{Output, QueryChange};
use crate::protocol::firing::{BatchSpan, Firing, FiringKey};
use crate::protocol::status::{MemberId, NamePosition};
use crate::streams::Streams;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use members::{Counts, PauseHistory};
use rustc_hash::{FxBuildHasher, FxHashMap};
use somersault_lang::lift::Shape;
use somersault_lang::token::have_same_tokens;
use somersault_log::DeliveredRecord;
use somersault_model::{EventTime, QueryUid, Sn, StreamUid};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// All cohorts, by uid and by shape, and their members, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queries {
    /// Looked up only, never walked over: the order of a hash map is no order. A checkpoint shares
    /// cohorts until they change.
    cohorts: FxHashMap<QueryUid, Arc<Cohort>>,
    /// For each namespace and shape, its newest cohort, which further queries may join. Looked up
    /// only.
    by_shape: HashTable<QueryUid>,
    /// Looked up only. The names are in the lists of the members.
    by_name: HashTable<MemberId>,
    /// For each stream: the cohorts that window it.
    windowed: BTreeMap<StreamUid, BTreeSet<QueryUid>>,
    /// The newest delivered firing of each query; looked up only.
    delivered: FxHashMap<QueryUid, DeliveredRecord>,
    /// The uid that the next registration gets.
    next_uid: u64,
}

/// A registered query, with its cohort's data about it.
pub(crate) struct QueryView<'q> {
    pub(crate) id: MemberId,
    pub(crate) uid: QueryUid,
    pub(crate) name: &'q str,
    /// The time after which it fires, or fired before it was paused.
    pub(crate) base: EventTime,
    pub(crate) history: PauseHistory,
    pub(crate) cohort: &'q Cohort,
}

impl QueryView<'_> {
    pub(crate) fn is_paused(&self) -> bool {
        self.history.paused.is_some()
    }

    /// Its share of its cohort's counts.
    pub(crate) fn counts(&self) -> Counts {
        let of_cohort = self.cohort.counts();
        self.cohort.members.counts(self.id.slot, of_cohort)
    }

    /// The newest close that it fired for.
    pub(crate) fn last_close(&self) -> Option<EventTime> {
        let of_cohort = self.cohort.last_close();
        self.cohort.members.last_close(self.id.slot, of_cohort)
    }

    pub(crate) fn text(&self) -> String {
        self.cohort.members.text(self.id.slot)
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
        self.cohorts.get(&cohort).map(Arc::as_ref)
    }

    pub(crate) fn get_mut(&mut self, cohort: QueryUid) -> Option<&mut Cohort> {
        self.cohorts.get_mut(&cohort).map(Arc::make_mut)
    }

    /// The uids of all cohorts, ascending.
    pub(crate) fn cohort_uids(&self) -> Vec<QueryUid> {
        let mut uids: Vec<QueryUid> = self.cohorts.keys().copied().collect();
        uids.sort_unstable();
        uids
    }

    /// The number of queries that are registered.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// All registered queries, in no order.
    pub(crate) fn members(&self) -> impl Iterator<Item = QueryView<'_>> {
        self.by_name.iter().filter_map(|id| self.view(*id))
    }

    /// The registered query of a name.
    pub(crate) fn find(&self, name: &str) -> Option<QueryView<'_>> {
        let is_it = |id: &MemberId| self.name_of(*id) == name;
        self.view(*self.by_name.find(hash(name), is_it)?)
    }

    /// The query of a name that a logged command names.
    pub(crate) fn logged(&self, name: &str) -> QueryView<'_> {
        self.find(name)
            .expect("S2: the log names only queries that it registered before")
    }

    fn view(&self, id: MemberId) -> Option<QueryView<'_>> {
        let cohort = self.cohorts.get(&id.cohort)?;
        let found = cohort.members.find(id.slot)?;
        Some(QueryView {
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
        if !shape.is_shared() {
            return None;
        }
        let key = Some((namespace, shape.key()));
        let is_it = |uid: &QueryUid| self.get(*uid).map(Cohort::shape_key) == key;
        self.get(*self.by_shape.find(hash(key), is_it)?)
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
        let (uid, is_shared) = (cohort.uid, cohort.is_shared());
        self.insert(cohort);
        if is_shared {
            self.enter_shape(uid);
        }
    }

    fn insert(&mut self, cohort: Cohort) {
        for stream in cohort.streams() {
            self.windowed.entry(stream).or_default().insert(cohort.uid);
        }
        self.cohorts.insert(cohort.uid, Arc::new(cohort));
    }

    /// Lets further queries of its shape join this cohort, and no earlier one.
    fn enter_shape(&mut self, uid: QueryUid) {
        let key_of = |uid: &QueryUid| self.cohorts.get(uid).map(|it| it.shape_key());
        let key = key_of(&uid);
        let same = |other: &QueryUid| key_of(other) == key;
        match self
            .by_shape
            .entry(hash(key), same, |uid| hash(key_of(uid)))
        {
            Entry::Occupied(mut newest) => *newest.get_mut() = uid,
            Entry::Vacant(free) => _ = free.insert(uid),
        }
    }

    fn remove(&mut self, uid: QueryUid) -> Option<Cohort> {
        let cohort = Arc::unwrap_or_clone(self.cohorts.remove(&uid)?);
        let hash = hash(Some(cohort.shape_key()));
        if let Ok(newest) = self.by_shape.find_entry(hash, |other| *other == uid) {
            newest.remove();
        }
        for stream in cohort.streams() {
            if let Some(cohorts) = self.windowed.get_mut(&stream) {
                cohorts.remove(&uid);
                if cohorts.is_empty() {
                    self.windowed.remove(&stream);
                }
            }
        }
        self.delivered.remove(&uid);
        Some(cohort)
    }

    /// The cohorts that window a stream, ascending.
    pub(crate) fn windowing(&self, stream: StreamUid) -> impl Iterator<Item = QueryUid> + '_ {
        self.windowed.get(&stream).into_iter().flatten().copied()
    }

    /// The names of the members of these cohorts, up to a number, and how many members there are.
    fn names_of(
        &self,
        cohorts: impl Iterator<Item = QueryUid>,
        shown: usize,
    ) -> (Vec<&str>, usize) {
        let mut names: Vec<&str> = Vec::with_capacity(shown);
        let mut all = 0;
        for cohort in cohorts.filter_map(|uid| self.get(uid)) {
            all += cohort.members.len();
            names.extend(cohort.members.names().take(shown - names.len()));
        }
        names.sort_unstable();
        (names, all)
    }

    /// The queries that window a stream, as a list for people; `None` where there are none.
    pub(crate) fn readers_of(&self, stream: StreamUid) -> Option<String> {
        const NAMED: usize = 5;
        let (names, count) = self.names_of(self.windowing(stream), NAMED);
        let mut queries = names.join(", ");
        let unnamed = count - names.len();
        if unnamed > 0 {
            queries.push_str(&format!(" and {unnamed} more queries"));
        }
        (!queries.is_empty()).then_some(queries)
    }

    /// The cohort of the queries that have a shape, and their number.
    pub(crate) fn group_of(
        &self,
        shape: &Shape,
        namespace: Option<&str>,
    ) -> Option<(QueryUid, usize)> {
        let cohort = self.of_shape(namespace, shape)?;
        Some((cohort.uid, cohort.members.len()))
    }

    /// Gives `each` the names of members from a position on, `most` at the most. Returns the
    /// position after them, if there are more.
    pub(crate) fn names_from(
        &self,
        from: NamePosition,
        most: usize,
        each: &mut dyn FnMut(&str),
    ) -> Option<NamePosition> {
        let mut left = most;
        let uids = self.cohort_uids();
        for uid in uids.into_iter().filter(|uid| *uid >= from.cohort) {
            let first = if uid == from.cohort { from.slot } else { 0 };
            let cohort = self.get(uid);
            let names = cohort
                .into_iter()
                .flat_map(|it| it.members.names_from(first));
            for (slot, name) in names {
                if left == 0 {
                    return Some(NamePosition { cohort: uid, slot });
                }
                left -= 1;
                each(name);
            }
        }
        None
    }

    /// The close that a member fires for next, if it runs and its closes have begun.
    pub(crate) fn next_of(
        &self,
        member: &QueryView<'_>,
        groups: &CloseGroups,
        streams: &Streams,
    ) -> Option<EventTime> {
        let group = member.cohort.group.filter(|_| !member.is_paused())?;
        groups.get(group).next_of(streams, member.base)
    }

    /// Before replaying a log: the answers of this query up to this mark have been delivered.
    pub(crate) fn expect_delivered(&mut self, mark: &DeliveredRecord) {
        let newest = self.delivered.entry(mark.query).or_insert(*mark);
        if (newest.sn, newest.close) < (mark.sn, mark.close) {
            *newest = *mark;
        }
    }

    /// The treatment of a firing of a cohort; `None` where there is no such cohort.
    pub(crate) fn delivery(&self, uid: QueryUid, at: (EventTime, Sn)) -> Option<Delivery> {
        let cohort = self.get(uid)?;
        Some(cohort.delivery(at, self.delivered.get(&uid)))
    }

    /// Counts empty closes that were skipped, for each query.
    pub(crate) fn report_skipped(
        &mut self,
        groups: &CloseGroups,
        skipped: &[SkippedCloses],
        out: &mut Vec<Output>,
    ) {
        for run in skipped {
            let group = groups.get(run.group);
            for uid in group.members_at(run.last) {
                let Some(cohort) = self.get_mut(uid) else {
                    continue;
                };
                let (first, count) = cohort.on_skipped(run, group.schedule());
                let last = run.last;
                let skipped = QueryChange::Passed { first, last, count };
                out.push(Output::query(uid, skipped));
            }
        }
    }

    /// Counts the firings of a cohort for a close of its group. Returns those to execute.
    pub(crate) fn fire(
        &mut self,
        uid: QueryUid,
        (group, close, sn): (&CloseGroup, EventTime, Sn),
        streams: &Streams,
        out: &mut Vec<Output>,
    ) -> Vec<Firing> {
        let mark = self.delivered.get(&uid).copied();
        let Some(cohort) = self.get_mut(uid) else {
            return Vec::new();
        };
        let ordinals = group.firings_at(streams, close);
        cohort.on_close(close, ordinals);
        let delivery = cohort.delivery((close, sn), mark.as_ref());
        if delivery == Delivery::Done {
            let key = FiringKey {
                query: uid,
                close,
                ordinal: ordinals.saturating_sub(1),
                revision: 0,
            };
            out.push(Output::query(uid, QueryChange::Delivered { key, sn }));
            return Vec::new();
        }
        let firings = (0..ordinals).map(|ordinal| Firing {
            repeated: delivery == Delivery::Repeated,
            ..cohort.firing(streams, group, (close, ordinal, 0), sn)
        });
        firings.collect()
    }

    /// Counts a firing of a live query. Returns it, if it is to be executed.
    pub(crate) fn fire_live(
        &mut self,
        live: LiveFiring,
        (close, sn): (EventTime, Sn),
        out: &mut Vec<Output>,
    ) -> Option<Firing> {
        let uid = live.query;
        let mark = self.delivered.get(&uid).copied();
        let cohort = self.get_mut(uid)?;
        cohort.on_change(close);
        let delivery = cohort.delivery((close, sn), mark.as_ref());
        let firing = Firing {
            repeated: delivery == Delivery::Repeated,
            ..cohort.live_firing(live, (close, sn))
        };
        if delivery == Delivery::Done {
            let key = firing.key();
            out.push(Output::query(uid, QueryChange::Delivered { key, sn }));
            return None;
        }
        Some(firing)
    }

    /// Counts one more firing of a cohort for a close whose windows hold one of these amended
    /// batches. Returns the firing, if it is to be executed.
    pub(crate) fn fire_again(
        &mut self,
        uid: QueryUid,
        (group, close, revision, sn): (&CloseGroup, EventTime, u32, Sn),
        batches: &[BatchSpan],
        (streams, out): (&Streams, &mut Vec<Output>),
    ) -> Option<Firing> {
        let mark = self.delivered.get(&uid).copied();
        // Queries of one group fire together, but their windows reach back to different times.
        let cohort = self.get_mut(uid).filter(|it| it.shows(close, batches))?;
        cohort.on_amended(close);
        let firing = cohort.firing(streams, group, (close, 0, revision), sn);
        // No later answer is compared with an amended firing.
        match cohort.delivery((close, sn), mark.as_ref()) {
            Delivery::Done => {
                let key = firing.key();
                out.push(Output::query(uid, QueryChange::Delivered { key, sn }));
                None
            }
            Delivery::Owed | Delivery::Repeated => Some(firing),
        }
    }
}

fn hash(key: impl Hash) -> u64 {
    FxBuildHasher.hash_one(key)
}
