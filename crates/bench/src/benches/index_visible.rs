//! Visibility of a write in the next query of an index: documents are put and looked for over all groups at
//! once, while other clients write as fast as they can; and the rate of these writes with and without an
//! index.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_client::OutgoingRequest;

use super::feed::IN_FLIGHT;
use super::visible::{date, marked};
use super::{Benchmark, Settings};
use crate::application::{self, IndexesOfMail};
use crate::clients::{HttpClients, Requests};
use crate::measure::TimeSamples;
use crate::node::LocalNode;
use crate::puts::{PutBody, puts};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "index-visible",
    about: "put, then look for it over all groups by an index, under full write load; and the writes beside those without an index",
    run,
};

const WRITES_MIN: f64 = 0.9;
/// Number of writers in addition to the one that looks.
const WRITERS: usize = IN_FLIGHT - 1;
/// Turns in which writes with and without an index are measured.
const ROUNDS: usize = 5;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let indexes = IndexesOfMail { count: 1, deferred: false };
    let mut with = WrittenNode::start(&directory.path().join("with"), application::indexed(indexes)?)?;
    let mut without = WrittenNode::start(&directory.path().join("without"), application::application()?)?;
    let requests = puts(PutBody::Small)?.0;
    for _ in 0..ROUNDS {
        without.write(settings.time_per_case, &requests)?;
        with.write(settings.time_per_case, &requests)?;
    }
    let (case, looking) = (format!("{WRITERS} writers"), HttpClients::new(with.local.url())?);
    let over = AtomicBool::new(false);
    let looked = std::thread::scope(|scope| {
        let looked = scope.spawn(|| look(&looking, &over));
        let written = with.write(settings.time_per_case * ROUNDS as u32, &requests);
        over.store(true, Ordering::Relaxed);
        let looked = looked
            .join()
            .unwrap_or_else(|_| Err(Error::failed("the thread that looks ended before its time")));
        written.and(looked)
    });
    let (put, query) = looked?;
    let mut report = BenchReport::new(BENCH.name);
    report.push(
        Figure::new(&case, "writes", with.rate(), FigureUnit::PerSecond("documents"))
            .beside("no index", without.rate())
            .at_least(WRITES_MIN),
    );
    let case = format!("{case} beside it");
    report.push(Figure::new(&case, "found", 1.0, FigureUnit::Count("a query")).at_least(1.0));
    report.push(Figure::new(&case, "put p99", put.quantile(0.99), FigureUnit::Seconds));
    report.push(Figure::new(&case, "query p50", query.median(), FigureUnit::Seconds));
    report.push(Figure::new(&case, "query p99", query.quantile(0.99), FigureUnit::Seconds));
    report.note(format!("{} documents were put and looked for, and all were found", query.len()));
    Ok(report)
}

/// A node that is written to in turns.
struct WrittenNode {
    local: LocalNode,
    clients: HttpClients,
    next: u64,
    rates: Vec<f64>,
}

impl WrittenNode {
    fn start(directory: &Path, application: millrace_schema::Application) -> Result<Self, Error> {
        let local = LocalNode::start_with(directory, application)?;
        let clients = HttpClients::new(local.url())?;
        Ok(WrittenNode { local, clients, next: 0, rates: Vec::new() })
    }

    fn write(&mut self, how_long: Duration, requests: &Requests) -> Result<(), Error> {
        let (written, next) = self.clients.at_once(WRITERS, how_long, self.next, requests)?;
        self.next = next;
        self.rates.push(written.rate());
        Ok(())
    }

    /// Median of the documents a second of the first turns.
    fn rate(&self) -> f64 {
        let mut rates = self.rates[..ROUNDS].to_vec();
        rates.sort_unstable_by(f64::total_cmp);
        rates[ROUNDS / 2]
    }
}

/// Puts documents and looks for them until it is over: times of the put and of the query.
fn look(clients: &HttpClients, over: &AtomicBool) -> Result<(TimeSamples, TimeSamples), Error> {
    let (mut put, mut query) = (TimeSamples::new(), TimeSamples::new());
    let mut number = 0;
    while query.is_empty() || !over.load(Ordering::Relaxed) {
        let began = Instant::now();
        clients.at_once(1, Duration::ZERO, number, &marked())?;
        let acknowledged = Instant::now();
        let yql = format!("select * from mail where date = {}", date(number));
        let ask = OutgoingRequest::new(Method::GET, "/search/")
            .parameter("yql", &yql)
            .parameter("streaming.selection", "true")
            .parameter("index.use", &application::index_name(0))
            .parameter("presentation.summary", "short");
        let answer = clients.query(ask)?;
        query.add(acknowledged.elapsed());
        put.add(acknowledged - began);
        if answer.matches != 1 {
            return Err(Error::Failed(format!(
                "document {number} was acknowledged and not found: {answer:?}"
            )));
        }
        number += 1;
    }
    Ok((put, query))
}
