//! Seeded generator of a social network and its streams
