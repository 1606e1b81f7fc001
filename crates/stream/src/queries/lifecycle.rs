//! The life of a registered query: registered, paused, resumed, dropped. Each verb is implemented
//! once, for a query in a cohort of many and for one with a cohort of its own.
//!
//! Before changing anything here: these functions run from log records alone, and what a command
//! resolved to (its uid, the streams' times, the first close) comes with the record (S5). A cohort
//! runs while one of its members does, from the base of the eldest on.

use super::cohort::Cohort;
use super::{Queries, QueryView, Replacements};
use crate::closes::close_groups::{CloseGroups, GroupId};
use crate::closes::cuts::Cuts;
use crate::closes::unfinished::UnfinishedFirings;
use crate::live::LiveQueries;
use crate::output::{JoiningMember, Output, Pause, QueryChange};
use crate::protocol::command::{ParsedQueries, ParsedQuery};
use crate::protocol::declaration::{QueryDeclaration, Resolve};
use crate::protocol::status::MemberId;
use crate::streams::home::StreamHome;
use crate::streams::stream::Stream;
use somersault_lang::lift::Shape;
use somersault_log::Resolved;
use somersault_model::{EventTime, QueryUid};
use std::sync::Arc;

/// Queries of one shape that are registered together.
struct Registration<'r> {
    shape: &'r Arc<Shape>,
    /// Their windows and closes.
    declaration: &'r Arc<QueryDeclaration>,
    namespace: Option<&'r str>,
    /// Their names, with the words of their texts.
    members: Vec<(&'r str, &'r [String])>,
}

/// The state that commands on queries change.
pub(crate) struct Registrar<'c> {
    pub(crate) home: &'c mut StreamHome,
    pub(crate) groups: &'c mut CloseGroups,
    pub(crate) live: &'c mut LiveQueries,
    pub(crate) queries: &'c mut Queries,
    pub(crate) replacements: &'c mut Replacements,
    pub(crate) cuts: &'c Cuts,
    pub(crate) unfinished: &'c UnfinishedFirings,
}

