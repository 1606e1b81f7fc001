//! The triples of Facade-X: containers, their slots, and the values in them.
//!
//! The one thing to know: a triple borrows from its document, so that a reader that wants few of
//! them pays for few.

use oxrdf::vocab::{rdf, xsd};
use oxrdf::{BlankNode, GraphName, Literal, NamedNode, NamedNodeRef, Quad, Term};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;

/// The class of the outermost container of a document, `fx:root`.
pub const ROOT_TYPE: NamedNodeRef<'static> =
    NamedNodeRef::new_unchecked("http://sparql.xyz/facade-x/ns/root");
/// What the IRIs of named slots begin with, `xyz:`.
pub const MEMBER_NAMESPACE: &str = "http://sparql.xyz/facade-x/data/";
/// What the IRIs of numbered slots begin with, `rdf:_`.
pub const PLACE_BEGINNING: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#_";

/// One triple of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FacadeTriple<'t> {
    /// The number of the container that it is about; 0 is the outermost one.
    pub container: u32,
    /// The slot of the container.
    pub slot: FacadeSlot<'t>,
    /// The value in it.
    pub value: FacadeValue<'t>,
}

/// The predicate of a triple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FacadeSlot<'t> {
    /// `rdf:type`.
    Type,
    /// `rdf:_1`, `rdf:_2`, …: a place in an array.
    Place(u64),
    /// `xyz:name`: a member of an object, or a field of a record.
    Member(&'t str),
}

/// The object of a triple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FacadeValue<'t> {
    /// `fx:root`.
    RootType,
    /// The container with this number.
    Container(u32),
    /// A simple literal.
    Text(&'t str),
    /// A number without fraction and exponent: an xsd:integer.
    Integer(&'t str),
    /// A number with a fraction: an xsd:decimal.
    Decimal(&'t str),
    /// A number with an exponent: an xsd:double.
    Double(&'t str),
    /// An xsd:boolean.
    Boolean(bool),
}

impl FacadeSlot<'_> {
    /// The predicate.
    ///
    /// ```
    /// use somersault_lines::FacadeSlot;
    /// let member = FacadeSlot::Member("température (°C)").iri();
    /// assert_eq!(member, "http://sparql.xyz/facade-x/data/température%20%28%C2%B0C%29");
    /// ```
    #[must_use]
    pub fn iri(&self) -> Cow<'static, str> {
        match self {
            FacadeSlot::Type => Cow::Borrowed(rdf::TYPE.as_str()),
            FacadeSlot::Place(place) => Cow::Owned(format!("{PLACE_BEGINNING}{place}")),
            FacadeSlot::Member(name) => Cow::Owned(member_iri(name)),
        }
    }
}

/// Letters and digits of all scripts, and `-._~`, stand for themselves; the bytes of everything
/// else are percent-encoded.
fn member_iri(name: &str) -> String {
    let mut iri = String::with_capacity(MEMBER_NAMESPACE.len() + name.len());
    iri.push_str(MEMBER_NAMESPACE);
    for c in name.chars() {
        if c.is_alphanumeric() || matches!(c, '-' | '.' | '_' | '~') {
            iri.push(c);
        } else {
            let mut bytes = [0; 4];
            iri.extend(utf8_percent_encode(
                c.encode_utf8(&mut bytes),
                NON_ALPHANUMERIC,
            ));
        }
    }
    iri
}

impl FacadeValue<'_> {
    /// The object. Containers are blank nodes with their numbers as labels.
    #[must_use]
    pub fn term(&self) -> Term {
        let typed = |text: &str, datatype: NamedNodeRef<'_>| {
            Literal::new_typed_literal(text, datatype).into()
        };
        match self {
            FacadeValue::RootType => ROOT_TYPE.into_owned().into(),
            FacadeValue::Container(number) => container(*number).into(),
            FacadeValue::Text(text) => Literal::new_simple_literal(*text).into(),
            FacadeValue::Integer(text) => typed(text, xsd::INTEGER),
            FacadeValue::Decimal(text) => typed(text, xsd::DECIMAL),
            FacadeValue::Double(text) => typed(text, xsd::DOUBLE),
            FacadeValue::Boolean(value) => Literal::from(*value).into(),
        }
    }
}

impl FacadeTriple<'_> {
    /// The triple as a statement of the default graph.
    #[must_use]
    pub fn quad(&self) -> Quad {
        Quad::new(
            container(self.container),
            NamedNode::new_unchecked(self.slot.iri()),
            self.value.term(),
            GraphName::DefaultGraph,
        )
    }
}

/// The blank node of a container.
fn container(number: u32) -> BlankNode {
    BlankNode::new_unchecked(format!("c{number}"))
}
