//! Names in clauses: of queries, streams, windows and graphs.

use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::names::{Names, string_value};
use crate::text::words;
use crate::token::{Token, TokenKind};

/// A name: an IRI, a prefixed name, a string or a word.
pub(crate) fn name_token(cursor: &mut Cursor<'_>, expected: &str) -> Result<Token, ParseError> {
    let is_name = match cursor.peek_kind() {
        Some(TokenKind::Iri | TokenKind::PrefixedName | TokenKind::String) => true,
        Some(TokenKind::Word) => !words::is_keyword(cursor.peek_text()),
        _ => false,
    };
    if cursor.peek_kind() == Some(TokenKind::Word) && !is_name {
        let word = cursor.peek_text();
        return Err(ParseError::syntax(
            cursor.source,
            cursor.offset(),
            format!(
                "`{word}` is a keyword, and {expected} was expected; write it as a string (\"{word}\"), or choose another name"
            ),
        ));
    }
    if !is_name {
        return Err(cursor.unexpected(&format!("{expected} (a word, a string or an IRI)")));
    }
    Ok(cursor.bump().expect("a token was just seen"))
}

/// The name that a token gives to a query: words as they are, strings without their quotes and
/// escapes, IRIs resolved.
pub(crate) fn name_text(source: &str, token: Token, names: &Names) -> Result<String, ParseError> {
    let text = token.text(source);
    Ok(match token.kind {
        TokenKind::Word => text.to_owned(),
        TokenKind::String => string_value(text),
        _ => names.resolve(source, token)?.into_string(),
    })
}

/// An IRI, prefixed name or bare name.
pub(crate) fn source_token(cursor: &mut Cursor<'_>, expected: &str) -> Result<Token, ParseError> {
    let is_name = match cursor.peek_kind() {
        Some(TokenKind::Iri | TokenKind::PrefixedName) => true,
        Some(TokenKind::Word) => !words::is_keyword(cursor.peek_text()),
        _ => false,
    };
    if !is_name {
        return Err(cursor.unexpected(expected));
    }
    Ok(cursor.bump().expect("a token was just seen"))
}
