//! The clauses of CREATE STREAM about documents: `MAPPED BY` makes messages of them, and
//! `DEAD LETTER INTO` names the stream for those that make none.

use crate::text::brackets::skip_bracketed;
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::name_clause::source_token;
use crate::text::names::Names;
use oxrdf::NamedNode;
use std::ops::Range;

/// The first words of the clauses of CREATE STREAM. None of them can go on with a CONSTRUCT.
const CLAUSE_WORDS: [&str; 16] = [
    "TIMELESS",
    "TIMING",
    "INTO",
    "BATCH",
    "EVENT",
    "ARRIVAL",
    "TIMESTAMP",
    "LATENESS",
    "AHEAD",
    "IDLE",
    "KEEP",
    "BUDGET",
    "MAPPED",
    "CONTEXT",
    "DEAD",
    "INTERIOR",
];

/// `BY CONSTRUCT … WHERE { … }`, with the cursor behind MAPPED: the tokens from CONSTRUCT on.
pub(crate) fn read_mapping(cursor: &mut Cursor<'_>) -> Result<Range<usize>, ParseError> {
    cursor.expect_keyword("BY")?;
    if !cursor.is_keyword("CONSTRUCT") {
        return Err(cursor.unexpected("CONSTRUCT after MAPPED BY"));
    }
    let start = cursor.at;
    while !cursor.is_end() && !cursor.is_punctuation(";") && !cursor.is_any_keyword(&CLAUSE_WORDS) {
        skip_bracketed(cursor);
    }
    Ok(start..cursor.at)
}

/// `LETTER INTO <stream>`, with the cursor behind DEAD.
pub(crate) fn read_dead_letters(
    cursor: &mut Cursor<'_>,
    names: &Names,
) -> Result<NamedNode, ParseError> {
    cursor.expect_keyword("LETTER")?;
    cursor.expect_keyword("INTO")?;
    let token = source_token(cursor, "the IRI of the stream for dead letters")?;
    names.resolve(cursor.source, token)
}
