//! A walk over the tokens of a text: it shows the next token, takes it, or says what was expected
//! instead.

use crate::text::error::ParseError;
use crate::text::words;
use crate::token::{Fault, Token, TokenKind};

/// A position in a token list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'t> {
    pub(crate) source: &'t str,
    pub(crate) tokens: &'t [Token],
    pub(crate) at: usize,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(source: &'t str, tokens: &'t [Token]) -> Self {
        Cursor {
            source,
            tokens,
            at: 0,
        }
    }

    pub(crate) fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    pub(crate) fn peek_kind(&self) -> Option<TokenKind> {
        self.peek().map(|token| token.kind)
    }

    /// The text of the next token; empty at the end.
    pub(crate) fn peek_text(&self) -> &'t str {
        self.peek().map_or("", |token| token.text(self.source))
    }

    pub(crate) fn is_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// The byte offset of the next token, or of the end of the text.
    pub(crate) fn offset(&self) -> usize {
        self.peek()
            .map_or(self.source.trim_end().len(), |token| token.start)
    }

    pub(crate) fn bump(&mut self) -> Option<Token> {
        let token = self.peek();
        self.at += usize::from(token.is_some());
        token
    }

    pub(crate) fn is_keyword(&self, keyword: &str) -> bool {
        self.is_keyword_at(0, keyword)
    }

    pub(crate) fn is_keyword_at(&self, ahead: usize, keyword: &str) -> bool {
        self.tokens.get(self.at + ahead).is_some_and(|token| {
            token.kind == TokenKind::Word && token.text(self.source).eq_ignore_ascii_case(keyword)
        })
    }

    pub(crate) fn is_any_keyword(&self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is_keyword(keyword))
    }

    pub(crate) fn take_keyword(&mut self, keyword: &str) -> bool {
        let found = self.is_keyword(keyword);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn is_punctuation(&self, what: &str) -> bool {
        self.is_punctuation_at(0, what)
    }

    pub(crate) fn is_punctuation_at(&self, ahead: usize, what: &str) -> bool {
        self.tokens.get(self.at + ahead).is_some_and(|token| {
            token.kind == TokenKind::Punctuation && token.text(self.source) == what
        })
    }

    pub(crate) fn take_punctuation(&mut self, what: &str) -> bool {
        let found = self.is_punctuation(what);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn take_kind(&mut self, kind: TokenKind) -> Option<Token> {
        self.peek()
            .filter(|token| token.kind == kind)
            .inspect(|_| self.at += 1)
    }

    pub(crate) fn expect_keyword(&mut self, keyword: &str) -> Result<(), ParseError> {
        if self.take_keyword(keyword) {
            Ok(())
        } else {
            Err(self.unexpected(keyword))
        }
    }

    pub(crate) fn expect_punctuation(&mut self, what: &str) -> Result<(), ParseError> {
        if self.take_punctuation(what) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("`{what}`")))
        }
    }

    /// The error for a next token that does not fit.
    pub(crate) fn unexpected(&self, expected: &str) -> ParseError {
        if let Some(TokenKind::Bad(fault)) = self.peek_kind() {
            return self.bad_token(fault);
        }
        let found = self.describe_next();
        let hint = match self.peek_kind() {
            Some(TokenKind::Word) => words::near_keyword(self.peek_text())
                .map(|keyword| format!("; did you mean {keyword}?"))
                .unwrap_or_default(),
            Some(TokenKind::Punctuation) if self.looks_like_broken_iri() => {
                "; if an IRI was meant, it is not closed with `>`, or holds a space or one of \" { } | ^ `, \
                 which must be percent-encoded"
                    .to_owned()
            }
            _ => String::new(),
        };
        ParseError::syntax(
            self.source,
            self.offset(),
            format!("{found}, but {expected} was expected{hint}"),
        )
    }

    /// A `<` with a letter right behind it.
    fn looks_like_broken_iri(&self) -> bool {
        let rest = &self.source[self.offset()..];
        rest.starts_with('<') && rest[1..].starts_with(|c: char| c.is_ascii_alphabetic())
    }

    /// The beginning of a sentence that names the next token.
    pub(crate) fn describe_next(&self) -> String {
        let text = shorten(self.peek_text());
        match self.peek_kind() {
            None => "the text ends here".to_owned(),
            Some(TokenKind::Variable) => format!("found the variable `{text}`"),
            Some(TokenKind::Iri) => format!("found the IRI `{text}`"),
            Some(TokenKind::String) => format!("found the string `{text}`"),
            Some(TokenKind::Integer | TokenKind::Decimal | TokenKind::Double) => {
                format!("found the number `{text}`")
            }
            Some(TokenKind::Duration) => format!("found the duration `{text}`"),
            Some(TokenKind::Word) => format!("found the word `{text}`"),
            Some(_) => format!("found `{text}`"),
        }
    }

    fn bad_token(&self, fault: Fault) -> ParseError {
        let text = self.peek_text();
        let message = match fault {
            Fault::UnterminatedString => {
                let quote = if text.starts_with("\"\"\"") || text.starts_with("'''") {
                    &text[..3]
                } else {
                    &text[..1]
                };
                let long = if quote.len() == 1 {
                    " on the same line (a string over several lines stands between three quotes)"
                } else {
                    ""
                };
                format!("this string is never closed; close it with {quote}{long}")
            }
            Fault::BadEscape => format!(
                "the string {} holds a backslash that starts no escape; the escapes are \\t \\n \\r \\b \\f \\\" \\' \\\\ \
                 \\uXXXX and \\UXXXXXXXX, and a backslash itself is written \\\\",
                shorten(text)
            ),
            Fault::StrayCharacter => {
                format!(
                    "found the character `{}`, which starts nothing here; remove it",
                    text.escape_debug()
                )
            }
        };
        ParseError::syntax(self.source, self.offset(), message)
    }

    /// The error for the first [`TokenKind::Bad`] of the text, if there is one.
    pub(crate) fn first_bad_token(mut self) -> Option<ParseError> {
        self.at = self
            .tokens
            .iter()
            .position(|token| matches!(token.kind, TokenKind::Bad(_)))?;
        Some(self.unexpected(""))
    }
}

/// At most 60 characters on one line.
pub(crate) fn shorten(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(61)
        .collect();
    if line.chars().count() > 60 {
        format!("{}…", line.chars().take(57).collect::<String>())
    } else {
        line
    }
}
