//! Takes the constants out of a query's text: what is left is its shape, and texts of one shape
//! differ in nothing but those constants. It looks at tokens only, so it costs a fraction of
//! parsing.
//!
//! The one thing to know before changing it: it may always give up, and then the text is parsed as
//! it is. It lifts a token only where the grammar takes any token of its class, and the algebra
//! holds a constant: subjects, objects, and what a filter compares with. Everything else belongs to
//! the shape, spacing between tokens included, and so do predicates and classes, since plans depend
//! on them.

use crate::text::cursor::Cursor;
use crate::text::names::Names;
use crate::token::{Token, TokenKind, tokenize};
use oxiri::Iri;
use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNode, Term};
use std::ops::Range;

mod shape;

pub use shape::{Shape, join_pieces};

/// Longer texts are not lifted.
const LONGEST_TEXT: usize = 1 << 14;
/// Marks a lifted token in a shape; the letter behind it is the class.
const MARK: char = '\u{1}';
/// The beginning of a template's placeholders: of IRIs and strings, and of numbers.
const PLACE: &str = "urn:somersault:parameter:";
const PLACE_NUMBER: &str = "73019250";

/// A text without its constants.
#[derive(Debug, Clone, PartialEq)]
pub struct Lifted {
    /// The rest of the text.
    pub shape: String,
    /// The constants, in the order of the text.
    pub constants: Vec<Term>,
}

/// A text of the same shape with placeholders for the constants.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// The text.
    pub text: String,
    /// The placeholders, in its order: terms that no other text holds.
    pub placeholders: Vec<Term>,
}

/// Lifts the constants out of a SELECT or ASK query that is read with this base IRI; `None` where
/// there are none, or where texts of this shape may differ in more than the constants.
#[must_use]
pub fn lift(text: &str, base: Option<&str>) -> Option<Lifted> {
    if is_odd(text) {
        return None;
    }
    let tokens = tokenize(text);
    let base = base.map(|base| Iri::parse(base.to_owned())).transpose();
    let mut names = Names::new(base.ok()?, None);
    let mut cursor = Cursor::new(text, &tokens);
    names.read_prologue(&mut cursor).ok()?;
    let prologue = cursor.at;
    let mut lifter = Lifter::new(text, &tokens, names);
    lifter.query(prologue)?;
    (!lifter.constants.is_empty()).then_some(Lifted {
        shape: lifter.shape,
        constants: lifter.constants,
    })
}

/// Whether a text is left alone: it is long, or has escapes, placeholders or marks, which are rare.
fn is_odd(text: &str) -> bool {
    let is_odd = |byte: u8| byte == b'\\' || byte == MARK as u8;
    text.len() > LONGEST_TEXT
        || text.bytes().any(is_odd)
        || text.contains(PLACE)
        || text.contains(PLACE_NUMBER)
}

impl Lifted {
    /// A text of this shape with a placeholder for each constant.
    #[must_use]
    pub fn template(&self) -> Template {
        let mut text = String::with_capacity(self.shape.len() + 40 * self.constants.len());
        let mut placeholders = Vec::with_capacity(self.constants.len());
        let mut rest = self.shape.chars();
        while let Some(c) = rest.next() {
            if c != MARK {
                text.push(c);
                continue;
            }
            let number = placeholders.len();
            let digits = format!("{PLACE_NUMBER}{number:08}");
            let name = format!("{PLACE}{number}:");
            let (written, term): (String, Term) = match rest.next() {
                Some('s') => (
                    format!("\"{name}\""),
                    Literal::new_simple_literal(name).into(),
                ),
                Some('n') => numeric(digits, xsd::INTEGER),
                Some('d') => numeric(format!("{digits}.5"), xsd::DECIMAL),
                Some('e') => numeric(format!("{digits}e0"), xsd::DOUBLE),
                _ => (format!("<{name}>"), NamedNode::new_unchecked(name).into()),
            };
            text.push_str(&written);
            placeholders.push(term);
        }
        Template { text, placeholders }
    }
}

fn numeric(text: String, datatype: oxrdf::NamedNodeRef<'_>) -> (String, Term) {
    let literal = Literal::new_typed_literal(text.clone(), datatype);
    (text, literal.into())
}

