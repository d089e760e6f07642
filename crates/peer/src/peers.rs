use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millrace_cluster::{NodeReply, NodeRequest, RequestFence};
use millrace_trust::NodeTrust;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::complaints::RejectedPeerLog;
use crate::greeting::{PeerAddress, PeerChannel};
use crate::protocol::ConnectionProtocol;
use crate::stream::{PeerStream, StreamHalves};
use crate::{Error, MESSAGE_BYTES_MAX, codec};

/// Callback with the answer; `None` if none will arrive.
type Answered = Box<dyn FnOnce(Option<NodeReply>) + Send>;

/// Maximum number of requests that wait for one node's connection.
const QUEUE_MAX: usize = 8192;

/// Timeout of connecting to a node.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Time without an answer while a request is pending after which a connection is lost.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Number of a message that answers no request: the reason why the connection is refused.
pub(crate) const NO_REQUEST: u64 = 0;

/// Delay after a failed or refused connection before the next attempt; requests sent meanwhile are lost at
/// once.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections to other nodes for requests: one to each, made when it is needed.
pub struct PeerConnections {
    runtime: Handle,
    trust: Option<Arc<NodeTrust>>,
    links: Mutex<HashMap<PeerAddress, mpsc::Sender<OutgoingFrame>>>,
    sent: AtomicU64,
    lost: Arc<AtomicU64>,
}

struct OutgoingFrame {
    fence: RequestFence,
    request: NodeRequest,
    answered: Answered,
}

impl PeerConnections {
    /// Creates connections whose tasks run on this runtime; with `trust`, encrypted and to trusted nodes
    /// only.
    pub fn new(runtime: Handle, trust: Option<Arc<NodeTrust>>) -> Self {
        PeerConnections {
            runtime,
            trust,
            links: Mutex::default(),
            sent: AtomicU64::default(),
            lost: Arc::default(),
        }
    }

    /// Sends a request to a node. `answered` is called with the answer, or with `None` if none will arrive:
    /// the connection is broken or cannot be made, another run of a process listens there, or too many
    /// requests wait for it. It is called on a thread of the runtime or on this one.
    pub fn send(
        &self,
        peer: &PeerAddress,
        fence: RequestFence,
        request: NodeRequest,
        answered: impl FnOnce(Option<NodeReply>) + Send + 'static,
    ) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let lost = Arc::clone(&self.lost);
        let answered = move |reply: Option<NodeReply>| {
            lost.fetch_add(u64::from(reply.is_none()), Ordering::Relaxed);
            answered(reply);
        };
        let mut outgoing = OutgoingFrame { fence, request, answered: Box::new(answered) };
        let mut links = self.links.lock();
        let link = links.entry(peer.clone()).or_insert_with(|| self.link(peer));
        match link.try_send(outgoing) {
            Ok(()) => return,
            Err(mpsc::error::TrySendError::Full(refused)) => outgoing = refused,
            // The runtime is about to end.
            Err(mpsc::error::TrySendError::Closed(refused)) => outgoing = refused,
        }
        std::mem::drop(links);
        (outgoing.answered)(None);
    }

    /// Number of requests that were sent, or attempted.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Number of these to which no answer will arrive.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Drops connections to nodes other than these; requests that wait there for answers are lost.
    pub fn keep(&self, peers: &dyn Fn(&PeerAddress) -> bool) {
        let mut links = self.links.lock();
        links.retain(|peer, _| peers(peer));
    }

    fn link(&self, peer: &PeerAddress) -> mpsc::Sender<OutgoingFrame> {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        self.runtime.spawn(run(peer.clone(), self.trust.clone(), receiver));
        sender
    }
}

/// Maintains the connection to one node while there are requests.
async fn run(peer: PeerAddress, trust: Option<Arc<NodeTrust>>, mut queue: mpsc::Receiver<OutgoingFrame>) {
    let complaints = RejectedPeerLog::default();
    let (address, protocol) = (&peer.address, peer.connection_protocol());
    while let Some(first) = queue.recv().await {
        let (reading, writing) = match connect(&peer, trust.as_deref()).await {
            Ok(halves) => halves,
            Err(error) => {
                complaints.log(address, error);
                (first.answered)(None);
                lose_for(PAUSE, &mut queue).await;
                continue;
            }
        };
        let waiting = WaitingReply::new(SILENCE_MAX);
        let error = tokio::select! {
            // The first request is awaited before the connection can be found to have ended.
            biased;
            error = write(protocol, writing, first, &mut queue, &waiting) => error,
            error = read(protocol, reading, &waiting, address, &complaints) => error,
        };
        let is_refused = error.kind() == io::ErrorKind::ConnectionRefused;
        complaints.log(address, error);
        waiting.lose();
        if is_refused {
            lose_for(PAUSE, &mut queue).await;
        }
    }
}

