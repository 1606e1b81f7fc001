//! What generated data promises.

mod network;
mod shops_and_books;
