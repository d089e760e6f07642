use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use millrace_cluster::{FenceRefusal, Incarnation, NodeReply, NodeRequest, NodeResponse, RequestFence};
use millrace_env::ThreadClass;
use millrace_trust::{Connection, ConnectionPurpose, NodeTrust};
use tokio::io::{AsyncWriteExt, BufReader, BufWriter};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::bulk::{self, TransferSource};
use crate::complaints::RejectedPeerLog;
use crate::greeting::PeerChannel;
use crate::peers::{NO_REQUEST, read_frame, write_frame};
use crate::protocol::ConnectionProtocol;
use crate::stream::PeerStream;
use crate::{Error, codec};

/// Server side of connections from other nodes.
pub trait PeerService: Send + Sync + 'static {
    /// The run of this process. Connections that are for another one are refused.
    fn incarnation(&self) -> Incarnation;

    /// Answers a request: calls `reply` once, on any thread, at any time. Called on a thread that waits for
    /// the network, so it must only pass the request on.
    fn request(&self, fence: RequestFence, request: NodeRequest, reply: Box<dyn FnOnce(NodeReply) + Send>);

    /// Source of transfers.
    fn source(&self) -> Arc<dyn TransferSource>;

    /// Accepts a connection over which a node forwards requests of clients, as HTTP/2. These exist only if
    /// nodes have certificates.
    fn http(&self, connection: Connection);
}

/// Maximum number of unanswered requests of one connection: no more are read until one is answered.
const UNANSWERED_MAX: usize = 4096;

/// Timeout of the greeting, the first bytes of a connection.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which the last bytes of a refused connection are awaited.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves other nodes at `listener` until `stop` turns true, or its sender is dropped; with `trust`, only
/// trusted nodes.
pub async fn serve(
    listener: TcpListener,
    trust: Option<Arc<NodeTrust>>,
    service: Arc<dyn PeerService>,
    mut stop: watch::Receiver<bool>,
) {
    let complaints = Arc::new(RejectedPeerLog::default());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    let (trust, service, complaints) = (trust.clone(), Arc::clone(&service), Arc::clone(&complaints));
                    connections.spawn(async move {
                        let served = serve_connection(stream, trust.as_deref(), service, &complaints);
                        if let Err(error) = served.await {
                            complaints.log(&address.to_string(), error);
                        }
                    });
                }
                Err(error) => {
                    // Usually out of file descriptors: connections that end will free some.
                    tracing::warn!(%error, "a node's connection could not be accepted; raise the limit of open files (ulimit -n)");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Returns when `stop` is true, or its sender is dropped.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn serve_connection(
    stream: TcpStream,
    trust: Option<&NodeTrust>,
    service: Arc<dyn PeerService>,
    complaints: &RejectedPeerLog,
) -> io::Result<()> {
    let address = stream.peer_addr()?.to_string();
    let mut stream = match trust {
        None => {
            stream.set_nodelay(true)?;
            PeerStream::Plain(stream)
        }
        Some(trust) => match trust.accept(stream).await? {
            (ConnectionPurpose::Peer, connection) => PeerStream::Encrypted(Box::new(connection)),
            (ConnectionPurpose::Http, connection) => {
                service.http(connection);
                return Ok(());
            }
        },
    };
    let (protocol, greeting) =
        timeout(GREETING_TIMEOUT, stream.greeting()).await.map_err(|_| io::ErrorKind::TimedOut)??;
    match (greeting.channel, greeting.is_for(service.incarnation())) {
        (PeerChannel::Requests, Ok(())) => {
            serve_requests(protocol, stream, service, &address, complaints).await
        }
        (PeerChannel::Requests, Err(error)) => refuse_requests(stream, error).await,
        (PeerChannel::Bulk, allowed) => serve_bulk(protocol, stream, service.source(), allowed).await,
    }
}

/// Sends the reason of a refusal as a message without a request, and drops what arrives until the other side
/// ends the connection: an end with unread bytes could overtake the reason.
async fn refuse_requests(stream: PeerStream, reason: Error) -> io::Result<()> {
    let (mut reading, mut writing) = stream.split();
    write_frame(&mut writing, NO_REQUEST, &codec::encode(&reason.to_string(), 256)).await?;
    writing.flush().await?;
    // The timeout is one of the normal ends.
    let _ = timeout(DRAIN_TIMEOUT, tokio::io::copy(&mut reading, &mut tokio::io::sink())).await;
    Err(io::Error::other(reason))
}

async fn serve_requests(
    protocol: ConnectionProtocol,
    stream: PeerStream,
    service: Arc<dyn PeerService>,
    address: &str,
    complaints: &RejectedPeerLog,
) -> io::Result<()> {
    let (reading, writing) = stream.split();
    let (replies, mut queue) = mpsc::unbounded_channel::<(u64, NodeReply, OwnedSemaphorePermit)>();
    let unanswered = Arc::new(Semaphore::new(UNANSWERED_MAX));
    let permits = Arc::clone(&unanswered);
    let answer = async move {
        let mut stream = BufWriter::with_capacity(64 << 10, writing);
        // A request is answered when the answer is written.
        while let Some((id, reply, _permit)) = queue.recv().await {
            write_frame(&mut stream, id, &protocol.write_reply(&reply)).await?;
            if queue.is_empty() {
                stream.flush().await?;
            }
        }
        Ok(())
    };
    let ask = async move {
        let mut stream = BufReader::with_capacity(64 << 10, reading);
        loop {
            let (id, payload) = read_frame(&mut stream).await?;
            let (fence, request) = protocol.read_fence(&payload).map_err(io::Error::other)?;
            let request = protocol.read_request(request);
            let permit = Arc::clone(&permits).acquire_owned().await.map_err(io::Error::other)?;
            let replies = replies.clone();
            let reply = move |reply| {
                // The requester may have left.
                let _ = replies.send((id, reply, permit));
            };
            match request {
                Ok(request) => service.request(fence, request, Box::new(reply)),
                Err(error @ Error::Unknown(_)) => {
                    complaints.log(address, io::Error::other(error));
                    let response = NodeResponse::Refused(FenceRefusal::Unknown);
                    reply(NodeReply { version: fence.version, response });
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    };
    tokio::select! {
        outcome = answer => outcome,
        outcome = ask => outcome,
    }
}

async fn serve_bulk(
    protocol: ConnectionProtocol,
    stream: PeerStream,
    source: Arc<dyn TransferSource>,
    allowed: Result<(), Error>,
) -> io::Result<()> {
    // The thread does not end with this task, but with its connection.
    let (stream, _ends) = stream.blocking(bulk::SILENCE_MAX, bulk::QUESTION_TIMEOUT)?;
    let (ended, end) = oneshot::channel();
    thread::Builder::new().name("bulk".to_owned()).spawn(move || {
        // Transfers have lower priority than requests that clients wait for.
        ThreadClass::Background.enter();
        // The result is not needed any more if the server has ended.
        let _ = ended.send(match allowed {
            Ok(()) => bulk::serve(protocol, stream, &*source),
            Err(reason) => bulk::refuse_all(protocol, stream, reason),
        });
    })?;
    end.await.map_err(io::Error::other)?
}
