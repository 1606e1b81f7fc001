//! Writes documents into graphs. The changes of a document are found by ids, on the snapshot that
//! the change follows; meanwhile the engine takes no other input.
//!
//! The one thing to know: a large document is written like a load. Its statements are interned and
//! on disk before anything stops, and the load's record also says whether the graph is emptied
//! before. So memory holds the ids of its statements, and never their terms.

use super::Engine;
use super::data::{check_nesting, document_parser, graph_id, graph_name, lookup};
use super::load::Gathered;
use crate::access::RightKind;
use crate::contexts::document_loader;
use crate::error::EngineError;
use crate::load::GraphWrite;
use oxrdf::{GraphName, NamedOrBlankNode, Quad, Term, Triple};
use oxrdfio::RdfFormat;
use somersault_dictionary::Dictionary;
use somersault_model::{Direction, QuadIds, TermId};
use somersault_query::{Effects, Execution, MOST_LISTED, Watch};
use somersault_runtime::Change;
use somersault_store::Snapshot;
use std::collections::HashSet;
use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Documents of at least this size are written like a load.
const LARGE_BYTES: u64 = 1 << 20;
/// Bytes of a short document that a parser gets at once.
const PIECE: usize = 4 << 10;

impl Engine {
    /// Adds a document to a graph, or replaces the graph's statements with it.
    pub(super) fn take_document(
        &self,
        graph: &GraphName,
        mut reader: impl Read,
        (format, base): (RdfFormat, Option<&str>),
        replace: bool,
    ) -> Result<GraphWrite, EngineError> {
        self.admit(RightKind::Write, graph_name(graph))?;
        let mut start = Vec::new();
        let read = reader.by_ref().take(LARGE_BYTES).read_to_end(&mut start);
        let is_large =
            read.map_err(|error| EngineError::from_document(error.into()))? as u64 == LARGE_BYTES;
        // The blank nodes of a loaded document are renamed, including its graph's name.
        if is_large && !graph.is_blank_node() {
            let whole = Cursor::new(start).chain(reader);
            let gathered = self.gather_graph(graph, whole, format, base)?;
            return self.write_large(graph, gathered, replace);
        }
        let whole = Asked(Cursor::new(start), reader);
        let new = self.read_graph(graph, whole, format, base)?;
        let bytes = new.len() * size_of::<Quad>();
        self.write_graph(graph, bytes, move |present| {
            Ok(present.taking(new, replace)?.into())
        })
    }

    /// Reads a document into memory.
    fn read_graph(
        &self,
        graph: &GraphName,
        reader: impl Read,
        format: RdfFormat,
        base: Option<&str>,
    ) -> Result<HashSet<Quad>, EngineError> {
        let mut scope = self.document_scope();
        let parser = document_parser(format, base)?.without_named_graphs();
        let mut read = HashSet::new();
        let loader = document_loader(self.context_table());
        for quad in parser.for_reader(reader).with_document_loader(loader) {
            let mut quad = quad.map_err(EngineError::from_document)?;
            check_nesting(&quad)?;
            scope.rename(&mut quad);
            quad.graph_name = graph.clone();
            read.insert(quad);
        }
        Ok(read)
    }

    /// Writes the statements that were read of a large document.
    fn write_large(
        &self,
        graph: &GraphName,
        gathered: Gathered,
        replace: bool,
    ) -> Result<GraphWrite, EngineError> {
        let (segment, mut statements) = gathered.into_parts();
        Arc::get_mut(&mut statements)
            .expect("no other thread has them yet")
            .sort_unstable();
        let bytes = size_of_val(&statements[..]);
        self.write_graph(graph, bytes, move |present| {
            let is_there = |ids: &&QuadIds| present.snapshot.contains(**ids);
            let count = present.count();
            let all = distinct(&statements).count() as u64;
            let kept = match count {
                0 => 0,
                _ => distinct(&statements).filter(is_there).count() as u64,
            };
            let replaces = replace && kept < count;
            if kept == all && !replaces {
                return Ok(Change::Effects(Effects::default()));
            }
            Ok(Change::Load {
                clears: replaces
                    .then(|| present.graph.clone())
                    .into_iter()
                    .collect(),
                segment: segment.finish()?,
                statements: Arc::clone(&statements),
                inserted: all - kept,
                deleted: if replaces { count - kept } else { 0 },
            })
        })
    }

    /// Changes one graph by the effects that `change` derives from its present statements.
    /// `change` holds statements of `bytes` bytes.
    pub(super) fn write_graph(
        &self,
        graph: &GraphName,
        bytes: usize,
        change: impl FnOnce(&Present<'_>) -> Result<Change, EngineError> + Send + 'static,
    ) -> Result<GraphWrite, EngineError> {
        self.admit(RightKind::Write, graph_name(graph))?;
        let store = Arc::clone(&self.inner.store);
        let name = graph.clone();
        let execution = self.one_shot_execution(None, None);
        let was_empty = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&was_empty);
        let result = self.evaluate_and_apply(bytes, move |snapshot| {
            let present = Present {
                execution,
                graph: &name,
                id: graph_id(&name, store.dictionary()),
                dictionary: store.dictionary(),
                snapshot,
            };
            seen.store(present.count() == 0, Ordering::SeqCst);
            change(&present)
        })?;
        Ok(GraphWrite {
            graph: graph.clone(),
            created: was_empty.load(Ordering::SeqCst) && !graph.is_default_graph(),
            inserted: result.inserted,
            deleted: result.deleted,
            sn: result.sn,
        })
    }
}

