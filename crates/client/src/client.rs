use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use millrace_env::error_causes;
use millrace_trust::ClientIdentity;
use serde_json::Value;

use crate::Error;
use crate::id::PercentEncoded;
use crate::outgoing::StreamedBody;

/// Environment variable with the token that every client of a node sends.
const TOKEN_VARIABLE: &str = "MILLRACE_TOKEN";
/// Environment variables with the files of the certificate that every client shows, and of its key.
const IDENTITY_VARIABLES: [&str; 2] = ["MILLRACE_CLIENT_CERTIFICATE", "MILLRACE_CLIENT_KEY"];

/// Header that asks for complete ids below `/person/`, too: what is written to a file there can be fed
/// anywhere.
const IDS: HeaderName = HeaderName::from_static("millrace-ids");

/// Default timeout of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(200);

/// Client of one port of a node. Clones share their connections.
#[derive(Clone)]
pub struct NodeClient {
    base: String,
    timeout: Duration,
    /// Value of the header `Authorization`.
    authorization: Option<HeaderValue>,
    http: HyperClient<HttpsConnector<HttpConnector>, Either<Full<Bytes>, StreamedBody>>,
}

/// HTTP version of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpProtocol {
    /// HTTP/1.1; over TLS the version that both sides prefer.
    Http1,
    /// HTTP/2, without negotiation if there is no TLS: many requests over one connection.
    Http2,
}

/// An HTTP request.
#[derive(Debug, Clone)]
pub struct OutgoingRequest {
    method: Method,
    target: String,
    headers: HeaderMap,
    body: Bytes,
    /// Timeout, if it differs from the client's.
    timeout: Option<Duration>,
}

/// A complete HTTP response.
#[derive(Debug)]
pub struct ClientAnswer {
    /// HTTP status.
    pub status: StatusCode,
    /// Response headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// A successful response whose body is still being received.
#[derive(Debug)]
pub struct StreamingAnswer {
    /// Response headers.
    pub headers: HeaderMap,
    address: String,
    body: Incoming,
}

impl OutgoingRequest {
    /// Creates a request of `method` for a path, which must be percent-encoded.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        OutgoingRequest {
            method,
            target: path.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout: None,
        }
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn parameter(mut self, name: &str, value: &str) -> Self {
        self.target.push(if self.target.contains('?') { '&' } else { '?' });
        self.target.push_str(&format!("{}={}", PercentEncoded(name), PercentEncoded(value)));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        self.headers
            .insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
        self.body = body.into();
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: hyper::header::HeaderName, value: &'static str) -> Self {
        self.headers.insert(name, hyper::header::HeaderValue::from_static(value));
        self
    }

    /// Sets a timeout that replaces the client's.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl ClientAnswer {
    /// The body as JSON; `null` if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Returns the response if its status is a success.
    ///
    /// # Errors
    /// [`Error::Refused`] with the node's message.
    pub fn checked(self) -> Result<ClientAnswer, Error> {
        if self.status.is_success() {
            return Ok(self);
        }
        Err(Error::Refused { status: self.status.as_u16(), message: self.message() })
    }

    /// True if the node ignored the operation because no content cluster accepts the document.
    pub fn is_ignored(&self) -> bool {
        self.headers.get("x-vespa-ignored-operation").is_some_and(|value| value == "true")
    }

    /// Message of the node about a failure, in the format of any endpoint.
    pub fn message(&self) -> String {
        // Errors of answers that come as events are an event.
        let json = match self.body.strip_prefix(b"event: error\ndata: ") {
            Some(event) => {
                let data = event.split(|byte| *byte == b'\n').next().unwrap_or_default();
                serde_json::from_slice(data).unwrap_or_default()
            }
            None => self.json(),
        };
        let error = json.pointer("/root/errors/0");
        let message = json
            .get("message")
            .or_else(|| error.and_then(|error| error.get("message").or_else(|| error.get("summary"))))
            .and_then(Value::as_str);
        match message {
            Some(message) => message.to_owned(),
            None if self.body.is_empty() => self.status.to_string(),
            None => String::from_utf8_lossy(&self.body[..self.body.len().min(500)]).into_owned(),
        }
    }
}

impl NodeClient {
    /// Creates a client of the node at `base`, for example `http://localhost:8080`. It sends the token in the
    /// environment variable `MILLRACE_TOKEN`, if there is one; to `https://` addresses it shows the
    /// certificate in the file that `MILLRACE_CLIENT_CERTIFICATE` names, with the key in that of
    /// `MILLRACE_CLIENT_KEY`.
    ///
    /// # Errors
    /// [`Error::Address`] for an invalid address; [`Error::Identity`] for a certificate that cannot be used.
    pub fn new(base: &str, protocol: HttpProtocol) -> Result<Self, Error> {
        NodeClient::connecting(base, protocol, None, None)?.with_token()
    }

