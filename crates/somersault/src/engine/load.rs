//! Bulk loading. A load goes to the shards by pointer and to the log as its own segment. N-Triples
//! and N-Quads are read on all cores; documents in other syntaxes cannot be split.
//!
//! The one thing to know: nothing of a document is logged or stored until all of it has been read.
//! Only the dictionary may have learnt terms of a document that does not parse.

use super::Engine;
use super::data::{check_nesting, document_parser};
use crate::access::RightKind;
use crate::blank::Scope;
use crate::contexts::document_loader;
use crate::error::EngineError;
use crate::load::{LoadOptions, LoadProgress, LoadSummary};
use oxrdf::{GraphName, Quad, QuadRef, TermRef};
use oxrdfio::RdfFormat;
use somersault_dictionary::Interner;
use somersault_lines::{LineSyntax, LinesError, TakeLines, read_lines};
use somersault_log::{CompressedPart, LoadPart, LoadSegmentWriter};
use somersault_model::QuadIds;
use somersault_runtime::{gather_blocks, intern_quad_with};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The number of statements between two progress reports of a load.
const PROGRESS_EVERY: u64 = 100_000;
/// The largest number of statements in a block; the allocator returns the memory of such a block
/// when it is freed.
const BLOCK: usize = 1 << 20;

type OnProgress = Arc<dyn Fn(LoadProgress) + Send + Sync>;

