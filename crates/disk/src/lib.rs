//! The folder of files that the log and checkpoints write to, behind a trait: a folder of the
//! operating system, and a simulated disk that tears, fills and crashes.
//!
//! The one thing to know before changing it: everything above promises durability by what is
//! written here about [`Disk`] and [`DiskFile`], and [`SimDisk`] must allow every image that a real
//! disk may leave.
//!
//! Rooms, lowest first: disk, whole, real, sim, altered.

mod altered;
mod disk;
mod real;
mod sim;
mod whole;

pub use altered::AlteredDisk;
pub use disk::{Access, Disk, DiskFile, DiskLayer, DiskLock};
pub use real::RealDisk;
pub use sim::{CrashKeep, SimDisk};
pub use whole::{NameTaken, UNFINISHED, create_unfinished, finish, unfinished, write_whole};