    /// Like [`NodeClient::new`], with connections from this address of the machine.
    ///
    /// # Errors
    /// [`Error::Address`] for an invalid address of the node.
    pub fn from_address(base: &str, protocol: HttpProtocol, from: IpAddr) -> Result<Self, Error> {
        NodeClient::connecting(base, protocol, None, Some(from))?.with_token()
    }

    /// Creates a client of another service, with the certificates of a TLS configuration; without one, it
    /// trusts the system's. It sends no token: the one of the environment is for nodes.
    ///
    /// # Errors
    /// [`Error::Address`] for an invalid address.
    pub fn trusting(
        base: &str,
        protocol: HttpProtocol,
        trusted: Option<rustls::ClientConfig>,
    ) -> Result<Self, Error> {
        NodeClient::connecting(base, protocol, trusted, None)
    }

    fn connecting(
        base: &str,
        protocol: HttpProtocol,
        trusted: Option<rustls::ClientConfig>,
        from: Option<IpAddr>,
    ) -> Result<Self, Error> {
        let fail = |reason: String| Error::Address { text: base.to_owned(), reason };
        let with_scheme = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
        let uri: Uri = with_scheme.parse().map_err(|error| fail(format!("{error}")))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.authority().is_none() {
            return Err(fail("it needs http:// or https://, a host, and perhaps a port".to_owned()));
        }
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_local_address(from);
        let tls = match (uri.scheme_str(), trusted) {
            (Some("https"), Some(trusted)) => HttpsConnectorBuilder::new().with_tls_config(trusted),
            (Some("https"), None) => HttpsConnectorBuilder::new().with_tls_config(
                millrace_trust::by_system(identity()?.as_ref()).map_err(|error| match error {
                    millrace_trust::Error::NoRoots(_) => fail(format!(
                        "no certificates to trust: {error}; name a file of them in SSL_CERT_FILE"
                    )),
                    _ => Error::Identity { reason: error.to_string() },
                })?,
            ),
            // Without TLS no certificates are needed, and reading the system's takes time.
            _ => HttpsConnectorBuilder::new()
                .with_tls_config(without_roots().map_err(|error| fail(error.to_string()))?),
        };
        let connector = match protocol {
            HttpProtocol::Http1 => tls.https_or_http().enable_all_versions().wrap_connector(tcp),
            HttpProtocol::Http2 => tls.https_or_http().enable_http2().wrap_connector(tcp),
        };
        let mut builder = HyperClient::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .http2_only(protocol == HttpProtocol::Http2)
            .http2_initial_stream_window_size(1 << 20)
            .http2_initial_connection_window_size(16 << 20);
        let base = with_scheme.trim_end_matches('/').to_owned();
        Ok(NodeClient {
            base,
            timeout: RESPONSE_TIMEOUT,
            authorization: None,
            http: builder.build(connector),
        })
    }

