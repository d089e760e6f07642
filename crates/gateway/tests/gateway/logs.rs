//! Logs at Elasticsearch's interfaces of a cluster: partitions on several nodes, and bulks that avoid those
//! which do not take them.

use std::cell::Cell;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_bucket::BucketId;
use millrace_document::{
    Document, DocumentGroup, DocumentId, DocumentValue, DocumentVersion, Timestamp, wire,
};
use millrace_fixtures::log_searches::{LogSearches, STREAMS, comparable, log_templates};
use millrace_store::{Store, StoreVisit, VisitedVersion};
use serde_json::{Value, json};

use crate::support::{TestNodes, wait_until};

const NOTE: &str = "schema note { document note { field title type string { indexing: summary | index } } }";

/// Documents of a bulk.
const IN_BULK: usize = 10;

/// Bucket of the catalog, and its owner among three nodes.
const HOME: (BucketId, usize) = (BucketId::new(4, 1), 1);

/// Three nodes with a template for logs of this number of shards.
fn with_template(shards: usize) -> TestNodes {
    let nodes = TestNodes::start(3, NOTE);
    put_template(&nodes, shards);
    nodes
}

fn put_template(nodes: &TestNodes, shards: usize) {
    let settings = json!({ "index.mode": "logsdb", "index.number_of_shards": shards });
    let template = json!({
        "index_patterns": ["logs-*"],
        "data_stream": {},
        "template": { "settings": settings },
    });
    call(nodes, 0, Method::PUT, "/_index_template/logs", &template.to_string());
}

fn call(nodes: &TestNodes, node: usize, method: Method, path: &str, body: &str) -> Value {
    let (status, answer) = nodes.call(node, method, &format!("/elastic{path}"), body);
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

/// Writes a bulk at a node; returns the ids and statuses of its documents.
fn bulk(nodes: &TestNodes, node: usize, number: usize) -> Vec<(String, u64)> {
    let mut body = String::new();
    for line in 0..IN_BULK {
        body.push_str("{\"create\":{}}\n");
        let document = json!({ "@timestamp": 1_700_000_000_000_u64, "bulk": number, "line": line });
        body.push_str(&format!("{document}\n"));
    }
    let answer = call(nodes, node, Method::POST, "/logs-a-b/_bulk", &body);
    let item = |item: &Value| {
        let created = &item["create"];
        (created["_id"].as_str().unwrap_or_default().to_owned(), created["status"].as_u64().unwrap_or(0))
    };
    answer["items"].as_array().expect("items").iter().map(item).collect()
}

/// Writes bulks; all documents are taken.
fn bulks(nodes: &TestNodes, numbers: std::ops::Range<usize>) -> Vec<String> {
    let written = numbers.flat_map(|number| bulk(nodes, number % 3, number));
    written
        .map(|(id, status)| {
            assert_eq!(status, 201, "{id}");
            id
        })
        .collect()
}

/// Writes bulks until each node has some, which costs decide. All documents are taken.
fn bulks_at_all(nodes: &TestNodes) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(120);
    let mut ids = bulks(nodes, 0..12);
    for number in 12.. {
        if stored(nodes).iter().all(|count| *count > 0) {
            break;
        }
        assert!(Instant::now() < until, "{:?}", stored(nodes));
        std::thread::sleep(Duration::from_millis(20));
        ids.extend(bulks(nodes, number..number + 1));
    }
    ids
}

/// Documents of data streams in the store of each node.
fn stored(nodes: &TestNodes) -> Vec<usize> {
    stored_with(nodes, &|document| {
        let text = format!("{:?}", document.get("source"));
        text.contains("bulk") && text.contains("line") && !text.contains("mappings")
    })
}

/// Documents of the service in the store of each node that are of some kind.
fn stored_with(nodes: &TestNodes, is_wanted: &dyn Fn(&Document) -> bool) -> Vec<usize> {
    let of = |node: &std::sync::Arc<millrace_node::Node>| {
        let pass = StoreVisit { wanted: 100_000, ..StoreVisit::all(&["elastic.document"]) };
        let page = node.store().visit(&pass).expect("the store is read");
        let is_event = |version: &&VisitedVersion| match version {
            VisitedVersion::Document(document, _) => is_wanted(document),
            VisitedVersion::Removed(..) => false,
        };
        page.visited.iter().filter(is_event).count()
    };
    nodes.nodes.iter().map(of).collect()
}

