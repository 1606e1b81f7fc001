//! Admission: may this input be taken, and what is to be logged for it?
//!
//! Before changing anything here: admission changes nothing, so that a refused input leaves no trace; and whatever it
//! lets through must apply without a question later, in recovery too.

use crate::adaptor::{FARTHEST_MS, TooLate};
use crate::cohorts::Named;
use crate::coordinator::Coordinator;
use crate::declaration::{QueryDeclaration, WindowDeclaration};
use crate::input::{Admission, Input, Push, PushHead, PushVerdict, ReadPush, Repeat, Taken};
use crate::members::Members;
use crate::output::FiringKey;
use crate::refusal::Refusal;
use crate::registry::{Query, State, schedule_of, shape_of};
use crate::schedule::{WindowShape, greatest_common_divisor};
use crate::stream::Stream;
use oxrdf::Quad;
use rustc_hash::FxHashMap;
use somersault_lang::lift::Shape;
use somersault_lang::{CreateStream, Extent, LatePolicy, Overload};
use somersault_log::{
    AdvanceRecord, Command, CommandRecord, DerivedRecord, LoadRecord, PushRecord, PushStatements,
    Record, Resolved, StreamStatement, UpdateRecord,
};
use somersault_model::{EventTime, QueryUid, StreamUid};
use std::collections::BTreeSet;

/// A registered query, by name.
struct Known<'c> {
    uid: QueryUid,
    is_paused: bool,
    /// Itself, or its cohort.
    query: &'c Query,
}

impl Coordinator {
    /// Checks an input against the state and says what to log. Changes nothing.
    ///
    /// # Errors
    /// Why it is refused, in a sentence with the place and the remedy.
    pub fn admit(&self, input: Input) -> Result<Admission, Refusal> {
        match input {
            Input::Push(push) => self.admit_push(push),
            Input::ReadPush(push) => self.admit_read_push(push),
            Input::Advance { received_ms, to } => self.admit_advance(received_ms, to),
            Input::CreateStream {
                received_ms,
                declaration,
                namespace,
            } => self.admit_create(received_ms, declaration, namespace),
            Input::DropStream { received_ms, iri } => self.admit_drop_stream(received_ms, iri),
            Input::RegisterQuery {
                received_ms,
                name,
                text,
                namespace,
                declaration,
            } => self.admit_register(received_ms, (name, text, namespace), &declaration),
            Input::RegisterQueries {
                received_ms,
                shape,
                namespace,
                declaration,
                members,
            } => self.admit_members(received_ms, (&shape, namespace), &declaration, members),
            Input::DropQuery { received_ms, name } => self.admit_drop_query(received_ms, name),
            Input::Derived {
                received_ms,
                key,
                statements,
            } => Ok(self.admit_derived(received_ms, key, statements)),
            Input::PauseQuery { received_ms, name } => {
                let query = self.known_query(&name)?;
                if query.is_paused {
                    return Ok(Admission::Nothing);
                }
                let resolved = self.resolved_for(query.uid);
                Ok(command(received_ms, Command::PauseQuery { name }, resolved))
            }
            Input::ResumeQuery { received_ms, name } => self.admit_resume(received_ms, name),
            Input::Load {
                received_ms,
                segment,
            } => Ok(Admission::Record(Record::Load(LoadRecord {
                received_ms,
                segment,
            }))),
            Input::Update {
                received_ms,
                evaluated_at,
                deletes,
                inserts,
            } => {
                if let Some(evaluated_at) = evaluated_at
                    && (evaluated_at != self.last_cut || !self.effects.is_empty())
                {
                    return Err(Refusal::Overtaken {
                        evaluated_at,
                        newest: self.last_cut,
                    });
                }
                Ok(Admission::Record(Record::Update(UpdateRecord {
                    received_ms,
                    deletes,
                    inserts,
                })))
            }
        }
    }

    fn known_stream(&self, iri: &str) -> Result<&Stream, Refusal> {
        let uid = self.by_iri.get(iri);
        uid.and_then(|uid| self.streams.get(uid))
            .ok_or_else(|| Refusal::UnknownStream {
                stream: iri.to_owned(),
            })
    }

