//! `millrace feed` by one stream, beside a request for each operation: the same documents, the same client.

use std::io::Cursor;

use millrace_client::feed::{FeedOptions, feed};

use super::{Benchmark, Settings};
use crate::measure::FeedMeasurement;
use crate::node::{LocalNode, cores};
use crate::puts::{BatchGroups, PutBody, PutLines};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "feed --stream",
    about: "documents of `feed` and `feed --small` in one stream, beside a request for each of them",
    run,
};

/// Documents of a feed, and the least gain for a processor second.
const CASES: [(PutBody, &str, u64, f64); 2] =
    [(PutBody::Small, "documents of 300 bytes", 100_000, 4.0), (PutBody::Vector, "vectors", 20_000, 2.0)];
const ROUNDS: u64 = 3;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    let runtime = millrace_gateway::runtime(cores(), "feed").map_err(Error::failed)?;
    for (body, case, count, gain) in CASES {
        let directory = settings.workplace()?;
        let local = LocalNode::start(directory.path())?;
        let lines = PutLines::new(body, BatchGroups::Many)?;
        let count = settings.sized(count);
        let mut fed = [FeedMeasurement::default(), FeedMeasurement::default()];
        for round in 0..ROUNDS {
            for (way, fed) in fed.iter_mut().enumerate() {
                let first = (2 * round + way as u64) * count;
                let mut text = Vec::new();
                (first..first + count).for_each(|number| lines.write(number, &mut text));
                let options = FeedOptions { streams: way == 0, connections: 8, ..FeedOptions::default() };
                let feeding = feed(local.url(), "documents", Cursor::new(text), &options, None, |_| {});
                fed.add(count, || runtime.block_on(feeding))?;
            }
        }
        let [streamed, single] = &fed;
        report.push(
            Figure::new(case, "rate", streamed.rate(), FigureUnit::PerSecond("documents"))
                .beside("single requests", single.rate()),
        );
        let cheap = streamed.per_processor_second();
        report.push(
            Figure::new(case, "for a processor second", cheap, FigureUnit::Count("documents"))
                .beside("single requests", single.per_processor_second())
                .at_least(gain),
        );
        report.publish(settings.progress);
    }
    Ok(report)
}
