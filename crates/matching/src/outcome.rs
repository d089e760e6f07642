//! Matches of a leaf, before they are cut to the documents of the result.

use crate::bits::DocumentBits;
use crate::scan::marked;
use crate::words::{ChunkPositions, DocumentRows};
use crate::{LeafMatches, WordOccurrences};

/// Matches of a leaf in documents of a chunk.
pub(crate) enum LeafOutcome {
    Bits(DocumentBits),
    Positions(ChunkPositions),
    /// Number of occurrences in each document of the chunk, without their positions; empty if there are none.
    Counts(Vec<u32>),
    Weights(Vec<(u16, i64)>),
    Distances(LeafDistances),
}

/// Distances of documents, ascending by document; infinite if there is no value to measure, or if it is out
/// of reach.
#[derive(Debug, Default)]
pub(crate) struct LeafDistances {
    pub(crate) documents: Vec<u16>,
    pub(crate) distances: Vec<f64>,
}

impl LeafDistances {
    /// Documents whose distance is at most `distance_max`. Infinite distances are excluded, even if
    /// `distance_max` is infinite.
    pub(crate) fn within(&self, distance_max: f64) -> impl Iterator<Item = (u16, f64)> + '_ {
        let pairs = self.documents.iter().copied().zip(self.distances.iter().copied());
        pairs.filter(move |(_, distance)| *distance <= distance_max && *distance < f64::INFINITY)
    }

    /// Distances of `documents`, which ascend.
    fn of(&self, documents: &[u16]) -> Vec<f64> {
        let mut next = 0;
        let distance = documents.iter().map(|document| {
            next += self.documents[next..].partition_point(|measured| measured < document);
            match self.documents.get(next) {
                Some(measured) if measured == document => self.distances[next],
                _ => f64::INFINITY,
            }
        });
        distance.collect()
    }

    fn merge(&mut self, other: LeafDistances) {
        let all = std::mem::take(self).pairs().chain(other.pairs());
        let mut all: Vec<(u16, f64)> = all.collect();
        all.sort_unstable_by_key(|(document, _)| *document);
        (self.documents, self.distances) = all.into_iter().unzip();
    }

    fn pairs(self) -> impl Iterator<Item = (u16, f64)> {
        self.documents.into_iter().zip(self.distances)
    }
}

impl LeafOutcome {
    /// The matching documents.
    pub(crate) fn bits(&self) -> DocumentBits {
        let mut bits = DocumentBits::NONE;
        self.add_to(&mut bits);
        bits
    }

    /// Adds the matching documents to a set.
    pub(crate) fn add_to(&self, bits: &mut DocumentBits) {
        match self {
            LeafOutcome::Bits(found) => *bits = bits.or(found),
            LeafOutcome::Positions(found) => found.add_to(bits),
            LeafOutcome::Counts(counts) => *bits = bits.or(&marked(counts, |count| *count > 0)),
            LeafOutcome::Weights(weights) => {
                weights.iter().for_each(|(document, _)| bits.set(usize::from(*document)))
            }
            LeafOutcome::Distances(distances) => {
                distances.within(f64::INFINITY).for_each(|(document, _)| bits.set(usize::from(document)));
            }
        }
    }

