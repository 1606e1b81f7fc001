//! Statements as they come out of a generator: one subject's at a time, none twice.

use oxrdf::vocab::{rdf, xsd};
use oxrdf::{BlankNode, Literal, NamedNode, NamedOrBlankNode, Term, Triple};
use std::collections::HashSet;

/// Collects the triples of one subject.
pub(crate) struct Subject<'e> {
    subject: NamedOrBlankNode,
    out: &'e mut Vec<Triple>,
}

impl<'e> Subject<'e> {
    /// A subject with an IRI.
    pub(crate) fn named(subject: NamedNode, out: &'e mut Vec<Triple>) -> Subject<'e> {
        Subject {
            subject: subject.into(),
            out,
        }
    }

    /// A subject without one.
    pub(crate) fn blank(label: String, out: &'e mut Vec<Triple>) -> Subject<'e> {
        Subject {
            subject: BlankNode::new_unchecked(label).into(),
            out,
        }
    }

    /// A triple.
    pub(crate) fn link(&mut self, predicate: NamedNode, object: impl Into<Term>) {
        self.out
            .push(Triple::new(self.subject.clone(), predicate, object));
    }

    /// Its class.
    pub(crate) fn class(&mut self, class: NamedNode) {
        self.link(rdf::TYPE.into_owned(), class);
    }

    /// A string.
    pub(crate) fn text(&mut self, predicate: NamedNode, text: impl Into<String>) {
        self.link(predicate, Literal::new_simple_literal(text));
    }

    /// A whole number.
    pub(crate) fn integer(&mut self, predicate: NamedNode, number: u32) {
        self.link(
            predicate,
            Literal::new_typed_literal(number.to_string(), xsd::INTEGER),
        );
    }

    /// A triple for each of these; the same object twice counts once.
    pub(crate) fn distinct<T: Into<Term>>(
        &mut self,
        predicate: &NamedNode,
        objects: impl Iterator<Item = u32>,
        name: impl Fn(u32) -> T,
    ) {
        let mut seen = HashSet::new();
        for object in objects.filter(|&object| seen.insert(object)) {
            self.link(predicate.clone(), name(object));
        }
    }
}

/// A name in a namespace, made of parts that are valid in an IRI.
pub(crate) fn name(namespace: &str, local: impl std::fmt::Display) -> NamedNode {
    NamedNode::new_unchecked(format!("{namespace}{local}"))
}

/// Some words, drawn from a small vocabulary, so that texts are neither empty nor all different
/// words.
pub(crate) fn words(random: &mut crate::random::Random, count: u32) -> String {
    const SYLLABLES: [&str; 24] = [
        "ba", "chi", "do", "er", "fa", "gu", "ha", "in", "jo", "ka", "lu", "mi", "no", "or", "pe",
        "qua", "ri", "so", "ta", "ul", "ve", "wo", "xa", "zi",
    ];
    let mut out = String::new();
    for word in 0..count {
        if word > 0 {
            out.push(' ');
        }
        for _ in 0..=1 + random.below(2) {
            let syllable: &&str = random.pick(&SYLLABLES);
            out.push_str(syllable);
        }
    }
    out
}
