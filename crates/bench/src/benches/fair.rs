//! Cheap queries and gets of many groups beside a client with expensive requests.
//!
//! The neighbours take turns: expensive queries of one group, expensive queries over many groups, scans of
//! all groups, visits, puts. Meanwhile, cheap queries and gets arrive at a steady rate, each from another of
//! a hundred small groups. They are compared with the same requests alone, in the same run. Clients and
//! server share the cores.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use millrace_client::OutgoingRequest;
use millrace_node::WORK_SLICE;
use serde_json::json;

use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker};
use crate::clients::{ClientLatencies, HttpClients, Requests};
use crate::load::load;
use crate::measure::TimeSamples;
use crate::node::{LocalNode, cores};
use crate::puts::{PutBody, puts};
use crate::{BenchReport, Error, Figure, FigureGoal, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "fair",
    about: "cheap queries and gets of 100 groups beside expensive queries, scans, visits and puts, beside the same alone",
    run,
};

/// Mails of the large group, which has the number 0.
const LARGE: u64 = 100_000;
/// Groups beside it, and mails in each.
pub(super) const SMALL_GROUPS: u64 = 100;
pub(super) const SMALL: u64 = 100;
pub(super) const MAIL_BYTES: usize = 250;
/// Requests a second of the cheap queries, and of the gets.
const RATE: f64 = 50.0;
/// Number of times the time of a case for which each neighbour runs: percentiles need samples.
const TIMES: u32 = 6;
/// Time that neighbours ask before they are measured.
const LEAD: Duration = Duration::from_millis(500);
/// Minimum share of the rate alone that expensive queries must keep.
const EXPENSIVE_SHARE_MIN: f64 = 0.9;
/// Bound of others' times: this many times as long as alone, or this many slices more.
const LONGER_MAX: f64 = 2.0;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let mut maker = DocumentMaker::new()?;
    let large = settings.sized(LARGE);
    let ids = (0..large).map(|name| (0, name));
    let ids = ids.chain((1..=SMALL_GROUPS).flat_map(|group| (0..SMALL).map(move |name| (group, name))));
    load(local.node().store(), ids.map(|(group, name)| maker.mail(group, name, MAIL_BYTES)))?;
    let bench = FairnessRun {
        clients: HttpClients::new(local.url())?,
        neighbours: HttpClients::new(local.url())?,
        how_long: settings.time_per_case * TIMES,
    };
    let mut report = BenchReport::new(BENCH.name);
    report.note(format!(
        "slice {:.0} ms; {large} mails in the large group, {SMALL} in each of {SMALL_GROUPS}; {} cores for clients and server",
        WORK_SLICE.as_secs_f64() * 1e3,
        cores()
    ));
    let alone = bench.beside(None)?;
    report.push(Figure::new("alone", "query p99", alone.queries.quantile(0.99), FigureUnit::Seconds));
    report.push(Figure::new("alone", "get p99", alone.gets.quantile(0.99), FigureUnit::Seconds));
    for neighbour in neighbours(large)? {
        let without = match neighbour.share_min {
            Some(_) => {
                Some(bench.neighbours.at_once(neighbour.clients, bench.how_long, 0, &neighbour.requests)?.0)
            }
            None => None,
        };
        let seen = bench.beside(Some(&neighbour))?;
        for (measure, times, peer) in
            [("query p99", &seen.queries, &alone.queries), ("get p99", &seen.gets, &alone.gets)]
        {
            let peer = peer.quantile(0.99);
            let limit = (LONGER_MAX * peer).max(peer + LONGER_MAX * WORK_SLICE.as_secs_f64());
            report.push(
                Figure::new(neighbour.name, measure, times.quantile(0.99), FigureUnit::Seconds)
                    .beside("alone", peer)
                    .with_goal(FigureGoal::AtMost(limit)),
            );
        }
        let rate = Figure::new(
            neighbour.name,
            "neighbour",
            seen.neighbour.rate(),
            FigureUnit::PerSecond("requests"),
        );
        report.push(match without.zip(neighbour.share_min) {
            Some((without, share)) => rate.beside("alone", without.rate()).at_least(share),
            None => rate,
        });
        report.publish(settings.progress);
    }
    Ok(report)
}

struct FairnessRun {
    clients: HttpClients,
    neighbours: HttpClients,
    how_long: Duration,
}

/// A client that asks much.
struct ExpensiveNeighbour {
    name: &'static str,
    clients: usize,
    requests: Requests,
    /// Minimum share of its rate alone that it must keep, if there is one.
    share_min: Option<f64>,
}

