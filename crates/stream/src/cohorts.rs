//! Cohorts: registered queries of one shape, which differ in their names and constants alone, stand together. A
//! cohort is what fires, a query like any other to groups, cuts and `Delivered` marks, under the uid of its first member;
//! who fires with it for a close, `members` knows.
//!
//! Before changing anything here: a member that joins later sees what it would see alone. Its windows are those of the
//! cohort, whose group has kept their slices since before it came, so that what its streams retained at its own
//! registration says nothing new; and it fires for no close before its own base.

use crate::coordinator::Coordinator;
use crate::declaration::{Resolve, ResolveError};
use crate::members::{Counts, Members};
use crate::output::{JoiningMember, Output, Pause};
use crate::registry::State;
use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};
use somersault_lang::lift::{Shape, join_pieces};
use somersault_log::Resolved;
use somersault_model::{EventTime, QueryUid};
use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Where a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The uid of its cohort.
    pub cohort: QueryUid,
    /// Its place there; no other member ever has it.
    pub place: u32,
}

/// A registered query, by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named {
    Alone(QueryUid),
    Member(Place),
}

/// All cohorts, by shape, and their members, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cohorts {
    /// By default namespace and shape: of several of one shape the newest, which others may join.
    by_shape: BTreeMap<(Option<String>, String), QueryUid>,
    /// Looked up only, never walked over.
    members: FxHashMap<QueryUid, Members>,
    /// The same. The names are in the lists of the members.
    by_name: HashTable<Place>,
}

impl Cohorts {
    pub(crate) fn get(&self, cohort: QueryUid) -> Option<&Members> {
        self.members.get(&cohort)
    }

    pub(crate) fn get_mut(&mut self, cohort: QueryUid) -> Option<&mut Members> {
        self.members.get_mut(&cohort)
    }

    /// The members that a place is among.
    pub(crate) fn of(&self, place: Place) -> &Members {
        let members = self.members.get(&place.cohort);
        members.expect("a cohort lives as long as it has members, and a name leads to one of them")
    }

    pub(crate) fn find(&self, name: &str) -> Option<Place> {
        let is_it = |place: &Place| self.of(*place).name(place.place) == name;
        self.by_name.find(hash(name), is_it).copied()
    }

    /// How many members there are in all.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// All members, in no order.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.by_name.iter().copied()
    }

    /// The cohort of a shape.
    pub(crate) fn of_shape(&self, namespace: Option<&str>, shape: &Shape) -> Option<QueryUid> {
        let key = (namespace.map(str::to_owned), shape.key().to_owned());
        self.by_shape.get(&key).copied()
    }

    fn name(&mut self, place: Place) {
        let members = &self.members;
        let name_of = |place: &Place| {
            let members = members.get(&place.cohort);
            hash(members.map_or("", |members| members.name(place.place)))
        };
        self.by_name.insert_unique(name_of(&place), place, name_of);
    }

    fn forget(&mut self, place: Place) {
        let hash = hash(self.of(place).name(place.place));
        if let Ok(entry) = self.by_name.find_entry(hash, |other| *other == place) {
            entry.remove();
        }
    }
}

fn hash(name: &str) -> u64 {
    FxBuildHasher.hash_one(name)
}

/// Queries of one shape that are registered together.
struct Registration<'r> {
    shape: Arc<Shape>,
    namespace: Option<&'r str>,
    /// Their names, with the words of their texts.
    members: Vec<(&'r str, &'r [String])>,
}

impl Coordinator {
    /// How many queries are registered.
    pub fn query_count(&self) -> usize {
        self.by_name.len() + self.cohorts.len()
    }

    /// The cohort of the queries that have the shape of a text, and how many they are.
    pub fn group_of(&self, text: &str, namespace: Option<&str>) -> Option<(QueryUid, usize)> {
        let (shape, _) = Shape::of(text)?;
        let cohort = self.cohorts.of_shape(namespace, &shape)?;
        Some((cohort, self.cohorts.get(cohort)?.len()))
    }

    /// What fires, by name: the uid of a query that stands alone or of a cohort, its name or that of a member, and how
    /// many members there are.
    pub fn firing_queries(&self) -> Vec<(QueryUid, String, usize)> {
        let uids = self.queries.keys().copied();
        let mut all: Vec<_> = uids
            .map(|uid| {
                let members = self.cohorts.get(uid).map_or(1, Members::len);
                (uid, self.shown_name(uid).to_owned(), members)
            })
            .collect();
        all.sort_unstable_by(|(_, a, _), (_, b, _)| a.cmp(b));
        all
    }

