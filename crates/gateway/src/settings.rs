//! Settings of the ports of a node.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millrace_document::json::ParseOptions;
use millrace_query::QueryLimits;
use millrace_remote::SpanSettings;
use millrace_trust::NodeTrust;

use crate::access_log::LogDetails;
use crate::edge::{CredentialFiles, GroupHeaders, HostNames, WebOrigins};
use crate::search_api::SlowQuerySettings;

/// The settings of a node and of its ports. [`Settings::new`] has sensible ones for everything but the data
/// directory.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Settings of the node itself.
    pub node: millrace_node::Settings,
    /// Address of the port for documents and queries.
    pub listen: IpAddr,
    /// Address of the deployment port.
    pub config_listen: IpAddr,
    /// Names by which clients may address the server, in addition to addresses and `localhost`.
    pub hosts: HostNames,
    /// Web pages that may send requests, in addition to the server's own.
    pub origins: WebOrigins,
    /// Headers in which trusted proxies name the group of a request; the proxies are those of `log_details`.
    pub group_headers: GroupHeaders,
    /// Port for documents and queries; 0 lets the system choose.
    pub port: u16,
    /// Deployment port; 0 lets the system choose.
    pub config_port: u16,
    /// Port of Elasticsearch's interfaces; 0 lets the system choose, `None` opens none.
    pub elastic_port: Option<u16>,
    /// Certificate and key, for TLS on all ports.
    pub tls: Option<TlsFiles>,
    /// Files with the credentials of clients.
    pub credentials: CredentialFiles,
    /// True if the active application may declare clients of the data port.
    pub application_clients: bool,
    /// Maximum size of a request body, as sent and unpacked, in bytes. Deployments may be ten times as large.
    pub request_bytes_max: usize,
    /// Bounds on the cost of one request and one client, apart from the size of a body.
    pub limits: RequestLimits,
    /// Returns the free memory of the process to the system; called before and after large requests.
    pub return_memory: fn(),
    /// Maximum number of requests a second for the documents of one group; more are refused. `None` for no
    /// limit. Each node counts for itself.
    pub group_rate_max: Option<f64>,
    /// Maximum number of requests in flight for the documents of one group; more are refused. `None` for no
    /// limit. Each node counts for itself.
    pub group_concurrent_max: Option<u32>,
    /// Number of stored documents of one group from which on more are refused; `None` for no limit.
    pub group_documents_max: Option<u64>,
    /// Number of stored bytes of one group from which on more documents are refused; `None` for no limit.
    pub group_bytes_max: Option<u64>,
    /// Bytes a second of the documents that clients write to one group; `None` for no limit.
    pub group_fed_bytes_max: Option<u64>,
    /// Maximum number of requests a second from one address (IPv6: from one network of 64 bits); more are
    /// refused. `None` for no limit. Each node counts for itself.
    pub address_rate_max: Option<f64>,
    /// File to which a line is appended for each request to the data port.
    pub access_log: Option<PathBuf>,
    /// Contents of that line.
    pub log_details: LogDetails,
    /// Slow-query log, if slow queries are logged.
    pub slow_queries: Option<SlowQuerySettings>,
    /// Traces of requests, if they are sent to a collector.
    pub spans: Option<SpanSettings>,
    /// Time limit for requests in flight after a stop was requested.
    pub drain: Duration,
    /// Certificate of this node in a cluster whose nodes have certificates: requests are forwarded only over
    /// connections with them.
    pub trust: Option<Arc<NodeTrust>>,
}

