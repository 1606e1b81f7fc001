//! Asks the queries that must always be true, all the time.
//!
//! With threads, a reader asks them one after the other, as fast as it can. In a simulated process
//! they are asked after each turn that made another snapshot stable, so that no state is missed.

use somersault::process_simulation::SimulatedProcess;
use somersault::{Engine, EngineError, Sn};
use somersault_suites::AlwaysQuery;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The reader of an engine.
pub(super) struct Watch {
    notes: Arc<Notes>,
    /// What the turns of a simulated process ask; empty when nothing is asked.
    asked: Arc<Mutex<Option<Asked>>>,
    process: Option<SimulatedProcess>,
    reader: Option<JoinHandle<()>>,
}

/// What was found.
struct Notes {
    violations: Mutex<Vec<String>>,
    file: Option<PathBuf>,
    count: AtomicU64,
    has_ended: AtomicBool,
}

/// An engine and its queries.
struct Asked {
    engine: Engine,
    queries: Vec<AlwaysQuery>,
    seen: Option<Sn>,
}

impl Watch {
    pub(super) fn new(
        engine: &Engine,
        process: Option<SimulatedProcess>,
        file: Option<PathBuf>,
    ) -> Watch {
        let notes = Arc::new(Notes {
            violations: Mutex::default(),
            file,
            count: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
        });
        let asked = Arc::new(Mutex::new(Some(Asked {
            engine: engine.clone(),
            queries: Vec::new(),
            seen: None,
        })));
        if let Some(process) = &process {
            let (notes, asked) = (Arc::clone(&notes), Arc::clone(&asked));
            process.observe(move |_| {
                // A query that takes turns itself is not asked another.
                if let Ok(mut asked) = asked.try_lock()
                    && let Some(asked) = asked.as_mut()
                {
                    asked.ask_once(&notes);
                }
            });
        }
        Watch {
            notes,
            asked,
            process,
            reader: None,
        }
    }

    /// Asks these queries from now on.
    pub(super) fn begin(
        &mut self,
        engine: &Engine,
        queries: Vec<AlwaysQuery>,
    ) -> Result<(), EngineError> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(asked) = asked.as_mut() {
            asked.queries.clone_from(&queries);
        }
        drop(asked);
        if queries.is_empty() || self.process.is_some() || self.reader.is_some() {
            return Ok(());
        }
        let (notes, engine) = (Arc::clone(&self.notes), engine.clone());
        let reader = std::thread::Builder::new().name("always".to_owned());
        let reader = reader.spawn(move || {
            while !notes.has_ended.load(Relaxed) {
                for query in &queries {
                    notes.ask(&engine, query);
                }
            }
        });
        self.reader = Some(reader.map_err(|source| EngineError::Io {
            context: "the reader's thread does not start".to_owned(),
            source,
        })?);
        Ok(())
    }

    /// The violations since the last time, and the number of queries that were asked.
    pub(super) fn take(&self) -> (Vec<String>, u64) {
        let violations = self.notes.violations.lock();
        let mut violations = violations.unwrap_or_else(PoisonError::into_inner);
        (
            std::mem::take(&mut *violations),
            self.notes.count.swap(0, Relaxed),
        )
    }

    /// Ends the reader, and lets the engine go.
    pub(super) fn end(&mut self) {
        self.notes.has_ended.store(true, Relaxed);
        if let Some(reader) = self.reader.take()
            && reader.join().is_err()
        {
            self.notes.note("the reader panicked".to_owned());
        }
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Asked {
    /// Asks the queries, if another snapshot is stable than the last time.
    fn ask_once(&mut self, notes: &Notes) {
        let stable = self.engine.stable();
        if self.queries.is_empty() || self.seen.replace(stable) == Some(stable) {
            return;
        }
        for query in &self.queries {
            notes.ask(&self.engine, query);
        }
    }
}

impl Notes {
    fn ask(&self, engine: &Engine, query: &AlwaysQuery) {
        self.count.fetch_add(1, Relaxed);
        match engine.query(&query.text).run() {
            Ok(found) if found.answer.boolean() == Some(true) => {}
            Ok(found) => self.note(format!(
                "`{}` does not hold in snapshot {}",
                query.name, found.sn
            )),
            // The engine is being taken away.
            Err(EngineError::Stopped | EngineError::Cancelled) => {}
            Err(error) => self.note(format!("`{}` has no answer: {error}", query.name)),
        }
    }

    fn note(&self, violation: String) {
        if let Some(path) = &self.file {
            let file = OpenOptions::new().create(true).append(true).open(path);
            if let Err(error) = file.and_then(|mut file| writeln!(file, "{violation}")) {
                eprintln!(
                    "{violation}, which {} does not hold: {error}",
                    path.display()
                );
            }
        }
        let violations = self.violations.lock();
        violations
            .unwrap_or_else(PoisonError::into_inner)
            .push(violation);
    }
}
