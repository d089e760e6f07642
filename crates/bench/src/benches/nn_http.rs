//! Exact nearest neighbours through `/search/`: 1, 2, 8 and 32 clients, each with a connection of its own, on
//! the same cores as the server.
//!
//! Two limits, both measured in the same run: the engine alone on one thread, for the addition of HTTP,
//! parsing and rendering to one query; and the engine alone on all cores, for the number of queries that they
//! leave room for.

use std::sync::Arc;
use std::time::Instant;

use hyper::Method;
use millrace_client::OutgoingRequest;

use super::nn::{HITS, TYPICAL, nearest, parameters};
use super::{Benchmark, Settings};
use crate::application::DocumentMaker;
use crate::clients::{HttpClients, Requests};
use crate::engine::{RepeatableQuery, SearchEngine};
use crate::load::load;
use crate::measure::TimeSamples;
use crate::node::{LocalNode, cores};
use crate::{BenchReport, CurvePlot, Error, Figure, FigureGoal, FigureUnit, PlotAxis, PlotCurve, measure};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "nn --http",
    about: "the same through /search/ with 1 to 32 clients, beside the engine alone on the same cores",
    run,
};

const CLIENTS: [usize; 4] = [1, 2, 8, 32];
/// Maximum median with one client, in seconds.
const SECONDS_MAX: f64 = 1e-3;
/// Maximum part of it that is not the scan, in seconds.
const ADDED_SECONDS_MAX: f64 = 300e-6;
/// Number of clients for [`SHARE_MIN`].
const BUSY: usize = 8;
/// Minimum share of the engine's own rate with [`BUSY`] clients.
const SHARE_MIN: f64 = 0.6;
/// Number of turns of the clients and the engine alone.
const ROUNDS: u32 = 4;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let engine = SearchEngine::over(local.node().store().clone())?;
    let clients = HttpClients::new(local.url())?;
    let mut maker = DocumentMaker::new()?;
    let size = settings.sized(TYPICAL).max(HITS as u64);
    load(engine.store(), (0..size).map(|name| maker.embedded(0, name)))?;
    let vector = maker.vector();
    let query = nearest(&engine, 0, &vector)?;
    engine.check(&query, HITS)?;
    let requests = requests(&vector)?;
    let found = clients.query(requests(0))?;
    if found.hits != HITS {
        return Err(Error::Failed(format!("a query over HTTP found {found:?} instead of {HITS} hits")));
    }

    let slice = settings.time_per_case / ROUNDS;
    let mut report = BenchReport::new(BENCH.name);
    let mut of_clients = PlotCurve { name: "through /search/".to_owned(), points: Vec::new() };
    let mut of_engine = PlotCurve { name: "engine alone".to_owned(), points: Vec::new() };
    for count in CLIENTS {
        let mut alone = TimeSamples::new();
        let mut rate_alone = 0.0;
        let (mut seen, _) = clients.at_once(count, slice, 0, &requests)?;
        for round in 0..ROUNDS {
            alone.merge(&measure::repeatedly(slice / 4, 5, || engine.run(&query)));
            rate_alone += engine_rate(&engine, &query, settings)? / f64::from(ROUNDS);
            let (more, _) = clients.at_once(count, slice, 0, &requests)?;
            // The first one warms up.
            if round == 0 { seen = more } else { seen.merge(&more) }
        }
        let case = format!("{size} documents, {count} clients");
        let median = Figure::new(&case, "p50", seen.times.median(), FigureUnit::Seconds)
            .beside("engine alone", alone.median());
        if count == 1 {
            report.push(median.with_goal(FigureGoal::AtMost(SECONDS_MAX)));
            let added = (seen.times.median() - alone.median()).max(0.0);
            report.push(
                Figure::new(&case, "not the scan", added, FigureUnit::Seconds).at_most(ADDED_SECONDS_MAX),
            );
        } else {
            report.push(median);
        }
        report.push(Figure::new(&case, "p99", seen.times.quantile(0.99), FigureUnit::Seconds));
        let rate = Figure::new(&case, "rate", seen.rate(), FigureUnit::PerSecond("queries"))
            .beside(format!("engine alone on {} cores", cores()), rate_alone);
        report.push(if count == BUSY { rate.at_least(SHARE_MIN) } else { rate });
        of_clients.points.push((count as f64, seen.rate()));
        of_engine.points.push((count as f64, rate_alone));
    }
    report.plots.push(CurvePlot {
        title: format!("Exact nearest neighbours of {size} documents through HTTP"),
        x: PlotAxis { label: "clients".to_owned(), unit: FigureUnit::Count(""), logarithmic: true },
        y: PlotAxis {
            label: "queries a second".to_owned(),
            unit: FigureUnit::PerSecond("queries"),
            logarithmic: false,
        },
        lines: vec![of_clients, of_engine],
    });
    Ok(report)
}

/// The same query repeatedly, as a POST.
pub(super) fn requests(vector: &[f32]) -> Result<Requests, Error> {
    let body: serde_json::Map<String, serde_json::Value> =
        parameters(0, vector).into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let body = hyper::body::Bytes::from(serde_json::to_vec(&body).map_err(Error::failed)?);
    Ok(Arc::new(move |_| {
        OutgoingRequest::new(Method::POST, "/search/").body("application/json", body.clone())
    }))
}

/// Queries per second of the engine on all cores.
fn engine_rate(engine: &SearchEngine, query: &RepeatableQuery, settings: &Settings) -> Result<f64, Error> {
    let (slice, began) = (settings.time_per_case / ROUNDS, Instant::now());
    let counts: Vec<Result<u64, Error>> = std::thread::scope(|scope| {
        let work = || {
            let mut count = 0;
            while count == 0 || began.elapsed() < slice {
                engine.run(query)?;
                count += 1;
            }
            Ok(count)
        };
        let threads: Vec<_> = (0..cores()).map(|_| scope.spawn(work)).collect();
        let failed = |_| Err(Error::failed("a thread of the benchmark ended before its time"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).collect()
    });
    let count: u64 = counts.into_iter().sum::<Result<u64, Error>>()?;
    Ok(count as f64 / began.elapsed().as_secs_f64())
}
