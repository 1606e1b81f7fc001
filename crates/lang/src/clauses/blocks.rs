//! Windows inside WHERE: `WINDOW w { … }` of RSP-QL, `STREAM s [ … ] { … }` of CQELS-QL.
//!
//! Both are GRAPH over a named window in the algebra, and are written so before `spargebra` reads
//! them. In these two dialects a window is no graph: GRAPH with a variable is kept from ranging
//! over windows.

use crate::algebra::continuous::{Dialect, WindowClause};
use crate::clauses::extent::read_extent;
use crate::clauses::surface::Surface;
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::name_clause::source_token;
use crate::token::{Place, Token, TokenKind};
use oxrdf::NamedNode;
use std::collections::HashSet;
use std::fmt::Write;

/// Reads the window blocks of a query whose pattern begins at the cursor.
pub(crate) fn read(surface: &mut Surface, mut cursor: Cursor<'_>) -> Result<(), ParseError> {
    let mut blocks = Blocks::default();
    // Before the pattern, a computed column may hold EXISTS. Everything else there has no blocks,
    // and the template of CONSTRUCT has graphs of its own.
    let mut head = Cursor {
        at: surface.form,
        ..cursor
    };
    let mut open = 0usize;
    while head.at < cursor.at {
        match head.peek_text() {
            "(" => open += 1,
            ")" => open = open.saturating_sub(1),
            _ => {}
        }
        match open {
            0 => _ = head.bump(),
            _ => blocks.read_token(surface, &mut head)?,
        }
    }
    while !cursor.is_end() {
        blocks.read_token(surface, &mut cursor)?;
    }
    if matches!(surface.dialect, Some(Dialect::RspQl | Dialect::CqelsQl)) {
        for at in blocks.graph_variables {
            keep_from_windows(surface, at);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Blocks<'t> {
    /// The places of GRAPH with a variable, handled once all windows are known.
    graph_variables: Vec<Cursor<'t>>,
    /// The names that no window of CQELS-QL may get, once one needs a name.
    taken: Option<HashSet<NamedNode>>,
}

impl<'t> Blocks<'t> {
    /// Reads the head of a block, or goes one token further.
    fn read_token(
        &mut self,
        surface: &mut Surface,
        cursor: &mut Cursor<'t>,
    ) -> Result<(), ParseError> {
        if cursor.is_keyword("WINDOW") && cursor.is_punctuation_at(2, "{") {
            return window_block(surface, cursor);
        }
        if cursor.is_keyword("STREAM") {
            return stream_block(surface, cursor, &mut self.taken);
        }
        if !cursor.take_keyword("GRAPH") {
            cursor.bump();
            return Ok(());
        }
        match cursor.peek_kind() {
            Some(TokenKind::Variable) => self.graph_variables.push(*cursor),
            Some(_) => refuse_window_as_graph(surface, cursor)?,
            None => {}
        }
        Ok(())
    }
}

/// `WINDOW (iri | variable) {`, up to the brace.
fn window_block(surface: &mut Surface, cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
    let keyword = cursor.tokens[cursor.at];
    surface.is_of(Dialect::RspQl, cursor)?;
    cursor.bump();
    if let Some(variable) = cursor.take_kind(TokenKind::Variable) {
        let mut values = format!("VALUES {} {{", variable.text(cursor.source));
        surface.windows.iter().for_each(|window| {
            let _ = write!(values, " {}", window.name);
        });
        surface.edits.push((keyword.range(), values + " } GRAPH"));
        return Ok(());
    }
    let name_token = source_token(cursor, "the name of a window, or a variable")?;
    let name = surface.names.resolve(cursor.source, name_token)?;
    if !surface.windows.iter().any(|window| window.name == name) {
        let known: Vec<String> = (surface.windows.iter())
            .map(|window| window.name.to_string())
            .collect();
        let known = match known.is_empty() {
            true => "it has none".to_owned(),
            false => format!("it has {}", known.join(", ")),
        };
        return Err(ParseError::semantics(
            cursor.source,
            name_token.start,
            format!(
                "this query has no window {name} ({known}); add FROM NAMED WINDOW {name} ON <stream> [RANGE 10s STEP 1s]"
            ),
        ));
    }
    surface.edits.push((keyword.range(), "GRAPH".to_owned()));
    Ok(())
}

/// `STREAM iri '[' window ']' {`, up to the brace.
fn stream_block(
    surface: &mut Surface,
    cursor: &mut Cursor<'_>,
    taken: &mut Option<HashSet<NamedNode>>,
) -> Result<(), ParseError> {
    let keyword = cursor.tokens[cursor.at];
    surface.is_of(Dialect::CqelsQl, cursor)?;
    cursor.bump();
    let stream_token = source_token(cursor, "the IRI of a stream")?;
    let stream = surface.names.resolve(cursor.source, stream_token)?;
    surface.bare |= stream_token.kind == TokenKind::Word;
    let start = cursor.at;
    let extent = read_extent(cursor, Dialect::CqelsQl)?;
    surface.removed.push(start..cursor.at);
    let same = (surface.windows.iter())
        .find(|window| (&window.stream, window.extent) == (&stream, extent));
    let name = match same {
        Some(window) => window.name.clone(),
        None => {
            let taken = taken.get_or_insert_with(|| window_like_names(surface, cursor));
            let name = free_name(&stream, surface.windows.len() + 1, taken);
            let place = Place::of(cursor.source, keyword.start);
            surface.windows.push(WindowClause {
                stream,
                name: name.clone(),
                extent,
                in_default: false,
                named: true,
                line: place.line,
                column: place.column,
            });
            surface.window_offsets.push(stream_token.start);
            name
        }
    };
    surface.edits.push((keyword.range(), "GRAPH".to_owned()));
    surface.edits.push((stream_token.range(), name.to_string()));
    Ok(())
}

/// The part of a window's name between its stream and its number.
const NAME_PART: &str = "/window/";

/// The names in a text that could be those of windows of CQELS-QL.
fn window_like_names(surface: &Surface, cursor: &Cursor<'_>) -> HashSet<NamedNode> {
    let mut names = HashSet::new();
    for token in cursor.tokens {
        if matches!(
            token.kind,
            TokenKind::Iri | TokenKind::PrefixedName | TokenKind::Word
        ) && let Ok(name) = surface.names.resolve(cursor.source, *token)
            && name.as_str().contains(NAME_PART)
        {
            names.insert(name);
        }
    }
    names
}

/// A name for a window that has none; EXPLAIN shows it. The text does not contain it, so that
/// `GRAPH <…/window/1>` and FROM NAMED read the stored graph of that name. Only `GRAPH ?g` would
/// miss a stored graph with the chosen name.
fn free_name(stream: &NamedNode, number: usize, taken: &mut HashSet<NamedNode>) -> NamedNode {
    let mut number = number;
    loop {
        let name = NamedNode::new_unchecked(format!("{}{NAME_PART}{number}", stream.as_str()));
        if taken.insert(name.clone()) {
            return name;
        }
        number += 1;
    }
}

/// In RSP-QL a window is read with WINDOW: `GRAPH w` would read a graph that is not there.
fn refuse_window_as_graph(surface: &Surface, cursor: &Cursor<'_>) -> Result<(), ParseError> {
    let token = cursor.tokens[cursor.at];
    let is_window = surface.dialect == Some(Dialect::RspQl)
        && (surface.names.resolve(cursor.source, token))
            .is_ok_and(|name| surface.windows.iter().any(|window| window.name == name));
    if is_window {
        return Err(ParseError::semantics(
            cursor.source,
            cursor.tokens[cursor.at - 1].start,
            format!(
                "{name} is a window of this query, and no graph; write WINDOW {name} {{ … }}",
                name = token.text(cursor.source)
            ),
        ));
    }
    Ok(())
}

/// Behind `GRAPH ?g { … }`, with the cursor at the variable: a filter that leaves the windows out.
fn keep_from_windows(surface: &mut Surface, mut cursor: Cursor<'_>) {
    let variable = cursor.peek_text();
    cursor.bump();
    let Some(close) = closing_brace(cursor) else {
        return;
    };
    let names: Vec<String> = (surface.windows.iter())
        .map(|window| window.name.to_string())
        .collect();
    let filter = format!(" FILTER({variable} NOT IN ({}))", names.join(", "));
    surface.edits.push((close.end..close.end, filter));
}

/// The brace that closes the group that begins here. Without one the grammar says what is missing.
fn closing_brace(mut cursor: Cursor<'_>) -> Option<Token> {
    let mut depth = 0usize;
    while let Some(token) = cursor.bump() {
        if token.kind == TokenKind::Punctuation {
            match token.text(cursor.source) {
                "{" => depth += 1,
                "}" => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
        if depth == 0 {
            return Some(token);
        }
    }
    None
}
