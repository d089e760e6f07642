//! A bounded collection of the best hits.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use millrace_column::ExecutionPaths;

use crate::RankedHit;

impl RankedHit {
    /// Orders by descending score, then by ascending document.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        other
            .score
            .total_cmp(&self.score)
            .then_with(|| (self.chunk, self.document).cmp(&(other.chunk, other.document)))
    }
}

/// Collector of the best hits offered to it.
pub(crate) struct TopHits {
    count: usize,
    /// All hits, if none is dropped before the end.
    all: Option<Vec<RankedHit>>,
    /// The worst hit is on top.
    heap: BinaryHeap<WorstFirstHit>,
    /// Score that a new hit must exceed once the collection is full. Hits arrive in view order.
    bar: f64,
}

#[derive(PartialEq)]
struct WorstFirstHit(RankedHit);

impl Eq for WorstFirstHit {}

impl Ord for WorstFirstHit {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.order(&other.0)
    }
}

impl PartialOrd for WorstFirstHit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl TopHits {
    pub fn new(count: usize, paths: ExecutionPaths) -> Self {
        // Memory grows with the hits: the count comes from the request and may be far too large.
        TopHits {
            count,
            all: (!paths.is_fast()).then(Vec::new),
            heap: BinaryHeap::new(),
            bar: if count == 0 { f64::INFINITY } else { f64::NEG_INFINITY },
        }
    }

    /// Offers the hits of one chunk. Chunks and documents must ascend from call to call.
    pub fn offer(&mut self, chunk: usize, documents: &[u16], scores: &[f64]) {
        if self.count == 0 {
            return;
        }
        if let Some(all) = &mut self.all {
            let hits = documents.iter().zip(scores);
            all.extend(hits.map(|(document, score)| RankedHit { chunk, document: *document, score: *score }));
            return;
        }
        for (document, score) in documents.iter().zip(scores) {
            if self.heap.len() < self.count {
                self.heap.push(WorstFirstHit(RankedHit { chunk, document: *document, score: *score }));
            } else if *score > self.bar {
                self.heap.pop();
                self.heap.push(WorstFirstHit(RankedHit { chunk, document: *document, score: *score }));
            } else {
                continue;
            }
            if self.heap.len() == self.count
                && let Some(worst) = self.heap.peek()
            {
                self.bar = worst.0.score;
            }
        }
    }

    /// Returns the hits in order, best first.
    pub fn into_sorted(self) -> Vec<RankedHit> {
        if let Some(mut all) = self.all {
            all.sort_by(RankedHit::order);
            all.truncate(self.count);
            return all;
        }
        self.heap.into_sorted_vec().into_iter().map(|hit| hit.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_and_the_earlier_of_equals() {
        let check = |count: usize, expected: &[(usize, u16)]| {
            for paths in [ExecutionPaths::Fast, ExecutionPaths::Plain] {
                let mut best = TopHits::new(count, paths);
                best.offer(0, &[1, 2, 5], &[1.0, 3.0, 3.0]);
                best.offer(2, &[0, 7], &[3.0, f64::NEG_INFINITY]);
                let found: Vec<_> = best.into_sorted().iter().map(|hit| (hit.chunk, hit.document)).collect();
                assert_eq!(found, expected, "{count} {paths:?}");
            }
        };
        check(0, &[]);
        check(1, &[(0, 2)]);
        check(2, &[(0, 2), (0, 5)]);
        check(4, &[(0, 2), (0, 5), (2, 0), (0, 1)]);
        check(9, &[(0, 2), (0, 5), (2, 0), (0, 1), (2, 7)]);
    }
}
