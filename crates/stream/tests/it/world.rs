//! What the records of the tests refer to: terms by number, and load segments.

use oxrdf::{Term, TermRef};
use rustc_hash::FxHashMap;
use somersault_log::LoadSegment;
use somersault_model::{Intern, QuadIds, Tag, TermId, VirtualShard};
use somersault_stream::{Resolve, ResolveError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Terms in order of appearance, and load segments by name.
#[derive(Default)]
pub(crate) struct World {
    terms: RefCell<(FxHashMap<Term, TermId>, Vec<Term>)>,
    pub(crate) segments: RefCell<BTreeMap<String, Arc<[QuadIds]>>>,
}

impl World {
    /// The same segments with no term interned yet: what recovery starts from.
    pub(crate) fn after_restart(&self) -> World {
        World {
            terms: RefCell::default(),
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
}
