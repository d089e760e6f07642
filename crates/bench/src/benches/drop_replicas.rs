//! Deletions of superfluous replicas, as on a node whose buckets have moved away: small ones compared with
//! large ones, since the number of documents in them must not matter, and their effect on queries of another
//! bucket.

use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_store::{Store, StoreTuning, StoredReplica};

use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker};
use crate::engine::SearchEngine;
use crate::limit::append_durably;
use crate::load::load;
use crate::measure::{self, TimeSamples};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "drop --cluster",
    about: "superfluous replicas deleted: large ones beside small ones, and queries meanwhile",
    run,
};

/// Bits of the cluster's buckets.
const BITS: u8 = 10;
/// Number of replicas of each size.
const REPLICAS: u64 = 64;
const SMALL: u64 = 100;
const LARGE: u64 = 10_000;
const TEXT_BYTES: usize = 100;
/// Number of documents in the group that is searched at the same time.
const SEARCHED_DOCUMENTS: u64 = 10_000;
/// Maximum ratio of the time of a large replica to that of a small one.
const GROWTH_MAX: f64 = 2.0;
/// Maximum ratio of the queries' p99.9 during deletions to that without.
const HARM_MAX: f64 = 1.5;
/// Pause between two deletions, so that queries are measured in between as well.
const PAUSE: Duration = Duration::from_millis(20);

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let engine = SearchEngine::open(directory.path(), None)?;
    let store = engine.store();
    store.set_tuning(StoreTuning { split_bits: BITS, ..StoreTuning::default() });
    store.maintain().map_err(Error::failed)?;
    let mut groups = BucketGroups { next: 0, taken: Vec::new() };
    let mut maker = DocumentMaker::new()?;
    let large = settings.sized(LARGE).max(SMALL);
    let mut replicas: Vec<(u64, BucketId)> = Vec::new();
    let mut loaded: Vec<(u64, u64)> = Vec::new();
    for _ in 0..REPLICAS {
        for documents in [SMALL, large] {
            let (group, bucket) = groups.next()?;
            loaded.push((group, documents));
            replicas.push((documents, bucket));
        }
    }
    let (searched, _) = groups.next()?;
    let in_searched = settings.sized(SEARCHED_DOCUMENTS);
    loaded.push((searched, in_searched));
    let names = loaded.iter().flat_map(|(group, documents)| (0..*documents).map(move |name| (*group, name)));
    load(store, names.map(|(group, name)| maker.mail(group, name, TEXT_BYTES)))?;
    let all: Vec<BucketId> = replicas.iter().map(|(_, bucket)| *bucket).collect();
    store.create_replicas(&all).map_err(Error::failed)?;
    // The owner does this first: it compares the contents of the replicas.
    let infos = store.replica_infos(&all, Timestamp(0)).map_err(Error::failed)?;
    let yql = format!("select * from mail where text contains \"{}\"", application::word(30));
    let query =
        engine.prepare(&[("yql", &yql), ("streaming.groupname", &application::group_name(searched))])?;
    let before = measure::repeatedly(settings.time_per_case * 2, 1000, || engine.run(&query));
    let appends = append_durably(directory.path(), std::iter::repeat_n(512, 200))?;

    let mut times = [TimeSamples::new(), TimeSamples::new()];
    let meanwhile = engine.run_during(&query, || delete_each(store, &replicas, infos, &mut times))?;
    Ok(report((large, in_searched), times, [before, meanwhile], &appends))
}

/// Deletes replicas one after another; adds the times of small and of large ones.
fn delete_each(
    store: &Store,
    replicas: &[(u64, BucketId)],
    infos: Vec<Option<StoredReplica>>,
    [small, large]: &mut [TimeSamples; 2],
) -> Result<(), Error> {
    for ((documents, bucket), info) in replicas.iter().zip(infos) {
        let info = info.ok_or_else(|| Error::failed("a replica of the benchmark is not there"))?;
        let began = Instant::now();
        let deleted = store.delete_replicas(&[(*bucket, info.checksum)], Timestamp(0));
        let time = began.elapsed();
        if deleted.map_err(Error::failed)? != [true] || info.documents != *documents {
            return Err(Error::failed("a replica of the benchmark is not what it should be"));
        }
        let times = if *documents == SMALL { &mut *small } else { &mut *large };
        times.add(time);
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Reports the times of small and of large replicas, which have `large` documents, and those of queries in a
/// group before and meanwhile.
fn report(
    (large, in_searched): (u64, u64),
    [small, of_large]: [TimeSamples; 2],
    [before, meanwhile]: [TimeSamples; 2],
    appends: &TimeSamples,
) -> BenchReport {
    let mut report = BenchReport::new(BENCH.name);
    let case = format!("replica of {large} documents");
    report.push(
        Figure::new(&case, "median", of_large.median(), FigureUnit::Seconds)
            .beside(format!("replica of {SMALL} documents"), small.median())
            .at_most(GROWTH_MAX),
    );
    report.push(
        Figure::new(&case, "slowest", of_large.slowest(), FigureUnit::Seconds)
            .beside("append with fsync, median", appends.median()),
    );
    let case = format!("queries of {in_searched} documents");
    report.push(
        Figure::new(case, "p99.9", meanwhile.quantile(0.999), FigureUnit::Seconds)
            .beside("without deletions", before.quantile(0.999))
            .at_most(HARM_MAX),
    );
    report
}

/// Groups that each have a bucket of their own.
struct BucketGroups {
    next: u64,
    taken: Vec<BucketId>,
}

impl BucketGroups {
    fn next(&mut self) -> Result<(u64, BucketId), Error> {
        loop {
            let group = self.next;
            self.next += 1;
            let bucket = BucketId::new(BITS, application::id(group, 0)?.location().bits());
            if !self.taken.contains(&bucket) {
                self.taken.push(bucket);
                return Ok((group, bucket));
            }
        }
    }
}
