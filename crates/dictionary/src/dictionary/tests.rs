//! Every kind of term comes back, whatever shape it has in memory.

use super::*;

fn terms() -> Vec<Term> {
    let a = NamedNode::new_unchecked("http://example.com/a");
    let inner = Triple::new(
        a.clone(),
        a.clone(),
        Literal::new_simple_literal("long enough"),
    );
    let outer = Triple::new(BlankNode::new_unchecked("b"), a.clone(), inner.clone());
    let tagged = Literal::new_language_tagged_literal_unchecked("été à la mer", "fr");
    let directed = Literal::new_directional_language_tagged_literal_unchecked(
        "long enough",
        "ar",
        BaseDirection::Rtl,
    );
    vec![
        a.clone().into(),
        BlankNode::new_unchecked("http://example.com/a").into(),
        BlankNode::default().into(),
        Literal::new_simple_literal("http://example.com/a").into(),
        Literal::new_simple_literal("").into(),
        Literal::new_typed_literal("http://example.com/a", a).into(),
        Literal::new_typed_literal("01", oxrdf::vocab::xsd::INTEGER).into(),
        Literal::new_typed_literal("1", oxrdf::vocab::xsd::INTEGER).into(),
        tagged.into(),
        directed.into(),
        inner.into(),
        outer.into(),
    ]
}

#[test]
fn every_kind_of_term_decodes_to_itself() {
    let (dictionary, terms) = (Dictionary::new(), terms());
    let ids: Vec<_> = terms
        .iter()
        .map(|t| dictionary.intern(t.as_ref()))
        .collect();
    for (term, id) in terms.iter().zip(&ids) {
        assert_eq!(dictionary.decode(*id).as_ref(), Some(term));
        assert_eq!(dictionary.lookup(term.as_ref()), Some(*id));
        assert_eq!(dictionary.intern(term.as_ref()), *id);
    }
    let mut distinct = ids.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), ids.len());
    assert_eq!(
        dictionary.with_str(ids[8], str::len),
        Some("été à la mer".len())
    );
    assert_eq!(dictionary.with_str(ids[11], str::len), None);
}

/// Converts a view to a term.
fn seen(view: TermView<'_>) -> Option<Term> {
    let mut text = String::new();
    view.write_text(&mut text);
    Some(match (view.kind, view.language, view.direction) {
        (TermKind::NamedNode, ..) => NamedNode::new_unchecked(text).into(),
        (TermKind::BlankNode, ..) => BlankNode::new_unchecked(text).into(),
        (TermKind::Triple, ..) => return None,
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

#[test]
fn a_column_shows_what_decoding_gives() {
    let (dictionary, terms) = (Dictionary::new(), terms());
    let mut ids: Vec<_> = (terms.iter())
        .map(|term| dictionary.intern(term.as_ref()))
        .collect();
    ids.extend([TermId::UNBOUND, TermId::local(0)]);
    let mut next = 0;
    dictionary.decode_column(&ids, |at, view| {
        assert_eq!(at, next);
        next += 1;
        match terms.get(at) {
            None => assert_eq!(view, None),
            Some(Term::Triple(_)) => {
                assert_eq!(view.map(|view| view.kind), Some(TermKind::Triple));
            }
            Some(term) => assert_eq!(view.and_then(seen).as_ref(), Some(term)),
        }
    });
    assert_eq!(next, ids.len());
}

#[test]
fn unknown_terms_and_ids_are_none() {
    let dictionary = Dictionary::new();
    for term in terms() {
        let known = matches!(&term, Term::Literal(l) if inline::encode(l.as_ref()).is_some());
        assert_eq!(dictionary.lookup(term.as_ref()).is_some(), known, "{term}");
    }
    let never = TermId::in_dictionary(Tag::NamedNode, VirtualShard::truncated(1), 1 << 40);
    for id in [
        TermId::UNBOUND,
        TermId::DEFAULT_GRAPH,
        TermId::local(1),
        never,
    ] {
        assert_eq!(dictionary.decode(id), None);
    }
    assert_eq!(dictionary.len(), 1);
}

#[test]
fn ids_hold_their_owner() {
    let dictionary = Dictionary::new();
    for n in 0..300 {
        let node = NamedNode::new_unchecked(format!("http://example.com/{n}"));
        let id = dictionary.intern(node.as_ref().into());
        let hash = term_hash(node.as_ref().into());
        assert_eq!(id.virtual_shard(), VirtualShard::of_hash(hash));
    }
    assert_eq!(dictionary.len(), 301);
}

#[test]
fn threads_agree_on_ids() {
    let dictionary = Dictionary::new();
    let rounds = if cfg!(miri) { 20 } else { 2_000 };
    let work = || -> Vec<TermId> {
        (0..rounds)
            .map(|n| {
                let node = NamedNode::new_unchecked(format!("http://example.com/{n}"));
                let id = dictionary.intern(node.as_ref().into());
                assert_eq!(dictionary.decode(id), Some(node.into()));
                id
            })
            .collect()
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("no panic"))
            .collect()
    });
    assert!(all.iter().all(|ids| *ids == all[0]));
}
