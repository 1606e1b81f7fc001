//! Bounds the size to which the entities of an RDF/XML body expand. An entity may stand for many
//! copies of another, so a body of a few hundred bytes can stand for gigabytes, which the parser
//! would expand in one piece.

use crate::http::error::{ApiError, ApiResult};
use std::collections::HashMap;

/// Bytes that entities may expand to, per byte of the body. In OWL files, whose entities are names
/// of namespaces, the factor is ten.
const BYTES_PER_BYTE: u64 = 16;
/// Bytes that entities may expand to in any body.
const ALWAYS: u64 = 64 << 10;
/// Longest name of an entity that is looked for; longer ones are left to the parser.
const LONGEST_NAME: usize = 256;

/// Checks a body before it is parsed.
///
/// # Errors
/// 400 with the position of the entity that exceeds the bound.
pub(crate) fn check(bytes: &[u8]) -> ApiResult<()> {
    let Some(open) = find(bytes, 0, b"<!DOCTYPE") else {
        return Ok(());
    };
    let most = ALWAYS + BYTES_PER_BYTE * bytes.len() as u64;
    let mut made = 0_u64;
    let mut lengths: HashMap<&[u8], u64> = HashMap::new();
    let mut at = open;
    let mut declared_to = open;
    // An entity is declared before it is used. A reference to an undeclared one is left for the
    // parser to refuse.
    while let Some(start) = find(bytes, at, b"<!ENTITY") {
        let Some((name, value, end)) = declaration(bytes, start + b"<!ENTITY".len()) else {
            at = start + 1;
            continue;
        };
        let length = expanded(value, &lengths).saturating_add(value.len() as u64);
        made = made.saturating_add(length);
        if made > most {
            return Err(too_much(bytes, start, most));
        }
        // The first declaration of a name counts (XML 1.0, section 4.2).
        lengths.entry(name).or_insert(length);
        at = end;
        declared_to = end;
    }
    if lengths.is_empty() {
        return Ok(());
    }
    let rest = &bytes[declared_to..];
    for (at, name) in references(rest) {
        made = made.saturating_add(lengths.get(name).copied().unwrap_or(0));
        if made > most {
            return Err(too_much(bytes, declared_to + at, most));
        }
    }
    Ok(())
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let found = memchr::memmem::find(bytes.get(from..)?, what)?;
    Some(from + found)
}

/// Parses `name "value"` behind `<!ENTITY`. Returns the name, the value, and the position after the
/// value.
fn declaration(bytes: &[u8], from: usize) -> Option<(&[u8], &[u8], usize)> {
    let blank = |at: usize| {
        let length = bytes
            .get(at..)?
            .iter()
            .position(|b| !b.is_ascii_whitespace());
        length.map(|length| at + length)
    };
    let start = blank(from)?;
    let length = bytes[start..].iter().position(u8::is_ascii_whitespace)?;
    let name = &bytes[start..start + length];
    let open = blank(start + length)?;
    let quote = bytes[open];
    if !matches!(quote, b'"' | b'\'') {
        return None;
    }
    let length = memchr::memchr(quote, &bytes[open + 1..])?;
    let end = open + 1 + length;
    Some((name, &bytes[open + 1..end], end + 1))
}

/// Returns the names between `&` and `;`, with their positions.
fn references(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    memchr::memchr_iter(b'&', bytes).filter_map(|at| {
        let length = bytes[at..]
            .iter()
            .take(LONGEST_NAME)
            .position(|byte| *byte == b';')?;
        Some((at, &bytes[at + 1..at + length]))
    })
}

/// Returns the number of bytes to which the entities in a value expand.
fn expanded(value: &[u8], lengths: &HashMap<&[u8], u64>) -> u64 {
    references(value)
        .filter_map(|(_, name)| lengths.get(name))
        .fold(0, |sum, length| sum.saturating_add(*length))
}

fn too_much(bytes: &[u8], at: usize, most: u64) -> ApiError {
    let (line, column) = crate::http::text::place(&bytes[..at]);
    ApiError::bad_request(
        "too_many_entities",
        format!(
            "line {line}, column {column} of the data: the entities of the document make more than {most} bytes here; \
             write what they stand for. Nothing of the body was taken."
        ),
    )
    .at(line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(entities: &str, content: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<!DOCTYPE rdf:RDF [\n{entities}]>\n<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">{content}</rdf:RDF>"
        )
    }

    /// Each entity expands to ten of the previous one.
    fn tower(levels: usize) -> String {
        let mut text = "<!ENTITY e0 \"aaaaaaaaaa\">\n".to_owned();
        for level in 1..levels {
            let ten = format!("&e{};", level - 1).repeat(10);
            text += &format!("<!ENTITY e{level} '{ten}'>\n");
        }
        text
    }

    #[test]
    fn names_of_namespaces_may_be_written_often() {
        let entities = "<!ENTITY owl \"http://www.w3.org/2002/07/owl#\">\n<!ENTITY xsd \"http://www.w3.org/2001/XMLSchema#\">\n";
        let content = "<a b=\"&owl;Class\" c=\"&xsd;string\"/>".repeat(10_000);
        assert!(check(document(entities, &content).as_bytes()).is_ok());
        assert!(check(b"").is_ok() && check(b"<a>&amp; &unknown; & </a>").is_ok());
        assert!(check(document("<!ENTITY", "&x").as_bytes()).is_ok());
        assert!(
            check(document("<!ENTITY % p SYSTEM \"x\"> <!ENTITY a b>", "&a;").as_bytes()).is_ok()
        );
    }

    #[test]
    fn deeply_nested_entities_are_refused() {
        assert!(check(document(&tower(4), "&e3;").as_bytes()).is_ok());
        let error = check(document(&tower(9), "").as_bytes()).expect_err("too much");
        assert_eq!(error.to_json()["line"], 7);
        let content = "&e3;".repeat(1000);
        let error = check(document(&tower(4), &content).as_bytes()).expect_err("too much");
        assert_eq!(error.status().as_u16(), 400);
    }
}
