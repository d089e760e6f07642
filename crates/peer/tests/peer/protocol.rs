//! Compatibility with nodes of other versions: the bytes of each protocol are kept, and every version writes
//! and reads them.
//!
//! A message that another version cannot read is not a change of a released protocol's file but a line of the
//! next one's, and is sent only where that protocol is spoken; see `millrace_cluster::PROTOCOL`.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_cluster::{
    ClusterVersion, FenceRefusal, Incarnation, NodeFailure, NodeKey, NodeReply, NodeRequest, NodeResponse,
    PullMode, ReplicaContent, ReplicaOrigin, ReplicatedRow, ReportedReplica, RequestFence, RowContent,
    UnfinishedRow,
};
use millrace_document::{DocumentGroup, DocumentId, DocumentVersion, DropScope, DroppedScope, Timestamp};
use millrace_peer::{
    Error, ParcelHead, PeerAddress, PeerConnections, PeerService, PeerVersionKey, PeerVersionPage,
    TransferConnection, TransferFault, TransferParcel, TransferSource, serve,
};
use millrace_trust::Connection;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A protocol, and its bytes.
struct RecordedProtocol {
    number: u16,
    lines: &'static str,
    /// Greetings of connections that name no run.
    requests: &'static [u8],
    bulk: &'static [u8],
    /// First byte of a refusal of a question.
    refusal: u8,
}

const PROTOCOLS: [RecordedProtocol; 2] = [
    RecordedProtocol {
        number: 1,
        lines: include_str!("../protocol-1.txt"),
        requests: b"MILLREQ\x01",
        bulk: b"MILLBLK\x02",
        refusal: 1,
    },
    RecordedProtocol {
        number: 2,
        lines: include_str!("../protocol-2.txt"),
        requests: b"MILLNOD\x02\x02\0\0\0\0\0",
        bulk: b"MILLNOD\x02\x02\0\0\0\x01\0",
        refusal: 0,
    },
];

const BUCKET: BucketId = BucketId::new(10, 77);

const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// Decodes hexadecimal digits.
fn bytes(hex: &str) -> Vec<u8> {
    let digits = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("digits are ASCII");
        u8::from_str_radix(pair, 16).expect("two digits a byte")
    };
    hex.as_bytes().chunks(2).map(digits).collect()
}

impl RecordedProtocol {
    /// Any process at an address, where this protocol is spoken.
    fn peer(&self, address: &str) -> PeerAddress {
        PeerAddress { protocol: self.number, ..PeerAddress::of_any_run(address) }
    }

    /// Bytes that are kept under a name.
    fn kept(&self, kind: &str, name: &str) -> Vec<u8> {
        let found = self.lines.lines().find_map(|line| {
            line.strip_prefix(kind)?.strip_prefix(' ')?.strip_prefix(name)?.strip_prefix(' ')
        });
        bytes(found.unwrap_or_else(|| panic!("no {kind} {name} is kept")))
    }

    /// Compares lines with those that are kept for their kinds.
    #[track_caller]
    fn check(&self, kinds: &[&str], written: &str) {
        let is_of = |line: &&str| kinds.iter().any(|kind| line.split(' ').next() == Some(kind));
        let expected: String = self.lines.lines().filter(is_of).map(|line| format!("{line}\n")).collect();
        assert!(
            written == expected,
            "protocol {}: other versions know this:\n{expected}and are told this:\n{written}",
            self.number
        );
    }
}

fn add(out: &mut String, kind: &str, name: &str, bytes: &[u8]) {
    let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let _ = writeln!(out, "{kind} {name} {hex}");
}

fn id(number: u32) -> DocumentId {
    DocumentId::parse(&format!("id:n:mail:g=ann:{number}")).expect("the test's id is one")
}

fn fence() -> RequestFence {
    RequestFence { from: NodeKey(2), version: ClusterVersion::new(7), number: 8, void_below: 5 }
}

fn version(number: u32, body: Option<&[u8]>) -> DocumentVersion {
    DocumentVersion { id: id(number), timestamp: Timestamp(9), body: body.map(Arc::from) }
}

