//! The shape of a continuous query: its text without its name and its constants. Texts of one shape
//! form a cohort and are planned once. To read a text of a known shape costs a comparison and the
//! parsing of its constants.
//!
//! The one thing to know before changing it: recovery computes the shape of the same text again. So
//! it must depend on the text alone, and a text that has no shape may only get one in a new log
//! version.

use super::{Lifted, Lifter, Names, Template, is_odd, literal_of};
use crate::text::cursor::Cursor;
use crate::text::name_clause::name_text;
use crate::text::words;
use crate::token::{TokenKind, tokenize};
use oxrdf::Term;

/// The class of the place where the name of the query stands, which no shape holds.
const NAME: char = 'h';

/// Words of queries that keep state between firings, derive a stream or draw values of their own,
/// and of windows that do not close by time. Such a query has a shape of its own.
const APART: [&str; 12] = [
    "ISTREAM", "DSTREAM", "REPORT", "OVERLOAD", "TRIPLES", "ELEMENTS", "ALL", "RAND", "UUID",
    "STRUUID", "BNODE", "BASE",
];

/// The shape of a continuous query, as one text spells it. Other texts of the same shape may be
/// spaced differently.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The rest of the text, with one space for each run of white space.
    key: String,
    /// The text cut where the name and the constants stand.
    pieces: Vec<String>,
    /// The class of each of these places.
    classes: Vec<char>,
    names: Names,
}

/// Equal as texts: the same key, cut into the same pieces.
impl PartialEq for Shape {
    fn eq(&self, other: &Shape) -> bool {
        self.key == other.key && self.pieces == other.pieces
    }
}

impl Shape {
    /// The shape of a text, and its words in the places of the shape. `None` where texts that
    /// differ in those words alone may differ in more than their constants.
    #[must_use]
    pub fn of(text: &str) -> Option<(Shape, Vec<String>)> {
        if is_odd(text) {
            return None;
        }
        let tokens = tokenize(text);
        let stands_apart = tokens.iter().any(|token| {
            token.kind == TokenKind::Word
                && APART
                    .iter()
                    .any(|word| token.text(text).eq_ignore_ascii_case(word))
        });
        if stands_apart {
            return None;
        }
        let mut lifter = Lifter::new(text, &tokens, Names::new(None, None));
        lifter.is_continuous = true;
        lifter.prologue()?;
        lifter.header()?;
        lifter.prologue()?;
        lifter.body()?;
        let mut pieces = Vec::with_capacity(lifter.places.len() + 1);
        let mut words = Vec::with_capacity(lifter.places.len());
        let mut from = 0;
        for (range, _) in &lifter.places {
            pieces.push(text[from..range.start].to_owned());
            words.push(text[range.clone()].to_owned());
            from = range.end;
        }
        pieces.push(text[from..].to_owned());
        // The room that the constants left is given back: a shape is kept as long as its queries.
        let mut key = lifter.shape;
        key.shrink_to_fit();
        let shape = Shape {
            key,
            pieces,
            classes: lifter.places.iter().map(|(_, class)| *class).collect(),
            names: lifter.names,
        };
        Some((shape, words))
    }

    /// A text that has no shape ([`Shape::of`] gives none), taken as it is: one piece, and no
    /// constants.
    #[must_use]
    pub fn whole(text: &str) -> Shape {
        Shape {
            key: String::new(),
            pieces: vec![text.to_owned()],
            classes: Vec::new(),
            names: Names::new(None, None),
        }
    }

    /// Whether other texts may have this shape; not that of [`Shape::whole`].
    #[must_use]
    pub fn is_shared(&self) -> bool {
        !self.key.is_empty()
    }

    /// Texts with the same key are of one shape.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The pieces between the words; one more than there are words.
    #[must_use]
    pub fn pieces(&self) -> &[String] {
        &self.pieces
    }

    /// The words that a text has between the same pieces. It may fail where a search by pieces
    /// could cut differently from the tokens; then [`Shape::of`] decides.
    #[must_use]
    pub fn words_of(&self, text: &str) -> Option<Vec<String>> {
        if text.len() > super::LONGEST_TEXT {
            return None;
        }
        let (first, later) = self.pieces.split_first()?;
        let may_end = |piece: &String| {
            piece.ends_with(|c: char| c.is_ascii_whitespace() || matches!(c, '{' | '('))
        };
        let (_, before) = self.pieces.split_last()?;
        if !before.iter().all(may_end) {
            return None;
        }
        let mut rest = text.strip_prefix(first.as_str())?;
        let mut words = Vec::with_capacity(later.len());
        for (at, piece) in later.iter().enumerate() {
            // A space or a bracket ends a word; behind other characters it may go on.
            let closes = piece.starts_with(')');
            let ends = rest.find(|c: char| c.is_ascii_whitespace() || (closes && c == ')'))?;
            let word = &rest[..ends];
            self.term(self.classes[at], word)?;
            words.push(word.to_owned());
            rest = if at + 1 == later.len() {
                (rest[ends..] == **piece).then_some("")?
            } else {
                rest[ends..].strip_prefix(piece.as_str())?
            };
        }
        (!later.is_empty() && rest.is_empty()).then_some(words)
    }

