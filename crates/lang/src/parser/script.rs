//! Texts of several statements, such as the files that `somersault register` reads.
//!
//! Statements are separated by `;` outside brackets. PREFIX and BASE hold from their place to the
//! end of the text, as in SPARQL 1.1 Update. Each statement is given as a text that stands alone:
//! the declarations before it that it needs are written in front of it.

use crate::algebra::statement::Statement;
use crate::grammar::Grammar;
use crate::parser::Parser;
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::names::Names;
use crate::token::{Place, Token, TokenKind, tokenize};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

/// A statement of a text that holds several, and where it stands.
#[derive(Debug, Clone)]
pub struct ScriptStatement {
    /// The statement.
    pub statement: Statement,
    /// The bytes of the whole text that it takes, with the comments and declarations before it.
    pub span: Range<usize>,
    /// The place of its first word in the whole text.
    pub place: Place,
    /// The statement as a text that stands alone.
    pub text: String,
    /// The place in the whole text where its own part of `text` begins.
    start: Place,
    /// The number of lines of declarations before that part.
    lines_before: u32,
}

impl ScriptStatement {
    /// The place in the whole text that a place in `text` is.
    #[must_use]
    pub fn place_in_script(&self, line: u32, column: u32) -> Place {
        let Some(line) = line.checked_sub(self.lines_before).filter(|line| *line > 0) else {
            return self.place;
        };
        Place {
            line: self.start.line + line - 1,
            column: match line {
                1 => self.start.column + column - 1,
                _ => column,
            },
        }
    }
}

impl Parser {
    /// Parses a text of statements that are separated by `;`: CREATE STREAM, DROP, PAUSE, RESUME,
    /// REGISTER, and continuous queries without a REGISTER header, which have no name.
    ///
    /// ```
    /// let parser = somersault_lang::Parser::new();
    /// let script = "# two streams
    /// PREFIX : <http://example.org/>
    /// CREATE STREAM :a;
    /// CREATE STREAM :b";
    /// let statements = parser.parse_script(script)?;
    /// assert_eq!(statements.len(), 2);
    /// assert_eq!(statements[1].place.line, 4);
    /// # Ok::<_, somersault_lang::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// For the first statement that is refused, with its place in the whole text.
    pub fn parse_script(&self, text: &str) -> Result<Vec<ScriptStatement>, ParseError> {
        let tokens = tokenize(text);
        let mut names = self.start_names()?;
        let mut statements = Vec::new();
        let mut prologues = Vec::new();
        let mut end = 0;
        for section in sections(text, &tokens) {
            let start = end;
            end = section.bytes.end;
            let tokens = &tokens[section.tokens];
            let mut cursor = Cursor::new(text, tokens);
            let before = names.clone();
            names.read_prologue(&mut cursor)?;
            let prologue = &tokens[..cursor.at];
            let earlier = prologues.len();
            prologues.extend(
                prologue
                    .first()
                    .zip(prologue.last())
                    .map(|(a, b)| a.start..b.end),
            );
            if cursor.is_any_keyword(&["PREFIX", "BASE", "VERSION"]) {
                // A malformed declaration is left unread; the grammar has the words for it.
                Grammar::new(text, tokens, false, true).prologue()?;
            }
            let Some(first) = cursor.peek() else { continue };
            let part = Part {
                source: text,
                tokens,
                bytes: trimmed(text, start..section.bytes.start),
            };
            let declarations = part.declarations(&before, prologue, self.base.as_deref());
            let own = format!("{declarations}{}", &text[part.bytes.clone()]);
            let is_query = cursor.is_any_keyword(&["SELECT", "CONSTRUCT", "ASK", "DESCRIBE"]);
            let parse = |text: &str| match is_query {
                true => (self.parse_continuous(text)).map(|it| Statement::Register(Box::new(it))),
                false => self.parse_statement(text),
            };
            let statement = parse(&own)
                .map_err(|error| part.error_in_place(parse, error, &prologues[..earlier]))?;
            statements.push(ScriptStatement {
                statement,
                place: Place::of(text, first.start),
                start: Place::of(text, part.bytes.start),
                lines_before: u32::try_from(declarations.lines().count()).unwrap_or(u32::MAX),
                span: part.bytes,
                text: own,
            });
        }
        Ok(statements)
    }
}

