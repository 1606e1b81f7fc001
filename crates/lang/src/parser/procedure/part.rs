//! The SPARQL of a step, cut out of its procedure.
//!
//! It becomes a text that stands alone: the declarations that it needs, then its own words, with
//! `BATCH { … }` and `WINDOW w { … }` written as GRAPH over reserved names. Errors are put back to
//! their places in the procedure.

use crate::algebra::procedure::{KEPT_NAMES, KeptGraph};
use crate::clauses::procedure::{ProcedureHeader, refuse};
use crate::parser::standalone::Standalone;
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::name_clause::source_token;
use crate::text::names::Names;
use crate::token::{Token, TokenKind};
use oxrdf::NamedNode;

/// The batches and windows that the patterns of a block may read.
pub(super) struct Readable<'h> {
    pub(super) header: &'h ProcedureHeader,
    /// The stream of the message that `WHEN INTO` is about.
    pub(super) emitted: Option<&'h NamedNode>,
}

impl Standalone {
    /// Adds the tokens of a step as they are, but for the blocks of batches and windows.
    pub(super) fn copy_step(
        &mut self,
        source: &str,
        tokens: &[Token],
        names: &Names,
        readable: &Readable<'_>,
    ) -> Result<(), ParseError> {
        let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else {
            return Ok(());
        };
        let mut copied = first.start;
        let mut templates = Templates::default();
        let mut cursor = Cursor::new(source, tokens);
        while let Some(token) = cursor.peek() {
            templates.take(&cursor);
            refuse_in_step(source, token, names)?;
            if !is_block(&cursor) {
                cursor.bump();
                continue;
            }
            if let Some(words) = templates.place {
                let message = format!(
                    "{} reads the input of the transaction, and cannot stand in {words}; write it in WHERE",
                    token.text(source).to_ascii_uppercase()
                );
                return refuse(source, token.start, message);
            }
            self.copy(source, copied..token.start);
            let kept = readable.block(&mut cursor, names)?;
            self.insert(&format!("GRAPH {} ", kept.name()), token.start);
            copied = cursor.offset();
        }
        self.copy(source, copied..last.end);
        Ok(())
    }
}

/// Whether BATCH or WINDOW stands here as the head of a block.
fn is_block(cursor: &Cursor<'_>) -> bool {
    let is_batch = cursor.is_keyword("BATCH") && cursor.is_punctuation_at(1, "{");
    let is_named = cursor.is_any_keyword(&["BATCH", "WINDOW"]) && cursor.is_punctuation_at(2, "{");
    is_batch || is_named
}

