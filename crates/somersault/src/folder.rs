//! Data folders that no engine has open: verified, copied, and made from a backup.
//!
//! The one thing to know: nothing here changes a folder that is read. A folder that is written does
//! not open before it is whole.

mod copy;
mod verify;

pub use copy::{CopySummary, copy_folder, receive_backup, start_branch};
pub use verify::{
    CheckpointReport, FileGroup, FolderReport, LogReport, StateReport, VerifyState, verify_folder,
};
