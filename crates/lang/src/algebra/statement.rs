//! Statements that declare and manage streams, continuous queries, procedures and connectors.

use crate::algebra::connector::{CreateSink, CreateSource, ManageConnector};
use crate::algebra::continuous::ContinuousQuery;
use crate::algebra::procedure::{Call, CreateDataflow, CreateProcedure, DropProcedure};
use crate::algebra::stream::CreateStream;
use oxrdf::NamedNode;

/// A statement of the declaration language.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Statement {
    /// `CREATE STREAM iri …`
    CreateStream(CreateStream),
    /// `DROP STREAM iri`
    DropStream(NamedNode),
    /// `DROP QUERY name`
    DropQuery(String),
    /// `PAUSE QUERY name`
    PauseQuery(String),
    /// `RESUME QUERY name`
    ResumeQuery(String),
    /// `REGISTER … AS …`
    Register(Box<ContinuousQuery>),
    /// `CREATE PROCEDURE name …`
    CreateProcedure(Box<CreateProcedure>),
    /// `DROP PROCEDURE name`
    DropProcedure(DropProcedure),
    /// `CREATE DATAFLOW name …`
    CreateDataflow(CreateDataflow),
    /// `DROP DATAFLOW name`
    DropDataflow(String),
    /// `PAUSE DATAFLOW name`
    PauseDataflow(String),
    /// `RESUME DATAFLOW name`
    ResumeDataflow(String),
    /// `CREATE SOURCE name …`
    CreateSource(CreateSource),
    /// `CREATE SINK name …`
    CreateSink(CreateSink),
    /// `DROP SOURCE name`, `PAUSE SINK name` …
    ManageConnector(ManageConnector),
    /// `CALL name ( … )`
    Call(Call),
}
