//! A process is killed at random instants while it writes, seals and merges: every write that it saw
//! acknowledged must be there.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use millrace_store::{DocumentWrite, Store, StoreChange, StoreOptions, StoreTuning, StoreVisit};
use xxhash_rust::xxh3::xxh3_64;

use crate::common::{document, get, id, open, options, visited};

const DIRECTORY: &str = "MILLRACE_CRASH_CHILD";
const ROUND: &str = "MILLRACE_CRASH_ROUND";
/// Number of rounds; each takes about a quarter of a second.
const ROUNDS: &str = "MILLRACE_CRASH_ROUNDS";

fn busy(directory: &std::path::Path) -> StoreOptions {
    StoreOptions {
        tail_bytes: 64 << 10,
        tuning: StoreTuning { split_documents: 500, ..StoreTuning::default() },
        maintenance: true,
        seal_idle: Duration::from_millis(20),
        ..options(directory)
    }
}

/// Content that the child writes for a document in a round: `None`, a removal.
fn number_of(round: u64, name: u64) -> Option<i64> {
    let draw = xxh3_64(&[round.to_le_bytes(), name.to_le_bytes()].concat());
    (!draw.is_multiple_of(5)).then_some((draw % 1_000_000) as i64)
}

fn id_of(name: u64) -> String {
    format!("id:n:mail:g=user{}:{name}", name % 17)
}

/// Body of the killed process, not a test of its own. It prints each document that it saw acknowledged.
#[test]
fn child() {
    let (Ok(directory), Ok(round)) = (std::env::var(DIRECTORY), std::env::var(ROUND)) else { return };
    let round: u64 = round.parse().expect("the parent gives a number");
    let store = open(busy(directory.as_ref()));
    for name in (0..).map(|step: u64| xxh3_64(&(round << 32 | step).to_le_bytes()) % 5000) {
        let id_text = id_of(name);
        let change = match number_of(round, name) {
            Some(number) => StoreChange::Put(document(&id_text, "some words of text", number)),
            None => StoreChange::Remove,
        };
        store.write(DocumentWrite { id: id(&id_text), change }, move |outcome| {
            if outcome.is_ok() {
                // One call, so that a line is complete or absent; the parent may have ended.
                let _ = std::io::stdout().write_all(format!("ack {name}\n").as_bytes());
            }
        });
        while store.status().writes_in_flight > 64 {
            std::thread::yield_now();
        }
    }
}

fn round(directory: &std::path::Path, round: u64, model: &mut BTreeMap<u64, Vec<Option<i64>>>) {
    let mut child = Command::new(std::env::current_exe().expect("the test knows itself"))
        .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the child starts");
    let output = child.stdout.take().expect("it is piped");
    let reader = std::thread::spawn(move || -> Vec<u64> {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.filter_map(|line| line.rsplit_once("ack ")?.1.parse().ok()).collect()
    });
    std::thread::sleep(Duration::from_millis(60 + xxh3_64(&round.to_le_bytes()) % 300));
    child.kill().expect("the child runs until it is killed");
    child.wait().expect("the child ends");
    let acknowledged = reader.join().expect("the reader ends");
    // Writes of a round are the same at any time; more than the acknowledged ones may be there.
    for name in 0..5000 {
        let written = number_of(round, name);
        let possible = model.entry(name).or_insert_with(|| vec![None]);
        if acknowledged.contains(&name) {
            *possible = vec![written];
        } else if !possible.contains(&written) {
            possible.push(written);
        }
    }
    let store = open(busy(directory));
    verify(&store, model);
    assert_eq!(store.status().failures, Vec::<String>::new());
}

fn verify(store: &Store, model: &mut BTreeMap<u64, Vec<Option<i64>>>) {
    let found: BTreeMap<String, Option<i64>> =
        visited(store, &StoreVisit { wanted: 10_000, ..StoreVisit::all(&["mail"]) })
            .into_iter()
            .map(|(id, number, _)| (id, number))
            .collect();
    for (name, possible) in model {
        let number = found.get(&id_of(*name)).copied().flatten();
        assert!(possible.contains(&number), "{}: {number:?} is none of {possible:?}", id_of(*name));
        // The current contents are durable.
        *possible = vec![number];
    }
    assert_eq!(get(store, &id_of(3)), found.get(&id_of(3)).copied().flatten());
}

#[test]
fn acknowledged_writes_survive_kills() {
    let rounds = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4);
    let directory = tempfile::tempdir().expect("a directory");
    let mut model = BTreeMap::new();
    (0..rounds).for_each(|number| round(directory.path(), number, &mut model));
    let report = millrace_store::check(directory.path()).expect("checked");
    assert!(
        report.findings.iter().all(|finding| finding.cure.starts_with("nothing")),
        "{:?}",
        report.findings
    );
}
