//! Answers as a table for people: aligned columns, numbers as numbers, other terms as in N-Triples
//! with short names of datatypes. Long ones are cut to the width of a terminal; in files and pipes
//! nothing is.

use oxrdf::vocab::xsd;
use oxrdf::{Literal, Term, Variable};
use std::io::{self, IsTerminal, Write};

/// A SELECT answer in memory, ready to print.
pub(crate) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub(crate) fn new(variables: &[Variable]) -> Self {
        Self {
            columns: variables
                .iter()
                .map(|variable| variable.as_str().to_owned())
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Adds one solution; an unbound variable is an empty cell.
    pub(crate) fn push<'t>(&mut self, solution: impl Iterator<Item = Option<&'t Term>>) {
        self.rows.push(
            solution
                .map(|term| term.map(printable).unwrap_or_default())
                .collect(),
        );
    }

    /// Prints the table and its number of rows, at most `width` characters wide where one is given.
    ///
    /// # Errors
    /// What the writer reports.
    pub(crate) fn print(&self, out: &mut impl Write, width: Option<usize>) -> io::Result<()> {
        let widths = self.column_widths(width);
        write_line(out, &self.columns, &widths)?;
        let rule: Vec<String> = widths.iter().map(|&w| "-".repeat(w)).collect();
        write_line(out, &rule, &widths)?;
        for row in &self.rows {
            write_line(out, row, &widths)?;
        }
        let noun = if self.rows.len() == 1 { "row" } else { "rows" };
        writeln!(out, "({} {noun})", self.rows.len())
    }

    /// Natural widths, with the widest columns cut first until the line fits.
    fn column_widths(&self, width: Option<usize>) -> Vec<usize> {
        const NARROWEST: usize = 8;
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .map(|name| name.chars().count().max(1))
            .collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(cell.chars().count());
            }
        }
        let Some(width) = width else {
            return widths;
        };
        let room = width.saturating_sub(2 * widths.len().saturating_sub(1));
        while widths.iter().sum::<usize>() > room {
            let Some(widest) = widths.iter_mut().max() else {
                break;
            };
            if *widest <= NARROWEST {
                break;
            }
            *widest -= 1;
        }
        widths
    }
}

fn write_line(out: &mut impl Write, cells: &[String], widths: &[usize]) -> io::Result<()> {
    let mut line = String::new();
    for (cell, &width) in cells.iter().zip(widths) {
        if !line.is_empty() {
            line.push_str("  ");
        }
        let shown = cut(cell, width);
        line.push_str(&shown);
        line.extend(std::iter::repeat_n(
            ' ',
            width.saturating_sub(shown.chars().count()),
        ));
    }
    writeln!(out, "{}", line.trim_end())
}

/// A term for a person, with control characters made harmless for a terminal.
fn printable(term: &Term) -> String {
    let text = match term {
        Term::Literal(literal) => spelled(literal),
        other => other.to_string(),
    };
    let harmless = text
        .chars()
        .map(|c| if c.is_control() { '\u{FFFD}' } else { c });
    harmless.collect()
}

/// The namespace of the datatypes of XML Schema.
const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

/// A literal: numbers and booleans bare, others in quotes, datatypes of XML Schema by their short
/// names.
fn spelled(literal: &Literal) -> String {
    let datatype = literal.datatype();
    let Some(name) = datatype.as_str().strip_prefix(XSD) else {
        return literal.to_string();
    };
    let value = literal.value();
    let is_bare = match name {
        "boolean" => matches!(value, "true" | "false"),
        "decimal" | "double" | "float" => value.parse::<f64>().is_ok_and(f64::is_finite),
        _ => is_integer(name) && value.parse::<i128>().is_ok(),
    };
    if is_bare {
        return value.to_owned();
    }
    if datatype == xsd::STRING {
        return literal.to_string();
    }
    format!("{}^^xsd:{name}", Literal::new_simple_literal(value))
}

