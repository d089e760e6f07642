//! Requests to one of several gateways: reads are valid, writes happen once.

mod support;

use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_bucket::BucketId;
use millrace_cluster::PROTOCOL;
use millrace_document::{Document, DocumentId, DocumentValue as FieldValue};
use millrace_store as store;
use serde_json::{Value, json};
use support::{TestNodes, low_bits};

const NOTE: &str = "schema note {
  document note {
    field title type string { indexing: summary | index }
    field stars type int { indexing: summary | attribute }
  }
  fieldset default { fields: title }
}";

/// Protocols of the cluster state: the header between nodes has a form of its own in the first.
const PROTOCOLS: [u16; 2] = [1, PROTOCOL];

/// Returns a node that does not own the group's bucket, and its owner.
fn stranger_and_owner(group: &str) -> (usize, usize) {
    let owner = low_bits(group) as usize % 16 % 3;
    ((owner + 1) % 3, owner)
}

fn with_notes() -> TestNodes {
    with_notes_at(TestNodes::start(3, NOTE))
}

fn with_notes_at(nodes: TestNodes) -> TestNodes {
    for number in 0..20 {
        let group = if number % 2 == 0 { "even" } else { "odd" };
        nodes.put(number as usize % 3, group, number, &json!({ "title": "a note", "stars": number }));
    }
    nodes
}

#[test]
fn a_node_that_the_cluster_does_not_count_on_is_not_up() {
    let nodes = TestNodes::start(3, NOTE);
    let health = |node: usize| {
        let (status, answer) = nodes.call(node, Method::GET, "/state/v1/health", "");
        (status, answer["status"]["code"].to_string(), answer["status"]["message"].to_string())
    };
    assert_eq!(health(1), (200, "\"up\"".to_owned(), "null".to_owned()));
    nodes.world.away.lock().insert(1);
    assert_eq!(health(1), (503, "\"down\"".to_owned(), "\"an operator removed it\"".to_owned()));
    assert_eq!(nodes.call(1, Method::GET, "/status.html", "").0, 503);
    assert_eq!(health(2).0, 200);
}

