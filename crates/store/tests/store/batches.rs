//! Batches of writes: in order, answered together, and whole after a kill.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use millrace_document::wire;
use millrace_store::{
    CommittedWrite, DocumentWrite, Error, RefusedBatch, Store, StoreChange, StoreModification, StoreOptions,
    StoreVisit, WriteDurability, WriteRefusal, WriteRefusalKind, WriterId,
};

use crate::common::{document, get, id, number, open, options, visited};

const DIRECTORY: &str = "MILLRACE_BATCH_CHILD";
/// Number of rounds; each takes about half a second.
const ROUNDS: &str = "MILLRACE_CRASH_ROUNDS";

/// Number of documents of a batch of the killed process, and the length of their text: several batches take
/// more than one sync covers.
const DOCUMENTS: (usize, usize) = (40, 60_000);

fn put(id_text: &str, number: i64) -> DocumentWrite {
    DocumentWrite { id: id(id_text), change: StoreChange::Put(document(id_text, "text", number)) }
}

fn remove(id_text: &str) -> DocumentWrite {
    DocumentWrite { id: id(id_text), change: StoreChange::Remove }
}

/// Adds to the number of a document; refuses one that is missing.
fn add(id_text: &'static str, more: i64) -> DocumentWrite {
    let change = StoreChange::Modify(Box::new(move |found| match found {
        Some((found, _)) => Ok(StoreModification::Put(document(id_text, "text", number(&found) + more))),
        None => Err(WriteRefusal::new(WriteRefusalKind::Condition, "it is missing")),
    }));
    DocumentWrite { id: id(id_text), change }
}

fn commit(store: &Store, writes: Vec<DocumentWrite>) -> Vec<Result<CommittedWrite, Error>> {
    let (sender, outcomes) = mpsc::channel();
    let send = move |all| sender.send(all).expect("the test waits");
    store
        .write_batch(writes, WriterId::default(), WriteDurability::Synced, send)
        .expect("the store takes writes");
    outcomes.recv_timeout(Duration::from_secs(120)).expect("every batch is answered")
}

#[test]
fn writes_that_were_encoded_before_are_those_of_documents() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    const IDS: [&str; 3] = ["id:n:mail:g=ann:a", "id:n:mail::b", "id:n:mail:n=7:c"];
    let StoreChange::Encoded(encoded) = put(IDS[0], 1).encoded().change else { panic!("a put is encoded") };
    assert_eq!(encoded.fields(), wire::encode_fields(&document(IDS[0], "text", 1)));
    let writes = vec![put(IDS[0], 1), add(IDS[0], 10), put(IDS[1], 2), put(IDS[2], 3), remove(IDS[2])];
    let outcomes = commit(&store, writes.into_iter().map(DocumentWrite::encoded).collect());
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let found = |store: &Store| IDS.map(|id| get(store, id));
    assert_eq!(found(&store), [Some(11), Some(2), None]);
    store.seal().expect("sealed");
    assert_eq!(found(&store), [Some(11), Some(2), None]);
}

#[test]
fn writes_of_one_document_keep_their_order_and_outcomes_theirs() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    const A: &str = "id:n:mail:g=ann:a";
    let outcomes = commit(
        &store,
        vec![
            put(A, 1),
            add("id:n:mail:g=ann:b", 1),
            add(A, 10),
            put("id:n:mail:g=ann:c", 3),
            add(A, 100),
            remove("id:n:mail:g=ann:c"),
        ],
    );
    let shown: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(shown, [true, false, true, true, true, true]);
    let is_refusal = |found: &WriteRefusal| found.kind == WriteRefusalKind::Condition;
    assert!(matches!(&outcomes[1], Err(Error::Refused(found)) if is_refusal(found)), "{outcomes:?}");
    assert_eq!((get(&store, A), get(&store, "id:n:mail:g=ann:c")), (Some(111), None));
    let time = |at: usize| outcomes[at].as_ref().expect("it was written").timestamp;
    assert!(time(0) < time(2) && time(2) < time(4) && time(3) < time(5), "{outcomes:?}");
    assert!(commit(&store, Vec::new()).is_empty());
    assert_eq!(store.status().writes_in_flight, 0);
    store.close();
    assert_eq!(get(&open(options(directory.path())), A), Some(111));
}

