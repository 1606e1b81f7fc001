//! A text by which terms are in order, the same in a run and its replay: FOR EACH runs over equal
//! rows in it.

use oxrdf::{NamedOrBlankNode, Term};

/// What stands between the parts of a key: no character comes before it, so a shorter text comes
/// before a longer one that begins with it.
const BETWEEN: char = '\0';

/// The key of a term: blank nodes come first, then IRIs, literals and triple terms. Literals are in
/// the order of their text by code points, then of datatype and language.
pub(crate) fn term_key(term: &Term) -> String {
    let mut key = String::new();
    add(term, &mut key);
    key
}

fn add(term: &Term, key: &mut String) {
    match term {
        Term::BlankNode(node) => {
            key.push('1');
            key.push_str(node.as_str());
        }
        Term::NamedNode(node) => {
            key.push('2');
            key.push_str(node.as_str());
        }
        Term::Literal(literal) => {
            key.push('3');
            key.push_str(literal.value());
            key.push(BETWEEN);
            key.push_str(literal.datatype().as_str());
            key.push(BETWEEN);
            key.push_str(literal.language().unwrap_or_default());
        }
        Term::Triple(triple) => {
            key.push('4');
            match &triple.subject {
                NamedOrBlankNode::NamedNode(node) => add(&node.clone().into(), key),
                NamedOrBlankNode::BlankNode(node) => add(&node.clone().into(), key),
            }
            key.push(BETWEEN);
            key.push_str(triple.predicate.as_str());
            key.push(BETWEEN);
            add(&triple.object, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::vocab::xsd;
    use oxrdf::{BlankNode, Literal, NamedNode, Triple};

    #[test]
    fn keys_are_in_the_order_of_kinds_texts_datatypes_and_languages() {
        let iri = |name: &str| NamedNode::new_unchecked(format!("http://x/{name}"));
        let typed = |text: &str| Term::from(Literal::new_typed_literal(text, xsd::INTEGER));
        let tagged = |tag: &str| Literal::new_language_tagged_literal_unchecked("ab", tag);
        let terms = [
            Term::from(BlankNode::new_unchecked("z")),
            iri("a").into(),
            iri("ab").into(),
            typed("10"),
            typed("9"),
            Literal::new_simple_literal("9").into(),
            Literal::new_simple_literal("a").into(),
            tagged("de").into(),
            tagged("en").into(),
            Literal::new_simple_literal("ab").into(),
            Triple::new(iri("a"), iri("p"), iri("b")).into(),
        ];
        let keys: Vec<String> = terms.iter().map(term_key).collect();
        assert!(keys.is_sorted(), "{keys:?}");
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
