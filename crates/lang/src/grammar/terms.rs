//! Terms: IRIs, names, variables, literals, and the rows of VALUES.

use super::{Checked, Grammar, IN_INSERT_DATA, Scope, TermRules};
use crate::text::error::ParseError;
use crate::text::words;
use crate::token::{Token, TokenKind};

impl<'t> Grammar<'t> {
    /// VALUES data: checks that every row is as wide as the variable list.
    pub(super) fn data_block(&mut self) -> Checked<Scope<'t>> {
        if let Some(token) = self.cursor.take_kind(TokenKind::Variable) {
            self.cursor.expect_punctuation("{")?;
            while !self.cursor.take_punctuation("}") {
                self.data_value()?;
            }
            return Ok(Scope::from([self.variable_name(token)]));
        }
        if !self.cursor.take_punctuation("(") {
            return Err(self
                .cursor
                .unexpected("a variable or a list of variables in parentheses"));
        }
        let mut scope = Scope::new();
        while let Some(token) = self.cursor.take_kind(TokenKind::Variable) {
            let name = self.variable_name(token);
            if !scope.insert(name) {
                return Err(self.semantics(
                    token.start,
                    format!("?{name} stands twice in this VALUES; name each variable once"),
                ));
            }
        }
        self.cursor.expect_punctuation(")")?;
        self.cursor.expect_punctuation("{")?;
        while !self.cursor.take_punctuation("}") {
            let row = self.cursor.offset();
            if !self.cursor.take_punctuation("(") {
                return Err(self.cursor.unexpected("a row `( … )` or `}`"));
            }
            let mut width = 0;
            while !self.cursor.take_punctuation(")") {
                self.data_value()?;
                width += 1;
            }
            if width != scope.len() {
                return Err(self.semantics(
                    row,
                    format!("this row has {width} of the {} values that its variables need; write UNDEF where a value is unknown", scope.len()),
                ));
            }
        }
        Ok(scope)
    }

    pub(super) fn data_value(&mut self) -> Checked {
        if self.cursor.take_keyword("UNDEF") {
            return Ok(());
        }
        match self.cursor.peek_kind() {
            Some(TokenKind::Variable | TokenKind::BlankLabel) => {
                Err(self.cursor.unexpected("an IRI, a literal or UNDEF"))
            }
            _ if self.cursor.is_punctuation("<<") => self.with_terms(IN_INSERT_DATA, |grammar| {
                grammar.triple_term(&mut Scope::new())
            }),
            _ if self.at_literal() => self.literal(),
            _ => self
                .iri("an IRI, a literal, UNDEF or the end of the row")
                .map(drop),
        }
    }

    /// An IRI, prefixed name or bare name.
    pub(super) fn iri(&mut self, expected: &str) -> Checked<Token> {
        let Some(token) = self.cursor.peek() else {
            return Err(self.cursor.unexpected(expected));
        };
        match token.kind {
            TokenKind::Iri => self.check_iri(token)?,
            TokenKind::PrefixedName => {
                self.check_prefix(token)?;
                if token.text(self.cursor.source).matches('.').count() > 1 {
                    self.respelled.push(self.cursor.at);
                }
            }
            TokenKind::Word if self.may_be_bare_name() => {
                if !self.accept_bare_names {
                    return Err(self.bare_name_without_namespace(expected));
                }
                self.bare_names.push(self.cursor.at);
            }
            _ => return Err(self.cursor.unexpected(expected)),
        }
        self.cursor.bump();
        Ok(token)
    }

    pub(super) fn at_iri(&self) -> bool {
        match self.cursor.peek_kind() {
            Some(TokenKind::Iri | TokenKind::PrefixedName) => true,
            Some(TokenKind::Word) => self.accept_bare_names && self.may_be_bare_name(),
            _ => false,
        }
    }

    /// Whether the word here can be a bare name: no keyword, and no function that is called.
    pub(super) fn may_be_bare_name(&self) -> bool {
        let word = self.cursor.peek_text();
        let is_call = self.cursor.is_punctuation_at(1, "(");
        !words::is_keyword(word)
            && word != "a"
            && !(is_call && (words::function_arity(word).is_some() || words::is_aggregate(word)))
    }

    pub(super) fn bare_name_without_namespace(&self, expected: &str) -> ParseError {
        let mut error = self.cursor.unexpected(expected);
        if !error.message.contains("did you mean") {
            let word = self.cursor.peek_text();
            error.message.push_str(&format!(
                "; for a bare name set the default namespace (--namespace), or write `:{word}` with PREFIX : <…>"
            ));
        }
        error
    }

    pub(super) fn check_iri(&self, token: Token) -> Checked {
        let text = token.text(self.cursor.source);
        let iri = &text[1..text.len() - 1];
        // Escapes are resolved by the parser proper; it also says whether the result is an IRI.
        if iri.contains('\\') {
            return Ok(());
        }
        let fault = if self.has_base {
            oxiri::IriRef::parse(iri)
                .err()
                .map(|fault| fault.to_string())
        } else {
            oxiri::Iri::parse(iri).err().map(|fault| fault.to_string())
        };
        let Some(fault) = fault else { return Ok(()) };
        let message = if !self.has_base && oxiri::IriRef::parse(iri).is_ok() {
            format!(
                "the IRI {text} is relative and there is no base; write it in full, or declare BASE <…>"
            )
        } else {
            format!(
                "{text} is no valid IRI ({}); correct it, percent-encoding what may not stand in one",
                fault.to_lowercase()
            )
        };
        Err(ParseError::syntax(self.cursor.source, token.start, message))
    }

    pub(super) fn check_prefix(&self, token: Token) -> Checked {
        let text = token.text(self.cursor.source);
        let prefix = text.split(':').next().unwrap_or_default();
        if self.prefixes.contains(prefix) {
            return Ok(());
        }
        Err(ParseError::syntax(
            self.cursor.source,
            token.start,
            format!(
                "the prefix `{prefix}:` of `{text}` is not declared; add `PREFIX {prefix}: <…>` before the query"
            ),
        ))
    }

    pub(super) fn variable(&mut self, expected: &str) -> Checked<Token> {
        self.cursor
            .take_kind(TokenKind::Variable)
            .ok_or_else(|| self.cursor.unexpected(expected))
    }

    pub(super) fn variable_name(&self, token: Token) -> &'t str {
        &self.cursor.source[token.start + 1..token.end]
    }

    pub(super) fn variable_or_iri(&mut self, expected: &str) -> Checked<Option<&'t str>> {
        if let Some(token) = self.cursor.take_kind(TokenKind::Variable) {
            if !self.terms.variables {
                self.cursor.at -= 1;
                return Err(self.no_variables_here());
            }
            return Ok(Some(self.variable_name(token)));
        }
        self.iri(expected).map(|_| None)
    }

    pub(super) fn no_variables_here(&self) -> ParseError {
        ParseError::syntax(
            self.cursor.source,
            self.cursor.offset(),
            format!(
                "{}, but {} takes constants only; use {} … WHERE for variables",
                self.cursor.describe_next(),
                self.terms.place,
                self.terms.place.trim_end_matches(" DATA")
            ),
        )
    }

    /// Begins a basic graph pattern: blank nodes are its own.
    pub(super) fn begin_bgp(&mut self) {
        self.bgp_count += 1;
        self.current_bgp = self.bgp_count;
    }

    pub(super) fn with_terms<T>(
        &mut self,
        terms: TermRules,
        read: impl FnOnce(&mut Self) -> Checked<T>,
    ) -> Checked<T> {
        let outer = std::mem::replace(&mut self.terms, terms);
        let result = read(self);
        self.terms = outer;
        result
    }

    pub(super) fn at_literal(&self) -> bool {
        let cursor = &self.cursor;
        match cursor.peek_kind() {
            Some(
                TokenKind::String | TokenKind::Integer | TokenKind::Decimal | TokenKind::Double,
            ) => true,
            Some(TokenKind::Word) => cursor.is_any_keyword(&["true", "false"]),
            Some(TokenKind::Punctuation) => {
                cursor.is_punctuation("+") || cursor.is_punctuation("-")
            }
            _ => false,
        }
    }

    pub(super) fn literal(&mut self) -> Checked {
        if self.cursor.take_kind(TokenKind::String).is_some() {
            if self.cursor.take_punctuation("^^") {
                self.iri("the IRI of a datatype")?;
            } else {
                self.cursor.take_kind(TokenKind::LanguageTag);
            }
            return Ok(());
        }
        if self.cursor.take_punctuation("+")
            || self.cursor.take_punctuation("-")
            || !self.cursor.is_any_keyword(&["true", "false"])
        {
            return match self.cursor.peek_kind() {
                Some(TokenKind::Integer | TokenKind::Decimal | TokenKind::Double) => {
                    self.cursor.bump();
                    Ok(())
                }
                _ => Err(self.cursor.unexpected("a number")),
            };
        }
        if !["true", "false"].contains(&self.cursor.peek_text()) {
            self.respelled.push(self.cursor.at);
        }
        self.cursor.bump();
        Ok(())
    }

    pub(super) fn semantics(&self, offset: usize, message: impl Into<String>) -> ParseError {
        ParseError::semantics(self.cursor.source, offset, message)
    }
}