/// Whether a datatype is xsd:integer or derived from it.
fn is_integer(name: &str) -> bool {
    let name = name
        .strip_prefix("unsigned")
        .unwrap_or(name)
        .to_ascii_lowercase();
    let sizes = ["integer", "long", "int", "short", "byte"];
    let signs = [
        "nonnegativeinteger",
        "positiveinteger",
        "nonpositiveinteger",
        "negativeinteger",
    ];
    sizes.contains(&name.as_str()) || signs.contains(&name.as_str())
}

/// The part of a term that a person reads: an IRI's last segment, a literal's text.
pub(crate) fn short(term: &Term) -> String {
    let text = match term {
        Term::NamedNode(iri) => {
            let iri = iri.as_str();
            iri.rsplit(['/', '#'])
                .find(|segment| !segment.is_empty())
                .unwrap_or(iri)
                .to_owned()
        }
        Term::Literal(literal) => literal.value().to_owned(),
        other => other.to_string(),
    };
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// The first `width` characters, with an ellipsis where something is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut shown: String = text.chars().take(width.saturating_sub(1)).collect();
    shown.push('…');
    shown
}

/// Columns of the terminal that standard output is, or a width that fits most.
pub(crate) fn terminal_width() -> usize {
    crossterm::terminal::size().map_or(120, |(columns, _)| usize::from(columns).max(20))
}

/// The width that a table may have: that of the terminal which standard output is, if it is one.
pub(crate) fn width_of_output() -> Option<usize> {
    io::stdout().is_terminal().then(terminal_width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::{Literal, NamedNode};

    #[test]
    fn a_table_is_aligned_and_cut_to_its_width() {
        let mut table = Table::new(&[
            Variable::new_unchecked("s"),
            Variable::new_unchecked("name"),
        ]);
        let long = Term::from(NamedNode::new_unchecked(format!(
            "http://example.org/{}",
            "x".repeat(80)
        )));
        let name = Term::from(Literal::new_simple_literal("Ada\u{1b}[31m"));
        table.push([Some(&long), Some(&name)].into_iter());
        table.push([None, None].into_iter());
        let mut out = Vec::new();
        table.print(&mut out, Some(40)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.lines().all(|line| line.chars().count() <= 40),
            "{text}"
        );
        assert!(
            text.contains('…') && text.contains("(2 rows)") && !text.contains('\u{1b}'),
            "{text}"
        );
        let mut whole = Vec::new();
        table.print(&mut whole, None).unwrap();
        let whole = String::from_utf8(whole).unwrap();
        assert!(whole.contains(&long.to_string()), "{whole}");
    }

    #[test]
    fn numbers_are_printed_as_numbers() {
        let literal = |value: &str, name: &str| {
            let datatype = NamedNode::new_unchecked(format!("{XSD}{name}"));
            printable(&Literal::new_typed_literal(value, datatype).into())
        };
        assert_eq!(literal("10", "integer"), "10");
        assert_eq!(literal("-7", "long"), "-7");
        assert_eq!(literal("7", "unsignedByte"), "7");
        assert_eq!(literal("1.50", "decimal"), "1.50");
        assert_eq!(literal("1e3", "double"), "1e3");
        assert_eq!(literal("true", "boolean"), "true");
        assert_eq!(literal("ten", "integer"), "\"ten\"^^xsd:integer");
        assert_eq!(literal("INF", "double"), "\"INF\"^^xsd:double");
        assert_eq!(literal("2020-01-01", "date"), "\"2020-01-01\"^^xsd:date");
        assert_eq!(
            printable(&Literal::new_simple_literal("10").into()),
            "\"10\""
        );
        let english = Literal::new_language_tagged_literal_unchecked("a", "en");
        assert_eq!(printable(&english.into()), "\"a\"@en");
    }

    #[test]
    fn short_forms_are_last_segments_and_literal_text() {
        assert_eq!(
            short(&NamedNode::new_unchecked("http://example.org/user/u1").into()),
            "u1"
        );
        assert_eq!(
            short(&NamedNode::new_unchecked("http://example.org/x#").into()),
            "x"
        );
        assert_eq!(short(&Literal::from(5).into()), "5");
    }
}
