//! The structure of this workspace is as documented. Each check has planted mistakes beside it, in
//! the unit tests of this crate or in `ranks`.

mod exceptions;
mod ranks;
mod structure;
