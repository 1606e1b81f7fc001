//! Admission decides whether to accept an input and which record to log. This file dispatches;
//! `push` and `queries` hold the checks.
//!
//! Before changing anything here: admission changes nothing, so that a refused input leaves no
//! trace; and whatever it lets through must apply without a question later, in recovery too.

mod due;
mod messages;
mod push;
mod queries;
mod subscriptions;
mod successors;

use crate::closes::close_groups::CloseGroups;
use crate::closes::cuts::Cuts;
use crate::closes::unfinished::UnfinishedFirings;
use crate::protocol::command::ParsedCommand;
use crate::protocol::input::{Admission, Input, Repeat};
use crate::protocol::refusal::Refusal;
use crate::protocol::statements::Record;
use crate::queries::{PlannedNeeds, Queries, QueryView, Subscriptions};
use crate::streams::Streams;
use crate::streams::adaptor::FARTHEST_MS;
use crate::streams::ahead::AheadGate;
use crate::streams::home::StreamHome;
use crate::streams::judge::check_range;
use crate::streams::stream::Stream;
use due::Reach;
use somersault_lang::CreateStream;
use somersault_lang::token::have_same_tokens;
use somersault_log::{AdvanceRecord, Command, CommandRecord, LoadRecord, Resolved, UpdateRecord};
use somersault_model::{EventTime, Sn};
use std::sync::Arc;

/// The state that admission reads.
pub(crate) struct Admitter<'c> {
    pub(crate) home: &'c StreamHome,
    pub(crate) groups: &'c CloseGroups,
    pub(crate) queries: &'c Queries,
    pub(crate) cuts: &'c Cuts,
    pub(crate) unfinished: &'c UnfinishedFirings,
    pub(crate) subscriptions: &'c Subscriptions,
}