/// Name of each request. A new one needs a line in the file of the protocol that introduces it.
fn name_of(request: &NodeRequest) -> &'static str {
    match request {
        NodeRequest::Ping => "ping",
        NodeRequest::Owned { .. } => "owned",
        NodeRequest::Info { .. } => "info",
        NodeRequest::Apply(_) => "apply",
        NodeRequest::Read { .. } => "read",
        NodeRequest::Create(_) => "create",
        NodeRequest::Pull { pull: PullMode::Whole, .. } => "pull-whole",
        NodeRequest::Pull { pull: PullMode::Missing, .. } => "pull-missing",
        NodeRequest::Complete { .. } => "complete",
        NodeRequest::Delete { .. } => "delete",
        NodeRequest::Finish(UnfinishedRow { base: None, .. }) => "finish",
        NodeRequest::Finish(UnfinishedRow { base: Some(_), .. }) => "finish-modification",
    }
}

fn requests() -> Vec<NodeRequest> {
    let bucket = BUCKET;
    let expected = ReplicaContent { documents: 3, checksum: u64::MAX, removals_since: Timestamp(5) };
    let row = |content, origin| ReplicatedRow { bucket, content: Arc::new(content), origin };
    let drop = |scope| RowContent::Drop(DroppedScope { scope, timestamp: Timestamp(11) });
    let group = |document_type: Option<&str>, group| DropScope::Group {
        document_type: document_type.map(str::to_owned),
        group,
    };
    let content = Arc::new(RowContent::Version(version(1, Some(b"body"))));
    let removed = Arc::new(RowContent::Version(version(2, None)));
    vec![
        NodeRequest::Ping,
        NodeRequest::Owned { removals_since: Timestamp(12) },
        NodeRequest::Info { bucket, removals_since: Timestamp(13) },
        NodeRequest::Apply(vec![
            row(RowContent::Version(version(1, Some(b"body"))), None),
            row(RowContent::Version(version(2, None)), Some(ReplicaOrigin::Complete)),
            row(drop(group(Some("mail"), DocumentGroup::Number(7))), Some(ReplicaOrigin::Incomplete)),
            row(drop(group(None, DocumentGroup::Name("ann".into()))), None),
            row(drop(DropScope::Type("mail".to_owned())), None),
        ]),
        NodeRequest::Read { bucket, id: id(1) },
        NodeRequest::Create(bucket),
        NodeRequest::Pull { bucket, from: NodeKey(3), pull: PullMode::Whole },
        NodeRequest::Pull { bucket, from: NodeKey(3), pull: PullMode::Missing },
        NodeRequest::Complete { bucket, expected },
        NodeRequest::Delete { bucket, expected },
        NodeRequest::Finish(UnfinishedRow { bucket, content, base: None }),
        NodeRequest::Finish(UnfinishedRow { bucket, content: removed, base: Some(Timestamp(6)) }),
    ]
}

/// Name of each response, like [`name_of`].
fn name_of_response(response: &NodeResponse) -> String {
    let refused = |refused: &FenceRefusal| match refused {
        FenceRefusal::Stale => "stale",
        FenceRefusal::Void => "void",
        FenceRefusal::NotOwner => "not-owner",
        FenceRefusal::Absent => "absent",
        FenceRefusal::Busy => "busy",
        FenceRefusal::Unknown => "unknown",
    };
    let failed = |failure: &NodeFailure| match failure {
        NodeFailure::NoReplica => "no-replica",
        NodeFailure::Differs => "differs",
        NodeFailure::DiskFull { .. } => "disk-full",
        NodeFailure::Overloaded => "overloaded",
        NodeFailure::Interrupted => "interrupted",
        NodeFailure::Storage { .. } => "storage",
    };
    match response {
        NodeResponse::Refused(reason) => format!("refused-{}", refused(reason)),
        NodeResponse::Pong { votes } => format!("here-{votes}"),
        NodeResponse::Replicas { .. } => "replicas".to_owned(),
        NodeResponse::Applied(_) => "applied".to_owned(),
        NodeResponse::Finished(_) => "finished".to_owned(),
        NodeResponse::Document(None) => "no-document".to_owned(),
        NodeResponse::Document(Some(_)) => "document".to_owned(),
        NodeResponse::Done => "done".to_owned(),
        NodeResponse::Failed(failure) => format!("failed-{}", failed(failure)),
    }
}

