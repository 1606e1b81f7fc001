//! The clauses between the brackets of a window. Each dialect has its own forms. A form of another
//! dialect is refused with the words that say the same in this one, if there are any.

use crate::algebra::continuous::{Dialect, Extent};
use crate::clauses::options::refuse_in_window;
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::time_clause::{any_duration, at_starting, positive_duration};
use crate::token::{TokenKind, duration};
use somersault_model::Millis;
use std::fmt;

impl fmt::Display for Extent {
    /// In the words of a dialect that has such windows, without the brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Time { range, until, step } => {
                let spell = duration::spell;
                match until.0 {
                    0 => write!(f, "RANGE {}", spell(*range))?,
                    _ => {
                        let from = Millis(range.0.saturating_add(until.0));
                        write!(f, "FROM NOW-{} TO NOW-{}", spell(from), spell(*until))?;
                    }
                }
                match step {
                    Some(step) => write!(f, " STEP {}", spell(*step)),
                    None => Ok(()),
                }
            }
            Extent::Now => f.write_str("NOW"),
            Extent::All => f.write_str("ALL"),
            Extent::Statements { count, step } => write!(f, "ELEMENTS {count} STEP {step}"),
        }
    }
}

/// `'[' window ']'`
pub(crate) fn read_extent(cursor: &mut Cursor<'_>, dialect: Dialect) -> Result<Extent, ParseError> {
    cursor.expect_punctuation("[")?;
    check_form(cursor, dialect)?;
    let extent = if cursor.take_keyword("NOW") {
        Extent::Now
    } else if cursor.take_keyword("ALL") {
        Extent::All
    } else if cursor.take_keyword("FROM") {
        past(cursor)?
    } else if cursor.is_any_keyword(&["ELEMENTS", "TRIPLES"]) {
        statements(cursor)?
    } else if cursor.take_keyword("RANGE") {
        match cursor.is_keyword("TRIPLES") {
            true => statements(cursor)?,
            false => span(cursor, dialect)?,
        }
    } else {
        return Err(cursor.unexpected(&expected(dialect)));
    };
    if at_starting(cursor) {
        return Err(ParseError::semantics(
            cursor.source,
            cursor.offset(),
            "STARTING AT is said once for all windows of a query; write it behind the last FROM clause, or in the REGISTER header before AS",
        ));
    }
    refuse_in_window(cursor)?;
    if !cursor.take_punctuation("]") {
        return Err(cursor.unexpected("`]` at the end of the window"));
    }
    Ok(extent)
}

/// The windows that a dialect has, for messages.
fn expected(dialect: Dialect) -> String {
    let forms = match dialect {
        Dialect::CSparql | Dialect::Paper => "or RANGE TRIPLES and a number,",
        Dialect::RspQl => "ELEMENTS and a number, or FROM NOW-… TO NOW-… STEP …,",
        Dialect::CqelsQl => "TRIPLES and a number, NOW, or ALL,",
    };
    format!("RANGE and a duration, as in [RANGE 10s STEP 1s], {forms}")
}

/// Refuses a window that only other dialects have.
fn check_form(cursor: &Cursor<'_>, dialect: Dialect) -> Result<(), ParseError> {
    let range_triples = cursor.is_keyword("RANGE") && cursor.is_keyword_at(1, "TRIPLES");
    let (form, its_dialect) = if range_triples {
        ("RANGE TRIPLES", Dialect::CSparql)
    } else if cursor.is_keyword("ELEMENTS") {
        ("ELEMENTS", Dialect::RspQl)
    } else if cursor.is_keyword("FROM") {
        ("FROM NOW-…", Dialect::RspQl)
    } else if cursor.is_keyword("TRIPLES") {
        ("TRIPLES", Dialect::CqelsQl)
    } else if cursor.is_keyword("NOW") {
        ("NOW", Dialect::CqelsQl)
    } else if cursor.is_keyword("ALL") {
        ("ALL", Dialect::CqelsQl)
    } else {
        return Ok(());
    };
    if its_dialect == dialect {
        return Ok(());
    }
    let name = match its_dialect {
        Dialect::CSparql | Dialect::Paper => "C-SPARQL",
        Dialect::RspQl => "RSP-QL (FROM NAMED WINDOW … ON …)",
        Dialect::CqelsQl => "CQELS-QL (STREAM … { … } inside WHERE)",
    };
    let counts = matches!(form, "RANGE TRIPLES" | "ELEMENTS" | "TRIPLES");
    let here = match dialect {
        Dialect::CSparql | Dialect::Paper if counts => "[RANGE TRIPLES 100 STEP 10]",
        Dialect::RspQl if counts => "[ELEMENTS 100 STEP 10]",
        Dialect::CqelsQl if counts => "[TRIPLES 100]",
        _ => "[RANGE 10s STEP 1s]",
    };
    Err(ParseError::semantics(
        cursor.source,
        cursor.offset(),
        format!(
            "{form} is a window of {name}; here write {here}, or write the query in that dialect"
        ),
    ))
}

