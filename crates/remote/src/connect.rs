use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tower_service::Service;

use crate::outbound::OutboundDestination;
use crate::{OutboundPolicy, OutboundRefusal};

/// Time for the connection to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connector that resolves a name once, checks the addresses, and connects to a permitted one.
#[derive(Clone)]
pub(crate) struct CheckedConnector(pub Arc<OutboundPolicy>);

/// Reason for a failed connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Refused(#[from] OutboundRefusal),
    #[error(transparent)]
    Address(crate::Error),
    #[error("no address to connect to")]
    NoAddress,
    #[error("{host} cannot be resolved")]
    Resolve { host: String, source: io::Error },
    #[error("{address} cannot be reached")]
    Connect { address: SocketAddr, source: io::Error },
}

impl Service<Uri> for CheckedConnector {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<TcpStream>, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let policy = Arc::clone(&self.0);
        Box::pin(async move {
            let destination = OutboundDestination::of(&uri).map_err(ConnectError::Address)?;
            policy.check_destination(&destination)?;
            let addresses = resolve(&destination).await?;
            let permitted = policy.permitted(&destination, &addresses)?;
            connect(&permitted, destination.port).await.map(TokioIo::new)
        })
    }
}

/// Addresses of a destination.
async fn resolve(destination: &OutboundDestination) -> Result<Vec<IpAddr>, ConnectError> {
    if let Some(address) = destination.literal() {
        return Ok(vec![address]);
    }
    let failed = |source| ConnectError::Resolve { host: destination.host.clone(), source };
    let found = lookup_host((destination.host.as_str(), destination.port)).await.map_err(failed)?;
    let addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    match addresses.is_empty() {
        true => Err(failed(io::Error::new(io::ErrorKind::NotFound, "the name has no address"))),
        false => Ok(addresses),
    }
}

/// Connects to the first address that accepts.
async fn connect(addresses: &[IpAddr], port: u16) -> Result<TcpStream, ConnectError> {
    let mut last = None;
    for address in addresses.iter().map(|address| SocketAddr::new(*address, port)) {
        let source = match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Without it, small requests wait for acknowledgements of earlier ones; a failure has no
                // other effect.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(source)) => source,
            Err(_) => io::ErrorKind::TimedOut.into(),
        };
        last = Some(ConnectError::Connect { address, source });
    }
    Err(last.unwrap_or(ConnectError::NoAddress))
}