fn responses() -> Vec<NodeResponse> {
    let info = ReportedReplica {
        content: ReplicaContent { documents: 1, checksum: 2, removals_since: Timestamp(6) },
        complete: true,
        newest: Timestamp(3),
    };
    let failures = [
        NodeFailure::NoReplica,
        NodeFailure::Differs,
        NodeFailure::DiskFull { reason: "full".to_owned() },
        NodeFailure::Overloaded,
        NodeFailure::Interrupted,
        NodeFailure::Storage { reason: "broken".to_owned() },
    ];
    let refused = [
        FenceRefusal::Stale,
        FenceRefusal::Void,
        FenceRefusal::NotOwner,
        FenceRefusal::Absent,
        FenceRefusal::Busy,
        FenceRefusal::Unknown,
    ];
    let mut responses = vec![
        NodeResponse::Pong { votes: false },
        NodeResponse::Pong { votes: true },
        NodeResponse::Replicas { replicas: vec![(BUCKET, info)], newest: Timestamp(4) },
        NodeResponse::Applied(failures.iter().cloned().enumerate().collect()),
        NodeResponse::Finished(2),
        NodeResponse::Document(None),
        NodeResponse::Document(Some(version(1, Some(b"body")))),
        NodeResponse::Done,
    ];
    responses.extend(refused.map(NodeResponse::Refused));
    responses.extend(failures.map(NodeResponse::Failed));
    responses
}

/// Forwards its requests, and answers with one response after another.
struct ScriptedService {
    asked: mpsc::Sender<(RequestFence, NodeRequest)>,
    responses: parking_lot::Mutex<std::vec::IntoIter<NodeResponse>>,
}

impl PeerService for ScriptedService {
    fn incarnation(&self) -> Incarnation {
        Incarnation::new(0x0102_0304)
    }

    fn request(&self, fence: RequestFence, request: NodeRequest, reply: Box<dyn FnOnce(NodeReply) + Send>) {
        self.asked.send((fence, request)).expect("the test waits");
        let response = self.responses.lock().next();
        reply(NodeReply {
            version: ClusterVersion::new(7),
            response: response.unwrap_or(NodeResponse::Done),
        });
    }

    fn source(&self) -> Arc<dyn TransferSource> {
        Arc::new(ScriptedSource)
    }

    fn http(&self, _: Connection) {}
}

struct ScriptedSource;

struct ScriptedParcel;

impl TransferParcel for ScriptedParcel {
    fn head(&self) -> ParcelHead {
        head(Some(4), None)
    }

    fn outline(&self) -> Vec<u32> {
        vec![3, 1]
    }

    fn write_to(&self, from: u64, out: &mut (dyn Write + Send)) -> io::Result<()> {
        out.write_all(&b"file"[from as usize..])
    }
}

fn head(bytes: Option<u64>, identity: Option<u64>) -> ParcelHead {
    ParcelHead { shares: vec![(BUCKET, 4, 3)], bytes, identity }
}

fn page(after: Option<&str>) -> PeerVersionPage {
    let versions = vec![PeerVersionKey { id: id(1), timestamp: Timestamp(9) }];
    PeerVersionPage { versions, after: after.map(str::to_owned) }
}

fn drops() -> Vec<DroppedScope> {
    vec![DroppedScope { scope: DropScope::Type("mail".to_owned()), timestamp: Timestamp(8) }]
}

impl TransferSource for ScriptedSource {
    fn export(&self, buckets: &[BucketId]) -> Result<Vec<Box<dyn TransferParcel>>, TransferFault> {
        match buckets {
            [BUCKET] => Ok(vec![Box::new(ScriptedParcel)]),
            _ => Err(TransferFault::of("no such bucket")),
        }
    }

    fn versions(&self, _: BucketId, after: Option<&str>) -> Result<PeerVersionPage, TransferFault> {
        Ok(page(if after.is_none() { Some("place") } else { None }))
    }

    fn drops(&self, _: BucketId) -> Result<Vec<DroppedScope>, TransferFault> {
        Ok(drops())
    }

    fn bodies(&self, ids: &[DocumentId]) -> Result<Vec<DocumentVersion>, TransferFault> {
        assert_eq!(ids, [id(1), id(2)]);
        Ok(vec![version(1, Some(b"body")), version(2, None)])
    }
}

