//! The best documents of a bucket (`sampler`), which are kept while documents come one by one.

use std::cmp::Ordering;

use millrace_plan::QueryMemory;

use crate::Error;
use crate::hit_form::tie;
use crate::kept_hits::{bytes_of, take};
use crate::search::SearchHit;

/// Documents beyond twice those of a sample, after which the others are dropped.
const SAMPLE_STEP: usize = 8;

/// Order of a sample: the best documents come first.
pub(super) fn best_first(left: &SearchHit, right: &SearchHit) -> Ordering {
    right.score.total_cmp(&left.score).then_with(|| tie(left).cmp(&tie(right)))
}

/// The best documents of a bucket, and some others.
#[derive(Default)]
pub(super) struct BucketSample {
    hits: Vec<SearchHit>,
    /// True if the first ones are in order, and as many as a sample has.
    is_full: bool,
}

impl BucketSample {
    /// Adds a document, to a sample that has `size` of them.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn add(&mut self, hit: &SearchHit, size: usize, memory: &QueryMemory) -> Result<(), Error> {
        let last = size.checked_sub(1).map(|last| self.hits.get(last).filter(|_| self.is_full));
        match last {
            // It has none.
            None => return Ok(()),
            Some(Some(last)) if best_first(hit, last) != Ordering::Less => return Ok(()),
            Some(_) => {}
        }
        take(memory, bytes_of(hit))?;
        self.hits.push(hit.clone());
        if self.hits.len() > size.saturating_mul(2).saturating_add(SAMPLE_STEP) {
            self.cut(size, memory);
        }
        Ok(())
    }

    /// Adds the sample of another bucket.
    pub(super) fn merge(&mut self, other: BucketSample, size: usize, memory: &QueryMemory) {
        self.hits.extend(other.hits);
        self.cut(size, memory);
    }

    /// The documents of the sample, the best first. They have memory, and are not in it any more.
    pub(super) fn finish(&mut self, size: usize, memory: &QueryMemory) -> Vec<SearchHit> {
        self.cut(size, memory);
        self.is_full = false;
        std::mem::take(&mut self.hits)
    }

    fn cut(&mut self, size: usize, memory: &QueryMemory) {
        self.hits.sort_by(best_first);
        if self.hits.len() > size {
            let dropped = self.hits.split_off(size);
            memory.give_back(dropped.iter().map(bytes_of).sum());
        }
        self.is_full = self.hits.len() == size;
    }
}
