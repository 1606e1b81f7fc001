//! The scanner under the tokenizer: one function per token class, each takes the longest match or
//! nothing.
//!
//! Character classes are those of the SPARQL grammar (PN_CHARS_BASE and its relatives).

use super::duration::parse_iso;
use super::kinds::{Fault, TokenKind};

/// PN_CHARS_BASE of the SPARQL grammar.
fn is_name_base(c: char) -> bool {
    matches!(c, 'A'..='Z' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

/// PN_CHARS_U: the first character of a word.
pub(crate) fn is_name_start(c: char) -> bool {
    c == '_' || is_name_base(c)
}

fn is_variable_char(c: char) -> bool {
    is_name_start(c)
        || matches!(c, '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

/// PN_CHARS.
fn is_name_char(c: char) -> bool {
    c == '-' || is_variable_char(c)
}

/// The longest prefix with dots, in characters; a longer one is read as words.
const LONGEST_DOTTED_PREFIX: usize = 256;

/// A place in a text that only moves forward.
pub(crate) struct Scanner<'t> {
    source: &'t str,
    at: usize,
}

impl<'t> Scanner<'t> {
    pub(crate) fn new(source: &'t str) -> Self {
        Scanner { source, at: 0 }
    }

    /// The byte offset of the next character.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'t str {
        &self.source[self.at..]
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(crate) fn peek_second(&self) -> Option<char> {
        self.rest().chars().nth(1)
    }

    pub(crate) fn bump(&mut self) {
        if let Some(c) = self.peek() {
            self.at += c.len_utf8();
        }
    }

    /// Takes characters while they are of a class; gives how many bytes that were.
    fn take_while(&mut self, of_class: impl Fn(char) -> bool) -> usize {
        let rest = self.rest();
        let length = rest.find(|c| !of_class(c)).unwrap_or(rest.len());
        self.at += length;
        length
    }

    pub(crate) fn take_literally(&mut self, what: &str) -> bool {
        let found = self.rest().starts_with(what);
        if found {
            self.at += what.len();
        }
        found
    }

    /// White space and comments.
    pub(crate) fn skip_blank(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n'));
            if self.peek() != Some('#') {
                return;
            }
            self.take_while(|c| !matches!(c, '\r' | '\n'));
        }
    }

    pub(crate) fn take_iri(&mut self) -> bool {
        let rest = self.rest();
        let is_inside =
            |c: char| c > ' ' && !matches!(c, '<' | '>' | '"' | '{' | '}' | '|' | '^' | '`');
        let inside = rest[1..].find(|c| !is_inside(c)).unwrap_or(rest.len() - 1);
        let closed = rest[1 + inside..].starts_with('>');
        if closed {
            self.at += inside + 2;
        }
        closed
    }

    pub(crate) fn take_string(&mut self) -> Result<(), Fault> {
        let quote = if self.rest().starts_with('"') {
            '"'
        } else {
            '\''
        };
        let triple = if quote == '"' { "\"\"\"" } else { "'''" };
        let long = self.take_literally(triple);
        if !long {
            self.bump();
        }
        let mut fault = None;
        loop {
            match self.peek() {
                None => return Err(Fault::UnterminatedString),
                Some('\r' | '\n') if !long => return Err(Fault::UnterminatedString),
                Some('\\') => {
                    self.bump();
                    if !self.take_escape() {
                        fault = Some(Fault::BadEscape);
                    }
                }
                Some(_) if long && self.take_literally(triple) => break,
                Some(c) => {
                    self.bump();
                    if c == quote && !long {
                        break;
                    }
                }
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// Reads the escape after a backslash in a string.
    fn take_escape(&mut self) -> bool {
        let digits = match self.peek() {
            Some('t' | 'b' | 'n' | 'r' | 'f' | '"' | '\'' | '\\') => 0,
            Some('u') => 4,
            Some('U') => 8,
            // Left for the loop: a line end must still end a short string.
            _ => return false,
        };
        self.bump();
        let hex = self.rest().get(..digits).unwrap_or_default();
        if hex.len() < digits || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        self.at += digits;
        // Surrogates are no characters.
        digits == 0
            || u32::from_str_radix(hex, 16)
                .ok()
                .and_then(char::from_u32)
                .is_some()
    }

    pub(crate) fn take_variable(&mut self) -> bool {
        let name = &self.rest()[1..];
        let starts = name
            .chars()
            .next()
            .is_some_and(|c| is_variable_char(c) && (is_name_start(c) || c.is_ascii_digit()));
        if starts {
            self.at += 1;
            self.take_while(is_variable_char);
        }
        starts
    }

    pub(crate) fn take_language_tag(&mut self) -> bool {
        let start = self.at;
        self.at += 1;
        if self.take_while(|c| c.is_ascii_alphabetic()) == 0 {
            self.at = start;
            return false;
        }
        loop {
            let before = self.at;
            if !self.take_literally("-") || self.take_while(|c| c.is_ascii_alphanumeric()) == 0 {
                self.at = before;
                break;
            }
        }
        let before = self.at;
        if !self.take_literally("--") || self.take_while(|c| c.is_ascii_alphabetic()) == 0 {
            self.at = before;
        }
        true
    }

    pub(crate) fn take_blank_label(&mut self) -> bool {
        let rest = self.rest();
        let starts = rest.starts_with("_:")
            && rest[2..]
                .chars()
                .next()
                .is_some_and(|c| is_name_start(c) || c.is_ascii_digit());
        if starts {
            self.at += 2;
            self.take_with_inner_dots(is_name_char);
        }
        starts
    }

    /// Characters of a class with dots between them, but none at the end.
    fn take_with_inner_dots(&mut self, of_class: impl Fn(char) -> bool + Copy) {
        loop {
            self.take_while(of_class);
            let dots = self.rest().len() - self.rest().trim_start_matches('.').len();
            if dots == 0 || !self.rest()[dots..].chars().next().is_some_and(of_class) {
                return;
            }
            self.at += dots;
        }
    }

    /// The local part of a prefixed name; may be empty.
    pub(crate) fn take_local_name(&mut self) {
        let mut first = true;
        loop {
            let rest = self.rest();
            let dots = rest.len() - rest.trim_start_matches('.').len();
            if first && dots > 0 {
                return;
            }
            let length = local_unit(&rest[dots..], first);
            if length == 0 {
                return;
            }
            self.at += dots + length;
            first = false;
        }
    }

    /// `prefix:local`, if the word here is followed by a colon.
    pub(crate) fn take_prefixed_name(&mut self) -> bool {
        let start = self.at;
        // A prefix with dots is searched in a bounded part of the text. Otherwise `a.a.a.…` would
        // be scanned again for each `a`.
        let stretch = self
            .rest()
            .char_indices()
            .nth(LONGEST_DOTTED_PREFIX)
            .map_or(self.rest().len(), |(at, _)| at);
        let mut ahead = Scanner::new(&self.rest()[..stretch]);
        ahead.take_with_inner_dots(is_name_char);
        self.at += ahead.at;
        if self.take_literally(":") {
            self.take_local_name();
            return true;
        }
        self.at = start;
        false
    }

    /// A word: a keyword or bare name. `NOW-10s` is three tokens.
    pub(crate) fn take_bare_word(&mut self) {
        let rest = self.rest();
        if rest.len() > 3
            && rest.is_char_boundary(3)
            && rest[..3].eq_ignore_ascii_case("now")
            && rest[3..].starts_with('-')
        {
            self.at += 3;
            return;
        }
        let start = self.at;
        self.take_while(is_name_char);
        let word = &self.source[start..self.at];
        self.at = start + word.trim_end_matches('-').len();
    }

    pub(crate) fn take_number(&mut self) -> TokenKind {
        let is_digit = |c: char| c.is_ascii_digit();
        let whole = self.take_while(is_digit);
        let mut kind = TokenKind::Integer;
        let after_dot = self
            .rest()
            .strip_prefix('.')
            .and_then(|rest| rest.chars().next());
        let exponent_follows =
            self.rest().starts_with('.') && exponent_length(&self.rest()[1..]) > 0;
        if after_dot.is_some_and(is_digit) || (whole > 0 && exponent_follows) {
            self.at += 1;
            self.take_while(is_digit);
            kind = TokenKind::Decimal;
        }
        let exponent = exponent_length(self.rest());
        if exponent > 0 {
            self.at += exponent;
            return TokenKind::Double;
        }
        if self.take_while(|c| c.is_ascii_alphabetic()) > 0 {
            return TokenKind::Duration;
        }
        kind
    }

    /// `PT0.5S`, `P1D`: taken only where the whole word is such a duration.
    pub(crate) fn take_iso_duration(&mut self) -> bool {
        let rest = self.rest();
        if !rest.starts_with(['P', 'p']) {
            return false;
        }
        let end = rest
            .bytes()
            .take(64)
            .take_while(|b| b.is_ascii_alphanumeric() || *b == b'.')
            .count();
        let word = &rest[..end];
        let word = word.trim_end_matches('.');
        let next = rest[word.len()..].chars().next();
        let found = !next.is_some_and(is_name_char) && parse_iso(word).is_some();
        if found {
            self.at += word.len();
        }
        found
    }
}

/// Bytes of one unit of a local name: a character, `%41`, or `\-`; 0 if none.
fn local_unit(rest: &str, first: bool) -> usize {
    let mut chars = rest.chars();
    match chars.next() {
        Some('%') if rest.len() >= 3 && rest.as_bytes()[1..3].iter().all(u8::is_ascii_hexdigit) => {
            3
        }
        Some('\\') => match chars.next() {
            Some(
                '_' | '~' | '.' | '-' | '!' | '$' | '&' | '\'' | '(' | ')' | '*' | '+' | ',' | ';'
                | '=' | '/' | '?' | '#' | '@' | '%',
            ) => 2,
            _ => 0,
        },
        Some(c)
            if c == ':'
                || c.is_ascii_digit()
                || is_name_start(c)
                || (!first && is_name_char(c)) =>
        {
            c.len_utf8()
        }
        _ => 0,
    }
}

/// Bytes of `e5`, `E-10`; 0 if none.
fn exponent_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    if !matches!(bytes.first(), Some(b'e' | b'E')) {
        return 0;
    }
    let sign = usize::from(matches!(bytes.get(1), Some(b'+' | b'-')));
    let digits = bytes[1 + sign..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    if digits == 0 { 0 } else { 1 + sign + digits }
}
