//! Limits how deeply the RDF in a body is nested (also how far its entities expand, `entities`, and
//! how far the terms of its contexts depend on each other, `contexts`). The parsers do not limit
//! triple terms, and do not limit JSON to a depth that a stack survives; terms are also dropped
//! recursively. Without this check a body of a few hundred kilobytes overflows a thread's stack,
//! which ends the process.

use crate::http::contexts;
use crate::http::entities;
use crate::http::error::{ApiError, ApiResult};
use oxrdfio::RdfFormat;
use somersault::QueryResultsFormat;

/// The log refuses terms that are nested deeper than this.
const TRIPLE_TERMS: usize = 64;
const JSON_LEVELS: usize = 256;
/// Bounds the parser's time, which is quadratic in the depth.
const XML_LEVELS: usize = 256;
/// Bounds the parser's time, which is quadratic in the namespaces that are declared at one place.
const NAMESPACES: usize = 4096;
/// Bounds the parser's time, which is quadratic in the attributes of an element.
const ATTRIBUTES: usize = 4096;

/// Checks a body before it is parsed.
///
/// # Errors
/// 400 with the position where the nesting exceeds the limit.
pub(crate) fn check(bytes: &[u8], format: RdfFormat) -> ApiResult<()> {
    match format {
        RdfFormat::JsonLd { .. } => json(bytes).and_then(|()| contexts::check(bytes)),
        RdfFormat::RdfXml => entities::check(bytes).and_then(|()| xml(bytes)),
        _ => triple_terms(bytes),
    }
}

/// Checks the answer of a SPARQL endpoint before it is parsed.
///
/// # Errors
/// 400 with the position where the nesting exceeds the limit.
pub(crate) fn check_results(bytes: &[u8], format: QueryResultsFormat) -> ApiResult<()> {
    match format {
        QueryResultsFormat::Json => json(bytes),
        QueryResultsFormat::Xml => xml(bytes),
        _ => triple_terms(bytes),
    }
}

fn json(bytes: &[u8]) -> ApiResult<()> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = after_string(bytes, at + 1, b"\""),
            b'{' | b'[' if depth == JSON_LEVELS => {
                return Err(too_deep(bytes, at, "objects and arrays", JSON_LEVELS));
            }
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

/// Counts start tags against end tags outside comments, CDATA, declarations and instructions, and
/// the namespaces that the open elements declare.
fn xml(bytes: &[u8]) -> ApiResult<()> {
    // For each open element, the namespaces that are declared.
    let mut open_elements: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(open) = memchr::memchr(b'<', &bytes[at..]).map(|found| at + found) {
        let rest = &bytes[open..];
        let skipped: [(&[u8], &[u8]); 3] =
            [(b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>")];
        if let Some((start, end)) = skipped.iter().find(|(start, _)| rest.starts_with(start)) {
            let length = memchr::memmem::find(&rest[start.len()..], end);
            at = length.map_or(bytes.len(), |length| {
                open + start.len() + length + end.len()
            });
            continue;
        }
        let (close, quoted) = tag_end(bytes, open + 1);
        if quoted > ATTRIBUTES {
            return Err(too_many(bytes, open, "attributes are given", ATTRIBUTES));
        }
        at = (close + 1).min(bytes.len());
        match rest.get(1) {
            Some(b'/') => {
                open_elements.pop();
                continue;
            }
            Some(b'!') => continue,
            _ => {}
        }
        let declared = memchr::memmem::find_iter(&bytes[open..close], b"xmlns").count()
            + open_elements.last().copied().unwrap_or_default();
        if declared > NAMESPACES {
            return Err(too_many(bytes, open, "namespaces are declared", NAMESPACES));
        }
        if bytes.get(close.wrapping_sub(1)) == Some(&b'/') {
            continue;
        }
        if open_elements.len() == XML_LEVELS {
            return Err(too_deep(bytes, open, "elements", XML_LEVELS));
        }
        open_elements.push(declared);
    }
    Ok(())
}

/// Returns the position of the `>` that ends a tag, skipping those in quotes, and the number of
/// quoted values.
fn tag_end(bytes: &[u8], mut at: usize) -> (usize, usize) {
    let mut quoted = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'>' => return (at, quoted),
            b'"' | b'\'' => {
                let length = memchr::memchr(*byte, &bytes[at + 1..]);
                at = length.map_or(bytes.len(), |length| at + 2 + length);
                quoted += 1;
            }
            _ => at += 1,
        }
    }
    (bytes.len(), quoted)
}

