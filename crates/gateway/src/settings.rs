//! What a node is started with.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millrace_column::PathChoice;
use millrace_remote::OutboundPolicy;
use millrace_trust::NodeTrust;

use crate::access_log::LogDetails;
use crate::edge::{HostNames, WebOrigins};
use crate::models::SecretBinding;

/// The settings of a node. [`Settings::new`] has sensible ones for everything but the data directory.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// The address at which the port of documents and queries listens.
    pub listen: IpAddr,
    /// The address at which the port of deployment listens.
    pub config_listen: IpAddr,
    /// The names by which clients may address the server, beside addresses and `localhost`.
    pub hosts: HostNames,
    /// The web pages that may send requests, beside the server's own.
    pub origins: WebOrigins,
    /// The destinations that models may be fetched from and asked at.
    pub outbound: OutboundPolicy,
    /// The hosts that secrets may be sent to.
    pub secrets: Vec<SecretBinding>,
    /// The port of documents and queries; 0 lets the system choose.
    pub port: u16,
    /// The port of deployment; 0 lets the system choose.
    pub config_port: u16,
    /// Certificate and key, for TLS on both ports.
    pub tls: Option<TlsFiles>,
    /// The largest request body, as sent and unpacked, in bytes. Deployments may be ten times as large.
    pub request_bytes_max: usize,
    /// The bounds of what one request and one client may cost, beside the size of a body.
    pub limits: RequestLimits,
    /// Threads for work.
    pub threads: usize,
    /// Requests that may wait for a thread.
    pub queue_max: usize,
    /// Requests a second for the documents of one group; more are refused. None for no limit. Each node
    /// counts for itself.
    pub group_rate_max: Option<f64>,
    /// Requests a second from one address, of IPv6 from one network of 64 bits; more are refused. None for no
    /// limit. Each node counts for itself.
    pub address_rate_max: Option<f64>,
    /// Bytes of columns kept in memory between requests.
    pub cache_bytes: u64,
    /// The file to which a line is appended for each request to the data port.
    pub access_log: Option<PathBuf>,
    /// The contents of that line.
    pub log_details: LogDetails,
    /// Bytes that stay free on the disk: below it, writes other than removes are refused.
    pub disk_reserve: u64,
    /// How long the disk may be full before the node says that it is down.
    pub space_patience: Duration,
    /// Segment files that are kept open; others are opened when they are read.
    pub open_files_max: usize,
    /// How long a model stays in memory that nobody uses.
    pub model_idle: Duration,
    /// How long requests under way may take after a stop was asked for.
    pub drain: Duration,
    /// Requests take the plain paths where there are fast ones: for tests that compare them.
    pub plain_paths: bool,
    /// In a cluster whose nodes have certificates, this node's: requests are handed on over connections of
    /// those alone.
    pub trust: Option<Arc<NodeTrust>>,
}

/// The bounds of what one request and one client may cost, beside the size of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLimits {
    /// The largest body of a query, as sent and unpacked, in bytes; that of a message of an assistant as
    /// well.
    pub query_bytes_max: usize,
    /// The bytes that the bodies of all requests under way may take together, packed and unpacked.
    pub bodies_bytes_max: usize,
    /// How long a request waits for room among them before it is refused.
    pub bodies_wait: Duration,
    /// How far the sender of a body may be behind the slowest rate; of a document operation that has a
    /// shorter timeout, that counts.
    pub body_patience: Duration,
    /// The slowest rate of a body, in bytes a second.
    pub body_rate_min: usize,
    /// The most parameters of a request.
    pub parameters_max: usize,
    /// The most requests under way on one HTTP/2 connection.
    pub streams_max: u32,
    /// The most connections of clients to each port.
    pub connections_max: usize,
    /// The most of them from one address.
    pub connections_per_address_max: usize,
    /// The time for a TLS handshake, the first request of a connection, and the head of any.
    pub head_patience: Duration,
    /// The time that a connection stays open without a request.
    pub connection_idle: Duration,
    /// The longest timeout of a query where services.xml does not say; a longer one is cut.
    pub query_timeout_max: Duration,
    /// The longest timeout of a document operation or a visit; a longer one is cut.
    pub document_timeout_max: Duration,
    /// The bytes on disk of all sessions of the port of deployment.
    pub sessions_bytes_max: u64,
}

impl Default for RequestLimits {
    fn default() -> Self {
        RequestLimits {
            query_bytes_max: 4 << 20,
            bodies_bytes_max: 128 << 20,
            bodies_wait: Duration::from_secs(2),
            body_patience: Duration::from_secs(30),
            body_rate_min: 1 << 10,
            parameters_max: 1000,
            streams_max: 128,
            connections_max: 1024,
            connections_per_address_max: 512,
            head_patience: Duration::from_secs(30),
            connection_idle: Duration::from_secs(120),
            query_timeout_max: Duration::from_secs(60),
            document_timeout_max: Duration::from_secs(3600),
            sessions_bytes_max: 4 << 30,
        }
    }
}

/// Where certificate and key lie, as PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Settings {
    /// The paths that requests take.
    pub(crate) fn paths(&self) -> PathChoice {
        if self.plain_paths { PathChoice::Plain } else { PathChoice::Fast }
    }

    /// The default settings.
    pub fn new(data_dir: PathBuf) -> Self {
        Settings {
            data_dir,
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            config_listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            hosts: HostNames::default(),
            origins: WebOrigins::default(),
            outbound: OutboundPolicy::default(),
            secrets: Vec::new(),
            port: 8080,
            config_port: 19071,
            tls: None,
            request_bytes_max: 64 << 20,
            limits: RequestLimits::default(),
            threads: std::thread::available_parallelism().map_or(2, usize::from),
            queue_max: 4096,
            group_rate_max: None,
            address_rate_max: None,
            cache_bytes: 512 << 20,
            access_log: None,
            log_details: LogDetails::default(),
            disk_reserve: 256 << 20,
            space_patience: Duration::from_secs(60),
            open_files_max: 4096,
            model_idle: Duration::from_secs(900),
            drain: Duration::from_secs(10),
            plain_paths: false,
            trust: None,
        }
    }
}
