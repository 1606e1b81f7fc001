//! Streaming transactions: CREATE PROCEDURE, CREATE DATAFLOW, the statements that name one, CALL.
//!
//! What one text says is checked here. Whether the streams are there, and whether procedures fit
//! together, only the engine knows.

mod native;
mod part;
mod scope;
mod steps;

use crate::algebra::procedure::{Call, CreateProcedure, Trigger, TriggerEvent, emitted};
use crate::algebra::statement::Statement;
use crate::algebra::{Pattern, VarId};
use crate::clauses::dataflow::{read_dataflow, read_name, read_named};
use crate::clauses::declare::end_of_statement;
use crate::clauses::procedure::{ProcedureHeader, refuse};
use crate::parser::Parser;
use crate::parser::standalone::Standalone;
use crate::text::brackets::{check_brackets, skip_bracketed};
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::name_clause::source_token;
use crate::text::names::Names;
use crate::token::{Token, TokenKind};
use oxrdf::{NamedNode, Term};
use std::ops::Range;
use steps::StepReader;

/// The greatest number of arguments of a call.
const MOST_ARGUMENTS: usize = 1_000;

/// Reads a statement of streaming transactions, if one stands at the cursor.
pub(super) fn read_statement<'t>(
    parser: &Parser,
    cursor: &mut Cursor<'t>,
    names: &'t Names,
) -> Result<Option<Statement>, ParseError> {
    let replaces = cursor.is_keyword("CREATE")
        && cursor.is_keyword_at(1, "OR")
        && cursor.is_keyword_at(2, "REPLACE");
    let is_created = |what: &str| {
        let ahead = if replaces { 3 } else { 1 };
        cursor.is_keyword("CREATE") && cursor.is_keyword_at(ahead, what)
    };
    let (procedure, dataflow) = (is_created("PROCEDURE"), is_created("DATAFLOW"));
    let statement = if procedure || dataflow {
        check_brackets(cursor)?;
        cursor.at += if replaces { 4 } else { 2 };
        match procedure {
            true => read_procedure(parser, cursor, names, replaces)
                .map(|made| Statement::CreateProcedure(Box::new(made)))?,
            false => read_dataflow(cursor, names, replaces).map(Statement::CreateDataflow)?,
        }
    } else if replaces {
        cursor.at += 3;
        return Err(
            cursor.unexpected("PROCEDURE, DATAFLOW, SOURCE or SINK after CREATE OR REPLACE")
        );
    } else if cursor.is_keyword("CALL") {
        check_brackets(cursor)?;
        Statement::Call(read_call(parser, cursor, names)?)
    } else {
        match read_named(cursor, names)? {
            Some(statement) => statement,
            None => return Ok(None),
        }
    };
    end_of_statement(cursor)?;
    Ok(Some(statement))
}

fn read_procedure<'t>(
    parser: &Parser,
    cursor: &mut Cursor<'t>,
    names: &'t Names,
    or_replace: bool,
) -> Result<CreateProcedure, ParseError> {
    let (_, name) = read_name(cursor, names, "the name of the procedure")?;
    let parameters = cursor.at;
    let mut header = ProcedureHeader::default();
    header.read_parameters(cursor, names)?;
    let parameters = parameters..cursor.at;
    let triggers = read_clauses(cursor, names, &mut header)?;
    let mut reader = StepReader::new(parser, cursor, names, &header);
    for token in &cursor.tokens[parameters] {
        if token.kind == TokenKind::Variable {
            reader.scope.declare(cursor.source, *token)?;
        }
    }
    let native = native::read_body(cursor, &header, &triggers)?;
    let steps = match native {
        Some(_) => Vec::new(),
        None => reader.block(cursor)?,
    };
    let mut read = Vec::with_capacity(triggers.len());
    for trigger in &triggers {
        let emitted = match &trigger.event {
            TriggerEvent::Into(stream) => Some(stream),
            TriggerEvent::Slides(_) => None,
        };
        let mut cursor = Cursor {
            at: trigger.block,
            ..*cursor
        };
        read.push(Trigger {
            event: trigger.event.clone(),
            steps: reader.trigger_block(&mut cursor, emitted)?,
        });
    }
    let slots = reader.scope.into_slots();
    let procedure = CreateProcedure {
        name,
        or_replace,
        parameters: header.parameters,
        consumes: header.consumes,
        windows: header.windows,
        triggers: read,
        steps,
        native,
        slots,
        text: cursor.source.to_owned(),
        namespace: names.default_namespace().map(str::to_owned),
    };
    check_triggers(cursor.source, &procedure, &triggers)?;
    Ok(procedure)
}

