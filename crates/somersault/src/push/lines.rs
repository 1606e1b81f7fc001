//! Lines of a stream, `t_ms<TAB>statement .`, read one by one with the library alone: for lines
//! that are unusual or wrong.

use super::NESTING_LIMIT;
use super::StreamStatement;
use crate::error::{EngineError, LimitKind};
use oxttl::NQuadsParser;
use somersault_model::EventTime;

const LINE: &str = "a line is the event time in milliseconds since 1970, a tab, and a statement that ends in a full stop";
/// The most characters of a wrong time that a refusal shows.
const MOST_SHOWN: usize = 40;

/// Returns the statements of a text of lines; skips empty lines and those that begin with `#`.
pub(crate) fn read(text: &[u8], limit: u64) -> Result<Vec<StreamStatement>, EngineError> {
    let mut statements = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        if statements.len() as u64 == limit {
            return Err(EngineError::Limit {
                which: LimitKind::PushStatements,
                message: format!(
                    "one push may have {limit} statements and this one has more; send it in parts, or raise the limit (push_statements)"
                ),
            });
        }
        let statement = one(line).map_err(|(column, message)| EngineError::Data {
            line: index as u64 + 1,
            column,
            message,
        })?;
        statements.push(statement);
    }
    Ok(statements)
}

/// Returns a line's statement, or the column and the reason why it has none.
fn one(line: &[u8]) -> Result<StreamStatement, (u64, String)> {
    let refused = |found: String| (1, format!("{found}; {LINE}"));
    let tab = line.iter().position(|byte| *byte == b'\t');
    let tab = tab.ok_or_else(|| refused("there is no tab".to_owned()))?;
    let time = String::from_utf8_lossy(&line[..tab]);
    let at_ms = time.parse().map_err(|_| {
        let time: String = time.chars().take(MOST_SHOWN).collect();
        refused(format!("\"{time}\" is not an event time"))
    })?;
    let (behind, statement) = (tab as u64 + 2, &line[tab + 1..]);
    if is_nested_too_deeply(statement) {
        return Err((
            behind,
            format!(
                "triple terms are nested more than {NESTING_LIMIT} deep; flatten them with rdf:reifies"
            ),
        ));
    }
    let mut quads = NQuadsParser::new().for_slice(statement);
    match (quads.next(), quads.next()) {
        (Some(Ok(quad)), None) => Ok(StreamStatement {
            at: Some(EventTime(at_ms)),
            quad,
        }),
        (Some(Err(error)), _) | (_, Some(Err(error))) => Err((
            behind + error.location().start.column,
            error.message().to_owned(),
        )),
        (None, _) => Err((behind, "there is no statement after the tab".to_owned())),
        (Some(Ok(_)), Some(Ok(_))) => Err((
            behind,
            "more than one statement on the line; put each on its own".to_owned(),
        )),
    }
}

/// Whether the triple terms of a line are nested deeper than any part of the engine accepts. The
/// parser has no limit, and dropping its result for such a line would overflow the stack.
fn is_nested_too_deeply(line: &[u8]) -> bool {
    let mut depth = 0;
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        let rest = &line[at..];
        let ends = |end: u8| {
            rest[1..]
                .iter()
                .position(|byte| *byte == end)
                .map(|length| length + 2)
        };
        at += match byte {
            b'"' => text_length(rest),
            b'<' if rest.starts_with(b"<<(") => {
                depth += 1;
                3
            }
            b')' if rest.starts_with(b")>>") => {
                depth -= 1;
                3
            }
            b'<' if !rest.starts_with(b"<<") => ends(b'>').unwrap_or(1),
            _ => 1,
        };
        if depth > NESTING_LIMIT as i64 {
            return true;
        }
    }
    false
}

/// Returns the number of bytes of a quoted text, with its quotes.
fn text_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}