/// Reports requests of this period as lost.
async fn lose_for(pause: Duration, queue: &mut mpsc::Receiver<OutgoingFrame>) {
    let lose = async {
        while let Some(outgoing) = queue.recv().await {
            (outgoing.answered)(None);
        }
    };
    // The timeout is the normal end.
    let _ = timeout(pause, lose).await;
}

async fn connect(peer: &PeerAddress, trust: Option<&NodeTrust>) -> io::Result<StreamHalves> {
    let connecting = async {
        let (reading, mut writing) = PeerStream::connect(&peer.address, trust).await?.split();
        writing.write_all(&peer.greeting(PeerChannel::Requests)).await?;
        Ok((reading, writing))
    };
    timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Requests that were sent and not answered.
struct WaitingReply {
    /// Time without an answer after which the connection is lost.
    silence: Duration,
    requests: Mutex<UnansweredRequests>,
}

#[derive(Default)]
struct UnansweredRequests {
    by_id: HashMap<u64, Answered>,
    /// Time since which an answer is awaited and none has come; `None` while none is awaited.
    silent_since: Option<Instant>,
}

impl WaitingReply {
    fn new(silence: Duration) -> Self {
        WaitingReply { silence, requests: Mutex::default() }
    }

    fn add(&self, id: u64, answered: Answered, now: Instant) {
        let mut requests = self.requests.lock();
        requests.silent_since.get_or_insert(now);
        requests.by_id.insert(id, answered);
    }

    fn take(&self, id: u64, now: Instant) -> Option<Answered> {
        let mut requests = self.requests.lock();
        let answered = requests.by_id.remove(&id);
        requests.silent_since = (!requests.by_id.is_empty()).then_some(now);
        answered
    }

    /// Time from now on after which the connection is lost, unless an answer comes.
    fn time_left(&self, now: Instant) -> Duration {
        let since = self.requests.lock().silent_since.unwrap_or(now);
        self.silence.saturating_sub(now.saturating_duration_since(since))
    }

    fn lose(&self) {
        let lost = std::mem::take(&mut *self.requests.lock());
        lost.by_id.into_values().for_each(|answered| answered(None));
    }
}

/// Sends requests from the queue, until the connection breaks.
async fn write(
    protocol: ConnectionProtocol,
    stream: impl AsyncWrite + Unpin,
    first: OutgoingFrame,
    queue: &mut mpsc::Receiver<OutgoingFrame>,
    waiting: &WaitingReply,
) -> io::Error {
    let mut stream = BufWriter::with_capacity(64 << 10, stream);
    let mut next = Some(first);
    let mut id = NO_REQUEST;
    loop {
        let OutgoingFrame { fence, request, answered } = match next.take() {
            Some(outgoing) => outgoing,
            None => match queue.try_recv() {
                Ok(outgoing) => outgoing,
                // The queue is empty: buffered data is sent.
                Err(_) => {
                    if let Err(error) = stream.flush().await {
                        return error;
                    }
                    match queue.recv().await {
                        Some(outgoing) => outgoing,
                        None => return io::Error::other("all senders have ended"),
                    }
                }
            },
        };
        id += 1;
        let payload = protocol.write_request(&fence, &request);
        if payload.len() > MESSAGE_BYTES_MAX {
            answered(None);
            continue;
        }
        waiting.add(id, answered, Instant::now());
        if let Err(error) = write_frame(&mut stream, id, &payload).await {
            return error;
        }
    }
}

/// Delivers answers, until the connection breaks.
async fn read(
    protocol: ConnectionProtocol,
    stream: impl AsyncRead + Unpin,
    waiting: &WaitingReply,
    address: &str,
    complaints: &RejectedPeerLog,
) -> io::Error {
    let mut stream = BufReader::with_capacity(64 << 10, stream);
    loop {
        let (id, payload) = match next_frame(&mut stream, waiting).await {
            Ok(frame) => frame,
            Err(error) => return error,
        };
        if id == NO_REQUEST {
            // Only connections that name a run are refused: from protocol 2 on.
            return match codec::decode::<String>(&payload) {
                Ok(reason) => io::Error::new(io::ErrorKind::ConnectionRefused, reason),
                Err(error) => io::Error::other(error),
            };
        }
        let Some(answered) = waiting.take(id, Instant::now()) else { continue };
        match protocol.read_reply(&payload) {
            Ok(reply) => answered(Some(reply)),
            Err(error @ Error::Unknown(_)) => {
                complaints.log(address, io::Error::other(error));
                answered(None);
            }
            Err(error) => {
                answered(None);
                return io::Error::other(error);
            }
        }
    }
}

/// Reads a message, unless an answer is awaited for too long.
async fn next_frame(
    stream: &mut (impl AsyncReadExt + Unpin),
    waiting: &WaitingReply,
) -> io::Result<(u64, Vec<u8>)> {
    let mut frame = pin!(read_frame(stream));
    loop {
        // The read goes on over the pauses: a part of the message may have come.
        match timeout(waiting.time_left(Instant::now()), frame.as_mut()).await {
            Ok(frame) => return frame,
            Err(_) if waiting.time_left(Instant::now()).is_zero() => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // A request may have been sent at the end of a pause.
            Err(_) => {}
        }
    }
}

/// Writes a message: its length, its number, its bytes.
pub(crate) async fn write_frame(
    stream: &mut (impl AsyncWriteExt + Unpin),
    id: u64,
    payload: &[u8],
) -> io::Result<()> {
    let mut head = [0; 12];
    // Every message is shorter.
    head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    head[4..].copy_from_slice(&id.to_le_bytes());
    stream.write_all(&head).await?;
    stream.write_all(payload).await
}

/// Reads the output of [`write_frame`].
pub(crate) async fn read_frame(stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<(u64, Vec<u8>)> {
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    let [a, b, c, d, id @ ..] = head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::other("a message is longer than any"));
    }
    // Memory is allocated as bytes arrive, not as they are announced.
    let mut payload = Vec::with_capacity(length.min(1 << 20));
    let read = stream.take(length as u64).read_to_end(&mut payload).await?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((u64::from_le_bytes(id), payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_wait_for_an_answer_is_a_silence() {
        let (waiting, start) = (WaitingReply::new(SILENCE_MAX), Instant::now());
        let at = |tenths: u32| start + SILENCE_MAX * tenths / 10;
        let left = |tenths: u32| waiting.time_left(at(tenths)).as_millis() * 10 / SILENCE_MAX.as_millis();
        let add = |id: u64, tenths: u32| waiting.add(id, Box::new(|_| ()), at(tenths));
        assert_eq!(left(100), 10, "nothing is awaited");
        // A request that is sent when the connection was silent for long has all of the time.
        add(1, 100);
        assert_eq!((left(100), left(109), left(110), left(500)), (10, 1, 0, 0));
        add(2, 104);
        assert_eq!(left(104), 6, "another request does not prolong it");
        assert!(waiting.take(1, at(105)).is_some());
        assert_eq!((left(105), left(109)), (10, 6), "an answer does");
        assert!(waiting.take(2, at(106)).is_some());
        assert_eq!(left(300), 10, "nothing is awaited any more");
    }

    #[tokio::test]
    async fn a_message_that_comes_in_parts_is_read_over_pauses() {
        let (mut node, mut stream) = tokio::io::duplex(100);
        let soon = Duration::from_millis(10);
        let waiting = WaitingReply::new(soon);
        let parts = async {
            node.write_all(&[3, 0, 0, 0, 7]).await.expect("there is room");
            tokio::time::sleep(5 * soon).await;
            node.write_all(&[0, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c']).await.expect("there is room");
        };
        let (frame, ()) = tokio::join!(next_frame(&mut stream, &waiting), parts);
        assert_eq!(frame.expect("it is whole"), (7, b"abc".to_vec()));
        waiting.add(1, Box::new(|_| ()), Instant::now());
        let lost = next_frame(&mut stream, &waiting).await.expect_err("nothing more comes");
        assert_eq!(lost.kind(), io::ErrorKind::TimedOut);
    }
}
