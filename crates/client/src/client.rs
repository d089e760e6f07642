use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{HeaderMap, Method, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;

use crate::Error;
use crate::id::Encoded;

/// How long an answer may take where nobody says otherwise.
const PATIENCE: Duration = Duration::from_secs(200);

/// One port of a node. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    base: String,
    patience: Duration,
    http: HyperClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// How connections speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1; with TLS whatever both sides prefer.
    Http1,
    /// HTTP/2, without asking first where there is no TLS: many requests over one connection.
    Http2,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Request {
    method: Method,
    target: String,
    headers: HeaderMap,
    body: Bytes,
    /// Where it is another than the client's.
    timeout: Option<Duration>,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// What is being answered: a success, whose body is still coming.
#[derive(Debug)]
pub struct Streaming {
    /// The headers.
    pub headers: HeaderMap,
    address: String,
    body: Incoming,
}

impl Request {
    /// A request of `method` for a path, which is percent-encoded already.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Request { method, target: path.into(), headers: HeaderMap::new(), body: Bytes::new(), timeout: None }
    }

    /// With one more parameter.
    #[must_use]
    pub fn parameter(mut self, name: &str, value: &str) -> Self {
        self.target.push(if self.target.contains('?') { '&' } else { '?' });
        self.target.push_str(&format!("{}={}", Encoded(name), Encoded(value)));
        self
    }

    /// With a body.
    #[must_use]
    pub fn body(mut self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        self.headers
            .insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
        self.body = body.into();
        self
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: hyper::header::HeaderName, value: &'static str) -> Self {
        self.headers.insert(name, hyper::header::HeaderValue::from_static(value));
        self
    }

    /// With another time to wait for the answer than the client has for all.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl Answer {
    /// The body as JSON; `null` where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The answer, where the status says that it went well.
    ///
    /// # Errors
    /// [`Error::Refused`] with the node's own words.
    pub fn checked(self) -> Result<Answer, Error> {
        if self.status.is_success() {
            return Ok(self);
        }
        Err(Error::Refused { status: self.status.as_u16(), message: self.message() })
    }

    /// Whether the node passed over the operation, because no content cluster takes the document.
    pub fn is_ignored(&self) -> bool {
        self.headers.get("x-vespa-ignored-operation").is_some_and(|value| value == "true")
    }

    /// What the node says about a failure, whatever family of endpoints it comes from.
    pub fn message(&self) -> String {
        let json = self.json();
        let error = json.pointer("/root/errors/0");
        let told = json
            .get("message")
            .or_else(|| error.and_then(|error| error.get("message").or_else(|| error.get("summary"))))
            .and_then(Value::as_str);
        match told {
            Some(told) => told.to_owned(),
            None if self.body.is_empty() => self.status.to_string(),
            None => String::from_utf8_lossy(&self.body[..self.body.len().min(500)]).into_owned(),
        }
    }
}

impl Client {
    /// A client of the node at `base`, such as `http://localhost:8080`.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn new(base: &str, protocol: Protocol) -> Result<Self, Error> {
        Client::trusting(base, protocol, None)
    }

    /// The same, which over TLS trusts and shows what this configuration says; without one, it trusts whom the system trusts.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn trusting(
        base: &str,
        protocol: Protocol,
        trusted: Option<rustls::ClientConfig>,
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
        let tls = match (uri.scheme_str(), trusted) {
            (Some("https"), Some(trusted)) => HttpsConnectorBuilder::new().with_tls_config(trusted),
            (Some("https"), None) => HttpsConnectorBuilder::new().with_tls_config(
                millrace_trust::by_system().map_err(|error| {
                    fail(format!("no certificates to trust: {error}; name a file of them in SSL_CERT_FILE"))
                })?,
            ),
            // Without TLS there is nothing to trust, and reading the system's certificates takes a while.
            _ => HttpsConnectorBuilder::new()
                .with_tls_config(trusting_nobody().map_err(|error| fail(error.to_string()))?),
        };
        let connector = match protocol {
            Protocol::Http1 => tls.https_or_http().enable_all_versions().wrap_connector(tcp),
            Protocol::Http2 => tls.https_or_http().enable_http2().wrap_connector(tcp),
        };
        let mut builder = HyperClient::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .http2_only(protocol == Protocol::Http2)
            .http2_initial_stream_window_size(1 << 20)
            .http2_initial_connection_window_size(16 << 20);
        let base = with_scheme.trim_end_matches('/').to_owned();
        Ok(Client { base, patience: PATIENCE, http: builder.build(connector) })
    }

    /// The same, waiting so long for answers, rather than 200 seconds.
    #[must_use]
    pub fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Where the node is.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request and waits for the whole answer, whatever its status.
    ///
    /// # Errors
    /// Nobody answers, in time or at all.
    pub async fn send(&self, request: Request) -> Result<Answer, Error> {
        let timeout = request.timeout.unwrap_or(self.patience);
        let exchange = async {
            let response = self.begin(request).await?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map_err(|error| self.broken(&error))?.to_bytes();
            Ok(Answer { status: parts.status, headers: parts.headers, body })
        };
        self.within(timeout, exchange).await
    }

    /// Sends a request and hands each piece of the answer's body to `sink` as it comes: the first one within the time to wait, and
    /// each other one within as long again. An answer that is not a success is read whole and becomes an error.
    ///
    /// # Errors
    /// Nobody answers; the answer breaks off, or goes on too slowly; the node refuses.
    pub async fn stream(&self, request: Request, mut sink: impl FnMut(&[u8])) -> Result<HeaderMap, Error> {
        let timeout = request.timeout.unwrap_or(self.patience);
        let mut answer = self.within(timeout, self.open(request)).await?;
        while let Some(piece) = self.within(timeout, answer.next()).await? {
            sink(&piece);
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

    /// Sends a request and waits for the beginning of the answer. An answer that is not a success is read whole and becomes an
    /// error. The request's own timeout does not count here.
    ///
    /// # Errors
    /// Nobody answers; the node refuses.
    pub async fn open(&self, request: Request) -> Result<Streaming, Error> {
        let response = self.begin(request).await?;
        let (parts, body) = response.into_parts();
        if !parts.status.is_success() {
            let body = body.collect().await.map_err(|error| self.broken(&error))?.to_bytes();
            let answer = Answer { status: parts.status, headers: parts.headers, body };
            return Err(Error::Refused { status: answer.status.as_u16(), message: answer.message() });
        }
        Ok(Streaming { headers: parts.headers, address: self.base.clone(), body })
    }

    async fn begin(&self, request: Request) -> Result<hyper::Response<Incoming>, Error> {
        let uri: Uri = format!("{}{}", self.base, request.target).parse().map_err(|error| {
            Error::Address { text: format!("{}{}", self.base, request.target), reason: format!("{error}") }
        })?;
        let mut out = hyper::Request::new(Full::new(request.body));
        *out.method_mut() = request.method;
        *out.uri_mut() = uri;
        *out.headers_mut() = request.headers;
        self.http.request(out).await.map_err(|error| {
            let address = self.base.clone();
            let tls = causes(&error).find_map(<dyn std::error::Error>::downcast_ref);
            let is_no_http =
                causes(&error).filter_map(<dyn std::error::Error>::downcast_ref).any(hyper::Error::is_parse);
            let reason = match tls {
                Some(tls) => millrace_trust::in_words(tls),
                None if is_no_http => "what it says is no HTTP; does it speak TLS (https://)?".to_owned(),
                // What the system says lies deepest.
                None => causes(&error).last().map_or_else(String::new, ToString::to_string),
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

impl Streaming {
    /// The next piece of the body; `None` at its end. Nothing is lost when it is dropped before it is done.
    ///
    /// # Errors
    /// The answer breaks off.
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

fn trusting_nobody() -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

/// An error, and what lies behind it, deeper and deeper.
fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| match error.downcast_ref::<std::io::Error>() {
        Some(io) => io.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static)),
        None => error.source(),
    })
}
