//! CREATE DATAFLOW, and the statements that name a procedure or a dataflow alone.

use crate::algebra::procedure::{
    CreateDataflow, DataflowPart, DropProcedure, Nest, OnAbort, Recovery,
};
use crate::algebra::statement::Statement;
use crate::clauses::procedure::refuse;
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::name_clause::{name_text, name_token};
use crate::text::names::Names;
use crate::token::Token;
use std::collections::BTreeMap;

/// `DROP PROCEDURE`, `DROP DATAFLOW`, `PAUSE DATAFLOW` and `RESUME DATAFLOW`, if one of them stands
/// here.
pub(crate) fn read_named(
    cursor: &mut Cursor<'_>,
    names: &Names,
) -> Result<Option<Statement>, ParseError> {
    let is_of = |what: &str| cursor.is_keyword_at(1, what);
    let (procedure, dataflow) = (is_of("PROCEDURE"), is_of("DATAFLOW"));
    let is_drop = cursor.is_keyword("DROP");
    if is_drop && procedure {
        cursor.at += 2;
        let name = read_name(cursor, names, "the name of a procedure")?.1;
        let discard = cursor.take_keyword("DISCARD");
        let dropped = DropProcedure { name, discard };
        return Ok(Some(Statement::DropProcedure(dropped)));
    }
    let make = match () {
        () if !dataflow => return Ok(None),
        () if is_drop => Statement::DropDataflow,
        () if cursor.is_keyword("PAUSE") => Statement::PauseDataflow,
        () if cursor.is_keyword("RESUME") => Statement::ResumeDataflow,
        () => return Ok(None),
    };
    cursor.at += 2;
    let (_, name) = read_name(cursor, names, "the name of a dataflow")?;
    Ok(Some(make(name)))
}

/// A name, and where it stands.
pub(crate) fn read_name(
    cursor: &mut Cursor<'_>,
    names: &Names,
    expected: &str,
) -> Result<(Token, String), ParseError> {
    let token = name_token(cursor, expected)?;
    Ok((token, name_text(cursor.source, token, names)?))
}

/// `name { … } [RECOVERY …] [ON ABORT …]`, with the cursor behind DATAFLOW.
pub(crate) fn read_dataflow(
    cursor: &mut Cursor<'_>,
    names: &Names,
    or_replace: bool,
) -> Result<CreateDataflow, ParseError> {
    let (_, name) = read_name(cursor, names, "the name of the dataflow")?;
    let mut named = Vec::new();
    let mut parts = Vec::new();
    cursor.expect_punctuation("{")?;
    loop {
        parts.push(read_part(cursor, names, &mut named)?);
        if cursor.take_punctuation("}") {
            break;
        }
        if !cursor.take_punctuation(",") {
            return Err(cursor.unexpected("`,` or `}` behind a part of a dataflow"));
        }
    }
    let (mut recovery, mut on_abort) = (None, None);
    loop {
        let offset = cursor.offset();
        let is_second = if cursor.take_keyword("RECOVERY") {
            recovery.replace(read_recovery(cursor)?).is_some()
        } else if cursor.take_keyword("ON") {
            cursor.expect_keyword("ABORT")?;
            on_abort.replace(read_on_abort(cursor)?).is_some()
        } else {
            break;
        };
        if is_second {
            let message = "this clause is given a second time here; give it once";
            return refuse(cursor.source, offset, message);
        }
    }
    Ok(CreateDataflow {
        name,
        or_replace,
        parts,
        recovery: recovery.unwrap_or_default(),
        on_abort: on_abort.unwrap_or_default(),
        text: cursor.source.to_owned(),
        namespace: names.default_namespace().map(str::to_owned),
    })
}

fn read_recovery(cursor: &mut Cursor<'_>) -> Result<Recovery, ParseError> {
    match () {
        () if cursor.take_keyword("STRONG") => Ok(Recovery::Strong),
        () if cursor.take_keyword("WEAK") => Ok(Recovery::Weak),
        () => Err(cursor.unexpected("STRONG or WEAK after RECOVERY")),
    }
}

