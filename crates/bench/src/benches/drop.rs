//! Drops of a group of 100,000 documents and of a bucket, and their effect on queries of another group.
//!
//! The peer is one bare append with fsync: the drop must be made durable, and nothing else should take time.
//! Queries are measured alone and during consecutive drops.

use std::time::{Duration, Instant};

use hyper::Method;
use millrace_bucket::BucketId;
use millrace_client::OutgoingRequest;
use millrace_document::DocumentGroup;

use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker, TYPE};
use crate::clients::HttpClients;
use crate::engine::SearchEngine;
use crate::limit::append_durably;
use crate::load::load;
use crate::measure;
use crate::node::LocalNode;
use crate::{BenchReport, Error, Figure, FigureGoal, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "drop",
    about: "a group of 100k documents and a bucket dropped, beside one fsync, and queries meanwhile",
    run,
};

const DOCUMENTS: u64 = 100_000;
const TEXT_BYTES: usize = 60;
/// Number of measurements of each kind of drop, every time on a group of its own.
const ROUNDS: u64 = 2;
/// Number of the group that is searched at the same time.
const SEARCHED: u64 = 1000;
const SEARCHED_DOCUMENTS: u64 = 10_000;
const SECONDS_MAX: f64 = 10e-3;
/// Maximum ratio of the p99 of queries during drops to that without.
const HARM_MAX: f64 = 1.5;
/// Pause between two drops, so that queries are measured in between as well.
const PAUSE: Duration = Duration::from_millis(100);
/// Bits of the bucket that is dropped with the group in it.
const BUCKET_BITS: u8 = 24;

/// Request by which a group is dropped.
#[derive(Clone, Copy)]
enum DropMethod {
    /// The group, by a call of the store.
    Group,
    /// The group, by a request of a client.
    GroupOverHttp,
    /// The bucket that has the group alone, by a call of the store.
    Bucket,
}

impl DropMethod {
    const ALL: [DropMethod; 3] = [DropMethod::Group, DropMethod::GroupOverHttp, DropMethod::Bucket];

    /// Its name in the report.
    fn name(self) -> &'static str {
        match self {
            DropMethod::Group => "group",
            DropMethod::GroupOverHttp => "group, over HTTP",
            DropMethod::Bucket => "bucket",
        }
    }
}

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let engine = SearchEngine::over(local.node().store().clone())?;
    let clients = HttpClients::new(local.url())?;
    let mut maker = DocumentMaker::new()?;
    let size = settings.sized(DOCUMENTS);
    for group in 0..ROUNDS * DropMethod::ALL.len() as u64 {
        load(engine.store(), (0..size).map(|name| maker.mail(group, name, TEXT_BYTES)))?;
    }
    let searched = settings.sized(SEARCHED_DOCUMENTS);
    load(engine.store(), (0..searched).map(|name| maker.mail(SEARCHED, name, TEXT_BYTES)))?;
    let yql = format!("select * from mail where text contains \"{}\"", application::word(30));
    let query =
        engine.prepare(&[("yql", &yql), ("streaming.groupname", &application::group_name(SEARCHED))])?;
    let before = measure::repeatedly(settings.time_per_case * 2, 100, || engine.run(&query));
    let appends = append_durably(directory.path(), std::iter::repeat_n(512, 200))?;

    let mut drops = DropMethod::ALL.map(|method| (method, Vec::new()));
    let mut group = 0;
    let meanwhile = engine.run_during(&query, || {
        (0..ROUNDS).try_for_each(|_| {
            for (method, times) in &mut drops {
                times.push(drop_group(*method, group, &engine, &clients)?);
                group += 1;
                std::thread::sleep(PAUSE);
            }
            Ok(())
        })
    })?;

    let mut report = BenchReport::new(BENCH.name);
    for (method, times) in drops {
        let slowest = times.into_iter().max().unwrap_or_default().as_secs_f64();
        let case = format!("{} of {size} documents", method.name());
        report.push(
            Figure::new(case, "slowest", slowest, FigureUnit::Seconds)
                .beside("append with fsync, median", appends.median())
                .with_goal(FigureGoal::AtMost(SECONDS_MAX)),
        );
    }
    let case = format!("queries of {searched} documents");
    report.push(
        Figure::new(case, "p99", meanwhile.quantile(0.99), FigureUnit::Seconds)
            .beside("without drops", before.quantile(0.99))
            .at_most(HARM_MAX),
    );
    Ok(report)
}

/// Drops a group, and checks that it is gone.
fn drop_group(
    method: DropMethod,
    group: u64,
    engine: &SearchEngine,
    clients: &HttpClients,
) -> Result<Duration, Error> {
    let name = application::group_name(group);
    let all = [("yql", "select * from mail where true limit 1"), ("streaming.groupname", &*name)];
    let all = engine.prepare(&all)?;
    engine.check(&all, 1)?;
    let began = Instant::now();
    match method {
        DropMethod::Group => engine
            .store()
            .drop_group(Some(TYPE), &DocumentGroup::Name(name.clone()))
            .map_err(Error::failed)?,
        DropMethod::GroupOverHttp => {
            let path = format!("/document/v1/bench/{TYPE}/group/{name}/");
            let request = OutgoingRequest::new(Method::DELETE, path)
                .parameter("selection", "true")
                .parameter("cluster", "mail");
            clients.ask(request)?;
        }
        DropMethod::Bucket => {
            let bits = application::id(group, 0)?.location().bits();
            let bucket = BucketId::new(BUCKET_BITS, bits);
            engine.store().drop_bucket(bucket).map_err(Error::failed)?;
        }
    }
    let time = began.elapsed();
    engine.check(&all, 0)?;
    Ok(time)
}