fn total(nodes: &TestNodes, node: usize) -> Value {
    call(nodes, node, Method::GET, "/logs-a-b/_count", "")["count"].clone()
}

#[test]
fn partitions_are_on_all_nodes_and_read_from_each() {
    let nodes = with_template(3);
    let ids = bulks_at_all(&nodes);
    let stored_before = stored(&nodes);
    assert!(stored_before.iter().all(|count| count % IN_BULK == 0), "{stored_before:?}");
    assert_eq!(stored_before.iter().sum::<usize>(), ids.len());
    for node in 0..3 {
        assert_eq!(total(&nodes, node), ids.len(), "node {node}");
        let found = call(&nodes, node, Method::GET, "/logs-a-b/_search?q=bulk:7&size=100", "");
        assert_eq!(found["hits"]["hits"].as_array().map(Vec::len), Some(IN_BULK), "{found}");
    }
    let index = call(&nodes, 0, Method::GET, "/_data_stream/logs-a-b", "");
    let index = index["data_streams"][0]["indices"][0]["index_name"].as_str().expect("a name").to_owned();
    for id in ids.iter().step_by(IN_BULK) {
        let found = call(&nodes, 2, Method::GET, &format!("/{index}/_doc/{id}"), "");
        assert_eq!(found["found"], true, "{found}");
    }

    // An id of the client is taken once, wherever its partition is.
    for (number, expected) in [(0, 201), (1, 409)] {
        for id in ["a", "b", "c", "d", "e", "f"] {
            let line = json!({ "@timestamp": 1, "bulk": 99, "line": number });
            let (status, answer) = nodes.call(
                number,
                Method::PUT,
                &format!("/elastic/logs-a-b/_create/{id}"),
                &line.to_string(),
            );
            assert_eq!(status, expected, "{answer}");
        }
    }
    assert_eq!(total(&nodes, 0), ids.len() + 6);

    // Replicas that are being compared are waited for.
    nodes.world.comparing.store(2, Ordering::SeqCst);
    assert_eq!(total(&nodes, 1), ids.len() + 6);
    assert_eq!(nodes.world.comparing.load(Ordering::SeqCst), 0);

    call(&nodes, 2, Method::DELETE, "/_data_stream/logs-a-b", "");
    assert_eq!(stored(&nodes), [0, 0, 0]);
}

#[test]
fn what_an_owner_refuses_goes_to_another_slot() {
    let nodes = with_template(3);
    let before = bulks(&nodes, 0..6).len();
    // All of a bulk, by an owner that was another one a moment ago.
    for number in 6..9 {
        nodes.world.refusals.store(IN_BULK, Ordering::SeqCst);
        bulks(&nodes, number..number + 1);
        assert_eq!(nodes.world.refusals.load(Ordering::SeqCst), 0, "the bulk was refused before");
    }
    assert_eq!(total(&nodes, 0), before + 3 * IN_BULK);
}

#[test]
fn bulks_avoid_a_node_that_is_gone() {
    let mut nodes = with_template(3);
    bulks(&nodes, 0..6);
    let before = stored(&nodes);
    nodes.stop(2);
    for number in 6..18 {
        let written = bulk(&nodes, number % 2, number);
        assert!(written.iter().all(|(_, status)| *status == 201), "{written:?}");
    }
    // The store of the node is closed: the documents are in those of the others.
    nodes.nodes.truncate(2);
    let after = stored(&nodes);
    assert_eq!(after.iter().sum::<usize>(), before[..2].iter().sum::<usize>() + 12 * IN_BULK);
}