fn read_on_abort(cursor: &mut Cursor<'_>) -> Result<OnAbort, ParseError> {
    match () {
        () if cursor.take_keyword("SKIP") => Ok(OnAbort::Skip),
        () if cursor.take_keyword("STOP") => Ok(OnAbort::Stop),
        () => Err(cursor.unexpected("SKIP or STOP after ON ABORT")),
    }
}

fn read_part(
    cursor: &mut Cursor<'_>,
    names: &Names,
    named: &mut Vec<String>,
) -> Result<DataflowPart, ParseError> {
    if !(cursor.is_keyword("NEST") && cursor.is_punctuation_at(1, "{")) {
        let name = read_new_name(
            cursor,
            names,
            named,
            "the name of a procedure, or NEST { … },",
        )?;
        return Ok(DataflowPart::Procedure(name));
    }
    cursor.at += 2;
    let mut nest = Nest {
        procedures: Vec::new(),
        order: Vec::new(),
    };
    loop {
        let name = read_new_name(cursor, names, named, "the name of a procedure of the nest")?;
        nest.procedures.push(name);
        if cursor.take_punctuation("}") {
            break;
        }
        if !cursor.take_punctuation(",") {
            return Err(cursor.unexpected("`,` or `}` behind a procedure of a nest"));
        }
    }
    if cursor.take_keyword("ORDER") {
        cursor.expect_punctuation("(")?;
        loop {
            let start = cursor.offset();
            let before = read_member(cursor, names, &nest)?;
            cursor.expect_punctuation("<")?;
            let after = read_member(cursor, names, &nest)?;
            nest.order.push((before, after));
            if let Some(way) = cycle(&nest.order) {
                let message =
                    format!("ORDER goes round in a circle: {way}; take one of the pairs away");
                return refuse(cursor.source, start, message);
            }
            if cursor.take_punctuation(")") {
                break;
            }
            if !cursor.take_punctuation(",") {
                return Err(cursor.unexpected("`,` or `)` behind a pair of ORDER"));
            }
        }
    }
    Ok(DataflowPart::Nest(nest))
}

/// The name of a procedure that the dataflow has not named yet.
fn read_new_name(
    cursor: &mut Cursor<'_>,
    names: &Names,
    named: &mut Vec<String>,
    expected: &str,
) -> Result<String, ParseError> {
    let (token, name) = read_name(cursor, names, expected)?;
    if named.contains(&name) {
        let message = format!("the dataflow names {name} already; name each procedure once");
        return refuse(cursor.source, token.start, message);
    }
    named.push(name.clone());
    Ok(name)
}

/// The name of a procedure of a nest, in ORDER.
fn read_member(cursor: &mut Cursor<'_>, names: &Names, nest: &Nest) -> Result<String, ParseError> {
    let (token, name) = read_name(cursor, names, "the name of a procedure of the nest")?;
    if nest.procedures.contains(&name) {
        return Ok(name);
    }
    let message = format!(
        "{name} is no procedure of this nest, which has {}; ORDER puts procedures of one nest in order",
        nest.procedures.join(", ")
    );
    refuse(cursor.source, token.start, message)
}

/// A way from a procedure back to itself, in words.
fn cycle(order: &[(String, String)]) -> Option<String> {
    let (first, second) = order.last()?;
    // The pairs before had no circle, so that one goes through the last pair.
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut reached = vec![second.as_str()];
    while let Some(at) = reached.pop() {
        if at == first {
            let mut way = vec![at];
            while way[way.len() - 1] != second {
                way.push(came_from[way[way.len() - 1]]);
            }
            way.reverse();
            return Some(format!("{first} < {}", way.join(" < ")));
        }
        for (before, after) in order {
            if before == at && after != second && !came_from.contains_key(after.as_str()) {
                came_from.insert(after, before);
                reached.push(after);
            }
        }
    }
    None
}
