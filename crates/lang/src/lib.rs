//! SPARQL, C-SPARQL and stream declarations to one algebra
