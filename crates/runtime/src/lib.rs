//! Shards, injectors, query pool and the fabric between them
