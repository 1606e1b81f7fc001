//! The SPARQL result formats.
//!
//! The one thing to know before changing it: a format writes text around terms and keeps no state,
//! so that a piece of an answer may end after any row.

mod delimited;
mod json;
mod xml;

pub(crate) use delimited::{Csv, Tsv, turtle};
pub(crate) use json::{Json, JsonLines};
pub(crate) use xml::Xml;

use crate::error::AnswerError;
use crate::terms::{Terms, Value};

/// A result format: the text before, between and after the terms.
pub(crate) trait Syntax {
    /// Writes everything before the first row.
    fn head(&self, variables: &[String], out: &mut String);
    /// Writes the start of a row; `row` counts from 0.
    fn open_row(&self, row: usize, out: &mut String);
    /// Writes the text before a cell; `bound_before` says whether this row has had a bound one.
    fn separate(&self, column: usize, bound_before: bool, bound: bool, out: &mut String);
    /// Writes a bound cell. The appended text depends only on the column and the term.
    fn cell(
        &self,
        column: usize,
        value: Value<'_>,
        terms: &Terms<'_>,
        out: &mut String,
    ) -> Result<(), AnswerError>;
    /// Writes the end of a row.
    fn close_row(&self, out: &mut String);
    /// Writes everything after the last row.
    fn tail(&self, out: &mut String);
}
