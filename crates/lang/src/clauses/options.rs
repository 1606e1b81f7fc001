//! The options of a continuous query: which of its answers are reported, what happens when it
//! cannot keep up, and which stream its answers make.
//!
//! `REPORT` and `ON OVERLOAD` may stand in the REGISTER header or behind the dataset clauses; the
//! clauses of a derived stream, which are some of those of CREATE STREAM, in the header.

use crate::algebra::Pattern;
use crate::algebra::continuous::{Overload, Report, StreamOperator};
use crate::algebra::expression::{Aggregate, AggregateFunction};
use crate::algebra::query::{Query, QueryForm};
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;

/// The options that were given.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) report: Report,
    /// The place of REPORT ON CHANGE.
    on_change_at: Option<usize>,
    pub(crate) overload: Option<(Overload, usize)>,
}

impl Options {
    /// Reads one option, if one stands here.
    pub(crate) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, ParseError> {
        let offset = cursor.offset();
        if is_report(cursor) {
            cursor.bump();
            self.read_report(cursor, offset)?;
        } else if is_overload(cursor) {
            cursor.bump();
            cursor.bump();
            if !cursor.take_keyword("SKIP") {
                return Err(cursor.unexpected("SKIP after ON OVERLOAD"));
            }
            if self.overload.is_some() {
                return Err(twice(cursor, offset, "ON OVERLOAD"));
            }
            self.overload = Some((Overload::Skip, offset));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// `REPORT` has been read: `ON CHANGE` or `NON EMPTY` follows.
    fn read_report(&mut self, cursor: &mut Cursor<'_>, offset: usize) -> Result<(), ParseError> {
        if cursor.take_keyword("ON") {
            cursor.expect_keyword("CHANGE")?;
            self.report.on_change = true;
            if self.on_change_at.replace(offset).is_some() {
                return Err(twice(cursor, offset, "REPORT ON CHANGE"));
            }
        } else {
            cursor.expect_keyword("NON")?;
            cursor.expect_keyword("EMPTY")?;
            if std::mem::replace(&mut self.report.non_empty, true) {
                return Err(twice(cursor, offset, "REPORT NON EMPTY"));
            }
        }
        Ok(())
    }
}

fn twice(cursor: &Cursor<'_>, offset: usize, what: &str) -> ParseError {
    let message = format!("{what} is given a second time here; give it once");
    ParseError::semantics(cursor.source, offset, message)
}

fn is_report(cursor: &Cursor<'_>) -> bool {
    cursor.is_keyword("REPORT") && (cursor.is_keyword_at(1, "ON") || cursor.is_keyword_at(1, "NON"))
}

fn is_overload(cursor: &Cursor<'_>) -> bool {
    cursor.is_keyword("ON") && cursor.is_keyword_at(1, "OVERLOAD")
}

/// Refuses options inside a window: they hold for the whole query.
pub(crate) fn refuse_in_window(cursor: &Cursor<'_>) -> Result<(), ParseError> {
    let what = match () {
        () if is_report(cursor) => "REPORT",
        () if is_overload(cursor) => "ON OVERLOAD",
        () => return Ok(()),
    };
    let message = format!(
        "{what} is said once for all of a query; write it behind the last FROM clause, or in the REGISTER header before AS"
    );
    Err(ParseError::semantics(
        cursor.source,
        cursor.offset(),
        message,
    ))
}

/// Refuses REPORT ON CHANGE with ISTREAM and DSTREAM, which compare already.
pub(crate) fn check_report(
    source: &str,
    operator: StreamOperator,
    options: &Options,
) -> Result<(), ParseError> {
    match options.on_change_at {
        Some(offset) if operator.compares() => Err(ParseError::semantics(
            source,
            offset,
            "ISTREAM and DSTREAM give what has changed already; write REPORT NON EMPTY, or leave it out",
        )),
        _ => Ok(()),
    }
}

/// Checks a query whose answers make a stream. It must be a CONSTRUCT whose answer follows from its
/// data alone: a firing that runs again after a crash must give the same statements.
pub(crate) fn check_derivation(
    source: &str,
    offset: usize,
    query: &Query,
    options: &Options,
) -> Result<(), ParseError> {
    if !matches!(query.form, QueryForm::Construct { .. }) {
        return Err(ParseError::semantics(
            source,
            offset,
            "a derived stream is made of statements, which only CONSTRUCT gives; write CONSTRUCT, or REGISTER QUERY",
        ));
    }
    if let Some((_, offset)) = options.overload {
        return Err(ParseError::semantics(
            source,
            offset,
            "a query that derives a stream answers every close, or the stream would have holes; leave ON OVERLOAD out",
        ));
    }
    let Some(what) = undecided(&query.pattern) else {
        return Ok(());
    };
    let remedy = match what {
        "SAMPLE" | "GROUP_CONCAT" => "use MIN, MAX or COUNT",
        _ => "add ORDER BY, or leave it out",
    };
    let message = format!(
        "{what} may give another answer to the same data, and so cannot feed a derived stream; {remedy}"
    );
    Err(ParseError::semantics(source, offset, message))
}

/// A part of a pattern whose answer is not decided by its data.
fn undecided(pattern: &Pattern) -> Option<&'static str> {
    let own = match pattern {
        Pattern::Service { .. } => return None,
        Pattern::Slice { inner, .. } if !is_ordered(inner) => {
            Some("LIMIT or OFFSET without ORDER BY")
        }
        Pattern::Group { aggregates, .. } => {
            let mut aggregates = aggregates.iter();
            aggregates.find_map(|(_, aggregate)| match aggregate {
                Aggregate::Of { function, .. } => match function {
                    AggregateFunction::Sample => Some("SAMPLE"),
                    AggregateFunction::GroupConcat { .. } => Some("GROUP_CONCAT"),
                    _ => None,
                },
                Aggregate::CountSolutions { .. } => None,
            })
        }
        _ => None,
    };
    own.or_else(|| pattern.parts().0.into_iter().find_map(undecided))
}

/// Whether ORDER BY stands right below a LIMIT.
fn is_ordered(pattern: &Pattern) -> bool {
    match pattern {
        Pattern::OrderBy { .. } => true,
        Pattern::Project { inner, .. } => is_ordered(inner),
        Pattern::Distinct(inner) | Pattern::Reduced(inner) => is_ordered(inner),
        _ => false,
    }
}
