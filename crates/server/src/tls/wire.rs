//! A connection as HTTP sees it: a socket, or a socket inside TLS.

use crate::tls::Tls;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

/// The first byte of each connection with TLS: the type of a handshake record (RFC 8446, 5.1).
const HANDSHAKE: u8 = 0x16;
/// What a client is told that speaks plain HTTP to a server with TLS.
const NO_PLAIN_HTTP: &str =
    "This server speaks HTTPS here. Write https:// in place of http:// in the URL.\n";
/// Bytes that are read of what such a client sends, so that it sees the answer.
const PLAIN_BYTES: usize = 16 * 1024;

/// A connection.
pub(crate) enum Wire<S> {
    Plain(S),
    #[cfg(feature = "tls")]
    Secure(Box<tokio_rustls::server::TlsStream<S>>),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// Begins a connection: carries out the handshake, where the server has TLS. The caller limits
    /// the time. `wrap` guards the socket.
    ///
    /// # Errors
    /// The handshake fails.
    pub(crate) async fn begin(
        tls: Option<&Tls>,
        socket: TcpStream,
        wrap: impl FnOnce(TcpStream) -> S,
    ) -> io::Result<Wire<S>> {
        let Some(tls) = tls else {
            return Ok(Wire::Plain(wrap(socket)));
        };
        let mut first = [0];
        let count = socket.peek(&mut first).await?;
        let socket = wrap(socket);
        if count == 1 && first[0] != HANDSHAKE {
            refuse_plain(socket).await?;
            let said = "the client speaks plain HTTP, and the server HTTPS";
            return Err(io::Error::new(io::ErrorKind::InvalidData, said));
        }
        tls.accept(socket).await
    }
}

/// Answers a client that speaks plain HTTP.
async fn refuse_plain(mut socket: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut request = vec![0; PLAIN_BYTES];
    let _ = socket.read(&mut request).await?;
    let length = NO_PLAIN_HTTP.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{NO_PLAIN_HTTP}"
    );
    socket.write_all(answer.as_bytes()).await?;
    socket.shutdown().await
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            #[cfg(feature = "tls")]
            Wire::Secure(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            #[cfg(feature = "tls")]
            Wire::Secure(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            #[cfg(feature = "tls")]
            Wire::Secure(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Wire::Plain(stream) => stream.is_write_vectored(),
            #[cfg(feature = "tls")]
            Wire::Secure(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(context),
            #[cfg(feature = "tls")]
            Wire::Secure(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(feature = "tls")]
            Wire::Secure(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
