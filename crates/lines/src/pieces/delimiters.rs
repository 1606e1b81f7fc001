//! Cuts a text at its delimiters of messages, byte by byte, so that a text may come in pieces.
//!
//! The one thing to know: MESSAGE by itself is no word of the four syntaxes. So wherever it stands
//! as a token of its own, outside strings, IRIs and comments, it is a delimiter, also behind
//! statements that do not parse. `@message` is one too, unless it is the language of a string.

/// Nesting of triple terms beyond this is not handed to a parser: reading and dropping them
/// recurses.
pub(crate) const DEEPEST_TRIPLE_TERMS: usize = 64;

/// A delimiter, or what stands in the place of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delimiter {
    /// The end of the message before it.
    pub(crate) start: usize,
    /// The beginning of the message behind it.
    pub(crate) end: usize,
    /// Whether it stands inside brackets, so that the beginning of the next message is unknown.
    pub(crate) is_inside: bool,
    /// Whether the `.` behind `@message` is missing.
    pub(crate) lacks_dot: bool,
}

impl Delimiter {
    /// One with nothing wrong.
    pub(crate) fn plain(bytes: std::ops::Range<usize>) -> Delimiter {
        Delimiter {
            start: bytes.start,
            end: bytes.end,
            is_inside: false,
            lacks_dot: false,
        }
    }
}

/// The syntaxes that differ in where a delimiter may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grammar {
    /// N-Triples and N-Quads: MESSAGE on a line of its own; every token ends with its line.
    Lines,
    /// Turtle and TriG.
    Terse,
}

/// The state between two bytes.
#[derive(Debug)]
pub(crate) struct Cutter {
    grammar: Grammar,
    state: State,
    token: Token,
    depth: usize,
    triple_terms: usize,
    deepest: usize,
    previous: Previous,
    /// Whether nothing but white space stands before the next byte on its line.
    is_line_start: bool,
    /// Where a VERSION directive of a line began.
    version_start: Option<usize>,
    versions: Vec<std::ops::Range<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Between,
    /// Behind `<`.
    Angle,
    /// Behind `>`.
    Closed,
    Iri,
    Comment,
    /// Behind this many opening quotes.
    Quotes(u8, u8),
    Text(u8),
    TextEscape(u8),
    /// In a text of three quotes, behind this many quotes.
    LongText(u8, u8),
    LongTextEscape(u8),
    /// Behind a delimiter, on its way to `.` or to the end of the line.
    Closing(usize),
    ClosingComment(usize),
}

/// The token before the one that is read, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Previous {
    Other,
    Version,
    Text,
    /// The text of a VERSION directive.
    VersionText,
}

/// The token that is read.
#[derive(Debug, Default)]
struct Token {
    start: usize,
    /// Its first bytes.
    bytes: [u8; 8],
    length: usize,
    /// Dots behind it, which belong to it only if more of it follows.
    dots: usize,
    starts_line: bool,
    is_escaped: bool,
}

impl Token {
    fn push(&mut self, byte: u8) {
        if self.dots > 0 {
            // No word has a dot inside.
            self.length += self.dots + self.bytes.len();
            self.dots = 0;
        }
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
        }
        self.length += 1;
    }

    fn is(&self, word: &[u8], has_case: bool) -> bool {
        let Some(bytes) = self.bytes.get(..self.length) else {
            return false;
        };
        match has_case {
            true => bytes == word,
            false => bytes.eq_ignore_ascii_case(word),
        }
    }
}

impl Cutter {
    pub(crate) fn new(grammar: Grammar) -> Cutter {
        Cutter {
            grammar,
            state: State::Between,
            token: Token::default(),
            depth: 0,
            triple_terms: 0,
            deepest: 0,
            previous: Previous::Other,
            is_line_start: true,
            version_start: None,
            versions: Vec::new(),
        }
    }

    /// Goes on from `at` to the next delimiter or to the end of the bytes. Offsets count from the
    /// first byte.
    pub(crate) fn next(&mut self, bytes: &[u8], at: &mut usize) -> Option<Delimiter> {
        while let Some(&byte) = bytes.get(*at) {
            let (delimiter, is_taken) = self.take(byte, *at);
            *at += usize::from(is_taken);
            let Some(mut delimiter) = delimiter else {
                continue;
            };
            if !is_taken && byte == b'\n' {
                // The line of the delimiter is not the first of the next message.
                *at += 1;
                delimiter.end = *at;
                self.is_line_start = true;
            }
            return Some(delimiter);
        }
        None
    }

