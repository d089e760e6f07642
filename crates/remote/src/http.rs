use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use millrace_env::{error_causes, text_with_causes};
use tokio::runtime::Runtime;

use crate::DownloadFailure;
use crate::connect::CheckedConnector;
use crate::error::AnswerFault;
use crate::retry::RequestFailure;
use crate::{OutboundPolicy, OutboundRefusal};

/// Time after which idle connections are closed.
const IDLE: Duration = Duration::from_secs(30);
/// Maximum number of redirects for a file.
const REDIRECTS: usize = 8;

/// HTTP client for other services. Clones share connections and the thread that waits for answers.
#[derive(Clone)]
pub struct OutboundHttp {
    client: Client<HttpsConnector<CheckedConnector>, Full<Bytes>>,
    policy: Arc<OutboundPolicy>,
    runtime: Arc<BackgroundRuntime>,
}

/// Runtime that can also be dropped by a thread that must not wait for its end.
struct BackgroundRuntime(Option<Runtime>);

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// An answer of a service.
pub(crate) struct HttpAnswer {
    pub status: u16,
    pub retry_after: Option<Duration>,
    pub body: Bytes,
}

/// Failure of a request without an answer.
pub(crate) struct SendError {
    pub failure: RequestFailure,
    pub reason: String,
}

impl SendError {
    /// Failure of an invalid request, or of a broken connection.
    pub fn broken(reason: String) -> Self {
        SendError { failure: RequestFailure::Connection, reason }
    }

    fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        match error_causes(error).find_map(|cause| cause.downcast_ref::<OutboundRefusal>()) {
            Some(refusal) => SendError { failure: RequestFailure::Forbidden, reason: refusal.to_string() },
            None => SendError::broken(text_with_causes(error)),
        }
    }
}

impl OutboundHttp {
    /// Creates a client that trusts the certificate authorities of the system, and connects to the
    /// destinations that the policy permits.
    ///
    /// # Errors
    /// The system refuses a thread, or its certificates cannot be read.
    pub fn new(policy: OutboundPolicy) -> std::io::Result<Self> {
        let policy = Arc::new(policy);
        let connector = HttpsConnectorBuilder::new()
            .with_native_roots()?
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .wrap_connector(CheckedConnector(Arc::clone(&policy)));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("remote")
            .enable_all()
            .build()?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        Ok(OutboundHttp { client, policy, runtime: Arc::new(BackgroundRuntime(Some(runtime))) })
    }

    /// Destinations that it connects to.
    pub fn policy(&self) -> &OutboundPolicy {
        &self.policy
    }

    /// Runs work in the background.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime.0 {
            runtime.spawn(work);
        }
    }

    /// Blocks until work is done; only for threads that may block.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.spawn(async move {
            // The caller may have left.
            let _ = sender.send(work.await);
        });
        receiver.recv().ok()
    }

    /// Posts JSON, and reads the whole answer, up to a maximum number of bytes.
    pub(crate) async fn post_json(
        &self,
        url: &str,
        secret: Option<&str>,
        body: Vec<u8>,
        timeout: Duration,
        bytes_max: usize,
    ) -> Result<HttpAnswer, SendError> {
        answered(self.post(url, secret, body), timeout, bytes_max).await
    }

    /// Posts a body of any media type, and reads the whole answer, up to a maximum number of bytes.
    pub(crate) async fn post_bytes(
        &self,
        url: &str,
        media: &'static str,
        body: Vec<u8>,
        timeout: Duration,
        bytes_max: usize,
    ) -> Result<HttpAnswer, SendError> {
        let media = HeaderValue::from_static(media);
        answered(self.post_media(url, media, None, body), timeout, bytes_max).await
    }

    /// Posts JSON; the answer's body is not read yet.
    pub(crate) async fn post(
        &self,
        url: &str,
        secret: Option<&str>,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, SendError> {
        self.post_media(url, HeaderValue::from_static("application/json"), secret, body).await
    }

    async fn post_media(
        &self,
        url: &str,
        media: HeaderValue,
        secret: Option<&str>,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, SendError> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = url.parse().map_err(|error| {
            let reason: hyper::http::uri::InvalidUri = error;
            SendError::broken(format!("{url} is not an address: {reason}"))
        })?;
        request.headers_mut().insert(CONTENT_TYPE, media);
        if let Some(secret) = secret {
            let mut value = HeaderValue::from_str(&format!("Bearer {secret}")).map_err(|_| {
                SendError::broken("the secret has characters that no header can have".to_owned())
            })?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        self.client.request(request).await.map_err(|error| SendError::of(&error))
    }

    /// Returns the answer to a request for a file, after redirects.
    pub(crate) async fn get(&self, url: &str) -> Result<Response<Incoming>, DownloadFailure> {
        let wrong = |error: hyper::http::uri::InvalidUri| DownloadFailure::Address(error.to_string());
        let mut uri: Uri = url.parse().map_err(wrong)?;
        for _ in 0..REDIRECTS {
            let mut request = Request::new(Full::default());
            *request.uri_mut() = uri.clone();
            let response = self.client.request(request).await;
            let response =
                response.map_err(|error| DownloadFailure::Request(SendError::of(&error).reason))?;
            if !response.status().is_redirection() {
                return match response.status().is_success() {
                    true => Ok(response),
                    false => Err(DownloadFailure::Status(response.status().to_string())),
                };
            }
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            uri = redirected(&uri, to.unwrap_or_default())?;
        }
        Err(DownloadFailure::Redirects(REDIRECTS))
    }
}

/// Waits for an answer and its whole body.
async fn answered(
    response: impl Future<Output = Result<Response<Incoming>, SendError>>,
    timeout: Duration,
    bytes_max: usize,
) -> Result<HttpAnswer, SendError> {
    let exchange = async {
        whole(response.await?, bytes_max).await.map_err(|fault| SendError::broken(fault.to_string()))
    };
    let answer = tokio::time::timeout(timeout, exchange).await;
    answer.unwrap_or_else(|_| Err(SendError::broken(silent(timeout))))
}

/// Reads the whole body of an answer, of at most `bytes_max` bytes.
pub(crate) async fn whole(response: Response<Incoming>, bytes_max: usize) -> Result<HttpAnswer, AnswerFault> {
    let status = response.status().as_u16();
    let retry_after = retry_after(&response);
    let body = Limited::new(response.into_body(), bytes_max).collect().await;
    let body = body.map_err(|error| AnswerFault::Unread(error.to_string()))?.to_bytes();
    Ok(HttpAnswer { status, retry_after, body })
}

/// Error message about a service that did not answer in this time.
pub(crate) fn silent(time: Duration) -> String {
    format!("no answer for {} s", time.as_secs_f32())
}

/// Resolves a redirect: to a complete URL, or to a path on the same host. From https only to https.
fn redirected(from: &Uri, to: &str) -> Result<Uri, DownloadFailure> {
    let fail = || DownloadFailure::RedirectAddress(to.to_owned());
    let to: Uri = to.parse().map_err(|_| fail())?;
    let mut parts = to.clone().into_parts();
    if parts.authority.is_none() {
        parts.scheme = from.scheme().cloned();
        parts.authority = from.authority().cloned();
    }
    let to = Uri::from_parts(parts).map_err(|_| fail())?;
    if from.scheme_str() == Some("https") && to.scheme_str() != Some("https") {
        return Err(DownloadFailure::RedirectPlain(to.to_string()));
    }
    Ok(to)
}

/// Delay in seconds that the answer requests before the next attempt, if it does.
fn retry_after(response: &Response<Incoming>) -> Option<Duration> {
    let seconds: f64 = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
