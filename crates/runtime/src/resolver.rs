//! The coordinator's look-ups while it applies a record: ids from the dictionary, and the
//! statements of load segments, which a live load passes by pointer and recovery reads back.

use oxrdf::TermRef;
use parking_lot::Mutex;
use somersault_dictionary::Interner;
use somersault_lines::{LineSyntax, TakeLines, read_lines};
use somersault_log::{LoadSegment, Log};
use somersault_model::{Intern, Lease, QuadIds, StreamUid, TermId};
use somersault_store::Store;
use somersault_stream::{Resolve, ResolveError};
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::Read;
use std::sync::Arc;

/// The number of reclaimable terms that are checked for each new transient term, so that streams
/// leave nothing behind, however fast they are.
pub(crate) const RECLAIMED_FOR_ONE: usize = 2;

pub(crate) struct Resolver {
    pub(crate) store: Arc<Store>,
    pub(crate) log: Arc<Log>,
    /// Statements of loads that are on their way to the log, by segment.
    handed_over: Mutex<HashMap<String, Arc<[QuadIds]>>>,
}

impl Resolver {
    pub(crate) fn new(store: Arc<Store>, log: Arc<Log>) -> Resolver {
        Resolver {
            store,
            log,
            handed_over: Mutex::new(HashMap::new()),
        }
    }

    /// Takes over the statements of a segment that is about to be logged.
    pub(crate) fn hand_over(&self, segment: &LoadSegment, statements: Arc<[QuadIds]>) {
        self.handed_over
            .lock()
            .insert(segment.name.clone(), statements);
    }

    /// Forgets a segment that was not logged after all.
    pub(crate) fn forget(&self, segment: &LoadSegment) {
        self.handed_over.lock().remove(&segment.name);
    }
}

impl Intern for Resolver {
    fn intern(&self, term: TermRef<'_>) -> TermId {
        self.store.dictionary().intern(term)
    }

    fn lease(&self, stream: StreamUid) -> Option<Lease> {
        Some(self.store.dictionary().lease(stream))
    }

    fn intern_transient(&self, term: TermRef<'_>, lease: &Lease) -> TermId {
        let dictionary = self.store.dictionary();
        let mut mentions = dictionary.mentions(lease);
        let id = dictionary.mention(term, &mut mentions);
        let born = mentions.born();
        drop(mentions);
        if born > 0 {
            dictionary.reclaim(born * RECLAIMED_FOR_ONE);
        }
        id
    }

    fn mention(&self, id: TermId, lease: &Lease) {
        let is_there = self.store.dictionary().mention_id(id, lease);
        debug_assert!(is_there, "DI-1: the statement of {id:?} has kept its term");
    }

    fn make_permanent(&self, id: TermId) {
        let is_there = self.store.dictionary().make_permanent(id);
        debug_assert!(is_there, "DI-1: the lease of {id:?} has kept its term");
    }
}

impl Resolve for Resolver {
    fn load_segment(&self, segment: &LoadSegment) -> Result<Arc<[QuadIds]>, ResolveError> {
        if let Some(statements) = self.handed_over.lock().remove(&segment.name) {
            return Ok(statements);
        }
        let unreadable = |error: somersault_log::LogError| ResolveError::Segment {
            name: segment.name.clone(),
            reason: error.to_string(),
        };
        let text = self.log.load_segment_text(segment).map_err(unreadable)?;
        if let Some(statements) = self.read_in_chunks(text, segment.statements) {
            return Ok(statements);
        }
        // An IRI that was taken as it is may go on in the next line; or something is wrong, and is
        // said here.
        let quads = self.log.read_load_segment(segment).map_err(unreadable)?;
        let mut interner = Interner::new(self.store.dictionary());
        let mut statements = Vec::with_capacity(segment.statements as usize);
        for quad in quads {
            let quad = quad.map_err(unreadable)?;
            statements.push(intern_quad_with(quad.as_ref(), |term| {
                interner.intern(term)
            }));
        }
        Ok(statements.into())
    }
}

impl Resolver {
    /// Reads the statements of a segment on all cores; `None` unless their number is as expected.
    fn read_in_chunks(&self, text: impl Read, expected: u64) -> Option<Arc<[QuadIds]>> {
        let syntax = LineSyntax {
            with_graphs: true,
            lenient: true,
            default_graph: oxrdf::GraphName::DefaultGraph,
            chunk_bytes: 0,
        };
        let worker = || SegmentLines {
            interner: Interner::new(self.store.dictionary()),
            statements: Vec::new(),
        };
        let mut chunks = Vec::new();
        let read = read_lines(text, &syntax, worker, |chunk| {
            chunks.push(chunk);
            Ok(())
        });
        let count: usize = chunks.iter().map(Vec::len).sum();
        (read.is_ok() && count as u64 == expected).then(|| gather_blocks(chunks, count))
    }
}

/// The statements that one thread reads of a load segment.
struct SegmentLines<'d> {
    interner: Interner<'d>,
    statements: Vec<QuadIds>,
}

impl TakeLines for SegmentLines<'_> {
    type Chunk = Vec<QuadIds>;
    type Error = Infallible;

    fn take(&mut self, quad: oxrdf::QuadRef<'_>) -> Result<(), Infallible> {
        let ids = intern_quad_with(quad, |term| self.interner.intern(term));
        self.statements.push(ids);
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<Vec<QuadIds>, Infallible> {
        let mut statements = std::mem::take(&mut self.statements);
        // The next chunk will be about as long. The part that is kept of this one has no spare
        // room.
        self.statements
            .reserve(statements.len() + statements.len() / 16);
        statements.shrink_to_fit();
        Ok(statements)
    }
}

/// Gathers all `count` statements of these blocks into one list. Each block is freed after it was
/// copied, so that the statements are held little more than once.
pub fn gather_blocks(blocks: Vec<Vec<QuadIds>>, count: usize) -> Arc<[QuadIds]> {
    let mut statements = blocks.into_iter().flatten();
    // The iterator runs over a range, so that the one allocation is made at once.
    (0..count)
        .map(|_| statements.next().expect("as many as were counted"))
        .collect()
}

/// The ids of a statement; `intern` returns the id of each term.
pub fn intern_quad_with(
    quad: oxrdf::QuadRef<'_>,
    mut intern: impl FnMut(TermRef<'_>) -> TermId,
) -> QuadIds {
    let graph = match quad.graph_name {
        oxrdf::GraphNameRef::DefaultGraph => TermId::DEFAULT_GRAPH,
        oxrdf::GraphNameRef::NamedNode(name) => intern(name.into()),
        oxrdf::GraphNameRef::BlankNode(name) => intern(name.into()),
    };
    QuadIds {
        graph,
        subject: intern(quad.subject.into()),
        predicate: intern(quad.predicate.into()),
        object: intern(quad.object),
    }
}