    /// The text with these words in its places.
    #[must_use]
    pub fn text<W: AsRef<str>>(&self, words: &[W]) -> String {
        join_pieces(&self.pieces, words)
    }

    /// Those of the words that stand for constants: all but the name.
    #[must_use]
    pub fn constant_words<W: AsRef<str>>(&self, words: &[W]) -> Vec<String> {
        let pairs = self.classes.iter().zip(words);
        let constants = pairs.filter(|(class, _)| **class != NAME);
        constants
            .map(|(_, word)| word.as_ref().to_owned())
            .collect()
    }

    /// The constants that these words stand for, in order. `None` if a word is not of the class of
    /// its place.
    #[must_use]
    pub fn constants<W: AsRef<str>>(&self, words: &[W]) -> Option<Vec<Term>> {
        if words.len() != self.width() {
            return None;
        }
        let classes = self.classes.iter().filter(|class| **class != NAME);
        let mut constants = Vec::with_capacity(words.len());
        for (class, word) in classes.zip(words) {
            constants.extend(self.term(*class, word.as_ref())?);
        }
        Some(constants)
    }

    /// A text of this shape with these constants, under some name.
    #[must_use]
    pub fn text_with<W: AsRef<str>>(&self, constants: &[W]) -> String {
        let mut constants = constants.iter().map(AsRef::as_ref);
        let words = self.classes.iter().map(|class| match *class {
            NAME => "q",
            _ => constants.next().unwrap_or_default(),
        });
        self.text(&words.collect::<Vec<&str>>())
    }

    /// The name that the text with these words gives its query, if it gives one.
    #[must_use]
    pub fn name<W: AsRef<str>>(&self, words: &[W]) -> Option<String> {
        let at = self.classes.iter().position(|class| *class == NAME)?;
        let word = words.get(at)?.as_ref();
        let tokens = tokenize(word);
        name_text(word, *tokens.first()?, &self.names).ok()
    }

    /// The number of constants.
    #[must_use]
    pub fn width(&self) -> usize {
        self.classes.iter().filter(|class| **class != NAME).count()
    }

    /// A text of this shape with a placeholder for each constant.
    #[must_use]
    pub fn template(&self) -> Template {
        let lifted = Lifted {
            shape: format!("REGISTER QUERY q {}", self.key),
            constants: Vec::new(),
        };
        lifted.template()
    }

    /// The term of a word; `Some(None)` for a name.
    fn term(&self, class: char, word: &str) -> Option<Option<Term>> {
        if is_odd(word) {
            return None;
        }
        let tokens = tokenize(word);
        let [token] = tokens[..] else { return None };
        if token.start != 0 || token.end != word.len() {
            return None;
        }
        if class == NAME {
            let is_name = match token.kind {
                TokenKind::Iri | TokenKind::PrefixedName | TokenKind::String => true,
                TokenKind::Word => !words::is_keyword(word),
                _ => false,
            };
            return is_name.then_some(None);
        }
        let (found, term): (char, Term) = match token.kind {
            TokenKind::Iri | TokenKind::PrefixedName => {
                ('i', self.names.resolve(word, token).ok()?.into())
            }
            TokenKind::String | TokenKind::Integer | TokenKind::Decimal | TokenKind::Double => {
                let (class, literal) = literal_of(word, token.kind);
                (class, literal.into())
            }
            _ => return None,
        };
        (found == class).then_some(Some(term))
    }
}

/// The text that was cut into these pieces, with these words between them.
#[must_use]
pub fn join_pieces<W: AsRef<str>>(pieces: &[String], words: &[W]) -> String {
    let mut text = String::new();
    for (at, piece) in pieces.iter().enumerate() {
        text.push_str(piece);
        text.push_str(words.get(at).map_or("", AsRef::as_ref));
    }
    text
}

