//! Merging of the outcomes of all schemas of a query to one result: in order, collapsed, and cut to its page.

use std::iter::repeat_with;
use std::ops::Range;

use millrace_plan::Plan;
use millrace_result::{PartialResult, ResultHit};

use crate::collapse::HitCollapsing;
use crate::{CollapseKeys, PassOutcome, SearchTrace};

/// Result of a query over all its schemas.
#[derive(Debug, Clone, Default)]
pub struct MergedOutcome {
    /// Hits up to the end of the page, and groups.
    pub result: PartialResult,
    /// Range of the hits that are returned: those after the offset.
    pub page: Range<usize>,
    /// Timing of each schema, in order.
    pub traces: Vec<SearchTrace>,
}

impl MergedOutcome {
    /// Merges outcomes, which may be those of one node or of several. `plan` is that of any of the schemas:
    /// they have the order, the collapsing and the page in common.
    pub fn of(outcomes: Vec<PassOutcome>, plan: &Plan) -> Self {
        let mut traces = Vec::with_capacity(outcomes.len());
        let is_sorted = outcomes.len() < 2;
        let mut outcomes = outcomes.into_iter();
        let Some(PassOutcome { mut result, trace, mut collapse_keys }) = outcomes.next() else {
            return MergedOutcome::default();
        };
        traces.push(trace);
        for PassOutcome { result: other, trace, collapse_keys: keys } in outcomes {
            traces.push(trace);
            result.total_count += other.total_count;
            result.coverage.merge(&other.coverage);
            result.groupings.extend(other.groupings);
            result.hits.extend(other.hits);
            collapse_keys.extend(keys);
        }
        match &plan.collapse {
            None if is_sorted => {}
            None => result.hits.sort_by(ResultHit::order),
            Some(collapse) => {
                let keys = collapse_keys.into_iter().chain(repeat_with(CollapseKeys::new));
                let mut hits: Vec<(ResultHit, CollapseKeys)> = result.hits.into_iter().zip(keys).collect();
                if !is_sorted {
                    hits.sort_by(|(one, _), (other, _)| one.order(other));
                }
                let mut collapsing = HitCollapsing::new(collapse);
                hits.retain(|(_, keys)| collapsing.keeps(keys));
                result.hits = hits.into_iter().map(|(hit, _)| hit).collect();
            }
        }
        let page = hit_page(plan.offset, plan.hits, result.hits.len());
        result.hits.truncate(page.end);
        MergedOutcome { result, page, traces }
    }
}

/// Range of the hits that a request returns, of the first `len` in order.
pub fn hit_page(offset: usize, hits: usize, len: usize) -> Range<usize> {
    let end = offset.saturating_add(hits).min(len);
    offset.min(end)..end
}