#[test]
fn modifications_of_a_batch_see_those_before_them() {
    const DOCUMENTS: usize = 150;
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let id_of = |at: usize| format!("id:n:mail:g=ann:{}", at % DOCUMENTS);
    let count = |at: usize| {
        let id_text = id_of(at);
        let counted = id_text.clone();
        let change = StoreChange::Modify(Box::new(move |found| {
            let before = found.map_or(0, |(found, _)| number(&found));
            if at.is_multiple_of(97) {
                // Longer than those that were taken with it wait.
                std::thread::sleep(Duration::from_millis(12));
            }
            Ok(StoreModification::Put(document(&counted, "text", before + 1)))
        }));
        DocumentWrite { id: id(&id_text), change }
    };
    let outcomes = commit(&store, (0..4 * DOCUMENTS).map(count).collect());
    let written: Vec<CommittedWrite> =
        outcomes.into_iter().map(|outcome| outcome.expect("it was written")).collect();
    for (at, one) in written.iter().enumerate() {
        assert_eq!((one.existed, one.changed), (Some(at >= DOCUMENTS), true), "{at}");
        assert!(at < DOCUMENTS || written[at - DOCUMENTS].timestamp < one.timestamp, "{at}");
    }
    for at in 0..DOCUMENTS {
        assert_eq!(get(&store, &id_of(at)), Some(4));
    }
    assert_eq!(store.status().writes_in_flight, 0);
}

/// The limits of the queue are below the batch: another write is taken on as soon as most of it is done.
#[test]
fn a_modification_that_waits_does_not_hold_the_room_of_its_batch() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(StoreOptions { queue_writes: 20, queue_bytes: 4000, ..options(directory.path()) });
    let (release, released) = mpsc::channel();
    let change = StoreChange::Modify(Box::new(move |_| {
        released.recv().expect("the test releases it");
        Ok(StoreModification::Put(document("id:n:mail:g=ann:slow", "text", 7)))
    }));
    let slow = DocumentWrite { id: id("id:n:mail:g=ann:slow"), change };
    let puts = (0..300).map(|number| put(&format!("id:n:mail:g=ann:{number}"), number));
    let writes = [slow].into_iter().chain(puts).collect();
    let (sender, outcomes) = mpsc::channel();
    let send = move |all: Vec<_>| sender.send(all).expect("the test waits");
    store
        .write_batch(writes, WriterId::default(), WriteDurability::Synced, send)
        .expect("the queue is empty");
    let deadline = Instant::now() + Duration::from_secs(120);
    while store.status().writes_in_flight > 1 {
        assert!(Instant::now() < deadline, "writes that are done count: {:?}", store.status());
        std::thread::yield_now();
    }
    assert!(commit(&store, vec![put("id:n:mail:g=ann:other", 1)])[0].is_ok());
    assert!(outcomes.try_recv().is_err() && store.status().writes_in_flight == 1, "one is not done");
    release.send(()).expect("it waits");
    let all: Vec<Result<CommittedWrite, Error>> =
        outcomes.recv_timeout(Duration::from_secs(120)).expect("the batch is answered");
    assert!(all.len() == 301 && all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!((get(&store, "id:n:mail:g=ann:slow"), store.status().writes_in_flight), (Some(7), 0));
}

#[test]
fn one_bad_id_does_not_fail_the_rest() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(options(directory.path()));
    let long = format!("id:n:mail:g={}:x", "g".repeat(40_000));
    let outcomes =
        commit(&store, vec![put("id:n:mail:g=ann:1", 1), put(&long, 2), put("id:n:mail:g=ann:3", 3)]);
    assert!(matches!(&outcomes[1], Err(Error::IdTooLong { .. })), "{:?}", outcomes[1]);
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
}

