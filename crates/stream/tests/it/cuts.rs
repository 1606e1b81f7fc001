//! cuts
