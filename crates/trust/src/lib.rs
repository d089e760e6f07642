//! Connections between the nodes of a cluster whose certificates both sides check: what [`Trust`] connects is encrypted, and each end is a node
//! whose certificate the cluster's own authority has signed.
//!
//! A node has one port for others. What a connection is for is said in the handshake ([`Purpose`]), and whoever takes it looks there. A
//! connection can go on waiting for a runtime or by blocking a thread ([`blocking`]).
//!
//! Certificates are renewed while connections live: [`Trust::renew`] reads the files again, and the next connection goes by what is new.
//! What is said over a connection is none of this crate's matter. [`ServiceFiles`] is how a node trusts what is no node: etcd;
//! [`certificate_and_key`] reads what a node shows its clients, [`by_system`] is how these trust it, and [`in_words`] says what is wrong with either.

mod client;
mod configs;
mod error;
mod files;
mod system;
mod words;

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use configs::{Configs, name_of};
use files::Contents;

pub use client::ServiceFiles;
pub use error::Error;
pub use files::{TrustFiles, certificate_and_key};
pub use system::by_system;
pub use words::in_words;

/// How long the other side may take for its part of a handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// An encrypted connection, its other end a node of the cluster.
pub type Connection = TlsStream<TcpStream>;

/// The same for a thread that blocks.
pub type Blocking = Box<dyn ReadWrite>;

/// Bytes in and out.
pub trait ReadWrite: Read + Write + Send {}

impl<S: Read + Write + Send> ReadWrite for S {}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// What nodes say to each other.
    Peer,
    /// HTTP/2: requests of clients that are handed on.
    Http,
}

impl Purpose {
    /// What it is called in handshakes.
    fn name(self) -> &'static [u8] {
        match self {
            Purpose::Peer => b"millrace-peer",
            Purpose::Http => b"h2",
        }
    }
}

/// This node's certificate, and the authority that has signed those of all nodes.
pub struct Trust {
    files: TrustFiles,
    host: String,
    current: Mutex<(Contents, Arc<Configs>)>,
}

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trust").field("files", &self.files).field("host", &self.host).finish_non_exhaustive()
    }
}

impl Trust {
    /// Reads the files of the node that others reach by `host`.
    ///
    /// # Errors
    /// A file cannot be read or has something else in it; others would not take the certificate; the key belongs to another.
    pub fn load(files: TrustFiles, host: &str) -> Result<Self, Error> {
        let contents = files.read()?;
        let configs = Configs::new(&files, &contents, host)?;
        Ok(Trust { files, host: host.to_owned(), current: Mutex::new((contents, Arc::new(configs))) })
    }

    /// Reads the files again. Where they have changed, connections that are made from now on go by them; those that there are stay.
    /// Answers whether they have.
    ///
    /// # Errors
    /// As [`Trust::load`]; everything stays as it was.
    pub fn renew(&self) -> Result<bool, Error> {
        let contents = self.files.read()?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 == contents {
            return Ok(false);
        }
        let configs = Configs::new(&self.files, &contents, &self.host)?;
        *current = (contents, Arc::new(configs));
        Ok(true)
    }

    fn configs(&self) -> Arc<Configs> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// Connects to the node at `address` (`host:port`).
    ///
    /// # Errors
    /// The node cannot be reached; [`Error`] where the two do not trust each other. That this node's certificate is not taken
    /// shows only when something is read.
    pub async fn connect(&self, address: &str, purpose: Purpose) -> io::Result<Connection> {
        let name = name_of(host_of(address)).map_err(io::Error::other)?;
        let connector = TlsConnector::from(self.configs().client(purpose));
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let connected = timeout(PATIENCE, connector.connect(name, stream)).await;
        Ok(connected.map_err(|_| io::ErrorKind::TimedOut)?.map_err(explained_handshake)?.into())
    }

    /// The same for the peer protocol over a connection that has been made to `address`, on a thread that blocks. How long it waits is up
    /// to the timeouts of the connection.
    ///
    /// # Errors
    /// As [`Trust::connect`].
    pub fn connect_over(&self, mut stream: std::net::TcpStream, address: &str) -> io::Result<Blocking> {
        let name = name_of(host_of(address)).map_err(io::Error::other)?;
        let config = self.configs().client(Purpose::Peer);
        let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).map_err(explained_handshake)?;
        }
        Ok(Box::new(StreamOwned::new(connection, stream)))
    }

    /// Takes a connection that another node has made, and says what it is for.
    ///
    /// # Errors
    /// [`Error`]: it shows no certificate that can be trusted, or does not speak TLS. It takes too long, or wants something unknown.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<(Purpose, Connection)> {
        stream.set_nodelay(true)?;
        let acceptor = TlsAcceptor::from(Arc::clone(&self.configs().server));
        let accepted = timeout(PATIENCE, acceptor.accept(stream)).await;
        let connection = accepted.map_err(|_| io::ErrorKind::TimedOut)?.map_err(explained_handshake)?;
        let wanted = connection.get_ref().1.alpn_protocol();
        let purpose = [Purpose::Peer, Purpose::Http].into_iter().find(|of| Some(of.name()) == wanted);
        let purpose =
            purpose.ok_or_else(|| io::Error::other("it does not say what the connection is for"))?;
        Ok((purpose, connection.into()))
    }
}

/// A connection goes on by blocking threads; a write that takes longer than `silence` fails.
///
/// # Errors
/// The system refuses it.
pub fn blocking(connection: Connection, silence: Duration) -> io::Result<Blocking> {
    let plain = |stream: TcpStream| {
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(silence))?;
        Ok::<_, io::Error>(stream)
    };
    Ok(match connection {
        TlsStream::Client(stream) => {
            let (stream, state) = stream.into_inner();
            Box::new(StreamOwned::new(state, plain(stream)?))
        }
        TlsStream::Server(stream) => {
            let (stream, state) = stream.into_inner();
            Box::new(StreamOwned::new(state, plain(stream)?))
        }
    })
}

/// Whether a connection failed for want of trust, which does not mend by itself.
pub fn is_of_trust(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Error>()) || rustls_error(error).is_some()
}

/// What a failed read means: that the other node does not take this one's certificate shows with the first.
pub fn explained(error: io::Error) -> io::Error {
    match rustls_error(&error) {
        Some(
            reason @ (rustls::Error::InvalidCertificate(_)
            | rustls::Error::NoCertificatesPresented
            | rustls::Error::AlertReceived(_)),
        ) => io::Error::other(Error::Refused { reason: in_words(reason) }),
        _ => error,
    }
}

/// What a failed handshake means.
fn explained_handshake(error: io::Error) -> io::Error {
    let error = explained(error);
    match rustls_error(&error).is_some() || error.kind() == io::ErrorKind::UnexpectedEof {
        true => io::Error::other(Error::NoTls { reason: error.to_string() }),
        false => error,
    }
}

fn rustls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}
