//! Drops of data streams in `logs` mode: by their lifecycles, and with the stream.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::door_support::{TestDoor, directory};
use crate::logs::{found, template, write};

#[test]
fn lifecycles_drop_partitions() {
    let directory = directory();
    let door = TestDoor::open(&directory);
    door.get("PUT /_index_template/logs", &template(json!({ "index.partition.documents": 4 })));
    let numbers = |range: std::ops::Range<i64>| range.map(|n| json!({ "n": n })).collect::<Vec<_>>();
    let mut ids = Vec::new();
    for first in (0..20).step_by(4) {
        ids.extend(write(&door, "logs-a/_bulk", &numbers(first..first + 4)));
    }
    let lifecycle =
        |door: &TestDoor| door.get("GET /_data_stream/logs-*/_lifecycle", "")["data_streams"].clone();
    assert_eq!(lifecycle(&door), json!([{ "name": "logs-a" }]));
    assert_eq!(door.apply_lifecycles(), 0, "without a lifecycle nothing is dropped");
    door.get("PUT /_data_stream/logs-a/_lifecycle", r#"{"data_retention":"1h"}"#);
    assert_eq!(
        lifecycle(&door),
        json!([{ "name": "logs-a", "lifecycle": {
            "enabled": true, "data_retention": "1h", "effective_retention": "1h",
            "retention_determined_by": "data_stream_configuration",
        } }])
    );
    assert_eq!(door.apply_lifecycles(), 0, "nothing is an hour old");
    let explained = door.get("GET /logs-a/_lifecycle/explain", "");
    let of_index = &explained["indices"][".ds-logs-a-000001"];
    assert_eq!((&of_index["managed_by_lifecycle"], &of_index["partitions"]), (&json!(true), &json!(6)));
    std::thread::sleep(std::time::Duration::from_millis(5));
    door.get("PUT /_data_stream/logs-a/_lifecycle", r#"{"data_retention":"1ms"}"#);
    // Partitions that take writes are closed when they are as old, and dropped later.
    let mut dropped = door.apply_lifecycles();
    std::thread::sleep(std::time::Duration::from_millis(5));
    dropped += door.apply_lifecycles();
    assert_eq!(dropped, 5);
    assert_eq!(door.get("GET /logs-a/_count", "")["count"], 0);
    let (status, answer) = door.ask(&format!("GET /.ds-logs-a-000001/_doc/{}", ids[0]), "");
    assert_eq!(status, 404, "{answer}");
    let left = door.stored_documents();
    drop(door);
    let door = TestDoor::open(&directory);
    assert_eq!(door.stored_documents(), left);
    write(&door, "logs-a/_bulk", &numbers(20..22));
    assert_eq!(found(&door, "logs-a", json!({ "match_all": {} }), "n"), [20, 21]);
    door.get("DELETE /_data_stream/logs-a/_lifecycle", "");
    assert_eq!(lifecycle(&door), json!([{ "name": "logs-a" }]));
    for (request, body, status) in [
        ("PUT /_data_stream/logs-a/_lifecycle", r#"{"data_retention":"soon"}"#, 400),
        ("PUT /_data_stream/logs-a/_lifecycle", r#"{"downsampling":[]}"#, 400),
        ("PUT /_data_stream/none/_lifecycle", "{}", 404),
        ("GET /_data_stream/none/_lifecycle", "", 404),
    ] {
        assert_eq!(door.ask(request, body).0, status, "{request} {body}");
    }
    // A deleted stream leaves no document behind.
    door.get("DELETE /_data_stream/logs-a", "");
    let answer = door.get("GET /_data_stream", "");
    assert_eq!(answer["data_streams"], json!([]));
    assert_eq!(door.stored_documents(), 1, "the template is left");
}

/// More than are dropped together, while another stream is written, whose partitions get other numbers.
#[test]
fn many_partitions_are_dropped_together() {
    const PARTITIONS: i64 = 150;
    let directory = directory();
    let door = TestDoor::open(&directory);
    door.get("PUT /_index_template/logs", &template(json!({ "index.partition.documents": 1 })));
    for stream in ["logs-a", "logs-b"] {
        for n in 0..PARTITIONS {
            write(&door, &format!("{stream}/_bulk"), &[json!({ "n": n })]);
        }
    }
    std::thread::scope(|scope| {
        let deleting = scope.spawn(|| door.get("DELETE /_data_stream/logs-a", ""));
        // For as long as the other partitions are dropped, and once more.
        let mut n = 0;
        loop {
            let is_last = deleting.is_finished();
            write(&door, "logs-c/_bulk", &[json!({ "n": n })]);
            n += 1;
            if is_last || n == 900 {
                break;
            }
        }
        deleting.join().expect("the stream is deleted");
        let expected: Vec<Value> = (0..n).map(Value::from).collect();
        assert_eq!(found(&door, "logs-c", json!({ "match_all": {} }), "n"), expected);
    });
    door.get("PUT /_data_stream/logs-b/_lifecycle", r#"{"data_retention":"1ms"}"#);
    // The first time, the partition that takes writes is closed.
    let dropped = [(); 2].map(|()| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        door.apply_lifecycles()
    });
    assert_eq!(dropped.iter().sum::<u64>(), PARTITIONS as u64);
    assert_eq!(door.get("GET /logs-b/_count", "")["count"], 0);
    for stream in ["logs-b", "logs-c"] {
        door.get(&format!("DELETE /_data_stream/{stream}"), "");
    }
    assert_eq!(door.stored_documents(), 1, "the template is left");
    drop(door);
    let door = TestDoor::open(&directory);
    assert_eq!(door.get("GET /_data_stream", "")["data_streams"], json!([]));
    assert_eq!(door.stored_documents(), 1, "the template is left");
}

#[test]
fn lifecycles_drop_indexes_that_take_no_writes() {
    let directory = directory();
    let door = TestDoor::open(&directory);
    let body =
        r#"{"index_patterns":["old-*"],"data_stream":{},"template":{"lifecycle":{"data_retention":"1ms"}}}"#;
    door.get("PUT /_index_template/old", body);
    write(&door, "old-a/_bulk", &[json!({ "n": 1 })]);
    door.get("POST /old-a/_rollover", "");
    write(&door, "old-a/_bulk", &[json!({ "n": 2 })]);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(door.apply_lifecycles(), 1);
    assert_eq!(found(&door, "old-a", json!({ "match_all": {} }), "n"), [2]);
    let stream = &door.get("GET /_data_stream/old-a", "")["data_streams"][0];
    assert_eq!(stream["indices"].as_array().map(Vec::len), Some(1), "{stream}");
}

/// Bulks while partitions are closed, dropped and made: what was acknowledged is there until it is dropped.
#[test]
fn bulks_and_drops_at_the_same_time() {
    let directory = directory();
    let door = TestDoor::open(&directory);
    let settings = json!({ "index.partition.documents": 20, "index.number_of_shards": 2 });
    door.get("PUT /_index_template/logs", &template(settings));
    door.get("PUT /_data_stream/logs-a", "");
    door.get("PUT /_data_stream/logs-a/_lifecycle", r#"{"data_retention":"1ms"}"#);
    let is_dropped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (1..=4)
            .map(|writer| {
                let (door, is_dropped) = (&door, &is_dropped);
                scope.spawn(move || {
                    // Until partitions were dropped beside them, but not for ever.
                    let goes_on = |round: &i64| *round < 25 || !is_dropped.load(Ordering::Relaxed);
                    for round in (0..1_000).take_while(goes_on) {
                        let document = |n: i64| json!({ "n": writer * 100_000 + round * 7 + n });
                        write(door, "logs-a/_bulk", &(0..7).map(document).collect::<Vec<_>>());
                    }
                })
            })
            .collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            if door.apply_lifecycles() > 0 {
                is_dropped.store(true, Ordering::Relaxed);
            }
        }
    });
    assert!(is_dropped.into_inner(), "partitions were dropped under load");
    // Few enough are left for one page of a search.
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        door.apply_lifecycles();
    }
    door.get("DELETE /_data_stream/logs-a/_lifecycle", "");
    let ids = write(&door, "logs-a/_bulk", &[json!({ "n": 9_999 })]);
    assert_eq!(door.get(&format!("GET /.ds-logs-a-000001/_doc/{}", ids[0]), "")["_source"]["n"], 9_999);
    let shown = found(&door, "logs-a", json!({ "match_all": {} }), "n");
    let unique: BTreeSet<i64> = shown.iter().filter_map(Value::as_i64).collect();
    assert_eq!(unique.len(), shown.len(), "no document is there twice");
    assert!(unique.contains(&9_999));
}
