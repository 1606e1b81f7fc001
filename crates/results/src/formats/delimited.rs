//! SPARQL 1.1 Query Results CSV and TSV. CSV keeps only text, so a reader cannot distinguish an IRI
//! from a literal, nor an empty string from no value; TSV keeps terms, in Turtle syntax.

use super::Syntax;
use crate::error::AnswerError;
use crate::escape::{csv_needs_quotes, csv_quoted, tsv};
use crate::terms::{Terms, Value};
use oxrdf::BaseDirection;
use oxrdf::vocab::xsd;
use somersault_dictionary::{TermKind, TermView};

/// What CSV and TSV differ in.
pub(crate) trait Delimited {
    /// Stands before the name of each variable.
    const MARK: &'static str;
    const SEPARATOR: char;
    const END: &'static str;

    /// Writes a value.
    fn value(value: Value<'_>, terms: &Terms<'_>, out: &mut String);
}

impl<D: Delimited> Syntax for D {
    fn head(&self, variables: &[String], out: &mut String) {
        for (at, variable) in variables.iter().enumerate() {
            self.separate(at, true, true, out);
            out.push_str(D::MARK);
            out.push_str(variable);
        }
        self.close_row(out);
    }

    fn open_row(&self, _row: usize, _out: &mut String) {}

    #[inline]
    fn separate(&self, column: usize, _bound_before: bool, _bound: bool, out: &mut String) {
        if column > 0 {
            out.push(D::SEPARATOR);
        }
    }

    #[inline]
    fn cell(
        &self,
        _column: usize,
        value: Value<'_>,
        terms: &Terms<'_>,
        out: &mut String,
    ) -> Result<(), AnswerError> {
        D::value(value, terms, out);
        Ok(())
    }

    #[inline]
    fn close_row(&self, out: &mut String) {
        out.push_str(D::END);
    }

    fn tail(&self, _out: &mut String) {}
}

pub(crate) struct Csv;

impl Delimited for Csv {
    const MARK: &'static str = "";
    const SEPARATOR: char = ',';
    const END: &'static str = "\r\n";

    #[inline]
    fn value(value: Value<'_>, terms: &Terms<'_>, out: &mut String) {
        match value {
            Value::Text(view) => csv_text(&view, out),
            Value::Triple(_) => {
                let mut text = String::new();
                csv_triple(value, terms, &mut text);
                csv_field("", "", &text, out);
            }
        }
    }
}

#[inline]
fn csv_text(view: &TermView<'_>, out: &mut String) {
    csv_field(csv_mark(view), view.head, view.tail, out);
}

fn csv_mark(view: &TermView<'_>) -> &'static str {
    match view.kind {
        TermKind::BlankNode => "_:",
        _ => "",
    }
}

#[inline]
fn csv_field(mark: &str, head: &str, tail: &str, out: &mut String) {
    if csv_needs_quotes(head) || csv_needs_quotes(tail) {
        out.push('"');
        csv_quoted(mark, out);
        csv_quoted(head, out);
        csv_quoted(tail, out);
        out.push('"');
    } else {
        out.push_str(mark);
        out.push_str(head);
        out.push_str(tail);
    }
}

/// Appends the texts of the parts, with spaces between them.
fn csv_triple(value: Value<'_>, terms: &Terms<'_>, out: &mut String) {
    match value {
        Value::Text(view) => {
            out.push_str(csv_mark(&view));
            view.write_text(out);
        }
        Value::Triple(parts) => {
            for (at, part) in parts.into_iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                if let Some(value) = terms.resolve_part(part, &mut String::new()) {
                    csv_triple(value, terms, out);
                }
            }
        }
    }
}

pub(crate) struct Tsv;

impl Delimited for Tsv {
    const MARK: &'static str = "?";
    const SEPARATOR: char = '\t';
    const END: &'static str = "\n";

    #[inline]
    fn value(value: Value<'_>, terms: &Terms<'_>, out: &mut String) {
        turtle(value, terms, out);
    }
}

/// Appends a term in Turtle syntax, with numbers and booleans unquoted where Turtle allows it.
#[inline]
pub(crate) fn turtle(value: Value<'_>, terms: &Terms<'_>, out: &mut String) {
    let view = match value {
        Value::Text(view) => view,
        Value::Triple(parts) => {
            out.push_str("<<( ");
            for part in parts {
                if let Some(value) = terms.resolve_part(part, &mut String::new()) {
                    turtle(value, terms, out);
                }
                out.push(' ');
            }
            return out.push_str(")>>");
        }
    };
    match view.kind {
        TermKind::NamedNode => {
            out.push('<');
            view.write_text(out);
            out.push('>');
        }
        TermKind::BlankNode => {
            out.push_str("_:");
            view.write_text(out);
        }
        TermKind::Literal | TermKind::Triple => turtle_literal(&view, out),
    }
}

fn turtle_literal(view: &TermView<'_>, out: &mut String) {
    if let Some(datatype) = view.datatype
        && view.head.is_empty()
        && is_bare(view.tail, datatype)
    {
        return out.push_str(view.tail);
    }
    out.push('"');
    tsv(view.head, out);
    tsv(view.tail, out);
    out.push('"');
    if let Some(language) = view.language {
        out.push('@');
        out.push_str(language);
        match view.direction {
            Some(BaseDirection::Ltr) => out.push_str("--ltr"),
            Some(BaseDirection::Rtl) => out.push_str("--rtl"),
            None => {}
        }
    } else if let Some(datatype) = view.datatype {
        out.push_str("^^<");
        out.push_str(datatype);
        out.push('>');
    }
}

/// Whether Turtle reads this text as this datatype without quotes (grammar: BooleanLiteral,
/// INTEGER, DECIMAL, DOUBLE).
fn is_bare(text: &str, datatype: &str) -> bool {
    if datatype == xsd::BOOLEAN.as_str() {
        return text == "true" || text == "false";
    }
    let numeric = [xsd::INTEGER, xsd::DECIMAL, xsd::DOUBLE];
    let Some(kind) = numeric.iter().position(|known| known.as_str() == datatype) else {
        return false;
    };
    let (whole, rest) = digits(text.strip_prefix(['+', '-']).unwrap_or(text));
    let (fraction, rest, point) = match rest.strip_prefix('.') {
        Some(rest) => {
            let (fraction, rest) = digits(rest);
            (fraction, rest, true)
        }
        None => (0, rest, false),
    };
    match kind {
        0 => whole > 0 && !point && rest.is_empty(),
        1 => point && fraction > 0 && rest.is_empty(),
        _ => rest.strip_prefix(['e', 'E']).is_some_and(|exponent| {
            let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            let (count, rest) = digits(exponent);
            whole + fraction > 0 && count > 0 && rest.is_empty()
        }),
    }
}

/// Returns the number of digits at the start of the text, and the rest.
fn digits(text: &str) -> (usize, &str) {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    (count, &text[count..])
}