/// Runs a node that answers; returns its address, and its requests.
fn node(runtime: &Runtime) -> (String, mpsc::Receiver<(RequestFence, NodeRequest)>, watch::Sender<bool>) {
    let (asked, requests) = mpsc::channel();
    let service = ScriptedService { asked, responses: parking_lot::Mutex::new(responses().into_iter()) };
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let (stop, stopped) = watch::channel(false);
    runtime.spawn(serve(listener, None, Arc::new(service), stopped));
    (address, requests, stop)
}

fn connect(address: &str, word: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the node listens");
    stream.set_read_timeout(Some(STEP_TIMEOUT)).expect("it has a timeout");
    stream.write_all(word).expect("the node reads");
    stream
}

/// Reads this many bytes of a connection.
fn read(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).expect("they come");
    bytes
}

fn read_length(stream: &mut TcpStream) -> usize {
    u32::from_le_bytes(read(stream, 4).try_into().expect("they are four")) as usize
}

/// Reads a message of a connection for requests, with its number.
fn read_frame(stream: &mut TcpStream) -> (u64, Vec<u8>) {
    let length = read_length(stream);
    let id = u64::from_le_bytes(read(stream, 8).try_into().expect("they are eight"));
    (id, read(stream, length))
}

fn write_frame(stream: &mut TcpStream, id: u64, payload: &[u8]) {
    let frame = [&(payload.len() as u32).to_le_bytes()[..], &id.to_le_bytes(), payload].concat();
    stream.write_all(&frame).expect("the node reads");
}

fn read_message(stream: &mut TcpStream) -> Vec<u8> {
    let length = read_length(stream);
    read(stream, length)
}

fn write_message(stream: &mut TcpStream, message: &[u8]) {
    let message = [&(message.len() as u32).to_le_bytes()[..], message].concat();
    stream.write_all(&message).expect("the node reads");
}

#[test]
fn sent_requests_and_received_replies_keep_their_bytes() {
    for protocol in &PROTOCOLS {
        let runtime = Runtime::new().expect("a runtime");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        // An older node: knows the bytes that are kept, and nothing else.
        let older = thread::spawn(move || {
            let mut stream = listener.accept().expect("a node connects").0;
            stream.set_read_timeout(Some(STEP_TIMEOUT)).expect("it has a timeout");
            assert_eq!(read(&mut stream, protocol.requests.len()), protocol.requests);
            let mut written = String::new();
            for request in requests() {
                let (id, payload) = read_frame(&mut stream);
                add(&mut written, "request", name_of(&request), &payload);
                write_frame(&mut stream, id, &protocol.kept("reply", "done"));
            }
            for response in responses() {
                let (id, _) = read_frame(&mut stream);
                write_frame(&mut stream, id, &protocol.kept("reply", &name_of_response(&response)));
            }
            written
        });
        let peers = PeerConnections::new(runtime.handle().clone(), None);
        let ask = |request: NodeRequest| {
            let (sender, answer) = mpsc::channel();
            peers.send(&protocol.peer(&address), fence(), request, move |reply| drop(sender.send(reply)));
            answer
                .recv_timeout(STEP_TIMEOUT)
                .expect("it is answered")
                .map(|reply| (reply.version, reply.response))
        };
        for request in requests() {
            assert_eq!(ask(request), Some((ClusterVersion::new(7), NodeResponse::Done)));
        }
        for response in responses() {
            assert_eq!(ask(NodeRequest::Ping), Some((ClusterVersion::new(7), response)));
        }
        protocol.check(&["request"], &older.join().expect("it has understood"));
    }
}

#[test]
fn received_requests_and_sent_replies_keep_their_bytes() {
    for protocol in &PROTOCOLS {
        let runtime = Runtime::new().expect("a runtime");
        let (address, asked, _stop) = node(&runtime);
        let mut stream = connect(&address, protocol.requests);
        let mut replies = String::new();
        for (id, response) in (5..).zip(responses()) {
            write_frame(&mut stream, id, &protocol.kept("request", "ping"));
            let (answered, payload) = read_frame(&mut stream);
            assert_eq!(answered, id);
            assert_eq!(asked.recv_timeout(STEP_TIMEOUT).expect("it is asked"), (fence(), NodeRequest::Ping));
            add(&mut replies, "reply", &name_of_response(&response), &payload);
        }
        protocol.check(&["reply"], &replies);
        for request in requests() {
            write_frame(&mut stream, 1, &protocol.kept("request", name_of(&request)));
            assert_eq!(asked.recv_timeout(STEP_TIMEOUT).expect("it is asked"), (fence(), request));
            read_frame(&mut stream);
        }
    }
}

