//! The dictionary against a map from terms to ids, on terms whose beginnings, texts and types meet
//! and differ in every way; and under threads that intern the same terms at once.

use oxrdf::{
    BaseDirection, BlankNode, Literal, NamedNode, NamedOrBlankNode, Term, TermRef, Triple,
};
use proptest::prelude::*;
use somersault_dictionary::{Dictionary, Interner, Recent, TermKind, TermView, inline_view};
use somersault_model::{TermId, VirtualShard, inline, term_hash};
use std::collections::HashMap;

/// IRIs of few beginnings (so that they come to be shared), of many, without any, and cut anywhere.
fn iri() -> impl Strategy<Value = String> {
    let begun = (0..4usize, "[a-c]{0,2}").prop_map(|(namespace, rest)| {
        let namespaces = [
            "http://example.com/",
            "http://example.com/a/",
            "http://example.com/a/b#",
            "urn:uuid:long-enough:",
        ];
        format!("{}{rest}", namespaces[namespace])
    });
    prop_oneof![
        4 => begun,
        1 => "http://[a-z]{1,3}/([a-z]{1,2}/){0,3}[#é]?",
        1 => Just(String::new()),
        1 => "[a-z]{1,3}",
        1 => (1..2_000usize).prop_map(|n| format!("http://example.com/{}", "é".repeat(n))),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[ab]{0,9}",
        1 => "\\PC{0,20}",
        1 => (0..70_000usize).prop_map(|n| "x".repeat(n)),
        1 => iri(),
    ]
}

fn literal() -> impl Strategy<Value = Literal> {
    let tag = || prop_oneof![Just("en"), Just("de-ch"), Just("fr")];
    prop_oneof![
        text().prop_map(Literal::new_simple_literal),
        (text(), iri()).prop_map(|(text, iri)| Literal::new_typed_literal(
            text,
            NamedNode::new_unchecked(iri)
        )),
        any::<i64>().prop_map(Literal::from),
        (text(), tag())
            .prop_map(|(text, tag)| { Literal::new_language_tagged_literal_unchecked(text, tag) }),
        (text(), tag(), any::<bool>()).prop_map(|(text, tag, left)| {
            let direction = if left {
                BaseDirection::Ltr
            } else {
                BaseDirection::Rtl
            };
            Literal::new_directional_language_tagged_literal_unchecked(text, tag, direction)
        }),
    ]
}

fn term() -> impl Strategy<Value = Term> {
    let flat = prop_oneof![
        4 => iri().prop_map(|iri| NamedNode::new_unchecked(iri).into()),
        1 => "[a-c]{1,3}".prop_map(|label| BlankNode::new_unchecked(label).into()),
        1 => iri().prop_map(|label| BlankNode::new_unchecked(label).into()),
        3 => literal().prop_map(Term::from),
    ];
    flat.prop_recursive(2, 6, 1, |object| {
        (iri(), any::<bool>(), iri(), object).prop_map(|(subject, blank, predicate, object)| {
            let subject: NamedOrBlankNode = if blank {
                BlankNode::new_unchecked(subject).into()
            } else {
                NamedNode::new_unchecked(subject).into()
            };
            Triple::new(subject, NamedNode::new_unchecked(predicate), object).into()
        })
    })
}