/// # Store
///
/// Bulk loads.
impl Engine {
    /// Loads a document into the store; returns when it is stable. Its blank nodes are its own.
    ///
    /// # Errors
    /// [`EngineError::Data`] with the place where it does not parse; nothing of it is loaded then.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, LoadOptions, RdfFormat};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// let engine = Engine::open(EngineConfig::default())?;
    /// let text = "<urn:a> <urn:p> <urn:b>, <urn:c> .";
    /// let loaded = engine.load(text.as_bytes(), RdfFormat::Turtle, LoadOptions::default())?;
    /// assert_eq!((loaded.statements, loaded.stored), (2, 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn load(
        &self,
        reader: impl Read,
        format: RdfFormat,
        options: LoadOptions,
    ) -> Result<LoadSummary, EngineError> {
        self.admit(RightKind::Write, None)?;
        let mut parser = document_parser(format, options.base.as_deref())?;
        // Where IRIs are taken as they are, an IRI may continue in the next line: such a document
        // is not split.
        let in_lines = matches!(format, RdfFormat::NTriples | RdfFormat::NQuads);
        if in_lines && !options.lenient {
            let syntax = LineSyntax {
                with_graphs: format == RdfFormat::NQuads,
                lenient: false,
                default_graph: options.graph.map_or(GraphName::DefaultGraph, Into::into),
                chunk_bytes: 0,
            };
            return self.store_loaded(self.gather_lines(reader, &syntax, options.progress)?);
        }
        if options.lenient {
            parser = parser.lenient();
        }
        if let Some(graph) = options.graph {
            parser = parser.with_default_graph(graph);
        }
        let loader = document_loader(self.context_table());
        let quads = parser.for_reader(reader).with_document_loader(loader);
        let quads = quads.map(|quad| quad.map_err(EngineError::from_document));
        self.store_loaded(self.gather_all(quads, options.progress)?)
    }

    /// Loads statements that are in memory already, or are generated, on the same path as
    /// [`Engine::load`].
    ///
    /// ```
    /// use somersault::oxrdf::{GraphName, NamedNode, Quad};
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let node = |name: String| NamedNode::new_unchecked(name);
    /// let quads = (0..100).map(|n| {
    ///     let subject = node(format!("urn:{n}"));
    ///     Quad::new(subject, node("urn:p".into()), node("urn:o".into()), GraphName::DefaultGraph)
    /// });
    /// assert_eq!(engine.load_quads(quads)?.stored, 100);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The log or a shard has failed.
    pub fn load_quads(
        &self,
        quads: impl IntoIterator<Item = Quad>,
    ) -> Result<LoadSummary, EngineError> {
        self.admit(RightKind::Write, None)?;
        self.store_loaded(self.gather_all(quads.into_iter().map(Ok), None)?)
    }

    /// Reads a document of triples as statements of one graph. Nothing of it is logged or stored
    /// yet.
    pub(super) fn gather_graph(
        &self,
        graph: &GraphName,
        reader: impl Read,
        format: RdfFormat,
        base: Option<&str>,
    ) -> Result<Gathered, EngineError> {
        let parser = document_parser(format, base)?;
        if format == RdfFormat::NTriples {
            let syntax = LineSyntax {
                with_graphs: false,
                lenient: false,
                default_graph: graph.clone(),
                chunk_bytes: 0,
            };
            return self.gather_lines(reader, &syntax, None);
        }
        let parser = parser.without_named_graphs();
        let loader = document_loader(self.context_table());
        let quads = parser.with_default_graph(graph.clone()).for_reader(reader);
        let quads = quads.with_document_loader(loader);
        let quads = quads.map(|quad| quad.map_err(EngineError::from_document));
        self.gather_all(quads, None)
    }

    /// Reads a document of statements in any graphs. Nothing of it is logged or stored yet.
    pub(super) fn gather_dataset(
        &self,
        reader: impl Read,
        format: RdfFormat,
        base: Option<&str>,
    ) -> Result<Gathered, EngineError> {
        let parser = document_parser(format, base)?;
        if format == RdfFormat::NQuads {
            let syntax = LineSyntax {
                with_graphs: true,
                lenient: false,
                default_graph: GraphName::DefaultGraph,
                chunk_bytes: 0,
            };
            return self.gather_lines(reader, &syntax, None);
        }
        let loader = document_loader(self.context_table());
        let quads = parser.for_reader(reader).with_document_loader(loader);
        let quads = quads.map(|quad| quad.map_err(EngineError::from_document));
        self.gather_all(quads, None)
    }

    fn gather_lines(
        &self,
        reader: impl Read,
        syntax: &LineSyntax,
        progress: Option<OnProgress>,
    ) -> Result<Gathered, EngineError> {
        let mut gathered = Gathered::new(self.inner.log.load_segment()?, progress);
        let part = gathered.segment.part();
        let scope = self.document_scope();
        let worker = || LineLoader::new(self, scope.clone(), part.another());
        read_lines(reader, syntax, worker, |(statements, part)| {
            gathered.add(&statements, &part)
        })
        .map_err(|error| match error {
            LinesError::Io(error) => EngineError::from_document(error.into()),
            LinesError::Syntax {
                line,
                column,
                message,
            } => EngineError::Data {
                line,
                column,
                message,
            },
            LinesError::Refused(error) => error,
        })?;
        Ok(gathered)
    }

    fn gather_all(
        &self,
        quads: impl Iterator<Item = Result<Quad, EngineError>>,
        progress: Option<OnProgress>,
    ) -> Result<Gathered, EngineError> {
        let mut gathered = Gathered::new(self.inner.log.load_segment()?, progress);
        let part = gathered.segment.part();
        let mut loader = LineLoader::new(self, self.document_scope(), part);
        for quad in quads {
            loader.take(quad?.as_ref())?;
            if loader.statements.len() >= LineLoader::SERIAL_CHUNK {
                let (statements, part) = loader.end_chunk()?;
                gathered.add(&statements, &part)?;
            }
        }
        let (statements, part) = loader.end_chunk()?;
        gathered.add(&statements, &part)?;
        Ok(gathered)
    }

    /// Logs and stores the statements that were read.
    fn store_loaded(&self, gathered: Gathered) -> Result<LoadSummary, EngineError> {
        gathered.report(true);
        let count = gathered.count as u64;
        let (segment, statements) = gathered.into_parts();
        let segment = segment.finish()?;
        let done = self.inner.driver.load(segment, statements)?;
        Ok(LoadSummary {
            statements: count,
            stored: self.stored_statements(),
            sn: done.sn,
        })
    }

    /// Returns the scope of the blank nodes of a new document.
    pub(super) fn document_scope(&self) -> Scope {
        let number = self.inner.documents.fetch_add(1, Ordering::Relaxed);
        Scope::of_document(self.inner.epoch, number)
    }
}

