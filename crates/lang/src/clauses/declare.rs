//! `CREATE STREAM`, `DROP`, `PAUSE` and `RESUME`.

use crate::algebra::continuous::DerivedStream;
use crate::algebra::statement::Statement;
use crate::algebra::stream::{
    AheadLimit, Classification, CreateStream, LatePolicy, StreamMapping, StreamSource, TimeDomain,
};
use crate::clauses::documents;
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::name_clause::{name_text, name_token, source_token};
use crate::text::names::Names;
use crate::text::time_clause::{any_duration, positive_duration};
use crate::token::TokenKind;
use somersault_model::Millis;
use std::ops::Range;

const DEFAULT_BATCH: Millis = Millis(100);
const DEFAULT_IDLE: Millis = Millis(5_000);
const DEFAULT_KEEP: Millis = Millis(60_000);
const DEFAULT_BUDGET_BYTES: u64 = 256 << 20;
const CLAUSES: &str = "TIMELESS, TIMING, INTO GRAPH, BATCH, EVENT TIME, ARRIVAL TIME, TIMESTAMP, MAPPED BY, CONTEXT, DEAD LETTER INTO, LATENESS, AHEAD, IDLE, KEEP, BUDGET, INTERIOR";

/// Reads the CONSTRUCT of a mapping, which stands in these tokens.
type ReadMapping<'r> = dyn Fn(&Cursor<'_>, Range<usize>) -> Result<StreamMapping, ParseError> + 'r;

/// Reads a statement about streams or queries, but not REGISTER; the cursor stands on its first
/// word.
pub(crate) fn read_statement(
    cursor: &mut Cursor<'_>,
    names: &Names,
    read_mapping: &ReadMapping<'_>,
) -> Result<Statement, ParseError> {
    let statement = if cursor.take_keyword("CREATE") {
        if !cursor.take_keyword("STREAM") {
            return Err(
                cursor.unexpected("STREAM, PROCEDURE, DATAFLOW, SOURCE or SINK after CREATE")
            );
        }
        Statement::CreateStream(read_create(cursor, names, read_mapping)?)
    } else if cursor.take_keyword("DROP") {
        if cursor.take_keyword("STREAM") {
            let token = source_token(cursor, "the IRI of a stream")?;
            Statement::DropStream(names.resolve(cursor.source, token)?)
        } else if cursor.take_keyword("QUERY") {
            Statement::DropQuery(read_query_name(cursor, names)?)
        } else {
            return Err(
                cursor.unexpected("STREAM, QUERY, PROCEDURE, DATAFLOW, SOURCE or SINK after DROP")
            );
        }
    } else if cursor.take_keyword("PAUSE") {
        cursor.expect_keyword("QUERY")?;
        Statement::PauseQuery(read_query_name(cursor, names)?)
    } else if cursor.take_keyword("RESUME") {
        cursor.expect_keyword("QUERY")?;
        Statement::ResumeQuery(read_query_name(cursor, names)?)
    } else {
        return Err(cursor.unexpected(
            "CREATE STREAM, PROCEDURE, DATAFLOW, SOURCE or SINK, DROP, PAUSE, RESUME, REGISTER or CALL",
        ));
    };
    end_of_statement(cursor)?;
    Ok(statement)
}

/// The end of a statement, with or without `;`.
pub(crate) fn end_of_statement(cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
    cursor.take_punctuation(";");
    match cursor.is_end() {
        true => Ok(()),
        false => Err(cursor.unexpected("the end of the statement")),
    }
}

fn read_query_name(cursor: &mut Cursor<'_>, names: &Names) -> Result<String, ParseError> {
    let token = name_token(cursor, "the name of a query")?;
    name_text(cursor.source, token, names)
}