/// Takes the place of a node: the first documents of each connection of HTTP/2 are answered with what is no
/// answer. Returns how many were.
fn unread_answers(nodes: &TestNodes, node: usize) -> Arc<AtomicUsize> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    nodes.world.addresses.lock()[node] = listener.local_addr().expect("it is bound").to_string();
    let answered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&answered);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut stream) = connection else { return };
            // An empty SETTINGS frame.
            stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).expect("it reads");
            let (mut read, mut came) = ([0; 4096], Vec::new());
            while !came.windows(4).any(|bytes| bytes == b"bulk") {
                let length = stream.read(&mut read).expect("it sends");
                came.extend_from_slice(&read[..length]);
            }
            count.fetch_add(1, Ordering::SeqCst);
            // Status 200, and a body of one byte.
            let answer = [0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88, 0, 0, 1, 0, 1, 0, 0, 0, 1, b'x'];
            stream.write_all(&answer).expect("it reads");
            stream.shutdown(std::net::Shutdown::Write).expect("it is open");
            while stream.read(&mut read).is_ok_and(|length| length > 0) {}
        }
    });
    answered
}

#[test]
fn what_may_have_been_written_is_written_nowhere_else() {
    let nodes = with_template(3);
    bulks(&nodes, 0..6);
    let answered = unread_answers(&nodes, 2);
    // Slots of a node that was slow at first have no turn until that is forgotten.
    let until = Instant::now() + Duration::from_secs(120);
    let mut failed = 0;
    for number in 6.. {
        let statuses = bulk(&nodes, number % 2, number);
        failed += usize::from(statuses.iter().all(|(_, status)| *status == 503));
        if number >= 18 && answered.load(Ordering::SeqCst) > 0 {
            break;
        }
        assert!(Instant::now() < until, "no bulk goes to the node");
        std::thread::sleep(Duration::from_millis(20));
    }
    let answered = answered.load(Ordering::SeqCst);
    assert!(failed >= answered, "{failed} of {answered} bulks have failed");
}

#[test]
fn another_node_takes_the_catalog_over() {
    let nodes = TestNodes::start(3, NOTE);
    let (home, owner) = HOME;
    nodes.world.placed.lock().insert(home, vec![owner as u16, 0]);
    put_template(&nodes, 3);
    let before = bulks(&nodes, 0..6).len();
    nodes.world.placed.lock().insert(home, vec![0, owner as u16]);
    nodes.world.next_version();
    for node in 0..3 {
        assert_eq!(total(&nodes, node), before, "node {node}");
    }
    bulks(&nodes, 6..9);
    assert_eq!(total(&nodes, 2), before + 3 * IN_BULK);
}

#[test]
fn what_is_written_over_a_change_of_the_cluster_is_seen_after_the_next_one() {
    let nodes = with_template(1);
    let before = bulks(&nodes, 0..2).len();
    // The owner of the partition refuses the documents until the nodes have another state.
    nodes.world.refusals.store(usize::MAX, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| bulks(&nodes, 2..3));
        let until = Instant::now() + Duration::from_secs(120);
        while nodes.world.refusals.load(Ordering::SeqCst) > usize::MAX - IN_BULK {
            assert!(Instant::now() < until, "the bulk does not come");
            std::thread::sleep(Duration::from_millis(5));
        }
        nodes.world.next_version();
        nodes.world.refusals.store(0, Ordering::SeqCst);
        writing.join().expect("the bulk is written");
    });
    nodes.world.next_version();
    let search = json!({ "size": 100, "sort": ["_doc"] }).to_string();
    let found = call(&nodes, 0, Method::POST, "/logs-a-b/_search?scroll=1m", &search);
    assert_eq!(found["hits"]["hits"].as_array().map(Vec::len), Some(before + IN_BULK), "{found}");
}

#[test]
fn a_catalog_that_another_node_may_have_changed_is_no_answer() {
    let nodes = with_template(1);
    bulks(&nodes, 0..1);
    for path in ["/_data_stream/logs-a-b", "/_index_template/logs"] {
        nodes.world.doubts.store(1, Ordering::SeqCst);
        call(&nodes, HOME.1, Method::GET, path, "");
        assert_eq!(nodes.world.doubts.load(Ordering::SeqCst), 0, "{path}: nobody asked whether it counts");
    }
}

/// Three nodes with small partitions of logs. Two have the catalog: its owner, and the first one.
fn with_small_partitions() -> TestNodes {
    let nodes = TestNodes::start(3, NOTE);
    nodes.world.placed.lock().insert(HOME.0, vec![HOME.1 as u16, 0]);
    let settings =
        json!({ "index.mode": "logsdb", "index.number_of_shards": 1, "index.partition.documents": 2 });
    let template =
        json!({ "index_patterns": ["logs-*"], "data_stream": {}, "template": { "settings": settings } });
    call(&nodes, 0, Method::PUT, "/_index_template/logs", &template.to_string());
    nodes
}