    pub(crate) fn named(&self, name: &str) -> Option<Named> {
        let alone = self.by_name.get(name).map(|uid| Named::Alone(*uid));
        alone.or_else(|| self.cohorts.find(name).map(Named::Member))
    }

    /// A name to say for a query that fires: of a cohort, one of its members'.
    pub(crate) fn shown_name(&self, uid: QueryUid) -> &str {
        let member = self.cohorts.get(uid).and_then(|m| m.names().next());
        let alone = || self.queries.get(&uid).map(|query| query.name.as_str());
        member.or_else(alone).unwrap_or("a query")
    }

    /// The counts of a cohort.
    pub(crate) fn cohort_counts(&self, cohort: QueryUid) -> (Counts, Option<EventTime>) {
        self.queries
            .get(&cohort)
            .map_or_else(Default::default, |query| {
                (query.counted(), query.last_close)
            })
    }

    /// Registers a query: into the cohort of its shape, or by itself.
    pub(crate) fn register_logged(
        &mut self,
        named: (&str, &str, Option<&str>),
        resolved: &Resolved,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) -> Result<(), ResolveError> {
        let (name, text, namespace) = named;
        if let Some((shape, words)) = Shape::of(text) {
            let registration = Registration {
                shape: Arc::new(shape),
                namespace,
                members: vec![(name, &words)],
            };
            return self.register_members(registration, resolved, resolve, out);
        }
        let declaration = resolve.query_declaration(text, namespace)?;
        let source = (text, namespace);
        let derives = self.create_derived(source, &declaration, resolved, resolve, out);
        self.register_query(named, (declaration, derives), resolved, out);
        Ok(())
    }

    /// Registers queries whose texts are cut into these pieces, between which each has words of its own.
    pub(crate) fn register_logged_members(
        &mut self,
        pieces: &[String],
        (namespace, members): (Option<&str>, &[(String, Vec<String>)]),
        resolved: &Resolved,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) -> Result<(), ResolveError> {
        let words = members.first().map_or(&[][..], |(_, words)| words);
        if let Some((shape, _)) = Shape::of(&join_pieces(pieces, words)) {
            let members = members.iter();
            let members = members.map(|(name, words)| (name.as_str(), words.as_slice()));
            let registration = Registration {
                shape: Arc::new(shape),
                namespace,
                members: members.collect(),
            };
            return self.register_members(registration, resolved, resolve, out);
        }
        // What had a shape for the version that logged it has none for this one.
        let first = resolved.query.map_or(0, |first| first.0);
        for (uid, (name, words)) in (first..).map(QueryUid).zip(members) {
            let text = join_pieces(pieces, words);
            let resolved = Resolved {
                query: Some(uid),
                ..resolved.clone()
            };
            self.register_logged((name, &text, namespace), &resolved, resolve, out)?;
        }
        Ok(())
    }

    /// Registers queries of one shape; they have consecutive uids from the resolved one on.
    fn register_members(
        &mut self,
        registration: Registration<'_>,
        resolved: &Resolved,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) -> Result<(), ResolveError> {
        let Registration {
            shape,
            namespace,
            members,
        } = registration;
        let first = resolved
            .query
            .expect("a registration is logged with the query's uid");
        let Some((name, words)) = members.first() else {
            return Ok(());
        };
        let base = Self::base_of(resolved);
        let cohort = self.cohorts.of_shape(namespace, &shape);
        // Who takes another's place may begin before those that came last: then a cohort of its own begins.
        let takes_it = |cohort| (self.cohorts.get(cohort)).is_some_and(|it| it.takes(base));
        let cohort = match cohort.filter(|cohort| takes_it(*cohort)) {
            Some(cohort) => cohort,
            None => {
                let text = shape.text(words);
                let declaration = resolve.query_declaration(&text, namespace)?;
                self.add_query(
                    first,
                    (name, &text, namespace),
                    (declaration, None),
                    resolved,
                );
                let key = (namespace.map(str::to_owned), shape.key().to_owned());
                self.cohorts.by_shape.insert(key, first);
                self.cohorts.members.insert(first, Members::new());
                out.push(Output::CohortFormed {
                    cohort: first,
                    shape: Arc::clone(&shape),
                    text,
                    namespace: namespace.map(str::to_owned),
                });
                first
            }
        };
        self.next_query = self.next_query.max(first.0 + members.len() as u64);
        let mut joining = Vec::with_capacity(members.len());
        if let Some(list) = self.cohorts.get_mut(cohort) {
            list.reserve(members.len());
            let form = list.form(&shape);
            for (uid, (name, words)) in (first.0..).map(QueryUid).zip(&members) {
                let place = list.join((uid, name), (form, words), base);
                joining.push(JoiningMember {
                    uid,
                    place,
                    words: shape.constant_words(words),
                });
            }
        }
        for member in &joining {
            self.cohorts.name(Place {
                cohort,
                place: member.place,
            });
        }
        out.push(Output::MembersJoined {
            cohort,
            base,
            members: joining,
            resumed: None,
        });
        self.run_cohort(cohort, resolved, out);
        Ok(())
    }

