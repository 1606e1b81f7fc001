//! Answers of queries: rows as terms and as text, and writers of the formats in which they leave
//! the engine: SPARQL JSON, XML, CSV and TSV, the RDF syntaxes, and the lines of stored answers.
//!
//! The one thing to know before changing it: an answer is columns of ids. They are decoded while
//! they are written, a piece at a time, and no writer allocates per cell. `sparesults` is the dull
//! twin of the writers in tests.
//!
//! Rooms, lowest first: error, escape, terms, formats, answer, answer_format.

mod answer;
pub mod answer_format;
mod error;
mod escape;
mod formats;
mod terms;

pub use answer::{Answer, AnswerKind, AnswerWriter, Cell, CellKind, Cursor, Row, Rows, Triples};
pub use error::AnswerError;