/// The class and the literal of a string without language and datatype, or of a number.
fn literal_of(text: &str, kind: TokenKind) -> (char, Literal) {
    let (class, datatype) = match kind {
        TokenKind::Integer => ('n', xsd::INTEGER),
        TokenKind::Decimal => ('d', xsd::DECIMAL),
        TokenKind::Double => ('e', xsd::DOUBLE),
        _ => {
            let quote = &text[..1];
            let long = text.len() >= 6 && text.starts_with(&quote.repeat(3));
            let quotes = if long { 3 } else { 1 };
            let value = &text[quotes..text.len() - quotes];
            return ('s', Literal::new_simple_literal(value));
        }
    };
    (class, Literal::new_typed_literal(text, datatype))
}

/// The place of the next token in a group or in brackets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Subject,
    Predicate,
    /// `true` where the objects are classes.
    Object(bool),
    AfterObject(bool),
    /// Behind the pattern of a sub-select.
    Modifiers,
}

/// The context of the next token.
enum Context {
    Group(Position),
    Brackets(Position),
    /// The brackets open in an expression: whether each is a call's. `lifts` = it is a filter.
    Expression {
        calls: Vec<bool>,
        lifts: bool,
    },
}

struct Lifter<'t> {
    text: &'t str,
    tokens: &'t [Token],
    at: usize,
    names: Names,
    stack: Vec<Context>,
    shape: String,
    constants: Vec<Term>,
    /// The places of the constants, with their classes.
    places: Vec<(Range<usize>, char)>,
    /// A continuous query: windows have durations, and WINDOW reads one.
    is_continuous: bool,
}

const KEYWORDS: [&str; 9] = [
    "OPTIONAL", "MINUS", "UNION", "GRAPH", "FILTER", "BIND", "VALUES", "SELECT", "SERVICE",
];

