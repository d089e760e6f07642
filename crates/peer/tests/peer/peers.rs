//! Two ends of real connections.

use std::io::{self, Write};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{
    ClusterVersion, Incarnation, NodeKey, NodeReply, NodeRequest, NodeResponse, RequestFence,
};
use millrace_document::{DocumentGroup, DocumentId, DocumentVersion, DropScope, DroppedScope, Timestamp};
use millrace_peer::{
    Error, ParcelHead, PeerAddress, PeerConnections, PeerService, PeerVersionKey, PeerVersionPage,
    TransferConnection, TransferFault, TransferParcel, TransferSource, serve,
};
use millrace_trust::Connection;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

const BUCKET: BucketId = BucketId::new(10, 77);

/// Time limit, longer than any step here takes.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

fn id(number: u32) -> DocumentId {
    DocumentId::parse(&format!("id:n:mail:g=ann:{number}")).expect("the test's id is one")
}

fn fence(number: u64) -> RequestFence {
    RequestFence { from: NodeKey(1), version: ClusterVersion::new(5), number, void_below: 0 }
}

/// Service that answers only pings with their numbers, the second of each two first.
#[derive(Default)]
struct PingService {
    held: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl PeerService for PingService {
    fn incarnation(&self) -> Incarnation {
        Incarnation::new(5)
    }

    fn request(&self, fence: RequestFence, request: NodeRequest, reply: Box<dyn FnOnce(NodeReply) + Send>) {
        if request != NodeRequest::Ping {
            return;
        }
        let answer = move || {
            reply(NodeReply {
                version: ClusterVersion::new(fence.number),
                response: NodeResponse::Pong { votes: false },
            })
        };
        let mut held = self.held.lock();
        match held.take() {
            None => *held = Some(Box::new(answer)),
            Some(first) => {
                answer();
                first();
            }
        }
    }

    fn source(&self) -> Arc<dyn TransferSource> {
        Arc::new(NoSource)
    }

    fn http(&self, _: Connection) {}
}

struct NoSource;

struct NoParcel(usize);

impl TransferParcel for NoParcel {
    fn head(&self) -> ParcelHead {
        ParcelHead { shares: vec![(BUCKET, self.0 as u64, 3)], bytes: Some(self.0 as u64), identity: None }
    }

    fn outline(&self) -> Vec<u32> {
        vec![self.0 as u32, 0]
    }

    fn write_to(&self, from: u64, out: &mut (dyn Write + Send)) -> io::Result<()> {
        out.write_all(&bytes(self.0)[from as usize..])?;
        // One that cannot be read to its end.
        if self.0 == 7 { Err(io::Error::other("the disk is broken")) } else { Ok(()) }
    }
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31) as u8).collect()
}

impl TransferSource for NoSource {
    fn export(&self, buckets: &[BucketId]) -> Result<Vec<Box<dyn TransferParcel>>, TransferFault> {
        match buckets {
            [] => Err(TransferFault::of("nothing is asked for")),
            [BUCKET] => Ok([1_000_000, 70_000, 0]
                .map(|length| Box::new(NoParcel(length)) as Box<dyn TransferParcel>)
                .into()),
            _ => Ok(vec![Box::new(NoParcel(7))]),
        }
    }

    fn versions(&self, _: BucketId, after: Option<&str>) -> Result<PeerVersionPage, TransferFault> {
        let key = |number| PeerVersionKey { id: id(number), timestamp: Timestamp(u64::from(number)) };
        Ok(match after {
            None => PeerVersionPage { versions: vec![key(1), key(2)], after: Some("place".to_owned()) },
            Some(place) => PeerVersionPage { versions: vec![key(place.len() as u32)], after: None },
        })
    }

    fn drops(&self, bucket: BucketId) -> Result<Vec<DroppedScope>, TransferFault> {
        let scope = DropScope::Group { document_type: None, group: DocumentGroup::Number(bucket.bits()) };
        Ok(vec![DroppedScope { scope, timestamp: Timestamp(8) }])
    }

    fn bodies(&self, ids: &[DocumentId]) -> Result<Vec<DocumentVersion>, TransferFault> {
        let version = |id: &DocumentId| DocumentVersion {
            id: id.clone(),
            timestamp: Timestamp(9),
            body: (*id != id_of_removed()).then(|| Arc::from(&b"body"[..])),
        };
        Ok(ids.iter().map(version).collect())
    }
}

fn id_of_removed() -> DocumentId {
    id(2)
}

/// Starts a node that answers as run 5; returns the means to end it.
fn node(runtime: &Runtime) -> (PeerAddress, watch::Sender<bool>) {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port is free");
    let address = PeerAddress::of_any_run(&listener.local_addr().expect("it is bound").to_string());
    let (stop, stopped) = watch::channel(false);
    runtime.spawn(serve(listener, None, Arc::new(PingService::default()), stopped));
    (address, stop)
}

