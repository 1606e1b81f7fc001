//! Admission of registrations and the other query commands: whether a declaration is accepted, and
//! what it resolves to.
//!
//! Before changing anything here: a command's record carries what it resolved to (S5), so that
//! recovery decides nothing again.

use super::successors::check_is_there;
use super::{Admitter, check_span, command};
use crate::closes::schedule::greatest_common_divisor;
use crate::protocol::command::{ParsedCommand, ParsedQueries, ParsedQuery};
use crate::protocol::declaration::{QueryDeclaration, WindowDeclaration};
use crate::protocol::input::{Admission, Repeat, Taken};
use crate::protocol::refusal::Refusal;
use crate::protocol::statements::Record;
use crate::queries::{QueryView, schedule_on};
use crate::streams::stream::Stream;
use rustc_hash::FxHashMap;
use somersault_lang::lift::Shape;
use somersault_lang::{Extent, Overload};
use somersault_log::{Command, CommandRecord, Replaced, Resolved};
use somersault_model::{EventTime, QueryUid, StreamUid};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Admitter<'_> {
    pub(super) fn admit_drop_query(
        &self,
        received_ms: i64,
        name: String,
    ) -> Result<Admission, Refusal> {
        let query = self.known_query(&name)?;
        self.check_droppable(&name, query.cohort)?;
        self.check_unsubscribed(&name)?;
        let resolved = self.resolved_for(query.uid);
        Ok(command(received_ms, Command::DropQuery { name }, resolved))
    }

    pub(super) fn admit_register(
        &self,
        received_ms: i64,
        (name, text, namespace): (String, String, Option<String>),
        query: ParsedQuery,
        replaces: bool,
    ) -> Result<Admission, Refusal> {
        let declaration = &**query.declaration();
        let old = self.known_query(&name).ok();
        if let Some(old) = &old {
            if old.has_words(query.shape(), query.words(), namespace.as_deref()) {
                return Ok(Admission::Repeat(Repeat::Query(old.uid)));
            }
            if !replaces {
                return Err(Refusal::QueryConflict { name });
            }
            self.check_successor(&name, declaration, old.cohort)?;
            self.check_unsubscribed(&name)?;
        }
        if let Some(derived) = &declaration.derives {
            let ended = old.as_ref().map(|old| old.uid);
            self.check_derivation(declaration, derived, ended)?;
        }
        self.check_windows(&name, declaration)?;
        let uid = self.queries.next_uid();
        let mut resolved = self.resolved_first_close(uid, declaration, old.as_ref());
        if let Some(replaced) = resolved.replaced {
            check_is_there(&name, replaced, &resolved.stream_times)?;
        }
        let new_stream = self.streams().next_uid();
        resolved.stream = declaration.derives.as_ref().map(|_| new_stream);
        let command_given = match old {
            None => Command::RegisterQuery {
                name,
                text,
                namespace,
            },
            Some(_) => Command::ReplaceQuery {
                name,
                text,
                namespace,
            },
        };
        let record = CommandRecord {
            received_ms,
            command: command_given,
            resolved,
        };
        let register = ParsedCommand::register(record, query);
        Ok(Admission::Record(Record::Command(register)))
    }

    pub(super) fn admit_members(
        &self,
        received_ms: i64,
        (shape, namespace): (Arc<Shape>, Option<String>),
        declaration: Arc<QueryDeclaration>,
        members: Vec<(String, Vec<String>)>,
    ) -> Result<Admission, Refusal> {
        let Some((name, _)) = members.first() else {
            return Ok(Admission::Nothing);
        };
        self.check_windows(name, &declaration)?;
        let first = self.queries.next_uid();
        let mut uid = first.0;
        let mut new: Vec<(String, Vec<String>)> = Vec::with_capacity(members.len());
        // Names taken within this batch; the same text again is a repeat there too.
        let mut taken: FxHashMap<String, (usize, QueryUid)> = FxHashMap::default();
        let mut outcomes = Vec::with_capacity(members.len());
        for (name, words) in members {
            let known = self.queries.find(&name).map(|known| {
                let same = known.has_words(&shape, &words, namespace.as_deref());
                same.then_some(known.uid)
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
            let record = CommandRecord {
                received_ms,
                command: Command::RegisterQueries {
                    pieces: shape.pieces().to_vec(),
                    namespace,
                    members: new,
                },
                resolved: self.resolved_first_close(first, &declaration, None),
            };
            let queries = ParsedQueries::OneShape(shape, declaration);
            Record::Command(ParsedCommand::register_many(record, queries))
        });
        Ok(Admission::Several(record, outcomes))
    }

    pub(super) fn admit_resume(
        &self,
        received_ms: i64,
        name: String,
    ) -> Result<Admission, Refusal> {
        let query = self.known_query(&name)?;
        if !query.is_paused() {
            return Ok(Admission::Nothing);
        }
        let resolved = self.resolved_first_close(query.uid, query.cohort.declaration(), None);
        Ok(command(
            received_ms,
            Command::ResumeQuery { name },
            resolved,
        ))
    }

    pub(super) fn resolved_for(&self, query: QueryUid) -> Resolved {
        Resolved {
            sn: self.cuts.last(),
            query: Some(query),
            ..Resolved::default()
        }
    }

    /// The streams' times and, where all of them have one, the first close after the latest, or
    /// after those of the query that is replaced (S5).
    fn resolved_first_close(
        &self,
        query: QueryUid,
        declaration: &QueryDeclaration,
        old: Option<&QueryView<'_>>,
    ) -> Resolved {
        let uids: BTreeSet<StreamUid> = declaration
            .windows
            .iter()
            .filter_map(|window| self.streams().uid_of(window.stream.as_str()))
            .collect();
        let times = uids
            .iter()
            .filter_map(|uid| self.streams()[uid].watermark().map(|time| (*uid, time)));
        let stream_times: Vec<(StreamUid, EventTime)> = times.collect();
        let replaced = old.map(|old| match declaration.live {
            // It fires from now on.
            Some(_) => Replaced {
                query: old.uid,
                after: EventTime::MIN,
            },
            None => self.replaced(old, &uids, &stream_times),
        });
        let latest = stream_times.iter().map(|(_, time)| *time).max();
        let base = replaced.map(|replaced| replaced.after).or(latest);
        // The time at which a stream will have received a number of statements is unknown.
        let by_time = declaration.computed_every.is_some() || !declaration.counts();
        let has_closes = by_time && declaration.live.is_none();
        let first_close = base
            .filter(|_| has_closes && stream_times.len() == uids.len())
            .map(|base| schedule_on(declaration, self.streams()).first_after(base));
        Resolved {
            stream_times,
            first_close,
            replaced,
            ..self.resolved_for(query)
        }
    }

    fn check_windows(&self, query: &str, declaration: &QueryDeclaration) -> Result<(), Refusal> {
        if let Some(live) = &declaration.live {
            return match live.every {
                Some(every) => check_span("EVERY", format!("query {query}"), every.0),
                None => Ok(()),
            };
        }
        if declaration.windows.is_empty() {
            return Err(Refusal::NoWindow {
                query: query.to_owned(),
            });
        }
        if declaration.compares() && declaration.overload == Overload::Skip {
            // The log does not say which firings were skipped: after a restart, the last answer
            // that was delivered would be unknown.
            return Err(Refusal::NotYet {
                what: "ON OVERLOAD SKIP together with ISTREAM, DSTREAM or REPORT ON CHANGE",
                remedy: "register the query without ON OVERLOAD SKIP, or have whole answers reported",
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
            if stream.within().is_some() {
                check_amendable(declaration)?;
            }
            check_batch(query, stream, window, declaration)?;
        }
        Ok(())
    }
}

/// Refuses what a query cannot be over a stream with LATE AMEND, where firings come again for
/// earlier closes.
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

/// Checks that BATCH divides every number that says where a window's content begins and ends, and
/// when the window closes.
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
    // Divides the present BATCH too, so that it also fits the queries that are registered already.
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
