//! Rows that an index takes in, beside fjall: a get of each document, and the same inserts.
//!
//! The index is written and merged on the measuring thread, as on the thread of a node; fjall does so on
//! threads of its own. So the processor time of both is a figure too.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_env::RealDisk;
use millrace_index::{BlockCache, FlushMark, IndexChange, IndexCopy, IndexOptions, SliceRange};
use millrace_keys::KeyRange;

use super::{Benchmark, Settings};
use crate::index_peer::LsmPeer;
use crate::index_rows::{DOCUMENTS, DOCUMENTS_MIN, IndexRows};
use crate::measure::process_time;
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "index-apply",
    about: "changes of keys, new documents and removals that an index takes in, beside fjall doing a get and the same inserts",
    run,
};

const RATIO_MIN: f64 = 1.0;
/// Rows of a batch.
const BATCH: usize = 1000;
/// Rows of a turn, as a share of the documents.
const TURN_SHARE: u64 = 20;
const TURNS_MIN: usize = 5;
/// Bytes in memory after which a node writes an index to the disk.
const FLUSH_BYTES: usize = 16 << 20;
/// Bytes of the caches of both: that of a node.
const CACHE_BYTES: u64 = 32 << 20;
/// Entries that are compared together.
const PAGE: usize = 4096;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let index = open(&directory.path().join("index"))?;
    let peer = LsmPeer::open(&directory.path().join("fjall"), CACHE_BYTES)?;
    let mut rows = IndexRows::new()?;
    let documents = settings.sized(DOCUMENTS).max(DOCUMENTS_MIN);
    let mut loaded = 0;
    while loaded < documents {
        let batch = rows.new_documents((documents - loaded).min(BATCH as u64))?;
        loaded += batch.len() as u64;
        peer.apply(&batch)?;
        apply(&index, batch)?;
    }
    peer.settle();
    let (mut of_index, mut of_peer) = (AppliedRows::default(), AppliedRows::default());
    while of_index.turns < TURNS_MIN || of_index.took < settings.time_per_case {
        let turn = rows.changes((documents / TURN_SHARE).max(BATCH as u64))?;
        let batches: Vec<Vec<IndexChange>> = turn.chunks(BATCH).map(<[IndexChange]>::to_vec).collect();
        of_peer.add(
            turn.len(),
            || turn.chunks(BATCH).try_for_each(|batch| peer.apply(batch)),
            || {
                peer.settle();
            },
        )?;
        of_index.add(turn.len(), || batches.into_iter().try_for_each(|batch| apply(&index, batch)), || {})?;
    }
    compare(&index, &peer)?;
    let case = format!("{documents} documents");
    let mut report = BenchReport::new(BENCH.name);
    let unit = FigureUnit::PerSecond("rows");
    report.push(
        Figure::new(&case, "taken", of_index.rate(), unit)
            .beside("fjall", of_peer.rate())
            .at_least(RATIO_MIN),
    );
    let for_processor = of_index.per_processor_second();
    report.push(
        Figure::new(&case, "taken for a processor second", for_processor, unit)
            .beside("fjall", of_peer.per_processor_second()),
    );
    index.flush(FlushMark { complete_until: 0, built: true }).map_err(Error::failed)?;
    peer.flush()?;
    let bytes = index.status().bytes as f64;
    report.push(
        Figure::new(&case, "on the disk", bytes, FigureUnit::Bytes).beside("fjall", peer.bytes() as f64),
    );
    Ok(report)
}

/// Opens an empty index.
fn open(directory: &Path) -> Result<IndexCopy, Error> {
    let options = IndexOptions {
        directory: directory.to_owned(),
        definition: 1,
        slice: SliceRange::default(),
        disk: Arc::new(RealDisk),
        cache: Arc::new(BlockCache::new(CACHE_BYTES)),
    };
    IndexCopy::open(options).map_err(Error::failed)
}

/// Takes changes in as a node does: what is in memory is written when it is much, and merged.
fn apply(index: &IndexCopy, changes: Vec<IndexChange>) -> Result<(), Error> {
    index.apply(changes).map_err(Error::failed)?;
    if index.status().memory_bytes >= FLUSH_BYTES {
        index.flush(FlushMark { complete_until: 0, built: true }).map_err(Error::failed)?;
        index.merge(0).map_err(Error::failed)?;
    }
    Ok(())
}

/// Rows that were taken in, with the time and the processor time that it took.
#[derive(Default)]
struct AppliedRows {
    rows: usize,
    turns: usize,
    took: Duration,
    used: Duration,
}

impl AppliedRows {
    /// Takes rows in. `settle` waits for work in the background, of which only the processor time counts.
    fn add(
        &mut self,
        rows: usize,
        take: impl FnOnce() -> Result<(), Error>,
        settle: impl FnOnce(),
    ) -> Result<(), Error> {
        let (before, began) = (process_time(), Instant::now());
        take()?;
        self.took += began.elapsed();
        settle();
        self.used += process_time().saturating_sub(before);
        self.rows += rows;
        self.turns += 1;
        Ok(())
    }

    fn rate(&self) -> f64 {
        self.rows as f64 / self.took.as_secs_f64().max(1e-9)
    }

    fn per_processor_second(&self) -> f64 {
        self.rows as f64 / self.used.as_secs_f64().max(1e-9)
    }
}

/// Both have the same entries.
fn compare(index: &IndexCopy, peer: &LsmPeer) -> Result<(), Error> {
    let all = [KeyRange { low: Vec::new(), high: None }];
    let mut expected = peer.scan(&all)?.into_iter();
    let mut continuation = None;
    loop {
        let page = index.scan(&all, continuation.as_deref(), PAGE).map_err(Error::failed)?;
        for entry in page.entries.iter() {
            if expected.next().as_deref() != Some(&[entry.key, entry.document].concat()[..]) {
                return Err(Error::failed("the index and fjall have different entries"));
            }
        }
        match page.continuation {
            Some(next) => continuation = Some(next),
            None if expected.next().is_none() => return Ok(()),
            None => return Err(Error::failed("the index lacks entries that fjall has")),
        }
    }
}