/// A request may address any name that a node advertises, and the requests of one node's pages are forwarded
/// to others.
#[test]
fn names_that_nodes_advertise_are_hosts_and_pages_of_a_node_reach_all() {
    let nodes = with_notes();
    let (stranger, owner) = stranger_and_owner("even");
    let addresses = nodes.world.addresses.lock().clone();
    let send = |node: usize, host: &str, origin: &str| {
        let mut stream = std::net::TcpStream::connect(&addresses[node]).expect("it listens");
        let head =
            format!("POST /document/v1/n/note/group/even/9 HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\n");
        let rest = "content-type: application/json\r\nconnection: close\r\ncontent-length: 26\r\n\r\n{\"fields\":{\"title\":\"web\"}}";
        stream.write_all(format!("{head}{rest}").as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for node in [stranger, owner] {
        let own = addresses[node].as_str();
        assert_eq!(send(node, own, &format!("http://{own}")), "200", "its own page, through node {node}");
        assert_eq!(send(node, "N0.example:1", "http://n0.example:1"), "200");
        assert_eq!(send(node, "n9.example:8080", "http://n9.example:8080"), "421");
        assert_eq!(send(node, own, "http://n0.example:8080"), "403");
    }
}

#[test]
fn a_node_whose_disk_stays_full_is_not_up() {
    let nodes = TestNodes::start_with(1, NOTE, &|settings| {
        // More than any disk has.
        (settings.node.disk_reserve, settings.node.space_wait) = (1 << 60, Duration::from_millis(50));
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    let health = loop {
        let (status, answer) = nodes.call(0, Method::GET, "/state/v1/health", "");
        if status != 200 {
            break answer["status"].clone();
        }
        assert!(Instant::now() < deadline, "it is up without space: {answer}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(health["code"], "down");
    let message = health["message"].as_str().unwrap_or_default();
    assert!(message.contains("the disk has been full") && message.contains("disk-reserve"), "{message}");
}

#[test]
fn what_was_read_while_the_cluster_state_changed_is_read_again() {
    let nodes = with_notes();
    let (stranger, owner) = stranger_and_owner("even");
    let all = r#"{"yql": "select * from note where true", "streaming.selection": "true", "timeout": "20s"}"#;
    let even = r#"{"yql": "select * from note where true", "streaming.groupname": "even", "timeout": "20s"}"#;
    let requests = [
        (owner, Method::GET, "/document/v1/notes/note/group/even/2", ""),
        (owner, Method::GET, "/document/v1/notes/note/group/even", ""),
        (owner, Method::GET, "/document/v1/?cluster=notes", ""),
        (stranger, Method::GET, "/document/v1/?cluster=notes", ""),
        (owner, Method::POST, "/search/", even),
        (stranger, Method::POST, "/search/", even),
        (owner, Method::POST, "/search/", all),
        (stranger, Method::POST, "/search/", all),
    ];
    for (node, method, path, body) in requests {
        let (status, expected) = nodes.call(node, method.clone(), path, body);
        assert_eq!(status, 200, "{path} {body}: {expected}");
        nodes.world.confirmed.store(0, Ordering::SeqCst);
        nodes.world.doubts.store(1, Ordering::SeqCst);
        let (status, answer) = nodes.call(node, method, path, body);
        assert_eq!((status, answer), (200, expected), "{path} {body}");
        assert_eq!(nodes.world.doubts.load(Ordering::SeqCst), 0, "{path} {body}: nobody asked");
        assert!(nodes.world.confirmed.load(Ordering::SeqCst) >= 2, "{path} {body}: it was not read again");
    }
}

#[test]
fn an_answer_by_a_state_that_is_not_confirmed_does_not_count() {
    let nodes = with_notes();
    let (_, owner) = stranger_and_owner("even");
    nodes.world.doubts.store(usize::MAX, Ordering::SeqCst);
    let path = "/document/v1/notes/note/group/even/2?timeout=200ms";
    refused(nodes.call(owner, Method::GET, path, ""));
    let query =
        json!({ "yql": "select * from note where true", "streaming.groupname": "even", "timeout": "200ms" });
    refused(nodes.query(owner, &query));
}

/// No node answers, or none in time: the time limit decides between the two.
fn refused((status, answer): (u16, Value)) {
    assert!(matches!(status, 503 | 504), "{status} {answer}");
}

#[test]
fn a_replica_that_was_given_up_is_not_read() {
    let nodes = with_notes();
    let (stranger, owner) = stranger_and_owner("even");
    let path = "/document/v1/notes/note/group/even/2";
    assert_eq!(nodes.call(stranger, Method::GET, path, "").0, 200);
    nodes.world.emptied.lock().insert(owner as u16);
    refused(nodes.call(stranger, Method::GET, &format!("{path}?timeout=300ms"), ""));
}

#[test]
fn a_change_of_many_documents_that_broke_off_is_not_made_twice() {
    let nodes = with_notes();
    let (stranger, owner) = stranger_and_owner("even");
    let path = "/document/v1/notes/note/group/even?selection=true&cluster=notes&timeout=5s";
    let increment = r#"{"fields": {"stars": {"increment": 100}}}"#;
    let changed = || {
        let all = nodes.call(owner, Method::GET, "/document/v1/notes/note/group/even", "").1;
        let stars: Vec<i64> = all["documents"]
            .as_array()
            .expect("documents")
            .iter()
            .filter_map(|document| document["fields"]["stars"].as_i64())
            .collect();
        assert!(stars.iter().all(|stars| *stars < 200), "{stars:?}");
        stars.into_iter().filter(|stars| *stars >= 100).count()
    };
    for node in [stranger, owner] {
        nodes.world.writes_left.store(3, Ordering::SeqCst);
        let (status, answer) = nodes.call(node, Method::PUT, path, increment);
        assert_eq!(status, 504, "{answer}");
        assert_eq!(changed(), 3);
        nodes.world.writes_left.store(usize::MAX, Ordering::SeqCst);
        let undo = r#"{"fields": {"stars": {"decrement": 100}}}"#;
        let chosen =
            path.replace("selection=true", "selection=note.stars%3E99").replace("timeout=5s", "timeout=60s");
        let (status, answer) = nodes.call(node, Method::PUT, &chosen, undo);
        assert_eq!((status, answer["documentCount"].as_u64()), (200, Some(3)), "{answer}");
    }
}

#[test]
fn a_write_that_was_refused_without_effect_is_routed_again() {
    let nodes = with_notes();
    let (stranger, owner) = stranger_and_owner("even");
    let path = "/document/v1/notes/note/group/even/2";
    let increment = r#"{"fields": {"stars": {"increment": 100}}}"#;
    for (round, node) in [owner, stranger].into_iter().enumerate() {
        nodes.world.refusals.store(3, Ordering::SeqCst);
        let (status, answer) = nodes.call(node, Method::PUT, path, increment);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(nodes.world.refusals.load(Ordering::SeqCst), 0);
        let (_, answer) = nodes.call(node, Method::GET, path, "");
        assert_eq!(answer["fields"]["stars"], 2 + 100 * (1 + round as u64), "{answer}");
        // If this goes on, the client gets an answer within its own time limit.
        nodes.world.refusals.store(usize::MAX, Ordering::SeqCst);
        refused(nodes.call(node, Method::PUT, &format!("{path}?timeout=300ms"), increment));
        nodes.world.refusals.store(0, Ordering::SeqCst);
    }
}

#[test]
fn a_write_is_sent_elsewhere_only_if_the_node_that_stops_has_not_looked_at_it() {
    let nodes = with_notes();
    let (stranger, owner) = stranger_and_owner("even");
    let path = "/document/v1/notes/note/group/even/2?timeout=10s";
    let increment = r#"{"fields": {"stars": {"increment": 100}}}"#;
    // The node stops, and has not processed any request; the same, except for the first request; the
    // connection only breaks.
    let nothing_begun = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let one_begun = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    for (answer, expected) in [(&nothing_begun[..], 200), (&one_begun[..], 504), (&[], 504)] {
        let ends = nodes.stand_in(owner, b"increment", answer);
        let (status, told) = nodes.call(stranger, Method::PUT, path, increment);
        assert_eq!(status, expected, "{answer:?}: {told}");
        ends.join().expect("it has ended");
    }
    let (_, answer) = nodes.call(stranger, Method::GET, path, "");
    assert_eq!(answer["fields"]["stars"], 102, "{answer}");
}

/// Every bucket on two nodes: one has its data and the other orders its writes.
fn doubled() -> TestNodes {
    let nodes = TestNodes::start(3, NOTE);
    for bucket in 0..16_u64 {
        let id = BucketId::new(4, bucket);
        let holders = if bucket % 2 == 0 { vec![0, 2] } else { vec![1, 2] };
        nodes.world.placed.lock().insert(id, holders);
    }
    for number in 0..30 {
        let group = format!("g{}", number % 10);
        nodes.put(number as usize % 3, &group, number, &json!({ "title": "a note", "stars": number }));
    }
    nodes
}

fn everything() -> Value {
    let yql = "select * from note where true limit 40";
    json!({ "yql": yql, "streaming.selection": "true", "timeout": "20s" })
}

#[test]
fn another_replica_answers_for_a_node_that_is_gone() {
    for protocol in PROTOCOLS {
        let mut nodes = doubled();
        nodes.world.protocol.store(protocol, Ordering::SeqCst);
        // Data of other nodes is read at node 2 first.
        nodes.world.last_first.store(true, Ordering::SeqCst);
        let (status, expected) = nodes.query(0, &everything());
        assert_eq!((status, &expected["root"]["coverage"]["nodes"]), (200, &json!(1)), "{expected}");
        nodes.stop(2);
        nodes.world.departed.lock().insert(2);
        let (status, answer) = nodes.query(0, &everything());
        assert_eq!((status, &answer["root"]["fields"]["totalCount"]), (200, &json!(30)), "{answer}");
        let coverage = &answer["root"]["coverage"];
        assert_eq!((&coverage["full"], &coverage["nodes"]), (&json!(true), &json!(2)), "{answer}");
        let path = "/document/v1/notes/note/group/g3/3";
        assert_eq!(nodes.call(0, Method::GET, path, "").0, 200);
    }
}

#[test]
fn a_query_whose_owner_is_silent_or_gone_is_answered_by_another_and_says_so() {
    let mut nodes = doubled();
    let group = (0..10).map(|number| format!("g{number}")).find(|group| low_bits(group) % 2 == 1);
    let group = group.expect("half of all groups are in odd buckets");
    let (stranger, owner, other) = (0, 1, 2);
    let query = |timeout: &str| {
        let yql = "select * from note where true";
        json!({ "yql": yql, "streaming.groupname": group, "timeout": timeout })
    };
    let document = format!("/document/v1/notes/note/group/{group}/{}?timeout=300ms", &group[1..]);
    let answered = |nodes: &TestNodes| {
        for node in [stranger, other] {
            // Half of it is for the owner.
            let (status, answer) = nodes.query(node, &query("6s"));
            assert_eq!((status, &answer["root"]["fields"]["totalCount"]), (200, &json!(3)), "{answer}");
            let coverage = &answer["root"]["coverage"];
            assert_eq!(coverage["degraded"]["non-ideal-state"], json!(true), "{answer}");
            // A document is read at a replica that is known to have all acknowledged writes, or not at all.
            refused(nodes.call(node, Method::GET, &document, ""));
        }
    };
    // It accepts connections, but does not answer.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = silent.local_addr().expect("it is bound").to_string();
    let own = std::mem::replace(&mut nodes.world.addresses.lock()[owner], address);
    answered(&nodes);
    // If another replica cannot answer either, the query ends within its own time limit.
    nodes.world.emptied.lock().insert(other as u16);
    for node in [stranger, other] {
        refused(nodes.query(node, &query("1s")));
    }
    nodes.world.emptied.lock().clear();
    nodes.world.addresses.lock()[owner] = own;
    nodes.stop(owner);
    answered(&nodes);
}

#[test]
fn what_is_being_compared_is_waited_for() {
    for protocol in PROTOCOLS {
        let nodes = with_notes();
        nodes.world.protocol.store(protocol, Ordering::SeqCst);
        let (stranger, owner) = stranger_and_owner("even");
        let query = json!({ "yql": "select * from note where true", "streaming.groupname": "even", "timeout": "20s" });
        for node in [stranger, owner] {
            nodes.world.comparing.store(3, Ordering::SeqCst);
            let (status, answer) = nodes.query(node, &query);
            assert_eq!((status, &answer["root"]["coverage"]["full"]), (200, &json!(true)), "{answer}");
            nodes.world.comparing.store(3, Ordering::SeqCst);
            assert_eq!(nodes.call(node, Method::GET, "/document/v1/notes/note/group/even", "").0, 200);
            assert_eq!(nodes.world.comparing.load(Ordering::SeqCst), 0, "it was read before");
        }
    }
}

#[test]
fn while_replicas_differ_a_document_is_read_at_all_of_them() {
    let nodes = doubled();
    // An owner that came back lacks the writes that the other node has accepted since.
    let id = |number: u32| {
        DocumentId::parse(&format!("id:notes:note:g=g{number}:{number}")).expect("the id of a document")
    };
    let fields = vec![("title".into(), FieldValue::String("changed".to_owned()))];
    let changed = Document { id: id(3), fields };
    let missed = [
        store::DocumentWrite { id: id(3), change: store::StoreChange::Put(changed) },
        store::DocumentWrite { id: id(4), change: store::StoreChange::Remove },
    ];
    for write in missed {
        let (told, written) = std::sync::mpsc::channel();
        nodes.nodes[2].store().write(write, move |outcome| told.send(outcome).expect("it is waited for"));
        written.recv().expect("an answer").expect("it is written");
    }
    let get = |node: usize, number: u32| {
        let path = format!("/document/v1/notes/note/group/g{number}/{number}");
        let (status, answer) = nodes.call(node, Method::GET, &path, "");
        (status, answer["fields"]["title"].clone())
    };
    let old = json!("a note");
    for (differ, third, fourth) in
        [(false, (200, old.clone()), (200, old.clone())), (true, (200, json!("changed")), (404, json!(null)))]
    {
        nodes.world.partial.store(differ, Ordering::SeqCst);
        for node in 0..3 {
            assert_eq!(get(node, 3), third, "node {node}");
            assert_eq!(get(node, 4), fourth, "node {node}");
            assert_eq!(get(node, 5), (200, old.clone()), "node {node}");
        }
    }
}

#[test]
fn coverage_says_what_is_missing() {
    let mut nodes = TestNodes::start(3, NOTE);
    for number in 0..30 {
        let group = format!("g{}", number % 10);
        nodes.put(number as usize % 3, &group, number, &json!({ "title": "a note", "stars": number }));
    }
    let count = |answer: &Value| answer["root"]["fields"]["totalCount"].as_u64().expect("a count");
    let (_, whole) = nodes.query(0, &everything());
    assert_eq!((count(&whole), &whole["root"]["coverage"]["full"]), (30, &json!(true)), "{whole}");

    nodes.world.partial.store(true, Ordering::SeqCst);
    let one_group =
        json!({ "yql": "select * from note where true", "streaming.groupname": "g3", "timeout": "20s" });
    for (node, query) in [(0, &everything()), (0, &one_group), (1, &one_group), (2, &one_group)] {
        let (status, answer) = nodes.query(node, query);
        let coverage = &answer["root"]["coverage"];
        assert_eq!((status, &coverage["full"]), (200, &json!(false)), "{answer}");
        assert_eq!(coverage["degraded"]["non-ideal-state"], json!(true), "{answer}");
        assert_eq!(coverage["degraded"]["timeout"], json!(false), "{answer}");
    }
    nodes.world.partial.store(false, Ordering::SeqCst);

    // Documents that are only on the stopped node are left out.
    nodes.stop(1);
    let (status, answer) = nodes.query(0, &everything());
    let coverage = &answer["root"]["coverage"];
    assert_eq!((status, &coverage["full"]), (200, &json!(false)), "{answer}");
    assert_eq!(coverage["degraded"]["non-ideal-state"], json!(true), "{answer}");
    assert!((1..30).contains(&count(&answer)), "{answer}");
}

/// The address of a node may be that of another process by now, even of one of another cluster.
#[test]
fn a_process_does_not_answer_what_another_is_asked_at_its_address() {
    for protocol in PROTOCOLS {
        let nodes = with_notes();
        nodes.world.protocol.store(protocol, Ordering::SeqCst);
        let (stranger, owner) = stranger_and_owner("even");
        nodes.world.restarted.lock().insert(owner as u16);
        let note = "/document/v1/notes/note/group/even/2?timeout=300ms";
        let all = "/document/v1/notes/note/group/even?cluster=notes&timeout=300ms";
        let changed = r#"{"fields": {"title": "changed"}}"#;
        let query =
            r#"{"yql": "select * from note where true", "streaming.groupname": "even", "timeout": "300ms"}"#;
        let put = r#"{"put": "id:notes:note:g=even:2", "fields": {"title": "changed"}}"#;
        for (method, path, body) in [
            (Method::GET, note, ""),
            (Method::POST, note, changed),
            (Method::PUT, note, changed),
            (Method::DELETE, note, ""),
            (Method::GET, all, ""),
            (Method::DELETE, all, ""),
            (Method::POST, "/search/", query),
            (Method::GET, "/group/v1/even?timeout=300ms", ""),
        ] {
            refused(nodes.call(stranger, method, path, body));
        }
        let fed = nodes.text(stranger, Method::POST, "/feed/v1?timeout=300ms", put);
        assert!(fed.contains("\"status\":503") || fed.contains("\"status\":504"), "{fed}");
        nodes.world.restarted.lock().clear();
        let (status, answer) = nodes.call(stranger, Method::GET, "/document/v1/notes/note/group/even/2", "");
        assert_eq!((status, &answer["fields"]["title"]), (200, &json!("a note")), "nothing was written");
    }
}

#[test]
fn a_query_that_has_no_time_returns_what_it_has_or_an_error() {
    let nodes = with_notes();
    // The share that the factors leave of this time is over at once; the rest is not.
    let query = |more: Value| {
        let yql = "select * from note where true";
        let mut query = json!({ "yql": yql, "streaming.groupname": "even", "timeout": "60s" });
        query.as_object_mut().expect("a map").extend(more.as_object().cloned().expect("a map"));
        nodes.query(0, &query)
    };
    let (status, answer) = query(json!({ "ranking.softtimeout.factor": "0.000000001" }));
    assert_eq!((status, &answer["root"]["errors"][0]["code"]), (200, &json!(12)), "{answer}");
    let (status, answer) =
        query(json!({ "ranking.softtimeout.factor": "0.000000001", "ranking.softtimeout.enable": "false" }));
    assert_eq!(status, 504, "{answer}");
    let (status, answer) = query(json!({ "ranking.softtimeout.factor": "1.5" }));
    assert_eq!(status, 400, "{answer}");
}

#[test]
fn a_write_that_another_node_may_have_made_is_not_said_to_be_refused() {
    let nodes = with_notes();
    let (stranger, owner) = stranger_and_owner("even");
    // The owner accepts the request, and ends.
    let ends = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = ends.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        for connection in ends.incoming() {
            let Ok(mut connection) = connection else { return };
            // A part of it, as proof that it was sent.
            let _ = std::io::Read::read(&mut connection, &mut [0; 64]);
        }
    });
    nodes.world.addresses.lock()[owner] = address;
    let path = "/document/v1/notes/note/group/even/2?timeout=2s";
    let update = r#"{"fields": {"stars": {"increment": 1}}}"#;
    for (method, body) in [(Method::PUT, update), (Method::DELETE, "")] {
        let (status, answer) = nodes.call(stranger, method, path, body);
        assert_eq!(status, 504, "{answer}");
    }
    // A read can be repeated as long as there is time.
    refused(nodes.call(stranger, Method::GET, path, ""));
}

#[test]
fn what_is_written_while_a_group_is_dropped_stays() {
    for divided in [false, true] {
        let nodes = TestNodes::start(3, NOTE);
        if divided {
            nodes.divide("even", 1);
        }
        let nodes = with_notes_at(nodes);
        let parse = |id: &str| DocumentId::parse(id).expect("an id");
        let names = ["id:others:note:g=even:1", "id:notes:note:g=even:2", "id:notes:note:g=even:new"];
        let stars = || vec![(std::sync::Arc::from("stars"), FieldValue::Int(77))];
        let meanwhile = names.map(|id| Document { id: parse(id), fields: stars() });
        *nodes.world.before_drop.lock() = meanwhile.into();
        let path = "/document/v1/notes/note/group/even/?selection=true&cluster=notes&timeout=20s";
        let (status, answer) = nodes.call(1, Method::DELETE, path, "");
        assert_eq!(status, 200, "{answer}");
        assert!(
            nodes.world.before_drop.lock().is_empty(),
            "the group was not dropped as a whole, divided: {divided}: {answer}"
        );
        for id in names {
            let id = parse(id);
            let path = format!("/document/v1/{}/note/group/even/{}", id.namespace(), id.name());
            let (status, answer) = nodes.call(2, Method::GET, &path, "");
            assert_eq!((status, answer["fields"]["stars"].as_i64()), (200, Some(77)), "{answer}");
        }
        assert_eq!(nodes.call(0, Method::GET, "/document/v1/notes/note/group/even/4", "").0, 404);
    }
}

#[test]
fn rewritten_documents_are_outside_of_the_times_of_a_removal() {
    let nodes = with_notes();
    let id = DocumentId::parse("id:notes:note:g=even:2").expect("an id");
    let fields = vec![(std::sync::Arc::from("stars"), FieldValue::Int(77))];
    nodes.world.before_modify.lock().push_back(vec![Document { id, fields }]);
    let now = millrace_env::unix_time();
    let path = format!(
        "/document/v1/notes/note/group/even/?selection=true&cluster=notes&timeout=20s&toTimestamp={}",
        now.as_micros()
    );
    let (status, answer) = nodes.call(1, Method::DELETE, &path, "");
    assert_eq!((status, answer["documentCount"].as_u64()), (200, Some(9)), "{answer}");
    let (status, answer) = nodes.call(2, Method::GET, "/document/v1/notes/note/group/even/2", "");
    assert_eq!((status, answer["fields"]["stars"].as_i64()), (200, Some(77)), "{answer}");
    assert_eq!(nodes.call(0, Method::GET, "/document/v1/notes/note/group/even/4", "").0, 404);
}

#[test]
fn a_node_that_says_nothing_is_passed_over_in_time() {
    let nodes = with_notes();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let (stranger, owner) = stranger_and_owner("even");
    nodes.world.addresses.lock()[owner] = silent.local_addr().expect("it is bound").to_string();
    let (status, answer) = nodes.query(stranger, &everything());
    let coverage = &answer["root"]["coverage"];
    assert_eq!((status, &coverage["full"]), (200, &json!(false)), "{answer}");
    assert_eq!(coverage["degraded"]["non-ideal-state"], json!(true), "{answer}");
}
