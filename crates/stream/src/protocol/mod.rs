//! The interface of the coordinator: inputs, refusals, declarations, outputs.

pub(crate) mod cohort_view;
pub(crate) mod command;
pub(crate) mod declaration;
pub(crate) mod firing;
pub(crate) mod inject;
pub(crate) mod input;
pub(crate) mod refusal;
pub(crate) mod statements;
pub(crate) mod status;
pub(crate) mod transactions;
