//! A term taken apart, as the dictionary compares and stores it. An inline literal has no parts:
//! its id is its value.

use crate::arena::Kind;
use oxrdf::{BaseDirection, LiteralRef, NamedOrBlankNodeRef, TermRef, Triple};
use somersault_model::{TermId, inline, term_hash};

/// A term taken apart for comparing and storing.
pub(crate) struct Parts<'a> {
    pub(crate) hash: u64,
    /// Always [`Kind::Iri`] for IRIs: the comparison handles shared beginnings.
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// The datatype or the language tag.
    pub(super) extra: &'a str,
    pub(super) ids: [TermId; 3],
}

/// The bits of a hash below those of the virtual shard.
pub(super) fn short_hash(hash: u64) -> u32 {
    (hash >> 20) as u32
}

/// The id of a term that has an inline one, else its parts; `intern` returns the ids of the parts
/// of triple terms.
pub(crate) fn take_apart<'a>(
    term: TermRef<'a>,
    mut intern: impl FnMut(TermRef<'a>) -> TermId,
) -> Result<TermId, Parts<'a>> {
    take_apart_known(term, |part| Some(intern(part))).expect("interning always gives an id")
}

/// As [`take_apart`]; `None` where `id_of` does not know a part of a triple term.
pub(super) fn take_apart_known<'a>(
    term: TermRef<'a>,
    id_of: impl FnMut(TermRef<'a>) -> Option<TermId>,
) -> Option<Result<TermId, Parts<'a>>> {
    Some(Err(match term {
        TermRef::Literal(literal) => match inline::encode(literal) {
            Some(id) => return Some(Ok(id)),
            None => literal_parts(literal),
        },
        TermRef::Triple(triple) => triple_parts(term, triple, id_of)?,
        _ => name_parts(term),
    }))
}

fn name_parts(term: TermRef<'_>) -> Parts<'_> {
    let (kind, text) = match term {
        TermRef::NamedNode(node) => (Kind::Iri, node.as_str()),
        TermRef::BlankNode(node) => (Kind::BlankNode, node.as_str()),
        _ => unreachable!("literals and triple terms are taken apart elsewhere"),
    };
    Parts {
        hash: term_hash(term),
        kind,
        text,
        extra: "",
        ids: [TermId::UNBOUND; 3],
    }
}

fn literal_parts(literal: LiteralRef<'_>) -> Parts<'_> {
    let (kind, extra) = match (literal.language(), literal.direction()) {
        (Some(language), None) => (Kind::Language, language),
        (Some(language), Some(BaseDirection::Ltr)) => (Kind::LeftToRight, language),
        (Some(language), Some(BaseDirection::Rtl)) => (Kind::RightToLeft, language),
        (None, _) if literal.datatype() == oxrdf::vocab::xsd::STRING => (Kind::String, ""),
        (None, _) => (Kind::Typed, literal.datatype().as_str()),
    };
    Parts {
        hash: term_hash(literal.into()),
        kind,
        text: literal.value(),
        extra,
        ids: [TermId::UNBOUND; 3],
    }
}

fn triple_parts<'a>(
    term: TermRef<'a>,
    triple: &'a Triple,
    mut id_of: impl FnMut(TermRef<'a>) -> Option<TermId>,
) -> Option<Parts<'a>> {
    let subject = match triple.subject.as_ref() {
        NamedOrBlankNodeRef::NamedNode(node) => node.into(),
        NamedOrBlankNodeRef::BlankNode(node) => node.into(),
    };
    Some(Parts {
        hash: term_hash(term),
        kind: Kind::Triple,
        text: "",
        extra: "",
        ids: [
            id_of(subject)?,
            id_of(triple.predicate.as_ref().into())?,
            id_of(triple.object.as_ref())?,
        ],
    })
}
