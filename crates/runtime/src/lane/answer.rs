//! What a call is answered: terms, which need no snapshot and no dictionary. The answer of a call
//! with a key is logged, so that the call is answered the same when it is sent again.
//!
//! Before changing anything here: the bytes are in logs and checkpoints. A variant may be added at
//! the end, and nothing else may change.

use oxrdf::{NamedNode, NamedOrBlankNode, Term, Triple};
use serde::{Deserialize, Serialize};
use somersault_dictionary::Dictionary;
use somersault_query::Answer;
use std::str::FromStr;

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

/// An answer in the log. Terms are in the syntax of N-Triples.
#[derive(Serialize, Deserialize)]
enum Kept {
    Done,
    Rows(Vec<String>, Vec<Vec<Option<String>>>),
    Boolean(bool),
    Graph(Vec<[String; 3]>),
}

impl CallAnswer {
    /// The answer of a procedure's RETURN.
    pub(crate) fn of(answer: Option<Answer>, dictionary: &Dictionary) -> CallAnswer {
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
