//! What a node is started with.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millrace_trust::Trust;

/// The settings of a node. [`Settings::new`] has sensible ones for everything but the data directory.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// The address both ports listen at.
    pub listen: IpAddr,
    /// The port of documents and queries; 0 lets the system choose.
    pub port: u16,
    /// The port of deployment; 0 lets the system choose.
    pub config_port: u16,
    /// Certificate and key, for TLS on both ports.
    pub tls: Option<TlsFiles>,
    /// The largest request body, as sent and unpacked, in bytes. Deployments may be ten times as large.
    pub request_bytes_max: usize,
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
    /// Bytes that stay free on the disk: below it, writes other than removes are refused.
    pub disk_reserve: u64,
    /// Segment files that are kept open; others are opened when they are read.
    pub open_files_max: usize,
    /// How long a model stays in memory that nobody uses.
    pub model_idle: Duration,
    /// How long requests under way may take after a stop was asked for.
    pub drain: Duration,
    /// In a cluster whose nodes have certificates, this node's: requests are handed on over connections of those alone.
    pub trust: Option<Arc<Trust>>,
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
    /// The default settings.
    pub fn new(data_dir: PathBuf) -> Self {
        Settings {
            data_dir,
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 8080,
            config_port: 19071,
            tls: None,
            request_bytes_max: 64 << 20,
            threads: std::thread::available_parallelism().map_or(2, usize::from),
            queue_max: 4096,
            group_rate_max: None,
            address_rate_max: None,
            cache_bytes: 512 << 20,
            access_log: None,
            disk_reserve: 256 << 20,
            open_files_max: 4096,
            model_idle: Duration::from_secs(900),
            drain: Duration::from_secs(10),
            trust: None,
        }
    }
}