/// The term that a view shows; triple terms are put together from their parts.
fn seen(dictionary: &Dictionary, id: TermId, view: TermView<'_>) -> Option<Term> {
    let mut text = String::new();
    view.write_text(&mut text);
    assert_eq!(view.text_len(), text.len());
    Some(match (view.kind, view.language, view.direction) {
        (TermKind::NamedNode, ..) => NamedNode::new_unchecked(text).into(),
        (TermKind::BlankNode, ..) => BlankNode::new_unchecked(text).into(),
        (TermKind::Triple, ..) => {
            let [subject, predicate, object] = dictionary.triple_term(id)?;
            let subject: NamedOrBlankNode = match dictionary.decode(subject)? {
                Term::NamedNode(node) => node.into(),
                Term::BlankNode(node) => node.into(),
                _ => return None,
            };
            let Term::NamedNode(predicate) = dictionary.decode(predicate)? else {
                return None;
            };
            Triple::new(subject, predicate, dictionary.decode(object)?).into()
        }
        (_, Some(language), None) => {
            Literal::new_language_tagged_literal_unchecked(text, language).into()
        }
        (_, Some(language), Some(direction)) => {
            Literal::new_directional_language_tagged_literal_unchecked(text, language, direction)
                .into()
        }
        _ => match view.datatype {
            Some(datatype) => {
                Literal::new_typed_literal(text, NamedNode::new_unchecked(datatype)).into()
            }
            None => Literal::new_simple_literal(text).into(),
        },
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 128 }))]

    #[test]
    fn it_behaves_like_a_map(
        terms in prop::collection::vec(term(), 0..if cfg!(miri) { 20 } else { 200 }),
    ) {
        let dictionary = Dictionary::new();
        let mut interner = Interner::new(&dictionary);
        let mut model: HashMap<Term, TermId> = HashMap::new();
        for (at, term) in terms.iter().enumerate() {
            let by_lookup = dictionary.lookup(term.as_ref());
            if let Some(known) = model.get(term) {
                prop_assert_eq!(by_lookup, Some(*known));
            }
            let id = if at % 2 == 0 {
                dictionary.intern(term.as_ref())
            } else {
                interner.intern(term.as_ref())
            };
            prop_assert!(by_lookup.is_none_or(|known| known == id));
            prop_assert_eq!(*model.entry(term.clone()).or_insert(id), id);
        }
        // All at once, with the memory of another look-up: of this dictionary, or of a dropped one.
        for remembers in [dictionary.number(), 0] {
            let other = Dictionary::new();
            let of = if remembers == 0 { &other } else { &dictionary };
            let mut before = Interner::with(of, Recent::default());
            for term in &terms {
                before.intern(term.as_ref());
            }
            let mut interner = Interner::with(&dictionary, before.into_recent());
            let refs: Vec<TermRef<'_>> = terms.iter().map(Term::as_ref).collect();
            let mut ids = Vec::new();
            interner.intern_all(&refs, &mut ids);
            let expected: Vec<TermId> = terms.iter().map(|term| model[term]).collect();
            prop_assert_eq!(ids, expected);
        }
        let mut ids: Vec<TermId> = model.values().copied().collect();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), model.len(), "one id per term, one term per id");
        for (term, id) in &model {
            prop_assert_eq!(dictionary.decode(*id), Some(term.clone()));
            prop_assert_eq!(dictionary.lookup(term.as_ref()), Some(*id));
            if !id.is_inline() {
                let owner = VirtualShard::of_hash(term_hash(term.as_ref()));
                prop_assert_eq!(id.virtual_shard(), owner);
            }
            let text = match term {
                Term::NamedNode(node) => Some(node.as_str()),
                Term::BlankNode(node) => Some(node.as_str()),
                Term::Literal(literal) => Some(literal.value()),
                Term::Triple(_) => None,
            };
            prop_assert_eq!(dictionary.with_str(*id, str::to_owned), text.map(str::to_owned));
            let mut written = "before".to_owned();
            prop_assert_eq!(dictionary.write_text(*id, &mut written).is_some(), text.is_some());
            prop_assert_eq!(written.strip_prefix("before"), Some(text.unwrap_or("")));
            if let (Term::Literal(literal), false) = (term, id.is_inline()) {
                let typed = literal.language().is_none() && literal.datatype() != oxrdf::vocab::xsd::STRING;
                let datatype = typed.then(|| Term::from(literal.datatype().into_owned()));
                prop_assert_eq!(dictionary.datatype(*id).and_then(|id| dictionary.decode(id)), datatype);
            }
        }
    }

    #[test]
    fn a_column_shows_its_terms(
        terms in prop::collection::vec(prop::option::weighted(0.9, term()), 0..if cfg!(miri) { 20 } else { 60 }),
    ) {
        let dictionary = Dictionary::new();
        let ids: Vec<TermId> = (terms.iter())
            .map(|term| term.as_ref().map_or(TermId::local(7), |term| dictionary.intern(term.as_ref())))
            .collect();
        let mut shown = Vec::new();
        dictionary.decode_column(&ids, |at, view| {
            shown.push((at, view.and_then(|view| seen(&dictionary, ids[at], view))));
        });
        let expected: Vec<_> = terms.into_iter().enumerate().collect();
        prop_assert_eq!(shown, expected);
    }
}

