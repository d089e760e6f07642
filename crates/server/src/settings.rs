//! The settings of a server: flags, environment variables, and one TOML file.

mod bounds;
mod cluster;
mod listening;
mod logging;
mod merging;
mod node;
mod tls;
mod tracing;

use std::fmt::Display;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use millrace_gateway::{
    CredentialFiles, GroupHeaders, HostNames, LogDetails, RequestLimits, Settings, SlowQuerySettings,
    WebOrigins,
};
use serde::Deserialize;

use self::listening::ListenSettings;
pub use self::logging::log_filter;
use self::tls::server_tls;
use crate::cluster::ClusterSettings;
use crate::error::Error;
use crate::free_memory;

/// Default time in milliseconds from which on a query is in the log of slow queries.
const SLOW_QUERY_MS: u64 = 1000;

/// Longest time in seconds, three thousand years: as a number of microseconds it fits into 64 bits.
const SECONDS_MAX: u64 = 100_000_000_000;

/// All settings; missing ones have their defaults. The TOML file uses the same names.
#[derive(Args, Deserialize, Default, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ServeArguments {
    /// Directory of all data [default: data].
    #[arg(long, env = "MILLRACE_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// The address at which documents and queries are served. An address other than the machine's own, such
    /// as 0.0.0.0, lets other machines in, and needs an API key, --token-keys or --insecure
    /// [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", env = "MILLRACE_LISTEN")]
    pub listen: Option<IpAddr>,
    /// The address at which applications are deployed and the cluster is administered; as with --listen
    /// [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", env = "MILLRACE_CONFIG_LISTEN")]
    pub config_listen: Option<IpAddr>,
    /// Listen beyond the machine although clients show no credentials: every machine that reaches a port may
    /// read, write and delete all documents, and at the config port deploy and administer. For networks with
    /// trusted machines only.
    #[arg(long, env = "MILLRACE_INSECURE", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub insecure: Option<bool>,
    /// Names by which clients address the server, with commas between, in addition to addresses, localhost
    /// and the name that it advertises: requests for other hosts are refused.
    #[arg(long, value_name = "NAMES", env = "MILLRACE_ALLOWED_HOSTS", value_delimiter = ',')]
    pub allowed_hosts: Option<Vec<String>>,
    /// Web pages that may use the server in addition to its own, as origins with commas between, such as
    /// `https://app.example.com`: requests from others are refused.
    #[arg(long, value_name = "ORIGINS", env = "MILLRACE_ALLOWED_ORIGINS", value_delimiter = ',')]
    pub allowed_origins: Option<Vec<String>>,
    /// The header in which a proxy names the group of a request, as the person that it has identified, such
    /// as X-Forwarded-User: the request is restricted to the group with this name. Only --trusted-proxies may
    /// send it [default: none].
    #[arg(long, value_name = "NAME", env = "MILLRACE_GROUP_HEADER")]
    pub group_header: Option<String>,
    /// The same for groups by number (n=NUMBER) [default: none].
    #[arg(long, value_name = "NAME", env = "MILLRACE_GROUP_NUMBER_HEADER")]
    pub group_number_header: Option<String>,
    /// Permit requests without the header of a group, restricted by their credentials alone [default: false].
    #[arg(long, env = "MILLRACE_GROUP_HEADER_OPTIONAL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub group_header_optional: Option<bool>,
    /// Services from which models may be fetched, and to which requests may be sent, with commas between:
    /// public (every public address), none, HOST, HOST:PORT, `http://HOST:PORT`, 10.0.0.0/8 [default:
    /// public].
    #[arg(long, value_name = "RULES", env = "MILLRACE_OUTBOUND_ALLOW", value_delimiter = ',')]
    pub outbound_allow: Option<Vec<String>>,
    /// Hosts that secrets may be sent to, with commas between, such as openai-key=api.openai.com: the name is
    /// that in services.xml, the value is in the environment (MILLRACE_SECRET_OPENAI_KEY).
    #[arg(long, value_name = "NAME=HOST", env = "MILLRACE_SECRET", value_delimiter = ',')]
    pub secret: Option<Vec<String>>,
    /// The port of documents and queries [default: 8080].
    #[arg(long, env = "MILLRACE_PORT")]
    pub port: Option<u16>,
    /// The port of deployment [default: 19071].
    #[arg(long, env = "MILLRACE_CONFIG_PORT")]
    pub config_port: Option<u16>,
    /// The port of Elasticsearch's interfaces, at the address of --listen; they are also below /elastic/ of
    /// the port of documents [default: none].
    #[arg(long, env = "MILLRACE_ELASTIC_PORT")]
    pub elastic_port: Option<u16>,
    /// Deploy this application package first, unless it is active already.
    #[arg(long, value_name = "DIR", env = "MILLRACE_APP")]
    pub app: Option<PathBuf>,
    /// Read settings from this TOML file.
    #[arg(long, value_name = "FILE", env = "MILLRACE_CONFIG")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// A certificate (PEM), for TLS on both ports.
    #[arg(long, value_name = "FILE", env = "MILLRACE_TLS_CERTIFICATE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", env = "MILLRACE_TLS_KEY", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// The file of API keys and revoked tokens, which `millrace token` changes [default: access.toml in the
    /// data directory, if it is there].
    #[arg(long, value_name = "FILE", env = "MILLRACE_ACCESS_FILE")]
    pub access_file: Option<PathBuf>,
    /// The public keys of signed tokens (JSON Web Key Set): a file, or an address (`https://…`) at which they
    /// are published. With them, or with keys of `millrace token create`, requests need a credential.
    #[arg(long, value_name = "FILE|URL", env = "MILLRACE_TOKEN_KEYS")]
    pub token_keys: Option<String>,
    /// The audience (aud) that signed tokens must have [default: millrace].
    #[arg(long, value_name = "NAME", env = "MILLRACE_TOKEN_AUDIENCE")]
    pub token_audience: Option<String>,
    /// Let the active application declare clients of the data port, by certificates and tokens
    /// (security/clients.pem, and `<clients>` of services.xml) [default: true].
    #[arg(long, value_name = "BOOL", env = "MILLRACE_APPLICATION_CLIENTS")]
    pub application_clients: Option<bool>,
    /// The largest request body in bytes, as sent and unpacked [default: 67108864].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_REQUEST_BYTES_MAX")]
    pub request_bytes_max: Option<usize>,
    /// Maximum body of a query, of a message of an assistant, or of a request of Elasticsearch's interfaces
    /// without documents, as sent and unpacked [default: 4194304].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_QUERY_BYTES_MAX")]
    pub query_bytes_max: Option<usize>,
    /// Maximum bytes of the bodies of all requests in flight together; further requests wait, then get 429
    /// [default: 100663296, or twice request-bytes-max].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_BODIES_BYTES_MAX")]
    pub bodies_bytes_max: Option<usize>,
    /// Maximum memory in bytes for parsing and evaluating all requests in flight together; further requests
    /// wait, then get 429 [default: 67108864].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_WORK_BYTES_MAX")]
    pub work_bytes_max: Option<usize>,
    /// Maximum bytes of the large answers of all requests that are being sent; further ones wait, then are
    /// 429 [default: 67108864].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_ANSWERS_BYTES_MAX")]
    pub answers_bytes_max: Option<usize>,
    /// Seconds that a request waits for memory for its body, its work or its answer [default: 2].
    #[arg(long, value_name = "SECONDS", env = "MILLRACE_BODIES_WAIT_S")]
    pub bodies_wait_s: Option<u64>,
    /// Seconds that a body may be behind body-rate-min before it is refused with 408 [default: 30].
    #[arg(long, alias = "body-patience-s", value_name = "SECONDS", env = "MILLRACE_BODY_TIMEOUT_S")]
    #[serde(alias = "body-patience-s")]
    pub body_timeout_s: Option<u64>,
    /// Bytes a second that the sender of a body must reach on average, while the server waits for it
    /// [default: 1024].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_BODY_RATE_MIN")]
    pub body_rate_min: Option<usize>,
    /// Maximum memory in bytes of the elements of a document's collections, without their text; about 88
    /// bytes for each [default: 33554432].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_ELEMENT_BYTES_MAX")]
    pub element_bytes_max: Option<usize>,
    /// Maximum bytes of the text of a query that is split into words [default: 131072].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_QUERY_TEXT_BYTES_MAX")]
    pub query_text_bytes_max: Option<usize>,
    /// Words and signs of a YQL statement [default: 400000].
    #[arg(long, value_name = "COUNT", env = "MILLRACE_QUERY_TOKENS_MAX")]
    pub query_tokens_max: Option<usize>,
    /// Values of a query's condition in JSON, or of a request of Elasticsearch's interfaces without documents
    /// [default: 100000].
    #[arg(long, value_name = "COUNT", env = "MILLRACE_QUERY_VALUES_MAX")]
    pub query_values_max: Option<usize>,
    /// Regular expressions of a query [default: 64].
    #[arg(long, value_name = "COUNT", env = "MILLRACE_QUERY_REGEXES_MAX")]
    pub query_regexes_max: Option<usize>,
    /// Memory in bytes of the results of one query: its matches, groups and hits [default:
    /// 268435456].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_QUERY_MEMORY_MAX")]
    pub query_memory_max: Option<usize>,
    /// Memory in bytes of the results of all queries in flight [default: 536870912].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_QUERIES_MEMORY_MAX")]
    pub queries_memory_max: Option<usize>,
    /// Parameters of a request; a list or a tensor is one [default: 1000].
    #[arg(long, value_name = "COUNT", env = "MILLRACE_PARAMETERS_MAX")]
    pub parameters_max: Option<usize>,
    /// Requests in flight on one HTTP/2 connection [default: 128].
    #[arg(long, value_name = "COUNT", env = "MILLRACE_STREAMS_MAX")]
    pub streams_max: Option<u32>,
    /// Connections of clients to each port; more are closed at once [default: 1024, or less if the system
    /// allows few files].
    #[arg(long, value_name = "COUNT", env = "MILLRACE_CONNECTIONS_MAX")]
    pub connections_max: Option<usize>,
    /// Those of them from one address [default: 512].
    #[arg(long, value_name = "COUNT", env = "MILLRACE_CONNECTIONS_PER_ADDRESS_MAX")]
    pub connections_per_address_max: Option<usize>,
    /// Seconds for a TLS handshake, the first request of a connection, and the head of any [default: 30].
    #[arg(long, alias = "head-patience-s", value_name = "SECONDS", env = "MILLRACE_HEAD_TIMEOUT_S")]
    #[serde(alias = "head-patience-s")]
    pub head_timeout_s: Option<u64>,
    /// Seconds that a connection stays open without a request, and an answer unread [default: 120].
    #[arg(long, value_name = "SECONDS", env = "MILLRACE_CONNECTION_IDLE_S")]
    pub connection_idle_s: Option<u64>,
    /// Maximum timeout of a query, unless services.xml sets one; a longer one is reduced [default: 60].
    #[arg(long, value_name = "SECONDS", env = "MILLRACE_QUERY_TIMEOUT_MAX_S")]
    pub query_timeout_max_s: Option<u64>,
    /// Maximum timeout of a document operation or a visit; a longer one is reduced [default: 3600].
    #[arg(long, value_name = "SECONDS", env = "MILLRACE_DOCUMENT_TIMEOUT_MAX_S")]
    pub document_timeout_max_s: Option<u64>,
    /// Bytes on disk of packages that are uploaded and not active [default: 4294967296].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_SESSIONS_BYTES_MAX")]
    pub sessions_bytes_max: Option<u64>,
    /// Seconds for which the answer to a stream with an Idempotency-Key is kept [default: 600].
    #[arg(long, value_name = "SECONDS", env = "MILLRACE_FEED_KEYS_S")]
    pub feed_keys_s: Option<u64>,
    /// Keys of streams that are kept; further streams with a key are refused with 429 [default: 32768].
    #[arg(long, value_name = "COUNT", env = "MILLRACE_FEED_KEYS_MAX")]
    pub feed_keys_max: Option<usize>,
    /// Milliseconds within which a stream with durability=async is synced after its acknowledgement
    /// [default: 100].
    #[arg(long, value_name = "MILLISECONDS", env = "MILLRACE_ASYNC_SYNC_MS")]
    pub async_sync_ms: Option<u64>,
    /// Seconds after the deletion of a group within which its bytes leave the disk [default: 2592000].
    #[arg(long, value_name = "SECONDS", env = "MILLRACE_ERASE_WITHIN_S")]
    pub erase_within_s: Option<u64>,
    /// Seconds for which logs of writes are kept, for points in time between snapshots [default: 0, none].
    #[arg(long, value_name = "SECONDS", env = "MILLRACE_KEEP_LOGS_S")]
    pub keep_logs_s: Option<u64>,
    /// Bytes of such logs; beyond them the oldest are deleted [default: 17179869184].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_KEEP_LOGS_BYTES_MAX")]
    pub keep_logs_bytes_max: Option<u64>,
    /// Threads for work [default: as many as cores].
    #[arg(long, env = "MILLRACE_THREADS")]
    pub threads: Option<usize>,
    /// Requests that may wait for a thread; more are refused with 429 [default: 4096].
    #[arg(long, value_name = "REQUESTS", env = "MILLRACE_QUEUE_MAX")]
    pub queue_max: Option<usize>,
    /// Requests a second for the documents of one group; more are refused with 429 [default: no limit].
    #[arg(long, value_name = "REQUESTS", env = "MILLRACE_GROUP_RATE_MAX")]
    pub group_rate_max: Option<f64>,
    /// Requests in flight for the documents of one group; more are refused with 429 [default: no limit].
    #[arg(long, value_name = "REQUESTS", env = "MILLRACE_GROUP_CONCURRENT_MAX")]
    pub group_concurrent_max: Option<u32>,
    /// Documents stored of one group; more are refused with 507 [default: no limit].
    #[arg(long, value_name = "DOCUMENTS", env = "MILLRACE_GROUP_DOCUMENTS_MAX")]
    pub group_documents_max: Option<u64>,
    /// Bytes stored of one group, above which documents are refused with 507 [default: no limit].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_GROUP_BYTES_MAX")]
    pub group_bytes_max: Option<u64>,
    /// Bytes a second of the documents written to one group; more are refused with 429, and streams are
    /// slowed down [default: no limit].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_GROUP_FED_BYTES_MAX")]
    pub group_fed_bytes_max: Option<u64>,
    /// Requests a second from one address (IPv6: from one network of 64 bits); more are refused with 429
    /// [default: no limit].
    #[arg(long, value_name = "REQUESTS", env = "MILLRACE_ADDRESS_RATE_MAX")]
    pub address_rate_max: Option<f64>,
    /// Bytes of columns kept in memory between requests [default: 536870912].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_CACHE_BYTES")]
    pub cache_bytes: Option<u64>,
    /// Append a line of JSON to this file for each request; if the file is moved away, a new one is started
    /// [default: no log].
    #[arg(long, value_name = "FILE", env = "MILLRACE_ACCESS_LOG")]
    pub access_log: Option<PathBuf>,
    /// Include the parameters of requests, and so the texts of queries, in the access log [default: true].
    #[arg(long, value_name = "BOOL", env = "MILLRACE_ACCESS_LOG_QUERIES")]
    pub access_log_queries: Option<bool>,
    /// Append a line of JSON to this file for each query that takes slow-query-ms or longer: its shape
    /// without texts, its times and counts [default: no log].
    #[arg(long, value_name = "FILE", env = "MILLRACE_SLOW_QUERY_LOG")]
    pub slow_query_log: Option<PathBuf>,
    /// Milliseconds from which on a query is slow [default: 1000].
    #[arg(long, value_name = "MILLISECONDS", env = "MILLRACE_SLOW_QUERY_MS")]
    pub slow_query_ms: Option<u64>,
    /// Include the parameters of queries, and so their texts and groups, in the slow-query log [default:
    /// false].
    #[arg(long, value_name = "BOOL", env = "MILLRACE_SLOW_QUERY_LOG_QUERIES")]
    pub slow_query_log_queries: Option<bool>,
    /// Send the spans of requests to the collector of traces at this address, by OTLP over HTTP, such as
    /// http://localhost:4318 [default: no traces].
    #[arg(long, value_name = "URL", env = "MILLRACE_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,
    /// Share of the requests without a header traceparent that are traced, from 0 to 1 [default: 1].
    #[arg(long, value_name = "SHARE", env = "MILLRACE_OTLP_SAMPLED")]
    pub otlp_sampled: Option<f64>,
    /// Proxies whose X-Forwarded-For is taken for the address of the client, and whose --group-header for the
    /// group, as addresses or ranges with commas between [default: 127.0.0.1,::1].
    #[arg(long, value_name = "ADDRESSES", env = "MILLRACE_TRUSTED_PROXIES", value_delimiter = ',')]
    pub trusted_proxies: Option<Vec<String>>,
    /// Bytes that stay free on the disk; if fewer are free, documents can only be read and removed [default:
    /// 268435456].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_DISK_RESERVE")]
    pub disk_reserve: Option<u64>,
    /// Seconds that requests in flight have to end after a stop [default: 10].
    #[arg(long, value_name = "SECONDS", env = "MILLRACE_DRAIN_S")]
    pub drain_s: Option<u64>,
    /// Seconds after which an unused model leaves memory [default: 900].
    #[arg(long, value_name = "SECONDS", env = "MILLRACE_MODEL_IDLE_S")]
    pub model_idle_s: Option<u64>,
    /// Join a cluster that agrees through etcd: etcd://HOST:PORT, several with commas between [default: no
    /// cluster].
    #[arg(long, value_name = "URL", env = "MILLRACE_CLUSTER")]
    pub cluster: Option<String>,
    /// The node's name in the cluster, the same after each start [default: the machine's name].
    #[arg(long, env = "MILLRACE_NAME")]
    pub name: Option<String>,
    /// Roles of the node in the cluster, with commas between: gateway, content, controller, index [default:
    /// all]. With index and without content it has copies of placed indexes, and no documents.
    #[arg(long, env = "MILLRACE_ROLES")]
    pub roles: Option<String>,
    /// The port that other nodes of the cluster speak to [default: 19100].
    #[arg(long, value_name = "PORT", env = "MILLRACE_PEER_PORT")]
    pub peer_port: Option<u16>,
    /// The certificate (PEM) of the authority that signs those of all nodes: nodes then communicate
    /// encrypted, and refuse others.
    #[arg(long, value_name = "FILE", env = "MILLRACE_PEER_TLS_AUTHORITY")]
    pub peer_tls_authority: Option<PathBuf>,
    /// The node's own certificate for other nodes (PEM), signed by that authority, for the host by which they
    /// reach it.
    #[arg(long, value_name = "FILE", env = "MILLRACE_PEER_TLS_CERTIFICATE")]
    pub peer_tls_certificate: Option<PathBuf>,
    /// The private key (PEM) of the certificate for other nodes.
    #[arg(long, value_name = "FILE", env = "MILLRACE_PEER_TLS_KEY")]
    pub peer_tls_key: Option<PathBuf>,
    /// The certificate (PEM) of the authority that has signed etcd's, at etcds:// [default: those that the
    /// system trusts].
    #[arg(long, value_name = "FILE", env = "MILLRACE_ETCD_TLS_AUTHORITY")]
    pub etcd_tls_authority: Option<PathBuf>,
    /// A certificate (PEM) to show etcd, if it requires one.
    #[arg(long, value_name = "FILE", env = "MILLRACE_ETCD_TLS_CERTIFICATE")]
    pub etcd_tls_certificate: Option<PathBuf>,
    /// The private key (PEM) of the certificate that is shown to etcd.
    #[arg(long, value_name = "FILE", env = "MILLRACE_ETCD_TLS_KEY")]
    pub etcd_tls_key: Option<PathBuf>,
    /// The host by which other nodes reach this one [default: the address it listens at].
    #[arg(long, value_name = "HOST", env = "MILLRACE_ADVERTISE")]
    pub advertise: Option<String>,
    /// Maximum bytes of replicas that the node sends and receives in a second; it uses less while requests
    /// get slower [default: no limit].
    #[arg(long, value_name = "BYTES", env = "MILLRACE_TRANSFER_RATE_MAX")]
    pub transfer_rate_max: Option<u64>,
    /// Use plain code paths instead of fast ones: for tests that compare them.
    #[arg(long, hide = true, env = "MILLRACE_PLAIN_PATHS")]
    #[serde(skip)]
    pub plain_paths: bool,
    /// Milliseconds that each sync takes longer: for benchmarks with a slow disk.
    #[arg(long, hide = true, env = "MILLRACE_SYNC_DELAY_MS")]
    #[serde(skip)]
    pub sync_delay_ms: Option<u64>,
    /// Log level of standard error: error, warn, info, debug, or a filter such as millrace_store=debug
    /// [default: warn].
    #[arg(long, value_name = "FILTER", env = "MILLRACE_LOG")]
    pub log: Option<String>,
}