    /// Memory that they take, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            LeafOutcome::Bits(bits) => size_of_val(bits),
            LeafOutcome::Positions(found) => found.memory_bytes(),
            LeafOutcome::Counts(counts) => size_of_val(&**counts),
            LeafOutcome::Weights(weights) => size_of_val(&**weights),
            LeafOutcome::Distances(LeafDistances { documents, distances }) => {
                size_of_val(&**documents) + size_of_val(&**distances)
            }
        }
    }

    /// Adds matches of the same leaf in other documents of the chunk.
    pub(crate) fn merge(&mut self, mut other: LeafOutcome) {
        if matches!((&*self, &other), (LeafOutcome::Positions(_), LeafOutcome::Counts(_))) {
            std::mem::swap(self, &mut other);
        }
        match (self, other) {
            (LeafOutcome::Bits(bits), LeafOutcome::Bits(more)) => *bits = bits.or(&more),
            (LeafOutcome::Weights(weights), LeafOutcome::Weights(more)) => {
                weights.extend(more);
                weights.sort_unstable();
            }
            (LeafOutcome::Distances(distances), LeafOutcome::Distances(more)) => distances.merge(more),
            (LeafOutcome::Positions(found), LeafOutcome::Positions(more)) => found.merge(&more),
            (LeafOutcome::Counts(counts), LeafOutcome::Counts(more)) if !counts.is_empty() => {
                counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
            }
            (LeafOutcome::Counts(counts), LeafOutcome::Positions(more)) if !counts.is_empty() => {
                more.add_counts(counts);
            }
            // A leaf always has matches of one kind, except for empty counts.
            (this, other) => *this = other,
        }
    }

    /// Matches in documents, which ascend.
    pub(crate) fn extract(&self, rows: &DocumentRows<'_>, positions: bool) -> LeafMatches {
        let documents = rows.documents();
        match self {
            LeafOutcome::Bits(bits) => LeafMatches::Matched(
                documents.iter().map(|document| bits.get(usize::from(*document))).collect(),
            ),
            // Of many words, most are in no document of a chunk.
            LeafOutcome::Positions(found) if found.documents() == 0 => LeafMatches::None,
            LeafOutcome::Counts(counts) if counts.is_empty() => LeafMatches::None,
            LeafOutcome::Counts(counts) => LeafMatches::Words(WordOccurrences {
                counts: documents.iter().map(|document| counts[usize::from(*document)]).collect(),
                positions: Vec::new(),
            }),
            LeafOutcome::Positions(found) => {
                let mut occurrences = WordOccurrences { counts: found.counts(rows), positions: Vec::new() };
                if positions {
                    found.for_each(documents, |positions| occurrences.positions.extend_from_slice(positions));
                }
                LeafMatches::Words(occurrences)
            }
            LeafOutcome::Weights(weights) => LeafMatches::Weights(at(weights, documents)),
            LeafOutcome::Distances(distances) => LeafMatches::Distances(distances.of(documents)),
        }
    }
}

fn at<T: Copy>(found: &[(u16, T)], documents: &[u16]) -> Vec<Option<T>> {
    let mut rest = found;
    let next = documents.iter().map(|document| {
        rest = &rest[rest.iter().take_while(|(found, _)| found < document).count()..];
        rest.first().filter(|(found, _)| found == document).map(|(_, found)| *found)
    });
    next.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_in_other_documents_are_added_in_either_form() {
        let positions = |documents: &[(usize, u32)]| {
            let mut found = ChunkPositions::default();
            for (document, count) in documents {
                (0..*count).for_each(|position| found.add(*document, position));
            }
            LeafOutcome::Positions(found)
        };
        let counts = |counts: &[u32]| LeafOutcome::Counts(counts.to_vec());
        let counted = |outcome: &LeafOutcome| match outcome.extract(&DocumentRows::new(&[0, 1, 2, 3]), false)
        {
            LeafMatches::Words(occurrences) => occurrences.counts,
            _ => vec![0; 4],
        };
        // The first has words in documents 0 and 2, the second in documents 1 and 3, or in none.
        let firsts = || [positions(&[(0, 3), (2, 1)]), counts(&[3, 0, 1, 0])];
        let seconds = || [positions(&[(1, 2), (3, 5)]), counts(&[0, 2, 0, 5])];
        let nothing = || [positions(&[]), counts(&[])];
        for first in 0..2 {
            for second in 0..2 {
                let (mut all, mut also) = (firsts(), seconds());
                all[first].merge(seconds().into_iter().nth(second).expect("there are two forms"));
                assert_eq!(counted(&all[first]), [3, 2, 1, 5], "{first} {second}");
                also[first].merge(nothing().into_iter().nth(second).expect("there are two forms"));
                assert_eq!(counted(&also[first]), [0, 2, 0, 5], "{first} {second}");
                let mut none = nothing();
                none[first].merge(seconds().into_iter().nth(second).expect("there are two forms"));
                assert_eq!(counted(&none[first]), [0, 2, 0, 5], "{first} {second}");
            }
        }
    }
}
