//! Answers as a table for people: aligned columns, terms in N-Triples spelling, long ones cut to the terminal.

use oxrdf::{Term, Variable};
use std::io::{self, Write};

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

    /// Prints the table and its number of rows, at most `width` characters wide.
    ///
    /// # Errors
    /// What the writer reports.
    pub(crate) fn print(&self, out: &mut impl Write, width: usize) -> io::Result<()> {
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
    fn column_widths(&self, width: usize) -> Vec<usize> {
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

/// A term in N-Triples spelling with control characters made harmless for a terminal.
fn printable(term: &Term) -> String {
    term.to_string()
        .chars()
        .map(|c| if c.is_control() { '\u{FFFD}' } else { c })
        .collect()
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
        table.print(&mut out, 40).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.lines().all(|line| line.chars().count() <= 40),
            "{text}"
        );
        assert!(
            text.contains('…') && text.contains("(2 rows)") && !text.contains('\u{1b}'),
            "{text}"
        );
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
