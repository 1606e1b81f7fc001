//! From texts to what the coordinator needs of them. The caller of a registration reads its text
//! before it hands it in, and the texts of a log are read ahead of its replay.
//!
//! Before changing anything here: no other file of this crate names the parser, and neither does
//! the sequencer of `runtime`; `tidy` checks it. This room is the last, so that no other can import
//! it. What it reads must follow from the text alone, or recovery ends in a state other than that
//! of the live run (S6).

use crate::protocol::command::{ParsedCommand, ParsedQueries, ParsedQuery, ReadTexts};
use crate::protocol::declaration::{QueryDeclaration, ResolveError};
use rustc_hash::FxHashMap;
use somersault_lang::lift::{Shape, join_pieces};
use somersault_lang::procedure::{CreateDataflow, CreateProcedure};
use somersault_lang::{CreateStream, ParseError, Parser, Statement};
use somersault_log::{Command, CommandRecord};
use std::sync::Arc;

/// At most this many shapes are remembered.
const SHAPES: usize = 1024;

impl ParsedQuery {
    /// The query of this text, which declares these windows and closes.
    pub fn of(text: &str, declaration: QueryDeclaration) -> ParsedQuery {
        let (shape, words) = shape_of(text, declaration.live.is_some());
        ParsedQuery::new(Arc::new(shape), words, Arc::new(declaration))
    }
}

/// Reads the texts of logged commands. Texts of one shape declare the same windows and closes, so
/// only the first of them is parsed.
#[derive(Debug, Default)]
pub struct LoggedTexts {
    /// By the namespace of the text, and the key of its shape.
    known: FxHashMap<(Option<String>, String), Arc<QueryDeclaration>>,
}

impl LoggedTexts {
    /// A reader that has read no text.
    pub fn new() -> LoggedTexts {
        LoggedTexts::default()
    }

    /// The command with what its text says.
    ///
    /// # Errors
    /// If this version does not understand the text any more.
    pub fn read(&mut self, record: CommandRecord) -> Result<ParsedCommand, ResolveError> {
        match &record.command {
            Command::CreateStream {
                text, namespace, ..
            } => {
                let declaration = Arc::new(stream_declaration(text, namespace.as_deref())?);
                Ok(ParsedCommand::create(record, declaration))
            }
            Command::RegisterQuery {
                text, namespace, ..
            }
            | Command::ReplaceQuery {
                text, namespace, ..
            } => {
                let query = self.query(text, namespace.as_deref())?;
                Ok(ParsedCommand::register(record, query))
            }
            Command::RegisterQueries {
                pieces,
                namespace,
                members,
            } => {
                let queries = self.queries(pieces, namespace.as_deref(), members)?;
                Ok(ParsedCommand::register_many(record, queries))
            }
            Command::CreateProcedure {
                text, namespace, ..
            } => {
                let procedure = LoggedTexts::procedure(text, namespace.as_deref())?;
                Ok(ParsedCommand::create_procedure(record, procedure))
            }
            Command::CreateDataflow {
                text, namespace, ..
            } => {
                let dataflow = LoggedTexts::dataflow(text, namespace.as_deref())?;
                Ok(ParsedCommand::create_dataflow(record, dataflow))
            }
            Command::DropStream { .. }
            | Command::ResetStream { .. }
            | Command::DropQuery { .. }
            | Command::PauseQuery { .. }
            | Command::ResumeQuery { .. }
            | Command::DropProcedure { .. }
            | Command::DropDataflow { .. }
            | Command::PauseDataflow { .. }
            | Command::ResumeDataflow { .. } => Ok(ParsedCommand::without_text(record)),
        }
    }

    /// The procedure that a text declares.
    ///
    /// # Errors
    /// If this version does not understand the text, or it declares something else.
    pub fn procedure(
        text: &str,
        namespace: Option<&str>,
    ) -> Result<Arc<CreateProcedure>, ResolveError> {
        match transactional(text, namespace)? {
            Statement::CreateProcedure(procedure) => Ok(Arc::new(*procedure)),
            _ => Err(not_declared(text)),
        }
    }

    /// The dataflow that a text declares.
    ///
    /// # Errors
    /// If this version does not understand the text, or it declares something else.
    pub fn dataflow(
        text: &str,
        namespace: Option<&str>,
    ) -> Result<Arc<CreateDataflow>, ResolveError> {
        match transactional(text, namespace)? {
            Statement::CreateDataflow(dataflow) => Ok(Arc::new(dataflow)),
            _ => Err(not_declared(text)),
        }
    }

