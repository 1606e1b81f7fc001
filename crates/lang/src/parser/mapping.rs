//! `MAPPED BY CONSTRUCT … WHERE { … }` of CREATE STREAM: the CONSTRUCT, read by itself.
//!
//! A mapping reads one document and nothing else, so that what a push means depends on neither the
//! stored data nor another machine. FROM, GRAPH in its WHERE and SERVICE are refused here.

use crate::algebra::Pattern;
use crate::algebra::query::{Query, QueryForm};
use crate::algebra::stream::StreamMapping;
use crate::clauses::procedure::refuse;
use crate::parser::Parser;
use crate::parser::standalone::Standalone;
use crate::text::brackets::check_brackets;
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::names::Names;
use std::ops::Range;
use std::sync::Arc;

impl Parser {
    /// The mapping whose CONSTRUCT stands in these tokens of a declaration.
    pub(super) fn mapping(
        &self,
        cursor: &Cursor<'_>,
        tokens: Range<usize>,
        names: &Names,
    ) -> Result<StreamMapping, ParseError> {
        check_brackets(cursor)?;
        let source = cursor.source;
        let own = &cursor.tokens[tokens.clone()];
        let bytes = own.first().map_or(0, |it| it.start)..own.last().map_or(0, |it| it.end);
        let mut part = Standalone::with_declarations(source, own, names);
        part.copy(source, bytes.clone());
        let alone = Parser {
            base: None,
            is_quick: false,
            ..self.clone()
        };
        let query = (alone.parse_query(part.text()))
            .map_err(|error| part.error_in(source, of_mapping(error)))?;
        let QueryForm::Construct { template } = &query.form else {
            return refuse(source, bytes.start, "a mapping is a CONSTRUCT");
        };
        if template.is_empty() {
            let message = "the template of the mapping is empty, so that no document would make a statement; write the statements into it";
            return refuse(source, bytes.start, message);
        }
        let place_of = |word: &str| {
            let is_it = |at: &usize| {
                let cursor = Cursor { at: *at, ..*cursor };
                cursor.is_keyword(word)
            };
            let found = tokens.clone().rfind(is_it);
            found.map_or(bytes.start, |at| cursor.tokens[at].start)
        };
        match foreign(&query) {
            Some(word) => refuse(
                source,
                place_of(word),
                format!(
                    "{word} reads other data, and a mapping reads its document alone; take it away, and join the stream with other data in a query"
                ),
            ),
            None => Ok(StreamMapping {
                construct: Arc::new(query),
            }),
        }
    }
}

/// The word of a mapping that reads other data than the document.
fn foreign(query: &Query) -> Option<&'static str> {
    if query.dataset.present {
        return Some("FROM");
    }
    let mut patterns = vec![&query.pattern];
    while let Some(pattern) = patterns.pop() {
        match pattern {
            Pattern::Graph { .. } => return Some("GRAPH"),
            Pattern::Service { .. } => return Some("SERVICE"),
            other => patterns.extend(other.inner_patterns()),
        }
    }
    None
}

fn of_mapping(error: ParseError) -> ParseError {
    let message = match error.message.strip_prefix("the text ends here") {
        Some(rest) => format!("the mapping ends here{rest}"),
        None => return error,
    };
    ParseError { message, ..error }
}