/// A trigger whose steps are not read yet.
struct TriggerClause {
    event: TriggerEvent,
    /// The place of its window or stream.
    offset: usize,
    /// The token that opens its block.
    block: usize,
}

/// The clauses between the parameters and AS; the cursor stands behind AS then.
fn read_clauses(
    cursor: &mut Cursor<'_>,
    names: &Names,
    header: &mut ProcedureHeader,
) -> Result<Vec<TriggerClause>, ParseError> {
    let mut triggers = Vec::new();
    let mut windowed = Vec::new();
    loop {
        if cursor.take_keyword("ON") {
            header.read_consumed(cursor, names)?;
        } else if cursor.take_keyword("OWNS") {
            windowed.push(header.read_window(cursor, names)?);
        } else if cursor.take_keyword("WHEN") {
            triggers.push(read_trigger(cursor, names)?);
        } else if cursor.take_keyword("EMITS") {
            header.read_emits(cursor, names)?;
        } else if cursor.take_keyword("AS") {
            break;
        } else {
            return Err(cursor.unexpected("ON STREAM, OWNS WINDOW, WHEN, EMITS INTO or AS"));
        }
    }
    for (window, offset) in header.windows.iter().zip(windowed) {
        if !header.consumes(&window.stream) {
            let message = format!(
                "the window {} is on {stream}, which the procedure does not consume; add ON STREAM {stream} BATCH 1 MESSAGE",
                window.name,
                stream = window.stream
            );
            return refuse(cursor.source, offset, message);
        }
    }
    for trigger in &triggers {
        if let TriggerEvent::Slides(window) = &trigger.event
            && !header.owns(window)
        {
            let message = format!(
                "the procedure owns no window {window}; add OWNS WINDOW {window} ON <stream> [LAST 10 MESSAGES], or take the trigger away"
            );
            return refuse(cursor.source, trigger.offset, message);
        }
    }
    Ok(triggers)
}

/// `iri SLIDES { … }` or `INTO iri { … }`, with the cursor behind WHEN. The block is passed over.
fn read_trigger(cursor: &mut Cursor<'_>, names: &Names) -> Result<TriggerClause, ParseError> {
    let is_into = cursor.take_keyword("INTO");
    let offset = cursor.offset();
    let expected = match is_into {
        true => "the IRI of a stream that the procedure emits into",
        false => "the name of an owned window, or INTO and the IRI of a stream,",
    };
    let token = source_token(cursor, expected)?;
    let name = names.resolve(cursor.source, token)?;
    let event = match is_into {
        true => TriggerEvent::Into(name),
        false => {
            cursor.expect_keyword("SLIDES")?;
            TriggerEvent::Slides(name)
        }
    };
    if !cursor.is_punctuation("{") {
        return Err(cursor.unexpected("the steps of the trigger in braces"));
    }
    let block = cursor.at;
    skip_bracketed(cursor);
    Ok(TriggerClause {
        event,
        offset,
        block,
    })
}

/// Refuses triggers on streams that nothing is emitted into, and triggers that would set
/// themselves off.
fn check_triggers(
    source: &str,
    procedure: &CreateProcedure,
    clauses: &[TriggerClause],
) -> Result<(), ParseError> {
    let emits = procedure.emits();
    for clause in clauses {
        let TriggerEvent::Into(stream) = &clause.event else {
            continue;
        };
        if !emits.contains(&stream) {
            let message = format!(
                "no step of this procedure emits into {stream}, so the trigger would never run; add EMIT INTO {stream}, or take the trigger away"
            );
            return refuse(source, clause.offset, message);
        }
        if let Some(way) = way_back(procedure, stream) {
            let way: Vec<String> = way.iter().map(ToString::to_string).collect();
            let message = format!(
                "the triggers set each other off without end: {}; take one of the EMIT steps away",
                way.join(", ")
            );
            return refuse(source, clause.offset, message);
        }
    }
    Ok(())
}