/// The tokens between two `;`, and the bytes of the second one.
struct Section {
    tokens: Range<usize>,
    bytes: Range<usize>,
}

/// The parts of a text between those `;` that stand outside brackets.
fn sections(source: &str, tokens: &[Token]) -> Vec<Section> {
    let mut sections = Vec::new();
    let (mut first, mut depth) = (0, 0usize);
    for (index, token) in tokens.iter().enumerate() {
        if token.kind != TokenKind::Punctuation {
            continue;
        }
        match token.text(source) {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => {
                sections.push(Section {
                    tokens: first..index,
                    bytes: token.range(),
                });
                first = index + 1;
            }
            _ => {}
        }
    }
    let end = source.len();
    sections.push(Section {
        tokens: first..tokens.len(),
        bytes: end..end,
    });
    sections
}

/// The range without the white space at its ends.
fn trimmed(source: &str, bytes: Range<usize>) -> Range<usize> {
    let text = &source[bytes.clone()];
    let start = bytes.start + text.len() - text.trim_start().len();
    start..start + text.trim().len()
}

/// One statement in the text that holds it.
struct Part<'t> {
    source: &'t str,
    tokens: &'t [Token],
    bytes: Range<usize>,
}

impl Part<'_> {
    /// The declarations that the statement needs of those before it, a line each: `names` are in
    /// force there. What its own prologue declares is left out.
    fn declarations(&self, names: &Names, prologue: &[Token], base: Option<&str>) -> String {
        let prefixes = |tokens: &[Token]| -> BTreeSet<&str> {
            let prefixed = tokens
                .iter()
                .filter(|token| token.kind == TokenKind::PrefixedName);
            prefixed
                .filter_map(|token| token.text(self.source).split(':').next())
                .collect()
        };
        let mut lines = String::new();
        if let Some(base) = names.base().filter(|known| Some(*known) != base) {
            let _ = writeln!(lines, "BASE <{base}>");
        }
        let declared = prefixes(prologue);
        for prefix in prefixes(self.tokens).difference(&declared) {
            if let Some(namespace) = names.namespace(prefix) {
                let _ = writeln!(lines, "PREFIX {prefix}: <{namespace}>");
            }
        }
        lines
    }

    /// The error of the statement with its places in the whole text: it is parsed once more where
    /// it stands, with nothing but the declarations before it.
    fn error_in_place(
        &self,
        parse: impl Fn(&str) -> Result<Statement, ParseError>,
        error: ParseError,
        declarations: &[Range<usize>],
    ) -> ParseError {
        let mut alone = String::with_capacity(self.bytes.end);
        let mut at = 0;
        for kept in declarations.iter().chain([&self.bytes]) {
            let skipped = self.source[at..kept.start].chars();
            alone.extend(skipped.map(|c| if c == '\n' { '\n' } else { ' ' }));
            alone.push_str(&self.source[kept.clone()]);
            at = kept.end;
        }
        let mut found = parse(&alone).err().unwrap_or(error);
        found.offset = offset_of(self.source, found.line, found.column);
        found
    }
}