/// Resolved settings of a server.
pub struct ResolvedSettings {
    /// Settings of the node.
    pub settings: Settings,
    /// The application to deploy first.
    pub app: Option<PathBuf>,
    /// The node's part in a cluster.
    pub cluster: Option<ClusterSettings>,
    /// Names of cluster-only settings that were given to a node that is not in a cluster.
    pub passed_over: Vec<&'static str>,
    /// Log filter.
    pub log: String,
}

impl ServeArguments {
    /// Resolves the settings, with those of the file as defaults of flags and variables.
    ///
    /// # Errors
    /// The file cannot be read, or contains an unknown setting.
    pub fn resolve(&self) -> Result<ResolvedSettings, Error> {
        let file = match &self.config {
            Some(path) => read(path)?,
            None => ServeArguments::default(),
        };
        let given = self.clone().or(file);
        given.check_bounds()?;
        let defaults = Settings::new(given.data_dir.clone().unwrap_or_else(|| PathBuf::from("data")));
        let tls = server_tls(given.tls_certificate.clone(), given.tls_key.clone())?;
        let credentials = given.credentials(defaults.credentials)?;
        let listening = ListenSettings {
            listen: given.listen.unwrap_or(defaults.listen),
            config_listen: given.config_listen.unwrap_or(defaults.config_listen),
            insecure: given.insecure.unwrap_or(false),
            is_closed: credentials.are_required(),
        };
        listening.check()?;
        let hosts = given.hosts()?;
        let log_details = given.log_details(defaults.log_details)?;
        let slow_queries = given.slow_queries()?;
        let spans = tracing::settings(given.otlp_endpoint.clone(), given.otlp_sampled, || given.node_name())?;
        let settings = Settings {
            node: given.node_settings(defaults.node)?,
            limits: given.limits(RequestLimits::default()),
            return_memory: free_memory::return_to_system,
            listen: listening.listen,
            config_listen: listening.config_listen,
            hosts,
            origins: parsed("allowed-origins", WebOrigins::parse(&listed(given.allowed_origins.clone())))?,
            group_headers: given.group_headers()?,
            log_details,
            port: given.port.unwrap_or(defaults.port),
            config_port: given.config_port.unwrap_or(defaults.config_port),
            elastic_port: given.elastic_port,
            tls,
            credentials,
            application_clients: given.application_clients.unwrap_or(defaults.application_clients),
            request_bytes_max: given.request_bytes_max.unwrap_or(defaults.request_bytes_max),
            group_rate_max: given.group_rate_max.or(defaults.group_rate_max),
            group_concurrent_max: given.group_concurrent_max,
            group_documents_max: given.group_documents_max,
            group_bytes_max: given.group_bytes_max,
            group_fed_bytes_max: given.group_fed_bytes_max,
            address_rate_max: given.address_rate_max.or(defaults.address_rate_max),
            access_log: given.access_log.clone(),
            slow_queries,
            spans,
            drain: seconds(given.drain_s, defaults.drain),
            trust: None,
        };
        let cluster = given.cluster_settings(&settings, listening.is_closed)?;
        Ok(ResolvedSettings {
            passed_over: if cluster.is_none() { given.of_clusters() } else { Vec::new() },
            cluster,
            settings,
            app: given.app,
            log: given.log.unwrap_or_else(|| "warn".to_owned()),
        })
    }

