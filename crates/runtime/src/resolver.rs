//! What the coordinator looks up while it applies a record: ids from the dictionary, and the
//! statements of load segments, which a live load hands over by pointer and recovery reads back.

use oxrdf::TermRef;
use parking_lot::Mutex;
use somersault_log::{LoadSegment, Log};
use somersault_model::{Intern, QuadIds, TermId};
use somersault_store::{Dictionary, Store};
use somersault_stream::{Resolve, ResolveError};
use std::collections::HashMap;
use std::sync::Arc;

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

    /// The statements of a segment that is about to be logged.
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
        let quads = self.log.read_load_segment(segment).map_err(unreadable)?;
        let dictionary = self.store.dictionary();
        let mut statements = Vec::with_capacity(segment.statements as usize);
        for quad in quads {
            let quad = quad.map_err(unreadable)?;
            statements.push(intern_quad(dictionary, quad.as_ref()));
        }
        Ok(statements.into())
    }
}

/// The ids of a statement; new terms are added to the dictionary.
pub fn intern_quad(dictionary: &Dictionary, quad: oxrdf::QuadRef<'_>) -> QuadIds {
    intern_quad_with(quad, |term| dictionary.intern(term))
}

/// The ids of a statement, each term's as `intern` gives it.
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