/// Bounds on the cost of one request and one client, apart from the size of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLimits {
    /// Maximum size of the body of a query, of a message of an assistant, and of a request of Elasticsearch's
    /// interfaces without documents, as sent and unpacked, in bytes.
    pub query_bytes_max: usize,
    /// Maximum size of the bodies of all requests in flight, packed and unpacked, in bytes.
    pub bodies_bytes_max: usize,
    /// Maximum memory for parsing and evaluating all requests in flight, in bytes; the largest request takes
    /// three quarters of it.
    pub work_bytes_max: usize,
    /// Maximum size of the large answers of all requests that are being sent, in bytes.
    pub answers_bytes_max: usize,
    /// Time that a request waits for room among them before it is refused.
    pub bodies_wait: Duration,
    /// Time by which the sender of a body may lag behind the minimum rate. For a document operation with a
    /// shorter timeout, that timeout applies.
    pub body_timeout: Duration,
    /// Minimum rate of a body, in bytes a second.
    pub body_rate_min: usize,
    /// Maximum memory of the elements of all collections of a document, without their text, in bytes.
    pub element_bytes_max: usize,
    /// Maximum size of the text of a query that is split into words, in bytes.
    pub query_text_bytes_max: usize,
    /// Maximum number of tokens of a YQL statement.
    pub query_tokens_max: usize,
    /// Maximum number of values of a condition in JSON, and of such a request of Elasticsearch's interfaces.
    pub query_values_max: usize,
    /// Maximum number of parameters of a request.
    pub parameters_max: usize,
    /// Maximum number of requests in flight on one HTTP/2 connection.
    pub streams_max: u32,
    /// Maximum number of client connections to each port.
    pub connections_max: usize,
    /// Maximum number of them from one address.
    pub connections_per_address_max: usize,
    /// Time limit of a TLS handshake, of the first request of a connection, and of the head of any request.
    pub head_timeout: Duration,
    /// Time that a connection stays open without a request, and that a client may leave an answer unread.
    pub connection_idle: Duration,
    /// Maximum timeout of a query if services.xml has none; a longer one is cut.
    pub query_timeout_max: Duration,
    /// Maximum timeout of a document operation or a visit; a longer one is cut.
    pub document_timeout_max: Duration,
    /// Maximum size of all sessions of the deployment port on disk, in bytes.
    pub sessions_bytes_max: u64,
    /// Time for which the answer to a stream with a key is kept.
    pub feed_keys_time: Duration,
    /// Maximum number of keys of streams that are kept or in flight.
    pub feed_keys_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        let queries = QueryLimits::default();
        RequestLimits {
            query_bytes_max: 4 << 20,
            bodies_bytes_max: 96 << 20,
            work_bytes_max: 64 << 20,
            answers_bytes_max: 64 << 20,
            bodies_wait: Duration::from_secs(2),
            body_timeout: Duration::from_secs(30),
            body_rate_min: 1 << 10,
            element_bytes_max: ParseOptions::default().element_bytes_max,
            query_text_bytes_max: queries.text_bytes_max,
            query_tokens_max: queries.tokens_max,
            query_values_max: queries.values_max,
            parameters_max: 1000,
            streams_max: 128,
            connections_max: 1024,
            connections_per_address_max: 512,
            head_timeout: Duration::from_secs(30),
            connection_idle: Duration::from_secs(120),
            query_timeout_max: Duration::from_secs(60),
            document_timeout_max: Duration::from_secs(3600),
            sessions_bytes_max: 4 << 30,
            feed_keys_time: Duration::from_secs(600),
            feed_keys_max: 32_768,
        }
    }
}

/// Paths of certificate and key, as PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Certificate chain.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

impl Settings {
    /// Creates the default settings.
    pub fn new(data_dir: PathBuf) -> Self {
        let credentials = CredentialFiles {
            access: data_dir.join("access.toml"),
            is_access_required: false,
            of_cluster: data_dir.join("access-cluster.toml"),
            token_keys: None,
            audience: "millrace".to_owned(),
        };
        Settings {
            credentials,
            application_clients: true,
            node: millrace_node::Settings::new(data_dir),
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            config_listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            hosts: HostNames::default(),
            origins: WebOrigins::default(),
            group_headers: GroupHeaders::default(),
            port: 8080,
            config_port: 19071,
            elastic_port: None,
            tls: None,
            request_bytes_max: 64 << 20,
            limits: RequestLimits::default(),
            return_memory: || {},
            group_rate_max: None,
            group_concurrent_max: None,
            group_documents_max: None,
            group_bytes_max: None,
            group_fed_bytes_max: None,
            address_rate_max: None,
            access_log: None,
            log_details: LogDetails::default(),
            slow_queries: None,
            spans: None,
            drain: Duration::from_secs(10),
            trust: None,
        }
    }
}
