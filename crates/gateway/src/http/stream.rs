//! The bytes of a connection, with or without TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use millrace_trust::Connection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The stream of a connection. It has one type, so that the code that serves connections, which is large,
/// exists once.
pub(super) enum PortStream {
    Plain(TcpStream),
    Encrypted(Box<Connection>),
}

impl AsyncRead for PortStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            PortStream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            PortStream::Encrypted(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            PortStream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            PortStream::Encrypted(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            PortStream::Plain(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            PortStream::Encrypted(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            PortStream::Plain(stream) => stream.is_write_vectored(),
            PortStream::Encrypted(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            PortStream::Plain(stream) => Pin::new(stream).poll_flush(context),
            PortStream::Encrypted(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            PortStream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            PortStream::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
