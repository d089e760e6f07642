//! The process is killed at random instants during concurrent writes: acknowledged writes are there, and
//! nothing that was not sent.
//!
//! `MILLRACE_KILL_ROUNDS` sets the number of rounds.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use support::TestServer;
use support::writers::{ExpectedDocument, TestWriters};

/// Number of concurrent writers.
const WRITERS: usize = 8;

fn rounds() -> u64 {
    std::env::var("MILLRACE_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

#[test]
fn killed_under_load() {
    let mut server = TestServer::with_notes();
    let mut expected: BTreeMap<String, ExpectedDocument> = BTreeMap::new();
    let mut draw = 0x9E37_79B9_7F4A_7C15_u64;
    for round in 0..rounds() {
        let writers = TestWriters::start(&server.url(), WRITERS, round);
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(30 + (draw >> 33) % 600));
        server.kill();
        let acknowledged = writers.stop(&mut expected);
        server.start_again();
        assert!(acknowledged > 0, "round {round}: nothing was written");
        support::writers::check(&server, &mut expected, &format!("round {round}"));
    }
    server.terminate();
    let checked = server.millrace(&["doctor", server.data_dir().to_str().expect("a path of text")]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn stopped_under_load() {
    let mut server = TestServer::with_notes();
    let mut expected: BTreeMap<String, ExpectedDocument> = BTreeMap::new();
    for round in 0..2 {
        let writers = TestWriters::start(&server.url(), WRITERS, round);
        std::thread::sleep(Duration::from_millis(300));
        server.terminate();
        assert!(writers.stop(&mut expected) > 0);
        server.start_again();
        support::writers::check(&server, &mut expected, &format!("round {round}"));
    }
}
