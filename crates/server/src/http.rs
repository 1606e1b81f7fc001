//! The HTTP layer that every address uses: connections, hosts, bodies, negotiation, errors.

pub(crate) mod body;
pub(crate) mod connections;
pub(crate) mod contexts;
pub(crate) mod credentials;
pub(crate) mod engine_error;
pub(crate) mod entities;
pub(crate) mod error;
pub(crate) mod feed;
pub(crate) mod gate;
pub(crate) mod head;
pub(crate) mod hosts;
pub(crate) mod metrics;
pub(crate) mod multipart;
pub(crate) mod negotiate;
pub(crate) mod nesting;
pub(crate) mod probe;
pub(crate) mod quotas;
pub(crate) mod rdf;
pub(crate) mod reading;
pub(crate) mod recovering;
pub(crate) mod repoll;
pub(crate) mod socket;
pub(crate) mod text;
pub(crate) mod ticket;
pub(crate) mod time;