#[test]
fn a_refused_batch_comes_back_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    // The tail is full after one document.
    let store = open(StoreOptions { tail_bytes: 1, ..options(directory.path()) });
    assert!(commit(&store, vec![put("id:n:mail:g=ann:0", 1)])[0].is_ok());
    let writes = vec![put("id:n:mail:g=ann:1", 1), remove("id:n:mail:g=ann:2")];
    let done = |_| panic!("a refused batch has no outcomes");
    let Err(RefusedBatch { error, writes }) =
        store.write_batch(writes, WriterId::default(), WriteDurability::Synced, done)
    else {
        panic!("it is full")
    };
    assert!(matches!(error, Error::Overloaded), "{error}");
    let ids: Vec<&str> = writes.iter().map(|write| write.id.as_str()).collect();
    assert_eq!(ids, ["id:n:mail:g=ann:1", "id:n:mail:g=ann:2"]);
}

fn busy(directory: &std::path::Path) -> StoreOptions {
    StoreOptions { tail_bytes: 16 << 20, maintenance: true, ..options(directory) }
}

/// Body of the killed process, not a test of its own. It prints each batch that it saw acknowledged.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let store = open(busy(directory.as_ref()));
    let text = "x".repeat(DOCUMENTS.1);
    let first = std::process::id();
    for batch in 0.. {
        let write = |at: usize| {
            let id_text = format!("id:n:mail:g=user{}:{first}-{batch}-{at}", at % 7);
            let document = document(&id_text, &text, batch);
            DocumentWrite { id: id(&id_text), change: StoreChange::Put(document) }
        };
        let mut writes: Vec<DocumentWrite> = (0..DOCUMENTS.0).map(write).collect();
        let told = move |outcomes: Vec<Result<CommittedWrite, Error>>| {
            if outcomes.iter().all(Result::is_ok) {
                // One call, so that a line is complete or absent; the parent may have ended.
                let _ = std::io::stdout().write_all(format!("ack {first}-{batch}\n").as_bytes());
            }
        };
        while let Err(refused) = store.write_batch(writes, WriterId::default(), WriteDurability::Synced, told)
        {
            writes = refused.writes;
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn batches_are_whole_after_kills_and_acknowledged_ones_are_there() {
    let rounds: u64 = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let directory = tempfile::tempdir().expect("a directory");
    let mut acknowledged = BTreeSet::new();
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().expect("the test knows itself"))
            .args(["--exact", "batches::child", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the child starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, acks) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some((_, batch)) = line.rsplit_once("ack ") {
                    sender.send(batch.to_owned()).expect("the parent waits");
                }
            }
        });
        let first = acks.recv_timeout(Duration::from_secs(120)).expect("the child writes");
        acknowledged.insert(first);
        std::thread::sleep(Duration::from_millis(50 + round * 67));
        child.kill().expect("the child runs until it is killed");
        child.wait().expect("the child ends");
        reader.join().expect("the reader ends");
        acknowledged.extend(acks.try_iter());
        let store = open(busy(directory.path()));
        verify(&store, &acknowledged);
        store.close();
    }
}

#[track_caller]
fn verify(store: &Store, acknowledged: &BTreeSet<String>) {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for (id, _, _) in visited(store, &StoreVisit { wanted: 1_000_000, ..StoreVisit::all(&["mail"]) }) {
        let batch =
            id.rsplit_once(':').and_then(|(_, name)| name.rsplit_once('-')).expect("the child's ids").0;
        *found.entry(batch.to_owned()).or_default() += 1;
    }
    for (batch, count) in &found {
        assert_eq!(*count, DOCUMENTS.0, "batch {batch} is there in part");
    }
    for batch in acknowledged {
        assert!(found.contains_key(batch), "batch {batch} was acknowledged and is lost");
    }
}
