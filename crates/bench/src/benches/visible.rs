//! Visibility of a write in the next query: documents are put and their group queried at once, while other
//! clients write as fast as they can. A query that does not find an acknowledged write fails the benchmark.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hyper::Method;
use millrace_client::Request;

use super::feed::IN_FLIGHT;
use super::{Bench, Settings};
use crate::application;
use crate::clients::{Clients, Requests};
use crate::measure::Samples;
use crate::node::LocalNode;
use crate::puts::{Body, GROUPS, puts};
use crate::{Error, Figure, Report, Unit};

pub(super) const BENCH: Bench = Bench {
    name: "visible",
    about: "put, then query that group at once, under full write load: whether it is found, and how soon",
    run,
};

/// Number of writers in addition to the one that queries.
const WRITERS: usize = IN_FLIGHT - 1;
const TURNS: u32 = 8;
/// First name of the queried documents; those of the writers are smaller.
const FIRST_NAME: u64 = 1 << 40;

fn run(settings: &Settings) -> Result<Report, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let (writers, looking) = (Clients::new(local.url())?, Clients::new(local.url())?);
    let (requests, _) = puts(Body::Small)?;
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
    let mut report = Report::new(BENCH.name);
    report.push(Figure::new(&case, "found", 1.0, Unit::Count("a query")).at_least(1.0));
    report.push(Figure::new(&case, "put p99", put.quantile(0.99), Unit::Seconds));
    report.push(Figure::new(&case, "query p50", query.median(), Unit::Seconds));
    report.push(Figure::new(&case, "query p99", query.quantile(0.99), Unit::Seconds));
    report.push(Figure::new(&case, "put and found p99", both.quantile(0.99), Unit::Seconds));
    report.push(Figure::new(&case, "writes", written.rate(), Unit::PerSecond("documents")));
    report.note(format!("{} documents were put and looked for, and all were found", both.len()));
    Ok(report)
}

/// Puts and queries until it is over: times of the put, of the query, of both.
fn look(clients: &Clients, over: &AtomicBool) -> Result<(Samples, Samples, Samples), Error> {
    let (mut put, mut query, mut both) = (Samples::new(), Samples::new(), Samples::new());
    let mut number = 0;
    while both.is_empty() || !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        clients.at_once(1, std::time::Duration::ZERO, number, &marked())?;
        let acknowledged = Instant::now();
        let group = application::group_name(number % GROUPS);
        let yql = format!("select * from mail where date = {}", date(number));
        let ask = Request::new(Method::GET, "/search/")
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
fn marked() -> Requests {
    Arc::new(|number| {
        let body = format!("{{\"fields\":{{\"text\":\"look\",\"date\":{}}}}}", date(number));
        let path = application::path(number % GROUPS, FIRST_NAME + number);
        Request::new(Method::POST, path).body("application/json", body)
    })
}

/// A unique date: those of the writers are far after it.
fn date(number: u64) -> u64 {
    1 + number
}
