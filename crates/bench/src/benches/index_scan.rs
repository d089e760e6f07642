//! Lookups and scans of ranges in an index, beside the same in fjall; cold, beside plain reads of just the
//! bytes that they read.

use std::sync::Arc;
use std::time::Duration;

use millrace_index::{BlockCache, FlushMark, IndexCopy, IndexOptions, SliceRange};
use millrace_keys::KeyRange;

use super::{Benchmark, Settings};
use crate::index_peer::LsmPeer;
use crate::index_rows::{DOCUMENTS, DOCUMENTS_MIN, IndexRows};
use crate::limit::{drop_page_cache, read_cold};
use crate::measure::{self, TimeSamples};
use crate::random::BenchRandom;
use crate::recorder::ReadRecorder;
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "index-scan",
    about: "lookups of a key and scans of 100 and 10,000 entries in an index, beside fjall; cold, beside plain reads of just the bytes needed",
    run,
};

/// Entries of the scanned ranges; one is a lookup of a key.
const ENTRIES: [u64; 3] = [1, 100, 10_000];
const RATIO_MIN: f64 = 0.8;
const COLD_RATIO_MAX: f64 = 1.25;
/// Ranges of one measured call.
const RANGES: usize = 16;
const COLD_RUNS_MIN: u64 = 20;
const BATCH: usize = 1000;
/// Documents after which what is in memory is written.
const FLUSH_EVERY: u64 = 100_000;
/// Bytes of the caches of both: all blocks find room.
const CACHE_BYTES: u64 = 512 << 20;
/// Entries that a query reads together.
const PAGE: usize = 4096;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let (recorder, cache) = (ReadRecorder::default(), Arc::new(BlockCache::new(CACHE_BYTES)));
    let options = IndexOptions {
        directory: directory.path().join("index"),
        definition: 1,
        slice: SliceRange::default(),
        disk: Arc::new(recorder.clone()),
        cache: Arc::clone(&cache),
    };
    let index = IndexCopy::open(options).map_err(Error::failed)?;
    let peer = LsmPeer::open(&directory.path().join("fjall"), CACHE_BYTES)?;
    let documents = settings.sized(DOCUMENTS).max(DOCUMENTS_MIN);
    let mut rows = IndexRows::new()?;
    load(&mut rows, documents, &index, &peer)?;
    let mut random = BenchRandom::new(7);
    let mut report = BenchReport::new(BENCH.name);
    report.note(format!("the index has {} runs of {} bytes", index.status().runs, index.status().bytes));
    for entries in ENTRIES {
        let mut draw = || {
            let first = random.below(documents - entries + 1);
            rows.ranges(first as i64, (first + entries - 1) as i64)
        };
        let case = match entries {
            1 => "lookup of a key".to_owned(),
            entries => format!("{entries} entries"),
        };
        let ranges = (0..RANGES).map(|_| draw()).collect::<Result<Vec<_>, _>>()?;
        for ranges in &ranges {
            compare(&index, &peer, ranges, entries)?;
        }
        let (of_index, of_peer) = measure::alternately(
            settings.time_per_case,
            20,
            || ranges.iter().map(|ranges| scan(&index, ranges)).sum::<Result<usize, Error>>(),
            || {
                ranges
                    .iter()
                    .map(|ranges| peer.scan(ranges).map(|found| found.len()))
                    .sum::<Result<usize, Error>>()
            },
        );
        let rate = |times: &TimeSamples| RANGES as f64 / times.median();
        report.push(
            Figure::new(&case, "warm", rate(&of_index), FigureUnit::PerSecond("scans"))
                .beside("fjall", rate(&of_peer))
                .at_least(RATIO_MIN),
        );
        let [cold, read] = cold_scans(settings.time_per_case, &index, &cache, &recorder, draw)?;
        report.push(
            Figure::new(&case, "cold", cold.median(), FigureUnit::Seconds)
                .beside("plain read", read.median())
                .at_most(COLD_RATIO_MAX),
        );
    }
    Ok(report)
}

/// Times of scans of an index with empty caches, and of plain reads of the bytes that they read. Each scans
/// ranges of its own.
fn cold_scans(
    time_per_case: Duration,
    index: &IndexCopy,
    cache: &BlockCache,
    recorder: &ReadRecorder,
    mut draw: impl FnMut() -> Result<Vec<KeyRange>, Error>,
) -> Result<[TimeSamples; 2], Error> {
    let (mut cold, mut read) = (TimeSamples::new(), TimeSamples::new());
    let mut spent = Duration::ZERO;
    while cold.len() < COLD_RUNS_MIN || spent < time_per_case {
        let ranges = draw()?;
        cache.clear();
        recorder.take();
        scan(index, &ranges)?;
        let files = recorder.take();
        files.iter().try_for_each(|(path, _)| drop_page_cache(path))?;
        cache.clear();
        let time = measure::time(|| scan(index, &ranges));
        let of_files =
            files.iter().map(|(path, ranges)| read_cold(path, ranges)).sum::<Result<Duration, Error>>()?;
        cold.add(time);
        read.add(of_files);
        spent += time + of_files;
    }
    Ok([cold, read])
}

/// Writes documents to both, with runs and tables as they come when documents are written over time.
fn load(rows: &mut IndexRows, documents: u64, index: &IndexCopy, peer: &LsmPeer) -> Result<(), Error> {
    let mut batch = Vec::new();
    for (number, change) in (1..).zip(rows.dense_documents(documents)) {
        batch.push(change?);
        if batch.len() == BATCH || number == documents {
            peer.apply(&batch)?;
            index.apply(std::mem::take(&mut batch)).map_err(Error::failed)?;
        }
        if number % FLUSH_EVERY == 0 || number == documents {
            index.flush(FlushMark { complete_until: number, built: true }).map_err(Error::failed)?;
            while index.merge(0).map_err(Error::failed)? {}
        }
    }
    peer.flush()
}

/// Reads the entries of some ranges, page by page as a query does; returns their number.
fn scan(index: &IndexCopy, ranges: &[KeyRange]) -> Result<usize, Error> {
    let (mut found, mut continuation) = (0, None);
    loop {
        let page = index.scan(ranges, continuation.as_deref(), PAGE).map_err(Error::failed)?;
        found += page.entries.len();
        match page.continuation {
            Some(next) => continuation = Some(next),
            None => return Ok(found),
        }
    }
}

/// Both find the same entries, and as many as they should.
fn compare(index: &IndexCopy, peer: &LsmPeer, ranges: &[KeyRange], entries: u64) -> Result<(), Error> {
    let expected = peer.scan(ranges)?;
    let page = index.scan(ranges, None, usize::MAX).map_err(Error::failed)?;
    let found = page.entries.iter().map(|entry| [entry.key, entry.document].concat());
    if expected.len() as u64 == entries && found.eq(expected.iter().map(|key| key.to_vec())) {
        return Ok(());
    }
    let (found, expected) = (page.entries.len(), expected.len());
    Err(Error::Failed(format!("the index found {found} entries, fjall {expected} instead of {entries}")))
}
