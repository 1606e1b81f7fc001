//! The promises of generated data.

mod network;
mod shops_and_books;
mod universities;