/// Refuses SERVICE, and IRIs that begin as the names of batches and windows do.
fn refuse_in_step(source: &str, token: Token, names: &Names) -> Result<(), ParseError> {
    let text = token.text(source);
    match token.kind {
        TokenKind::Word if text.eq_ignore_ascii_case("SERVICE") => refuse(
            source,
            token.start,
            "SERVICE cannot stand in a procedure, whose outcome follows from the log alone; ask the service before the call, and give what it says as an argument",
        ),
        TokenKind::Iri | TokenKind::PrefixedName => {
            // The parse of the step says what is wrong with other names.
            let iri = names.resolve(source, token);
            let is_reserved = iri.is_ok_and(|iri| {
                (KEPT_NAMES.iter()).any(|beginning| iri.as_str().starts_with(beginning))
            });
            match is_reserved {
                true => refuse(
                    source,
                    token.start,
                    format!(
                        "{text} begins as the names of batches and windows do; choose another IRI"
                    ),
                ),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

impl Readable<'_> {
    /// `BATCH [iri]` or `WINDOW iri`, up to the brace.
    fn block(&self, cursor: &mut Cursor<'_>, names: &Names) -> Result<KeptGraph, ParseError> {
        let word = cursor.bump().expect("a block begins with a word");
        let is_batch = word.text(cursor.source).eq_ignore_ascii_case("BATCH");
        if cursor.is_punctuation("{") {
            return self.only_batch(cursor.source, word).map(KeptGraph::Batch);
        }
        let expected = match is_batch {
            true => "the IRI of a consumed stream, or `{`,",
            false => "the name of a window that the procedure owns",
        };
        let token = source_token(cursor, expected)?;
        let name = names.resolve(cursor.source, token)?;
        if is_batch && (self.header.consumes(&name) || self.emitted == Some(&name)) {
            return Ok(KeptGraph::Batch(name));
        }
        if !is_batch && self.header.owns(&name) {
            return Ok(KeptGraph::Window(name));
        }
        let message = match is_batch {
            true => format!(
                "the procedure does not consume {name} ({}); add ON STREAM {name} BATCH 1 MESSAGE, or read another batch",
                listed(self.header.consumes.iter().map(|one| &one.stream))
            ),
            false => format!(
                "the procedure owns no window {name} ({}); an owned window is visible to its procedure alone: \
                 add OWNS WINDOW {name} ON <stream> [LAST 10 MESSAGES]",
                listed(self.header.windows.iter().map(|one| &one.name))
            ),
        };
        refuse(cursor.source, token.start, message)
    }

    /// The stream of `BATCH { … }`.
    fn only_batch(&self, source: &str, word: Token) -> Result<NamedNode, ParseError> {
        let message = match (self.header.consumes.as_slice(), self.emitted) {
            ([one], _) => return Ok(one.stream.clone()),
            ([], Some(stream)) => format!(
                "the procedure consumes no stream, so BATCH has no meaning by itself; write BATCH {stream} {{ … }} for the message just emitted"
            ),
            ([], None) => "the procedure consumes no stream, so there is no batch; add ON STREAM <stream> BATCH 1 MESSAGE, or take parameters".to_owned(),
            (several, _) => format!(
                "the procedure consumes {} streams; say which batch is meant: BATCH {} {{ … }}",
                several.len(),
                several[0].stream
            ),
        };
        refuse(source, word.start, message)
    }
}

/// `it has <a>, <b>` or `it has none`.
fn listed<'n>(names: impl Iterator<Item = &'n NamedNode>) -> String {
    let names: Vec<String> = names.map(ToString::to_string).collect();
    match names.is_empty() {
        true => "it has none".to_owned(),
        false => format!("it has {}", names.join(", ")),
    }
}

/// Tells whether a walk over a step is in a template or in data.
#[derive(Debug, Default)]
struct Templates {
    depth: usize,
    /// The words for the template or data that the walk is in.
    place: Option<&'static str>,
}

impl Templates {
    /// Takes the next token.
    fn take(&mut self, cursor: &Cursor<'_>) {
        if cursor.is_punctuation("{") {
            if self.depth == 0 {
                self.place = template_before(cursor);
            }
            self.depth += 1;
        } else if cursor.is_punctuation("}") {
            self.depth = self.depth.saturating_sub(1);
            if self.depth == 0 {
                self.place = None;
            }
        }
    }
}

/// The words for the template or data whose brace stands here.
fn template_before(cursor: &Cursor<'_>) -> Option<&'static str> {
    let word = |back: usize| {
        let token = cursor.at.checked_sub(back).map(|at| cursor.tokens[at]);
        token.map_or(String::new(), |token| {
            token.text(cursor.source).to_ascii_uppercase()
        })
    };
    match (&*word(2), &*word(1)) {
        (_, "INSERT") => Some("the template of INSERT"),
        (_, "DELETE") => Some("the template of DELETE"),
        (_, "CONSTRUCT") => Some("the template of CONSTRUCT"),
        ("DELETE", "WHERE") => Some("DELETE WHERE, whose pattern is what it deletes"),
        ("CONSTRUCT", "WHERE") => Some("CONSTRUCT WHERE, whose pattern is what it makes"),
        ("INSERT", "DATA") => Some("INSERT DATA"),
        ("DELETE", "DATA") => Some("DELETE DATA"),
        _ => None,
    }
}