/// Gives the catalog to the first node.
fn move_catalog(nodes: &TestNodes) {
    nodes.world.placed.lock().insert(HOME.0, vec![0, HOME.1 as u16]);
    nodes.world.next_version();
}

/// Writes a document with an id at a node.
fn create(nodes: &TestNodes, node: usize, id: &str) -> (u16, Value) {
    let document = json!({ "@timestamp": 1, "bulk": 1, "line": 1 }).to_string();
    nodes.call(node, Method::PUT, &format!("/elastic/logs-a-b/_create/{id}"), &document)
}

/// Checks that a document with an id is not written while an earlier request may write it.
#[track_caller]
fn check_waits(nodes: &TestNodes, id: &str) {
    let (status, answer) = create(nodes, 1, id);
    let reason = format!("may still write the document [{id}]");
    assert!(status == 503 && answer.to_string().contains(&reason), "{status} {answer}");
}

#[test]
fn ids_that_may_be_on_their_way_when_the_catalog_moves_wait() {
    let nodes = with_small_partitions();
    assert_eq!(create(&nodes, 0, "a").0, 201);
    // A larger one fills a partition.
    bulks(&nodes, 0..2);
    nodes.world.next_version();
    assert_eq!((create(&nodes, 1, "a").0, create(&nodes, 2, "b").0), (409, 201), "the catalog has not moved");
    bulks(&nodes, 2..4);
    move_catalog(&nodes);
    assert_eq!((create(&nodes, 1, "a").0, create(&nodes, 2, "b").0), (409, 409), "they are there");
    check_waits(&nodes, "c");
    bulks(&nodes, 4..5);
}

#[test]
fn a_claim_of_ids_that_comes_late_does_not_count() {
    let nodes = with_small_partitions();
    assert_eq!(create(&nodes, 0, "a").0, 201);
    let group = DocumentGroup::Number(0x00e1_a571);
    let id = DocumentId::new("elastic", "elastic.document", &group, "id_writer").expect("an id");
    let stores = [0, HOME.1].map(|node| nodes.nodes[node].store());
    let (mut claim, _) = stores[1].get(&id).expect("the store is read").expect("there is a claim");
    let Some(DocumentValue::String(text)) = claim.get("source") else { panic!("{claim:?}") };
    let of_first = text.replace("\"node\":1,\"run\":2", "\"node\":0,\"run\":1");
    assert_ne!(*text, of_first);
    claim.set(&Arc::from("source"), DocumentValue::String(of_first));
    let version = |store: &Store| store.version(&id).expect("the store is read").expect("there is a claim");
    let newest = stores.map(|store| version(store).timestamp.0).into_iter().max().expect("there are two");
    let body = Some(wire::encode_fields(&claim).into());
    let late = DocumentVersion { id: id.clone(), timestamp: Timestamp(newest + 1), body };
    // The first node was the owner for a moment, and no request saw it.
    nodes.world.next_version();
    assert_eq!(create(&nodes, 1, "b").0, 201);
    for store in stores {
        let (sender, written) = std::sync::mpsc::channel();
        store.apply(vec![late.clone()], move |outcome| sender.send(outcome.is_ok()).expect("the test waits"));
        assert!(written.recv().expect("the store answers"));
    }
    bulks(&nodes, 0..2);
    move_catalog(&nodes);
    check_waits(&nodes, "c");
}