    fn queries(
        &mut self,
        pieces: &[String],
        namespace: Option<&str>,
        members: &[(String, Vec<String>)],
    ) -> Result<ParsedQueries, ResolveError> {
        let first = members.first().map_or(&[][..], |(_, words)| words);
        let text = join_pieces(pieces, first);
        if let Some((shape, _)) = Shape::of(&text) {
            let declaration = self.declaration(&shape, &text, namespace)?;
            if declaration.live.is_none() {
                return Ok(ParsedQueries::OneShape(Arc::new(shape), declaration));
            }
        }
        let texts = members.iter().map(|(_, words)| join_pieces(pieces, words));
        let queries = texts.map(|text| self.query(&text, namespace));
        Ok(ParsedQueries::Apart(queries.collect::<Result<_, _>>()?))
    }

    /// The windows and closes of a text of this shape.
    fn declaration(
        &mut self,
        shape: &Shape,
        text: &str,
        namespace: Option<&str>,
    ) -> Result<Arc<QueryDeclaration>, ResolveError> {
        if !shape.is_shared() {
            return query_declaration(text, namespace).map(Arc::new);
        }
        let key = (namespace.map(str::to_owned), shape.key().to_owned());
        if let Some(known) = self.known.get(&key) {
            return Ok(Arc::clone(known));
        }
        let declaration = Arc::new(query_declaration(text, namespace)?);
        if declaration.live.is_some() {
            // What it reads depends on its constants.
            return Ok(declaration);
        }
        if self.known.len() == SHAPES {
            self.known.clear();
        }
        self.known.insert(key, Arc::clone(&declaration));
        Ok(declaration)
    }
}

impl ReadTexts for LoggedTexts {
    fn stream(
        &mut self,
        text: &str,
        namespace: Option<&str>,
    ) -> Result<CreateStream, ResolveError> {
        stream_declaration(text, namespace)
    }

    fn query(&mut self, text: &str, namespace: Option<&str>) -> Result<ParsedQuery, ResolveError> {
        let (shape, words) = shape_of(text, false);
        let declaration = self.declaration(&shape, text, namespace)?;
        let (shape, words) = match declaration.live {
            Some(_) => shape_of(text, true),
            None => (shape, words),
        };
        Ok(ParsedQuery::new(Arc::new(shape), words, declaration))
    }
}

/// The shape of a text and its words. A text that has none is a shape of its own, and so is that of
/// a live query: it fires when its own answer changes, and not with others of its shape.
fn shape_of(text: &str, is_live: bool) -> (Shape, Vec<String>) {
    let shape = Shape::of(text).filter(|_| !is_live);
    shape.unwrap_or_else(|| (Shape::whole(text), Vec::new()))
}

fn stream_declaration(text: &str, namespace: Option<&str>) -> Result<CreateStream, ResolveError> {
    match parser(namespace).parse_statement(text) {
        Ok(Statement::CreateStream(declaration)) => Ok(declaration),
        Ok(_) => Err(ResolveError::NotAStream {
            text: text.to_owned(),
        }),
        Err(error) => Err(not_understood(text, error)),
    }
}

fn query_declaration(
    text: &str,
    namespace: Option<&str>,
) -> Result<QueryDeclaration, ResolveError> {
    match parser(namespace).parse_continuous(text) {
        Ok(query) => Ok(QueryDeclaration::from(&query)),
        Err(error) => Err(not_understood(text, error)),
    }
}

/// The declaration of a procedure or a dataflow.
fn transactional(text: &str, namespace: Option<&str>) -> Result<Statement, ResolveError> {
    let parser = parser(namespace);
    let statement = parser.parse_statement(text);
    statement.map_err(|error| not_understood(text, error))
}

fn not_declared(text: &str) -> ResolveError {
    ResolveError::NotADeclaration {
        text: text.to_owned(),
    }
}

fn not_understood(text: &str, error: ParseError) -> ResolveError {
    ResolveError::Text {
        text: text.to_owned(),
        error: Box::new(error),
    }
}

