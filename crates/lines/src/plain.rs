//! Reads the plain lines of N-Triples and N-Quads: those whose correctness a simple scan shows.
//! Every other line, wrong ones included, is `None` here and goes to `oxttl`, which decides.
//!
//! The one thing to know: `oxttl` accepts every line that is accepted here, and reads it as the
//! same statement (`tests/it/lines.rs`).

use memchr::memchr;
use oxrdf::vocab::rdf;
use oxrdf::{
    BlankNodeRef, GraphNameRef, LiteralRef, NamedNodeRef, NamedOrBlankNodeRef, QuadRef, TermRef,
};

/// Classes of bytes, by the place where they may occur.
const HOST: u8 = 1;
const IRI: u8 = 2;
const LABEL: u8 = 4;
const ENDS_TEXT: u8 = 8;

static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        let character = byte as u8;
        let alphanumeric = character.is_ascii_alphanumeric();
        if alphanumeric || matches!(character, b'.' | b'-') {
            classes[byte] |= HOST;
        }
        let mark = matches!(
            character,
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')'
        ) || matches!(
            character,
            b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@' | b'/' | b'?'
        );
        if alphanumeric || mark {
            classes[byte] |= IRI;
        }
        if alphanumeric || matches!(character, b'-' | b'_') {
            classes[byte] |= LABEL;
        }
        if matches!(character, b'"' | b'\\' | b'\n' | b'\r') {
            classes[byte] |= ENDS_TEXT;
        }
        byte += 1;
    }
    classes
};

/// A position in a text of lines.
pub(super) struct Lines<'t> {
    text: &'t str,
    at: usize,
    with_graphs: bool,
    /// The text of the last literal, if it had escapes.
    unescaped: String,
}

/// A plain line.
pub(super) enum Line<'t> {
    /// Blank, or a comment.
    Empty,
    Statement(Statement<'t>),
}

/// A statement whose terms are in the text, except for a literal that had escapes.
pub(super) struct Statement<'t> {
    subject: NamedOrBlankNodeRef<'t>,
    predicate: NamedNodeRef<'t>,
    object: Object<'t>,
    graph: Option<NamedOrBlankNodeRef<'t>>,
}

enum Object<'t> {
    Node(NamedOrBlankNodeRef<'t>),
    Literal(Option<&'t str>, Suffix<'t>),
}

