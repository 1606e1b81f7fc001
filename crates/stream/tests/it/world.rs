//! The world of the tests' records: terms by number, load segments, and texts with their meanings.

use oxrdf::{Term, TermRef};
use rustc_hash::FxHashMap;
use somersault_lang::CreateStream;
use somersault_lang::lift::Shape;
use somersault_log::LoadSegment;
use somersault_model::{Epoch, Intern, Lease, QuadIds, StreamUid, Tag, TermId, VirtualShard};
use somersault_stream::{
    ParsedQuery, QueryDeclaration, ReadTexts, Resolve, ResolveError, RestoredTerms,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Terms in order of appearance, and load segments by name.
#[derive(Default)]
pub(crate) struct World {
    terms: RefCell<(FxHashMap<Term, TermId>, Vec<Term>)>,
    pub(crate) segments: RefCell<BTreeMap<String, Arc<[QuadIds]>>>,
    /// Whether terms of timing statements come with leases.
    pub(crate) leases: Cell<bool>,
}

impl World {
    /// The same segments with no term interned yet: what recovery starts from.
    pub(crate) fn after_restart(&self) -> World {
        World {
            terms: RefCell::default(),
            segments: self.segments.clone(),
            leases: self.leases.clone(),
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

    fn lease(&self, stream: StreamUid) -> Option<Lease> {
        // Each stream has an epoch of its own, and stays in it.
        self.lease_of(stream, 70 + u64::from(stream.0))
    }
}

impl RestoredTerms for World {
    fn lease_of(&self, stream: StreamUid, epoch: u64) -> Option<Lease> {
        let lease = || Lease::new(Arc::new(Epoch::new(stream, epoch)));
        self.leases.get().then(lease)
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
}

/// Texts with what they declare, as the tests made them up.
#[derive(Default)]
pub(crate) struct Texts {
    streams: BTreeMap<String, CreateStream>,
    /// By the key of their shape, or by the whole text.
    queries: BTreeMap<String, QueryDeclaration>,
}

impl Texts {
    pub(crate) fn note_stream(&mut self, declaration: &CreateStream) {
        let text = declaration.text.clone();
        self.streams.insert(text, declaration.clone());
    }

    pub(crate) fn note_query(&mut self, text: &str, declaration: &QueryDeclaration) {
        self.queries.insert(key_of(text), declaration.clone());
    }
}

fn key_of(text: &str) -> String {
    let shape = Shape::of(text);
    shape.map_or_else(|| text.to_owned(), |(shape, _)| shape.key().to_owned())
}

impl ReadTexts for Texts {
    fn stream(&mut self, text: &str, _: Option<&str>) -> Result<CreateStream, ResolveError> {
        let known = self.streams.get(text).cloned();
        known.ok_or_else(|| ResolveError::NotAStream {
            text: text.to_owned(),
        })
    }

    fn query(&mut self, text: &str, _: Option<&str>) -> Result<ParsedQuery, ResolveError> {
        let known = self.queries.get(&key_of(text)).cloned();
        let declaration = known.ok_or_else(|| ResolveError::NotAStream {
            text: text.to_owned(),
        })?;
        Ok(ParsedQuery::of(text, declaration))
    }
}
