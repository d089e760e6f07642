//! Logs in partitions: their retention under load, searches over them, and the bytes that an event takes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_client::OutgoingRequest;
use serde_json::{Value, json};

use super::bulk::{IN_FLIGHT, ObservedBatches};
use super::{Benchmark, Settings};
use crate::clients::{HttpClients, Requests};
use crate::limit::{append_durably, read_memory};
use crate::measure;
use crate::node::LocalNode;
use crate::puts::{BATCH, BatchGroups, PutBody, batches};
use crate::random::BenchRandom;
use crate::{BenchReport, Error, Figure, FigureGoal, FigureUnit};

pub(super) const RETENTION: Benchmark = Benchmark {
    name: "bulk --retention",
    about: "100 of 200 partitions of logs dropped while bulks are written, beside appends and bulks without drops",
    run: retention,
};

pub(super) const LOGS: Benchmark = Benchmark {
    name: "bulk --logs",
    about: "events in 200 partitions: counts by level over an hour, the newest 100 with a word, beside reading their bytes",
    run: logs,
};

pub(super) const ASYNC: Benchmark = Benchmark {
    name: "bulk --async",
    about: "batches acknowledged before their sync, beside those after it; bytes of an event beside zstd of the same lines",
    run: unsynced,
};

/// Partitions of all data streams together.
const PARTITIONS: u64 = 200;
/// Events of a partition that is dropped.
const DROPPED_EVENTS: u64 = 4_000;
/// Events of `bulk --logs`, and of `bulk --async`.
const EVENTS: u64 = 10_000_000;
const PACKED_EVENTS: u64 = 400_000;
/// Events of a bulk.
const IN_BULK: u64 = 1_000;
/// Time of the first event, and milliseconds between two partitions.
const FIRST_MS: u64 = 1_700_000_000_000;
const HOUR_MS: u64 = 3_600_000;
/// Time without a merge after which the segments of the partitions stay as they are.
const SETTLED: Duration = Duration::from_secs(2);
const DROP_MAX_S: f64 = 10e-3;
const SPACE_MAX_S: f64 = 10.0;
const P99_MAX: f64 = 1.2;
const READING_MIN: f64 = 0.7;
/// Level of zstd that the bytes are compared with.
const ZSTD_LEVEL: i32 = 3;
const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];
const HOSTS: u64 = 40;

/// One event of a service, as a line of JSON.
fn event(number: u64, time_ms: u64) -> String {
    let mut random = BenchRandom::new(number);
    let mut draw = |below: u64| random.below(below);
    let level = LEVELS[[1, 1, 1, 1, 1, 0, 0, 2, 2, 3][draw(10) as usize]];
    let rare = if number.is_multiple_of(997) { "overflow " } else { "" };
    format!(
        "{{\"@timestamp\":{time_ms},\"level\":\"{level}\",\"service\":\"svc-{}\",\"host\":\"node-{:02}\",\"status\":{},\"took_ms\":{},\
         \"trace\":\"{:016x}\",\"message\":\"{rare}handled request {number} of client {} for /api/v1/items/{} in {} steps\"}}",
        draw(12),
        draw(HOSTS),
        [200, 200, 200, 201, 404, 500][draw(6) as usize],
        draw(900),
        draw(u64::MAX),
        draw(5_000),
        draw(100_000),
        draw(40)
    )
}

/// Bulks of events to a data stream, each of one number, `step_us` microseconds apart.
fn bulks(stream: &str, first: u64, step_us: u64) -> Requests {
    let path = format!("/elastic/{stream}/_bulk");
    Arc::new(move |number| {
        let mut lines = String::new();
        for event_number in first + number * IN_BULK..first + (number + 1) * IN_BULK {
            let time_ms = FIRST_MS + event_number * step_us / 1000;
            // Writing to a text does not fail.
            let _ = writeln!(lines, "{{\"create\":{{}}}}\n{}", event(event_number, time_ms));
        }
        OutgoingRequest::new(Method::POST, path.as_str()).body("application/x-ndjson", lines.into_bytes())
    })
}

/// Makes the template of the data streams, with partitions of this many events.
fn put_template(clients: &HttpClients, events: u64) -> Result<(), Error> {
    let template = json!({
        "index_patterns": ["logs-*"],
        "data_stream": {},
        "template": {
            "settings": { "index.mode": "logsdb", "index.partition.documents": events },
            "mappings": { "properties": {
                "level": { "type": "keyword" }, "service": { "type": "keyword" }, "message": { "type": "text" },
            } },
        },
    });
    let request = OutgoingRequest::new(Method::PUT, "/elastic/_index_template/logs");
    clients.ask(request.body("application/json", template.to_string().into_bytes())).map(drop)
}