/// The bytes that were read of a document, and its reader. The reader is asked at each piece,
/// without taking bytes, so that a reader that fails by now ends the parsing.
struct Asked<R>(Cursor<Vec<u8>>, R);

impl<R: Read> Read for Asked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Asked(start, rest) = self;
        let _ = rest.read(&mut [])?;
        let length = buffer.len().min(PIECE);
        match start.read(&mut buffer[..length])? {
            0 => rest.read(buffer),
            taken => Ok(taken),
        }
    }
}

/// Returns sorted statements, each once.
pub(super) fn distinct(sorted: &[QuadIds]) -> impl Iterator<Item = &QuadIds> {
    sorted
        .chunk_by(|a, b| a == b)
        .filter_map(|equal| equal.first())
}

/// A graph at the time when a change to it is evaluated.
pub(super) struct Present<'s> {
    graph: &'s GraphName,
    /// `None` if the dictionary does not know the graph's name.
    id: Option<TermId>,
    dictionary: &'s Dictionary,
    snapshot: Snapshot,
    /// The parameters of the evaluation, with its limits.
    execution: Execution,
}

impl Present<'_> {
    /// Returns the number of its statements.
    pub(super) fn count(&self) -> u64 {
        self.id.map_or(0, |id| self.snapshot.statement_count(id))
    }

    /// Whether its statements are few enough to be listed when they are deleted.
    pub(super) fn is_listed(&self) -> bool {
        self.count() <= MOST_LISTED
    }

    /// Returns effects that clear the graph as a whole and insert statements, `kept` of which it
    /// already has.
    pub(super) fn cleared_for(&self, inserts: Vec<Quad>, kept: u64) -> Effects {
        Effects {
            clears: vec![self.graph.clone()],
            cleared: self.count(),
            kept,
            inserts,
            ..Effects::default()
        }
    }

    /// Returns the effects of a document that is added, or that replaces all statements.
    fn taking(&self, new: HashSet<Quad>, replace: bool) -> Result<Effects, EngineError> {
        let mut watch = Watch::new(&self.execution);
        if replace && !self.is_listed() {
            let mut kept = 0;
            for quad in &new {
                watch.tick()?;
                let ids = lookup(self.dictionary, quad);
                kept += u64::from(ids.is_some_and(|ids| self.snapshot.contains(ids)));
            }
            return Ok(match kept == self.count() && kept == new.len() as u64 {
                true => Effects::default(),
                false => self.cleared_for(new.into_iter().collect(), kept),
            });
        }
        let mut kept = HashSet::new();
        let mut inserts = Vec::new();
        for quad in new {
            watch.tick()?;
            let ids = lookup(self.dictionary, &quad);
            match ids.filter(|ids| self.snapshot.contains(*ids)) {
                Some(ids) => {
                    kept.insert(ids);
                }
                None => inserts.push(quad),
            }
        }
        let deletes = if replace {
            self.statements(&mut watch, |ids| !kept.contains(&ids))?
        } else {
            Vec::new()
        };
        Ok(Effects {
            deletes,
            inserts,
            ..Effects::default()
        })
    }

    /// Returns all its statements.
    pub(super) fn all(&self) -> Result<Vec<Quad>, EngineError> {
        self.statements(&mut Watch::new(&self.execution), |_| true)
    }

    /// Returns its statements for which `wanted` is true.
    fn statements(
        &self,
        watch: &mut Watch<'_>,
        wanted: impl Fn(QuadIds) -> bool,
    ) -> Result<Vec<Quad>, EngineError> {
        let mut found = Vec::new();
        let Some(graph) = self.id else {
            return Ok(found);
        };
        let (mut subjects, mut objects) = (Vec::new(), Vec::new());
        for predicate in self.snapshot.predicates(graph) {
            let out = Direction::Out;
            let vertices = self
                .snapshot
                .vertices_with(graph, predicate, out, &mut subjects);
            for subject in vertices {
                let (subject, of) = (*subject, &mut objects);
                for object in self.snapshot.neighbours(graph, subject, predicate, out, of) {
                    let ids = QuadIds {
                        graph,
                        subject,
                        predicate,
                        object: *object,
                    };
                    watch.tick()?;
                    if wanted(ids) {
                        let quad = self.decode(ids);
                        quad.iter().try_for_each(|quad| watch.hold(quad))?;
                        found.extend(quad);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Returns a statement of this graph in its terms.
    fn decode(&self, ids: QuadIds) -> Option<Quad> {
        let term = |id| self.dictionary.decode(id);
        let subject: NamedOrBlankNode = match term(ids.subject)? {
            Term::NamedNode(node) => node.into(),
            Term::BlankNode(node) => node.into(),
            Term::Literal(_) | Term::Triple(_) => return None,
        };
        let Term::NamedNode(predicate) = term(ids.predicate)? else {
            return None;
        };
        let triple = Triple::new(subject, predicate, term(ids.object)?);
        Some(triple.in_graph(self.graph.clone()))
    }
}
