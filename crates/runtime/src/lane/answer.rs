//! What a call is answered: terms, which need no snapshot and no dictionary. The answer of a call
//! with a key is logged, so that the call is answered the same when it is sent again.
//!
//! Before changing anything here: the bytes are in logs and checkpoints. A variant may be added at
//! the end, and nothing else may change.

use crate::error::RuntimeError;
use oxrdf::{NamedNode, NamedOrBlankNode, Term, Triple};
use serde::{Deserialize, Serialize};
use somersault_dictionary::Dictionary;
use somersault_query::Answer;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a call of a procedure is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum CallAnswer {
    /// No RETURN was reached.
    Done,
    /// RETURN SELECT.
    Rows {
        /// The names of the columns, without `?`.
        variables: Vec<String>,
        /// The rows; `None` is unbound.
        rows: Vec<Vec<Option<Term>>>,
    },
    /// RETURN ASK.
    Boolean(bool),
    /// RETURN CONSTRUCT.
    Graph(Vec<Triple>),
    /// The call was answered before, and the answer was too long to be kept.
    NotKept,
}

impl From<()> for CallAnswer {
    fn from((): ()) -> CallAnswer {
        CallAnswer::Done
    }
}

impl From<bool> for CallAnswer {
    fn from(is_true: bool) -> CallAnswer {
        CallAnswer::Boolean(is_true)
    }
}

/// How a call has ended.
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutcome {
    /// It committed.
    Answered(CallAnswer),
    /// It aborted, and left nothing.
    Aborted {
        /// The reason.
        reason: String,
    },
}

/// Limits the bytes of answers to calls that nobody has read yet, so that a caller who hands in
/// many calls and reads slowly holds no more. One answer has room in any case.
#[derive(Debug)]
pub struct AnswerRoom {
    held: AtomicU64,
    largest: AtomicU64,
    most: u64,
}

impl AnswerRoom {
    /// Room for this many bytes.
    pub fn new(most: u64) -> AnswerRoom {
        AnswerRoom {
            held: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            most,
        }
    }

    /// The bytes of answers that wait to be read.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// The bytes of the largest answer so far, with room or without.
    pub fn largest(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }

    /// Takes room for an answer, until the value is dropped.
    ///
    /// # Errors
    /// There is none: nothing is taken.
    fn take(self: &Arc<Self>, bytes: u64) -> Result<TakenRoom, RuntimeError> {
        self.largest.fetch_max(bytes, Ordering::Relaxed);
        let fits = |held: u64| (held == 0 || held + bytes <= self.most).then_some(held + bytes);
        match (self.held).fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(TakenRoom {
                room: Arc::clone(self),
                bytes,
            }),
            Err(held) => Err(RuntimeError::UnreadAnswers {
                bytes,
                held,
                most: self.most,
            }),
        }
    }
}

/// The room of one answer.
#[derive(Debug)]
struct TakenRoom {
    room: Arc<AnswerRoom>,
    bytes: u64,
}

impl Drop for TakenRoom {
    fn drop(&mut self) {
        self.room.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// How a call has ended, on its way to the caller, with the room that it takes until it is read.
#[derive(Debug)]
pub struct UnreadOutcome {
    outcome: CallOutcome,
    /// Given back when this is dropped.
    _taken: Option<TakenRoom>,
}

impl UnreadOutcome {
    /// Takes room for an answer, where that is limited.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn answered(
        answer: CallAnswer,
        room: Option<&Arc<AnswerRoom>>,
    ) -> Result<UnreadOutcome, RuntimeError> {
        let taken = room.map(|room| room.take(answer.memory_bytes()));
        Ok(UnreadOutcome {
            _taken: taken.transpose()?,
            outcome: CallOutcome::Answered(answer),
        })
    }

    /// The outcome, which is read now.
    pub fn read(self) -> CallOutcome {
        self.outcome
    }
}

/// An outcome that takes no room worth counting: a reason, or an answer that was kept.
impl From<CallOutcome> for UnreadOutcome {
    fn from(outcome: CallOutcome) -> UnreadOutcome {
        UnreadOutcome {
            outcome,
            _taken: None,
        }
    }
}

/// An answer in the log. Terms are in the syntax of N-Triples.
#[derive(Serialize, Deserialize)]
enum Kept {
    Done,
    Rows(Vec<String>, Vec<Vec<Option<String>>>),
    Boolean(bool),
    Graph(Vec<[String; 3]>),
}

impl CallAnswer {
    /// The answer of a query, as terms.
    pub fn of(answer: Option<Answer>, dictionary: &Dictionary) -> CallAnswer {
        match answer {
            None => CallAnswer::Done,
            Some(Answer::Boolean(is_true)) => CallAnswer::Boolean(is_true),
            Some(Answer::Graph(triples)) => CallAnswer::Graph(triples),
            Some(Answer::Dataset(quads)) => {
                CallAnswer::Graph(quads.into_iter().map(Triple::from).collect())
            }
            Some(Answer::Solutions(solutions)) => CallAnswer::Rows {
                variables: solutions.variables().to_vec(),
                rows: solutions.rows(dictionary).collect(),
            },
        }
    }

