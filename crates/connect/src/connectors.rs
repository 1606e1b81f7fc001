//! The sources and sinks of an engine: declared, dropped, paused, resumed and listed.
//!
//! The one thing to know before changing it: a change is written to the file of declarations before
//! it holds here, and one change follows another. The threads of what is changed are waited for
//! outside the lock under which lists are read.

use crate::declared::{Declarations, Declared, Key};
use crate::error::ConnectError;
use crate::feeder;
use crate::ledger::{NotePlace, NotesInMemory, StreamLedger};
use crate::monitor::{SinkRecord, SinkStatus, SourceRecord, SourceStatus};
use crate::options::without_secrets;
use crate::runner;
use crate::source_spec::{SourceFormat, SourceSpec};
use crate::spec::SinkSpec;
use crate::tls::ClientTls;
use crate::worker::Worker;
use somersault::{Engine, EngineError, Statement};
use somersault_lang::{ConnectorCommand, ConnectorOption, ConnectorSort, ManageConnector};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sources and sinks of an engine. Clones are handles to the same ones; their threads end when
/// the last one is dropped, or at [`Connectors::stop`].
#[derive(Clone)]
pub struct Connectors(Arc<Shared>);

struct Shared {
    engine: Engine,
    /// What webhooks trust at https addresses.
    tls: ClientTls,
    notes: NotesInMemory,
    /// Held while something changes.
    changes: Mutex<Declarations>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    declared: BTreeMap<Key, Connector>,
    /// Those that the operator has declared at the start (`serve --sink`).
    fixed: Vec<Connector>,
    is_stopped: bool,
}

/// One source or sink.
struct Connector {
    spec: Spec,
    /// The text without secrets; `None` of one that the operator declared at the start.
    text: Option<String>,
    /// The thread; `None` while it is paused.
    worker: Option<Worker>,
    record: Record,
}

#[derive(Clone)]
enum Spec {
    Source(SourceSpec),
    Sink(SinkSpec),
}

#[derive(Clone)]
enum Record {
    Source(Arc<SourceRecord>),
    Sink(Arc<SinkRecord>),
}

/// A source or a sink in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed<S> {
    /// What is known of it while it runs.
    pub status: S,
    /// Its declaration, with `'***'` in the place of passwords; `None` of a sink that the operator
    /// has declared at the start.
    pub text: Option<String>,
    /// Whether it is paused.
    pub is_paused: bool,
}

impl fmt::Debug for Connectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state();
        f.debug_struct("Connectors")
            .field("declared", &state.declared.keys())
            .field("fixed", &state.fixed.len())
            .finish_non_exhaustive()
    }
}

impl Connectors {
    /// Starts the sources and sinks that are declared in a data folder, and these sinks, which only
    /// the operator may drop. Without a folder, declarations are in memory. `tls` says what
    /// webhooks trust at https addresses.
    ///
    /// # Errors
    /// The file of declarations cannot be read, or holds what this program does not know; two sinks
    /// do not go together; or a thread cannot be started.
    pub fn open(
        engine: &Engine,
        folder: Option<&Path>,
        fixed: &[SinkSpec],
        tls: &ClientTls,
    ) -> Result<Connectors, ConnectError> {
        let declarations = Declarations::open(folder)?;
        let connectors = Connectors(Arc::new(Shared::new(engine, tls)));
        for spec in fixed {
            let started = connectors
                .0
                .connector(Spec::Sink(spec.clone()), None, true, None)?;
            connectors.0.state().fixed.push(started);
        }
        for (key, declared) in declarations.all() {
            let unknown = |error: ConnectError| {
                let (sort, name) = (key.0.as_str(), &key.1);
                ConnectError::Invalid(format!(
                    "the {sort} {name}, which is declared in the data folder, cannot run: {error}"
                ))
            };
            let parsed = connectors.0.parse(key, &declared.text).map_err(unknown)?;
            connectors.0.check(key, &parsed.spec).map_err(unknown)?;
            let started = !declared.is_paused;
            let note = declarations.note_path(&key.1);
            let connector =
                connectors
                    .0
                    .connector(parsed.spec, Some(parsed.shown), started, note)?;
            connectors.0.state().declared.insert(key.clone(), connector);
        }
        *connectors.0.changes() = declarations;
        Ok(connectors)
    }

