//! Patterns over the merge of windows and stored graphs, which is the default graph of C-SPARQL
//! alone. The other dialects read each of the graphs by itself: a pattern becomes the UNION of its
//! solutions in each, and DISTINCT, since a merge has a triple once.

use super::writer::Writer;
use somersault_lang::token::TokenKind;

impl<'t> Writer<'t> {
    /// Writes the next part of a group whose patterns read merged graphs, if it is neither a group
    /// nor a block.
    pub(super) fn merged(&mut self) -> Result<(), String> {
        const PASSED: [&str; 6] = [".", "OPTIONAL", "UNION", "MINUS", "NOT", "EXISTS"];
        if PASSED.iter().any(|word| self.is_word(word)) {
            self.at += 1;
        } else if self.is_word("FILTER") {
            self.at += 1;
            if !(self.is_word("NOT") || self.is_word("EXISTS")) {
                self.expression()?;
            }
        } else if self.is_word("BIND") {
            self.expression()?;
        } else if self.is_word("VALUES") {
            self.values();
        } else {
            self.triples()?;
        }
        Ok(())
    }

    /// Copies through the closing bracket of the next expression, `(…)` or `name(…)`, which may
    /// hold no pattern.
    fn expression(&mut self) -> Result<(), String> {
        while self.at < self.tokens.len() && !self.is("(") {
            self.at += 1;
        }
        let mut depth = 0_usize;
        while self.at < self.tokens.len() {
            match self.word(0) {
                "(" => depth += 1,
                ")" => depth -= 1,
                "{" => return Err("an expression holds a pattern over merged graphs".to_owned()),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                break;
            }
        }
        Ok(())
    }

    /// `VALUES … { … }`: its braces are no group.
    fn values(&mut self) {
        while self.at < self.tokens.len() && !self.is("}") {
            self.at += 1;
        }
        self.at += 1;
    }

    /// The triples of one subject.
    fn triples(&mut self) -> Result<(), String> {
        let start = self.tokens[self.at].start;
        let mut patterns = Vec::new();
        let subject = self.term()?;
        loop {
            let verb = match self.is_word("a") {
                true => {
                    self.at += 1;
                    "a"
                }
                false => self.term()?,
            };
            loop {
                let object = self.term()?;
                patterns.push(self.in_each(&format!("{subject} {verb} {object}")));
                if !self.is(",") {
                    break;
                }
                self.at += 1;
            }
            let mut goes_on = false;
            while self.is(";") {
                self.at += 1;
                goes_on = true;
            }
            if !goes_on || self.is(".") || self.is("}") {
                break;
            }
        }
        let end = self.tokens[self.at - 1].end;
        self.replace(start, end, &patterns.join(" "));
        Ok(())
    }

    /// A variable, an IRI or a literal; nothing that stands for several patterns.
    fn term(&mut self) -> Result<&'t str, String> {
        let Some(token) = self.tokens.get(self.at).copied() else {
            return Err("it ends within its pattern".to_owned());
        };
        let first = token.text(self.text);
        self.at += 1;
        let mut end = token.end;
        match token.kind {
            TokenKind::Variable
            | TokenKind::Iri
            | TokenKind::PrefixedName
            | TokenKind::Integer
            | TokenKind::Decimal
            | TokenKind::Double => {}
            TokenKind::Word if ["true", "false"].contains(&first) => {}
            TokenKind::String => {
                let next = self.tokens.get(self.at).copied();
                if let Some(tag) = next.filter(|next| next.kind == TokenKind::LanguageTag) {
                    self.at += 1;
                    end = tag.end;
                } else if self.is("^^") {
                    self.at += 2;
                    end = self.tokens[..self.at.min(self.tokens.len())]
                        .last()
                        .map_or(end, |token| token.end);
                }
            }
            _ => {
                return Err(format!(
                    "`{first}` stands in a pattern over merged graphs, where only plain triples can be read one by one"
                ));
            }
        }
        Ok(&self.text[token.start..end])
    }

    /// A pattern as it is read from the merge of the windows with what is stored.
    fn in_each(&self, pattern: &str) -> String {
        let windows = self.query.windows.iter().enumerate();
        let mut arms: Vec<String> = windows
            .filter(|(_, window)| window.in_default)
            .map(|(number, _)| {
                let opening = self.target.opening(self.query, number);
                format!("{{ {opening} {{ {pattern} }} }}")
            })
            .collect();
        arms.push(format!("{{ {pattern} }}"));
        format!(
            "{{ SELECT DISTINCT * WHERE {{ {} }} }}",
            arms.join(" UNION ")
        )
    }
}
