//! Lists as readers find them: a table leads from a key to a cell, and a cell to one member, a
//! block, or a base with tails. The content of a cell is immutable.

mod base;
mod block;
mod cell;
mod changes;
mod list;
mod table;

pub(crate) use base::{Base, FLAT_LIMIT, FreshBase};
pub(crate) use block::{Block, Date, Dated, LONGEST_DATED};
pub(crate) use cell::{Cell, Content, Counter, Key, LAST_MARK, ListKind, Owned};
pub(crate) use changes::{Changes, gallop, merge_into};
pub(crate) use list::{Folded, Freed, List, Retained, Tail, changed, fold};
pub(crate) use table::{SEGMENTS, Segments, Table};
