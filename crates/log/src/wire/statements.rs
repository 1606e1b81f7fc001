//! Encodes the statements of a push one by one as they are parsed, before the record that holds
//! them is made.
//!
//! The one thing to know: the bytes are the two lists of a [`super::WirePush`], so that there is
//! one format.

use super::encode::{Appender, EncodeError, wire_literal};
use super::{MAX_NESTING, WireQuad, WireStatement, WireTerm};
use oxrdf::{GraphNameRef, QuadRef, TermRef};
use rustc_hash::FxHashMap;
use serde::Serialize;
use somersault_model::{EventTime, QuadIds, TermId};

/// Terms and statements as a record of a push holds them, without the lengths of the two lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EncodedStatements {
    terms: Vec<u8>,
    term_count: u32,
    statements: Vec<u8>,
    count: u32,
}

impl EncodedStatements {
    /// Appends both lists.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        append(out, &self.term_count)?;
        out.extend_from_slice(&self.terms);
        append(out, &self.count)?;
        out.extend_from_slice(&self.statements);
        Ok(())
    }

    /// The same statements, all at this time.
    pub(crate) fn at_one_time(&self, at: EventTime) -> EncodedStatements {
        let mut statements = Vec::with_capacity(self.statements.len() + 8);
        let mut rest = &self.statements[..];
        let mut before = 0;
        for _ in 0..self.count {
            let (statement, behind) = postcard::take_from_bytes::<WireStatement>(rest)
                .expect("these are the bytes of so many statements");
            rest = behind;
            let statement = WireStatement {
                later_by: at.0.wrapping_sub(before),
                ..statement
            };
            before = at.0;
            append(&mut statements, &statement).expect("numbers are always written");
        }
        EncodedStatements {
            statements,
            ..self.clone()
        }
    }
}

/// Encodes statements as they arrive: each new term goes into the table of terms, and the statement
/// refers to it by its index.
#[derive(Debug)]
pub(crate) struct StatementEncoder {
    encoded: EncodedStatements,
    /// The index of each id's term in the table of terms.
    places: FxHashMap<TermId, u32>,
    /// The datatypes so far; there are few.
    datatypes: FxHashMap<Box<str>, u32>,
    /// The subject and the predicate of the statement before.
    recent: [(TermId, u32); 2],
    before: i64,
}

impl StatementEncoder {
    /// An encoder with capacity for `statements`.
    pub(crate) fn new(statements: usize) -> StatementEncoder {
        let mut places = FxHashMap::default();
        places.reserve(statements);
        StatementEncoder {
            encoded: EncodedStatements {
                terms: Vec::with_capacity(statements * 48),
                statements: Vec::with_capacity(statements * 8),
                ..EncodedStatements::default()
            },
            places,
            datatypes: FxHashMap::default(),
            recent: [(TermId::UNBOUND, 0); 2],
            before: 0,
        }
    }

    pub(crate) fn finish(self) -> EncodedStatements {
        self.encoded
    }

    /// Appends a statement; equal ids mean equal terms.
    pub(crate) fn add(
        &mut self,
        at: EventTime,
        terms: QuadRef<'_>,
        ids: QuadIds,
    ) -> Result<(), EncodeError> {
        let graph = match terms.graph_name {
            GraphNameRef::DefaultGraph => 0,
            GraphNameRef::NamedNode(name) => self.named(ids.graph, name.into())? + 1,
            GraphNameRef::BlankNode(name) => self.named(ids.graph, name.into())? + 1,
        };
        let subject = match self.recent[0] {
            (id, place) if id == ids.subject => place,
            _ => self.named(ids.subject, terms.subject.into())?,
        };
        let predicate = match self.recent[1] {
            (id, place) if id == ids.predicate => place,
            _ => self.named(ids.predicate, terms.predicate.into())?,
        };
        self.recent = [(ids.subject, subject), (ids.predicate, predicate)];
        let object = self.named(ids.object, terms.object)?;
        let statement = WireStatement {
            later_by: at.0.wrapping_sub(self.before),
            quad: WireQuad {
                subject,
                predicate,
                object,
                graph,
            },
        };
        self.before = at.0;
        self.encoded.count += 1;
        append(&mut self.encoded.statements, &statement)
    }

    /// The index of a term in the table.
    fn named(&mut self, id: TermId, term: TermRef<'_>) -> Result<u32, EncodeError> {
        if let Some(place) = self.places.get(&id) {
            return Ok(*place);
        }
        let place = self.term(term, 0)?;
        self.places.insert(id, place);
        Ok(place)
    }

    /// Appends a term, and before it those that it refers to.
    fn term(&mut self, term: TermRef<'_>, nesting: usize) -> Result<u32, EncodeError> {
        let term = match term {
            TermRef::NamedNode(name) => WireTerm::Iri(name.as_str()),
            TermRef::BlankNode(name) => WireTerm::Blank(name.as_str()),
            TermRef::Literal(literal) => wire_literal(literal, |datatype| self.datatype(datatype))?,
            TermRef::Triple(triple) => {
                if nesting == MAX_NESTING {
                    return Err(EncodeError::Nesting);
                }
                let subject = self.term(triple.subject.as_ref().into(), nesting)?;
                let predicate = self.term(triple.predicate.as_ref().into(), nesting)?;
                let object = self.term(triple.object.as_ref(), nesting + 1)?;
                WireTerm::Triple {
                    subject,
                    predicate,
                    object,
                }
            }
        };
        self.push(&term)
    }

    /// The index of a datatype in the table.
    fn datatype(&mut self, datatype: &str) -> Result<u32, EncodeError> {
        if let Some(place) = self.datatypes.get(datatype) {
            return Ok(*place);
        }
        let place = self.push(&WireTerm::Iri(datatype))?;
        self.datatypes.insert(datatype.into(), place);
        Ok(place)
    }

    fn push(&mut self, term: &WireTerm<'_>) -> Result<u32, EncodeError> {
        let place = self.encoded.term_count;
        // u32::MAX itself is not used: a graph's number is its place plus 1.
        self.encoded.term_count = place.checked_add(1).ok_or(EncodeError::Size)?;
        append(&mut self.encoded.terms, term)?;
        Ok(place)
    }
}

fn append(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), EncodeError> {
    postcard::serialize_with_flavor(value, Appender(out)).map_err(|_| EncodeError::Size)
}