/// Writes events one bulk after another, so that they are in the order of their times.
fn load(clients: &HttpClients, requests: &Requests, events: u64) -> Result<(), Error> {
    for number in 0..events.div_ceil(IN_BULK) {
        let answer = clients.ask(requests(number))?.json();
        if answer["errors"] != Value::Bool(false) {
            return Err(Error::failed(format!("a bulk has errors: {answer}")));
        }
    }
    Ok(())
}

/// Partitions of a data stream.
fn partitions(clients: &HttpClients, stream: &str) -> Result<u64, Error> {
    let path = format!("/elastic/{stream}/_lifecycle/explain");
    let answer = clients.ask(OutgoingRequest::new(Method::GET, path.as_str()))?.json();
    let indexes = answer["indices"].as_object().into_iter().flatten();
    Ok(indexes.filter_map(|(_, index)| index["partitions"].as_u64()).sum())
}

/// Files of segments, once no merge has changed them for some time.
fn settled_segments(data: &Path) -> Result<Vec<PathBuf>, Error> {
    let directory = data.join("segments");
    let list = || -> std::io::Result<Vec<PathBuf>> {
        let mut files = std::fs::read_dir(&directory)?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<Vec<_>>>()?;
        files.sort_unstable();
        Ok(files)
    };
    let mut before = list().map_err(Error::file(&directory))?;
    loop {
        std::thread::sleep(SETTLED);
        let after = list().map_err(Error::file(&directory))?;
        if after == before {
            return Ok(after);
        }
        before = after;
    }
}

