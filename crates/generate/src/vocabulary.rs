//! The names that the data is made of: those of the published LSBench.

use oxrdf::{Literal, NamedNode, Triple};
use somersault_model::EventTime;

const SIB: &str = "http://www.ins.cwi.nl/sib/";
const SIB_VOCABULARY: &str = "http://www.ins.cwi.nl/sib/vocabulary/";
const FOAF: &str = "http://xmlns.com/foaf/0.1/";
const SIOC: &str = "http://rdfs.org/sioc/ns#";
const DC: &str = "http://purl.org/dc/elements/1.1/";
const DCTERMS: &str = "http://purl.org/dc/terms/";
const DBPROP: &str = "http://dbpedia.org/property/";
const DBO: &str = "http://dbpedia.org/ontology/";
const DBR: &str = "http://dbpedia.org/resource/";
const XSD: &str = "http://www.w3.org/2001/XMLSchema#";
const RDF_TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";

/// A namespace that predicates and classes come from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ns {
    Sib,
    Foaf,
    Sioc,
    Dc,
    DcTerms,
    DbProp,
    Dbo,
    Dbr,
}

/// The IRI of a name in a namespace.
pub(crate) fn iri(namespace: Ns, name: &str) -> NamedNode {
    let prefix = match namespace {
        Ns::Sib => SIB_VOCABULARY,
        Ns::Foaf => FOAF,
        Ns::Sioc => SIOC,
        Ns::Dc => DC,
        Ns::DcTerms => DCTERMS,
        Ns::DbProp => DBPROP,
        Ns::Dbo => DBO,
        Ns::Dbr => DBR,
    };
    NamedNode::new_unchecked([prefix, name].concat())
}

/// `rdf:type`.
pub(crate) fn rdf_type() -> NamedNode {
    NamedNode::new_unchecked(RDF_TYPE)
}

/// A thing of the network by its kind's path and its number, for example `user/u` and 7.
pub(crate) fn thing(path: &str, number: u32) -> NamedNode {
    NamedNode::new_unchecked(format!("{SIB}{path}{number}"))
}

/// User number `n`.
pub(crate) fn user(n: u32) -> NamedNode {
    thing("user/u", n)
}

/// The person behind user number `n`.
pub(crate) fn person(n: u32) -> NamedNode {
    thing("person/p", n)
}

/// Forum number `n`.
pub(crate) fn forum(n: u32) -> NamedNode {
    thing("forum/fo", n)
}

/// A string.
pub(crate) fn text(value: impl Into<String>) -> Literal {
    Literal::new_simple_literal(value)
}

/// A literal of an XSD type.
pub(crate) fn typed(value: impl Into<String>, datatype: &str) -> Literal {
    Literal::new_typed_literal(value, NamedNode::new_unchecked([XSD, datatype].concat()))
}

/// A coordinate as `xsd:double`, six digits at the most.
pub(crate) fn coordinate(value: f64) -> Literal {
    let rounded = (value * 1e6).round() / 1e6;
    typed(
        if rounded.fract() == 0.0 {
            format!("{rounded:.1}")
        } else {
            rounded.to_string()
        },
        "double",
    )
}

/// The moment `ms` milliseconds after 2010-02-01T00:00:00Z, to the second.
pub(crate) fn moment(ms: i64) -> Literal {
    /// 2010-02-01T00:00:00Z, in seconds.
    const BASE: i64 = 14_641 * 86_400;
    let time = EventTime((BASE + ms.div_euclid(1000)) * 1000);
    typed(time.to_string(), "dateTime")
}

/// One triple.
pub(crate) fn triple(
    subject: &NamedNode,
    predicate: NamedNode,
    object: impl Into<oxrdf::Term>,
) -> Triple {
    Triple::new(subject.clone(), predicate, object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_civil_times() {
        assert_eq!(moment(0).value(), "2010-02-01T00:00:00Z");
        assert_eq!(moment(-1).value(), "2010-01-31T23:59:59Z");
        assert_eq!(moment(86_400_000 * 28).value(), "2010-03-01T00:00:00Z");
    }

    #[test]
    fn coordinates_are_doubles_in_plain_spelling() {
        assert_eq!(
            coordinate(116.0).to_string(),
            "\"116.0\"^^<http://www.w3.org/2001/XMLSchema#double>"
        );
        assert_eq!(coordinate(-4.991_790_9).value(), "-4.991791");
    }
}