impl<'t> Lifter<'t> {
    fn new(text: &'t str, tokens: &'t [Token], names: Names) -> Lifter<'t> {
        Lifter {
            text,
            tokens,
            at: 0,
            names,
            stack: Vec::new(),
            shape: String::with_capacity(text.len()),
            constants: Vec::new(),
            places: Vec::new(),
            is_continuous: false,
        }
    }

    fn token(&self, ahead: usize) -> Option<Token> {
        self.tokens.get(self.at + ahead).copied()
    }

    fn text_of(&self, token: Token) -> &'t str {
        token.text(self.text)
    }

    /// The operator or bracket at a distance, or nothing.
    fn punctuation(&self, ahead: usize) -> &'t str {
        match self.token(ahead) {
            Some(token) if token.kind == TokenKind::Punctuation => self.text_of(token),
            _ => "",
        }
    }

    fn is_word(&self, word: &str) -> bool {
        self.token(0).is_some_and(|token| {
            token.kind == TokenKind::Word && self.text_of(token).eq_ignore_ascii_case(word)
        })
    }

    /// White space and comments between tokens count as one space.
    fn space(&mut self, token: Token) {
        let before = self.at.checked_sub(1).map(|before| self.tokens[before].end);
        if !self.shape.is_empty() && before.is_some_and(|end| end < token.start) {
            self.shape.push(' ');
        }
    }

    fn copy(&mut self) -> Option<()> {
        let token = self.token(0)?;
        match token.kind {
            TokenKind::Bad(_) => return None,
            TokenKind::Duration if !self.is_continuous => return None,
            _ => {}
        }
        self.space(token);
        self.shape.push_str(self.text_of(token));
        self.at += 1;
        Some(())
    }

    fn lift(&mut self, class: char, term: Term) -> Option<()> {
        let token = self.token(0)?;
        self.space(token);
        self.shape.push(MARK);
        self.shape.push(class);
        self.constants.push(term);
        self.places.push((token.range(), class));
        self.at += 1;
        Some(())
    }

    fn lift_name(&mut self) -> Option<()> {
        let token = self.token(0)?;
        let name = self.names.resolve(self.text, token).ok()?;
        // A base completes some IRIs and rewrites others: such a text is read as it stands.
        let is_itself = token.kind != TokenKind::Iri
            || self.text_of(token).get(1..token.end - token.start - 1) == Some(name.as_str());
        is_itself.then(|| self.lift('i', name.into()))?
    }

    /// Lifts a string without language and datatype, or a number.
    fn lift_literal(&mut self) -> Option<()> {
        let token = self.token(0)?;
        let (class, literal) = literal_of(self.text_of(token), token.kind);
        self.lift(class, literal.into())
    }

    fn query(&mut self, prologue: usize) -> Option<()> {
        while self.at < prologue {
            if self.is_word("BASE") {
                return None;
            }
            self.copy()?;
        }
        self.body()
    }

    /// The query from its form on.
    fn body(&mut self) -> Option<()> {
        if !self.is_word("SELECT") && !self.is_word("ASK") {
            return None;
        }
        self.head()?;
        while let Some(context) = self.stack.last() {
            self.token(0)?;
            match context {
                Context::Group(place) => self.in_triples(*place, true)?,
                Context::Brackets(place) => self.in_triples(*place, false)?,
                Context::Expression { .. } => self.in_expression()?,
            }
        }
        // The solution modifiers.
        while self.token(0).is_some() {
            self.copy()?;
        }
        Some(())
    }

    /// Everything up to the bracket that opens the pattern.
    fn head(&mut self) -> Option<()> {
        let mut open = 0usize;
        loop {
            match self.punctuation(0) {
                "(" => open += 1,
                ")" => open = open.checked_sub(1)?,
                "{" if open == 0 => return self.open_group(),
                "{" | "}" => return None,
                _ => {}
            }
            self.copy()?;
        }
    }

    fn open_group(&mut self) -> Option<()> {
        self.copy()?;
        self.stack.push(Context::Group(Position::Subject));
        Some(())
    }

    fn go_to(&mut self, place: Position) {
        match self.stack.last_mut() {
            Some(Context::Group(at) | Context::Brackets(at)) => *at = place,
            Some(Context::Expression { .. }) | None => {}
        }
    }

    fn in_triples(&mut self, place: Position, is_group: bool) -> Option<()> {
        let token = self.token(0)?;
        let is_keyword = token.kind == TokenKind::Word
            && KEYWORDS
                .iter()
                .any(|word| self.text_of(token).eq_ignore_ascii_case(word));
        let between = matches!(
            place,
            Position::Subject | Position::Predicate | Position::AfterObject(_)
        );
        match self.punctuation(0) {
            "}" if is_group && (between || place == Position::Modifiers) => return self.close(),
            "]" if !is_group && between => return self.close(),
            _ if place == Position::Modifiers => return self.modifier(),
            "{" if is_group && between => {
                self.go_to(Position::Subject);
                return self.open_group();
            }
            "." if is_group && between => {
                self.go_to(Position::Subject);
                return self.copy();
            }
            _ => {}
        }
        if is_keyword && is_group && between {
            self.go_to(Position::Subject);
            return self.keyword();
        }
        if self.is_continuous && is_group && between && self.opens_window()? {
            return Some(());
        }
        match place {
            Position::Subject => self.subject(token),
            Position::Predicate if self.punctuation(0) == ";" => self.copy(),
            Position::Predicate => self.predicate(),
            Position::Object(classes) => self.object(token, classes),
            Position::AfterObject(classes) => match self.punctuation(0) {
                "," => {
                    self.go_to(Position::Object(classes));
                    self.copy()
                }
                ";" => {
                    self.go_to(Position::Predicate);
                    self.copy()
                }
                _ => None,
            },
            Position::Modifiers => None,
        }
    }

    fn close(&mut self) -> Option<()> {
        self.stack.pop();
        self.copy()
    }

    fn modifier(&mut self) -> Option<()> {
        match self.punctuation(0) {
            "{" => None,
            _ => self.copy(),
        }
    }

    fn keyword(&mut self) -> Option<()> {
        if self.is_word("SERVICE") {
            return None;
        }
        if self.is_word("SELECT") {
            self.go_to(Position::Modifiers);
            return self.head();
        }
        if self.is_word("VALUES") {
            return self.values();
        }
        let (is_graph, is_bind) = (self.is_word("GRAPH"), self.is_word("BIND"));
        let is_filter = self.is_word("FILTER");
        self.copy()?;
        if is_graph {
            return self.copy();
        }
        if !is_bind && !is_filter {
            return Some(());
        }
        if is_filter && (self.is_word("NOT") || self.is_word("EXISTS")) {
            if self.is_word("NOT") {
                self.copy()?;
            }
            return self
                .is_word("EXISTS")
                .then_some(())
                .and_then(|()| self.copy());
        }
        let is_call = self.punctuation(0) != "(";
        if is_call {
            self.copy()?;
        }
        if self.punctuation(0) != "(" {
            return None;
        }
        self.copy()?;
        self.stack.push(Context::Expression {
            calls: vec![is_call],
            lifts: is_filter,
        });
        Some(())
    }

    /// A block of data, which stays as it is.
    fn values(&mut self) -> Option<()> {
        while self.punctuation(0) != "}" {
            if matches!(self.punctuation(0), "<<" | "{|") {
                return None;
            }
            self.copy()?;
        }
        self.copy()
    }

    fn subject(&mut self, token: Token) -> Option<()> {
        self.go_to(Position::Predicate);
        match token.kind {
            TokenKind::Iri | TokenKind::PrefixedName => self.lift_name(),
            TokenKind::Variable | TokenKind::BlankLabel | TokenKind::Word => self.copy(),
            _ if self.punctuation(0) == "[" => self.open_brackets(),
            _ => None,
        }
    }

    fn open_brackets(&mut self) -> Option<()> {
        self.copy()?;
        self.stack.push(Context::Brackets(Position::Predicate));
        Some(())
    }

    /// A predicate or a path.
    fn predicate(&mut self) -> Option<()> {
        let mut last;
        loop {
            while matches!(self.punctuation(0), "^" | "!") {
                self.copy()?;
            }
            last = self.token(0)?;
            match last.kind {
                TokenKind::Iri
                | TokenKind::PrefixedName
                | TokenKind::Variable
                | TokenKind::Word => self.copy()?,
                _ if self.punctuation(0) == "(" => self.bracketed_path()?,
                _ => return None,
            }
            if matches!(self.punctuation(0), "*" | "+" | "?") {
                self.copy()?;
            }
            if !matches!(self.punctuation(0), "/" | "|") {
                break;
            }
            self.copy()?;
        }
        let text = self.text_of(last);
        let classes = text == "a" || text.trim_end_matches('>').ends_with("type");
        self.go_to(Position::Object(classes));
        Some(())
    }

    fn bracketed_path(&mut self) -> Option<()> {
        let mut open = 0usize;
        loop {
            match self.punctuation(0) {
                "(" => open += 1,
                ")" => open = open.checked_sub(1)?,
                "{" | "}" => return None,
                _ => {}
            }
            self.copy()?;
            if open == 0 {
                return Some(());
            }
        }
    }

    fn object(&mut self, token: Token, classes: bool) -> Option<()> {
        self.go_to(Position::AfterObject(classes));
        match token.kind {
            TokenKind::Iri | TokenKind::PrefixedName if !classes => self.lift_name(),
            TokenKind::Iri
            | TokenKind::PrefixedName
            | TokenKind::Variable
            | TokenKind::BlankLabel
            | TokenKind::Word => self.copy(),
            TokenKind::String if self.punctuation(1) == "^^" => {
                self.copy()?;
                self.copy()?;
                self.copy()
            }
            TokenKind::String
                if self
                    .token(1)
                    .is_some_and(|t| t.kind == TokenKind::LanguageTag) =>
            {
                self.copy()?;
                self.copy()
            }
            TokenKind::String | TokenKind::Integer | TokenKind::Decimal | TokenKind::Double => {
                self.lift_literal()
            }
            _ => match self.punctuation(0) {
                "[" => self.open_brackets(),
                "+" | "-" => {
                    self.copy()?;
                    self.copy()
                }
                _ => None,
            },
        }
    }

    fn in_expression(&mut self) -> Option<()> {
        let token = self.token(0)?;
        let Some(Context::Expression { calls, lifts }) = self.stack.last_mut() else {
            return None;
        };
        match token.kind {
            TokenKind::Punctuation => match token.text(self.text) {
                "(" => {
                    let before = self.tokens[self.at - 1].kind;
                    let is_call = before != TokenKind::Punctuation;
                    calls.push(is_call);
                    return self.copy();
                }
                ")" => {
                    calls.pop();
                    if calls.is_empty() {
                        self.stack.pop();
                    }
                    return self.copy();
                }
                "{" => return self.open_group(),
                "}" | "<<" => return None,
                _ => return self.copy(),
            },
            _ if !*lifts || calls.contains(&true) => return self.copy(),
            _ => {}
        }
        let before = self.tokens[self.at - 1];
        let operator = match before.kind {
            TokenKind::Punctuation => self.text_of(before),
            _ => "",
        };
        let ends = matches!(self.punctuation(1), ")" | "&&" | "||");
        match (token.kind, operator) {
            (TokenKind::Iri | TokenKind::PrefixedName, "=" | "!=") if ends => self.lift_name(),
            (
                TokenKind::String | TokenKind::Integer | TokenKind::Decimal | TokenKind::Double,
                "=" | "!=" | "<" | ">" | "<=" | ">=",
            ) if ends => self.lift_literal(),
            _ => self.copy(),
        }
    }
}

#[cfg(test)]
mod tests;