fn retention(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let clients = HttpClients::new(local.url())?;
    // Partitions are of whole bulks.
    let events = settings.sized(DROPPED_EVENTS).next_multiple_of(IN_BULK);
    put_template(&clients, events)?;
    let store = local.node().store();
    let mut of_old = Vec::new();
    for stream in ["logs-old-a", "logs-new-a"] {
        load(&clients, &bulks(stream, 0, 1_000), events * PARTITIONS / 2)?;
        store.seal().map_err(Error::failed)?;
        if of_old.is_empty() {
            of_old = settled_segments(directory.path())?;
        }
    }
    let there = [partitions(&clients, "logs-old-a")?, partitions(&clients, "logs-new-a")?];
    let written = bulks("logs-live-a", 0, 1_000);
    let (full, next) = clients.at_once(IN_FLIGHT, settings.time_per_case * 2, 0, &written)?;
    let rate = full.rate() / 2.0;
    let quiet = clients.at_rate(rate, settings.time_per_case * 6, next, &written)?;
    let next = next + quiet.seen.times.len();
    let before = store.status();
    let (mut drop_time, mut space_time) = (Duration::ZERO, None);
    let meanwhile = std::thread::scope(|scope| {
        let writing = scope.spawn(|| clients.at_rate(rate, settings.time_per_case * 6, next, &written));
        std::thread::sleep(settings.time_per_case);
        let began = Instant::now();
        let request = OutgoingRequest::new(Method::DELETE, "/elastic/_data_stream/logs-old-a");
        HttpClients::new(local.url())?.ask(request)?;
        drop_time = began.elapsed();
        while began.elapsed() < Duration::from_secs(60) {
            if !of_old.iter().any(|file| file.exists()) {
                space_time = Some(began.elapsed());
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        writing.join().unwrap_or_else(|_| Err(Error::failed("the thread that writes ended before its time")))
    })?;
    let appends = append_durably(directory.path(), std::iter::repeat_n(512, 200))?;
    let case = format!("{} of {} partitions of {events} events", there[0], there[0] + there[1]);
    let mut report = BenchReport::new(RETENTION.name);
    let each_s = drop_time.as_secs_f64() / there[0].max(1) as f64;
    report.push(
        Figure::new(&case, "drop of one", each_s, FigureUnit::Seconds)
            .beside("an append with fsync", appends.median())
            .with_goal(FigureGoal::AtMost(DROP_MAX_S)),
    );
    let space_s = space_time.map_or(f64::INFINITY, |time| time.as_secs_f64());
    report.push(
        Figure::new(&case, "space back", space_s, FigureUnit::Seconds)
            .with_goal(FigureGoal::AtMost(SPACE_MAX_S)),
    );
    let bulk = format!("bulks of {IN_BULK}, {:.0} events/s", rate * IN_BULK as f64);
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let figure = Figure::new(&bulk, name, meanwhile.seen.times.quantile(share), FigureUnit::Seconds)
            .beside("without drops", quiet.seen.times.quantile(share));
        report.push(if share > 0.9 { figure.at_most(P99_MAX) } else { figure });
    }
    let after = store.status();
    report.note(format!(
        "segments had {} MB before and have {} MB after; {} seals, {} merges meanwhile",
        before.segment_bytes >> 20,
        after.segment_bytes >> 20,
        after.seals - before.seals,
        after.merges - before.merges
    ));
    Ok(report)
}

fn logs(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let clients = HttpClients::new(local.url())?;
    let in_partition = (settings.sized(EVENTS) / PARTITIONS).next_multiple_of(IN_BULK);
    let events = in_partition * PARTITIONS;
    put_template(&clients, in_partition)?;
    // A partition has the events of an hour.
    let step_us = HOUR_MS * 1000 / in_partition;
    load(&clients, &bulks("logs-app-a", 0, step_us), events)?;
    local.node().store().seal().map_err(Error::failed)?;
    let there = partitions(&clients, "logs-app-a")?;

    // The events of the hour in the middle: they are in one partition, whose bounds are exact.
    let first = events / 2;
    let from_ms = FIRST_MS + first * step_us / 1000;
    let lines: String = (first..first + in_partition)
        .map(|number| event(number, FIRST_MS + number * step_us / 1000))
        .collect::<Vec<_>>()
        .join("\n");
    let range = json!({ "range": { "@timestamp": { "gte": from_ms, "lt": from_ms + HOUR_MS } } });
    let by_level = json!({
        "size": 0, "query": range, "aggs": { "level": { "terms": { "field": "level" } } },
    });
    let newest = json!({
        "size": 100, "sort": [{ "@timestamp": "desc" }],
        "query": { "bool": { "filter": [range, { "match": { "message": "overflow" } }] } },
    });
    let mut report = BenchReport::new(LOGS.name);
    let case = format!("an hour of {events} events in {there} partitions");
    for (name, query) in [("count by level", by_level), ("newest 100 with a word", newest)] {
        let body = query.to_string();
        let ask = || {
            let request = OutgoingRequest::new(Method::POST, "/elastic/logs-app-a/_search");
            clients.ask(request.body("application/json", body.clone().into_bytes()))
        };
        let answer = ask()?.json();
        let total = answer.pointer("/hits/total/value").and_then(Value::as_u64).unwrap_or(0);
        let least = if name.starts_with("count") { in_partition.min(10_000) } else { in_partition / 997 };
        if total < least {
            return Err(Error::failed(format!("a search found {total} events, not {least}: {answer}")));
        }
        let times = measure::repeatedly(settings.time_per_case, 3, || ask().is_ok());
        let reading = measure::repeatedly(settings.time_per_case, 3, || read_memory(lines.as_bytes()));
        let rate = |seconds: f64| lines.len() as f64 / seconds;
        report.push(
            Figure::new(&case, name, rate(times.median()), FigureUnit::PerSecond("bytes"))
                .beside("reading the same bytes in memory", rate(reading.median()))
                .at_least(READING_MIN),
        );
        report.push(Figure::new(&case, format!("{name}, p50"), times.median(), FigureUnit::Seconds));
    }
    Ok(report)
}

fn unsynced(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let clients = HttpClients::new(local.url())?;
    let (synced, bytes) = batches(PutBody::Line, BatchGroups::Many)?;
    let body_of = Arc::clone(&synced);
    let not_synced: Requests = Arc::new(move |number| body_of(number).parameter("durability", "async"));
    let [mut waiting, mut ahead] = [(); 2].map(|()| ObservedBatches::default());
    let mut next = 0;
    for _ in 0..4 {
        let time = settings.time_per_case;
        next = waiting.round(next, |first| clients.at_once(IN_FLIGHT, time, first, &synced))?;
        next = ahead.round(next, |first| clients.at_once(IN_FLIGHT, time, first, &not_synced))?;
    }
    let mut report = BenchReport::new(ASYNC.name);
    let case = format!("{BATCH} documents of {} bytes", bytes as u64 / BATCH);
    report.push(
        Figure::new(&case, "rate", ahead.seen.rate() * BATCH as f64, FigureUnit::PerSecond("documents"))
            .beside("synced before the answer", waiting.seen.rate() * BATCH as f64),
    );
    report.push(
        Figure::new(&case, "p99", ahead.seen.times.quantile(0.99), FigureUnit::Seconds)
            .beside("synced before the answer", waiting.seen.times.quantile(0.99)),
    );
    drop(clients);
    drop(local);

    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let clients = HttpClients::new(local.url())?;
    let events = settings.sized(PACKED_EVENTS).next_multiple_of(IN_BULK);
    put_template(&clients, 400_000)?;
    load(&clients, &bulks("logs-app-a", 0, 1_000), events)?;
    local.node().store().seal().map_err(Error::failed)?;
    let lines: Vec<String> = (0..events).map(|number| event(number, FIRST_MS + number)).collect();
    let lines = lines.join("\n");
    let mut compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(Error::failed)?;
    let packed = compressor.compress(lines.as_bytes()).map_err(Error::failed)?.len();
    let status = local.node().store().status();
    let each = |bytes: u64| bytes as f64 / events as f64;
    let case = format!("{events} events of {:.0} bytes", each(lines.len() as u64));
    report.push(
        Figure::new(&case, "an event in segments", each(status.segment_bytes), FigureUnit::Count("bytes"))
            .beside("zstd of the same lines", each(packed as u64)),
    );
    Ok(report)
}
