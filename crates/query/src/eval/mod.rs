//! The evaluation of expressions and filters, on rows of a binding table. Imports the rooms below:
//! `algebra`, `view`, `value`, `context`.

pub(crate) mod evaluate;
pub(crate) mod filter;
pub(crate) mod functions;
pub(crate) mod string_predicates;
