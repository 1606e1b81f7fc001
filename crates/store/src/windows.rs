//! Streams as windows read them: slices of batches, runs of slices, and window versions, which
//! share what overlaps.

mod edge_columns;
mod run;
mod slice;
mod slice_rows;
mod slice_store;
mod window;

pub use run::Run;
pub use slice::Slice;
pub use slice_rows::SliceRows;
pub use slice_store::{SliceStore, ViewKey};
pub use window::{PastWindow, WindowVersion};