/// The clauses of a CREATE STREAM that were given.
#[derive(Debug, Default)]
pub(crate) struct Clauses {
    /// The clauses so far, with their places.
    seen: Vec<(&'static str, usize)>,
    is_interior: bool,
    timestamp: Option<Vec<oxrdf::NamedNode>>,
    /// The tokens of its CONSTRUCT.
    mapping: Option<Range<usize>>,
    context: Option<oxrdf::NamedNode>,
    dead_letters: Option<oxrdf::NamedNode>,
    classification: Option<Classification>,
    into: Option<oxrdf::NamedNode>,
    batch: Option<Millis>,
    time: Option<TimeDomain>,
    lateness: Option<Millis>,
    late_policy: Option<LateClause>,
    ahead: Option<AheadLimit>,
    idle: Option<Option<Millis>>,
    keep: Option<Millis>,
    budget_bytes: Option<u64>,
}

#[derive(Debug)]
enum LateClause {
    Reject,
    Drop,
    Amend(Option<Millis>),
}

fn read_create(
    cursor: &mut Cursor<'_>,
    names: &Names,
    read_mapping: &ReadMapping<'_>,
) -> Result<CreateStream, ParseError> {
    let token = source_token(cursor, "the IRI of the new stream")?;
    let iri = names.resolve(cursor.source, token)?;
    let mut clauses = Clauses::default();
    while !cursor.is_end() && !cursor.is_punctuation(";") {
        clauses.read(cursor, names)?;
    }
    clauses.check(cursor.source, &iri)?;
    let mapping = clauses.mapping.map(|tokens| read_mapping(cursor, tokens));
    let mapping = mapping.transpose()?;
    let keep = clauses.keep.unwrap_or(DEFAULT_KEEP);
    Ok(CreateStream {
        iri,
        source: match clauses.is_interior {
            true => StreamSource::Interior,
            false => StreamSource::Outside,
        },
        classification: clauses.classification.unwrap_or(Classification::TimingAll),
        into: clauses.into,
        batch: clauses.batch.unwrap_or(DEFAULT_BATCH),
        time: clauses.time.unwrap_or(TimeDomain::Event),
        timestamp: clauses.timestamp,
        context: clauses.context,
        mapping,
        dead_letters: clauses.dead_letters,
        lateness: clauses.lateness.unwrap_or_default(),
        late_policy: match clauses.late_policy {
            None | Some(LateClause::Reject) => LatePolicy::Reject,
            Some(LateClause::Drop) => LatePolicy::Drop,
            Some(LateClause::Amend(within)) => LatePolicy::Amend {
                within: within.unwrap_or(keep),
            },
        },
        ahead: clauses.ahead.unwrap_or(AheadLimit::Default),
        idle: clauses.idle.unwrap_or(Some(DEFAULT_IDLE)),
        keep,
        budget_bytes: clauses.budget_bytes.unwrap_or(DEFAULT_BUDGET_BYTES),
        text: cursor.source.to_owned(),
    })
}

impl Clauses {
    fn read(&mut self, cursor: &mut Cursor<'_>, names: &Names) -> Result<(), ParseError> {
        let offset = cursor.offset();
        if cursor.take_keyword("TIMELESS") {
            self.once(cursor, offset, "TIMELESS or TIMING")?;
            self.classification = Some(Classification::Timeless);
        } else if cursor.take_keyword("TIMING") {
            self.once(cursor, offset, "TIMELESS or TIMING")?;
            self.classification = Some(read_timing(cursor, names)?);
        } else if cursor.take_keyword("INTO") {
            self.once(cursor, offset, "INTO GRAPH")?;
            cursor.expect_keyword("GRAPH")?;
            let token = source_token(cursor, "the IRI of a graph")?;
            self.into = Some(names.resolve(cursor.source, token)?);
        } else if cursor.take_keyword("BATCH") {
            self.once(cursor, offset, "BATCH")?;
            self.batch = Some(positive_duration(cursor, "BATCH")?);
        } else if cursor.is_any_keyword(&["EVENT", "ARRIVAL"]) {
            self.once(cursor, offset, "EVENT TIME or ARRIVAL TIME")?;
            self.time = Some(read_time_domain(cursor)?);
        } else if cursor.take_keyword("LATENESS") {
            self.once(cursor, offset, "LATENESS")?;
            self.lateness = Some(any_duration(cursor, "LATENESS")?);
            if cursor.take_keyword("LATE") {
                self.late_policy = Some(read_late(cursor)?);
            }
        } else if cursor.take_keyword("AHEAD") {
            self.once(cursor, offset, "AHEAD")?;
            self.ahead = Some(match cursor.take_keyword("ANY") {
                true => AheadLimit::Any,
                false => AheadLimit::Within(any_duration(cursor, "AHEAD")?),
            });
        } else if cursor.take_keyword("IDLE") {
            self.once(cursor, offset, "IDLE")?;
            let never = cursor.take_keyword("NEVER");
            self.idle = Some(if never {
                None
            } else {
                Some(positive_duration(cursor, "IDLE")?)
            });
        } else if cursor.take_keyword("KEEP") {
            self.once(cursor, offset, "KEEP")?;
            self.keep = Some(any_duration(cursor, "KEEP")?);
        } else if cursor.take_keyword("BUDGET") {
            self.once(cursor, offset, "BUDGET")?;
            self.budget_bytes = Some(read_bytes(cursor)?);
        } else if self.read_of_messages(cursor, names)? {
            return Ok(());
        } else if cursor.is_keyword("LATE") {
            return Err(ParseError::syntax(
                cursor.source,
                offset,
                "LATE belongs to LATENESS; write LATENESS 0s LATE REJECT, DROP or AMEND",
            ));
        } else {
            return Err(cursor.unexpected(&format!("one of {CLAUSES} or the end")));
        }
        Ok(())
    }

