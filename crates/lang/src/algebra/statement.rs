//! Statements that declare and manage streams and continuous queries.

use crate::algebra::continuous::ContinuousQuery;
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
}
