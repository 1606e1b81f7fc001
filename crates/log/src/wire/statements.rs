//! Encodes the statements of a push one by one as they are parsed, before the record that holds
//! them is made.
//!
//! Before changing anything here: the bytes are the two lists of a [`super::WirePush`], so there is
//! one format. They follow from the terms. The marks of the terms, which a caller gives, only tell
//! repeated terms apart and are not written.

use super::encode::{Appender, EncodeError, wire_literal};
use super::{MAX_NESTING, WireQuad, WireStatement, WireTerm};
use crate::error::LogError;
use crate::record::StreamStatement;
use oxrdf::{GraphNameRef, QuadRef, TermRef};
use rustc_hash::FxHashMap;
use serde::Serialize;
use somersault_model::EventTime;
use std::collections::hash_map::Entry;

/// The statements of a push, in a form that a log can write.
pub trait PushBody {
    /// The form that is written.
    fn form(&self) -> PushForm<'_>;
}

/// The forms of a push's statements that a log can write.
#[derive(Clone, Copy, Debug)]
pub enum PushForm<'p> {
    /// As terms.
    Terms(&'p [StreamStatement]),
    /// Encoded before.
    Encoded(&'p EncodedStatements),
}

impl PushBody for Vec<StreamStatement> {
    fn form(&self) -> PushForm<'_> {
        PushForm::Terms(self)
    }
}

impl PushBody for EncodedStatements {
    fn form(&self) -> PushForm<'_> {
        PushForm::Encoded(self)
    }
}

/// The statements of a push as bytes: the terms and the statements of its record, without the
/// lengths of the two lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedStatements {
    terms: Vec<u8>,
    term_count: u32,
    statements: Vec<u8>,
    count: u32,
}

impl EncodedStatements {
    /// The length of both lists in bytes.
    pub fn byte_len(&self) -> usize {
        self.terms.len() + self.statements.len()
    }

