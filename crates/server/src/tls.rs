//! TLS: the certificates of the server, and connections with and without it.
//!
//! The one thing to know before changing it: without the feature `tls` `Tls` is a type of
//! which no value exists, so the rest of the crate is the same with and without the feature.

#[cfg(feature = "tls")]
mod certificates;
mod wire;

#[cfg(feature = "tls")]
pub use certificates::{Tls, TlsFiles};
pub(crate) use wire::Wire;

/// The certificates of a server: none, in a program that was built without TLS.
#[cfg(not(feature = "tls"))]
#[derive(Debug)]
pub enum NoTls {}

#[cfg(not(feature = "tls"))]
pub use NoTls as Tls;

#[cfg(not(feature = "tls"))]
impl NoTls {
    /// Reads the files again.
    pub fn reload(&self) {
        match *self {}
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        match *self {}
    }

    async fn accept<S>(&self, _socket: S) -> std::io::Result<Wire<S>> {
        match *self {}
    }
}
