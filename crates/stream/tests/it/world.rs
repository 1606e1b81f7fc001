//! The records of the tests: terms by number, and texts of streams and queries that are looked up
//! in a list and not parsed.

use oxrdf::{Term, TermRef};
use rustc_hash::FxHashMap;
use somersault_lang::CreateStream;
use somersault_log::LoadSegment;
use somersault_model::{Intern, QuadIds, Tag, TermId, VirtualShard};
use somersault_stream::{QueryDeclaration, Resolve, ResolveError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Terms in order of appearance, and the declarations by their texts.
#[derive(Default)]
pub(crate) struct World {
    terms: RefCell<(FxHashMap<Term, TermId>, Vec<Term>)>,
    pub(crate) streams: RefCell<BTreeMap<String, CreateStream>>,
    pub(crate) queries: RefCell<BTreeMap<String, QueryDeclaration>>,
    pub(crate) segments: RefCell<BTreeMap<String, Arc<[QuadIds]>>>,
}

impl World {
    /// The same texts and segments with no term interned yet: what recovery starts from.
    pub(crate) fn after_restart(&self) -> World {
        World {
            terms: RefCell::default(),
            streams: self.streams.clone(),
            queries: self.queries.clone(),
            segments: self.segments.clone(),
        }
    }

    pub(crate) fn term(&self, id: TermId) -> Term {
        self.terms.borrow().1[usize::try_from(id.sequence()).unwrap()].clone()
    }
}

impl Intern for World {
    fn intern(&self, term: TermRef<'_>) -> TermId {
        let (ids, list) = &mut *self.terms.borrow_mut();
        *ids.entry(term.into_owned()).or_insert_with_key(|term| {
            list.push(term.clone());
            TermId::in_dictionary(
                Tag::NamedNode,
                VirtualShard::new(0).unwrap(),
                list.len() as u64 - 1,
            )
        })
    }
}

impl Resolve for World {
    fn load_segment(&self, segment: &LoadSegment) -> Result<Arc<[QuadIds]>, ResolveError> {
        let known = self.segments.borrow().get(&segment.name).cloned();
        known.ok_or_else(|| ResolveError::Segment {
            name: segment.name.clone(),
            reason: format!("load segment {} is not there", segment.name),
        })
    }

    fn stream_declaration(
        &self,
        text: &str,
        _namespace: Option<&str>,
    ) -> Result<CreateStream, ResolveError> {
        Ok(self.streams.borrow()[text].clone())
    }

    fn query_declaration(
        &self,
        text: &str,
        _namespace: Option<&str>,
    ) -> Result<QueryDeclaration, ResolveError> {
        Ok(self.queries.borrow()[text].clone())
    }
}
