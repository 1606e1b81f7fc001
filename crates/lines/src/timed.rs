//! Reads lines of a stream, `t_ms<TAB>statement .`, in one pass and without copying their terms.
//! Anything unusual is left to the reader that uses the library alone: it decides, and its errors
//! are the ones that are reported.
//!
//! The one thing to know: the statements read here are those that `oxttl` reads from the same lines
//! (`tests/it/timed.rs`).

use super::plain::{Line, Lines, Statement};
use memchr::{memchr, memmem};
use oxrdf::{GraphNameRef, Quad, QuadRef};
use oxttl::NQuadsParser;
use somersault_model::EventTime;
use std::ops::Range;

/// Statements of a stream, read from lines of text.
pub struct TimedLines<'t> {
    lines: Vec<TimedLine<'t>>,
    /// The unescaped texts of literals, one after the other.
    unescaped: String,
    /// Statements that only the library could read.
    others: Vec<Quad>,
}

struct TimedLine<'t> {
    at: EventTime,
    statement: Read<'t>,
}

enum Read<'t> {
    /// A plain line, with the range of its literal's text in `unescaped`.
    Plain(Statement<'t>, Range<usize>),
    /// The statement at this index in `others`.
    Other(usize),
}

impl<'t> TimedLines<'t> {
    /// Reads lines: a time, then N-Triples or N-Quads. Empty lines and lines that begin with `#`
    /// are skipped. Returns `None` if there are more than `limit` statements, if something may be
    /// wrong, or if there is a triple term, whose nesting has to be checked first.
    ///
    /// ```
    /// use somersault_lines::TimedLines;
    /// let text = b"1000\t<urn:a> <urn:p> <urn:b> .\n1500\t<urn:a> <urn:p> <urn:c> .\n";
    /// assert_eq!(TimedLines::read(text, 10).unwrap().len(), 2);
    /// assert!(TimedLines::read(text, 1).is_none(), "there are more than one");
    /// assert!(TimedLines::read(b"1000 <urn:a>", 10).is_none(), "there is no tab");
    /// ```
    pub fn read(text: &'t [u8], limit: u64) -> Option<TimedLines<'t>> {
        let text = std::str::from_utf8(text).ok()?;
        let mut read = TimedLines {
            // Lines of typical streams have about a hundred bytes.
            lines: Vec::with_capacity(text.len() / 96 + 1),
            unescaped: String::new(),
            others: Vec::new(),
        };
        let mut lines = Lines::new(text, true);
        while !lines.is_at_end() {
            if lines.skip_line_without_statement() {
                continue;
            }
            if read.lines.len() as u64 == limit {
                return None;
            }
            let at = EventTime(lines.time()?);
            let start = lines.at();
            let statement = match lines.next() {
                Some(Line::Statement(statement)) => {
                    let from = read.unescaped.len();
                    if let Some(literal) = lines.unescaped_of(&statement) {
                        read.unescaped.push_str(literal);
                    }
                    Read::Plain(statement, from..read.unescaped.len())
                }
                Some(Line::Empty) => return None,
                None => {
                    let rest = &text.as_bytes()[start..];
                    let length = memchr(b'\n', rest).unwrap_or(rest.len());
                    lines.go_to((start + length + 1).min(text.len()));
                    read.others.push(one_statement(&rest[..length])?);
                    Read::Other(read.others.len() - 1)
                }
            };
            read.lines.push(TimedLine { at, statement });
        }
        Some(read)
    }

    /// The number of statements.
    ///
    /// ```
    /// use somersault_lines::TimedLines;
    /// let text = b"1000\t<urn:a> <urn:p> <urn:b> .\n1500\t<urn:a> <urn:p> <urn:c> .\n";
    /// assert_eq!(TimedLines::read(text, 10).unwrap().len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are no statements.
    ///
    /// ```
    /// use somersault_lines::TimedLines;
    /// assert!(TimedLines::read(b"# nothing\n", 10).unwrap().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The event times of the statements.
    ///
    /// ```
    /// use somersault_lines::TimedLines;
    /// let text = b"1000\t<urn:a> <urn:p> <urn:b> .\n1500\t<urn:a> <urn:p> <urn:c> .\n";
    /// let lines = TimedLines::read(text, 10).unwrap();
    /// assert_eq!(lines.times().map(|time| time.0).collect::<Vec<_>>(), [1000, 1500]);
    /// ```
    pub fn times(&self) -> impl ExactSizeIterator<Item = EventTime> + Clone {
        self.lines.iter().map(|line| line.at)
    }

    /// The statements.
    ///
    /// ```
    /// use somersault_lines::TimedLines;
    /// let text = b"1000\t<urn:a> <urn:p> <urn:b> .\n1500\t<urn:a> <urn:p> <urn:c> .\n";
    /// let lines = TimedLines::read(text, 10).unwrap();
    /// assert!(lines.statements().all(|quad| quad.predicate.as_str() == "urn:p"));
    /// ```
    pub fn statements(&self) -> impl ExactSizeIterator<Item = QuadRef<'_>> + Clone {
        self.lines.iter().map(|line| self.quad(line))
    }

    #[inline]
    fn quad<'a>(&'a self, line: &'a TimedLine<'t>) -> QuadRef<'a> {
        match &line.statement {
            Read::Plain(statement, literal) => {
                let literal = &self.unescaped[literal.clone()];
                statement.quad(literal, GraphNameRef::DefaultGraph)
            }
            Read::Other(index) => self.others[*index].as_ref(),
        }
    }
}

/// The one statement of a line, if it has no triple term.
#[cold]
fn one_statement(line: &[u8]) -> Option<Quad> {
    if memmem::find(line, b"<<").is_some() {
        return None;
    }
    let mut quads = NQuadsParser::new().for_slice(line);
    let quad = quads.next()?.ok()?;
    quads.next().is_none().then_some(quad)
}