    /// No source and no sink; those that are declared are in memory.
    pub fn in_memory(engine: &Engine) -> Connectors {
        Connectors(Arc::new(Shared::new(engine, &ClientTls::default())))
    }

    /// Declares a source or a sink by a CREATE SOURCE or CREATE SINK text, which must have this
    /// name. The same text again changes nothing. Returns whether it is new.
    ///
    /// # Errors
    /// The text declares none, the name belongs to another declaration (unless the text says OR
    /// REPLACE), a stream is not there, or the declaration cannot be written.
    pub fn declare(
        &self,
        sort: ConnectorSort,
        name: &str,
        text: &str,
    ) -> Result<bool, ConnectError> {
        let key = (sort, name.to_owned());
        let mut declarations = self.0.changes();
        let parsed = self.0.parse(&key, text)?;
        let before = declarations.all().get(&key).cloned();
        match &before {
            Some(before) if before.text == text => return Ok(false),
            Some(_) if !parsed.or_replace => {
                let sort = sort.as_str();
                return Err(ConnectError::Conflict(format!(
                    "another text declared the {sort} {name}; write CREATE OR REPLACE, or drop that one first"
                )));
            }
            _ => {}
        }
        self.0.check(&key, &parsed.spec)?;
        self.0.check_streams(&parsed.spec)?;
        let is_paused = before.as_ref().is_some_and(|before| before.is_paused);
        let declared = Declared {
            text: text.to_owned(),
            is_paused,
        };
        declarations.set(key.clone(), Some(declared))?;
        let replaced = self.0.state().declared.remove(&key);
        if let Some(replaced) = replaced {
            self.0.replace(replaced, &parsed.spec);
        }
        let note = declarations.note_path(name);
        let connector = self
            .0
            .connector(parsed.spec, Some(parsed.shown), !is_paused, note)?;
        self.0.state().declared.insert(key, connector);
        Ok(before.is_none())
    }

    /// Drops, pauses or resumes a source or a sink.
    ///
    /// # Errors
    /// There is no such one, or the change cannot be written.
    pub fn manage(&self, what: &ManageConnector) -> Result<(), ConnectError> {
        let key = (what.sort, what.name.clone());
        let mut declarations = self.0.changes();
        let Some(declared) = declarations.all().get(&key).cloned() else {
            return Err(self.0.not_declared(&key));
        };
        let is_paused = match what.command {
            ConnectorCommand::Drop => {
                let note = declarations.note_path(&what.name);
                declarations.set(key.clone(), None)?;
                let dropped = self.0.state().declared.remove(&key);
                if let Some(dropped) = dropped {
                    self.0.forget(dropped, note);
                }
                return Ok(());
            }
            ConnectorCommand::Pause => true,
            ConnectorCommand::Resume => false,
        };
        if declared.is_paused == is_paused {
            return Ok(());
        }
        declarations.set(
            key.clone(),
            Some(Declared {
                is_paused,
                ..declared
            }),
        )?;
        let note = declarations.note_path(&what.name);
        let taken = self.0.state().declared.remove(&key);
        let Some(Connector {
            spec, text, worker, ..
        }) = taken
        else {
            return Err(self.0.not_declared(&key));
        };
        drop(worker);
        let connector = self.0.connector(spec, text, !is_paused, note)?;
        self.0.state().declared.insert(key, connector);
        Ok(())
    }

    /// Returns the sources, by name.
    pub fn sources(&self) -> Vec<Listed<SourceStatus>> {
        let state = self.0.state();
        let all = state.declared.values().filter_map(|it| match &it.record {
            Record::Source(record) => Some(it.listed(record.status())),
            Record::Sink(_) => None,
        });
        all.collect()
    }

    /// Returns the sinks: those of the operator first, then the declared ones by name.
    pub fn sinks(&self) -> Vec<Listed<SinkStatus>> {
        let state = self.0.state();
        let all = state.fixed.iter().chain(state.declared.values());
        all.filter_map(|it| match &it.record {
            Record::Sink(record) => Some(it.listed(record.status())),
            Record::Source(_) => None,
        })
        .collect()
    }

