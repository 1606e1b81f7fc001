//! Who sends a request, and what they may do: tokens, the file that keeps them, tokens of identity
//! providers, and principals.
//!
//! The one thing to know before changing it: this room finds out who asks. What they may do is an
//! [`Access`](somersault::Access), which the table of addresses and the engine check.

#[cfg(feature = "jwt")]
pub(crate) mod jwt;
pub(crate) mod principal;
pub(crate) mod secret;
pub(crate) mod tickets;
pub(crate) mod token_file;
pub(crate) mod tokens;