impl Lifter<'_> {
    fn prologue(&mut self) -> Option<()> {
        let mut cursor = Cursor::new(self.text, self.tokens);
        cursor.at = self.at;
        self.names.read_prologue(&mut cursor).ok()?;
        let end = cursor.at;
        while self.at < end {
            self.copy()?;
        }
        Some(())
    }

    fn has_prologue(&self) -> bool {
        self.shape.starts_with(['P', 'p'])
    }

    /// `REGISTER QUERY name …`, if it is there: everything up to the next prologue or the form of
    /// the query. The name of a query is no part of its shape.
    fn header(&mut self) -> Option<()> {
        if !self.is_word("REGISTER") {
            return Some(());
        }
        self.at += 1;
        if !self.is_word("QUERY") {
            return None;
        }
        self.at += 1;
        let name = self.token(0)?;
        self.places.push((name.range(), NAME));
        self.at += 1;
        let is_next = |lifter: &Self| {
            ["SELECT", "ASK", "PREFIX", "AS"]
                .iter()
                .any(|word| lifter.is_word(word))
        };
        while !is_next(self) {
            // These clauses stand before the prologue in every text of the shape.
            if self.token(0)?.kind == TokenKind::PrefixedName || self.has_prologue() {
                return None;
            }
            self.copy()?;
        }
        if self.is_word("AS") {
            self.at += 1;
        }
        Some(())
    }

    /// `WINDOW name {`; CQELS-QL's STREAM in a pattern is not looked into.
    pub(super) fn opens_window(&mut self) -> Option<bool> {
        let is_name = self
            .token(1)
            .is_some_and(|token| !matches!(token.kind, TokenKind::Punctuation));
        if self.is_word("STREAM") && is_name {
            return None;
        }
        if !self.is_word("WINDOW") {
            return Some(false);
        }
        self.go_to(super::Position::Subject);
        self.copy()?;
        self.copy()?;
        (self.punctuation(0) == "{").then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const L2: &str = "REGISTER QUERY L2 AS\nPREFIX p: <http://x/p#> # people\nSELECT ?post \
        FROM STREAM p:s [RANGE 1s STEP 100ms] FROM NAMED <http://x/g>\n\
        WHERE { GRAPH <http://x/g> { ?u p:of p:p5 } GRAPH p:s { ?u p:wrote ?post FILTER(?post != p:p9) } }";

    fn key(text: &str) -> String {
        Shape::of(text).expect("has a shape").0.key().to_owned()
    }

    #[test]
    fn names_constants_spaces_and_comments_make_no_other_shape() {
        let (shape, words) = Shape::of(L2).expect("has a shape");
        assert_eq!(words, ["L2", "p:p5", "p:p9"]);
        assert_eq!(shape.width(), 2);
        assert_eq!(shape.text(&words), L2);
        let constants = shape.constant_words(&words);
        assert_eq!(constants, ["p:p5", "p:p9"]);
        assert_eq!(
            shape.text_with(&constants),
            L2.replace("QUERY L2", "QUERY q")
        );
        let terms = shape.constants(&constants).expect("they fit");
        assert_eq!(terms[0].to_string(), "<http://x/p#p5>");
        let other = L2
            .replace("REGISTER QUERY L2 AS\n", "")
            .replace("# people", "  ")
            .replace("p:p5", "<urn:any>");
        assert_eq!(key(&other), key(L2));
        assert_ne!(key(&L2.replace("1s", "2s")), key(L2));
        assert_ne!(key(&L2.replace("p:p5", "5")), key(L2));
        assert_ne!(key(&L2.replace("http://x/p#", "http://x/q#")), key(L2));
    }

    #[test]
    fn texts_of_the_same_pieces_are_read_by_them() {
        let (shape, _) = Shape::of(L2).expect("has a shape");
        let other = L2.replace("QUERY L2", "QUERY q7").replace("p:p5", "p:p6");
        let expected = Shape::of(&other).expect("has a shape").1;
        assert_eq!(shape.words_of(&other), Some(expected));
        for different in [
            L2.replace("p:p5", "p:p5 ; p:of p:p6"),
            L2.replace("p:p5", "5"),
            L2.replace("p:p5", "?v"),
            L2.replace("p:p5", "q:p5"),
            L2.replace("p:wrote", "p:read"),
            format!("{L2} LIMIT 5"),
            String::new(),
        ] {
            assert_eq!(shape.words_of(&different), None, "{different}");
        }
        assert_eq!(shape.constants(&["p:a", "5"]), None);
        assert_eq!(shape.constants(&["p:a"]), None);
    }

    #[test]
    fn texts_that_cannot_share_a_cohort_have_no_shape() {
        for text in [
            "REGISTER STREAM s AS SELECT ?s FROM STREAM <urn:s> [RANGE 1s TUMBLING] WHERE { ?s ?p 5 }",
            "REGISTER QUERY q AS SELECT ISTREAM ?s FROM NAMED WINDOW <urn:w> ON <urn:s> [RANGE 1s STEP 1s] WHERE { WINDOW <urn:w> { ?s ?p 5 } }",
            "SELECT ?s FROM STREAM <urn:s> [RANGE TRIPLES 5] WHERE { ?s ?p 5 }",
            "SELECT ?s WHERE { STREAM <urn:s> [RANGE 1s] { ?s ?p 5 } }",
            "SELECT (RAND() AS ?r) FROM STREAM <urn:s> [RANGE 1s TUMBLING] WHERE { ?s ?p 5 }",
        ] {
            assert!(Shape::of(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_template_parses_and_windows_of_rsp_ql_are_read() {
        let text = "PREFIX : <http://x/> SELECT ?s FROM NAMED WINDOW :w ON :s [RANGE 1s STEP 1s] WHERE { WINDOW :w { ?s :p :o } }";
        for text in [
            text,
            L2,
            "REGISTER QUERY q COMPUTED EVERY 2s AS SELECT ?s FROM STREAM <urn:s> [RANGE 1s STEP 1s] WHERE { ?s ?p 'a' }",
        ] {
            let (shape, words) = Shape::of(text).expect("has a shape");
            assert!(!words.is_empty());
            let template = shape.template();
            assert_eq!(template.placeholders.len(), shape.width());
            let parsed = crate::Parser::new().parse_continuous(&template.text);
            parsed.unwrap_or_else(|error| panic!("{}: {error}", template.text));
        }
    }
}
