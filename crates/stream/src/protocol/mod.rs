//! What goes in and out of the coordinator: inputs, refusals, declarations.

pub(crate) mod declaration;
pub(crate) mod input;
pub(crate) mod refusal;
