//! The first hits of a bucket (`top_hits`), which are kept while documents come one by one.

use std::slice::from_mut;

use millrace_plan::QueryMemory;
use serde_json::{Map, Value, json};

use super::AggregationScope;
use super::metrics::fields_of;
use crate::Error;
use crate::hit_form::InnerHits;
use crate::kept_hits::{bytes_of, take};
use crate::query::text_of;
use crate::search::{SearchHit, read_whole};

/// Hits beyond twice those that a page shows, after which the others are dropped.
const TOP_STEP: usize = 8;

/// Members of the page of hits whose values `top_metrics` shows.
pub(super) fn page_of_metrics(options: &Map<String, Value>) -> Map<String, Value> {
    let mut page = Map::new();
    let size = options.get("size").map_or(json!(1), |size| match text_of(size).parse::<u64>() {
        Ok(size) => json!(size),
        Err(_) => size.clone(),
    });
    page.insert("size".to_owned(), size);
    page.extend(options.get("sort").map(|sort| ("sort".to_owned(), sort.clone())));
    page.insert("docvalue_fields".to_owned(), json!(fields_of(options)));
    page.insert("_source".to_owned(), json!(false));
    page
}

/// Answer of `top_metrics` for a page of hits.
pub(super) fn metrics_of(options: &Map<String, Value>, page: &Value) -> Value {
    let hits = page["hits"].as_array().into_iter().flatten();
    let top = hits.map(|hit| {
        let values = fields_of(options).into_iter().map(|field| {
            let value = hit["fields"].get(field).and_then(|values| values.get(0)).cloned();
            (field.to_owned(), value.unwrap_or_default())
        });
        json!({ "sort": hit["sort"], "metrics": values.collect::<Map<String, Value>>() })
    });
    json!({ "top": top.collect::<Vec<_>>() })
}

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
    /// There is no memory for it, or a filter of the order does not fit it.
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
        self.cut(page, memory)
    }

    /// Adds those of another bucket.
    ///
    /// # Errors
    /// A filter of the order does not fit a hit.
    pub(super) fn merge(
        &mut self,
        other: BucketTopHits,
        page: &InnerHits,
        memory: &QueryMemory,
    ) -> Result<(), Error> {
        self.documents += other.documents;
        self.best = self.best.into_iter().chain(other.best).reduce(f64::max);
        self.hits.extend(other.hits);
        self.cut(page, memory)
    }

    /// Drops the last hits, if there are many more than the page shows.
    fn cut(&mut self, page: &InnerHits, memory: &QueryMemory) -> Result<(), Error> {
        if self.hits.len() > 2 * page.reach() + TOP_STEP {
            let mut first = page.ordered(&self.hits)?;
            let dropped = first.split_off(page.reach());
            memory.give_back(dropped.iter().map(bytes_of).sum());
            self.hits = first;
        }
        Ok(())
    }

    /// The page, with the facts of all hits. Documents that are in rows are read for it.
    ///
    /// # Errors
    /// There is no memory for a document, the store cannot be read, the client has left, or a filter of the
    /// order does not fit a hit.
    pub(super) fn answer(
        &self,
        page: &InnerHits,
        scope: &AggregationScope<'_>,
        memory: &QueryMemory,
    ) -> Result<Value, Error> {
        let total_as_number = scope.total_as_number;
        let reached = page.reached(&self.hits)?.into_iter().map(|at| self.hits[at].clone());
        let mut reached: Vec<SearchHit> = reached.collect();
        for hit in reached.iter_mut().filter(|hit| hit.row.is_some()) {
            // After the end of the time, too, what was found is shown.
            let _ = scope.pace.next()?;
            read_whole(from_mut(hit), memory)?;
        }
        let hits: Vec<&SearchHit> = reached.iter().collect();
        let mut shown = page.of(&hits, total_as_number, scope.query)?;
        let all = self.documents;
        shown["total"] = if total_as_number { json!(all) } else { json!({ "value": all, "relation": "eq" }) };
        if !shown["max_score"].is_null() {
            shown["max_score"] = json!(self.best);
        }
        Ok(shown)
    }
}
