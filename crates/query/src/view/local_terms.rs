//! Terms that one query computes and that no dictionary knows. They get ids of their own
//! ([`Tag::Local`]) and never enter the dictionary; since a term is looked up there first, equality
//! of ids stays equality of terms.

use crate::view::term_source::TermSource;
use oxrdf::{GraphName, NamedOrBlankNode, Quad, Term, Triple};
use rustc_hash::FxHashMap;
use somersault_dictionary::TermPin;
use somersault_model::{Tag, TermId, inline};
use std::sync::Arc;

/// The local terms of one execution.
#[derive(Clone, Default)]
pub(crate) struct LocalTerms {
    terms: Vec<Term>,
    ids: FxHashMap<Term, TermId>,
    bytes: usize,
    /// Terms that were found in the dictionary and might be reclaimed there.
    held: TermPin,
}

impl LocalTerms {
    /// The one id of a term in this execution.
    pub(crate) fn id(&mut self, term: Term, dictionary: TermSource<'_>) -> TermId {
        if let Term::Literal(literal) = &term
            && let Some(id) = inline::encode(literal.as_ref())
        {
            return id;
        }
        // Look here first: a term with a local id keeps it, even if the dictionary learns the term
        // meanwhile.
        if let Some(id) = self.ids.get(&term) {
            return *id;
        }
        if let Some(id) = dictionary.lookup_held(term.as_ref(), &mut self.held) {
            return id;
        }
        let id = TermId::local(self.terms.len() as u64);
        // Held twice, each time with its place.
        self.bytes += 2 * (length(&term) + size_of::<Term>());
        self.terms.push(term.clone());
        self.ids.insert(term, id);
        id
    }

    /// The one id of a term in this execution, without taking the term.
    pub(crate) fn id_of(&mut self, term: &Term, dictionary: TermSource<'_>) -> TermId {
        self.local_id(term)
            .or_else(|| dictionary.lookup_held(term.as_ref(), &mut self.held))
            .unwrap_or_else(|| self.id(term.clone(), dictionary))
    }

    /// The id of a term that got a local one in this execution.
    pub(crate) fn local_id(&self, term: &Term) -> Option<TermId> {
        if self.terms.is_empty() {
            return None;
        }
        self.ids.get(term).copied()
    }

    /// The term of an id; `None` for unbound.
    pub(crate) fn term(&self, id: TermId, dictionary: TermSource<'_>) -> Option<Term> {
        match id.tag() {
            Tag::Local => self.terms.get(id.payload() as usize).cloned(),
            Tag::Special => None,
            _ => dictionary.decode(id),
        }
    }

    /// The number of local terms.
    pub(crate) fn len(&self) -> usize {
        self.terms.len()
    }

    /// The terms after the first `from` ones.
    pub(crate) fn since(&self, first: usize) -> Vec<Term> {
        self.terms[first..].to_vec()
    }

    /// The terms found in the dictionary. They are held as long as this value, or the value that
    /// takes over its hold, lives.
    pub(crate) fn held(&self) -> &TermPin {
        &self.held
    }

    /// Holds the terms that another execution found and whose ids are used here.
    pub(crate) fn hold(&mut self, held: &TermPin) {
        self.held.extend(held);
    }

    /// The approximate bytes of the local terms.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.held.bytes()
    }

    pub(crate) fn into_terms(self) -> Option<Arc<[Term]>> {
        (!self.terms.is_empty()).then(|| self.terms.into())
    }
}

/// The approximate bytes of a triple.
pub(crate) fn triple_bytes(triple: &Triple) -> usize {
    let subject = match &triple.subject {
        NamedOrBlankNode::NamedNode(node) => node.as_str().len(),
        NamedOrBlankNode::BlankNode(node) => node.as_str().len(),
    };
    size_of::<Triple>() + subject + triple.predicate.as_str().len() + length(&triple.object)
}

/// The approximate bytes of a quad.
pub(crate) fn quad_bytes(quad: &Quad) -> usize {
    let subject = match &quad.subject {
        NamedOrBlankNode::NamedNode(node) => node.as_str().len(),
        NamedOrBlankNode::BlankNode(node) => node.as_str().len(),
    };
    let graph = match &quad.graph_name {
        GraphName::NamedNode(node) => node.as_str().len(),
        GraphName::BlankNode(_) | GraphName::DefaultGraph => 0,
    };
    size_of::<Quad>() + subject + quad.predicate.as_str().len() + length(&quad.object) + graph
}

/// The approximate bytes of a term's text.
fn length(term: &Term) -> usize {
    match term {
        Term::NamedNode(node) => node.as_str().len(),
        Term::BlankNode(node) => node.as_str().len(),
        Term::Literal(literal) => literal.value().len(),
        Term::Triple(triple) => triple_bytes(triple),
    }
}