    fn known_query(&self, name: &str) -> Result<Known<'_>, Refusal> {
        let known = match self.named(name) {
            Some(Named::Alone(uid)) => self.queries.get(&uid).map(|query| Known {
                uid,
                is_paused: matches!(query.state, State::Paused { .. }),
                query,
            }),
            Some(Named::Member(place)) => {
                let query = self.queries.get(&place.cohort);
                let found = self.cohorts.of(place).find(place.place);
                query.zip(found).map(|(query, found)| Known {
                    uid: found.uid,
                    is_paused: found.earlier.paused.is_some(),
                    query,
                })
            }
            None => None,
        };
        known.ok_or_else(|| Refusal::UnknownQuery {
            name: name.to_owned(),
        })
    }

    /// Whether the query of a name has this text.
    fn has_text(&self, name: &str, text: &str, namespace: Option<&str>) -> bool {
        match self.named(name) {
            Some(Named::Alone(uid)) => self
                .queries
                .get(&uid)
                .is_some_and(|query| query.text == text && query.namespace.as_deref() == namespace),
            Some(Named::Member(place)) => {
                let cohort = self.queries.get(&place.cohort);
                cohort.is_some_and(|query| query.namespace.as_deref() == namespace)
                    && self.cohorts.of(place).text(place.place) == text
            }
            None => false,
        }
    }

    fn admit_push(&self, push: Push) -> Result<Admission, Refusal> {
        let head = PushHead {
            stream: push.stream,
            source: push.source,
            seq: push.seq,
        };
        let statements = push.statements;
        let times = statements.iter().map(|statement| statement.at);
        let verdict = self
            .judge_push(&head, push.received_ms, times)
            .map_err(|refusal| refusal.about(|index| statements[index].quad.to_string()))?;
        let by_clock = match verdict {
            PushVerdict::Taken(by_clock) => by_clock,
            other => return Ok(not_taken(other)),
        };
        let timed = statements.into_iter().filter_map(|statement| {
            let at = by_clock.or(statement.at)?;
            let quad = statement.quad;
            Some(StreamStatement { at, quad })
        });
        let statements = timed.collect::<Vec<_>>().into();
        Ok(push_record(head, push.received_ms, statements))
    }

    fn admit_read_push(&self, push: ReadPush) -> Result<Admission, Refusal> {
        let mut statements = push.statements;
        let times = statements.statements().iter().enumerate();
        let untimed = push.untimed.unwrap_or(usize::MAX);
        let times = times.map(|(index, statement)| (index != untimed).then_some(statement.at));
        match self.judge_push(&push.head, push.received_ms, times)? {
            PushVerdict::Taken(None) => {}
            PushVerdict::Taken(Some(by_clock)) => statements.set_time(by_clock),
            other => return Ok(not_taken(other)),
        }
        let statements = PushStatements::Numbered(statements);
        Ok(push_record(push.head, push.received_ms, statements))
    }

    /// Whether a push with these event times would be taken now. Admission asks the same again when its turn comes.
    ///
    /// # Errors
    /// Why it would be refused. A [`Refusal::Late`] does not know the statement's terms yet: see [`Refusal::about`].
    pub fn judge_push(
        &self,
        head: &PushHead,
        received_ms: i64,
        times: impl ExactSizeIterator<Item = Option<EventTime>>,
    ) -> Result<PushVerdict, Refusal> {
        let stream = self.known_stream(&head.stream)?;
        self.check_source(stream, "push to the streams that it windows")?;
        let source = stream.sources.get(&head.source);
        let last_seq = source.and_then(|source| source.seq);
        if head.seq.is_some() && head.seq <= last_seq {
            return Ok(PushVerdict::Repeat);
        }
        let count = times.len();
        if count == 0 {
            return Ok(PushVerdict::Nothing);
        }
        let mut gate = stream.gate(&head.source);
        let by_clock = stream.is_arrival_time().then(|| {
            let now = EventTime(received_ms);
            // A clock that was set back must not make statements late.
            now.max(stream.complete_through.unwrap_or(now))
                .max(gate.source.unwrap_or(now))
        });
        let rejects = stream.declaration.late_policy == LatePolicy::Reject;
        for (at_index, at) in times.enumerate() {
            let index = at_index + 1;
            let Some(at) = by_clock.or(at) else {
                return Err(Refusal::NoEventTime {
                    stream: head.stream.clone(),
                    index,
                });
            };
            check_range(&head.stream, at)?;
            if let Err(late) = gate.pass(at)
                && rejects
            {
                return Err(late_refusal(stream, &head.source, index, at, late));
            }
        }
        if let Some(held_bytes) = stream.over_budget(count) {
            return Err(Refusal::OverBudget {
                stream: head.stream.clone(),
                held_bytes,
                budget_bytes: stream.declaration.budget_bytes,
                reason: self.budget_holder(stream),
            });
        }
        if let Some((below, held_bytes)) = self.full_below(stream) {
            return Err(Refusal::OverBudget {
                stream: below.iri().to_owned(),
                held_bytes,
                budget_bytes: below.declaration.budget_bytes,
                reason: format!(
                    "what is pushed to <{}> feeds it, and {}",
                    head.stream,
                    self.budget_holder(below)
                ),
            });
        }
        Ok(PushVerdict::Taken(by_clock))
    }

    /// Derived streams take nothing from outside.
    fn check_source(&self, stream: &Stream, remedy: &str) -> Result<(), Refusal> {
        let Some(query) = stream.derived_by else {
            return Ok(());
        };
        let query = self.queries.get(&query).map(|query| query.name.clone());
        Err(Refusal::Derived {
            stream: stream.iri().to_owned(),
            query: query.unwrap_or_default(),
            remedy: remedy.to_owned(),
        })
    }

    fn admit_derived(&self, received_ms: i64, key: FiringKey, statements: Vec<Quad>) -> Admission {
        if self.has_derived(&key) {
            return Admission::Repeat(Repeat::Derived);
        }
        Admission::Record(Record::Derived(DerivedRecord {
            query: key.query,
            close: key.close,
            ordinal: key.ordinal,
            revision: key.revision,
            received_ms,
            statements,
        }))
    }

    fn admit_drop_query(&self, received_ms: i64, name: String) -> Result<Admission, Refusal> {
        let query = self.known_query(&name)?;
        let derived = query.query.derives.as_ref();
        let derived = derived.and_then(|derived| self.streams.get(&derived.stream));
        if let Some(stream) = derived
            && let Some(queries) = self.readers_of(stream)
        {
            return Err(Refusal::DerivedInUse {
                query: name,
                stream: stream.iri().to_owned(),
                queries,
            });
        }
        let resolved = self.resolved_for(query.uid);
        Ok(command(received_ms, Command::DropQuery { name }, resolved))
    }

    /// Who holds a stream's slices, and what helps.
    fn budget_holder(&self, stream: &Stream) -> String {
        let window = stream.needs.first();
        let first_window = window.map(|(from, _)| stream.batch_of(*from));
        let first_firing = stream.lagging.first().map(|(batch, _)| *batch);
        if first_firing.is_some_and(|firing| first_window.is_none_or(|window| firing < window)) {
            return "firings that are still running read them; they go when those are done"
                .to_owned();
        }
        let Some((_, group)) = window else {
            return "the push and the batches that are still open are larger than that; push less at a time, or declare the stream with a larger BUDGET".to_owned();
        };
        let query = self.groups.get(*group).first_member();
        let name = query.map_or("a query", |uid| self.shown_name(uid));
        let waits_for = self
            .groups
            .waits_for(*group)
            .filter(|uid| *uid != stream.uid);
        match waits_for.and_then(|uid| self.streams.get(&uid)) {
            Some(other) => format!(
                "query {name} holds them while it waits for stream <{}>; push to or advance that stream, PAUSE QUERY {name}, or declare the stream with a larger BUDGET",
                other.iri()
            ),
            None => format!(
                "the windows of query {name} need them; use a shorter RANGE, or declare the stream with a larger BUDGET"
            ),
        }
    }

    fn admit_advance(
        &self,
        received_ms: i64,
        mut to: Vec<(String, EventTime)>,
    ) -> Result<Admission, Refusal> {
        for (iri, time) in &to {
            let stream = self.known_stream(iri)?;
            self.check_source(stream, "advance the streams that it windows")?;
            check_range(iri, *time)?;
        }
        to.retain(|(iri, time)| {
            self.known_stream(iri)
                .is_ok_and(|stream| Some(*time) > stream.complete_through)
        });
        if to.is_empty() {
            return Ok(Admission::Nothing);
        }
        Ok(Admission::Record(Record::Advance(AdvanceRecord {
            received_ms,
            to,
        })))
    }

    fn admit_create(
        &self,
        received_ms: i64,
        declaration: CreateStream,
        namespace: Option<String>,
    ) -> Result<Admission, Refusal> {
        let iri = declaration.iri.as_str();
        if let Ok(existing) = self.known_stream(iri) {
            if existing.declaration.text == declaration.text && existing.namespace == namespace {
                return Ok(Admission::Repeat(Repeat::Stream(existing.uid)));
            }
            return Err(Refusal::StreamConflict {
                stream: iri.to_owned(),
                text: existing.declaration.text.clone(),
            });
        }
        check_span("BATCH", format!("stream <{iri}>"), declaration.batch.0)?;
        let resolved = Resolved {
            sn: self.last_cut,
            stream: Some(StreamUid(self.next_stream)),
            ..Resolved::default()
        };
        let command_given = Command::CreateStream {
            iri: iri.to_owned(),
            text: declaration.text,
            namespace,
        };
        Ok(command(received_ms, command_given, resolved))
    }

    fn admit_drop_stream(&self, received_ms: i64, iri: String) -> Result<Admission, Refusal> {
        let stream = self.known_stream(&iri)?;
        self.check_source(stream, "DROP QUERY ends both")?;
        if let Some(queries) = self.readers_of(stream) {
            return Err(Refusal::StreamInUse {
                stream: iri,
                queries,
            });
        }
        let resolved = Resolved {
            sn: self.last_cut,
            stream: Some(stream.uid),
            ..Resolved::default()
        };
        Ok(command(received_ms, Command::DropStream { iri }, resolved))
    }

    /// The names of so many queries, of cohorts those of their members, and how many there are.
    fn names_of(
        &self,
        uids: impl Iterator<Item = QueryUid> + Clone,
        shown: usize,
    ) -> (Vec<&str>, usize) {
        let count = |uid| self.cohorts.get(uid).map_or(1, Members::len);
        let all: usize = uids.clone().map(count).sum();
        let mut names: Vec<&str> = Vec::with_capacity(shown);
        for uid in uids {
            let left = shown - names.len();
            match self.cohorts.get(uid) {
                Some(members) => names.extend(members.names().take(left)),
                None => names.extend([self.shown_name(uid)].into_iter().take(left)),
            }
        }
        names.sort_unstable();
        (names, all)
    }

    /// The queries that window a stream, as a list for people; `None` where there are none.
    fn readers_of(&self, stream: &Stream) -> Option<String> {
        const NAMED: usize = 5;
        let (names, count) = self.names_of(stream.windowed_by.keys().copied(), NAMED);
        let mut queries = names.join(", ");
        let unnamed = count - names.len();
        if unnamed > 0 {
            queries.push_str(&format!(" and {unnamed} more queries"));
        }
        (!queries.is_empty()).then_some(queries)
    }

    fn admit_register(
        &self,
        received_ms: i64,
        (name, text, namespace): (String, String, Option<String>),
        declaration: &QueryDeclaration,
    ) -> Result<Admission, Refusal> {
        if let Ok(existing) = self.known_query(&name) {
            if self.has_text(&name, &text, namespace.as_deref()) {
                return Ok(Admission::Repeat(Repeat::Query(existing.uid)));
            }
            return Err(Refusal::QueryConflict { name });
        }
        if let Some(derived) = &declaration.derives {
            self.check_derivation(declaration, derived)?;
        }
        self.check_windows(&name, declaration)?;
        let mut resolved = self.resolved_first_close(QueryUid(self.next_query), declaration);
        let new_stream = StreamUid(self.next_stream);
        resolved.stream = declaration.derives.as_ref().map(|_| new_stream);
        let command_given = Command::RegisterQuery {
            name,
            text,
            namespace,
        };
        Ok(command(received_ms, command_given, resolved))
    }

    fn admit_members(
        &self,
        received_ms: i64,
        (shape, namespace): (&Shape, Option<String>),
        declaration: &QueryDeclaration,
        members: Vec<(String, Vec<String>)>,
    ) -> Result<Admission, Refusal> {
        let Some((name, _)) = members.first() else {
            return Ok(Admission::Nothing);
        };
        self.check_windows(name, declaration)?;
        let mut uid = self.next_query;
        let mut new: Vec<(String, Vec<String>)> = Vec::with_capacity(members.len());
        // Names of this very batch; the same text again is a repeat there too.
        let mut taken: FxHashMap<String, (usize, QueryUid)> = FxHashMap::default();
        let mut outcomes = Vec::with_capacity(members.len());
        for (name, words) in members {
            let known = self.named(&name).map(|named| {
                let same = match named {
                    Named::Alone(_) => false,
                    Named::Member(place) => {
                        let cohort = self.queries.get(&place.cohort);
                        cohort.is_some_and(|query| query.namespace == namespace)
                            && self.cohorts.of(place).has_text(place.place, shape, &words)
                    }
                };
                let uid = self.known_query(&name).map(|known| known.uid);
                uid.ok().filter(|_| same)
            });
            let before = taken.get(&name).map(|(at, uid)| {
                let (_, before): &(String, Vec<String>) = &new[*at];
                (*before == words).then_some(*uid)
            });
            outcomes.push(match known.or(before) {
                Some(Some(uid)) => Ok(Taken { uid, is_new: false }),
                Some(None) => Err(Refusal::QueryConflict { name }),
                None => {
                    taken.insert(name.clone(), (new.len(), QueryUid(uid)));
                    new.push((name, words));
                    uid += 1;
                    Ok(Taken {
                        uid: QueryUid(uid - 1),
                        is_new: true,
                    })
                }
            });
        }
        let record = (!new.is_empty()).then(|| {
            Record::Command(CommandRecord {
                received_ms,
                command: Command::RegisterQueries {
                    pieces: shape.pieces().to_vec(),
                    namespace,
                    members: new,
                },
                resolved: self.resolved_first_close(QueryUid(self.next_query), declaration),
            })
        });
        Ok(Admission::Several(record, outcomes))
    }

    fn admit_resume(&self, received_ms: i64, name: String) -> Result<Admission, Refusal> {
        let query = self.known_query(&name)?;
        if !query.is_paused {
            return Ok(Admission::Nothing);
        }
        let resolved = self.resolved_first_close(query.uid, &query.query.declaration);
        Ok(command(
            received_ms,
            Command::ResumeQuery { name },
            resolved,
        ))
    }

    fn resolved_for(&self, query: QueryUid) -> Resolved {
        Resolved {
            sn: self.last_cut,
            query: Some(query),
            ..Resolved::default()
        }
    }

    /// The streams' times and, where all of them have one, the first close after the latest (S5).
    fn resolved_first_close(&self, query: QueryUid, declaration: &QueryDeclaration) -> Resolved {
        let uids: BTreeSet<StreamUid> = declaration
            .windows
            .iter()
            .filter_map(|window| self.by_iri.get(window.stream.as_str()).copied())
            .collect();
        let times = uids
            .iter()
            .filter_map(|uid| self.streams[uid].complete_through.map(|time| (*uid, time)));
        let stream_times: Vec<(StreamUid, EventTime)> = times.collect();
        let latest = stream_times.iter().map(|(_, time)| *time).max();
        // When so many statements will have come, nobody knows.
        let by_time = declaration.computed_every.is_some() || !declaration.counts();
        let first_close = latest
            .filter(|_| by_time && stream_times.len() == uids.len())
            .map(|latest| schedule_of(declaration, self.shapes(declaration)).first_after(latest));
        Resolved {
            stream_times,
            first_close,
            ..self.resolved_for(query)
        }
    }

    /// The windows of a declaration, on the streams that there are.
    fn shapes(&self, declaration: &QueryDeclaration) -> impl Iterator<Item = WindowShape> {
        declaration.windows.iter().filter_map(|window| {
            let uid = self.by_iri.get(window.stream.as_str())?;
            let stream = &self.streams[uid].declaration;
            Some(shape_of(window.extent, declaration.starting_at, stream))
        })
    }

    fn check_windows(&self, query: &str, declaration: &QueryDeclaration) -> Result<(), Refusal> {
        if declaration.windows.is_empty() {
            return Err(Refusal::NoWindow {
                query: query.to_owned(),
            });
        }
        let subject = || format!("query {query}");
        if let Some(every) = declaration.computed_every {
            check_span("COMPUTED EVERY", subject(), every.0)?;
        }
        for window in &declaration.windows {
            if let Extent::Time { range, until, step } = window.extent {
                check_span("RANGE", subject(), range.0)?;
                if until.0 != 0 {
                    check_span("the offset of NOW", subject(), until.0)?;
                }
                if let Some(step) = step {
                    check_span("STEP", subject(), step.0)?;
                }
            }
            let iri = window.stream.as_str();
            let stream = self
                .known_stream(iri)
                .map_err(|_| Refusal::WindowOnUnknownStream {
                    query: query.to_owned(),
                    stream: iri.to_owned(),
                })?;
            if stream.within.is_some() {
                check_amendable(declaration)?;
            }
            check_batch(query, stream, window, declaration)?;
        }
        Ok(())
    }
}