/// `dur [STEP dur | SLIDE dur | TUMBLING]`, behind RANGE. C-SPARQL requires a step.
fn span(cursor: &mut Cursor<'_>, dialect: Dialect) -> Result<Extent, ParseError> {
    let offset = cursor.offset();
    let range = positive_duration(cursor, "RANGE")?;
    let step = if cursor.take_keyword("TUMBLING") {
        Some(range)
    } else if cursor.is_any_keyword(&["STEP", "SLIDE"]) {
        let keyword = cursor.peek_text().to_ascii_uppercase();
        cursor.bump();
        Some(positive_duration(cursor, &keyword)?)
    } else if !cursor.is_punctuation("]") && !at_starting(cursor) {
        return Err(cursor.unexpected("STEP and a duration, or TUMBLING,"));
    } else if matches!(dialect, Dialect::CSparql | Dialect::Paper) {
        let range = duration::spell(range);
        return Err(ParseError::syntax(
            cursor.source,
            offset,
            format!(
                "this window says how far back it reaches but not how often it closes; write [RANGE {range} STEP 1s], or [RANGE {range} TUMBLING]"
            ),
        ));
    } else {
        None
    };
    Ok(Extent::Time {
        range,
        until: Millis(0),
        step,
    })
}

/// `NOW-dur TO NOW-dur STEP dur`, behind FROM.
fn past(cursor: &mut Cursor<'_>) -> Result<Extent, ParseError> {
    let offset = cursor.offset();
    let from = before_now(cursor, "FROM")?;
    cursor.expect_keyword("TO")?;
    let until = before_now(cursor, "TO")?;
    if from.0 <= until.0 {
        return Err(ParseError::semantics(
            cursor.source,
            offset,
            format!(
                "this window would begin at NOW-{from} and end at NOW-{until}, which is no later; the first offset must be the longer one",
                from = duration::spell(from),
                until = duration::spell(until)
            ),
        ));
    }
    if !cursor.take_keyword("STEP") {
        return Err(
            cursor.unexpected("STEP and a duration, which says how often the window closes,")
        );
    }
    Ok(Extent::Time {
        range: Millis(from.0 - until.0),
        until,
        step: Some(positive_duration(cursor, "STEP")?),
    })
}

/// `NOW-dur`: how long before the close.
fn before_now(cursor: &mut Cursor<'_>, of: &str) -> Result<Millis, ParseError> {
    if !cursor.take_keyword("NOW") {
        return Err(cursor.unexpected(&format!("NOW- and a duration after {of}, as in NOW-PT10M,")));
    }
    if !cursor.take_punctuation("-") {
        return Err(cursor.unexpected("`-` and a duration after NOW, as in NOW-PT10M,"));
    }
    any_duration(cursor, &format!("the offset of {of}"))
}

/// `(ELEMENTS | TRIPLES) n [STEP n]`
fn statements(cursor: &mut Cursor<'_>) -> Result<Extent, ParseError> {
    let keyword = cursor.peek_text().to_ascii_uppercase();
    cursor.bump();
    let count = number(cursor, &keyword)?;
    let step = match cursor.take_keyword("STEP") {
        true => number(cursor, "STEP")?,
        false => 1,
    };
    Ok(Extent::Statements { count, step })
}

/// A number of statements, at least 1.
fn number(cursor: &mut Cursor<'_>, of: &str) -> Result<u64, ParseError> {
    /// No memory holds more.
    const MOST: u64 = 1 << 32;
    let offset = cursor.offset();
    if cursor.peek_kind() != Some(TokenKind::Integer) {
        return Err(cursor.unexpected(&format!("a number of statements after {of}, such as 100,")));
    }
    let number = cursor.peek_text().parse().ok();
    cursor.bump();
    number
        .filter(|number| (1..=MOST).contains(number))
        .ok_or_else(|| {
            ParseError::semantics(
                cursor.source,
                offset,
                format!("{of} must be a number of statements from 1 to {MOST}"),
            )
        })
}
