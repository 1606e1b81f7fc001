//! Terms ↔ ids.
use oxrdf::{Term, TermRef};
use somersault_model::{Intern, TermId};

/// Terms ↔ ids.
pub struct Dictionary {}

/// The id of rdf:type, the same in every dictionary.
pub fn rdf_type() -> TermId {
    unimplemented!()
}

impl Dictionary {
    pub fn new() -> Dictionary {
        unimplemented!()
    }
    /// Inline literals always have one.
    pub fn lookup(&self, term: TermRef<'_>) -> Option<TermId> {
        unimplemented!()
    }
    pub fn intern(&self, term: TermRef<'_>) -> TermId {
        unimplemented!()
    }
    /// Inline ids too; `None` for special, local and unknown ids.
    pub fn decode(&self, id: TermId) -> Option<Term> {
        unimplemented!()
    }
    /// The IRI, blank node label or lexical form, without allocating.
    pub fn with_str<R>(&self, id: TermId, read: impl FnOnce(&str) -> R) -> Option<R> {
        unimplemented!()
    }
    pub fn len(&self) -> usize {
        unimplemented!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn memory_bytes(&self) -> usize {
        unimplemented!()
    }
}

impl Default for Dictionary {
    fn default() -> Dictionary {
        Dictionary::new()
    }
}

impl Intern for Dictionary {
    fn intern(&self, term: TermRef<'_>) -> TermId {
        Dictionary::intern(self, term)
    }
}
