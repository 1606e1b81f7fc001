//! SPARQL protocols, streams and continuous queries over HTTP
