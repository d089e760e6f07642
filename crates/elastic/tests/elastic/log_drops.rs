//! Drops of data streams in `logs` mode: by their lifecycles, and with the stream.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::logs::{found, template, write};
use crate::service_support::{TestService, directory};

#[test]
fn lifecycles_drop_partitions() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({ "index.partition.documents": 4 })));
    let numbers = |range: std::ops::Range<i64>| range.map(|n| json!({ "n": n })).collect::<Vec<_>>();
    let mut ids = Vec::new();
    for first in (0..20).step_by(4) {
        ids.extend(write(&service, "logs-a/_bulk", &numbers(first..first + 4)));
    }
    let lifecycle = |service: &TestService| {
        service.get("GET /_data_stream/logs-*/_lifecycle", "")["data_streams"].clone()
    };
    assert_eq!(lifecycle(&service), json!([{ "name": "logs-a" }]));
    assert_eq!(service.apply_lifecycles(), 0, "without a lifecycle nothing is dropped");
    service.get("PUT /_data_stream/logs-a/_lifecycle", r#"{"data_retention":"1h"}"#);
    assert_eq!(
        lifecycle(&service),
        json!([{ "name": "logs-a", "lifecycle": {
            "enabled": true, "data_retention": "1h", "effective_retention": "1h",
            "retention_determined_by": "data_stream_configuration",
        } }])
    );
    assert_eq!(service.apply_lifecycles(), 0, "nothing is an hour old");
    let explained = service.get("GET /logs-a/_lifecycle/explain", "");
    let of_index = &explained["indices"][".ds-logs-a-000001"];
    assert_eq!((&of_index["managed_by_lifecycle"], &of_index["partitions"]), (&json!(true), &json!(6)));
    std::thread::sleep(std::time::Duration::from_millis(5));
    service.get("PUT /_data_stream/logs-a/_lifecycle", r#"{"data_retention":"1ms"}"#);
    // Partitions that take writes are closed when they are as old, and dropped later.
    let mut dropped = service.apply_lifecycles();
    std::thread::sleep(std::time::Duration::from_millis(5));
    dropped += service.apply_lifecycles();
    assert_eq!(dropped, 5);
    assert_eq!(service.get("GET /logs-a/_count", "")["count"], 0);
    let (status, answer) = service.ask(&format!("GET /.ds-logs-a-000001/_doc/{}", ids[0]), "");
    assert_eq!(status, 404, "{answer}");
    let left = service.stored_documents();
    drop(service);
    let service = TestService::open(&directory);
    assert_eq!(service.stored_documents(), left);
    write(&service, "logs-a/_bulk", &numbers(20..22));
    assert_eq!(found(&service, "logs-a", json!({ "match_all": {} }), "n"), [20, 21]);
    service.get("DELETE /_data_stream/logs-a/_lifecycle", "");
    assert_eq!(lifecycle(&service), json!([{ "name": "logs-a" }]));
    for (request, body, status) in [
        ("PUT /_data_stream/logs-a/_lifecycle", r#"{"data_retention":"soon"}"#, 400),
        ("PUT /_data_stream/logs-a/_lifecycle", r#"{"downsampling":[]}"#, 400),
        ("PUT /_data_stream/none/_lifecycle", "{}", 404),
        ("GET /_data_stream/none/_lifecycle", "", 404),
    ] {
        assert_eq!(service.ask(request, body).0, status, "{request} {body}");
    }
    // A deleted stream leaves no document behind.
    service.get("DELETE /_data_stream/logs-a", "");
    let answer = service.get("GET /_data_stream", "");
    assert_eq!(answer["data_streams"], json!([]));
    assert_eq!(service.stored_documents(), 1, "the template is left");
}

/// More than are dropped together, while another stream is written, whose partitions get other numbers.
#[test]
fn many_partitions_are_dropped_together() {
    const PARTITIONS: i64 = 150;
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({ "index.partition.documents": 1 })));
    for stream in ["logs-a", "logs-b"] {
        for n in 0..PARTITIONS {
            write(&service, &format!("{stream}/_bulk"), &[json!({ "n": n })]);
        }
    }
    std::thread::scope(|scope| {
        let deleting = scope.spawn(|| service.get("DELETE /_data_stream/logs-a", ""));
        // For as long as the other partitions are dropped, and once more.
        let mut n = 0;
        loop {
            let is_last = deleting.is_finished();
            write(&service, "logs-c/_bulk", &[json!({ "n": n })]);
            n += 1;
            if is_last || n == 900 {
                break;
            }
        }
        deleting.join().expect("the stream is deleted");
        let expected: Vec<Value> = (0..n).map(Value::from).collect();
        assert_eq!(found(&service, "logs-c", json!({ "match_all": {} }), "n"), expected);
    });
    service.get("PUT /_data_stream/logs-b/_lifecycle", r#"{"data_retention":"1ms"}"#);
    // The first time, the partition that takes writes is closed.
    let dropped = [(); 2].map(|()| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        service.apply_lifecycles()
    });
    assert_eq!(dropped.iter().sum::<u64>(), PARTITIONS as u64);
    assert_eq!(service.get("GET /logs-b/_count", "")["count"], 0);
    for stream in ["logs-b", "logs-c"] {
        service.get(&format!("DELETE /_data_stream/{stream}"), "");
    }
    assert_eq!(service.stored_documents(), 1, "the template is left");
    drop(service);
    let service = TestService::open(&directory);
    assert_eq!(service.get("GET /_data_stream", "")["data_streams"], json!([]));
    assert_eq!(service.stored_documents(), 1, "the template is left");
}

#[test]
fn lifecycles_drop_indexes_that_take_no_writes() {
    let directory = directory();
    let service = TestService::open(&directory);
    let body =
        r#"{"index_patterns":["old-*"],"data_stream":{},"template":{"lifecycle":{"data_retention":"1ms"}}}"#;
    service.get("PUT /_index_template/old", body);
    write(&service, "old-a/_bulk", &[json!({ "@timestamp": "2026-01-01", "n": 1 })]);
    service.get("POST /old-a/_rollover", "");
    write(&service, "old-a/_bulk", &[json!({ "@timestamp": "2026-01-01", "n": 2 })]);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(service.apply_lifecycles(), 1);
    assert_eq!(found(&service, "old-a", json!({ "match_all": {} }), "n"), [2]);
    let stream = &service.get("GET /_data_stream/old-a", "")["data_streams"][0];
    assert_eq!(stream["indices"].as_array().map(Vec::len), Some(1), "{stream}");
}

/// Bulks while partitions are closed, dropped and made: what was acknowledged is there until it is dropped.
#[test]
fn bulks_and_drops_at_the_same_time() {
    let directory = directory();
    let service = TestService::open(&directory);
    let settings = json!({ "index.partition.documents": 20, "index.number_of_shards": 2 });
    service.get("PUT /_index_template/logs", &template(settings));
    service.get("PUT /_data_stream/logs-a", "");
    service.get("PUT /_data_stream/logs-a/_lifecycle", r#"{"data_retention":"1ms"}"#);
    let is_dropped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (1..=4)
            .map(|writer| {
                let (service, is_dropped) = (&service, &is_dropped);
                scope.spawn(move || {
                    // Until partitions were dropped beside them, but not for ever.
                    let goes_on = |round: &i64| *round < 25 || !is_dropped.load(Ordering::Relaxed);
                    for round in (0..1_000).take_while(goes_on) {
                        let document = |n: i64| json!({ "n": writer * 100_000 + round * 7 + n });
                        write(service, "logs-a/_bulk", &(0..7).map(document).collect::<Vec<_>>());
                    }
                })
            })
            .collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            if service.apply_lifecycles() > 0 {
                is_dropped.store(true, Ordering::Relaxed);
            }
        }
    });
    assert!(is_dropped.into_inner(), "partitions were dropped under load");
    // Few enough are left for one page of a search.
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        service.apply_lifecycles();
    }
    service.get("DELETE /_data_stream/logs-a/_lifecycle", "");
    let ids = write(&service, "logs-a/_bulk", &[json!({ "n": 9_999 })]);
    assert_eq!(service.get(&format!("GET /.ds-logs-a-000001/_doc/{}", ids[0]), "")["_source"]["n"], 9_999);
    let shown = found(&service, "logs-a", json!({ "match_all": {} }), "n");
    let unique: BTreeSet<i64> = shown.iter().filter_map(Value::as_i64).collect();
    assert_eq!(unique.len(), shown.len(), "no document is there twice");
    assert!(unique.contains(&9_999));
}
