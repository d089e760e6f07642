//! Connections between the nodes of a cluster with mutual authentication: a connection by [`NodeTrust`] is
//! encrypted, and each end is a node whose certificate the cluster's own authority has signed.
//!
//! A node has one port for others. The handshake contains the purpose of a connection
//! ([`ConnectionPurpose`]), where the accepting side reads it. A connection can be used by a runtime or by a
//! blocking thread ([`blocking`]).
//!
//! Certificates are renewed while connections live: [`NodeTrust::renew`] reads the files again, and the next
//! connection uses the new ones. The contents of connections are the concern of other crates.
//!
//! Beyond nodes: [`ServiceFiles`] has the certificates for connections to etcd, [`certificate_and_key`] reads
//! the certificate that a node shows to clients, [`by_system`] verifies it with the authorities that the
//! system trusts, [`in_words`] describes a certificate error, and
//! [`CertificateValidity`] warns before a certificate expires.

mod client;
mod configs;
mod error;
mod files;
mod system;
mod validity;
mod words;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::{ClientConnection, StreamOwned};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use configs::{TlsConfigs, name_of};
use files::TrustContents;

pub use client::{ClientIdentity, ServiceFiles};
pub use error::{CertificateFault, Error};
pub use files::{TrustFiles, certificate_and_key};
pub use system::by_system;
pub use validity::CertificateValidity;
pub use words::in_words;

/// Timeout of the other side's part of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// An encrypted connection to another node of the cluster.
pub type Connection = TlsStream<TcpStream>;

/// An encrypted connection for a blocking thread.
pub type Blocking = Box<dyn ReadWrite>;

/// Input and output of bytes.
pub trait ReadWrite: Read + Write + Send {}

impl<S: Read + Write + Send> ReadWrite for S {}

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionPurpose {
    /// Messages between nodes.
    Peer,
    /// Forwarded requests of clients, as HTTP/2.
    Http,
}

impl ConnectionPurpose {
    /// Name in handshakes.
    fn name(self) -> &'static [u8] {
        match self {
            ConnectionPurpose::Peer => b"millrace-peer",
            ConnectionPurpose::Http => b"h2",
        }
    }
}

/// This node's certificate, and the authority that has signed those of all nodes.
pub struct NodeTrust {
    files: TrustFiles,
    host: String,
    current: Mutex<(TrustContents, Arc<TlsConfigs>)>,
}

impl std::fmt::Debug for NodeTrust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trust").field("files", &self.files).field("host", &self.host).finish_non_exhaustive()
    }
}

impl NodeTrust {
    /// Reads the files of the node that others reach by `host`.
    ///
    /// # Errors
    /// A file cannot be read or has other contents; others would not accept the certificate; the key belongs
    /// to another certificate.
    pub fn load(files: TrustFiles, host: &str) -> Result<Self, Error> {
        let contents = files.read()?;
        let configs = TlsConfigs::new(&files, &contents, host)?;
        Ok(NodeTrust { files, host: host.to_owned(), current: Mutex::new((contents, Arc::new(configs))) })
    }

    /// Reads the files again. If they have changed, new connections use them; existing ones stay. Returns
    /// true if they have changed.
    ///
    /// # Errors
    /// Those of [`NodeTrust::load`]; nothing is changed then.
    pub fn renew(&self) -> Result<bool, Error> {
        let contents = self.files.read()?;
        let mut current = self.current.lock();
        if current.0 == contents {
            return Ok(false);
        }
        let configs = TlsConfigs::new(&self.files, &contents, &self.host)?;
        *current = (contents, Arc::new(configs));
        Ok(true)
    }

    /// Validity of the node's certificate, as far as its dates can be read.
    pub fn validity(&self) -> Option<CertificateValidity> {
        let chain = self.files.own(&self.current.lock().0).ok()?;
        CertificateValidity::of(&self.files.certificate, &chain)
    }

    fn configs(&self) -> Arc<TlsConfigs> {
        Arc::clone(&self.current.lock().1)
    }

    /// Connects to the node at `address` (`host:port`).
    ///
    /// # Errors
    /// The node cannot be reached; [`Error`] if the two do not trust each other. A refusal of this node's
    /// certificate shows up only with the first read.
    pub async fn connect(&self, address: &str, purpose: ConnectionPurpose) -> io::Result<Connection> {
        let name = name_of(host_of(address)).map_err(io::Error::other)?;
        let connector = TlsConnector::from(self.configs().client(purpose));
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let connected = timeout(HANDSHAKE_TIMEOUT, connector.connect(name, stream)).await;
        Ok(connected.map_err(|_| io::ErrorKind::TimedOut)?.map_err(explained_handshake)?.into())
    }

    /// Like [`NodeTrust::connect`], for the peer protocol over an existing connection to `address`, on a
    /// blocking thread. The timeouts of the connection apply.
    ///
    /// # Errors
    /// Those of [`NodeTrust::connect`].
    pub fn connect_over(&self, mut stream: std::net::TcpStream, address: &str) -> io::Result<Blocking> {
        let name = name_of(host_of(address)).map_err(io::Error::other)?;
        let config = self.configs().client(ConnectionPurpose::Peer);
        let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).map_err(explained_handshake)?;
        }
        Ok(Box::new(StreamOwned::new(connection, stream)))
    }

    /// Accepts a connection of another node, and returns its purpose.
    ///
    /// # Errors
    /// [`Error`]: it has no certificate that can be trusted, or does not speak TLS. It takes too long, or has
    /// an unknown purpose.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<(ConnectionPurpose, Connection)> {
        stream.set_nodelay(true)?;
        let acceptor = TlsAcceptor::from(Arc::clone(&self.configs().server));
        let accepted = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
        let connection = accepted.map_err(|_| io::ErrorKind::TimedOut)?.map_err(explained_handshake)?;
        let wanted = connection.get_ref().1.alpn_protocol();
        let purpose = [ConnectionPurpose::Peer, ConnectionPurpose::Http]
            .into_iter()
            .find(|of| Some(of.name()) == wanted);
        let purpose =
            purpose.ok_or_else(|| io::Error::other("it does not say what the connection is for"))?;
        Ok((purpose, connection.into()))
    }
}

/// Converts a connection for blocking threads; a write that takes longer than `silence` fails.
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

/// True if a connection failed for lack of trust, which does not resolve by itself.
pub fn is_of_trust(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Error>()) || rustls_error(error).is_some()
}

/// Explains a failed read: the other node's refusal of this one's certificate shows up with the first.
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

/// Explains a failed handshake.
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
