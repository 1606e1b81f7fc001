//! Term ids, event times, batches, snapshot numbers, vector timestamps and limits of Somersault
