//! Procedures whose body is code of a program: what their texts say, and the texts that the body
//! runs.
//!
//! The one thing to know before changing it: a text of a body is read as a step of its procedure,
//! so BATCH, WINDOW and values mean in it what they mean in a step.

use super::TriggerClause;
use super::steps::StepReader;
use crate::algebra::procedure::{CreateProcedure, NativeBody, Step};
use crate::clauses::procedure::{ProcedureHeader, refuse};
use crate::parser::Parser;
use crate::text::brackets::check_brackets;
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::token::tokenize;

/// `NATIVE`, if it stands behind AS.
pub(super) fn read_body(
    cursor: &mut Cursor<'_>,
    header: &ProcedureHeader,
    triggers: &[TriggerClause],
) -> Result<Option<NativeBody>, ParseError> {
    if !cursor.take_keyword("NATIVE") {
        return match &header.emits {
            None => Ok(None),
            Some((offset, _)) => refuse(
                cursor.source,
                *offset,
                "EMITS INTO is for AS NATIVE, whose body the text does not show; steps say by EMIT INTO what they emit into: take the clause away",
            ),
        };
    }
    if let Some(trigger) = triggers.first() {
        let message = "a native procedure has no triggers: its body sees the windows when it runs; take WHEN away";
        return refuse(cursor.source, trigger.offset, message);
    }
    let emits = header.emits.as_ref();
    let emits = emits.map_or_else(Vec::new, |(_, streams)| streams.clone());
    if let Some(stream) = emits.iter().find(|stream| header.consumes(stream)) {
        let offset = header.emits.as_ref().map_or(0, |(offset, _)| *offset);
        let message = format!(
            "the procedure consumes {stream} and would feed itself; emit into another stream"
        );
        return refuse(cursor.source, offset, message);
    }
    Ok(Some(NativeBody { emits }))
}

impl Parser {
    /// Parses a query that the body of a native procedure runs: SELECT, ASK or CONSTRUCT, in which
    /// `BATCH { … }` and `WINDOW iri { … }` read what the procedure consumes and owns. `values`
    /// are the names of variables, without `?`, that have values; they are its slots in this order.
    ///
    /// # Errors
    /// The text is no such query.
    pub fn parse_query_of(
        &self,
        text: &str,
        procedure: &CreateProcedure,
        values: &[&str],
    ) -> Result<Step, ParseError> {
        self.parse_alone(text, procedure, values, |reader, cursor| {
            reader.query_alone(cursor)
        })
    }

    /// Parses the operations that the body of a native procedure carries out: INSERT DATA, DELETE
    /// DATA, DELETE/INSERT … WHERE and DELETE WHERE, with `;` between. Otherwise as
    /// [`Parser::parse_query_of`].
    ///
    /// # Errors
    /// The text has something else.
    pub fn parse_update_of(
        &self,
        text: &str,
        procedure: &CreateProcedure,
        values: &[&str],
    ) -> Result<Vec<Step>, ParseError> {
        self.parse_alone(text, procedure, values, |reader, cursor| {
            reader.writes_alone(cursor)
        })
    }

    fn parse_alone<T>(
        &self,
        text: &str,
        procedure: &CreateProcedure,
        values: &[&str],
        read: impl for<'t> FnOnce(&mut StepReader<'t, '_>, &mut Cursor<'t>) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        let tokens = tokenize(text);
        let mut names = self.start_names()?;
        let mut cursor = Cursor::new(text, &tokens);
        names.read_prologue(&mut cursor)?;
        check_brackets(&cursor)?;
        let header = ProcedureHeader::of(procedure);
        let mut reader = StepReader::new(self, &cursor, &names, &header);
        for value in values {
            reader.scope.give(value);
        }
        read(&mut reader, &mut cursor)
    }
}