    /// Files with the credentials of clients, with these for the missing ones.
    fn credentials(&self, defaults: CredentialFiles) -> Result<CredentialFiles, Error> {
        let token_keys = self.token_keys.as_deref().map(str::parse).transpose();
        Ok(CredentialFiles {
            is_access_required: self.access_file.is_some(),
            of_cluster: defaults.of_cluster,
            access: self.access_file.clone().unwrap_or(defaults.access),
            token_keys: parsed("token-keys", token_keys)?,
            audience: self.token_audience.clone().unwrap_or(defaults.audience),
        })
    }

    /// Names by which clients address the server: in a cluster also the one that it advertises.
    fn hosts(&self) -> Result<HostNames, Error> {
        let hosts = parsed("allowed-hosts", HostNames::parse(&listed(self.allowed_hosts.clone())))?;
        Ok(match self.advertise.as_deref().filter(|_| self.cluster.is_some()) {
            Some(own) => hosts.with(own),
            None => hosts,
        })
    }

    /// Headers in which trusted proxies name the group of a request.
    fn group_headers(&self) -> Result<GroupHeaders, Error> {
        let headers = GroupHeaders::parse(self.group_header.as_deref(), self.group_number_header.as_deref());
        Ok(parsed("group-header", headers)?.optional(self.group_header_optional == Some(true)))
    }