impl Registrar<'_> {
    /// No close at or before this fires: `after` of the replaced query, if there is one, else the
    /// latest of the times that the command resolved to.
    fn base_of(resolved: &Resolved) -> EventTime {
        if let Some(replaced) = resolved.replaced {
            return replaced.after;
        }
        let times = resolved.stream_times.iter().map(|(_, time)| *time);
        times.max().unwrap_or(EventTime::MIN)
    }

    fn logged_query(&self, name: &str) -> QueryView<'_> {
        self.queries.logged(name)
    }

    /// Registers a query: into the cohort of its shape, or into one of its own.
    pub(crate) fn register(
        &mut self,
        (name, namespace): (&str, Option<&str>),
        query: &ParsedQuery,
        resolved: &Resolved,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) {
        let registration = Registration {
            shape: query.shape(),
            declaration: query.declaration(),
            namespace,
            members: vec![(name, query.words())],
        };
        self.register_members(registration, resolved, resolve, out);
    }

    /// Registers queries together: their names, with the words of their texts.
    pub(crate) fn register_many(
        &mut self,
        queries: &ParsedQueries,
        (namespace, members): (Option<&str>, &[(String, Vec<String>)]),
        resolved: &Resolved,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) {
        match queries {
            ParsedQueries::OneShape(shape, declaration) => {
                let members = members.iter();
                let members = members.map(|(name, words)| (name.as_str(), words.as_slice()));
                let registration = Registration {
                    shape,
                    declaration,
                    namespace,
                    members: members.collect(),
                };
                self.register_members(registration, resolved, resolve, out);
            }
            ParsedQueries::Apart(queries) => {
                let first = resolved.query.map_or(0, |first| first.0);
                for (uid, ((name, _), query)) in (first..).zip(members.iter().zip(queries)) {
                    let resolved = Resolved {
                        query: Some(QueryUid(uid)),
                        ..resolved.clone()
                    };
                    self.register((name, namespace), query, &resolved, resolve, out);
                }
            }
        }
    }

    /// Registers queries of one shape; they have consecutive uids from the resolved one on.
    fn register_members(
        &mut self,
        registration: Registration<'_>,
        resolved: &Resolved,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) {
        let Registration {
            shape,
            declaration,
            namespace,
            ref members,
        } = registration;
        let first = resolved
            .query
            .expect("a registration is logged with the query's uid");
        let Some((name, words)) = members.first() else {
            return;
        };
        let base = Self::base_of(resolved);
        // A replacement may begin before the newest member of the cohort. Bases ascend, so it opens
        // a new one.
        let of_shape = self.queries.of_shape(namespace, shape);
        let cohort = match of_shape.filter(|cohort| cohort.members.takes(base)) {
            Some(cohort) => cohort.uid,
            None => {
                let named = (*name, shape, *words, namespace);
                self.form((first, declaration), named, resolved, resolve, out)
            }
        };
        let next_uid = first.0 + members.len() as u64;
        self.queries.next_uid = self.queries.next_uid.max(next_uid);
        let mut joining = Vec::with_capacity(members.len());
        if let Some(cohort) = self.queries.get_mut(cohort) {
            let list = &mut cohort.members;
            list.reserve(members.len());
            let form = list.form(shape);
            for (uid, (name, words)) in (first.0..).map(QueryUid).zip(members) {
                let slot = list.join((uid, name), (form, words), base);
                joining.push(JoiningMember {
                    uid,
                    slot,
                    words: shape.constant_words(words),
                });
            }
            cohort.publish();
        }
        for JoiningMember { slot, .. } in &joining {
            let slot = *slot;
            self.queries.enter_name(MemberId { cohort, slot });
        }
        let members = joining;
        out.push(Output::query(cohort, QueryChange::Joined { base, members }));
        self.run(cohort, resolved, resolve, out);
    }

    /// Forms a cohort for the text of this shape with these words.
    fn form(
        &mut self,
        (uid, declaration): (QueryUid, &Arc<QueryDeclaration>),
        (name, shape, words, namespace): (&str, &Arc<Shape>, &[String], Option<&str>),
        resolved: &Resolved,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) -> QueryUid {
        let text = shape.text(words);
        let source = (name, text.as_str(), namespace);
        let derives = self.create_derived(source, declaration, resolved, resolve, out);
        let derived = derives.as_ref().map(|derivation| derivation.stream);
        let cohort = Cohort::new(
            (uid, namespace, shape),
            (Arc::clone(declaration), derives),
            resolved,
            self.home.streams(),
        );
        let view = Arc::clone(cohort.view());
        self.queries.add(cohort);
        let formed = QueryChange::Formed {
            shape: Arc::clone(shape),
            text,
            namespace: namespace.map(str::to_owned),
            derives: derived,
            overload: declaration.overload,
            view,
        };
        out.push(Output::query(uid, formed));
        uid
    }

    /// Pauses a query, which is running according to the records before.
    pub(crate) fn pause(&mut self, name: &str, out: &mut Vec<Output>) {
        let member = self.logged_query(name);
        let (id, pause) = (member.id, self.pause_now(&member));
        if let Some(cohort) = self.queries.get_mut(id.cohort) {
            let counted = (cohort.counts(), cohort.last_close());
            cohort.members.pause(id.slot, pause.next, counted);
        }
        let slot = id.slot;
        out.push(Output::query(
            id.cohort,
            QueryChange::Paused { slot, pause },
        ));
        self.on_member_stopped(id.cohort, out);
    }

    /// The pause of a member that is paused now.
    pub(super) fn pause_now(&self, member: &QueryView<'_>) -> Pause {
        Pause {
            through: self.cuts.last(),
            next: self
                .queries
                .next_of(member, self.groups, self.home.streams()),
        }
    }

    /// Lets a paused query go on, in a slot of its own.
    pub(crate) fn resume(
        &mut self,
        name: &str,
        resolved: &Resolved,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) {
        let base = Self::base_of(resolved);
        let member = self.logged_query(name);
        let (id, uid) = (member.id, member.uid);
        let next = member.history.paused.flatten();
        let passed = next.map_or(0, |next| member.cohort.schedule().count(next, base));
        self.queries.remove_name(id);
        let resumed = self.queries.get_mut(id.cohort).and_then(|cohort| {
            let words = cohort.members.constant_words(id.slot);
            let slot = cohort.members.resume(id.slot, base, passed)?;
            cohort.publish();
            Some(JoiningMember { uid, slot, words })
        });
        let Some(member) = resumed else { return };
        self.queries.enter_name(MemberId {
            slot: member.slot,
            ..id
        });
        let resumed = QueryChange::Resumed {
            base,
            member,
            before: id.slot,
        };
        out.push(Output::query(id.cohort, resumed));
        self.run(id.cohort, resolved, resolve, out);
    }

    /// Drops a query. With its last member, the cohort and the stream that it derives end too.
    pub(crate) fn drop_query(&mut self, name: &str, out: &mut Vec<Output>) {
        let id = self.logged_query(name).id;
        self.queries.remove_name(id);
        let mut is_last = false;
        if let Some(cohort) = self.queries.get_mut(id.cohort) {
            cohort.members.leave(id.slot);
            cohort.publish();
            is_last = cohort.members.len() == 0;
        }
        let slot = id.slot;
        out.push(Output::query(id.cohort, QueryChange::Left { slot }));
        self.on_member_stopped(id.cohort, out);
        if is_last {
            self.end(id.cohort, out);
        }
    }

    /// Ends a cohort whose last member has left.
    fn end(&mut self, uid: QueryUid, out: &mut Vec<Output>) {
        let Some(cohort) = self.queries.remove(uid) else {
            return;
        };
        self.end_derived(&cohort, out);
        self.live.end(uid);
        out.push(Output::query(uid, QueryChange::Ended));
    }

    /// Ends the stream that a query derives, together with the query.
    fn end_derived(&mut self, cohort: &Cohort, out: &mut Vec<Output>) {
        let Some(derived) = &cohort.derives else {
            return;
        };
        for stream in cohort.streams() {
            let streams = self.home.streams_mut();
            streams.set_feeds(stream, derived.stream, false);
        }
        if let Some(stream) = self.home.streams().get(derived.stream) {
            let iri = stream.iri().to_owned();
            self.drop_stream(&iri, out);
        }
    }

    /// Drops a stream. Retiring queries over it end: their firings lose their slices.
    pub(crate) fn drop_stream(&mut self, iri: &str, out: &mut Vec<Output>) -> Option<Stream> {
        let dropped = self.home.drop_stream(iri)?;
        let uid = dropped.uid();
        self.replacements.note_dropped(uid, out);
        out.push(Output::StreamDropped {
            uid,
            iri: iri.to_owned(),
        });
        Some(dropped)
    }

    /// Runs a cohort after a member has joined or was resumed.
    fn run(
        &mut self,
        uid: QueryUid,
        resolved: &Resolved,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) {
        let Some(cohort) = self.queries.get_mut(uid) else {
            return;
        };
        if let Some(declaration) = cohort.live() {
            self.live.start(uid, declaration, resolve);
            return;
        }
        if let Some(group) = cohort.group {
            self.assert_first_close(uid, group, resolved);
            return;
        }
        let base = Self::base_of(resolved);
        cohort.keep_from_now(self.home.streams());
        let (key, shapes) = (cohort.group_key(), cohort.window_shapes());
        let mut skipped = Vec::new();
        let streams = self.home.streams();
        let group = (self.groups).join(streams, key, (base, uid), &shapes, &mut skipped);
        cohort.group = Some(group);
        cohort.base = base;
        self.assert_first_close(uid, group, resolved);
        self.queries.report_skipped(self.groups, &skipped, out);
    }

    /// Asserts that a member fires first for the close that its command resolved to (S5).
    fn assert_first_close(&self, uid: QueryUid, group: GroupId, resolved: &Resolved) {
        let fires_at = |base| self.groups.get(group).next_of(self.home.streams(), base);
        assert!(
            resolved.first_close.is_none()
                || fires_at(Self::base_of(resolved)) == resolved.first_close,
            "S5: query {} first fires at the close that its command resolved to",
            self.queries.shown_name(uid)
        );
    }

    /// Adjusts a cohort after a member has stopped: without running members it stops too, and with
    /// only younger ones left it begins later.
    fn on_member_stopped(&mut self, uid: QueryUid, out: &mut Vec<Output>) {
        let Some(cohort) = self.queries.get_mut(uid) else {
            return;
        };
        if cohort.members.base().is_none() {
            self.live.stop(uid);
        }
        let Some(group) = cohort.group else { return };
        let eldest = cohort.members.base();
        if eldest.is_some_and(|eldest| eldest <= cohort.base) {
            return;
        }
        let before = (cohort.base, uid);
        let (key, shapes) = (cohort.group_key(), cohort.window_shapes());
        let mut skipped = Vec::new();
        let streams = self.home.streams();
        match eldest {
            Some(eldest) => {
                cohort.base = eldest;
                // Joins first: the group goes on as it is.
                (self.groups).join(streams, key, (eldest, uid), &shapes, &mut skipped);
                (self.groups).leave(streams, group, before, &shapes, &mut skipped);
                self.queries.report_skipped(self.groups, &skipped, out);
            }
            None => {
                (self.groups).leave(streams, group, before, &shapes, &mut skipped);
                self.queries.report_skipped(self.groups, &skipped, out);
                if let Some(cohort) = self.queries.get_mut(uid) {
                    cohort.group = None;
                }
            }
        }
    }
}