impl<'c> Admitter<'c> {
    fn streams(&self) -> &'c Streams {
        self.home.streams()
    }

    fn needs(&self) -> PlannedNeeds<'c> {
        PlannedNeeds::new(self.groups, self.queries, self.unfinished)
    }

    /// Checks an input against the state and says what to log. Changes nothing.
    ///
    /// # Errors
    /// Why it is refused, in a sentence with the place and the remedy.
    pub(crate) fn admit(&self, input: Input) -> Result<Admission, Refusal> {
        match input {
            Input::Push(push) => self.admit_push(push),
            Input::ReadPush(push) => self.admit_read_push(push),
            Input::Messages(messages) => self.admit_messages(messages),
            Input::Advance { received_ms, to } => self.admit_advance(received_ms, to),
            Input::Tick { received_ms } => Ok(Admission::Record(Record::Advance(AdvanceRecord {
                received_ms,
                to: Vec::new(),
            }))),
            Input::CreateStream {
                received_ms,
                declaration,
                namespace,
            } => self.admit_create(received_ms, declaration, namespace),
            Input::DropStream { received_ms, iri } => self.admit_drop_stream(received_ms, iri),
            Input::ResetStream { received_ms, iri } => self.admit_reset_stream(received_ms, iri),
            Input::RegisterQuery {
                received_ms,
                name,
                text,
                namespace,
                query,
                replaces,
            } => self.admit_register(received_ms, (name, text, namespace), query, replaces),
            Input::RegisterQueries {
                received_ms,
                shape,
                namespace,
                declaration,
                members,
            } => self.admit_members(received_ms, (shape, namespace), declaration, members),
            Input::DropQuery { received_ms, name } => self.admit_drop_query(received_ms, name),
            Input::Derived {
                received_ms,
                key,
                statements,
            } => Ok(self.admit_derived(received_ms, key, statements)),
            Input::PauseQuery { received_ms, name } => self.admit_pause(received_ms, name),
            Input::ResumeQuery { received_ms, name } => self.admit_resume(received_ms, name),
            Input::Subscription(request) => self.admit_subscription(request),
            Input::Declaration(command) => Ok(self.admit_declaration(*command)),
            Input::Load {
                received_ms,
                segment,
                clears,
            } => Ok(Admission::Record(Record::Load(LoadRecord {
                received_ms,
                segment,
                clears,
            }))),
            Input::Update {
                received_ms,
                evaluated_at,
                clears,
                deletes,
                inserts,
            } => {
                self.check_newest(evaluated_at)?;
                Ok(Admission::Record(Record::Update(UpdateRecord {
                    received_ms,
                    clears,
                    deletes,
                    inserts,
                })))
            }
        }
    }

    fn known_stream(&self, iri: &str) -> Result<&'c Stream, Refusal> {
        self.streams()
            .find(iri)
            .ok_or_else(|| Refusal::UnknownStream {
                stream: iri.to_owned(),
            })
    }

    fn known_query(&self, name: &str) -> Result<QueryView<'c>, Refusal> {
        self.queries
            .find(name)
            .ok_or_else(|| Refusal::UnknownQuery {
                name: name.to_owned(),
            })
    }

    fn admit_advance(
        &self,
        received_ms: i64,
        mut to: Vec<(String, EventTime)>,
    ) -> Result<Admission, Refusal> {
        for (iri, time) in &to {
            let stream = self.known_stream(iri)?;
            stream
                .clock()
                .check_source("advance the streams that it windows")?;
            check_range(iri, *time)?;
            // A time that the clock alone sets cannot be wrong about the clock.
            if stream.clock().time_by_clock(received_ms) != Some(*time) {
                let mut ahead = AheadGate::new(stream.clock(), received_ms);
                ahead.pass(*time).map_err(|far| Refusal::AdvanceTooFar {
                    stream: iri.clone(),
                    to: *time,
                    bound: far.to_string(),
                    received: EventTime(received_ms),
                })?;
            }
        }
        to.retain(|(iri, time)| {
            self.known_stream(iri)
                .is_ok_and(|stream| Some(*time) > stream.watermark())
        });
        if to.is_empty() {
            return Ok(Admission::Nothing);
        }
        let reaches: Vec<Reach<'_, _>> = (to.iter())
            .filter_map(|(iri, time)| {
                let stream = self.known_stream(iri).ok()?;
                Some(Reach::of_advance(stream, *time))
            })
            .collect();
        self.check_closes(&reaches)?;
        Ok(Admission::Record(Record::Advance(AdvanceRecord {
            received_ms,
            to,
        })))
    }

    /// Refuses effects of an update that was evaluated at an SN which is not the newest any more.
    fn check_newest(&self, evaluated_at: Option<Sn>) -> Result<(), Refusal> {
        let newest = self.cuts.last();
        match evaluated_at {
            Some(evaluated_at) if evaluated_at != newest || self.home.has_effects() => {
                Err(Refusal::Overtaken {
                    evaluated_at,
                    newest,
                })
            }
            _ => Ok(()),
        }
    }

    fn admit_declaration(&self, command: ParsedCommand) -> Admission {
        Admission::Record(Record::Command(command.at(self.cuts.last())))
    }

    fn admit_create(
        &self,
        received_ms: i64,
        declaration: CreateStream,
        namespace: Option<String>,
    ) -> Result<Admission, Refusal> {
        let iri = declaration.iri.as_str();
        if let Ok(existing) = self.known_stream(iri) {
            if existing.namespace() == namespace.as_deref()
                && have_same_tokens(&existing.declaration().text, &declaration.text)
            {
                return Ok(Admission::Repeat(Repeat::Stream(existing.uid())));
            }
            return Err(Refusal::StreamConflict {
                stream: iri.to_owned(),
                text: existing.declaration().text.clone(),
            });
        }
        check_span("BATCH", format!("stream <{iri}>"), declaration.batch.0)?;
        let resolved = Resolved {
            sn: self.cuts.last(),
            stream: Some(self.streams().next_uid()),
            ..Resolved::default()
        };
        let record = CommandRecord {
            received_ms,
            command: Command::CreateStream {
                iri: iri.to_owned(),
                text: declaration.text.clone(),
                namespace,
            },
            resolved,
        };
        let create = ParsedCommand::create(record, Arc::new(declaration));
        Ok(Admission::Record(Record::Command(create)))
    }

    fn admit_pause(&self, received_ms: i64, name: String) -> Result<Admission, Refusal> {
        let query = self.known_query(&name)?;
        if query.is_paused() {
            return Ok(Admission::Nothing);
        }
        let resolved = self.resolved_for(query.uid);
        Ok(command(received_ms, Command::PauseQuery { name }, resolved))
    }

    /// Refuses a command that takes a stream away from queries over it, or from procedures that
    /// consume it.
    fn check_unread(&self, stream: &Stream) -> Result<(), Refusal> {
        if let Some(consumers) = stream.consumers() {
            return Err(Refusal::Consumed {
                stream: stream.iri().to_owned(),
                procedure: consumers.holder.clone(),
            });
        }
        match self.queries.readers_of(stream.uid()) {
            None => Ok(()),
            Some(queries) => Err(Refusal::StreamInUse {
                stream: stream.iri().to_owned(),
                queries,
            }),
        }
    }

    fn admit_reset_stream(&self, received_ms: i64, iri: String) -> Result<Admission, Refusal> {
        let stream = self.known_stream(&iri)?;
        stream
            .clock()
            .check_source("its time follows from its query")?;
        // A query would have fired for closes that come a second time.
        self.check_unread(stream)?;
        let resolved = Resolved {
            sn: self.cuts.last(),
            stream: Some(self.streams().next_uid()),
            ..Resolved::default()
        };
        Ok(command(received_ms, Command::ResetStream { iri }, resolved))
    }

    fn admit_drop_stream(&self, received_ms: i64, iri: String) -> Result<Admission, Refusal> {
        let stream = self.known_stream(&iri)?;
        stream.clock().check_derived("DROP QUERY ends both")?;
        self.check_unread(stream)?;
        let resolved = Resolved {
            sn: self.cuts.last(),
            stream: Some(stream.uid()),
            ..Resolved::default()
        };
        Ok(command(received_ms, Command::DropStream { iri }, resolved))
    }
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

/// The admission of a command that has no text.
fn command(received_ms: i64, command: Command, resolved: Resolved) -> Admission {
    let record = CommandRecord {
        received_ms,
        command,
        resolved,
    };
    Admission::Record(Record::Command(ParsedCommand::without_text(record)))
}
