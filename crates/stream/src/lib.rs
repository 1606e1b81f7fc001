//! Streams, batches, windows, cuts and continuous queries: events in, commands out
