//! Somersault, the stateful stream query engine for linked data, as a library
