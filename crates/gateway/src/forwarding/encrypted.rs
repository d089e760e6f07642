//! Encrypted connections to other nodes, for the HTTP client.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use millrace_trust::{ConnectionPurpose, NodeTrust};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

use super::forward::CONNECT_TIMEOUT;

/// Connects to trusted nodes only.
#[derive(Clone)]
pub(crate) struct TrustedConnector(pub(super) Arc<NodeTrust>);

impl Service<Uri> for TrustedConnector {
    type Response = TokioIo<EncryptedConnection>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<EncryptedConnection>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let trust = Arc::clone(&self.0);
        Box::pin(async move {
            let address = uri.authority().map_or("", |authority| authority.as_str());
            let connecting = trust.connect(address, ConnectionPurpose::Http);
            let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
            Ok(TokioIo::new(EncryptedConnection(connected.map_err(|_| io::ErrorKind::TimedOut)??)))
        })
    }
}

/// An encrypted connection.
pub(crate) struct EncryptedConnection(millrace_trust::Connection);

impl Connection for EncryptedConnection {
    fn connected(&self) -> Connected {
        Connected::new().negotiated_h2()
    }
}

impl AsyncRead for EncryptedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The refusal of this node's certificate shows up here.
        Pin::new(&mut self.0).poll_read(context, bytes).map_err(millrace_trust::explained)
    }
}

impl AsyncWrite for EncryptedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}
