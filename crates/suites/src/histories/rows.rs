//! What a client sends to an engine for an operation of a history, and the answer.

use oxrdf::Term;

/// What a client sends.
#[derive(Debug, Clone, PartialEq)]
pub enum TransactionRequest {
    /// A call of a procedure, with its arguments.
    Call {
        /// The procedure.
        procedure: &'static str,
        /// The arguments, in the order of its parameters.
        arguments: Vec<(String, Term)>,
    },
    /// A query on a snapshot.
    Query(String),
}

/// The rows of an answer, in the texts of their terms: what stands in a literal, or an IRI.
pub type ReplyRows = Vec<Vec<Option<String>>>;

/// A row of an answer in the texts of its terms.
pub fn reply_row(row: Vec<Option<Term>>) -> Vec<Option<String>> {
    let text = |term| match term {
        Term::Literal(literal) => literal.value().to_owned(),
        Term::NamedNode(node) => node.into_string(),
        other => other.to_string(),
    };
    row.into_iter().map(|cell| cell.map(text)).collect()
}
