//! Visibility of a write in the next query: documents are put and their group queried at once, while other
//! clients write as fast as they can. A query that does not find an acknowledged write fails the benchmark.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hyper::Method;
use millrace_client::OutgoingRequest;

use super::feed::IN_FLIGHT;
use super::{Benchmark, Settings};
use crate::application;
use crate::clients::{HttpClients, Requests};
use crate::measure::TimeSamples;
use crate::node::LocalNode;
use crate::puts::{GROUPS, PutBody, puts};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "visible",
    about: "put, then query that group at once, under full write load: whether it is found, and how soon",
    run,
};

/// Number of writers in addition to the one that queries.
const WRITERS: usize = IN_FLIGHT - 1;
const TURNS: u32 = 8;
/// First name of the queried documents; those of the writers are smaller.
const FIRST_NAME: u64 = 1 << 40;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let (writers, looking) = (HttpClients::new(local.url())?, HttpClients::new(local.url())?);
    let (requests, _) = puts(PutBody::Small)?;
    let over = Arc::new(AtomicBool::new(false));
    let (written, looked) = std::thread::scope(|scope| {
        let looked = scope.spawn(|| look(&looking, &over));
        let written = writers.at_once(WRITERS, settings.time_per_case * TURNS, 0, &requests);
        over.store(true, Ordering::Relaxed);
        let looked = looked
            .join()
            .unwrap_or_else(|_| Err(Error::failed("the thread that looks ended before its time")));
        (written, looked)
    });
    let ((written, _), (put, query, both)) = (written?, looked?);
    let case = format!("{WRITERS} writers beside it");
    let mut report = BenchReport::new(BENCH.name);
    report.push(Figure::new(&case, "found", 1.0, FigureUnit::Count("a query")).at_least(1.0));
    report.push(Figure::new(&case, "put p99", put.quantile(0.99), FigureUnit::Seconds));
    report.push(Figure::new(&case, "query p50", query.median(), FigureUnit::Seconds));
    report.push(Figure::new(&case, "query p99", query.quantile(0.99), FigureUnit::Seconds));
    report.push(Figure::new(&case, "put and found p99", both.quantile(0.99), FigureUnit::Seconds));
    report.push(Figure::new(&case, "writes", written.rate(), FigureUnit::PerSecond("documents")));
    report.note(format!("{} documents were put and looked for, and all were found", both.len()));
    Ok(report)
}

/// Puts and queries until it is over: times of the put, of the query, of both.
fn look(clients: &HttpClients, over: &AtomicBool) -> Result<(TimeSamples, TimeSamples, TimeSamples), Error> {
    let (mut put, mut query, mut both) = (TimeSamples::new(), TimeSamples::new(), TimeSamples::new());
    let mut number = 0;
    while both.is_empty() || !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        clients.at_once(1, std::time::Duration::ZERO, number, &marked())?;
        let acknowledged = Instant::now();
        let group = application::group_name(number % GROUPS);
        let yql = format!("select * from mail where date = {}", date(number));
        let ask = OutgoingRequest::new(Method::GET, "/search/")
            .parameter("yql", &yql)
            .parameter("streaming.groupname", &group)
            .parameter("presentation.summary", "short");
        let answer = clients.query(ask)?;
        let found = Instant::now();
        if answer.matches != 1 {
            return Err(Error::Failed(format!(
                "document {number} was acknowledged and not found: {answer:?}"
            )));
        }
        put.add(acknowledged - began);
        query.add(found - acknowledged);
        both.add(found - began);
        number += 1;
    }
    Ok((put, query, both))
}

/// Puts of documents with unique dates.
pub(super) fn marked() -> Requests {
    Arc::new(|number| {
        let body = format!("{{\"fields\":{{\"text\":\"look\",\"date\":{}}}}}", date(number));
        let path = application::path(number % GROUPS, FIRST_NAME + number);
        OutgoingRequest::new(Method::POST, path).body("application/json", body)
    })
}

/// A unique date: those of the writers are far after it.
pub(super) fn date(number: u64) -> u64 {
    1 + number
}