    /// Contents of a line of the access log, with these for the missing ones.
    fn log_details(&self, defaults: LogDetails) -> Result<LogDetails, Error> {
        Ok(LogDetails {
            queries: self.access_log_queries.unwrap_or(defaults.queries),
            trusted_proxies: match &self.trusted_proxies {
                Some(proxies) => parsed("trusted-proxies", parse_each(proxies))?,
                None => defaults.trusted_proxies,
            },
        })
    }

    /// The log of slow queries: queries that take a number of milliseconds, with their parameters if wanted.
    fn slow_queries(&self) -> Result<Option<SlowQuerySettings>, Error> {
        let (threshold_ms, has_parameters) = (self.slow_query_ms, self.slow_query_log_queries);
        match self.slow_query_log.clone() {
            Some(log) => Ok(Some(SlowQuerySettings {
                log,
                threshold: Duration::from_millis(threshold_ms.unwrap_or(SLOW_QUERY_MS)),
                has_parameters: has_parameters.unwrap_or(false),
            })),
            None if threshold_ms.is_some() || has_parameters.is_some() => Err(Error::Argument(
                "slow-query-ms and slow-query-log-queries need slow-query-log; give the file of the log as well"
                    .to_owned(),
            )),
            None => Ok(None),
        }
    }

    /// Names of the given settings that apply to clusters only.
    fn of_clusters(&self) -> Vec<&'static str> {
        let settings = [
            ("name", self.name.is_some()),
            ("roles", self.roles.is_some()),
            ("peer-port", self.peer_port.is_some()),
            ("peer-tls-authority", self.peer_tls_authority.is_some()),
            ("etcd-tls-authority", self.etcd_tls_authority.is_some()),
            ("advertise", self.advertise.is_some()),
            ("transfer-rate-max", self.transfer_rate_max.is_some()),
        ];
        settings.into_iter().filter_map(|(name, is_given)| is_given.then_some(name)).collect()
    }
}

