//! One file per subcommand; each has a `run` that does it.

pub(crate) mod backup;
pub(crate) mod call;
pub(crate) mod checkpoint;
pub(crate) mod connectors;
pub(crate) mod dump;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod load;
pub(crate) mod manage;
pub(crate) mod push;
pub(crate) mod query;
pub(crate) mod register;
pub(crate) mod replay;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod subscribe;
pub(crate) mod subscriptions;
pub(crate) mod token;
pub(crate) mod transactions;
pub(crate) mod verify;