/// The byte of a place.
fn offset_of(source: &str, line: u32, column: u32) -> usize {
    let before = source
        .split_inclusive('\n')
        .take(line.saturating_sub(1) as usize);
    let start: usize = before.map(str::len).sum();
    let mut characters = source[start..].char_indices();
    let character = characters.nth(column.saturating_sub(1) as usize);
    character.map_or(source.len(), |(at, _)| start + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(script: &str) -> Result<Vec<ScriptStatement>, ParseError> {
        Parser::new().parse_script(script)
    }

    #[test]
    fn statements_are_separated() {
        let script = "# a comment; with a semicolon and CREATE STREAM <urn:no>\n\
                      PREFIX : <http://e/> CREATE STREAM :a KEEP 1m ;;\n\
                      CREATE STREAM <http://e/b;c> # and ; here\n ;\n\
                      REGISTER RSTREAM busy AS SELECT ?x (GROUP_CONCAT(?y; separator=\";\") AS ?z)\n\
                      FROM NAMED WINDOW :w ON :a [RANGE 1s STEP 1s] \
                      { WINDOW :w { ?x :p ?y ; :q 'a;b' } } GROUP BY ?x ;\n\
                      REGISTER QUERY \"two words\" AS SELECT * FROM STREAM :a [RANGE 1s STEP 1s] { ?s ?p ?o };\n\
                      SELECT * FROM STREAM <http://e/a> [RANGE 1s STEP 1s] { ?s ?p ?o };\n\
                      DROP QUERY \"two words\"; PAUSE QUERY busy; RESUME QUERY busy; DROP STREAM :a;\n# the end";
        let statements = parse(script).expect("all of them are statements");
        let shown: Vec<String> = (statements.iter())
            .map(|it| match &it.statement {
                Statement::CreateStream(stream) => format!("create {}", stream.iri.as_str()),
                Statement::DropStream(iri) => format!("drop {}", iri.as_str()),
                Statement::DropQuery(name) => format!("drop query {name}"),
                Statement::PauseQuery(name) => format!("pause {name}"),
                Statement::ResumeQuery(name) => format!("resume {name}"),
                Statement::Register(query) => format!("register {:?}", query.name),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            shown,
            [
                "create http://e/a",
                "create http://e/b;c",
                "register Some(\"busy\")",
                "register Some(\"two words\")",
                "register None",
                "drop query two words",
                "pause busy",
                "resume busy",
                "drop http://e/a",
            ]
        );
        // Each text stands alone.
        for statement in &statements {
            let again = parse(&statement.text).expect("a statement's text stands alone");
            assert_eq!(again.len(), 1, "{}", statement.text);
        }
        assert_eq!(
            statements[1].text,
            "CREATE STREAM <http://e/b;c> # and ; here"
        );
        let busy = &statements[2];
        assert!(
            busy.text.starts_with("PREFIX : <http://e/>\nREGISTER"),
            "{}",
            busy.text
        );
        assert_eq!((busy.place.line, busy.place.column), (5, 1));
        let mapped = busy.place_in_script(3, 6);
        assert_eq!((mapped.line, mapped.column), (6, 6));
        assert_eq!(
            &script[busy.span.clone()],
            &busy.text["PREFIX : <http://e/>\n".len()..]
        );
    }

    #[test]
    fn declarations_hold_to_the_end_of_the_script() {
        let script = "BASE <http://a/> PREFIX p: <x#> CREATE STREAM <s>;\n\
                      CREATE STREAM p:t; BASE <http://b/> PREFIX p: <y#> CREATE STREAM p:u;\n\
                      CREATE STREAM <v>";
        let iris: Vec<String> = (parse(script).expect("it parses").into_iter())
            .map(|it| match it.statement {
                Statement::CreateStream(stream) => stream.iri.into_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            iris,
            ["http://a/s", "http://a/x#t", "http://b/y#u", "http://b/v"]
        );
    }

    #[test]
    fn faults_have_their_place_in_the_whole_text() {
        let fault = |script: &str| {
            let error = parse(script).expect_err("it has a fault");
            (error.line, error.column, error.offset, error.message)
        };
        let (line, column, offset, message) = fault(
            "CREATE STREAM <urn:a>;\n\n  CREATE STREAM <urn:b> KEPT 1m;\nCREATE STREAM <urn:c>",
        );
        assert_eq!((line, column, offset), (3, 25, 48), "{message}");
        let (line, column, _, message) = fault("CREATE STREAM <urn:a>; garbage here");
        assert_eq!((line, column), (1, 24), "{message}");
        let (line, _, _, message) =
            fault("CREATE STREAM <urn:a>;\nPREFIX p <urn:p> CREATE STREAM p:a");
        assert!(line == 2 && message.contains("prefix"), "{message}");
        // Places inside a sentence are those of the whole text too, behind letters of several
        // bytes.
        let (line, _, _, message) = fault(
            "# é\nCREATE STREAM <urn:é>;\nREGISTER QUERY q AS SELECT *\n\
             FROM STREAM <urn:s> [RANGE 1s STEP 1s]\nWHERE { ?s ?p ?o",
        );
        assert_eq!(line, 5, "{message}");
        assert!(message.contains("line 5, column 7"), "{message}");
        let (line, column, _, message) =
            fault("PREFIX p: <urn:p>\nCREATE STREAM p:a;\nCREATE STREAM q:b");
        assert_eq!((line, column), (3, 15), "{message}");
    }
}
