//! The tokenizer: any text to a list of tokens with byte positions. It never fails and never
//! panics.
//!
//! Characters that are no token become a [`TokenKind::Bad`] with its fault, for the message. The
//! tokens are those of SPARQL 1.2, and two of our own: words with hyphens (bare names) and
//! durations.

pub(crate) mod duration;
mod kinds;
mod place;
mod scan;
mod tokenize;

pub use kinds::{Fault, Token, TokenKind};
pub use place::Place;
pub use tokenize::{have_same_tokens, tokenize};
