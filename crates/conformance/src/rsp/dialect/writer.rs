//! Writes a text in another dialect, token by token: window clauses and the blocks that read
//! windows are written as the other dialect has them, and everything else is copied, spaces
//! included. The meaning of the text (its windows, its graphs) is known from the parser.

use super::Dialect;
use somersault_lang::token::{Place, Token, TokenKind, tokenize};
use somersault_lang::{ContinuousQuery, Dialect as Source, StreamOperator};

pub(super) struct Writer<'t> {
    pub(super) text: &'t str,
    pub(super) query: &'t ContinuousQuery,
    pub(super) target: Dialect,
    namespace: Option<&'t str>,
    pub(super) tokens: Vec<Token>,
    /// The next token.
    pub(super) at: usize,
    /// The text written so far.
    pub(super) out: String,
    /// The text up to here has been copied or replaced.
    pub(super) copied: usize,
    /// Whether patterns are read here from windows and stored graphs merged, which only C-SPARQL
    /// does.
    pub(super) is_merged: bool,
    /// The windows of CQELS-QL that were met: their words, and their numbers.
    blocks: Vec<(String, usize)>,
}

impl<'t> Writer<'t> {
    pub(super) fn new(
        text: &'t str,
        query: &'t ContinuousQuery,
        target: Dialect,
        namespace: Option<&'t str>,
    ) -> Self {
        Self {
            text,
            query,
            target,
            namespace,
            tokens: tokenize(text),
            at: 0,
            out: String::new(),
            copied: 0,
            is_merged: query.windows.iter().any(|window| window.in_default),
            blocks: Vec::new(),
        }
    }

    pub(super) fn write(mut self) -> Result<String, String> {
        self.outermost()?;
        let clauses = self.target.clauses(self.query);
        let place = self.tokens.get(self.at).map(|token| token.start);
        self.replace(place.unwrap_or(self.text.len()), self.copied, &clauses);
        if self.is_word("WHERE") {
            self.at += 1;
        }
        if self.is("{") {
            self.group()?;
        }
        self.copy_to(self.text.len());
        Ok(self.out)
    }

