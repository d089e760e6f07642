use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::header::HeaderName;
use hyper::http::uri::Authority;
use hyper::{Method, StatusCode};
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest, StreamingAnswer};
use rustls::ClientConfig;
use serde_json::Value;

use crate::Error;

/// Default port of etcd.
const PORT: u16 = 2379;

/// Timeout of a member's answer.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(2);

/// Header that makes a member answer only while it has a leader, and report when it loses it.
const NEEDS_LEADER: &str = "grpc-metadata-hasleader";

/// Members of etcd, one of which is current.
pub(super) struct EtcdMembers {
    /// At least one.
    clients: Vec<NodeClient>,
    /// Counter whose value determines the current member.
    current: AtomicUsize,
}

/// Failure of a request to one member.
enum MemberFailure {
    /// Certainly not executed: another member may do it.
    NotDone(String),
    /// Possibly executed.
    Unknown(String),
    /// Never to be executed by any member.
    Final(Error),
}

/// Effect of repeating a request at another member while its first outcome is unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RepeatPolicy {
    /// Repeating it has no further effect.
    Idempotent,
    /// Not repeatable: it would be executed twice.
    Unsafe,
}

impl MemberFailure {
    fn reason(self) -> String {
        match self {
            MemberFailure::NotDone(reason) | MemberFailure::Unknown(reason) => reason,
            MemberFailure::Final(error) => error.to_string(),
        }
    }
}

impl EtcdMembers {
    pub(super) fn parse(address: &str, tls: Option<ClientConfig>) -> Result<Self, Error> {
        let fail = |reason: String| Error::Address { text: address.to_owned(), reason };
        let (scheme, list) = match address.split_once("://") {
            Some(("etcd", list)) => ("http", list),
            Some(("etcds", list)) => ("https", list),
            _ => return Err(fail("it does not begin with etcd:// or etcds://".to_owned())),
        };
        if tls.is_some() && scheme == "http" {
            return Err(fail("certificates are given for it; begin it with etcds://".to_owned()));
        }
        let client = |member: &str| {
            let member = member.trim();
            let authority: Authority =
                member.parse().map_err(|error| fail(format!("'{member}' is not a host: {error}")))?;
            let port = match authority.as_str().strip_prefix(authority.host()) {
                Some("") => PORT,
                Some(_) => authority
                    .port_u16()
                    .ok_or_else(|| fail(format!("'{member}' has no number for a port")))?,
                None => return Err(fail(format!("'{member}' is more than a host and a port"))),
            };
            let base = format!("{scheme}://{}:{port}", authority.host());
            NodeClient::trusting(&base, HttpProtocol::Http1, tls.clone())
                .map_err(|error| fail(error.to_string()))
        };
        let clients = list.trim_end_matches('/').split(',').map(client).collect::<Result<_, _>>()?;
        Ok(EtcdMembers { clients, current: AtomicUsize::new(0) })
    }

    /// Sends a request to the members in turn until one answers; each is tried once.
    pub(super) async fn call(&self, path: &str, body: &Value, repeat: RepeatPolicy) -> Result<Value, Error> {
        let request = request(path, body).timeout(MEMBER_TIMEOUT);
        let mut reason = String::new();
        for _ in &self.clients {
            let (at, client) = self.current();
            let failure = match client.send(request.clone()).await {
                Ok(answer) if answer.status.is_success() => return Ok(answer.json()),
                Ok(answer) => refused(answer.status, &answer.json(), answer.message()),
                Err(error) => unanswered(error),
            };
            match failure {
                MemberFailure::Final(error) => return Err(error),
                MemberFailure::Unknown(reason) if repeat == RepeatPolicy::Unsafe => {
                    self.leave(at);
                    return Err(Error::Unknown { address: client.base().to_owned(), reason });
                }
                MemberFailure::Unknown(why) | MemberFailure::NotDone(why) => {
                    self.leave(at);
                    reason = why;
                }
            }
        }
        Err(Error::Unavailable { address: self.addresses(), reason })
    }