    /// The approximate memory that it takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let triple = |it: &Triple| {
            let names = it.subject.to_string().len() + it.predicate.as_str().len();
            term_bytes(&it.object) + 2 * TERM_BYTES + names as u64
        };
        match self {
            CallAnswer::Done | CallAnswer::Boolean(_) | CallAnswer::NotKept => TERM_BYTES,
            CallAnswer::Rows { rows, .. } => {
                let terms = rows.iter().flatten();
                TERM_BYTES
                    + terms
                        .map(|it| it.as_ref().map_or(TERM_BYTES, term_bytes))
                        .sum::<u64>()
            }
            CallAnswer::Graph(triples) => triples.iter().map(triple).sum(),
        }
    }

    /// The bytes that are kept.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let kept = match self {
            CallAnswer::Done | CallAnswer::NotKept => Kept::Done,
            CallAnswer::Rows { variables, rows } => {
                let text = |term: &Option<Term>| term.as_ref().map(Term::to_string);
                let rows = rows.iter().map(|row| row.iter().map(text).collect());
                Kept::Rows(variables.clone(), rows.collect())
            }
            CallAnswer::Boolean(is_true) => Kept::Boolean(*is_true),
            CallAnswer::Graph(triples) => {
                let texts = |triple: &Triple| {
                    let (subject, predicate) = (&triple.subject, &triple.predicate);
                    [
                        subject.to_string(),
                        predicate.to_string(),
                        triple.object.to_string(),
                    ]
                };
                Kept::Graph(triples.iter().map(texts).collect())
            }
        };
        postcard::to_allocvec(&kept).expect("texts and lists are always written")
    }

    /// The answer that was kept as these bytes; `None` for other bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<CallAnswer> {
        Some(match postcard::from_bytes(bytes).ok()? {
            Kept::Done => CallAnswer::Done,
            Kept::Boolean(is_true) => CallAnswer::Boolean(is_true),
            Kept::Rows(variables, rows) => {
                let term = |text: Option<String>| match text {
                    None => Some(None),
                    Some(text) => Term::from_str(&text).ok().map(Some),
                };
                let row = |row: Vec<Option<String>>| row.into_iter().map(term).collect();
                CallAnswer::Rows {
                    variables,
                    rows: rows.into_iter().map(row).collect::<Option<_>>()?,
                }
            }
            Kept::Graph(triples) => {
                let triple = |[subject, predicate, object]: [String; 3]| {
                    Some(Triple {
                        subject: subject_of(Term::from_str(&subject).ok()?)?,
                        predicate: NamedNode::from_str(&predicate).ok()?,
                        object: Term::from_str(&object).ok()?,
                    })
                };
                CallAnswer::Graph(triples.into_iter().map(triple).collect::<Option<_>>()?)
            }
        })
    }
}

/// The bytes of a term without its text.
const TERM_BYTES: u64 = size_of::<Term>() as u64;

pub(super) fn term_bytes(term: &Term) -> u64 {
    let text = match term {
        Term::NamedNode(name) => name.as_str().len(),
        Term::BlankNode(node) => node.as_str().len(),
        Term::Literal(literal) => literal.value().len() + literal.datatype().as_str().len(),
        Term::Triple(triple) => return TERM_BYTES * 3 + term_bytes(&triple.object),
    };
    TERM_BYTES + text as u64
}

fn subject_of(term: Term) -> Option<NamedOrBlankNode> {
    match term {
        Term::NamedNode(name) => Some(name.into()),
        Term::BlankNode(node) => Some(node.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::{BlankNode, Literal};

    #[test]
    fn one_answer_has_room_and_others_only_while_they_fit() {
        let room = Arc::new(AnswerRoom::new(10));
        let first = room.take(25).unwrap();
        let full = room.take(1).unwrap_err().to_string();
        assert!(
            full.contains("25 bytes") && full.contains("at most 10"),
            "{full}"
        );
        drop(first);
        let both = [room.take(4).unwrap(), room.take(6).unwrap()];
        assert!(room.take(1).is_err());
        assert_eq!(room.held(), 10);
        drop(both);
        assert_eq!(room.held(), 0);
    }

    #[test]
    fn answers_come_back_from_their_bytes() {
        let name = NamedNode::new_unchecked("urn:a");
        let terms: [Term; 5] = [
            name.clone().into(),
            BlankNode::new_unchecked("b").into(),
            Literal::from(7).into(),
            Literal::new_language_tagged_literal_unchecked("a \"b\"\n", "fr").into(),
            Triple::new(name.clone(), name.clone(), Literal::from("x")).into(),
        ];
        let triples = terms
            .clone()
            .map(|term| Triple::new(name.clone(), name.clone(), term));
        let row: Vec<Option<Term>> = terms.into_iter().map(Some).chain([None]).collect();
        let answers = [
            CallAnswer::Done,
            CallAnswer::Boolean(true),
            CallAnswer::Graph(triples.to_vec()),
            CallAnswer::Rows {
                variables: "abcdef".chars().map(String::from).collect(),
                rows: vec![row],
            },
        ];
        for answer in answers {
            assert_eq!(CallAnswer::from_bytes(&answer.to_bytes()), Some(answer));
        }
        assert_eq!(CallAnswer::from_bytes(&[9]), None);
    }
}