#[test]
fn what_a_newer_node_asks_is_refused_and_its_connection_goes_on() {
    for protocol in &PROTOCOLS {
        let runtime = Runtime::new().expect("a runtime");
        let (address, asked, _stop) = node(&runtime);
        let mut stream = connect(&address, protocol.requests);
        let ping = protocol.kept("request", "ping");
        let kind = ping.len() - 1;
        for newer in [[&ping[..kind], &[200, 1, 2, 3]].concat(), [&ping[..], &[1]].concat()] {
            write_frame(&mut stream, 3, &newer);
            assert_eq!(read_frame(&mut stream), (3, protocol.kept("reply", "refused-unknown")));
        }
        write_frame(&mut stream, 4, &ping);
        assert_eq!(read_frame(&mut stream).0, 4);
        assert_eq!(asked.try_iter().count(), 1);

        let mut stream = connect(&address, protocol.bulk);
        for question in [vec![200, 1, 2, 3], [&protocol.kept("question", "drops")[..], &[1]].concat()] {
            write_message(&mut stream, &question);
            let answer = read_message(&mut stream);
            let reason = String::from_utf8_lossy(&answer[1..]).into_owned();
            assert!(answer[0] == protocol.refusal && reason.contains("runs a newer version"), "{reason}");
        }
        write_message(&mut stream, &protocol.kept("question", "drops"));
        assert_eq!(read_message(&mut stream), protocol.kept("answer", "drops"));
    }
}

#[test]
fn replies_of_a_newer_node_are_lost_and_its_connection_goes_on() {
    for protocol in &PROTOCOLS {
        let runtime = Runtime::new().expect("a runtime");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let newer = thread::spawn(move || {
            let mut stream = listener.accept().expect("a node connects").0;
            stream.set_read_timeout(Some(STEP_TIMEOUT)).expect("it has a timeout");
            read(&mut stream, protocol.requests.len());
            let done = protocol.kept("reply", "done");
            let unknown = [&done[..done.len() - 1], &[200, 1]].concat();
            for reply in [unknown, [&done[..], &[1]].concat(), done] {
                let (id, _) = read_frame(&mut stream);
                write_frame(&mut stream, id, &reply);
            }
        });
        let peers = PeerConnections::new(runtime.handle().clone(), None);
        let answers = [(); 3].map(|()| {
            let (sender, answer) = mpsc::channel();
            peers.send(&protocol.peer(&address), fence(), NodeRequest::Ping, move |reply| {
                drop(sender.send(reply))
            });
            answer.recv_timeout(STEP_TIMEOUT).expect("it is answered or lost").map(|reply| reply.response)
        });
        assert_eq!(answers, [None, None, Some(NodeResponse::Done)]);
        newer.join().expect("all came over one connection");
    }
}

#[test]
fn connections_name_the_run_that_they_are_for_from_protocol_2_on() {
    let [_, protocol] = &PROTOCOLS;
    let run = Incarnation::new(0x0102_0304);
    let runtime = Runtime::new().expect("a runtime");
    let (address, asked, _stop) = node(&runtime);
    let mut stream = connect(&address, &protocol.kept("greeting", "requests"));
    write_frame(&mut stream, 3, &protocol.kept("request", "ping"));
    assert_eq!(read_frame(&mut stream).0, 3);
    assert_eq!(asked.try_iter().count(), 1);
    let mut stream = connect(&address, &protocol.kept("greeting", "bulk"));
    write_message(&mut stream, &protocol.kept("question", "drops"));
    assert_eq!(read_message(&mut stream), protocol.kept("answer", "drops"));

    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let greeting = |length| {
        let mut stream = listener.accept().expect("a node connects").0;
        stream.set_read_timeout(Some(STEP_TIMEOUT)).expect("it has a timeout");
        read(&mut stream, length)
    };
    let peers = PeerConnections::new(runtime.handle().clone(), None);
    for (number, requests, bulk) in [
        (1, PROTOCOLS[0].requests.to_vec(), PROTOCOLS[0].bulk.to_vec()),
        (2, protocol.kept("greeting", "requests"), protocol.kept("greeting", "bulk")),
    ] {
        let peer = PeerAddress { address: address.clone(), incarnation: Some(run), protocol: number };
        peers.send(&peer, fence(), NodeRequest::Ping, drop);
        assert_eq!(greeting(requests.len()), requests);
        let _bulk = TransferConnection::connect(&peer, None).expect("the node listens");
        assert_eq!(greeting(bulk.len()), bulk);
    }
}