#[test]
fn inline_ids_have_views_of_their_own() {
    let mut buffer = "left over".to_owned();
    for literal in [
        Literal::from(12),
        Literal::from(true),
        Literal::new_simple_literal("short"),
    ] {
        let id = inline::encode(literal.as_ref()).unwrap();
        let view = inline_view(id, &mut buffer).unwrap();
        assert_eq!(view.kind, TermKind::Literal);
        assert_eq!((view.head, view.tail), ("", literal.value()));
        let plain = literal.datatype() == oxrdf::vocab::xsd::STRING;
        let datatype = (!plain).then(|| literal.datatype().as_str().to_owned());
        assert_eq!(view.datatype.map(str::to_owned), datatype);
    }
    assert_eq!(inline_view(TermId::UNBOUND, &mut buffer), None);
}

#[test]
fn threads_that_intern_the_same_terms_get_the_same_ids() {
    let count = if cfg!(miri) { 40 } else { 20_000 };
    let terms: Vec<Term> = (0..count)
        .map(|n| match n % 4 {
            0 => NamedNode::new_unchecked(format!("http://example.com/{}/{n}", n % 50)).into(),
            1 => Literal::new_simple_literal(format!("a longer text {n}")).into(),
            2 => {
                let datatype = format!("http://example.com/types#{}", n % 30);
                Literal::new_typed_literal(format!("{n}"), NamedNode::new_unchecked(datatype))
                    .into()
            }
            _ => {
                let tag = format!("x-{}", n % 30);
                Literal::new_language_tagged_literal_unchecked(format!("{n}"), tag).into()
            }
        })
        .collect();
    let dictionary = Dictionary::new();
    let ids = |thread: usize| -> Vec<TermId> {
        let mut interner = Interner::new(&dictionary);
        let mut ids = vec![TermId::UNBOUND; terms.len()];
        // Each thread takes its own way through the same terms, so that each is first at some of
        // them.
        for step in 0..terms.len() {
            let at = if thread.is_multiple_of(2) {
                step
            } else {
                terms.len() - 1 - step
            };
            ids[at] = interner.intern(terms[at].as_ref());
            assert_eq!(dictionary.decode(ids[at]).as_ref(), Some(&terms[at]));
        }
        ids
    };
    let all: Vec<Vec<TermId>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || ids(n))).collect();
        (threads.into_iter())
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(all.iter().all(|ids| *ids == all[0]));
    // Datatypes are terms too; rdf:type was there before.
    assert_eq!(
        dictionary.len(),
        terms.len() + if cfg!(miri) { 10 } else { 15 } + 1
    );
}

#[test]
fn similar_iris_take_little_memory() {
    let dictionary = Dictionary::new();
    let empty = dictionary.memory_bytes();
    let count = 50_000;
    for n in 0..count {
        let iri = format!("http://www.example.org/a/rather/long/path/of/things/{n}");
        dictionary.intern(NamedNode::new_unchecked(iri).as_ref().into());
    }
    let each = (dictionary.memory_bytes() - empty) / count;
    assert!(each < 50, "{each} bytes a term");
}