#[test]
fn retention_drops_partitions_of_all_nodes() {
    let nodes = TestNodes::start(3, NOTE);
    put_template(&nodes, 3);
    bulks_at_all(&nodes);
    // Only now: partitions of one node could be dropped before those of another are made.
    call(&nodes, 0, Method::PUT, "/_data_stream/logs-a-b/_lifecycle", r#"{"data_retention":"1s"}"#);
    let until = Instant::now() + Duration::from_secs(120);
    while stored(&nodes) != [0, 0, 0] {
        assert!(Instant::now() < until, "{:?}", stored(&nodes));
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(total(&nodes, 0), 0);
}

/// Places partitions on the first node, and on the last one, whose replicas the owner of the catalog has or
/// not. Those beside the catalog stay with it.
fn place_partitions(nodes: &TestNodes, has_replicas: bool) {
    let mut placed = nodes.world.placed.lock();
    for bits in 0..16 {
        let bucket = BucketId::new(4, bits);
        let of_bucket = match bits % 3 {
            _ if bucket == HOME.0 => vec![HOME.1 as u16],
            2 => vec![0],
            _ if has_replicas => vec![2, HOME.1 as u16],
            _ => vec![2],
        };
        placed.insert(bucket, of_bucket);
    }
    drop(placed);
    nodes.world.next_version();
}

/// Columns of logs that the owner of the catalog has made.
fn columns_made(nodes: &TestNodes) -> u64 {
    let text = nodes.nodes[HOME.1].metrics().prometheus(&[], &[]);
    let mut values = text
        .lines()
        .filter_map(|line| line.strip_prefix("millrace_logs_columns_made")?.rsplit(' ').next()?.parse().ok());
    values.next().unwrap_or_else(|| panic!("columns are counted: {text}"))
}

#[test]
fn columns_of_own_partitions_answer_as_documents_of_other_nodes_do() {
    let nodes = TestNodes::start(3, NOTE);
    place_partitions(&nodes, true);
    let settings = json!({ "index.number_of_shards": 3, "index.partition.documents": 200 });
    for (name, body) in log_templates(settings) {
        call(&nodes, 0, Method::PUT, &format!("/_index_template/{name}"), &body.to_string());
    }
    let LogSearches { searches, bulks, .. } = LogSearches::new(90);
    let written = Cell::new(0_usize);
    let write = |stream: &str, events: &[Value]| {
        let body: String = events.iter().map(|event| format!("{{\"create\":{{}}}}\n{event}\n")).collect();
        let answer = call(&nodes, 0, Method::POST, &format!("/{stream}/_bulk"), &body);
        assert_eq!(answer["errors"], false, "{answer}");
        written.set(written.get() + events.len());
    };
    for (number, bulk) in bulks.iter().enumerate() {
        for events in bulk.chunks(50) {
            STREAMS.iter().for_each(|stream| write(stream, events));
        }
        // The last one is not sealed.
        if number + 2 == bulks.len() {
            nodes.nodes[HOME.1].store().seal().expect("the tail is sealed");
        }
    }
    let stored_events = || {
        stored_with(&nodes, &|document| match document.get("source") {
            Some(DocumentValue::String(text)) => text.contains("\"trace\":\""),
            _ => false,
        })
    };
    // Costs decide which nodes get events.
    let write_until_last_has = |most: usize| {
        let until = Instant::now() + Duration::from_secs(120);
        while stored_events()[2] <= most {
            assert!(Instant::now() < until, "the last node gets no events");
            std::thread::sleep(Duration::from_millis(20));
            STREAMS.iter().for_each(|stream| write(stream, &bulks[0][..50]));
        }
    };
    write_until_last_has(0);
    wait_until("the replicas have all events", || {
        let stored = stored_events();
        stored[0] + stored[HOME.1] == written.get()
    });
    let all = || -> Vec<(u16, Value)> {
        let answer = |(stream, body): &(&str, Value)| {
            let path = format!("/elastic/{stream}/_search");
            let (status, answer) = nodes.call(0, Method::POST, &path, &body.to_string());
            (status, comparable(answer))
        };
        searches.iter().map(answer).collect()
    };
    let by_columns = all();
    assert!(columns_made(&nodes) > 0, "searches make columns of the partitions that their node has");
    place_partitions(&nodes, false);
    for ((search, by_columns), by_documents) in searches.iter().zip(&by_columns).zip(all()) {
        assert_eq!(*by_columns, by_documents, "{search:?}");
    }
    // The store of the owner of the catalog still has the replicas, without the events that come now.
    write_until_last_has(stored_events()[2]);
    let body = json!({ "size": 0, "track_total_hits": true }).to_string();
    let found = |stream: &&str| {
        let answer = call(&nodes, 0, Method::POST, &format!("/{stream}/_search"), &body);
        answer["hits"]["total"]["value"].as_u64().expect("a number") as usize
    };
    assert_eq!(STREAMS.iter().map(found).sum::<usize>(), written.get());
}