/// Checks N-Triples, Turtle and related syntaxes: counts `<<(` against `)>>` outside strings, IRIs
/// and comments. The count may be wrong after malformed text, but the parser stops there as well.
fn triple_terms(bytes: &[u8]) -> ApiResult<()> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let rest = &bytes[at..];
        match byte {
            b'#' => {
                at += rest
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .unwrap_or(rest.len())
            }
            b'\\' => at += 2,
            b'"' | b'\'' => {
                let (long, short) = (&[*byte; 3][..], &[*byte][..]);
                let quote = if rest.starts_with(long) { long } else { short };
                at = after_string(bytes, at + quote.len(), quote);
            }
            b'<' if rest.starts_with(b"<<(") => {
                if depth == TRIPLE_TERMS {
                    return Err(too_deep(bytes, at, "triple terms", TRIPLE_TERMS));
                }
                depth += 1;
                at += 3;
            }
            b'<' if rest.starts_with(b"<<") => at += 2,
            b'<' => at += 1 + iri_length(&rest[1..]),
            b')' if rest.starts_with(b")>>") => {
                depth = depth.saturating_sub(1);
                at += 3;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

/// Returns the length of an IRI up to its `>`, in bytes; 0 if there is no IRI.
fn iri_length(bytes: &[u8]) -> usize {
    let end = bytes
        .iter()
        .position(|byte| *byte <= b' ' || b"<>\"{}|^`".contains(byte));
    end.filter(|end| bytes[*end] == b'>')
        .map_or(0, |end| end + 1)
}

/// Returns the position after the closing quote.
fn after_string(bytes: &[u8], mut at: usize, quote: &[u8]) -> usize {
    while at < bytes.len() {
        if bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at..].starts_with(quote) {
            return at + quote.len();
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn too_deep(bytes: &[u8], at: usize, what: &str, limit: usize) -> ApiError {
    let (line, column) = crate::http::text::place(&bytes[..at]);
    ApiError::bad_request(
        "nested_too_deeply",
        format!("line {line}, column {column} of the data: {what} are nested more than {limit} deep here. Nothing of the body was taken."),
    )
    .at(line, column)
}

fn too_many(bytes: &[u8], at: usize, what: &str, limit: usize) -> ApiError {
    let (line, column) = crate::http::text::place(&bytes[..at]);
    ApiError::bad_request(
        "nested_too_deeply",
        format!("line {line}, column {column} of the data: more than {limit} {what} here. Nothing of the body was taken."),
    )
    .at(line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: &str = "<<( <http://e/s> <http://e/p> ";
    const JSON_LD: RdfFormat = RdfFormat::JsonLd {
        profile: oxrdfio::JsonLdProfileSet::empty(),
    };

    fn nested(depth: usize) -> String {
        format!(
            "<http://e/s> <http://e/p> {}<http://e/o>{} .\n",
            TERM.repeat(depth),
            " )>>".repeat(depth)
        )
    }

    #[test]
    fn triple_terms_up_to_the_limit() {
        let many = nested(TRIPLE_TERMS).repeat(3);
        for format in [
            RdfFormat::NTriples,
            RdfFormat::Turtle,
            RdfFormat::TriG,
            RdfFormat::NQuads,
        ] {
            assert!(check(many.as_bytes(), format).is_ok());
            let error = check(format!("\n{}", nested(TRIPLE_TERMS + 1)).as_bytes(), format)
                .expect_err("too deep");
            assert_eq!(error.to_json()["line"], 2);
        }
        assert!(check(nested(200_000).as_bytes(), RdfFormat::Turtle).is_err());
    }

    #[test]
    fn closing_marks_that_are_text_do_not_count() {
        for disguise in [
            "# )>> )>>\n",
            "\")>>\" ",
            "''' ' )>> '''",
            "<http://e/)>>",
            "\"\\\")>>\"",
            "\\\")>>",
        ] {
            let depth = TRIPLE_TERMS + 2;
            let text: String = (0..depth).map(|_| format!("{TERM}{disguise}")).collect();
            let found = check(text.as_bytes(), RdfFormat::Turtle);
            // An unescaped closing mark counts; text that only looks like one does not.
            assert_eq!(found.is_err(), disguise != "\\\")>>", "{disguise}");
        }
        let opened_in_text = format!(
            "<http://e/s> <http://e/p> \"{}\" . # {}\n",
            "<<(".repeat(100),
            "<<(".repeat(100)
        );
        assert!(check(opened_in_text.as_bytes(), RdfFormat::Turtle).is_ok());
    }

    #[test]
    fn xml_levels() {
        let levels = |n: usize| format!("{}x{}", "<a b='>'>\n".repeat(n), "</a>".repeat(n));
        assert!(check(levels(XML_LEVELS).as_bytes(), RdfFormat::RdfXml).is_ok());
        let error = check(levels(XML_LEVELS + 1).as_bytes(), RdfFormat::RdfXml);
        let error = error.expect_err("too deep");
        assert_eq!(error.to_json()["line"], XML_LEVELS + 1);
        for flat in [
            "<a/>",
            "<!-- <a> -->",
            "<![CDATA[<a>]]>",
            "<?a <a> ?>",
            "<a b=\"/\">x</a >",
            "<!X>",
        ] {
            let text = format!("<r>{}</r>", flat.repeat(1000));
            assert!(check(text.as_bytes(), RdfFormat::RdfXml).is_ok(), "{flat}");
        }
        for torn in ["<", "<a", "<a b='", "<!--", "<a><b", "</"] {
            assert!(check(torn.as_bytes(), RdfFormat::RdfXml).is_ok(), "{torn}");
        }
    }

    #[test]
    fn namespaces_of_open_elements_are_counted_together() {
        let declared = |n: usize| {
            let all: Vec<String> = (0..n)
                .map(|i| format!("xmlns:n{i}='http://e/{i}'"))
                .collect();
            all.join(" ")
        };
        let half = declared(NAMESPACES / 2);
        let nested = |more: &str| format!("<a {half}><b {half}><c {more}/></b></a>");
        assert!(check(nested("").as_bytes(), RdfFormat::RdfXml).is_ok());
        let error = check(nested("xmlns='x'").as_bytes(), RdfFormat::RdfXml);
        assert!(
            error
                .expect_err("too many")
                .message()
                .contains("namespaces")
        );
        let many = declared(NAMESPACES + 1);
        assert!(check(format!("<a {many}/>").as_bytes(), RdfFormat::RdfXml).is_err());
        let beside = format!("<a>{}</a>", format!("<b {half}></b>").repeat(5));
        assert!(check(beside.as_bytes(), RdfFormat::RdfXml).is_ok());
    }

    #[test]
    fn attributes_of_an_element_are_counted() {
        let element = |count: usize| {
            let all: Vec<String> = (0..count).map(|i| format!("a{i}='>'")).collect();
            format!("<r><a {}/><b c=\"d\"/></r>", all.join(" "))
        };
        assert!(check(element(ATTRIBUTES).as_bytes(), RdfFormat::RdfXml).is_ok());
        let error = check(element(ATTRIBUTES + 1).as_bytes(), RdfFormat::RdfXml);
        let error = error.expect_err("too many");
        assert!(error.message().contains("4096 attributes"), "{error}");
    }

    #[test]
    fn json_levels() {
        let levels = |n: usize| format!("{}1{}", "{\"a\":[".repeat(n / 2), "]}".repeat(n / 2));
        assert!(check(levels(JSON_LEVELS).as_bytes(), JSON_LD).is_ok());
        assert!(check(levels(JSON_LEVELS + 2).as_bytes(), JSON_LD).is_err());
        let text = format!("[\"{}\", \"\\\"\"]", "[".repeat(1000));
        assert!(check(text.as_bytes(), JSON_LD).is_ok());
    }
}
