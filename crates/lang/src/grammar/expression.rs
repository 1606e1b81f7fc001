//! Expressions. The recogniser ignores precedence and checks which tokens may stand next to each
//! other.

use super::{Checked, Grammar, IN_PATTERN, Scope, TermRules};
use crate::text::error::ParseError;
use crate::text::words;
use crate::token::TokenKind;

impl Grammar<'_> {
    /// Whether a constraint (of FILTER, HAVING, ORDER BY) starts here.
    pub(super) fn at_constraint(&self) -> bool {
        let cursor = &self.cursor;
        match cursor.peek_kind() {
            Some(TokenKind::Punctuation) => cursor.is_punctuation("("),
            Some(TokenKind::Iri | TokenKind::PrefixedName) => true,
            Some(TokenKind::Word) => {
                let word = cursor.peek_text();
                cursor.is_any_keyword(&["EXISTS", "NOT"])
                    || (cursor.is_punctuation_at(1, "(")
                        && (words::function_arity(word).is_some() || words::is_aggregate(word)))
            }
            _ => false,
        }
    }

    /// `( … )`, a function call, or EXISTS.
    pub(super) fn constraint(&mut self, expected: &str) -> Checked {
        if self.cursor.is_punctuation("(") {
            return self.bracketed_expression();
        }
        if !self.at_constraint() {
            return Err(self.cursor.unexpected(expected));
        }
        self.primary()
    }

    pub(super) fn bracketed_expression(&mut self) -> Checked {
        self.cursor.expect_punctuation("(")?;
        self.expression()?;
        self.close_parenthesis()
    }

    fn close_parenthesis(&mut self) -> Checked {
        if self.cursor.take_punctuation(")") {
            return Ok(());
        }
        Err(self.cursor.unexpected("an operator or `)`"))
    }

    pub(super) fn expression(&mut self) -> Checked {
        loop {
            while ["!", "-", "+"]
                .iter()
                .any(|sign| self.cursor.take_punctuation(sign))
            {}
            self.primary()?;
            if self.cursor.is_keyword("IN")
                || (self.cursor.is_keyword("NOT") && self.cursor.is_keyword_at(1, "IN"))
            {
                self.cursor.take_keyword("NOT");
                self.cursor.bump();
                self.expression_list()?;
            }
            const OPERATORS: [&str; 12] = [
                "||", "&&", "=", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/",
            ];
            if !OPERATORS
                .iter()
                .any(|operator| self.cursor.take_punctuation(operator))
            {
                return Ok(());
            }
        }
    }

    fn expression_list(&mut self) -> Checked {
        self.cursor.expect_punctuation("(")?;
        if self.cursor.take_punctuation(")") {
            return Ok(());
        }
        loop {
            self.expression()?;
            if !self.cursor.take_punctuation(",") {
                break;
            }
        }
        if self.cursor.take_punctuation(")") {
            Ok(())
        } else {
            Err(self.cursor.unexpected("`,` or `)`"))
        }
    }

    fn primary(&mut self) -> Checked {
        const EXPECTED: &str = "an expression (a variable, a literal, an IRI, a function or `(`)";
        match self.cursor.peek_kind() {
            Some(TokenKind::Variable) => {
                let token = self.cursor.bump();
                if self.aggregate_depth == 0 {
                    self.free_variables.extend(token);
                }
                Ok(())
            }
            Some(TokenKind::Word) => self.word_expression(EXPECTED),
            Some(TokenKind::Iri | TokenKind::PrefixedName) => {
                self.iri(EXPECTED)?;
                if self.cursor.is_punctuation("(") {
                    self.call_by_iri()
                } else {
                    Ok(())
                }
            }
            Some(TokenKind::Punctuation) if self.cursor.is_punctuation("(") => {
                self.bracketed_expression()
            }
            Some(TokenKind::Punctuation) if self.cursor.is_punctuation("<<") => {
                let terms = TermRules {
                    place: "an expression",
                    blank_nodes: false,
                    ..IN_PATTERN
                };
                self.with_terms(terms, |grammar| grammar.triple_term(&mut Scope::new()))
            }
            _ if self.at_literal() => self.literal(),
            _ => Err(self.cursor.unexpected(EXPECTED)),
        }
    }

    /// A keyword-like expression: true, false, EXISTS, a function, an aggregate, or a bare name.
    fn word_expression(&mut self, expected: &str) -> Checked {
        let word = self.cursor.peek_text();
        if self.at_literal() {
            return self.literal();
        }
        if self.cursor.take_keyword("EXISTS") {
            return self.nested_group();
        }
        if self.cursor.is_keyword("NOT") {
            self.cursor.bump();
            self.cursor.expect_keyword("EXISTS")?;
            return self.nested_group();
        }
        if !self.cursor.is_punctuation_at(1, "(") {
            return self.iri(expected).map(drop);
        }
        if words::is_aggregate(word) {
            return self.aggregate();
        }
        let Some((least, most)) = words::function_arity(word) else {
            return Err(self.unknown_function(word));
        };
        let offset = self.cursor.offset();
        self.cursor.bump();
        if word.eq_ignore_ascii_case("BOUND") {
            self.cursor.expect_punctuation("(")?;
            self.variable("a variable (BOUND takes nothing else)")?;
            return self.close_parenthesis();
        }
        let reads = self.free_variables.len();
        let count = self.arguments()?;
        if word.eq_ignore_ascii_case("COALESCE") {
            // COALESCE may read an unbound variable.
            self.free_variables.truncate(reads);
        }
        if (least..=most).contains(&count) {
            return Ok(());
        }
        let takes = match (least, most) {
            (0, 0) => "no arguments".to_owned(),
            (1, 1) => "one argument".to_owned(),
            (a, b) if a == b => format!("{a} arguments"),
            (a, b) => format!("{a} or {b} arguments"),
        };
        Err(ParseError::syntax(
            self.cursor.source,
            offset,
            format!(
                "{} takes {takes}, but is given {count} here; correct the call",
                word.to_ascii_uppercase()
            ),
        ))
    }

    fn unknown_function(&self, word: &str) -> ParseError {
        let remedy = match words::near_keyword(word) {
            Some(near) => format!("did you mean {near}?"),
            None => "a function of your own is called by its IRI".to_owned(),
        };
        ParseError::syntax(
            self.cursor.source,
            self.cursor.offset(),
            format!("there is no function `{word}`; {remedy}"),
        )
    }

    fn arguments(&mut self) -> Checked<usize> {
        self.cursor.expect_punctuation("(")?;
        if self.cursor.take_punctuation(")") {
            return Ok(0);
        }
        let mut count = 0;
        loop {
            self.expression()?;
            count += 1;
            if !self.cursor.take_punctuation(",") {
                break;
            }
        }
        if self.cursor.take_punctuation(")") {
            Ok(count)
        } else {
            Err(self.cursor.unexpected("an operator, `,` or `)`"))
        }
    }

    fn call_by_iri(&mut self) -> Checked {
        if !self.cursor.is_keyword_at(1, "DISTINCT") {
            return self.arguments().map(drop);
        }
        self.cursor.at += 2;
        self.expression()?;
        self.close_parenthesis()
    }

    fn aggregate(&mut self) -> Checked {
        let name = self.cursor.peek_text().to_ascii_uppercase();
        self.cursor.bump();
        self.saw_aggregate = true;
        self.cursor.expect_punctuation("(")?;
        self.cursor.take_keyword("DISTINCT");
        if name == "COUNT" && self.cursor.take_punctuation("*") {
            return self.close_parenthesis();
        }
        self.aggregate_depth += 1;
        let argument = self.expression();
        self.aggregate_depth -= 1;
        argument?;
        if name == "GROUP_CONCAT" && self.cursor.take_punctuation(";") {
            self.cursor.expect_keyword("SEPARATOR")?;
            self.cursor.expect_punctuation("=")?;
            if self.cursor.take_kind(TokenKind::String).is_none() {
                return Err(self.cursor.unexpected("the separator as a string"));
            }
        }
        self.close_parenthesis()
    }

    /// A group whose variables are not visible outside.
    fn nested_group(&mut self) -> Checked {
        let outer = self.current_bgp;
        let reads = self.free_variables.len();
        let saw_aggregate = self.saw_aggregate;
        self.group_graph_pattern()?;
        self.current_bgp = outer;
        self.free_variables.truncate(reads);
        self.saw_aggregate = saw_aggregate;
        Ok(())
    }
}
