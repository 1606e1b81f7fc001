//! Answers as JSON lines: `{query, close_ms | snapshot_ms, vars, n, sha256, rows, mult}`, with terms
//! in N-Triples syntax, distinct rows sorted by code point, and the hash over the compact JSON of `[[row, count], …]`.

use crate::answer::Answer;

/// One row: terms in N-Triples syntax, `None` = unbound.
pub type AnswerRow = Vec<Option<String>>;

/// When an answer was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnswerTime {
    /// A firing, for this close in ms.
    Close(i64),
    /// A one-shot query at this event time in ms.
    Snapshot(i64),
}

/// One line of an answer file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerLine {
    /// The query's name.
    pub query: String,
    /// When.
    pub time: AnswerTime,
    /// The columns, without `?`; empty for ASK.
    pub vars: Vec<String>,
    /// How many rows, repeats counted.
    pub n: u64,
    /// Hex SHA-256 of the compact JSON of `[[row, multiplicity], …]`.
    pub sha256: String,
    /// Distinct rows in code point order; `None` if the line gives only `n` and `sha256`.
    pub rows: Option<Vec<AnswerRow>>,
    /// Multiplicities of `rows`; `None` if none repeats.
    pub mult: Option<Vec<u64>>,
    /// What else the line has, for example `stored_triples`.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl AnswerLine {
    /// The line of an answer. With `full` false the rows are left out.
    pub fn new(_query: &str, _time: AnswerTime, _answer: &Answer, _full: bool) -> AnswerLine {
        unimplemented!()
    }

    /// The line of rows in any order, repeats given as often as they occur.
    pub fn from_rows(
        _query: &str,
        _time: AnswerTime,
        _vars: Vec<String>,
        _rows: Vec<AnswerRow>,
        _full: bool,
    ) -> AnswerLine {
        unimplemented!()
    }

    /// Reads a line.
    ///
    /// # Errors
    /// A sentence that says which member is missing or of the wrong type.
    pub fn parse(_line: &str) -> Result<AnswerLine, String> {
        unimplemented!()
    }

    /// The line as compact JSON, without a line end.
    pub fn to_json(&self) -> String {
        unimplemented!()
    }
}

/// The rows of an answer as the format spells them (ASK: one row `"true"` or `"false"`), in no particular order.
pub fn answer_rows(_answer: &Answer) -> Vec<AnswerRow> {
    unimplemented!()
}