fn ask(
    peers: &PeerConnections,
    address: &PeerAddress,
    numbers: &[u64],
    request: &NodeRequest,
) -> Vec<Option<u64>> {
    let (sender, answers) = mpsc::channel();
    for number in numbers {
        let sender = sender.clone();
        peers.send(address, fence(*number), request.clone(), move |reply: Option<NodeReply>| {
            let _ = sender.send(reply.map(|reply| reply.version.number()));
        });
    }
    let mut answered: Vec<Option<u64>> = numbers
        .iter()
        .map(|_| answers.recv_timeout(STEP_TIMEOUT).expect("every request is answered or lost"))
        .collect();
    answered.sort_unstable();
    answered
}

#[test]
fn answers_find_their_requests_in_any_order() {
    let runtime = Runtime::new().expect("a runtime");
    let (address, _stop) = node(&runtime);
    let peers = PeerConnections::new(runtime.handle().clone(), None);
    let numbers: Vec<u64> = (0..200).collect();
    let expected: Vec<Option<u64>> = numbers.iter().copied().map(Some).collect();
    assert_eq!(ask(&peers, &address, &numbers, &NodeRequest::Ping), expected);
}

#[test]
fn a_newer_protocol_closes_connections_of_the_older_one_and_goes_on_with_its_own() {
    let runtime = Runtime::new().expect("a runtime");
    let (address, _stop) = node(&runtime);
    let older = PeerAddress { protocol: 1, ..address.clone() };
    let peers = PeerConnections::new(runtime.handle().clone(), None);
    assert_eq!(ask(&peers, &older, &[1, 2], &NodeRequest::Ping), [Some(1), Some(2)]);
    let (sender, lost) = mpsc::channel();
    let unanswered = NodeRequest::Owned { removals_since: Timestamp(0) };
    peers.send(&older, fence(3), unanswered, move |reply: Option<NodeReply>| {
        let _ = sender.send(reply);
    });
    // A state with the newer protocol arrives.
    peers.keep(&|peer| *peer == address);
    assert_eq!(lost.recv_timeout(STEP_TIMEOUT), Ok(None), "it is lost once");
    assert_eq!(ask(&peers, &address, &[4, 5], &NodeRequest::Ping), [Some(4), Some(5)]);
    assert_eq!(peers.lost(), 1);
}

#[test]
fn what_is_not_answered_is_lost_when_the_connection_ends_and_the_next_is_made() {
    let runtime = Runtime::new().expect("a runtime");
    let peers = PeerConnections::new(runtime.handle().clone(), None);
    assert_eq!(
        ask(&peers, &PeerAddress::of_any_run("127.0.0.1:1"), &[1], &NodeRequest::Ping),
        [None],
        "nobody is there"
    );
    let (address, stop) = node(&runtime);
    let (sender, lost) = mpsc::channel();
    peers.send(
        &address,
        fence(1),
        NodeRequest::Owned { removals_since: Timestamp(0) },
        move |reply: Option<NodeReply>| {
            let _ = sender.send(reply);
        },
    );
    assert_eq!(ask(&peers, &address, &[2, 3], &NodeRequest::Ping), [Some(2), Some(3)]);
    assert_eq!((peers.sent(), peers.lost()), (4, 1), "one found nobody there, one is not answered yet");
    stop.send_replace(true);
    assert_eq!(lost.recv_timeout(STEP_TIMEOUT), Ok(None));
    assert_eq!((peers.sent(), peers.lost()), (4, 2));
    let (other, _stop) = node(&runtime);
    assert_eq!(ask(&peers, &other, &[4, 5], &NodeRequest::Ping), [Some(4), Some(5)]);
}

#[test]
fn a_process_answers_only_what_is_for_its_own_run() {
    let runtime = Runtime::new().expect("a runtime");
    let (anyone, _stop) = node(&runtime);
    let peers = PeerConnections::new(runtime.handle().clone(), None);
    for (run, answers) in
        [(None, true), (Some(5), true), (Some(4), false), (Some(6), false), (Some(0), false)]
    {
        let peer = PeerAddress { incarnation: run.map(Incarnation::new), ..anyone.clone() };
        // Each time: a refused connection is made again, and refused again.
        for _ in 0..2 {
            let expected = if answers { [Some(1), Some(2)] } else { [None, None] };
            assert_eq!(ask(&peers, &peer, &[1, 2], &NodeRequest::Ping), expected, "{run:?}");
        }
        let mut bulk = TransferConnection::connect(&peer, None).expect("somebody listens");
        match bulk.drops(BUCKET) {
            Ok(drops) => assert!(answers && drops.len() == 1, "{run:?}: {drops:?}"),
            Err(Error::Refused { reason, .. }) => {
                let expected =
                    format!("run 5 of a process was reached, not run {}: ", run.unwrap_or_default());
                assert!(!answers && reason.starts_with(&expected), "{run:?}: {reason}");
            }
            Err(error) => panic!("{run:?}: {error}"),
        }
    }
}