/// The work of one thread on the statements of a document.
struct LineLoader<'e> {
    interner: Interner<'e>,
    scope: Scope,
    part: LoadPart,
    statements: Vec<QuadIds>,
}

impl<'e> LineLoader<'e> {
    /// The number of statements in a chunk if the document is not split.
    const SERIAL_CHUNK: usize = 10_000;

    fn new(engine: &'e Engine, scope: Scope, part: LoadPart) -> LineLoader<'e> {
        LineLoader {
            interner: Interner::new(engine.inner.store.dictionary()),
            scope,
            part,
            statements: Vec::new(),
        }
    }

    fn take_renamed(&mut self, quad: QuadRef<'_>) -> Result<(), EngineError> {
        self.part.write(quad)?;
        let ids = intern_quad_with(quad, |term| self.interner.intern(term));
        self.statements.push(ids);
        Ok(())
    }
}

impl TakeLines for LineLoader<'_> {
    type Chunk = (Vec<QuadIds>, CompressedPart);
    type Error = EngineError;

    fn take(&mut self, quad: QuadRef<'_>) -> Result<(), EngineError> {
        if !may_hold_blank_nodes(quad) {
            return self.take_renamed(quad);
        }
        check_nesting(quad)?;
        let mut quad = quad.into_owned();
        self.scope.rename(&mut quad);
        self.take_renamed(quad.as_ref())
    }

    fn end_chunk(&mut self) -> Result<Self::Chunk, EngineError> {
        // The next chunk will be about as long.
        let next = Vec::with_capacity(self.statements.len() + self.statements.len() / 16);
        let statements = std::mem::replace(&mut self.statements, next);
        Ok((statements, self.part.take_compressed()?))
    }
}

/// Whether the statement has a blank node, or a triple term, which may contain one.
fn may_hold_blank_nodes(quad: QuadRef<'_>) -> bool {
    quad.subject.is_blank_node()
        || quad.graph_name.is_blank_node()
        || matches!(quad.object, TermRef::BlankNode(_) | TermRef::Triple(_))
}

/// The chunks of a document, in document order.
pub(super) struct Gathered {
    segment: LoadSegmentWriter,
    blocks: Vec<Vec<QuadIds>>,
    count: usize,
    progress: Option<OnProgress>,
}

impl Gathered {
    fn new(segment: LoadSegmentWriter, progress: Option<OnProgress>) -> Gathered {
        Gathered {
            segment,
            blocks: Vec::new(),
            count: 0,
            progress,
        }
    }

    /// Returns the segment, which is not visible before it is finished and logged, and its
    /// statements.
    pub(super) fn into_parts(self) -> (LoadSegmentWriter, Arc<[QuadIds]>) {
        (self.segment, gather_blocks(self.blocks, self.count))
    }

    fn add(&mut self, statements: &[QuadIds], part: &CompressedPart) -> Result<(), EngineError> {
        self.segment.append(part)?;
        let reported = self.count as u64 / PROGRESS_EVERY;
        let mut rest = statements;
        while !rest.is_empty() {
            let room = (self.blocks.last()).map_or(0, |block| block.capacity() - block.len());
            if room == 0 {
                let length = self.count.clamp(rest.len().min(BLOCK), BLOCK);
                self.blocks.push(Vec::with_capacity(length));
                continue;
            }
            let (now, later) = rest.split_at(room.min(rest.len()));
            if let Some(block) = self.blocks.last_mut() {
                block.extend_from_slice(now);
            }
            self.count += now.len();
            rest = later;
        }
        if self.count as u64 / PROGRESS_EVERY > reported {
            self.report(false);
        }
        Ok(())
    }

    fn report(&self, read: bool) {
        if let Some(progress) = &self.progress {
            progress(LoadProgress {
                statements: self.count as u64,
                read,
            });
        }
    }
}
