//! The first hits of a bucket (`top_hits`), which are kept while documents come one by one.

use std::slice::from_mut;

use millrace_plan::QueryMemory;
use serde_json::{Value, json};

use super::AggregationScope;
use crate::Error;
use crate::hit_form::InnerHits;
use crate::kept_hits::{bytes_of, take};
use crate::search::{SearchHit, read_whole};

/// Hits beyond twice those that a page shows, after which the others are dropped.
const TOP_STEP: usize = 8;

/// The first hits of a bucket.
#[derive(Default)]
pub(super) struct BucketTopHits {
    hits: Vec<SearchHit>,
    documents: usize,
    best: Option<f64>,
}

impl BucketTopHits {
    /// Adds a document of the bucket.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(super) fn add(
        &mut self,
        page: &InnerHits,
        hit: &SearchHit,
        memory: &QueryMemory,
    ) -> Result<(), Error> {
        self.documents += 1;
        self.best = Some(self.best.map_or(hit.score, |best| best.max(hit.score)));
        if page.reach() == 0 {
            return Ok(());
        }
        take(memory, bytes_of(hit))?;
        self.hits.push(hit.clone());
        self.cut(page, memory);
        Ok(())
    }

    /// Adds those of another bucket.
    pub(super) fn merge(&mut self, other: BucketTopHits, page: &InnerHits, memory: &QueryMemory) {
        self.documents += other.documents;
        self.best = self.best.into_iter().chain(other.best).reduce(f64::max);
        self.hits.extend(other.hits);
        self.cut(page, memory);
    }

    /// Drops the last hits, if there are many more than the page shows.
    fn cut(&mut self, page: &InnerHits, memory: &QueryMemory) {
        if self.hits.len() > 2 * page.reach() + TOP_STEP {
            let mut first = page.ordered(&self.hits);
            let dropped = first.split_off(page.reach());
            memory.give_back(dropped.iter().map(bytes_of).sum());
            self.hits = first;
        }
    }

    /// The page, with the facts of all hits. Documents that are in rows are read for it.
    ///
    /// # Errors
    /// There is no memory for a document, the store cannot be read, or the client has left.
    pub(super) fn answer(
        &self,
        page: &InnerHits,
        scope: &AggregationScope<'_>,
        memory: &QueryMemory,
    ) -> Result<Value, Error> {
        let total_as_number = scope.total_as_number;
        let reached = page.reached(&self.hits).into_iter().map(|at| self.hits[at].clone());
        let mut reached: Vec<SearchHit> = reached.collect();
        for hit in reached.iter_mut().filter(|hit| hit.row.is_some()) {
            // After the end of the time, too, what was found is shown.
            let _ = scope.pace.next()?;
            read_whole(from_mut(hit), memory)?;
        }
        let hits: Vec<&SearchHit> = reached.iter().collect();
        let mut shown = page.of(&hits, total_as_number, scope.query);
        let all = self.documents;
        shown["total"] = if total_as_number { json!(all) } else { json!({ "value": all, "relation": "eq" }) };
        if !shown["max_score"].is_null() {
            shown["max_score"] = json!(self.best);
        }
        Ok(shown)
    }
}
