//! The meaning of a query, as the planner reads it: patterns, expressions and modifiers over
//! numbered variables. `compile` builds it from the parser's algebra, `flatten` and `identity`
//! bring it into the form in which equal queries are equal. Imports no other room.

pub(crate) mod compile;
pub(crate) mod error;
pub(crate) mod expression;
pub(crate) mod flatten;
pub(crate) mod identity;
pub(crate) mod logical;
pub(crate) mod text_pattern;
mod texts;
pub(crate) mod varset;