    /// Begins a streaming answer at the current member, and returns its index.
    pub(super) async fn open(&self, path: &str, body: &Value) -> Result<(usize, StreamingAnswer), Error> {
        let (at, client) = self.current();
        let reason = match tokio::time::timeout(MEMBER_TIMEOUT, client.open(request(path, body))).await {
            Ok(Ok(answer)) => return Ok((at, answer)),
            Ok(Err(error)) => unanswered(error).reason(),
            Err(_) => "no answer in time".to_owned(),
        };
        Err(self.failed(at, reason))
    }

    /// Handles the failure of a member in the middle of an answer: the next member becomes the current one.
    pub(super) fn failed(&self, at: usize, reason: String) -> Error {
        self.leave(at);
        Error::Unavailable { address: self.member(at).base().to_owned(), reason }
    }

    /// Error for a malformed answer.
    pub(super) fn malformed(&self, reason: String) -> Error {
        Error::Answer { address: self.current().1.base().to_owned(), reason }
    }

    fn current(&self) -> (usize, &NodeClient) {
        let at = self.current.load(Ordering::Relaxed);
        (at, self.member(at))
    }

    fn member(&self, at: usize) -> &NodeClient {
        &self.clients[at % self.clients.len()]
    }

    /// Makes another member the current one, unless another call has done so meanwhile.
    fn leave(&self, at: usize) {
        let _ = self.current.compare_exchange(at, at.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    fn addresses(&self) -> String {
        self.clients.iter().map(NodeClient::base).collect::<Vec<_>>().join(", ")
    }
}

fn request(path: &str, body: &Value) -> OutgoingRequest {
    OutgoingRequest::new(Method::POST, path)
        .header(HeaderName::from_static(NEEDS_LEADER), "true")
        .body("application/json", body.to_string())
}

/// Failure for an error status. The codes are those of gRPC.
fn refused(status: StatusCode, body: &Value, message: String) -> MemberFailure {
    const NOT_FOUND: u64 = 5;
    const UNKNOWN: u64 = 2;
    const CANCELLED: u64 = 1;
    const DEADLINE: u64 = 4;
    const EXHAUSTED: u64 = 8;
    const UNAVAILABLE: u64 = 14;
    let code = body.get("code").or_else(|| body.get("grpc_code")).and_then(Value::as_u64);
    let message = body.get("error").and_then(Value::as_str).map_or(message, str::to_owned);
    match code {
        Some(NOT_FOUND) if message.contains("lease not found") => MemberFailure::Final(Error::LeaseLost),
        Some(EXHAUSTED) if message.contains("too many requests") => MemberFailure::NotDone(message),
        // A member without a leader reports it before it does anything.
        Some(UNAVAILABLE) if message.contains("no leader") => MemberFailure::NotDone(message),
        Some(UNAVAILABLE | UNKNOWN | DEADLINE | CANCELLED) => MemberFailure::Unknown(message),
        None if status.is_server_error() => MemberFailure::Unknown(format!("{status}: {message}")),
        _ => MemberFailure::Final(Error::Refused(format!("etcd: {message}"))),
    }
}

/// Failure for a missing answer.
fn unanswered(error: millrace_client::Error) -> MemberFailure {
    use millrace_client::Error as Client;
    match error {
        Client::Unreachable { reason, .. } => MemberFailure::NotDone(reason),
        Client::Certificate { reason, .. } => MemberFailure::NotDone(format!(
            "its certificate is not taken ({reason}); etcd-tls-authority names the authority whose certificates are"
        )),
        // The client's own text is for those who give a command.
        Client::Timeout { seconds, .. } => {
            MemberFailure::Unknown(format!("no answer came within {seconds} seconds"))
        }
        Client::Address { .. }
        | Client::Identity { .. }
        | Client::Tls { .. }
        | Client::Broken { .. }
        | Client::Refused { .. }
        | Client::File { .. }
        | Client::Package { .. }
        | Client::Id(_)
        | Client::Feed { .. } => MemberFailure::Unknown(error.to_string()),
    }
}