enum Suffix<'t> {
    None,
    Datatype(NamedNodeRef<'t>),
    Language(&'t str),
}

impl<'t> Statement<'t> {
    /// The statement; `unescaped` is the text of its literal if that had escapes, and `default` the
    /// graph if it names none.
    #[inline]
    pub(super) fn quad<'q>(&self, unescaped: &'q str, default: GraphNameRef<'q>) -> QuadRef<'q>
    where
        't: 'q,
    {
        let object: TermRef<'q> = match self.object {
            Object::Node(node) => node.into(),
            Object::Literal(text, ref suffix) => {
                let text = text.unwrap_or(unescaped);
                match *suffix {
                    Suffix::None => LiteralRef::new_simple_literal(text),
                    Suffix::Datatype(datatype) => LiteralRef::new_typed_literal(text, datatype),
                    Suffix::Language(tag) => {
                        LiteralRef::new_language_tagged_literal_unchecked(text, tag)
                    }
                }
                .into()
            }
        };
        QuadRef {
            subject: self.subject,
            predicate: self.predicate,
            object,
            graph_name: self.graph.map_or(default, GraphNameRef::from),
        }
    }
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str, with_graphs: bool) -> Lines<'t> {
        Lines {
            text,
            at: 0,
            with_graphs,
            unescaped: String::new(),
        }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Reads the line that starts here and moves to the next. Returns `None`, with the position
    /// somewhere in the line, if the line is not plain.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Line<'t>> {
        self.skip_blanks();
        let first = self.byte();
        if first != b'<' && first != b'_' {
            self.end_of_line()?;
            return Some(Line::Empty);
        }
        let subject = self.node()?;
        self.skip_blanks();
        let predicate = self.iri()?;
        self.skip_blanks();
        let object = match self.byte() {
            b'"' => self.literal()?,
            _ => Object::Node(self.node()?),
        };
        self.skip_blanks();
        let mut graph = None;
        if self.with_graphs && self.byte() != b'.' {
            graph = Some(self.node()?);
            self.skip_blanks();
        }
        if self.byte() != b'.' {
            return None;
        }
        self.at += 1;
        self.skip_blanks();
        self.end_of_line()?;
        Some(Line::Statement(Statement {
            subject,
            predicate,
            object,
            graph,
        }))
    }

    /// The statement that [`Lines::next`] read last; `default` is the graph if it names none.
    #[inline]
    pub(super) fn quad<'q>(
        &'q self,
        statement: &Statement<'q>,
        default: GraphNameRef<'q>,
    ) -> QuadRef<'q> {
        statement.quad(&self.unescaped, default)
    }

    /// The text of the literal of the statement that [`Lines::next`] read last, if it had escapes.
    #[inline]
    pub(super) fn unescaped_of(&self, statement: &Statement<'_>) -> Option<&str> {
        matches!(statement.object, Object::Literal(None, _)).then_some(&*self.unescaped)
    }

    /// Skips a line that is empty, or a comment from its first byte on. Returns whether it did.
    #[inline]
    pub(super) fn skip_line_without_statement(&mut self) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        let length = match rest {
            [b'#', ..] => memchr(b'\n', rest).map_or(rest.len(), |length| length + 1),
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => return false,
        };
        self.at += length;
        true
    }

    /// Reads a time and the tab behind it. Returns `None` if the time is not in its plainest
    /// spelling.
    #[inline]
    pub(super) fn time(&mut self) -> Option<i64> {
        /// A number with this many digits always fits into 64 bits.
        const DIGITS: usize = 18;
        let negative = self.byte() == b'-';
        let start = self.at + usize::from(negative);
        let mut at = start;
        let mut time = 0_i64;
        while at - start < DIGITS && self.byte_at(at).is_ascii_digit() {
            time = time * 10 + i64::from(self.byte_at(at) - b'0');
            at += 1;
        }
        if at == start || self.byte_at(at) != b'\t' {
            return None;
        }
        self.at = at + 1;
        Some(if negative { -time } else { time })
    }

    /// The byte at the position; 0 at the end, which no plain line has where this is called.
    #[inline]
    fn byte(&self) -> u8 {
        self.byte_at(self.at)
    }

    #[inline]
    fn byte_at(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    #[inline]
    fn skip(&self, mut at: usize, class: u8) -> usize {
        while CLASSES[usize::from(self.byte_at(at))] & class != 0 {
            at += 1;
        }
        at
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while matches!(self.byte(), b' ' | b'\t') {
            self.at += 1;
        }
    }

    /// Moves behind the end of the line, over a comment too.
    fn end_of_line(&mut self) -> Option<()> {
        let rest = &self.text.as_bytes()[self.at..];
        if rest.first() == Some(&b'#') {
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            self.at += end.unwrap_or(rest.len());
        }
        match (self.text.as_bytes().get(self.at), self.byte_at(self.at + 1)) {
            (None, _) => {}
            (Some(b'\n'), _) => self.at += 1,
            (Some(b'\r'), b'\n') => self.at += 2,
            _ => return None,
        }
        Some(())
    }

    #[inline]
    fn node(&mut self) -> Option<NamedOrBlankNodeRef<'t>> {
        if self.byte() == b'<' {
            return Some(self.iri()?.into());
        }
        if self.byte() != b'_' || self.byte_at(self.at + 1) != b':' {
            return None;
        }
        let start = self.at + 2;
        let end = self.skip(start, LABEL);
        // Labels may have dots inside and more letters; lines with such labels go to `oxttl`.
        let plain = self.byte_at(start) != b'-' && matches!(self.byte_at(end), b' ' | b'\t');
        if end == start || !plain {
            return None;
        }
        self.at = end;
        Some(BlankNodeRef::new_unchecked(&self.text[start..end]).into())
    }

    #[inline]
    fn iri(&mut self) -> Option<NamedNodeRef<'t>> {
        if self.byte() != b'<' {
            return None;
        }
        let text = self.text;
        let start = self.at + 1;
        let rest = &text.as_bytes()[start..];
        let host = if rest.starts_with(b"http://") {
            start + 7
        } else if rest.starts_with(b"https://") {
            start + 8
        } else {
            return self.checked_iri(start);
        };
        let mut end = self.skip(host, HOST);
        if end > host && self.byte_at(end) == b'/' {
            end = self.skip(end, IRI);
            if self.byte_at(end) == b'#' {
                end = self.skip(end + 1, IRI);
            }
            if self.byte_at(end) == b'>' {
                self.at = end + 1;
                return Some(NamedNodeRef::new_unchecked(&text[start..end]));
            }
        }
        self.checked_iri(start)
    }

    /// Reads an IRI of a less common shape.
    #[cold]
    fn checked_iri(&mut self, start: usize) -> Option<NamedNodeRef<'t>> {
        let text = self.text;
        let rest = &text.as_bytes()[start..];
        let length = (rest.iter()).position(|byte| matches!(byte, b'>' | b'\\' | b'\n'))?;
        if rest[length] != b'>' {
            return None;
        }
        let iri = NamedNodeRef::new(&text[start..start + length]).ok()?;
        self.at = start + length + 1;
        Some(iri)
    }

    fn literal(&mut self) -> Option<Object<'t>> {
        let whole = self.text;
        let start = self.at + 1;
        let mut end = start;
        while CLASSES[usize::from(self.byte_at(end))] & ENDS_TEXT == 0 && end < whole.len() {
            end += 1;
        }
        let text = match self.byte_at(end) {
            b'"' => Some(&whole[start..end]),
            b'\\' => {
                end = self.unescape(start, end)?;
                None
            }
            _ => return None,
        };
        self.at = end + 1;
        let suffix = match self.byte() {
            b'@' => Suffix::Language(self.language()?),
            b'^' if self.byte_at(self.at + 1) == b'^' => {
                self.at += 2;
                let datatype = self.iri()?;
                // A literal with a datatype that requires a language tag is refused, but not here.
                let tagged = datatype == rdf::LANG_STRING || datatype == rdf::DIR_LANG_STRING;
                if tagged {
                    return None;
                }
                Suffix::Datatype(datatype)
            }
            // Blanks before `@` or `^^` go to `oxttl`.
            b' ' | b'\t' => {
                self.skip_blanks();
                if matches!(self.byte(), b'@' | b'^') {
                    return None;
                }
                Suffix::None
            }
            _ => Suffix::None,
        };
        Some(Object::Literal(text, suffix))
    }

    /// Resolves the escapes of a text, the first of which is at `at`. Returns where the text ends.
    fn unescape(&mut self, start: usize, mut at: usize) -> Option<usize> {
        let whole = self.text;
        let mut from = start;
        self.unescaped.clear();
        loop {
            match self.byte_at(at) {
                b'"' => {
                    self.unescaped.push_str(&whole[from..at]);
                    return Some(at);
                }
                b'\\' => {
                    self.unescaped.push_str(&whole[from..at]);
                    self.unescaped.push(match self.byte_at(at + 1) {
                        b't' => '\t',
                        b'b' => '\u{8}',
                        b'n' => '\n',
                        b'r' => '\r',
                        b'f' => '\u{c}',
                        b'"' => '"',
                        b'\'' => '\'',
                        b'\\' => '\\',
                        _ => return None,
                    });
                    at += 2;
                    from = at;
                }
                b'\n' | b'\r' => return None,
                _ if at >= whole.len() => return None,
                _ => at += 1,
            }
        }
    }

    /// Reads a tag of two or three lower-case letters: the only tags that need neither a check nor
    /// a change.
    fn language(&mut self) -> Option<&'t str> {
        let start = self.at + 1;
        let mut end = start;
        while self.byte_at(end).is_ascii_lowercase() {
            end += 1;
        }
        let plain = (2..=3).contains(&(end - start)) && matches!(self.byte_at(end), b' ' | b'\t');
        if !plain {
            return None;
        }
        self.at = end;
        Some(&self.text[start..end])
    }
}
