//! The IRIs of a text: its prefixes, its base and the default namespace resolve tokens.

use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::token::{Token, TokenKind};
use oxiri::{Iri, IriRef};
use oxrdf::NamedNode;

/// The names in force. They are kept with each registered query.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// The prefixes with their namespaces, in the order of the prefixes.
    prefixes: Vec<(Box<str>, Box<str>)>,
    base: Option<Box<Iri<String>>>,
    default_namespace: Option<String>,
}

impl Names {
    pub(crate) fn new(base: Option<Iri<String>>, default_namespace: Option<String>) -> Self {
        Names {
            prefixes: Vec::new(),
            base: base.map(Box::new),
            default_namespace,
        }
    }

    pub(crate) fn has_default_namespace(&self) -> bool {
        self.default_namespace.is_some()
    }

    /// The namespace that bare names are resolved by.
    pub(crate) fn default_namespace(&self) -> Option<&str> {
        self.default_namespace.as_deref()
    }

    /// The base IRI of relative IRIs.
    pub(crate) fn base(&self) -> Option<&str> {
        self.base.as_ref().map(|base| base.as_str())
    }

    /// The namespace of a prefix, which is given without its colon.
    pub(crate) fn namespace(&self, prefix: &str) -> Option<&str> {
        let at = self.place_of(prefix).ok()?;
        Some(&self.prefixes[at].1)
    }

    /// The place of a prefix, or the one where it is to be inserted.
    fn place_of(&self, prefix: &str) -> Result<usize, usize> {
        self.prefixes
            .binary_search_by(|(known, _)| (**known).cmp(prefix))
    }

    fn declare(&mut self, prefix: &str, namespace: String) {
        let namespace = namespace.into_boxed_str();
        match self.place_of(prefix) {
            Ok(at) => self.prefixes[at].1 = namespace,
            Err(at) => {
                // Most texts declare one or two.
                self.prefixes
                    .reserve_exact(usize::from(self.prefixes.is_empty()));
                self.prefixes.insert(at, (prefix.into(), namespace));
            }
        }
    }

    /// Reads PREFIX, BASE and VERSION declarations. A malformed declaration is left unread, for the
    /// grammar to refuse.
    pub(crate) fn read_prologue(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ParseError> {
        loop {
            let before = cursor.at;
            if cursor.take_keyword("PREFIX") {
                let name = cursor.peek_text();
                let (Some(_), Some(iri)) = (
                    cursor.take_kind(TokenKind::PrefixedName),
                    cursor.take_kind(TokenKind::Iri),
                ) else {
                    cursor.at = before;
                    return Ok(());
                };
                let namespace = self.resolve(cursor.source, iri)?.into_string();
                self.declare(name.trim_end_matches(':'), namespace);
            } else if cursor.take_keyword("BASE") {
                let Some(iri) = cursor.take_kind(TokenKind::Iri) else {
                    cursor.at = before;
                    return Ok(());
                };
                let base = self.resolve(cursor.source, iri)?.into_string();
                self.base = Iri::parse(base).ok().map(Box::new);
            } else if cursor.is_keyword("VERSION")
                && cursor
                    .tokens
                    .get(cursor.at + 1)
                    .is_some_and(|t| t.kind == TokenKind::String)
            {
                cursor.at += 2;
            } else {
                return Ok(());
            }
        }
    }

    /// The IRI that a token names: an IRI, a prefixed name or a bare name.
    pub(crate) fn resolve(&self, source: &str, token: Token) -> Result<NamedNode, ParseError> {
        let text = token.text(source);
        let refuse = |message: String| Err(ParseError::syntax(source, token.start, message));
        let iri = match token.kind {
            TokenKind::Iri => {
                let written = unescape(&text[1..text.len() - 1]);
                match &self.base {
                    Some(base) => IriRef::parse(written)
                        .and_then(|written| base.resolve(&written))
                        .map(Iri::into_inner),
                    None => Iri::parse(written).map(Iri::into_inner),
                }
            }
            TokenKind::PrefixedName => {
                let (prefix, local) = text.split_once(':').unwrap_or((text, ""));
                let Some(namespace) = self.namespace(prefix) else {
                    return refuse(format!(
                        "the prefix `{prefix}:` of `{text}` is not declared; add `PREFIX {prefix}: <…>` before or after the header"
                    ));
                };
                Iri::parse(format!("{namespace}{}", local.replace('\\', ""))).map(Iri::into_inner)
            }
            _ => {
                let Some(namespace) = &self.default_namespace else {
                    return refuse(bare_name_message(text));
                };
                Iri::parse(format!("{namespace}{text}")).map(Iri::into_inner)
            }
        };
        match iri {
            Ok(iri) => Ok(NamedNode::new_unchecked(iri)),
            Err(_)
                if token.kind == TokenKind::Iri
                    && self.base.is_none()
                    && IriRef::parse(&text[1..text.len() - 1]).is_ok() =>
            {
                refuse(format!(
                    "the IRI {text} is relative and there is no base; write it in full, or declare BASE <…>"
                ))
            }
            Err(fault) => refuse(format!(
                "`{text}` gives no valid IRI ({}); correct it, percent-encoding what may not stand in one",
                fault.to_string().to_lowercase()
            )),
        }
    }
}

/// The message for a bare name where there is no default namespace.
pub(crate) fn bare_name_message(word: &str) -> String {
    format!(
        "`{word}` is a bare name, and there is no default namespace to resolve it by; set one (--namespace), \
         or write <…> or `:{word}` with PREFIX : <…>"
    )
}

/// The string that a string token stands for.
pub(crate) fn string_value(token: &str) -> String {
    let long = token.starts_with("\"\"\"") || token.starts_with("'''");
    let quotes = if long && token.len() >= 6 { 3 } else { 1 };
    let inside = token.get(quotes..token.len().saturating_sub(quotes));
    resolve_escapes(inside.unwrap_or_default(), |letter| {
        Some(match letter {
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            '"' | '\'' | '\\' => letter,
            _ => return None,
        })
    })
}

/// Resolves the `\u` escapes of an IRI; anything else stays as it is.
fn unescape(iri: &str) -> String {
    resolve_escapes(iri, |_| None)
}

/// Resolves `\u` and `\U`, and those escapes of one letter that `of_letter` knows; others stay as
/// they are.
fn resolve_escapes(text: &str, of_letter: impl Fn(char) -> Option<char>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        rest = after;
        let letter = after.chars().next();
        let digits = match letter {
            Some('u') => 4,
            Some('U') => 8,
            _ => 0,
        };
        let escaped = after.get(1..=digits).filter(|_| digits > 0);
        let code = escaped.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        if let Some(c) = code.and_then(char::from_u32) {
            out.push(c);
            rest = &after[digits + 1..];
        } else if let Some(c) = letter.and_then(&of_letter) {
            out.push(c);
            rest = &after[1..];
        } else {
            out.push('\\');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_iris_lose_their_escapes() {
        for (token, value) in [
            ("'tea first'", "tea first"),
            (r#""it's""#, "it's"),
            (r"'it\'s \\'", r"it's \"),
            (r#""\"\"""#, "\"\""),
            ("'''a'b'''", "a'b"),
            ("''", ""),
            (r"'\u00e9\U0001F600\t'", "é😀\t"),
        ] {
            assert_eq!(string_value(token), value, "{token}");
        }
        assert_eq!(unescape(r"http://e/\u00e9\n"), "http://e/é\\n");
    }
}
