//! Checks of the structure of this workspace: rooms, shape, names, references.
//!
//! Each check takes parsed sources and returns breaches, as sentences that say where and what to
//! do. The tests run the checks on this tree, and on planted sources that must be reported. The
//! checks judge structure only; prose is for people to judge.

mod names;
mod references;
mod rooms;
mod shape;
mod tree;

pub use names::repeated_type_names;
pub use references::{Documents, dangling_references};
pub use rooms::{Rooms, room_breaches, room_table_breaches};
pub use shape::{long_functions, missing_headers, wide_comments};
pub use tree::{Source, SourceCrate, workspace};
