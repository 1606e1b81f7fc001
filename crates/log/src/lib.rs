//! Log records, segments, group commit and recovery
