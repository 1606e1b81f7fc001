//! From an id of an answer to its text, borrowed from where it is kept: no `Term` is made in
//! between. All code that reads answers as text (the writers of the result formats, the cursor)
//! uses this module.

use oxrdf::{BlankNodeRef, LiteralRef, NamedNodeRef, Term, TermRef, vocab::xsd};
use somersault_dictionary::{Dictionary, Located, TermKind, TermPin, TermView, inline_view};
use somersault_model::{Tag, TermId};
use somersault_query::Solutions;

/// The meaning of the ids of one answer.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    dictionary: &'a Dictionary,
    /// The answer's hold on the dictionary's terms.
    held: Option<&'a TermPin>,
    /// The answer's own terms.
    local: &'a [Term],
}

/// The term of a cell.
pub(crate) enum Value<'a> {
    /// An IRI, a blank node or a literal.
    Text(TermView<'a>),
    /// A triple term: subject, predicate, object.
    Triple([Part<'a>; 3]),
}

/// A term inside a triple term.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    Id(TermId),
    Term(TermRef<'a>),
}

impl<'a> Terms<'a> {
    pub(crate) fn new(solutions: &'a Solutions, dictionary: &'a Dictionary) -> Terms<'a> {
        Terms {
            dictionary,
            held: solutions.held(),
            local: solutions.local_terms(),
        }
    }

    /// Finds the locations of terms that are about to be read, and prefetches their memory.
    #[inline]
    pub(crate) fn locate<'i>(
        &self,
        ids: impl Iterator<Item = &'i TermId> + Clone,
        found: &mut Vec<Located<'a>>,
    ) {
        self.dictionary.locate(ids, found);
    }

    /// Returns the text of a located id that is in the dictionary and no triple term.
    #[inline]
    pub(crate) fn view(&self, id: TermId, located: Located<'a>) -> Option<TermView<'a>> {
        (self.dictionary.view_located(id, located)).filter(|view| view.kind != TermKind::Triple)
    }

    /// As [`Terms::resolve`], for a located id.
    #[inline]
    pub(crate) fn resolve_located<'b>(
        &self,
        id: TermId,
        located: Located<'a>,
        scratch: &'b mut String,
    ) -> Option<Value<'b>>
    where
        'a: 'b,
    {
        match self.view(id, located) {
            Some(view) => Some(Value::Text(view)),
            None => self.resolve(id, scratch),
        }
    }

    /// Returns the term of an id, with the text of an inline one written into `scratch`; `None` is
    /// unbound.
    #[inline]
    pub(crate) fn resolve<'b>(&self, id: TermId, scratch: &'b mut String) -> Option<Value<'b>>
    where
        'a: 'b,
    {
        if id.is_inline() {
            return inline_view(id, scratch).map(Value::Text);
        }
        self.resolve_stored(id)
    }

    /// Returns the term of an id that has no value in itself.
    pub(crate) fn resolve_stored(&self, id: TermId) -> Option<Value<'a>> {
        if id.is_in_dictionary() {
            let view = self.dictionary.view_held(self.held, id)?;
            if view.kind == TermKind::Triple {
                let parts = self.dictionary.triple_term(id)?;
                return Some(Value::Triple(parts.map(Part::Id)));
            }
            return Some(Value::Text(view));
        }
        if id.tag() == Tag::Local {
            let index = usize::try_from(id.payload()).ok()?;
            return Some(value_of(self.local.get(index)?.as_ref()));
        }
        None
    }

    /// Returns the term of a part of a triple term.
    pub(crate) fn resolve_part<'b>(
        &self,
        part: Part<'b>,
        scratch: &'b mut String,
    ) -> Option<Value<'b>>
    where
        'a: 'b,
    {
        match part {
            Part::Id(id) => self.resolve(id, scratch),
            Part::Term(term) => Some(value_of(term)),
        }
    }
}

fn value_of(term: TermRef<'_>) -> Value<'_> {
    Value::Text(match term {
        TermRef::NamedNode(node) => iri(node),
        TermRef::BlankNode(node) => blank_node(node),
        TermRef::Literal(literal) => of_literal(literal),
        TermRef::Triple(triple) => {
            return Value::Triple([
                Part::Term(triple.subject.as_ref().into()),
                Part::Term(triple.predicate.as_ref().into()),
                Part::Term(triple.object.as_ref()),
            ]);
        }
    })
}

fn iri(node: NamedNodeRef<'_>) -> TermView<'_> {
    plain(TermKind::NamedNode, node.as_str())
}

fn blank_node(node: BlankNodeRef<'_>) -> TermView<'_> {
    plain(TermKind::BlankNode, node.as_str())
}

fn of_literal(literal: LiteralRef<'_>) -> TermView<'_> {
    let typed = literal.language().is_none() && literal.datatype() != xsd::STRING;
    TermView {
        datatype: typed.then(|| literal.datatype().as_str()),
        language: literal.language(),
        direction: literal.direction(),
        ..plain(TermKind::Literal, literal.value())
    }
}

fn plain(kind: TermKind, text: &str) -> TermView<'_> {
    TermView {
        kind,
        head: "",
        tail: text,
        datatype: None,
        language: None,
        direction: None,
    }
}