fn parser(namespace: Option<&str>) -> Parser {
    match namespace {
        Some(namespace) => Parser::new().with_default_namespace(namespace),
        None => Parser::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_log::Resolved;
    use somersault_model::Millis;

    const NAMESPACE: &str = "http://n/";

    fn read(texts: &mut LoggedTexts, command: Command) -> Result<ParsedCommand, ResolveError> {
        texts.read(CommandRecord {
            received_ms: 0,
            command,
            resolved: Resolved::default(),
        })
    }

    fn create(text: &str) -> Command {
        Command::CreateStream {
            iri: "http://n/s".to_owned(),
            text: text.to_owned(),
            namespace: Some(NAMESPACE.to_owned()),
        }
    }

    fn register(text: &str) -> Command {
        Command::RegisterQuery {
            name: "q".to_owned(),
            text: text.to_owned(),
            namespace: Some(NAMESPACE.to_owned()),
        }
    }

    fn over(step: &str, constant: u32) -> String {
        format!(
            "REGISTER QUERY q COMPUTED EVERY 2s AS SELECT ?x FROM s [RANGE 10s STEP {step}] WHERE {{ GRAPH s {{ ?x p {constant} }} }}"
        )
    }

    #[test]
    fn logged_texts_are_read_by_the_parser() {
        let texts = &mut LoggedTexts::new();
        let text = "CREATE STREAM s TIMELESS INTO GRAPH g BATCH 1s IDLE NEVER";
        let created = read(texts, create(text)).unwrap();
        let stream = created.stream();
        assert_eq!(stream.iri.as_str(), "http://n/s");
        assert_eq!((stream.batch, stream.idle), (Millis(1_000), None));
        let text = "REGISTER QUERY q COMPUTED EVERY 2s AS SELECT ?x FROM s [RANGE 10s STEP 1s] WHERE { GRAPH s { ?x p ?y } }";
        let registered = read(texts, register(text)).unwrap();
        let query = registered.query().declaration();
        assert_eq!(query.windows.len(), 1);
        assert_eq!(query.windows[0].stream.as_str(), "http://n/s");
        assert_eq!(query.windows[0].extent.to_string(), "RANGE 10s STEP 1s");
        assert_eq!(query.computed_every, Some(Millis(2_000)));
        let error = read(texts, create("DROP STREAM <http://n/s>"));
        assert!(matches!(error, Err(ResolveError::NotAStream { .. })));
        let error = read(texts, register("SELECT")).unwrap_err();
        assert!(error.to_string().contains("does not understand"), "{error}");
    }

    #[test]
    fn texts_of_one_shape_are_parsed_once() {
        let texts = &mut LoggedTexts::new();
        let mut declaration = |text: &str| {
            let registered = read(texts, register(text)).unwrap();
            Arc::clone(registered.query().declaration())
        };
        let first = declaration(&over("1s", 1));
        assert!(Arc::ptr_eq(&first, &declaration(&over("1s", 2))));
        let other = declaration(&over("2s", 1));
        assert_ne!(first, other);
        assert_eq!(texts.known.len(), 2);
    }

    #[test]
    fn queries_that_are_registered_together_share_a_shape_or_stand_apart() {
        let texts = &mut LoggedTexts::new();
        let (shape, words) = Shape::of(&over("1s", 1)).unwrap();
        let members = vec![("a".to_owned(), words.clone()), ("b".to_owned(), words)];
        let together = |pieces: &[String], members| Command::RegisterQueries {
            pieces: pieces.to_vec(),
            namespace: Some(NAMESPACE.to_owned()),
            members,
        };
        let shared = read(texts, together(shape.pieces(), members)).unwrap();
        assert!(matches!(
            shared.queries(),
            ParsedQueries::OneShape(of, _) if **of == shape
        ));
        // No version finds a shape in this text, but an earlier one might have.
        let pieces = [
            "SELECT ISTREAM ?x FROM STREAM s [RANGE 1s STEP 1s] WHERE { ?x p ",
            " }",
        ];
        let members = ["1", "2"].map(|word| (word.to_owned(), vec![word.to_owned()]));
        let apart = read(
            texts,
            together(&pieces.map(str::to_owned), members.to_vec()),
        );
        let apart = apart.unwrap();
        let ParsedQueries::Apart(queries) = apart.queries() else {
            panic!("{:?}", apart.queries())
        };
        assert_eq!(queries.len(), 2);
        assert!(
            queries[1]
                .shape()
                .text(queries[1].words())
                .ends_with("?x p 2 }")
        );
    }
}