    /// Appends both lists.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        append(out, &self.term_count)?;
        out.extend_from_slice(&self.terms);
        append(out, &self.count)?;
        out.extend_from_slice(&self.statements);
        Ok(())
    }

    /// The same statements, all at this time.
    #[must_use]
    pub fn at_one_time(&self, at: EventTime) -> EncodedStatements {
        let mut statements = Vec::with_capacity(self.statements.len() + 8);
        let mut before = 0;
        for statement in self.list() {
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

impl EncodedStatements {
    /// The statements for which `keep` says so, by their index. The table of terms stays whole.
    #[must_use]
    pub fn only(&self, keep: impl Fn(usize) -> bool) -> EncodedStatements {
        let mut kept = EncodedStatements {
            statements: Vec::with_capacity(self.statements.len()),
            count: 0,
            ..self.clone()
        };
        let (mut at, mut before) = (0_i64, 0_i64);
        for (index, statement) in self.list().enumerate() {
            at = at.wrapping_add(statement.later_by);
            if keep(index) {
                let statement = WireStatement {
                    later_by: at.wrapping_sub(before),
                    ..statement
                };
                before = at;
                kept.count += 1;
                append(&mut kept.statements, &statement).expect("numbers are always written");
            }
        }
        kept
    }

    fn list(&self) -> impl Iterator<Item = WireStatement> + '_ {
        let mut rest = &self.statements[..];
        (0..self.count).map(move |_| {
            let (statement, behind) = postcard::take_from_bytes::<WireStatement>(rest)
                .expect("these are the bytes of `count` statements");
            rest = behind;
            statement
        })
    }
}

/// A number that stands for a term while statements are encoded: equal marks mean equal terms.
type TermMark = u64;

/// Encodes statements as they arrive: each new term goes into the table of terms, and the statement
/// refers to it by its index.
#[derive(Debug)]
pub struct StatementEncoder {
    table: EncodedTerms,
    statements: Vec<u8>,
    count: u32,
    /// The index of each mark's term in the table of terms.
    places: FxHashMap<TermMark, u32>,
    /// The subject and the predicate of the statement before.
    recent: [Option<(TermMark, u32)>; 2],
    before: i64,
}

/// The table of terms as it grows.
#[derive(Debug)]
struct EncodedTerms {
    bytes: Vec<u8>,
    count: u32,
    /// The datatypes so far; there are few.
    datatypes: FxHashMap<Box<str>, u32>,
}

impl StatementEncoder {
    /// An encoder with capacity for `statements`.
    pub fn new(statements: usize) -> StatementEncoder {
        let mut places = FxHashMap::default();
        places.reserve(statements);
        StatementEncoder {
            table: EncodedTerms {
                bytes: Vec::with_capacity(statements * 48),
                count: 0,
                datatypes: FxHashMap::default(),
            },
            statements: Vec::with_capacity(statements * 8),
            count: 0,
            places,
            recent: [None; 2],
            before: 0,
        }
    }

    /// The statements.
    pub fn finish(self) -> EncodedStatements {
        EncodedStatements {
            terms: self.table.bytes,
            term_count: self.table.count,
            statements: self.statements,
            count: self.count,
        }
    }

    /// Appends a statement. `marks` are numbers for its subject, predicate, object and graph; equal
    /// numbers mean equal terms.
    ///
    /// # Errors
    /// [`LogError::Unwritable`]: no log could write it.
    pub fn add(
        &mut self,
        at: EventTime,
        terms: QuadRef<'_>,
        marks: [u64; 4],
    ) -> Result<(), LogError> {
        let [subject, predicate, object, graph] = marks;
        let graph = match terms.graph_name {
            GraphNameRef::DefaultGraph => 0,
            GraphNameRef::NamedNode(name) => self.marked(graph, name.into())? + 1,
            GraphNameRef::BlankNode(name) => self.marked(graph, name.into())? + 1,
        };
        let (subject_mark, predicate_mark) = (subject, predicate);
        let subject = match self.recent[0] {
            Some((mark, place)) if mark == subject => place,
            _ => self.marked(subject, terms.subject.into())?,
        };
        let predicate = match self.recent[1] {
            Some((mark, place)) if mark == predicate => place,
            _ => self.marked(predicate, terms.predicate.into())?,
        };
        self.recent = [
            Some((subject_mark, subject)),
            Some((predicate_mark, predicate)),
        ];
        let object = self.marked(object, terms.object)?;
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
        self.count += 1;
        append(&mut self.statements, &statement)?;
        Ok(())
    }

    /// The index in the table of the term with this mark.
    fn marked(&mut self, mark: TermMark, term: TermRef<'_>) -> Result<u32, EncodeError> {
        match self.places.entry(mark) {
            Entry::Occupied(place) => Ok(*place.get()),
            Entry::Vacant(place) => Ok(*place.insert(self.table.add(term, 0)?)),
        }
    }
}

impl EncodedTerms {
    /// Appends a term, and before it those that it refers to.
    fn add(&mut self, term: TermRef<'_>, nesting: usize) -> Result<u32, EncodeError> {
        let term = match term {
            TermRef::NamedNode(name) => WireTerm::Iri(name.as_str()),
            TermRef::BlankNode(name) => WireTerm::Blank(name.as_str()),
            TermRef::Literal(literal) => wire_literal(literal, |datatype| self.datatype(datatype))?,
            TermRef::Triple(triple) => {
                if nesting == MAX_NESTING {
                    return Err(EncodeError::Nesting);
                }
                let subject = self.add(triple.subject.as_ref().into(), nesting)?;
                let predicate = self.add(triple.predicate.as_ref().into(), nesting)?;
                let object = self.add(triple.object.as_ref(), nesting + 1)?;
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
        let place = self.count;
        // u32::MAX itself is not used: a graph's number is its place plus 1.
        self.count = place.checked_add(1).ok_or(EncodeError::Size)?;
        append(&mut self.bytes, term)?;
        Ok(place)
    }
}

fn append(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), EncodeError> {
    postcard::serialize_with_flavor(value, Appender(out)).map_err(|_| EncodeError::Size)
}
