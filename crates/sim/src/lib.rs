//! The seeded simulator and its scenarios