    /// Reads one of the clauses that say where messages come from and what they are made of, if one
    /// stands here.
    fn read_of_messages(
        &mut self,
        cursor: &mut Cursor<'_>,
        names: &Names,
    ) -> Result<bool, ParseError> {
        let offset = cursor.offset();
        if cursor.take_keyword("TIMESTAMP") {
            self.once(cursor, offset, "TIMESTAMP")?;
            self.timestamp = Some(read_path(cursor, names)?);
        } else if cursor.take_keyword("MAPPED") {
            self.once(cursor, offset, "MAPPED BY")?;
            self.mapping = Some(documents::read_mapping(cursor)?);
        } else if cursor.take_keyword("CONTEXT") {
            self.once(cursor, offset, "CONTEXT")?;
            let token = source_token(cursor, "the URL of a JSON-LD context")?;
            self.context = Some(names.resolve(cursor.source, token)?);
        } else if cursor.take_keyword("DEAD") {
            self.once(cursor, offset, "DEAD LETTER INTO")?;
            self.dead_letters = Some(documents::read_dead_letters(cursor, names)?);
        } else if cursor.take_keyword("INTERIOR") {
            self.once(cursor, offset, "INTERIOR")?;
            self.is_interior = true;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads one of the clauses that a derived stream may have too, if one stands here; refuses the
    /// others.
    pub(crate) fn read_derived(
        &mut self,
        cursor: &mut Cursor<'_>,
        names: &Names,
    ) -> Result<bool, ParseError> {
        const GIVEN: [&str; 8] = [
            "BATCH",
            "EVENT",
            "ARRIVAL",
            "TIMESTAMP",
            "LATENESS",
            "LATE",
            "AHEAD",
            "IDLE",
        ];
        if cursor.is_any_keyword(&GIVEN) {
            return Err(ParseError::semantics(
                cursor.source,
                cursor.offset(),
                "the time and the batches of a derived stream follow from its query's closes; of the clauses of CREATE STREAM it has only \
                 TIMELESS, TIMING, INTO GRAPH, KEEP and BUDGET",
            ));
        }
        let has = cursor.is_any_keyword(&["TIMELESS", "TIMING", "INTO", "KEEP", "BUDGET"]);
        if has {
            self.read(cursor, names)?;
        }
        Ok(has)
    }

    /// The stream that a query derives with these clauses.
    pub(crate) fn derived(&self, iri: oxrdf::NamedNode) -> DerivedStream {
        let classification = self.classification.clone();
        DerivedStream {
            iri,
            classification: classification.unwrap_or(Classification::TimingAll),
            into: self.into.clone(),
            keep: self.keep.unwrap_or(DEFAULT_KEEP),
            budget_bytes: self.budget_bytes.unwrap_or(DEFAULT_BUDGET_BYTES),
        }
    }

    /// Checks the clauses against each other.
    fn check(&self, source: &str, iri: &oxrdf::NamedNode) -> Result<(), ParseError> {
        const OF_PUSHES: [&str; 8] = [
            "EVENT TIME or ARRIVAL TIME",
            "LATENESS",
            "AHEAD",
            "IDLE",
            "TIMESTAMP",
            "MAPPED BY",
            "CONTEXT",
            "DEAD LETTER INTO",
        ];
        if self.is_interior
            && let Some((clause, offset)) = self
                .seen
                .iter()
                .find(|(clause, _)| OF_PUSHES.contains(clause))
        {
            let message = format!(
                "an interior stream has the times of the batches that lead to its messages, and so no {clause}; take it or INTERIOR away"
            );
            return Err(ParseError::semantics(source, *offset, message));
        }
        self.check_documents(source, iri)?;
        let timestamp = self.seen.iter().find(|(clause, _)| *clause == "TIMESTAMP");
        match (self.time, timestamp) {
            (Some(TimeDomain::Arrival), Some((_, offset))) => Err(ParseError::semantics(
                source,
                *offset,
                "TIMESTAMP takes times from the data and ARRIVAL TIME takes them from the clock; take one of the two away",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that one clause says what documents mean, and that dead letters can come about, and
    /// go to another stream.
    fn check_documents(&self, source: &str, iri: &oxrdf::NamedNode) -> Result<(), ParseError> {
        let refuse = |clause: &str, message: &str| {
            let seen = self.seen.iter().find(|(seen, _)| *seen == clause);
            let offset = seen.map_or(0, |(_, offset)| *offset);
            Err(ParseError::semantics(source, offset, message))
        };
        match (&self.mapping, &self.context, &self.dead_letters) {
            (Some(_), Some(_), _) => refuse(
                "CONTEXT",
                "CONTEXT and MAPPED BY both say what a JSON document means; take one of the two away",
            ),
            (None, None, Some(_)) => refuse(
                "DEAD LETTER INTO",
                "dead letters are documents that make no message, and only MAPPED BY and CONTEXT read documents; add one, or take DEAD LETTER INTO away",
            ),
            (_, _, Some(stream)) if stream == iri => refuse(
                "DEAD LETTER INTO",
                "the dead letters of a stream cannot go into the stream itself; name another one",
            ),
            _ => Ok(()),
        }
    }

    /// Refuses a second clause of one sort.
    fn once(
        &mut self,
        cursor: &Cursor<'_>,
        offset: usize,
        clause: &'static str,
    ) -> Result<(), ParseError> {
        if self.seen.iter().any(|(seen, _)| *seen == clause) {
            return Err(ParseError::semantics(
                cursor.source,
                offset,
                format!("{clause} is given a second time here; give it once"),
            ));
        }
        self.seen.push((clause, offset));
        Ok(())
    }
}

/// `EVENT TIME` or `ARRIVAL TIME`; the cursor stands on its first word.
fn read_time_domain(cursor: &mut Cursor<'_>) -> Result<TimeDomain, ParseError> {
    let domain = match cursor.is_keyword("EVENT") {
        true => TimeDomain::Event,
        false => TimeDomain::Arrival,
    };
    cursor.bump();
    cursor.expect_keyword("TIME")?;
    Ok(domain)
}

/// `<p>[/<q>…]`
fn read_path(cursor: &mut Cursor<'_>, names: &Names) -> Result<Vec<oxrdf::NamedNode>, ParseError> {
    let mut path = Vec::new();
    loop {
        let token = source_token(cursor, "the IRI of a predicate")?;
        path.push(names.resolve(cursor.source, token)?);
        if !cursor.take_punctuation("/") {
            return Ok(path);
        }
    }
}

fn read_timing(cursor: &mut Cursor<'_>, names: &Names) -> Result<Classification, ParseError> {
    if cursor.take_keyword("ALL") {
        return Ok(Classification::TimingAll);
    }
    if !cursor.take_punctuation("(") {
        return Err(cursor.unexpected("ALL or a list of predicates in parentheses after TIMING"));
    }
    let mut predicates = Vec::new();
    while !cursor.take_punctuation(")") {
        let token = source_token(cursor, "the IRI of a predicate or `)`")?;
        let predicate = names.resolve(cursor.source, token)?;
        if !predicates.contains(&predicate) {
            predicates.push(predicate);
        }
        cursor.take_punctuation(",");
    }
    if predicates.is_empty() {
        return Err(ParseError::semantics(
            cursor.source,
            cursor.tokens[cursor.at - 1].start,
            "TIMING () names no predicate; name at least one, or write TIMELESS",
        ));
    }
    Ok(Classification::Timing(predicates))
}

fn read_late(cursor: &mut Cursor<'_>) -> Result<LateClause, ParseError> {
    if cursor.take_keyword("REJECT") {
        return Ok(LateClause::Reject);
    }
    if cursor.take_keyword("DROP") {
        return Ok(LateClause::Drop);
    }
    if cursor.take_keyword("AMEND") {
        let within = if cursor.take_keyword("WITHIN") {
            Some(positive_duration(cursor, "WITHIN")?)
        } else {
            None
        };
        return Ok(LateClause::Amend(within));
    }
    Err(cursor.unexpected("REJECT, DROP or AMEND after LATE"))
}

/// `268435456`, `256 MiB`, `1GB`.
fn read_bytes(cursor: &mut Cursor<'_>) -> Result<u64, ParseError> {
    const EXPECTED: &str = "a number of bytes above 0, such as 256 MiB,";
    let at_number = *cursor;
    let mut text = match cursor.peek_kind() {
        Some(TokenKind::Integer | TokenKind::Duration) => cursor.peek_text().to_owned(),
        _ => return Err(cursor.unexpected(EXPECTED)),
    };
    let has_unit = cursor.peek_kind() == Some(TokenKind::Duration);
    cursor.bump();
    if !has_unit && cursor.is_any_keyword(&["B", "KB", "KiB", "MB", "MiB", "GB", "GiB"]) {
        text.push_str(cursor.peek_text());
        cursor.bump();
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let scale: Option<u64> = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => Some(1),
        "kb" => Some(1_000),
        "kib" => Some(1 << 10),
        "mb" => Some(1_000_000),
        "mib" => Some(1 << 20),
        "gb" => Some(1_000_000_000),
        "gib" => Some(1 << 30),
        _ => None,
    };
    let bytes = text[..digits]
        .parse::<u64>()
        .ok()
        .zip(scale)
        .and_then(|(number, scale)| number.checked_mul(scale));
    bytes
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| at_number.unexpected(EXPECTED))
}