#[test]
fn a_connection_of_a_newer_protocol_is_closed() {
    let runtime = Runtime::new().expect("a runtime");
    let (address, asked, _stop) = node(&runtime);
    for greeting in
        [&b"MILLNOD\x03\x02\0\0\0\0\0"[..], b"MILLNOD\x02\xff\xff\xff\xff\0", b"GET / HTTP/1.1\r\n"]
    {
        let mut stream = connect(&address, greeting);
        // An end with unread bytes may show as an error.
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)), "{greeting:?}");
    }
    assert_eq!(asked.try_iter().count(), 0);
}

/// A question of a transfer: its name, and the call; the answer must be that of the scripted service.
type Question = (&'static str, fn(&mut TransferConnection));

fn questions() -> Vec<Question> {
    vec![
        ("export", |bulk| {
            assert_eq!(bulk.export(&[BUCKET]).expect("it is answered"), [head(Some(4), None)]);
        }),
        ("export-none", |bulk| {
            let refused = bulk.export(&[]).expect_err("there is nothing to export");
            assert!(matches!(refused, Error::Refused { reason, .. } if reason == "no such bucket"));
        }),
        ("parcel", |bulk| {
            bulk.request(0, 1).expect("the node listens");
            assert_eq!(bulk.outline().expect("it comes"), [3, 1]);
            let (mut all, mut piece) = (Vec::new(), Vec::new());
            while bulk.piece(&mut piece).expect("it comes") {
                all.extend_from_slice(&piece);
            }
            assert_eq!(all, b"ile");
        }),
        ("versions", |bulk| {
            assert_eq!(bulk.versions(BUCKET, None).expect("it is answered"), page(Some("place")));
        }),
        ("versions-after", |bulk| {
            assert_eq!(bulk.versions(BUCKET, Some("place")).expect("it is answered"), page(None));
        }),
        ("drops", |bulk| assert_eq!(bulk.drops(BUCKET).expect("it is answered"), drops())),
        ("bodies", |bulk| {
            let versions = bulk.bodies(&[id(1), id(2)]).expect("it is answered");
            assert_eq!(versions, [version(1, Some(b"body")), version(2, None)]);
        }),
    ]
}

#[test]
fn questions_of_transfers_keep_their_bytes() {
    for protocol in &PROTOCOLS {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let older = thread::spawn(move || {
            let mut stream = listener.accept().expect("a node connects").0;
            stream.set_read_timeout(Some(STEP_TIMEOUT)).expect("it has a timeout");
            assert_eq!(read(&mut stream, protocol.bulk.len()), protocol.bulk);
            let mut written = String::new();
            for (name, _) in questions() {
                add(&mut written, "question", name, &read_message(&mut stream));
                write_message(&mut stream, &protocol.kept("answer", name));
                if name == "parcel" {
                    stream.write_all(&protocol.kept("answer", "pieces")).expect("the node reads");
                }
            }
            written
        });
        let mut bulk = TransferConnection::connect(&protocol.peer(&address), None).expect("the node listens");
        questions().iter().for_each(|(_, ask)| ask(&mut bulk));
        protocol.check(&["question"], &older.join().expect("it has understood"));
    }
}

#[test]
fn answers_of_transfers_keep_their_bytes() {
    for protocol in &PROTOCOLS {
        let runtime = Runtime::new().expect("a runtime");
        let (address, _asked, _stop) = node(&runtime);
        let mut stream = connect(&address, protocol.bulk);
        let mut written = String::new();
        for (name, _) in questions() {
            write_message(&mut stream, &protocol.kept("question", name));
            add(&mut written, "answer", name, &read_message(&mut stream));
            if name == "parcel" {
                // Three bytes in a piece, and an empty piece.
                add(&mut written, "answer", "pieces", &read(&mut stream, 4 + 3 + 4));
            }
        }
        protocol.check(&["answer"], &written);
    }
}
