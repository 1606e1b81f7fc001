//! Terms that are located before they are read, many at a time: so the processor waits for the
//! memory of many at once, and each id is resolved once.
#![allow(unsafe_code)]

use crate::Dictionary;
use crate::arena;
use crate::memory::prefetch;
use crate::term_view::TermView;
use somersault_model::TermId;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The address of an id's term in its dictionary, if it is there.
#[derive(Clone, Copy)]
pub struct Located<'a> {
    start: Option<NonNull<u8>>,
    dictionary: PhantomData<&'a Dictionary>,
}

// SAFETY: it leads to bytes that never change while the dictionary lives.
unsafe impl Send for Located<'_> {}
// SAFETY: as above.
unsafe impl Sync for Located<'_> {}

impl Dictionary {
    /// Appends the location of each id's term, and prefetches all of them: first their entries,
    /// then their bytes.
    pub fn locate<'a, 'i>(
        &'a self,
        ids: impl Iterator<Item = &'i TermId> + Clone,
        found: &mut Vec<Located<'a>>,
    ) {
        let mut last = TermId::UNBOUND;
        ids.clone().for_each(|id| {
            if std::mem::replace(&mut last, *id) != *id {
                self.prefetch_entry(*id);
            }
        });
        let mut last = TermId::UNBOUND;
        let mut start = None;
        found.extend(ids.map(|id| {
            if std::mem::replace(&mut last, *id) != *id {
                start = self.start_of(*id);
                start.into_iter().for_each(prefetch);
            }
            Located {
                start: start.and_then(|start| NonNull::new(start.cast_mut())),
                dictionary: PhantomData,
            }
        }));
    }

    /// The text of an id that this dictionary has located, borrowed in place; `None` for transient
    /// terms.
    #[inline]
    pub fn view_located<'a>(&'a self, id: TermId, located: Located<'a>) -> Option<TermView<'a>> {
        // SAFETY: the bytes of a term begin there, which were complete when its entry was
        // published, and which stay as long as the dictionary.
        let stored = unsafe { arena::read(located.start?.as_ptr()) };
        (stored.kind.tag() == id.tag()).then(|| self.view_of(&stored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::{Literal, NamedNode, TermRef};
    use somersault_model::inline;

    #[test]
    fn located_terms_read_like_looked_up_ones() {
        let dictionary = Dictionary::new();
        let mut ids = vec![TermId::UNBOUND, TermId::local(3), TermId::DEFAULT_GRAPH];
        ids.extend(inline::integer(7));
        for n in 0..40 {
            let name = NamedNode::new_unchecked(format!("http://example.com/a/{n}"));
            let text = Literal::new_simple_literal(format!("some text that is long {n}"));
            let typed = Literal::new_typed_literal(format!("some text {n}"), name.clone());
            let terms: [TermRef<'_>; 3] = [
                name.as_ref().into(),
                text.as_ref().into(),
                typed.as_ref().into(),
            ];
            let of_terms = terms.map(|term| dictionary.intern(term));
            ids.extend([of_terms[0], of_terms[0], of_terms[1], of_terms[2]]);
        }
        let mut located = Vec::new();
        dictionary.locate(ids.iter(), &mut located);
        assert_eq!(located.len(), ids.len());
        for (id, located) in ids.iter().zip(located) {
            assert_eq!(dictionary.view_located(*id, located), dictionary.view(*id));
        }
    }
}