/// The streams on a way from the triggers on a stream back to it.
fn way_back<'p>(
    procedure: &'p CreateProcedure,
    start: &'p NamedNode,
) -> Option<Vec<&'p NamedNode>> {
    let mut seen: Vec<&NamedNode> = Vec::new();
    let mut ways = vec![vec![start]];
    while let Some(way) = ways.pop() {
        let last = *way.last().expect("a way has a beginning");
        let of_last = (procedure.triggers.iter())
            .filter(|trigger| trigger.event == TriggerEvent::Into(last.clone()));
        for next in emitted(of_last.map(|trigger| &trigger.steps)) {
            let mut longer = way.clone();
            longer.push(next);
            if next == start {
                return Some(longer);
            }
            if !seen.contains(&next) {
                seen.push(next);
                ways.push(longer);
            }
        }
    }
    None
}

/// `CALL name ( term {, term} )`, with the cursor at CALL.
fn read_call(parser: &Parser, cursor: &mut Cursor<'_>, names: &Names) -> Result<Call, ParseError> {
    cursor.bump();
    let (_, procedure) = read_name(cursor, names, "the name of a procedure")?;
    cursor.expect_punctuation("(")?;
    let mut arguments = Vec::new();
    if !cursor.take_punctuation(")") {
        loop {
            if arguments.len() == MOST_ARGUMENTS {
                let message = format!("a call has at most {MOST_ARGUMENTS} arguments");
                return refuse(cursor.source, cursor.offset(), message);
            }
            arguments.push(read_argument(parser, cursor, names)?);
            if cursor.take_punctuation(")") {
                break;
            }
            cursor.expect_punctuation(",")?;
        }
    }
    Ok(Call {
        procedure,
        arguments,
        text: cursor.source.to_owned(),
    })
}

/// A term, up to `,` or `)`.
fn read_argument(
    parser: &Parser,
    cursor: &mut Cursor<'_>,
    names: &Names,
) -> Result<Term, ParseError> {
    const EXPECTED: &str = "an argument: an IRI or a literal";
    let start = cursor.at;
    while !cursor.is_punctuation(",") && !cursor.is_punctuation(")") {
        skip_bracketed(cursor);
    }
    let tokens = argument_tokens(cursor, start..cursor.at, EXPECTED)?;
    let mut part = Standalone::with_declarations(cursor.source, tokens, names);
    let bytes = tokens[0].start..tokens[tokens.len() - 1].end;
    part.insert("SELECT * WHERE { VALUES (?x) { (", bytes.start);
    part.copy(cursor.source, bytes.clone());
    part.insert(") } }", bytes.end);
    let alone = Parser {
        base: None,
        is_quick: false,
        ..parser.clone()
    };
    let query =
        (alone.parse_query(part.text())).map_err(|error| part.error_in(cursor.source, error))?;
    match only_value(&query.pattern) {
        Some(term) => Ok(term.clone()),
        None => refuse(
            cursor.source,
            bytes.start,
            format!(
                "an argument has a value; write {}",
                &EXPECTED["an argument: ".len()..]
            ),
        ),
    }
}

/// The tokens of an argument. What cannot begin one term is refused here.
fn argument_tokens<'t>(
    cursor: &Cursor<'t>,
    tokens: Range<usize>,
    expected: &str,
) -> Result<&'t [Token], ParseError> {
    let at_start = Cursor {
        at: tokens.start,
        ..*cursor
    };
    let begins_term = match at_start.peek_kind() {
        Some(TokenKind::Punctuation) => ["-", "+", "<<"]
            .iter()
            .any(|sign| at_start.is_punctuation(sign)),
        Some(TokenKind::Variable | TokenKind::BlankLabel | TokenKind::Bad(_)) | None => false,
        Some(_) => true,
    };
    match begins_term {
        true => Ok(&cursor.tokens[tokens]),
        false => Err(at_start.unexpected(expected)),
    }
}

/// The one value of the one VALUES of a pattern; `None` for UNDEF and where there are more.
fn only_value(pattern: &Pattern) -> Option<&Term> {
    match pattern {
        Pattern::Values { variables, rows } => match (variables.as_slice(), rows.as_slice()) {
            ([VarId(_)], [row]) => row.first()?.as_ref(),
            _ => None,
        },
        other => match other.inner_patterns().as_slice() {
            [inner] => only_value(inner),
            _ => None,
        },
    }
}