    /// A delimiter that the end of the text closes.
    pub(crate) fn end(&mut self, at: usize) -> Option<Delimiter> {
        let delimiter = self.end_token(at);
        self.end_version(at);
        match self.state {
            State::Closing(start) | State::ClosingComment(start) if delimiter.is_none() => {
                Some(self.delimiter(start, at, self.grammar == Grammar::Terse))
            }
            _ => delimiter,
        }
    }

    /// Forgets the first bytes; those that follow are counted from the new first one.
    pub(crate) fn forget(&mut self, bytes: usize) {
        self.token.start = self.token.start.saturating_sub(bytes);
        self.version_start = self.version_start.map(|start| start.saturating_sub(bytes));
        self.versions.clear();
        if let State::Closing(start) | State::ClosingComment(start) = &mut self.state {
            *start = start.saturating_sub(bytes);
        }
    }

    /// Begins a message; tells how deep the triple terms of the last one were nested, and where its
    /// lines with VERSION are.
    pub(crate) fn begin(&mut self) -> (usize, Vec<std::ops::Range<usize>>) {
        self.depth = 0;
        self.triple_terms = 0;
        self.previous = Previous::Other;
        (
            std::mem::take(&mut self.deepest),
            std::mem::take(&mut self.versions),
        )
    }

    /// Takes a byte, or leaves it for the next call in a new state.
    fn take(&mut self, byte: u8, at: usize) -> (Option<Delimiter>, bool) {
        if self.grammar == Grammar::Lines && matches!(byte, b'\n' | b'\r') {
            return (self.end_line(at), true);
        }
        let mut is_taken = true;
        self.state = match self.state {
            State::Between => return self.between(byte, at),
            State::Angle if byte == b'<' => {
                self.triple_terms += 1;
                self.deepest = self.deepest.max(self.triple_terms);
                State::Between
            }
            State::Angle | State::Iri => match byte {
                b'>' => State::Between,
                b' ' | b'\t' | b'\n' | b'\r' | b'<' | b'"' => {
                    is_taken = false;
                    State::Between
                }
                _ => State::Iri,
            },
            State::Closed => {
                is_taken = byte == b'>';
                self.triple_terms = self.triple_terms.saturating_sub(usize::from(is_taken));
                State::Between
            }
            State::Comment if byte == b'\n' || byte == b'\r' => State::Between,
            State::Comment => State::Comment,
            State::Quotes(quote, 1) if byte == quote => State::Quotes(quote, 2),
            State::Quotes(quote, 2) if byte == quote && self.grammar == Grammar::Terse => {
                State::LongText(quote, 0)
            }
            State::Quotes(quote, 1) => {
                is_taken = false;
                State::Text(quote)
            }
            State::Quotes(..) => {
                is_taken = false;
                self.end_text()
            }
            State::Text(quote) => match byte {
                b'\\' => State::TextEscape(quote),
                b'\n' | b'\r' => self.end_text(),
                _ if byte == quote => self.end_text(),
                _ => State::Text(quote),
            },
            State::TextEscape(quote) => State::Text(quote),
            State::LongText(quote, closing) => match byte {
                b'\\' => State::LongTextEscape(quote),
                _ if byte == quote && closing == 2 => self.end_text(),
                _ if byte == quote => State::LongText(quote, closing + 1),
                _ => State::LongText(quote, 0),
            },
            State::LongTextEscape(quote) => State::LongText(quote, 0),
            State::Closing(start) => return self.closing(byte, start, at),
            State::ClosingComment(start) if byte == b'\n' || byte == b'\r' => State::Closing(start),
            State::ClosingComment(start) => State::ClosingComment(start),
        };
        (None, is_taken)
    }

