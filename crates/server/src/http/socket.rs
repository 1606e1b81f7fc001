//! The socket of a connection, guarded against a client that does not read.

use crate::http::connections::Connection;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// Bytes of an event stream that wait in the system to be sent. Without a limit the system takes
/// megabytes for each client that does not read.
const UNSENT_BYTES: u32 = 64 * 1024;

/// A socket whose writes fail once the other side has taken nothing for a while. Without it, a
/// client that stops reading would hold its answer, or its place among the subscribers, forever.
pub(crate) struct Guarded {
    socket: TcpStream,
    patience: Duration,
    /// Whether the bytes that wait in the system have a limit, which event streams have.
    is_limited: bool,
    /// Runs while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
    connection: Arc<Connection>,
}

impl Guarded {
    pub(crate) fn new(
        socket: TcpStream,
        patience: Duration,
        connection: Arc<Connection>,
    ) -> Guarded {
        Guarded {
            socket,
            patience,
            is_limited: false,
            deadline: None,
            connection,
        }
    }

    /// Call before bytes are written.
    fn limit(&mut self) -> io::Result<()> {
        if !self.is_limited && self.connection.is_event_stream() {
            limit_unsent(&self.socket)?;
            self.is_limited = true;
        }
        Ok(())
    }

    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            if self.deadline.take().is_some() {
                self.connection.set_stalled(false);
            }
            return polled;
        }
        let (patience, connection) = (self.patience, &self.connection);
        let deadline = self.deadline.get_or_insert_with(|| {
            connection.set_stalled(true);
            Box::pin(tokio::time::sleep_until(Instant::now() + patience))
        });
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client stopped reading",
            ))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.limit()?;
        let polled = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.watch(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.limit()?;
        let polled = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.watch(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

/// Limits the bytes that wait in the system to be sent on a socket. Bytes on their way do not
/// count, so a client that reads gets them as fast as before.
///
/// # Errors
/// If the system refuses the limit.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn limit_unsent(socket: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES)
}

/// Limits the bytes that wait in the system: this one has no separate limit for unsent ones.
///
/// # Errors
/// If the system refuses the limit.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn limit_unsent(socket: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(socket).set_send_buffer_size(4 * UNSENT_BYTES as usize)
}