/// What a query cannot be over a stream with LATE AMEND: firings then come again for earlier closes.
fn check_amendable(declaration: &QueryDeclaration) -> Result<(), Refusal> {
    let (what, remedy) = if declaration.operator.compares() {
        (
            "ISTREAM or DSTREAM over a stream with LATE AMEND",
            "register the query without ISTREAM or DSTREAM, or declare the stream with LATE DROP or LATE REJECT",
        )
    } else if declaration.compares() {
        (
            "REPORT ON CHANGE over a stream with LATE AMEND",
            "register the query without REPORT ON CHANGE, or declare the stream with LATE DROP or LATE REJECT",
        )
    } else if declaration.overload == Overload::Skip {
        (
            "ON OVERLOAD SKIP over a stream with LATE AMEND",
            "register the query without ON OVERLOAD SKIP, or declare the stream with LATE DROP or LATE REJECT",
        )
    } else if declaration.counts() {
        (
            "a window of a number of statements in a query over a stream with LATE AMEND",
            "use [RANGE 10s STEP 1s], or declare the stream with LATE DROP or LATE REJECT",
        )
    } else {
        return Ok(());
    };
    Err(Refusal::NotYet { what, remedy })
}

/// BATCH must divide all that says where a window's content begins and ends, and when it is looked at.
fn check_batch(
    query: &str,
    stream: &Stream,
    window: &WindowDeclaration,
    declaration: &QueryDeclaration,
) -> Result<(), Refusal> {
    let batch_ms = stream.interval().0;
    let [range, until, step] = match window.extent {
        Extent::Time { range, until, step } => [range.0, until.0, step.map_or(0, |step| step.0)],
        Extent::Now | Extent::All | Extent::Statements { .. } => [0; 3],
    };
    let (from, range) = match until {
        0 => (0, range),
        _ => (range + until, 0),
    };
    let clauses = [
        ("RANGE", range),
        ("the offset NOW -", from),
        ("the offset NOW -", until),
        ("STEP", step),
        ("STARTING AT", declaration.starting_at.0),
        (
            "COMPUTED EVERY",
            declaration.computed_every.map_or(0, |every| every.0),
        ),
    ];
    let Some((clause, value_ms)) = clauses.into_iter().find(|(_, value)| value % batch_ms != 0)
    else {
        return Ok(());
    };
    // Divides the present BATCH too, so that it also fits the queries that are there already.
    let fitting_ms =
        greatest_common_divisor(clauses.iter().map(|(_, value)| *value).chain([batch_ms]));
    Err(Refusal::BatchDoesNotDivide {
        query: query.to_owned(),
        stream: stream.iri().to_owned(),
        batch_ms,
        clause,
        value_ms,
        fitting_ms,
    })
}

