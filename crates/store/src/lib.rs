//! Dictionary, persistent store, slices and snapshots
