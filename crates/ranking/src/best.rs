//! The best hits so far.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::RankedHit;

impl RankedHit {
    /// Best first; of equal scores the earlier document.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        other
            .score
            .total_cmp(&self.score)
            .then_with(|| (self.chunk, self.document).cmp(&(other.chunk, other.document)))
    }
}

/// Keeps the best of the hits that it is offered.
pub(crate) struct Best {
    count: usize,
    /// The worst on top.
    heap: BinaryHeap<WorstFirst>,
    /// What a score must exceed to be among the best, once they are full; hits come in the order of the view.
    bar: f64,
}

#[derive(PartialEq)]
struct WorstFirst(RankedHit);

impl Eq for WorstFirst {}

impl Ord for WorstFirst {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.order(&other.0)
    }
}

impl PartialOrd for WorstFirst {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Best {
    pub fn new(count: usize) -> Self {
        // Room is made as hits come: the count is a wish of the request, not a fact.
        Best {
            count,
            heap: BinaryHeap::new(),
            bar: if count == 0 { f64::INFINITY } else { f64::NEG_INFINITY },
        }
    }

    /// Offers the hits of a chunk; chunks and documents ascend from call to call.
    pub fn offer(&mut self, chunk: usize, documents: &[u16], scores: &[f64]) {
        if self.count == 0 {
            return;
        }
        for (document, score) in documents.iter().zip(scores) {
            if self.heap.len() < self.count {
                self.heap.push(WorstFirst(RankedHit { chunk, document: *document, score: *score }));
            } else if *score > self.bar {
                self.heap.pop();
                self.heap.push(WorstFirst(RankedHit { chunk, document: *document, score: *score }));
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

    /// The best, in order.
    pub fn into_sorted(self) -> Vec<RankedHit> {
        self.heap.into_sorted_vec().into_iter().map(|hit| hit.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_and_the_earlier_of_equals() {
        let check = |count: usize, expected: &[(usize, u16)]| {
            let mut best = Best::new(count);
            best.offer(0, &[1, 2, 5], &[1.0, 3.0, 3.0]);
            best.offer(2, &[0, 7], &[3.0, f64::NEG_INFINITY]);
            let found: Vec<_> = best.into_sorted().iter().map(|hit| (hit.chunk, hit.document)).collect();
            assert_eq!(found, expected, "{count}");
        };
        check(0, &[]);
        check(1, &[(0, 2)]);
        check(2, &[(0, 2), (0, 5)]);
        check(4, &[(0, 2), (0, 5), (2, 0), (0, 1)]);
        check(9, &[(0, 2), (0, 5), (2, 0), (0, 1), (2, 7)]);
    }
}