    /// Ends all threads. What they have brought and delivered is acknowledged; the rest comes at
    /// the next start.
    pub fn stop(&self) {
        let _changes = self.0.changes();
        let mut state = self.0.state();
        state.is_stopped = true;
        let State {
            declared, fixed, ..
        } = &mut *state;
        let all = declared.values_mut().chain(fixed);
        let workers: Vec<Worker> = all.filter_map(|it| it.worker.take()).collect();
        drop(state);
        workers.iter().for_each(Worker::ask_to_stop);
    }
}

/// A parsed declaration.
struct Parsed {
    spec: Spec,
    or_replace: bool,
    /// The text without secrets.
    shown: String,
}

impl Shared {
    fn new(engine: &Engine, tls: &ClientTls) -> Shared {
        Shared {
            engine: engine.clone(),
            tls: tls.clone(),
            notes: NotesInMemory::default(),
            changes: Mutex::new(Declarations::in_memory()),
            state: Mutex::default(),
        }
    }

    fn changes(&self) -> MutexGuard<'_, Declarations> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parse(&self, (sort, name): &Key, text: &str) -> Result<Parsed, ConnectError> {
        let shown = |options: &[ConnectorOption]| without_secrets(text, options);
        let (own, parsed) = match self.engine.parse_statement(text)? {
            Statement::CreateSource(source) if *sort == ConnectorSort::Source => {
                let parsed = Parsed {
                    spec: Spec::Source(SourceSpec::of(&source).map_err(ConnectError::Invalid)?),
                    or_replace: source.or_replace,
                    shown: shown(&source.from.options),
                };
                (source.name, parsed)
            }
            Statement::CreateSink(sink) if *sort == ConnectorSort::Sink => {
                let parsed = Parsed {
                    spec: Spec::Sink(SinkSpec::of(&sink).map_err(ConnectError::Invalid)?),
                    or_replace: sink.or_replace,
                    shown: shown(&sink.into.options),
                };
                (sink.name, parsed)
            }
            _ => {
                let (word, sort) = (sort.as_str().to_uppercase(), sort.as_str());
                return Err(ConnectError::Invalid(format!(
                    "the text declares no {sort}; a declaration begins with CREATE {word} name"
                )));
            }
        };
        match own == *name {
            true => Ok(parsed),
            false => Err(ConnectError::Invalid(format!(
                "the text declares {own}, but the name given is {name}; use one of the two in both places"
            ))),
        }
    }

    /// Whether a new connector goes beside the others.
    fn check(&self, key: &Key, spec: &Spec) -> Result<(), ConnectError> {
        let Spec::Sink(sink) = spec else {
            return Ok(());
        };
        let state = self.state();
        let others = (state.declared.iter()).filter_map(|(other, it)| (other != key).then_some(it));
        for other in others.chain(&state.fixed) {
            if let Spec::Sink(other) = &other.spec {
                sink.check_beside(other).map_err(ConnectError::Conflict)?;
            }
        }
        if let Some(Connector {
            spec: Spec::Sink(before),
            ..
        }) = state.declared.get(key)
            && before.query == sink.query
            && before.options != sink.options
        {
            return Err(ConnectError::Conflict(format!(
                "the subscription of sink {} has other terms, and keeps answers by them; drop the sink first, which drops these answers",
                sink.name
            )));
        }
        Ok(())
    }

    /// Whether the streams of a new source are there.
    fn check_streams(&self, spec: &Spec) -> Result<(), ConnectError> {
        let Spec::Source(source) = spec else {
            return Ok(());
        };
        for stream in [&source.stream].into_iter().chain(&source.dead_letter) {
            self.engine.stream(stream)?;
        }
        let stream = &source.stream;
        if source.format == SourceFormat::Document && self.engine.mapping(stream)?.is_none() {
            return Err(ConnectError::Invalid(format!(
                "the stream {stream} does not say what JSON documents mean; declare it with MAPPED BY or CONTEXT, or choose another FORMAT"
            )));
        }
        Ok(())
    }

    /// Makes a connector, whose thread runs if `is_started`.
    fn connector(
        &self,
        spec: Spec,
        text: Option<String>,
        is_started: bool,
        note: Option<std::path::PathBuf>,
    ) -> Result<Connector, ConnectError> {
        let is_started = is_started && !self.state().is_stopped;
        let failed = |source| ConnectError::Thread {
            name: spec.name().to_owned(),
            source,
        };
        let (worker, record) = match &spec {
            Spec::Source(source) if is_started => {
                let ledger = StreamLedger {
                    engine: self.engine.clone(),
                    stream: source.stream.clone(),
                    place: self.note_place(&source.name, note),
                };
                let started = feeder::start(&self.engine, source, Box::new(ledger));
                let (worker, record) = started.map_err(failed)?;
                (Some(worker), Record::Source(record))
            }
            Spec::Sink(sink) if is_started => {
                let (worker, record) =
                    runner::start(&self.engine, sink, &self.tls).map_err(failed)?;
                (Some(worker), Record::Sink(record))
            }
            Spec::Source(source) => {
                let class = source.source().class();
                let record = SourceRecord::new(&source.name, &source.stream, class);
                (None, Record::Source(Arc::new(record)))
            }
            Spec::Sink(sink) => {
                let class = sink.target.sink(&self.tls).class();
                let record = SinkRecord::new(&sink.name, &sink.query, class);
                (None, Record::Sink(Arc::new(record)))
            }
        };
        Ok(Connector {
            spec,
            text,
            worker,
            record,
        })
    }

    fn note_place(&self, source: &str, note: Option<std::path::PathBuf>) -> NotePlace {
        match note {
            Some(path) => NotePlace::File(path),
            None => NotePlace::Memory(Arc::clone(&self.notes), source.to_owned()),
        }
    }

    /// Ends a connector in whose place another one comes.
    fn replace(&self, replaced: Connector, next: &Spec) {
        let Connector { spec, worker, .. } = replaced;
        drop(worker);
        match (&spec, next) {
            (Spec::Sink(before), Spec::Sink(next)) if before.query != next.query => {
                self.unsubscribe(before);
            }
            (Spec::Source(before), Spec::Source(next)) if before.origin != next.origin => {
                forget_at_broker(before);
            }
            _ => {}
        }
    }

    /// Ends a connector that is dropped, and what is kept for it.
    fn forget(&self, dropped: Connector, note: Option<std::path::PathBuf>) {
        let Connector { spec, worker, .. } = dropped;
        drop(worker);
        match &spec {
            Spec::Sink(sink) => self.unsubscribe(sink),
            Spec::Source(source) => {
                forget_at_broker(source);
                self.note_place(&source.name, note).forget();
            }
        }
    }

    fn unsubscribe(&self, sink: &SinkSpec) {
        match self.engine.unsubscribe(&sink.query, &sink.name) {
            Ok(()) | Err(EngineError::NotFound(_)) => {}
            Err(error) => tracing::warn!(
                "sink {} is gone, and its subscription to query {} stays: {error}",
                sink.name,
                sink.query
            ),
        }
    }

    fn not_declared(&self, (sort, name): &Key) -> ConnectError {
        let is_fixed = |it: &Connector| *sort == ConnectorSort::Sink && it.spec.name() == name;
        if self.state().fixed.iter().any(is_fixed) {
            return ConnectError::Conflict(format!(
                "the sink {name} was declared by the operator (serve --sink); start the server without that --sink"
            ));
        }
        let sort = sort.as_str();
        ConnectError::NotFound(format!(
            "there is no {sort} {name}; GET /{sort}s lists those that are declared"
        ))
    }
}

/// Tells the broker of a source that it need keep nothing for it.
fn forget_at_broker(source: &SourceSpec) {
    if let Err(error) = source.source().forget() {
        tracing::warn!(
            "source {} is gone, and its broker may still keep messages for it: {error}",
            source.name
        );
    }
}

impl Spec {
    fn name(&self) -> &str {
        match self {
            Spec::Source(source) => &source.name,
            Spec::Sink(sink) => &sink.name,
        }
    }
}

impl Connector {
    fn listed<S>(&self, status: S) -> Listed<S> {
        Listed {
            status,
            text: self.text.clone(),
            is_paused: self.worker.is_none(),
        }
    }
}

#[cfg(test)]
mod tests;
