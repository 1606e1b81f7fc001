//! The somersault command