/// Times of requests beside a neighbour, and the neighbour's own.
struct NeighbourLatencies {
    queries: TimeSamples,
    gets: TimeSamples,
    neighbour: ClientLatencies,
}

impl FairnessRun {
    /// Cheap queries and gets, beside a neighbour where there is one.
    fn beside(&self, neighbour: Option<&ExpensiveNeighbour>) -> Result<NeighbourLatencies, Error> {
        std::thread::scope(|scope| {
            let busy = neighbour.map(|neighbour| {
                let asking = move || {
                    let how_long = self.how_long + 2 * LEAD;
                    self.neighbours.at_once(neighbour.clients, how_long, 0, &neighbour.requests)
                };
                scope.spawn(asking)
            });
            std::thread::sleep(LEAD);
            let gets = scope.spawn(|| self.clients.at_rate(RATE, self.how_long, 0, &gets()));
            let queries = self.clients.at_rate(RATE, self.how_long, 0, &cheap_queries())?;
            let failed = |_| Error::failed("a thread of the benchmark ended before its time");
            let gets = gets.join().map_err(failed)??;
            let neighbour = busy.map(|busy| busy.join().map_err(failed)?).transpose()?;
            Ok(NeighbourLatencies {
                queries: queries.seen.times,
                gets: gets.seen.times,
                neighbour: neighbour.map(|(seen, _)| seen).unwrap_or_default(),
            })
        })
    }
}

fn neighbours(large: u64) -> Result<Vec<ExpensiveNeighbour>, Error> {
    let all_small: Vec<String> = (1..=SMALL_GROUPS).map(application::group_name).collect();
    let with_small = move |number: u64| {
        let mut groups = vec![application::group_name(0)];
        groups.extend(all_small.iter().skip(number as usize % 50).take(20).cloned());
        json!(groups).to_string()
    };
    let one = expensive(|_| ("streaming.groupname", application::group_name(0)));
    let many = expensive(move |number| ("streaming.groupnames", with_small(number)));
    let scans = expensive(|_| ("streaming.selection", "true".to_owned()));
    let visits: Requests = Arc::new(|_| {
        OutgoingRequest::new(
            Method::GET,
            format!("/document/v1/bench/{}/docid/?wantedDocumentCount=1024", application::TYPE),
        )
    });
    let (put, _) = puts(PutBody::Small)?;
    // No name of a document that was loaded.
    let put: Requests = Arc::new(move |number| put(number + 10 * large));
    let neighbour =
        |name, clients, requests, share_min| ExpensiveNeighbour { name, clients, requests, share_min };
    Ok(vec![
        neighbour("32 expensive queries of one group", 32, one, Some(EXPENSIVE_SHARE_MIN)),
        neighbour("32 expensive queries of many groups", 32, many, Some(EXPENSIVE_SHARE_MIN)),
        neighbour("8 scans of all groups", 8, scans, None),
        neighbour("8 visits of all groups", 8, visits, None),
        neighbour("8 puts", 8, put, None),
    ])
}

/// Builds queries for frequent words, ranked and counted by date, over the documents selected by the
/// parameter.
fn expensive(over: impl Fn(u64) -> (&'static str, String) + Send + Sync + 'static) -> Requests {
    let words: Vec<String> =
        (0..12).map(|word| format!("text contains \"{}\"", application::word(word))).collect();
    let yql = format!(
        "select * from {} where {} limit 10 | all(group(date % 100) max(5) each(output(count())))",
        application::TYPE,
        words.join(" or ")
    );
    Arc::new(move |number| {
        let (name, value) = over(number);
        query(&json!({ "yql": yql, name: value, "timeout": "60s", "presentation.summary": "short" }))
    })
}

pub(super) fn cheap_queries() -> Requests {
    let yql = format!("select * from {} where text contains \"{}\"", application::TYPE, application::word(3));
    Arc::new(move |number| {
        let group = application::group_name(1 + number % SMALL_GROUPS);
        query(
            &json!({ "yql": yql, "streaming.groupname": group, "timeout": "10s", "presentation.summary": "short" }),
        )
    })
}

fn gets() -> Requests {
    Arc::new(|number| {
        OutgoingRequest::new(
            Method::GET,
            application::path(1 + number % SMALL_GROUPS, number / SMALL_GROUPS % SMALL),
        )
    })
}

fn query(body: &serde_json::Value) -> OutgoingRequest {
    OutgoingRequest::new(Method::POST, "/search/").body("application/json", body.to_string())
}