#[test]
fn bytes_that_are_no_message_end_their_connection_and_no_other() {
    let runtime = Runtime::new().expect("a runtime");
    let (address, _stop) = node(&runtime);
    let peers = PeerConnections::new(runtime.handle().clone(), None);
    let hostile: [&[u8]; 7] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"MILLREQ\x09",
        b"MILLREQ\x01\xff\xff\xff\xff\0\0\0\0\0\0\0\0",
        b"MILLREQ\x01\x03\0\0\0\0\0\0\0\0\0\0\0abc",
        b"MILLBLK\x02\xff\xff\xff\xff",
        b"MILLBLK\x02\x01\0\0\0\x02",
        b"MILLBLK\x02\x05\0\0\0\x01\xff\xff\xff\xff",
    ];
    for bytes in hostile {
        let ended = runtime.block_on(async {
            let mut stream = TcpStream::connect(&address.address).await.expect("the node listens");
            stream.write_all(bytes).await.expect("the node reads");
            let mut rest = Vec::new();
            tokio::time::timeout(STEP_TIMEOUT, stream.read_to_end(&mut rest)).await
        });
        assert!(ended.is_ok(), "{bytes:?}");
        assert_eq!(ask(&peers, &address, &[1, 2], &NodeRequest::Ping), [Some(1), Some(2)]);
    }
}

#[test]
fn a_server_ends_at_once_though_a_transfer_is_silent() {
    let runtime = Runtime::new().expect("a runtime");
    let (address, stop) = node(&runtime);
    let mut bulk = TransferConnection::connect(&address, None).expect("the node listens");
    assert_eq!(bulk.export(&[BUCKET]).expect("it can be read").len(), 3);
    stop.send_replace(true);
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || {
        // That waits for all blocking threads.
        std::mem::drop(runtime);
        let _ = sender.send(());
    });
    assert_eq!(ended.recv_timeout(STEP_TIMEOUT), Ok(()), "a thread waits for bytes");
    assert!(matches!(bulk.export(&[BUCKET]), Err(Error::Connection { .. })));
}

#[test]
fn transfers_come_whole_or_not_at_all() {
    let runtime = Runtime::new().expect("a runtime");
    let (address, _stop) = node(&runtime);
    let mut bulk = TransferConnection::connect(&address, None).expect("the node listens");
    let head = |length| NoParcel(length).head();
    assert_eq!(bulk.export(&[BUCKET]).expect("it can be read"), [head(1_000_000), head(70_000), head(0)]);
    // The next ones can be requested in advance; and any of them again, from any offset on.
    let parcels =
        [(0, 0, 1_000_000), (2, 0, 0), (1, 0, 70_000), (0, 999_999, 1_000_000), (1, 60_000, 70_000)];
    for (place, from, _) in parcels {
        bulk.request(place, from).expect("the node listens");
    }
    for (_, from, length) in parcels {
        assert_eq!(bulk.outline().expect("it comes"), [length as u32, 0]);
        assert!(all_of(&mut bulk).expect("it comes whole") == bytes(length)[from as usize..]);
    }
    bulk.request(3, 0).expect("the node listens");
    assert!(matches!(bulk.outline(), Err(Error::Refused { .. })), "there are but three");
    let page = bulk.versions(BUCKET, None).expect("they can be read");
    assert_eq!((page.versions.len(), page.after.as_deref()), (2, Some("place")));
    let page = bulk.versions(BUCKET, Some("place")).expect("they can be read");
    assert_eq!((page.versions[0].id.clone(), page.after), (id(5), None));
    let drops = bulk.drops(BUCKET).expect("they can be read");
    assert_eq!(drops.iter().map(|drop| drop.timestamp).collect::<Vec<_>>(), [Timestamp(8)]);
    let found = bulk.bodies(&[id(1), id_of_removed()]).expect("they can be read");
    assert_eq!(found.iter().map(|version| version.body.is_some()).collect::<Vec<_>>(), [true, false]);
    assert!(
        matches!(bulk.export(&[]), Err(Error::Refused { reason, .. }) if reason == "nothing is asked for")
    );
    assert_eq!(bulk.export(&[BUCKET, BUCKET]).expect("it can be read, it is thought"), [head(7)]);
    bulk.request(0, 0).expect("the node listens");
    bulk.outline().expect("it begins");
    assert!(all_of(&mut bulk).is_err(), "it broke off");
}

/// Bytes of a parcel that has begun.
fn all_of(bulk: &mut TransferConnection) -> Result<Vec<u8>, Error> {
    let (mut all, mut piece) = (Vec::new(), Vec::new());
    while bulk.piece(&mut piece)? {
        all.extend_from_slice(&piece);
    }
    Ok(all)
}
