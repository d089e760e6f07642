//! Connections, asynchronous or blocking, encrypted or not.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream as BlockingTcp, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::Duration;

use millrace_trust::{Blocking, Connection, ConnectionPurpose, NodeTrust};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::greeting::ConnectionGreeting;
use crate::protocol::ConnectionProtocol;

/// A connection for requests, or of a kind that is not known yet.
pub(crate) enum PeerStream {
    Plain(TcpStream),
    Encrypted(Box<Connection>),
}

/// The two directions of a connection.
pub(crate) type StreamHalves = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

impl PeerStream {
    /// Connects to the node at `address`; with `trust`, only to a trusted one.
    pub(crate) async fn connect(address: &str, trust: Option<&NodeTrust>) -> io::Result<Self> {
        match trust {
            Some(trust) => {
                Ok(PeerStream::Encrypted(Box::new(trust.connect(address, ConnectionPurpose::Peer).await?)))
            }
            None => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(PeerStream::Plain(stream))
            }
        }
    }

    /// Reads its first bytes.
    pub(crate) async fn greeting(&mut self) -> io::Result<(ConnectionProtocol, ConnectionGreeting)> {
        match self {
            PeerStream::Plain(stream) => ConnectionGreeting::read(stream).await,
            PeerStream::Encrypted(stream) => ConnectionGreeting::read(&mut **stream).await,
        }
    }

    pub(crate) fn split(self) -> StreamHalves {
        match self {
            PeerStream::Plain(stream) => {
                let (reading, writing) = stream.into_split();
                (Box::new(reading), Box::new(writing))
            }
            PeerStream::Encrypted(stream) => {
                let (reading, writing) = tokio::io::split(*stream);
                (Box::new(reading), Box::new(writing))
            }
        }
    }

    /// Converts it for a blocking thread, whose writes time out after `silence`, and whose reads after
    /// `timeout`. It ends when the returned [`StreamEnds`] is dropped.
    pub(crate) fn blocking(
        self,
        silence: Duration,
        timeout: Duration,
    ) -> io::Result<(BulkStream, StreamEnds)> {
        let socket = match &self {
            PeerStream::Plain(stream) => stream.as_fd(),
            PeerStream::Encrypted(stream) => stream.get_ref().0.as_fd(),
        };
        let ends = StreamEnds(BlockingTcp::from(socket.try_clone_to_owned()?));
        ends.0.set_read_timeout(Some(timeout))?;
        let stream = match self {
            PeerStream::Plain(stream) => {
                let stream = stream.into_std()?;
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(silence))?;
                BulkStream::Plain(stream)
            }
            PeerStream::Encrypted(stream) => {
                BulkStream::Encrypted(millrace_trust::blocking(*stream, silence)?)
            }
        };
        Ok((stream, ends))
    }
}

/// Guard that closes the connection when dropped, so that a thread that waits for its bytes continues.
pub(crate) struct StreamEnds(BlockingTcp);

impl Drop for StreamEnds {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A connection for a transfer.
pub(crate) enum BulkStream {
    Plain(BlockingTcp),
    Encrypted(Blocking),
}

impl BulkStream {
    /// Connects like [`PeerStream::connect`], within `timeout`; a byte that takes longer than `silence` ends
    /// the connection.
    pub(crate) fn connect(
        address: &str,
        trust: Option<&NodeTrust>,
        timeout: Duration,
        silence: Duration,
    ) -> io::Result<Self> {
        let place = address.to_socket_addrs()?.next();
        let place = place.ok_or_else(|| io::Error::other("the name has no address"))?;
        let stream = BlockingTcp::connect_timeout(&place, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(silence))?;
        stream.set_write_timeout(Some(silence))?;
        Ok(match trust {
            None => BulkStream::Plain(stream),
            Some(trust) => BulkStream::Encrypted(trust.connect_over(stream, address)?),
        })
    }
}

impl Read for BulkStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            BulkStream::Plain(stream) => stream.read(bytes),
            BulkStream::Encrypted(stream) => stream.read(bytes).map_err(millrace_trust::explained),
        }
    }
}

impl Write for BulkStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            BulkStream::Plain(stream) => stream.write(bytes),
            BulkStream::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            BulkStream::Plain(stream) => stream.write_vectored(slices),
            BulkStream::Encrypted(stream) => stream.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            BulkStream::Plain(stream) => stream.flush(),
            BulkStream::Encrypted(stream) => stream.flush(),
        }
    }
}
