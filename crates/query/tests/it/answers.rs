//! Answers written down by hand.
