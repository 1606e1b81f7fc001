//! Runs the public test suites
