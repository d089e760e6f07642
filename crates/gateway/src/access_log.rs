//! The access log: a line of JSON for each request, with the fields of Vespa's.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hyper::header::{HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, StatusCode};
use millrace_access::{CertificateHash, RequestCaller};
use millrace_remote::AddressRange;
use serde_json::{Map, Value, json};

use crate::http::observed;
use crate::log_file::LineLog;
use crate::search_api::QueryStats;

/// Header in which each proxy adds the address of its client.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Headers in which other proxies have the address of the client; the first one present counts.
const CLIENT_ADDRESS_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("y-ra"),
    HeaderName::from_static("yahooremoteip"),
    HeaderName::from_static("client-ip"),
];

/// Optional contents of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDetails {
    /// True if a line has the parameters of the request line, and so the texts of queries.
    pub queries: bool,
    /// Proxies that are trusted to report the address of a client, and to name its group.
    pub trusted_proxies: Vec<AddressRange>,
}

impl Default for LogDetails {
    fn default() -> Self {
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        LogDetails { queries: true, trusted_proxies: loopback.map(AddressRange::of).to_vec() }
    }
}

impl LogDetails {
    /// Returns true for the address of a trusted proxy.
    pub(crate) fn is_trusted_proxy(&self, address: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|range| range.contains(address))
    }

    /// Returns the address of the client, as reported by the proxies between it and `peer`: the last one that
    /// is not a trusted proxy.
    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Option<String> {
        if !self.is_trusted_proxy(peer) {
            return None;
        }
        let listed = headers.get_all(&FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
        let listed: Vec<&str> = listed.flat_map(|value| value.split(',')).map(str::trim).collect();
        let is_client = |text: &&&str| !text.parse().is_ok_and(|address| self.is_trusted_proxy(address));
        let client = listed.iter().rev().find(is_client).or(listed.first()).copied();
        let others = || CLIENT_ADDRESS_HEADERS.iter().find_map(|name| header(headers, name));
        client.filter(|client| !client.is_empty()).or_else(others).map(str::to_owned)
    }
}

/// Parses the first line as ranges of trusted proxies, separated by commas, and the others as values of
/// `X-Forwarded-For` of a request from a trusted and from another address; for fuzzing.
///
/// # Panics
/// A range lacks its own address, or the client is not the last address that is not a trusted proxy's.
pub fn fuzz(text: &str) {
    let (listed, headers) = text.split_once('\n').unwrap_or((text, text));
    let ranges = listed.split(',').filter_map(|range| match range.parse::<AddressRange>() {
        Ok(parsed) => {
            let first = range.split_once('/').map_or(range, |(first, _)| first);
            assert!(first.parse().is_ok_and(|first| parsed.contains(first)), "{range} lacks {first}");
            Some(parsed)
        }
        Err(error) => {
            assert!(
                error.to_string().contains("neither an address nor a range"),
                "an error that says nothing: {error}"
            );
            None
        }
    });
    let details = LogDetails { trusted_proxies: ranges.collect(), ..LogDetails::default() };
    let mut all = HeaderMap::new();
    for value in headers.lines().filter_map(|line| HeaderValue::from_str(line).ok()).take(100) {
        all.append(FORWARDED_FOR, value);
    }
    for peer in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9))] {
        let client = details.client(peer, &all);
        assert!(
            client.is_none() || details.is_trusted_proxy(peer),
            "{peer} is not trusted, but reports a client"
        );
        let Some(client) = client else { continue };
        let values = all.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
        let listed: Vec<&str> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
        let place = listed.iter().rposition(|text| *text == client);
        assert!(place.is_some(), "'{client}' is not one of the reported addresses");
        let place = place.unwrap_or_default();
        let is_trusted = |text: &str| text.parse().is_ok_and(|address| details.is_trusted_proxy(address));
        assert!(
            listed[place + 1..].iter().all(|text| is_trusted(text)),
            "a proxy after '{client}' is not trusted"
        );
        assert!(!is_trusted(&client) || listed.iter().all(|text| is_trusted(text)), "'{client}' is a proxy");
    }
}

/// Other side of a connection, attached to each of its requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionPeer {
    /// Its address.
    pub(crate) address: SocketAddr,
    /// Port of this node that it is connected to.
    pub(crate) local_port: u16,
    /// True if the connection uses TLS.
    pub(crate) tls: bool,
    /// True if it is a node of the cluster that has shown its certificate.
    pub(crate) is_node: bool,
    /// Certificate that a client has shown.
    pub(crate) certificate: Option<CertificateHash>,
}

/// An open access log.
pub(crate) struct AccessLog {
    lines: LineLog,
    details: LogDetails,
}

impl AccessLog {
    /// Opens the file at `path` for appending.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be started.
    pub(crate) fn open(path: &Path, details: LogDetails) -> io::Result<Arc<AccessLog>> {
        Ok(Arc::new(AccessLog { lines: LineLog::open(path, "access log")?, details }))
    }

    /// Number of lines left out because the disk was too slow.
    pub(crate) fn left_out(&self) -> u64 {
        self.lines.left_out()
    }

    /// Writes the queued lines; later requests are not logged.
    pub(crate) fn close(&self) {
        self.lines.close();
    }
}

/// Logs a request once its answer has been sent, or the caller has left.
pub(crate) async fn log(State(log): State<Arc<AccessLog>>, request: Request, next: Next) -> Response {
    let mut line = LogLine::new(&request, log);
    let response = next.run(request).await;
    line.fields.insert("code".to_owned(), json!(response.status().as_u16()));
    if let Some(stats) = response.extensions().get::<QueryStats>() {
        line.fields.insert("search".to_owned(), stats.logged());
    }
    response.map(|body| {
        observed(body, move |frame| {
            // The whole line, which is written when the body is dropped.
            let line = &mut line;
            line.sent += frame.data_ref().map_or(0, |data| data.len() as u64);
        })
    })
}