    /// Sends the token of the environment, if there is one.
    fn with_token(mut self) -> Result<Self, Error> {
        if let Some(token) = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty()) {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim())).map_err(|_| {
                let reason = format!("{TOKEN_VARIABLE} has a token with control characters");
                Error::Address { text: self.base.clone(), reason }
            })?;
            value.set_sensitive(true);
            self.authorization = Some(value);
        }
        Ok(self)
    }

    /// Sets the default timeout, instead of 200 seconds.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Address of the node.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request and waits for the complete response with any status.
    ///
    /// # Errors
    /// There is no response, or not in time.
    pub async fn send(&self, request: OutgoingRequest) -> Result<ClientAnswer, Error> {
        let timeout = request.timeout.unwrap_or(self.timeout);
        let exchange = async {
            let response = self.begin(request, None).await?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map_err(|error| self.broken(&error))?.to_bytes();
            Ok(ClientAnswer { status: parts.status, headers: parts.headers, body })
        };
        self.within(timeout, exchange).await
    }

    /// Sends a request and passes each part of the response body to `sink` as it arrives: the first within
    /// the timeout, each further one within the same time again. A response without a success status is read
    /// completely and becomes an error.
    ///
    /// # Errors
    /// There is no response; the response is truncated or too slow; the node rejects the request.
    pub async fn stream(
        &self,
        request: OutgoingRequest,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<HeaderMap, Error> {
        self.stream_with_headers(request, |_, piece| sink(piece)).await
    }

    /// Like [`NodeClient::stream`], with the headers of the response for each part.
    ///
    /// # Errors
    /// Those of [`NodeClient::stream`].
    pub async fn stream_with_headers(
        &self,
        request: OutgoingRequest,
        mut sink: impl FnMut(&HeaderMap, &[u8]),
    ) -> Result<HeaderMap, Error> {
        let timeout = request.timeout.unwrap_or(self.timeout);
        let mut answer = self.within(timeout, self.open(request)).await?;
        while let Some(piece) = self.within(timeout, answer.next()).await? {
            sink(&answer.headers, &piece);
        }
        Ok(answer.headers)
    }

    async fn within<T>(
        &self,
        timeout: Duration,
        exchange: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let late = || Error::Timeout { address: self.base.clone(), seconds: timeout.as_secs_f64() };
        tokio::time::timeout(timeout, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    /// Sends a request and waits for the start of the response. A response without a success status is read
    /// completely and becomes an error. The request's own timeout does not apply.
    ///
    /// # Errors
    /// There is no response; the node rejects the request.
    pub async fn open(&self, request: OutgoingRequest) -> Result<StreamingAnswer, Error> {
        self.open_with(request, None).await
    }

    /// Like [`NodeClient::open`], with a body that is written meanwhile, in place of that of the request.
    ///
    /// # Errors
    /// Those of [`NodeClient::open`].
    pub async fn exchange(
        &self,
        request: OutgoingRequest,
        body: StreamedBody,
    ) -> Result<StreamingAnswer, Error> {
        self.open_with(request, Some(body)).await
    }

    async fn open_with(
        &self,
        request: OutgoingRequest,
        streamed: Option<StreamedBody>,
    ) -> Result<StreamingAnswer, Error> {
        let response = self.begin(request, streamed).await?;
        let (parts, body) = response.into_parts();
        if !parts.status.is_success() {
            let body = body.collect().await.map_err(|error| self.broken(&error))?.to_bytes();
            let answer = ClientAnswer { status: parts.status, headers: parts.headers, body };
            return Err(Error::Refused { status: answer.status.as_u16(), message: answer.message() });
        }
        Ok(StreamingAnswer { headers: parts.headers, address: self.base.clone(), body })
    }

    async fn begin(
        &self,
        request: OutgoingRequest,
        streamed: Option<StreamedBody>,
    ) -> Result<hyper::Response<Incoming>, Error> {
        let uri: Uri = format!("{}{}", self.base, request.target).parse().map_err(|error| {
            Error::Address { text: format!("{}{}", self.base, request.target), reason: format!("{error}") }
        })?;
        let body = match streamed {
            Some(streamed) => Either::Right(streamed),
            None => Either::Left(Full::new(request.body)),
        };
        let mut out = hyper::Request::new(body);
        *out.method_mut() = request.method;
        *out.uri_mut() = uri;
        *out.headers_mut() = request.headers;
        out.headers_mut().entry(IDS).or_insert(HeaderValue::from_static("complete"));
        if let Some(authorization) = &self.authorization {
            out.headers_mut().entry(AUTHORIZATION).or_insert_with(|| authorization.clone());
        }
        self.http.request(out).await.map_err(|error| {
            let address = self.base.clone();
            let tls = error_causes(&error).find_map(<dyn std::error::Error>::downcast_ref);
            let is_no_http = error_causes(&error)
                .filter_map(<dyn std::error::Error>::downcast_ref)
                .any(hyper::Error::is_parse);
            let reason = match tls {
                Some(tls) => millrace_trust::in_words(tls),
                None if is_no_http => "its answer is not HTTP; does it speak TLS (https://)?".to_owned(),
                // The innermost error is that of the system.
                None => error_causes(&error).last().map_or_else(String::new, ToString::to_string),
            };
            match tls {
                Some(rustls::Error::InvalidCertificate(_)) => Error::Certificate { address, reason },
                Some(_) => Error::Tls { address, reason },
                None if error.is_connect() => Error::Unreachable { address, reason },
                None => Error::Broken { address, reason },
            }
        })
    }

    fn broken(&self, error: &hyper::Error) -> Error {
        Error::Broken { address: self.base.clone(), reason: error.to_string() }
    }
}

impl StreamingAnswer {
    /// Next part of the body; `None` at its end. Cancel safe: dropping the future loses no data.
    ///
    /// # Errors
    /// The response is truncated.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(frame) = self.body.frame().await {
            let broken = |error: hyper::Error| Error::Broken {
                address: self.address.clone(),
                reason: error.to_string(),
            };
            if let Ok(data) = frame.map_err(broken)?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

/// The client certificate that the environment names.
fn identity() -> Result<Option<ClientIdentity>, Error> {
    let file = |name: &str| std::env::var_os(name).filter(|file| !file.is_empty()).map(PathBuf::from);
    match IDENTITY_VARIABLES.map(file) {
        [None, None] => Ok(None),
        [Some(certificate), Some(key)] => Ok(Some(ClientIdentity { certificate, key })),
        [certificate, _] => {
            let (named, other) = if certificate.is_some() { (0, 1) } else { (1, 0) };
            let [named, other] = [named, other].map(|at| IDENTITY_VARIABLES[at]);
            Err(Error::Identity { reason: format!("{named} is set without {other}") })
        }
    }
}

fn without_roots() -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}
