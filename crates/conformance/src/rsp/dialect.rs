//! Translates a query to another dialect, where it must have the same answers. Queries that a
//! dialect cannot express are reported as left out, with the reason: a run must not seem to compare
//! more than it does.

mod merged;
mod writer;

use somersault_lang::{ContinuousQuery, Dialect as Source, Extent, Parser};
use writer::Writer;

/// The dialect in which the continuous queries of a suite are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    /// As the suite has them, which in the public suites is C-SPARQL.
    CSparql,
    /// `FROM NAMED WINDOW w ON s […]` and `WINDOW w { … }`.
    RspQl,
    /// `STREAM s […] { … }`.
    CqelsQl,
}

impl Dialect {
    /// A text in this dialect, whatever it is written in; bare names are in `namespace`.
    ///
    /// # Errors
    /// Why the dialect cannot say the same, or why the text cannot be translated.
    pub fn say(self, text: &str, namespace: Option<&str>) -> Result<String, String> {
        if self == Dialect::CSparql {
            return Ok(text.to_owned());
        }
        let mut parser = Parser::new();
        if let Some(namespace) = namespace {
            parser = parser.with_default_namespace(namespace);
        }
        let query = parser
            .parse_continuous(text)
            .map_err(|error| error.to_string())?;
        // A query without a window is a live one, and reads the same in each dialect.
        if self.is(query.dialect) || query.windows.is_empty() {
            return Ok(text.to_owned());
        }
        for window in &query.windows {
            self.check(window.extent)?;
        }
        Writer::new(text, &query, self, namespace).write()
    }

    fn is(self, source: Source) -> bool {
        matches!(
            (self, source),
            (Dialect::RspQl, Source::RspQl) | (Dialect::CqelsQl, Source::CqelsQl)
        )
    }

    /// Whether the dialect has such a window.
    fn check(self, extent: Extent) -> Result<(), String> {
        match (self, extent) {
            (Dialect::RspQl, Extent::Now | Extent::All) => {
                Err(format!("RSP-QL has no window [{extent}]"))
            }
            (Dialect::CqelsQl, Extent::Time { until, .. }) if until.0 > 0 => {
                Err("CQELS-QL has no window that ends before its close".to_owned())
            }
            (Dialect::CqelsQl, Extent::Statements { step, .. }) if step > 1 => {
                Err("CQELS-QL has no STEP of a window of a number of statements".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The text before the braces that read a window.
    fn opening(self, query: &ContinuousQuery, number: usize) -> String {
        let window = &query.windows[number];
        match (self, window.extent) {
            (Dialect::CqelsQl, Extent::Statements { count, .. }) => {
                format!("STREAM {} [TRIPLES {count}]", window.stream)
            }
            (Dialect::CqelsQl, extent) => format!("STREAM {} [{extent}]", window.stream),
            _ => format!("WINDOW <urn:window:{number}>"),
        }
    }

    /// The dataset clauses for the windows of a query.
    fn clauses(self, query: &ContinuousQuery) -> String {
        if self != Dialect::RspQl {
            return String::new();
        }
        let clause = |(number, window): (usize, &somersault_lang::WindowClause)| {
            let (stream, extent) = (&window.stream, window.extent);
            format!("FROM NAMED WINDOW <urn:window:{number}> ON {stream} [{extent}]\n")
        };
        query.windows.iter().enumerate().map(clause).collect()
    }
}

#[cfg(test)]
mod tests;