    fn between(&mut self, byte: u8, at: usize) -> (Option<Delimiter>, bool) {
        let is_first = self.token.length == 0;
        let belongs = match byte {
            _ if self.token.is_escaped => true,
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'_'
            | b':'
            | b'-'
            | b'%'
            | b'@'
            | b'\\'
            | 0x80.. => true,
            b'.' if !is_first => {
                self.token.dots += 1;
                return (None, true);
            }
            _ => false,
        };
        if belongs {
            if is_first {
                self.token.start = at;
                self.token.starts_line = self.is_line_start;
            }
            self.token.is_escaped = byte == b'\\' && !self.token.is_escaped;
            self.token.push(byte);
            self.is_line_start = false;
            return (None, true);
        }
        if !is_first {
            let delimiter = self.end_token(at);
            if delimiter.is_some() || self.state != State::Between {
                return (delimiter, false);
            }
        }
        self.is_line_start &= matches!(byte, b' ' | b'\t');
        match byte {
            b'\n' | b'\r' => self.is_line_start = true,
            b' ' | b'\t' => {}
            b'#' => self.state = State::Comment,
            b'"' | b'\'' => self.state = State::Quotes(byte, 1),
            b'<' => {
                self.previous = Previous::Other;
                self.state = State::Angle;
            }
            b'>' => {
                self.previous = Previous::Other;
                self.state = State::Closed;
            }
            b'{' | b'[' | b'(' => self.depth += 1,
            b'}' | b']' | b')' => {
                self.depth = self.depth.saturating_sub(1);
                self.previous = Previous::Other;
            }
            _ => self.previous = Previous::Other,
        }
        (None, true)
    }

    /// Ends the token that is read, which may be a delimiter.
    fn end_token(&mut self, at: usize) -> Option<Delimiter> {
        let token = std::mem::take(&mut self.token);
        if token.length == 0 {
            return None;
        }
        let previous = std::mem::replace(&mut self.previous, Previous::Other);
        let is_lines = self.grammar == Grammar::Lines;
        if token.is(b"VERSION", is_lines) || !is_lines && token.is(b"@version", false) {
            self.previous = Previous::Version;
            if is_lines && token.starts_line && token.dots == 0 {
                self.version_start = Some(token.start);
            }
            return None;
        }
        if token.is(b"MESSAGE", is_lines) && token.dots == 0 {
            if !is_lines {
                return Some(self.delimiter(token.start, at, false));
            }
            if token.starts_line {
                self.state = State::Closing(token.start);
            }
            return None;
        }
        if !is_lines && token.is(b"@message", true) && previous != Previous::Text {
            if token.dots == 1 {
                return Some(self.delimiter(token.start, at, false));
            }
            self.state = State::Closing(token.start);
        }
        None
    }

    /// Behind the word of a delimiter, before its `.` or the end of its line.
    fn closing(&mut self, byte: u8, start: usize, at: usize) -> (Option<Delimiter>, bool) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => (None, true),
            b'#' => {
                self.state = State::ClosingComment(start);
                (None, true)
            }
            b'.' if self.grammar == Grammar::Terse => {
                (Some(self.delimiter(start, at + 1, false)), true)
            }
            _ if self.grammar == Grammar::Terse => (Some(self.delimiter(start, at, true)), false),
            // More stands on the line: it is no delimiter, and no statement either.
            _ => {
                self.state = State::Between;
                (None, false)
            }
        }
    }

    /// Ends a line of N-Triples or N-Quads, and all tokens on it.
    fn end_line(&mut self, at: usize) -> Option<Delimiter> {
        let delimiter = self.end_token(at);
        debug_assert!(delimiter.is_none(), "a line has to end first");
        self.end_version(at);
        let found = match self.state {
            State::Closing(start) | State::ClosingComment(start) => {
                Some(self.delimiter(start, at + 1, false))
            }
            _ => None,
        };
        self.state = State::Between;
        self.previous = Previous::Other;
        self.is_line_start = true;
        (self.depth, self.triple_terms) = (0, 0);
        found
    }

    fn end_version(&mut self, at: usize) {
        if let Some(start) = self.version_start.take() {
            self.versions.push(start..at);
        }
    }

    fn end_text(&mut self) -> State {
        self.previous = match self.previous {
            Previous::Version => Previous::VersionText,
            _ => Previous::Text,
        };
        State::Between
    }

    fn delimiter(&mut self, start: usize, end: usize, lacks_dot: bool) -> Delimiter {
        self.state = State::Between;
        Delimiter {
            start,
            end,
            is_inside: self.depth > 0,
            lacks_dot,
        }
    }
}
