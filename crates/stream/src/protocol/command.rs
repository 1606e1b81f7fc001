//! Commands with what their texts say. A text is parsed before its command reaches the coordinator:
//! on the caller's thread where the command is new, and ahead of the replay where it is logged
//! (`texts.rs`).
//!
//! Before changing anything here: the log keeps the text alone, and the parsed form follows from it
//! (S6).

use super::declaration::{QueryDeclaration, ResolveError};
use somersault_lang::CreateStream;
use somersault_lang::lift::Shape;
use somersault_lang::procedure::{CreateDataflow, CreateProcedure};
use somersault_log::{CommandRecord, ConsumerBegin};
use somersault_model::Sn;
use std::sync::Arc;

/// The parts of a registered text that the coordinator needs; the pattern is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedQuery {
    shape: Arc<Shape>,
    words: Vec<String>,
    declaration: Arc<QueryDeclaration>,
}

/// The reader of the texts that a checkpoint holds.
pub trait ReadTexts {
    /// The declaration of a CREATE STREAM text.
    ///
    /// # Errors
    /// If this version does not understand the text.
    fn stream(&mut self, text: &str, namespace: Option<&str>)
    -> Result<CreateStream, ResolveError>;

    /// The query of a registered text.
    ///
    /// # Errors
    /// If this version does not understand the text.
    fn query(&mut self, text: &str, namespace: Option<&str>) -> Result<ParsedQuery, ResolveError>;
}

/// A command, and what its text says.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedCommand {
    record: CommandRecord,
    text: CommandText,
}

/// The parsed text of a command.
#[derive(Clone, Debug, PartialEq)]
enum CommandText {
    /// The command has none.
    None,
    /// Of CREATE STREAM.
    Stream(Arc<CreateStream>),
    /// Of a registration or a replacement.
    Query(ParsedQuery),
    /// Of queries that are registered together.
    Queries(ParsedQueries),
    /// Of CREATE PROCEDURE.
    Procedure(DeclaredProcedure),
    /// Of CREATE DATAFLOW.
    Dataflow(Arc<CreateDataflow>),
}

/// A declared procedure. What it says follows from its text.
#[derive(Clone, Debug)]
struct DeclaredProcedure(Arc<CreateProcedure>);

impl PartialEq for DeclaredProcedure {
    fn eq(&self, other: &DeclaredProcedure) -> bool {
        self.0.text == other.0.text
    }
}

/// The texts of queries that are registered together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ParsedQueries {
    /// They share a shape, and the windows and closes.
    OneShape(Arc<Shape>, Arc<QueryDeclaration>),
    /// The version that logged these texts found a shape in them, and this version finds none.
    Apart(Vec<ParsedQuery>),
}

impl ParsedQuery {
    /// The text of this shape with these words, which declares these windows and closes.
    pub(crate) fn new(
        shape: Arc<Shape>,
        words: Vec<String>,
        declaration: Arc<QueryDeclaration>,
    ) -> ParsedQuery {
        ParsedQuery {
            shape,
            words,
            declaration,
        }
    }

    /// The shape of the text.
    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// The words of the text in the places of the shape.
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// The windows and closes of the text.
    pub(crate) fn declaration(&self) -> &Arc<QueryDeclaration> {
        &self.declaration
    }
}

impl ParsedCommand {
    /// A command that has no text.
    pub fn without_text(record: CommandRecord) -> ParsedCommand {
        ParsedCommand {
            record,
            text: CommandText::None,
        }
    }

    /// CREATE STREAM.
    pub(crate) fn create(record: CommandRecord, declaration: Arc<CreateStream>) -> ParsedCommand {
        ParsedCommand {
            record,
            text: CommandText::Stream(declaration),
        }
    }

    /// The registration or replacement of one query.
    pub(crate) fn register(record: CommandRecord, query: ParsedQuery) -> ParsedCommand {
        ParsedCommand {
            record,
            text: CommandText::Query(query),
        }
    }

    /// The registration of several queries.
    pub(crate) fn register_many(record: CommandRecord, queries: ParsedQueries) -> ParsedCommand {
        ParsedCommand {
            record,
            text: CommandText::Queries(queries),
        }
    }

    /// CREATE PROCEDURE.
    pub fn create_procedure(
        record: CommandRecord,
        procedure: Arc<CreateProcedure>,
    ) -> ParsedCommand {
        ParsedCommand {
            record,
            text: CommandText::Procedure(DeclaredProcedure(procedure)),
        }
    }

    /// CREATE DATAFLOW.
    pub fn create_dataflow(record: CommandRecord, dataflow: Arc<CreateDataflow>) -> ParsedCommand {
        ParsedCommand {
            record,
            text: CommandText::Dataflow(dataflow),
        }
    }

    /// The same, resolved at this snapshot number.
    pub(crate) fn at(mut self, sn: Sn) -> ParsedCommand {
        self.record.resolved.sn = sn;
        self
    }

    /// The same, with where streams stand whose first consumer a procedure is.
    #[must_use]
    pub fn with_begins(mut self, begins: Vec<ConsumerBegin>) -> ParsedCommand {
        self.record.resolved.begins = begins;
        self
    }

    /// The declaration of CREATE STREAM.
    pub fn stream_declaration(&self) -> Option<&Arc<CreateStream>> {
        match &self.text {
            CommandText::Stream(declaration) => Some(declaration),
            _ => None,
        }
    }

    /// The procedure of CREATE PROCEDURE.
    pub fn procedure(&self) -> Option<&Arc<CreateProcedure>> {
        match &self.text {
            CommandText::Procedure(procedure) => Some(&procedure.0),
            _ => None,
        }
    }

    /// The dataflow of CREATE DATAFLOW.
    pub fn dataflow(&self) -> Option<&Arc<CreateDataflow>> {
        match &self.text {
            CommandText::Dataflow(dataflow) => Some(dataflow),
            _ => None,
        }
    }

    /// The record, which the log keeps.
    pub fn record(&self) -> &CommandRecord {
        &self.record
    }

    /// The declaration of CREATE STREAM.
    pub(crate) fn stream(&self) -> &Arc<CreateStream> {
        match &self.text {
            CommandText::Stream(declaration) => declaration,
            _ => unreachable!("CREATE STREAM is made with its declaration"),
        }
    }

    /// The query of a registration or a replacement.
    pub(crate) fn query(&self) -> &ParsedQuery {
        match &self.text {
            CommandText::Query(query) => query,
            _ => unreachable!("a registration is made with its query"),
        }
    }

    /// The queries that are registered together.
    pub(crate) fn queries(&self) -> &ParsedQueries {
        match &self.text {
            CommandText::Queries(queries) => queries,
            _ => unreachable!("registrations are made with their queries"),
        }
    }
}

impl AsRef<CommandRecord> for ParsedCommand {
    fn as_ref(&self) -> &CommandRecord {
        &self.record
    }
}
