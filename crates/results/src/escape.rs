//! Text as the result formats spell it. Nearly all text needs no escape, so it is scanned in blocks
//! first and then copied as a whole; only text with a special byte is processed byte by byte.

use crate::error::AnswerError;
use somersault_dictionary::TermView;

/// Appends the inside of a JSON string.
#[inline]
pub(crate) fn json(text: &str, out: &mut String) {
    if any(text, |byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        replace(text, out, json_escape);
    } else {
        out.push_str(text);
    }
}

/// Appends the inside of a Turtle string, which TSV uses.
#[inline]
pub(crate) fn tsv(text: &str, out: &mut String) {
    if any(text, |byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        replace(text, out, tsv_escape);
    } else {
        out.push_str(text);
    }
}

/// Whether a CSV field with this text must be quoted.
#[inline]
pub(crate) fn csv_needs_quotes(text: &str) -> bool {
    any(text, |byte| {
        byte == b'"' || byte == b',' || byte == b'\n' || byte == b'\r'
    })
}

/// Appends text to a quoted CSV field.
pub(crate) fn csv_quoted(text: &str, out: &mut String) {
    replace(text, out, |byte| (byte == b'"').then_some("\"\""));
}

/// Appends XML text or the value of an XML attribute.
///
/// # Errors
/// [`AnswerError::CannotHold`] for a character that XML 1.0 cannot express.
#[inline]
pub(crate) fn xml(text: &str, out: &mut String) -> Result<(), AnswerError> {
    let special = |byte: u8| {
        // 0xEF begins U+FFFE and U+FFFF, which XML does not allow.
        byte < b' ' || byte == 0xEF || (byte < b'?' && b"<>&'\"".contains(&byte))
    };
    if !any(text, special) {
        out.push_str(text);
        return Ok(());
    }
    if let Some(foreign) = text.chars().find(|c| !in_xml(*c)) {
        return Err(AnswerError::CannotHold(format!(
            "XML cannot hold the character U+{:04X}, which is in the answer",
            u32::from(foreign)
        )));
    }
    replace(text, out, xml_escape);
    Ok(())
}

/// Appends a literal's text in XML: readers may strip white space from both ends unless it is
/// escaped.
///
/// # Errors
/// As [`xml`].
pub(crate) fn xml_literal(view: &TermView<'_>, out: &mut String) -> Result<(), AnswerError> {
    if !view.head.is_empty() {
        let mut text = String::with_capacity(view.text_len());
        view.write_text(&mut text);
        return xml_ends(&text, out);
    }
    xml_ends(view.tail, out)
}

fn xml_ends(text: &str, out: &mut String) -> Result<(), AnswerError> {
    let inner = text.trim_start_matches(is_xml_space);
    let (before, inner) = text.split_at(text.len() - inner.len());
    let (inner, after) = inner.split_at(inner.trim_end_matches(is_xml_space).len());
    xml_space(before, out);
    xml(inner, out)?;
    xml_space(after, out);
    Ok(())
}

fn is_xml_space(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' ')
}

fn xml_space(text: &str, out: &mut String) {
    for byte in text.bytes() {
        out.push_str(match byte {
            b'\t' => "&#9;",
            b'\n' => "&#10;",
            b'\r' => "&#13;",
            _ => "&#32;",
        });
    }
}

fn in_xml(c: char) -> bool {
    (c >= ' ' || is_xml_space(c)) && c != '\u{FFFE}' && c != '\u{FFFF}'
}

/// Whether a byte of the text is special. Blocks are tested as a whole, so that the compiler
/// compares many bytes at a time.
#[inline]
fn any(text: &str, special: impl Fn(u8) -> bool) -> bool {
    let (blocks, rest) = text.as_bytes().as_chunks::<16>();
    let found = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(false, |found, byte| found | special(*byte))
    };
    blocks.iter().any(|block| found(block)) || found(rest)
}

/// Appends the text, replacing each byte for which `escape` returns another spelling. It may do so
/// for ASCII only.
fn replace(text: &str, out: &mut String, escape: impl Fn(u8) -> Option<&'static str>) {
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        if let Some(spelling) = escape(byte) {
            out.push_str(&text[copied..at]);
            out.push_str(spelling);
            copied = at + 1;
        }
    }
    out.push_str(&text[copied..]);
}

/// The JSON spelling of U+0000 to U+001F.
#[rustfmt::skip]
const JSON_CONTROL: [&str; 32] = [
    "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007",
    "\\b", "\\t", "\\n", "\\u000b", "\\f", "\\r", "\\u000e", "\\u000f",
    "\\u0010", "\\u0011", "\\u0012", "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017",
    "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f",
];

fn json_escape(byte: u8) -> Option<&'static str> {
    match byte {
        b'"' => Some("\\\""),
        b'\\' => Some("\\\\"),
        _ => JSON_CONTROL.get(usize::from(byte)).copied(),
    }
}

fn tsv_escape(byte: u8) -> Option<&'static str> {
    match byte {
        b'\t' => Some("\\t"),
        b'\n' => Some("\\n"),
        b'\r' => Some("\\r"),
        b'"' => Some("\\\""),
        b'\\' => Some("\\\\"),
        _ => None,
    }
}

fn xml_escape(byte: u8) -> Option<&'static str> {
    match byte {
        b'<' => Some("&lt;"),
        b'>' => Some("&gt;"),
        b'&' => Some("&amp;"),
        b'\'' => Some("&apos;"),
        b'"' => Some("&quot;"),
        // An XML reader turns a bare carriage return into a line feed.
        b'\r' => Some("&#13;"),
        _ => None,
    }
}