/// Logs a request that is answered at the edge.
pub(crate) fn log_refused<B>(log: &Arc<AccessLog>, request: &axum::http::Request<B>, status: StatusCode) {
    let mut line = LogLine::new(request, Arc::clone(log));
    line.fields.insert("code".to_owned(), json!(status.as_u16()));
}

/// Known facts about a request; written when it is dropped.
struct LogLine {
    log: Arc<AccessLog>,
    fields: Map<String, Value>,
    began: Instant,
    sent: u64,
}

impl LogLine {
    fn new<B>(request: &axum::http::Request<B>, log: Arc<AccessLog>) -> Self {
        let mut fields = Map::new();
        let mut tell = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        let peer = request.extensions().get::<ConnectionPeer>();
        if let Some(peer) = peer {
            let address = peer.address.ip().to_string();
            tell("ip", json!(address));
            tell("peeraddr", json!(address));
            tell("peerport", json!(peer.address.port()));
            tell("localport", json!(peer.local_port));
        }
        let time = millrace_env::unix_time();
        tell("time", json!(time.as_millis() as f64 / 1000.0));
        tell("method", json!(request.method().as_str()));
        let uri = match log.details.queries {
            true => request.uri().path_and_query().map_or("/", |uri| uri.as_str()),
            false => request.uri().path(),
        };
        tell("uri", json!(uri));
        tell("version", json!(format!("{:?}", request.version())));
        tell("agent", json!(header(request.headers(), &USER_AGENT).unwrap_or_default()));
        // HTTP/2 has the host in the URI.
        let host = header(request.headers(), &HOST).or(request.uri().authority().map(|host| host.as_str()));
        tell("host", json!(host.unwrap_or_default()));
        tell("scheme", json!(if peer.is_some_and(|peer| peer.tls) { "https" } else { "http" }));
        if let Some(caller) = request.extensions().get::<Arc<RequestCaller>>() {
            tell("user-principal", json!(&*caller.name));
        }
        let client = peer.and_then(|peer| log.details.client(peer.address.ip(), request.headers()));
        if let Some(address) = client {
            tell("remoteaddr", json!(address));
        }
        LogLine { log, fields, began: Instant::now(), sent: 0 }
    }
}

fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

impl Drop for LogLine {
    fn drop(&mut self) {
        let duration = (self.began.elapsed().as_secs_f64() * 1e6).round() / 1e6;
        self.fields.insert("duration".to_owned(), json!(duration));
        self.fields.insert("responsesize".to_owned(), json!(self.sent));
        let mut line = Value::Object(std::mem::take(&mut self.fields)).to_string();
        line.push('\n');
        self.log.lines.append(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_behind_proxies() {
        let ranges = ["127.0.0.1", "10.0.0.0/8"].map(|range| range.parse().expect("a range"));
        let details = LogDetails { trusted_proxies: ranges.to_vec(), ..LogDetails::default() };
        for (peer, forwarded, expected) in [
            ("127.0.0.1", "192.0.2.7", Some("192.0.2.7")),
            ("127.0.0.1", "spoofed, 192.0.2.7", Some("192.0.2.7")),
            ("10.1.1.1", "spoofed, 192.0.2.7, 10.2.2.2", Some("192.0.2.7")),
            ("127.0.0.1", "10.3.3.3, 10.2.2.2", Some("10.3.3.3")),
            ("127.0.0.1", "", None),
            ("192.0.2.9", "192.0.2.7", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(FORWARDED_FOR, forwarded.parse().expect("a value"));
            let client = details.client(peer.parse().expect("an address"), &headers);
            assert_eq!(client.as_deref(), expected, "{peer} {forwarded}");
        }
    }

    /// Lines of requests, handled or refused at the edge, with and without their parameters.
    #[test]
    fn texts_of_queries_are_left_out_where_that_is_wanted() {
        const SECRET: &str = "whatnobodyshallread";
        let paths = [
            "/search/?query=SECRET",
            "/search/?yql=select+*+from+x+where+t+contains+%22SECRET%22&timeout=1s",
            "http://other:8080/search/?SECRET",
            "/document/v1/?cluster=notes&selection=note.title%3D%22SECRET%22",
            "/document/v1/n/note/group/ann/1?condition=SECRET",
            "/model-evaluation/v1/m/eval?input=SECRET",
            "/elastic/notes/_search?q=SECRET",
            "/group/v1/ann/export?SECRET",
            "/SECRET?",
        ];
        for queries in [true, false] {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let path = directory.path().join("access.log");
            let log = AccessLog::open(&path, LogDetails { queries, ..LogDetails::default() });
            let log = log.expect("it can be written");
            for uri in paths {
                let request = Request::builder().uri(uri.replace("SECRET", SECRET)).body(()).expect("a URI");
                log_refused(&log, &request, StatusCode::FORBIDDEN);
                drop(LogLine::new(&request, Arc::clone(&log)));
            }
            log.close();
            let text = std::fs::read_to_string(&path).expect("it was written");
            let logged: Vec<&str> = text.lines().filter(|line| line.contains(SECRET)).collect();
            assert_eq!(text.lines().count(), 2 * paths.len());
            // The last one is a path, which is always in the log.
            let expected = if queries { paths.len() } else { 1 };
            assert_eq!(logged.len(), 2 * expected, "{queries}: {logged:?}");
        }
    }
}