    /// A member has joined: the cohort runs.
    fn run_cohort(&mut self, cohort: QueryUid, resolved: &Resolved, out: &mut Vec<Output>) {
        let Some(query) = self.queries.get(&cohort) else {
            return;
        };
        match query.state {
            State::Paused { .. } => self.start_query(cohort, resolved, out),
            State::Running { group } => self.assert_first_close(cohort, group, resolved),
        }
    }

    /// The close that a member would fire for next, if its closes have begun.
    pub(crate) fn next_of_member(&self, place: Place) -> Option<EventTime> {
        let query = self.queries.get(&place.cohort)?;
        let found = self.cohorts.of(place).find(place.place)?;
        match query.state {
            State::Running { group } if found.earlier.paused.is_none() => {
                self.groups.get(group).next_of(&self.streams, found.base)
            }
            _ => None,
        }
    }

    pub(crate) fn pause_member(&mut self, place: Place, out: &mut Vec<Output>) {
        let next = self.next_of_member(place);
        let counts = self.cohort_counts(place.cohort);
        if let Some(members) = self.cohorts.get_mut(place.cohort) {
            members.pause(place.place, next, counts);
        }
        let through = self.last_cut;
        let pause = Pause { through, next };
        out.push(Output::MemberPaused { place, pause });
        self.member_stopped(place.cohort, out);
    }

    pub(crate) fn drop_member(&mut self, place: Place, out: &mut Vec<Output>) {
        self.cohorts.forget(place);
        let mut is_last = false;
        if let Some(members) = self.cohorts.get_mut(place.cohort) {
            members.leave(place.place);
            is_last = members.len() == 0;
        }
        out.push(Output::MemberDropped { place });
        self.member_stopped(place.cohort, out);
        if is_last {
            self.remove_query(place.cohort);
            self.cohorts.members.remove(&place.cohort);
            self.cohorts
                .by_shape
                .retain(|_, cohort| *cohort != place.cohort);
            out.push(Output::CohortEnded {
                cohort: place.cohort,
            });
        }
    }

    /// A member fires no more: without any the cohort does not either, and with younger ones left it begins later.
    fn member_stopped(&mut self, cohort: QueryUid, out: &mut Vec<Output>) {
        let eldest = self.cohorts.get(cohort).and_then(Members::base);
        let Some(eldest) = eldest else {
            self.stop_query(cohort, out);
            if let Some(query) = self.queries.get_mut(&cohort) {
                query.state = State::Paused { next: None };
            }
            return;
        };
        if let Some(query) = self.queries.get(&cohort)
            && matches!(query.state, State::Running { .. })
            && query.base < eldest
        {
            self.begin_later(cohort, eldest, out);
        }
    }

    pub(crate) fn resume_member(
        &mut self,
        place: Place,
        resolved: &Resolved,
        out: &mut Vec<Output>,
    ) {
        let base = Self::base_of(resolved);
        let found = self.cohorts.of(place).find(place.place);
        let Some(found) = found else { return };
        let (uid, since) = (found.uid, found.earlier.paused.flatten());
        let query = self.queries.get(&place.cohort);
        let passed = since
            .zip(query)
            .map_or(0, |(next, query)| query.schedule().count(next, base));
        self.cohorts.forget(place);
        let Some(members) = self.cohorts.get_mut(place.cohort) else {
            return;
        };
        let words = members.constant_words(place.place);
        let Some(at) = members.resume(place.place, base, passed) else {
            return;
        };
        self.cohorts.name(Place {
            cohort: place.cohort,
            place: at,
        });
        out.push(Output::MembersJoined {
            cohort: place.cohort,
            base,
            members: vec![JoiningMember {
                uid,
                place: at,
                words,
            }],
            resumed: Some(place.place),
        });
        self.run_cohort(place.cohort, resolved, out);
    }
}
