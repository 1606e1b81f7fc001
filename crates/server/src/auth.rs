//! Who sends a request, and what they may do: tokens, the file that keeps them, and principals.
//!
//! The one thing to know before changing it: this room finds out who asks. What they may do is an
//! [`Access`](somersault::Access), which the table of addresses and the engine check.

pub(crate) mod principal;
pub(crate) mod secret;
pub(crate) mod token_file;
pub(crate) mod tokens;