/// A time that is set in seconds; a longer one than [`SECONDS_MAX`] is reduced to it.
fn seconds(given: Option<u64>, default: Duration) -> Duration {
    given.map_or(default, |seconds| Duration::from_secs(seconds.min(SECONDS_MAX)))
}

/// Converts the result of parsing a setting.
fn parsed<T, E: Display>(name: &str, value: Result<T, E>) -> Result<T, Error> {
    value.map_err(|reason| Error::Argument(format!("{name}: {reason}")))
}

/// Entries of a list; a variable that is set to an empty text is an empty list.
fn listed(list: Option<Vec<String>>) -> Vec<String> {
    list.unwrap_or_default().into_iter().filter(|entry| !entry.trim().is_empty()).collect()
}

/// Parses each entry of a list.
fn parse_each<T: FromStr>(texts: &[String]) -> Result<Vec<T>, T::Err> {
    texts.iter().map(|text| text.trim().parse()).collect()
}

fn read(path: &Path) -> Result<ServeArguments, Error> {
    let text =
        std::fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    toml::from_str(&text).map_err(|error| Error::Settings {
        path: path.to_owned(),
        reason: error.to_string().trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use millrace_membership::NodeRole;

    use super::*;

    fn resolve(file: &str, flags: ServeArguments) -> Result<ResolvedSettings, Error> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("millrace.toml");
        std::fs::write(&path, file).expect("the directory can be written");
        ServeArguments { config: Some(path), ..flags }.resolve()
    }

    #[test]
    fn flags_count_more_than_the_file() {
        let flags = ServeArguments { port: Some(1), ..ServeArguments::default() };
        let resolved =
            resolve("port = 2\nconfig-port = 3\ndrain-s = 4\nlog = 'info'", flags).expect("it is right");
        let settings = resolved.settings;
        assert_eq!((settings.port, settings.config_port, settings.drain.as_secs()), (1, 3, 4));
        assert_eq!(resolved.log, "info");
        assert_eq!(settings.node.data_dir, PathBuf::from("data"));
    }

    #[test]
    fn times_of_any_length_fit_into_the_microseconds_of_the_store() {
        // The largest number of a TOML file, and the first whose microseconds are above 64 bits.
        for seconds in [i64::MAX as u64, u64::MAX / 1_000_000 + 1] {
            let all = "drain-s = S\nmodel-idle-s = S\nerase-within-s = S\nkeep-logs-s = S";
            let file = all.replace('S', &seconds.to_string());
            let resolved = resolve(&file, ServeArguments::default()).expect("it is right");
            let Settings { node, drain, .. } = resolved.settings;
            for time in [drain, node.model_idle, node.erase_within, node.keep_logs] {
                assert!(time >= Duration::from_secs(SECONDS_MAX), "{seconds}: {time:?}");
                assert!(u64::try_from(time.as_micros()).is_ok(), "{seconds}: {time:?}");
            }
        }
    }

    #[test]
    fn cluster_settings_without_a_cluster_are_named() {
        let flags = ServeArguments { name: Some("n0".to_owned()), ..ServeArguments::default() };
        let passed_over = |file: &str| resolve(file, flags.clone()).expect("it is right").passed_over;
        assert_eq!(passed_over("peer-port = 1\nport = 2"), ["name", "peer-port"]);
        assert!(passed_over("cluster = 'etcd://e'").is_empty());
    }

    #[test]
    fn what_is_no_setting_is_named() {
        #[track_caller]
        fn check(file: &str, expected: &str) {
            let error = resolve(file, ServeArguments::default()).err().expect("it is wrong").to_string();
            assert!(error.contains(expected), "{error}");
        }
        check("allowed-hosts = ['http://a']", "allowed-hosts: 'http://a' is not the name of a host");
        check("allowed-origins = ['*']", "allowed-origins: '*' is not the origin of a web page");
        check("group-header = 'Host'", "group-header: 'Host' is not a header that can name a group");
        check("outbound-allow = ['none', 'public']", "outbound-allow: 'none'");
        check("secret = ['key']", "secret: 'key' does not bind a secret to a host");
        check(
            "token-keys = 'http://id.example.com/jwks'",
            "token-keys: 'http://id.example.com/jwks' is not encrypted",
        );
        check("trusted-proxies = ['proxy']", "trusted-proxies: 'proxy' is neither an address");
        check("prot = 8080", "prot");
        check("port = 'many'", "port");
        check("slow-query-ms = 5", "slow-query-log");
        check("tls-key = 'key.pem'", "tls-certificate");
        check("peer-tls-key = 'key.pem'", "peer-tls-authority");
        check("etcd-tls-authority = 'a.pem'\netcd-tls-key = 'key.pem'", "etcd-tls-certificate");
        check("cluster = 'etcd://e'\ngroup-header = 'X-User'", "whose proxy names groups");
        check("cluster = 'etcd://e'\ngroup-number-header = 'X-User'", "whose proxy names groups");
        check("cluster = 'etcd://e'\ntls-certificate = 'c.pem'\ntls-key = 'k.pem'", "peer-tls-authority");
    }

    #[test]
    fn a_node_has_the_roles_that_it_is_given() {
        let roles = |roles: &str| {
            let file = format!("cluster = 'etcd://e'\nname = 'n0'\nroles = '{roles}'");
            let resolved = resolve(&file, ServeArguments::default());
            let cluster = resolved.map(|resolved| resolved.cluster.expect("it is one of a cluster"));
            cluster.map(|cluster| cluster.roles).map_err(|error| error.to_string())
        };
        assert_eq!(roles("content,index"), Ok(vec![NodeRole::Content, NodeRole::Index]));
        assert_eq!(roles("gateway, content"), Ok(vec![NodeRole::Gateway, NodeRole::Content]));
        assert_eq!(roles("gateway,index"), Ok(vec![NodeRole::Gateway, NodeRole::Index]));
        let error = roles("content,indexes").expect_err("there is no such role");
        assert!(error.contains("expected gateway, content, controller or index"), "{error}");
        let all = resolve("cluster = 'etcd://e'\nname = 'n0'", ServeArguments::default());
        let all = all.expect("it is right").cluster.expect("it is one of a cluster").roles;
        assert!(all.contains(&NodeRole::Index), "nodes take copies by default");
    }

    /// Rows: the address, true if certificates are given, and true if the start is refused.
    #[test]
    fn other_machines_are_let_in_only_on_purpose() {
        let insecure = "insecure = true\n";
        let certificates = "cluster = 'etcd://e'\ntls-certificate = 'c'\ntls-key = 'k'\npeer-tls-authority = 'a'\n\
                            peer-tls-certificate = 'c'\npeer-tls-key = 'k'\n";
        for (listen, config_listen, is_safe) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.2", "::1", true),
            ("::1", "::ffff:127.0.0.1", true),
            ("0.0.0.0", "127.0.0.1", false),
            ("::", "127.0.0.1", false),
            ("192.168.1.7", "127.0.0.1", false),
            ("127.0.0.1", "0.0.0.0", false),
            ("127.0.0.1", "fd00::1", false),
        ] {
            let file = format!("listen = '{listen}'\nconfig-listen = '{config_listen}'\n");
            for more in ["", certificates, "insecure = false\n"] {
                let outcome = resolve(&format!("{more}{file}"), ServeArguments::default());
                let error = outcome.err().map(|error| error.to_string()).unwrap_or_default();
                assert_eq!(error.is_empty(), is_safe, "{file}{more}: {error}");
                assert!(is_safe || error.contains("add --insecure"), "{error}");
            }
            let settings = resolve(&format!("{insecure}{file}"), ServeArguments::default())
                .expect("on purpose")
                .settings;
            assert_eq!(settings.listen.to_string(), listen);
            assert_eq!(settings.config_listen.to_string(), config_listen);
        }
        let flags = ServeArguments { listen: Some([0, 0, 0, 0].into()), ..ServeArguments::default() };
        let settings = resolve(insecure, flags).expect("on purpose").settings;
        assert!(settings.config_listen.is_loopback(), "the config port stays inside unless it is asked out");
    }
}