fn check_span(clause: &'static str, subject: String, value_ms: i64) -> Result<(), Refusal> {
    // The upper bound keeps sums of times and spans in range.
    if (1..=FARTHEST_MS).contains(&value_ms) {
        return Ok(());
    }
    Err(Refusal::SpanOutOfRange {
        clause,
        subject,
        value_ms,
    })
}

fn check_range(stream: &str, at: EventTime) -> Result<(), Refusal> {
    if (-FARTHEST_MS..=FARTHEST_MS).contains(&at.0) {
        return Ok(());
    }
    Err(Refusal::TimeOutOfRange {
        stream: stream.to_owned(),
        at,
    })
}

fn late_refusal(
    stream: &Stream,
    source: &str,
    index: usize,
    at: EventTime,
    late: TooLate,
) -> Refusal {
    let alone = stream.sources.is_empty()
        || (stream.sources.len() == 1 && stream.sources.contains_key(source));
    let source_phrase = match source {
        _ if alone || !late.of_source => "the stream is".to_owned(),
        "" => "its source without a name is".to_owned(),
        name => format!("its source {name:?} is"),
    };
    Refusal::Late {
        stream: stream.iri().to_owned(),
        index,
        statement: String::new(),
        at,
        complete_through: late.complete_through,
        source_phrase,
        needed_ms: late.complete_through.0 - at.0 + stream.lateness().0,
    }
}

fn not_taken(verdict: PushVerdict) -> Admission {
    match verdict {
        PushVerdict::Repeat => Admission::Repeat(Repeat::Push),
        PushVerdict::Nothing | PushVerdict::Taken(_) => Admission::Nothing,
    }
}

fn push_record(head: PushHead, received_ms: i64, statements: PushStatements) -> Admission {
    Admission::Record(Record::Push(PushRecord {
        stream: head.stream,
        source: head.source,
        seq: head.seq,
        received_ms,
        statements,
    }))
}

fn command(received_ms: i64, command: Command, resolved: Resolved) -> Admission {
    Admission::Record(Record::Command(CommandRecord {
        received_ms,
        command,
        resolved,
    }))
}