    /// Everything before WHERE, or before the braces where it is not said.
    fn outermost(&mut self) -> Result<(), String> {
        let (mut depth, mut groups, mut is_construct) = (0_usize, 0, false);
        while self.at < self.tokens.len() {
            match self.word(0) {
                "{" if depth == 0 && (!is_construct || groups > 0) => break,
                "{" => {
                    depth += 1;
                    groups += 1;
                }
                "}" => depth = depth.saturating_sub(1),
                _ if depth > 0 => {}
                _ if self.is_word("WHERE") => break,
                _ if self.is_word("CONSTRUCT") => is_construct = true,
                _ if self.is_word("REGISTER") => self.header(),
                _ if self.is_word("FROM") => {
                    self.clause()?;
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        Ok(())
    }

    /// RSP-QL registers a query by its operator, the others say QUERY.
    fn header(&mut self) {
        let Some(kind) = self.tokens.get(self.at + 1).copied() else {
            return;
        };
        let operator = match self.query.operator {
            StreamOperator::IStream => "ISTREAM",
            StreamOperator::DStream => "DSTREAM",
            _ => "RSTREAM",
        };
        let written = match (self.target, kind.text(self.text).to_ascii_uppercase()) {
            (Dialect::RspQl, kind) if kind == "QUERY" => operator,
            (Dialect::CqelsQl, kind) if kind == "RSTREAM" => "QUERY",
            _ => return,
        };
        self.replace(kind.start, kind.end, written);
    }

    /// FROM: the clause of a window is left out, and that of a stored graph stays. In the paper's
    /// dialect it also names the graph.
    fn clause(&mut self) -> Result<(), String> {
        let from = self.tokens[self.at].start;
        let mut source = 1 + usize::from(self.is_word_at(1, "NAMED"));
        let names_only = source == 2;
        if self.is_word_at(source, "WINDOW") && self.is_word_at(source + 2, "ON") {
            source += 3;
        } else if self.is_word_at(source, "STREAM") {
            source += 1;
        }
        let Some(token) = self.tokens.get(self.at + source).copied() else {
            return Err("its FROM ends too soon".to_owned());
        };
        self.at += source + 1;
        if self.is("[") {
            while self.at < self.tokens.len() && !self.is("]") {
                self.at += 1;
            }
            self.at += 1;
            let end = self.tokens[..self.at]
                .last()
                .map_or(from, |token| token.end);
            self.replace(from, end, "");
        } else if self.query.dialect == Source::Paper && !names_only {
            self.replace(
                token.end,
                token.end,
                &format!(" FROM NAMED {}", token.text(self.text)),
            );
        }
        Ok(())
    }

    /// A group, with the braces around it.
    pub(super) fn group(&mut self) -> Result<(), String> {
        self.at += 1;
        while self.at < self.tokens.len() {
            if self.is("}") {
                self.at += 1;
                return Ok(());
            } else if self.is("{") {
                self.group()?;
            } else if self.at_block() {
                self.block()?;
            } else if self.is_merged {
                self.merged()?;
            } else {
                self.at += 1;
            }
        }
        Err("its braces are not closed".to_owned())
    }

    /// Whether the next block reads a graph or a window.
    fn at_block(&self) -> bool {
        self.is_word("GRAPH")
            || self.is_word("WINDOW") && self.word(2) == "{"
            || self.is_word("STREAM") && self.query.dialect == Source::CqelsQl
    }

    /// `GRAPH name { … }`, `WINDOW name { … }` or `STREAM name [ … ] { … }`
    fn block(&mut self) -> Result<(), String> {
        let keyword = self.tokens[self.at];
        let reads_stream = self.is_word("STREAM");
        let reads_window = reads_stream || self.is_word("WINDOW");
        let may_be_window =
            reads_window || matches!(self.query.dialect, Source::CSparql | Source::Paper);
        let Some(name) = self.tokens.get(self.at + 1).copied() else {
            return Err("it ends within its pattern".to_owned());
        };
        self.at += 2;
        while self.at < self.tokens.len() && !self.is("{") {
            self.at += 1;
        }
        let end = self.tokens[self.at - 1].end;
        if name.kind == TokenKind::Variable && may_be_window {
            return self.each_window(keyword, name, !reads_window);
        }
        let number = match reads_stream {
            true => Some(self.block_number(keyword, end)?),
            false if may_be_window => self.window_named(name),
            false => None,
        };
        match number {
            Some(number) => {
                let opening = self.target.opening(self.query, number);
                self.replace(keyword.start, end, &opening);
            }
            None => self.check_stored()?,
        }
        self.inside()
    }

    /// A block of a variable that ranges over windows, and in C-SPARQL over named graphs: each is
    /// read by itself, and the variable is its name.
    fn each_window(
        &mut self,
        keyword: Token,
        variable: Token,
        with_stored: bool,
    ) -> Result<(), String> {
        let variable_name = variable.text(self.text);
        self.copy_to(keyword.start);
        let before = std::mem::take(&mut self.out);
        self.copied = variable.end;
        self.inside()?;
        self.copy_to(self.tokens[self.at - 1].end);
        let body = std::mem::replace(&mut self.out, before);
        let windows = self.query.windows.iter().enumerate();
        let mut arms: Vec<String> = windows
            .map(|(number, window)| {
                let opening = self.target.opening(self.query, number);
                let name = &window.name;
                format!("{{ VALUES {variable_name} {{ {name} }} {opening}{body} }}")
            })
            .collect();
        if with_stored && !self.query.query.dataset.named.is_empty() {
            arms.push(format!("{{ GRAPH {variable_name}{body} }}"));
        }
        self.out
            .push_str(&format!("{{ {} }}", arms.join(" UNION ")));
        Ok(())
    }

    /// The group of a block, in which nothing is merged.
    fn inside(&mut self) -> Result<(), String> {
        let is_merged = std::mem::replace(&mut self.is_merged, false);
        let outcome = self.group();
        self.is_merged = is_merged;
        outcome
    }

    /// Without a dataset clause GRAPH reads everything stored in CQELS-QL, and nothing in the other
    /// two.
    fn check_stored(&self) -> Result<(), String> {
        let is_cqels = self.target == Dialect::CqelsQl || self.query.dialect == Source::CqelsQl;
        match is_cqels && !self.query.query.dataset.present {
            true => Err("GRAPH without FROM NAMED reads other graphs in CQELS-QL".to_owned()),
            false => Ok(()),
        }
    }

    /// The number of the window that has this name.
    fn window_named(&self, name: Token) -> Option<usize> {
        let name = self.resolved(name)?;
        let mut windows = self.query.windows.iter();
        windows.position(|window| window.name.as_str() == name)
    }

    /// The number of the window of a STREAM block: the parser knows where each stands first.
    fn block_number(&mut self, keyword: Token, end: usize) -> Result<usize, String> {
        let words = self.text[keyword.end..end].to_owned();
        if let Some((_, number)) = self.blocks.iter().find(|(known, _)| *known == words) {
            return Ok(*number);
        }
        let place = Place::of(self.text, keyword.start);
        let mut windows = self.query.windows.iter();
        let number = windows
            .position(|window| (window.line, window.column) == (place.line, place.column))
            .ok_or("it writes one window in two ways")?;
        self.blocks.push((words, number));
        Ok(number)
    }

    /// The IRI that a token stands for.
    fn resolved(&self, token: Token) -> Option<String> {
        let word = token.text(self.text);
        match token.kind {
            TokenKind::Iri => Some(word[1..word.len() - 1].to_owned()),
            TokenKind::Word => Some(format!("{}{word}", self.namespace?)),
            TokenKind::PrefixedName => {
                let (prefix, local) = word.split_once(':')?;
                let mut declared = self.tokens.windows(3).filter(|three| {
                    let [keyword, name, _] = three else {
                        return false;
                    };
                    keyword.text(self.text).eq_ignore_ascii_case("PREFIX")
                        && name.text(self.text).strip_suffix(':') == Some(prefix)
                });
                let iri = declared.next()?[2].text(self.text);
                Some(format!("{}{local}", iri.get(1..iri.len() - 1)?))
            }
            _ => None,
        }
    }

    /// The text of the token so far ahead; empty behind the end.
    pub(super) fn word(&self, ahead: usize) -> &'t str {
        let token = self.tokens.get(self.at + ahead);
        token.map_or("", |token| token.text(self.text))
    }

    pub(super) fn is(&self, punctuation: &str) -> bool {
        self.word(0) == punctuation
    }

    pub(super) fn is_word(&self, keyword: &str) -> bool {
        self.is_word_at(0, keyword)
    }

    fn is_word_at(&self, ahead: usize, keyword: &str) -> bool {
        self.word(ahead).eq_ignore_ascii_case(keyword)
    }

    pub(super) fn copy_to(&mut self, end: usize) {
        self.out.push_str(&self.text[self.copied.min(end)..end]);
        self.copied = self.copied.max(end);
    }

    /// Writes something in the place of a part of the text.
    pub(super) fn replace(&mut self, start: usize, end: usize, written: &str) {
        self.copy_to(start);
        self.out.push_str(written);
        self.copied = self.copied.max(end);
    }
}
