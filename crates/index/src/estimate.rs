//! Estimates of the number of entries, from the first keys of blocks.

use millrace_keys::KeyRange;

use crate::copy::IndexCopy;
use crate::memory::MemoryTable;
use crate::run::{IndexRun, RunSection};

impl IndexCopy {
    /// Entries in these ranges, about, for a choice between indexes: nothing is read from the disk. Of each
    /// run, the error is at most a block at each end of a range; entries in memory are counted, while they
    /// are fewer than `limit`.
    pub fn estimate(&self, ranges: &[KeyRange], limit: u64) -> u64 {
        let state = self.state.read();
        let (mut live, mut gone) = (0, 0);
        for range in ranges {
            for run in &state.runs {
                let (some, all) = shares(run, range);
                live += share(run.catalog.live, some, all);
                gone += share(run.catalog.gone, some, all);
            }
            for table in state.tables() {
                count(table, range, limit, &mut live, &mut gone);
            }
            for rows in state.loaded_rows() {
                live += rows.count(range, limit);
            }
        }
        live.saturating_sub(gone)
    }
}

/// Quarters of blocks of a run that a range has, and all of the run.
fn shares(run: &IndexRun, range: &KeyRange) -> (u64, u64) {
    let parts = run.parts(RunSection::Entries);
    let first = run.block_of(RunSection::Entries, &range.low).unwrap_or(0);
    let end = match &range.high {
        Some(high) => parts.partition_point(|part| part.first[..] < high[..]),
        None => parts.len(),
    };
    let all = 4 * parts.len() as u64;
    if first >= end {
        return (0, all);
    }
    // On average, half of a block in which the range begins or ends is outside of it.
    let outside = 2 * u64::from(range.low > parts[first].first) + 2 * u64::from(range.high.is_some());
    ((4 * (end - first) as u64).saturating_sub(outside).max(1), all)
}

fn share(number: u64, some: u64, all: u64) -> u64 {
    if all == 0 {
        return 0;
    }
    // The product of two 64-bit numbers fits, and the quotient is at most the first.
    (u128::from(number) * u128::from(some)).div_ceil(u128::from(all)) as u64
}

fn count(table: &MemoryTable, range: &KeyRange, limit: u64, live: &mut u64, gone: &mut u64) {
    let entries = table.entries.range(range.low.clone()..);
    for (_, record) in entries.take_while(|(key, _)| range.contains(key)) {
        match record.live {
            true => *live += 1,
            false => *gone += 1,
        }
        if *live >= limit.saturating_add(*gone) {
            return;
        }
    }
}
