//! Tests of disks through their trait.
#![allow(clippy::unwrap_used, missing_docs)]

mod space;
