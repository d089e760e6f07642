//! Query terms as features see them.

use millrace_matching::{ChunkMatches, LeafMatches, MatchedDocuments};
use millrace_plan::{LeafId, Plan, PlanLeaf, PlanTerm, TermId};

use super::FeatureRequest;

/// A term that searches a field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldTerm {
    pub term: TermId,
    pub leaf: LeafId,
}

/// The terms that search a field, in the query's order.
pub(crate) fn terms_of(plan: &Plan, field: &str) -> Vec<FieldTerm> {
    let leaves = plan.leaves.iter().enumerate().filter(|(_, leaf)| &*leaf.field == field);
    let mut terms: Vec<FieldTerm> =
        leaves.filter_map(|(at, leaf)| leaf.term.map(|term| FieldTerm { term, leaf: LeafId(at) })).collect();
    terms.sort_by_key(|found| found.term);
    terms
}

/// True if the occurrences of a term in a field count. A filter (`rank: filter`, `match: exact`,
/// `usePositionData: false`) has none: it matches, at no position.
pub(crate) fn is_positioned(request: &FeatureRequest<'_>, field: &str, id: TermId) -> bool {
    !request.filters.contains(field)
        && term(request.plan, id).is_none_or(|term| term.annotations.use_position_data)
}

/// The terms that search a field and whose occurrences count ([`is_positioned`]).
pub(crate) fn positioned_terms_of(request: &FeatureRequest<'_>, field: &str) -> Vec<FieldTerm> {
    let found = terms_of(request.plan, field).into_iter();
    found.filter(|found| is_positioned(request, field, found.term)).collect()
}

/// The leaves of each term, in the query's order.
pub(crate) fn leaves_by_term(found: &[FieldTerm]) -> Vec<(TermId, Vec<LeafId>)> {
    let of_terms = found.chunk_by(|one, other| one.term == other.term);
    of_terms.map(|of_term| (of_term[0].term, of_term.iter().map(|found| found.leaf).collect())).collect()
}

/// The `sameElement` terms of a field, with a leaf for each of their conditions. Such a term matches where
/// one of these counts, as conditions count only where one element meets them all.
pub(crate) fn element_terms_of(plan: &Plan, field: &str) -> Vec<FieldTerm> {
    let terms = plan.terms.iter().enumerate();
    terms
        .filter(|(_, term)| term.elements_of.as_deref() == Some(field))
        .flat_map(|(at, term)| {
            term.leaves.iter().map(move |leaf| FieldTerm { term: TermId(at), leaf: *leaf })
        })
        .collect()
}

/// The leaves of the terms with this label.
pub(crate) fn leaves_labelled(plan: &Plan, label: &str) -> Vec<LeafId> {
    let labelled = plan.terms.iter().filter(|term| term.annotations.label.as_deref() == Some(label));
    labelled.flat_map(|term| term.leaves.iter().copied()).collect()
}

pub(crate) fn term(plan: &Plan, id: TermId) -> Option<&PlanTerm> {
    plan.terms.get(id.0)
}

pub(crate) fn leaf(plan: &Plan, id: LeafId) -> Option<&PlanLeaf> {
    plan.leaves.get(id.0)
}

/// Weight of a term, in percent.
pub(crate) fn weight(plan: &Plan, id: TermId) -> f64 {
    term(plan, id).map_or(0.0, |term| f64::from(term.annotations.weight))
}

/// Significance of a term: as annotated, or from 0.5 for a term of every document in the group to 1 for a
/// very rare one.
pub(crate) fn significance(plan: &Plan, matches: &MatchedDocuments, id: TermId) -> f64 {
    /// Minimum frequency: rarer terms count as having this one.
    const RAREST: f64 = 0.000_001;
    let Some(term) = term(plan, id) else { return 0.0 };
    if let Some(significance) = term.annotations.significance {
        return significance;
    }
    let statistics = &matches.statistics;
    let counted = || {
        let frequencies = term.leaves.iter().filter_map(|leaf| statistics.document_frequency.get(leaf.0));
        frequencies.max().map_or(1.0, |frequency| *frequency as f64 / (statistics.documents as f64).max(1.0))
    };
    let frequency = term.annotations.document_frequency.unwrap_or_else(counted);
    0.5 + 0.5 * (frequency.clamp(RAREST, 1.0).ln() / RAREST.ln())
}

/// Connectedness of a term with the previous one.
pub(crate) fn connectedness(plan: &Plan, id: TermId) -> f64 {
    const DEFAULT: f64 = 0.1;
    let Some(before) = id.0.checked_sub(1).and_then(|before| plan.terms.get(before)) else { return DEFAULT };
    let Some(this) = plan.terms.get(id.0) else { return DEFAULT };
    let connects = |from: &PlanTerm, to: &PlanTerm| match (from.annotations.connectivity, to.annotations.id) {
        (Some((target, weight)), Some(id)) if target == id => Some(weight),
        _ => None,
    };
    connects(before, this).or_else(|| connects(this, before)).unwrap_or(DEFAULT)
}

/// Number of a leaf's matches in each document: occurrences of a word, 1 for other matches.
pub(crate) fn count(found: &LeafMatches, document: usize) -> u32 {
    match found {
        LeafMatches::None => 0,
        LeafMatches::Matched(matched) => u32::from(matched.get(document).copied().unwrap_or_default()),
        LeafMatches::Words(occurrences) => occurrences.counts.get(document).copied().unwrap_or_default(),
        LeafMatches::Weights(weights) => u32::from(weights.get(document).copied().flatten().is_some()),
        LeafMatches::Distances(distances) => {
            u32::from(distances.get(document).is_some_and(|distance| distance.is_finite()))
        }
    }
}

/// Weight of a leaf's match in a document; 1 if weights are unknown.
pub(crate) fn match_weight(found: &LeafMatches, document: usize) -> Option<f64> {
    match found {
        LeafMatches::Weights(weights) => weights.get(document).copied().flatten().map(|weight| weight as f64),
        other => (count(other, document) > 0).then_some(1.0),
    }
}

/// Calls `each` with the documents that a leaf matches, ascending: the index, the number of matches
/// ([`count`]), and the positions, if it has any. Documents without matches are passed over several at a
/// time.
pub(crate) fn each_match<'a>(found: &'a LeafMatches, mut each: impl FnMut(usize, u32, &'a [u32])) {
    /// Number of documents that are looked at together.
    const TOGETHER: usize = 16;
    match found {
        LeafMatches::None => {}
        LeafMatches::Words(occurrences) => {
            let mut rest = occurrences.positions.as_slice();
            for (block, counts) in occurrences.counts.chunks(TOGETHER).enumerate() {
                if counts.iter().fold(0, |any, count| any | count) == 0 {
                    continue;
                }
                for (at, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                    let (here, after) = rest.split_at((*count as usize).min(rest.len()));
                    rest = after;
                    each(block * TOGETHER + at, *count, here);
                }
            }
        }
        LeafMatches::Matched(matched) => {
            let matched = matched.iter().enumerate().filter(|(_, matched)| **matched);
            // A match of the whole value: one word, at position 0.
            matched.for_each(|(document, _)| each(document, 1, &[0]));
        }
        LeafMatches::Weights(weights) => {
            let weighed = weights.iter().enumerate().filter(|(_, weight)| weight.is_some());
            weighed.for_each(|(document, _)| each(document, 1, &[]));
        }
        LeafMatches::Distances(distances) => {
            let near = distances.iter().enumerate().filter(|(_, distance)| distance.is_finite());
            near.for_each(|(document, _)| each(document, 1, &[]));
        }
    }
}

/// A leaf that matches a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DocumentLeaf<'a> {
    /// Its number among the leaves that were asked about.
    pub number: usize,
    pub positions: &'a [u32],
}

/// Calls `each` with each document that any of the leaves matches, ascending: the index, and the leaves that
/// match it, in their order. So the time grows with the matches, and not with the leaves of each document.
pub(crate) fn each_document<'a>(
    matches: &'a ChunkMatches,
    leaves: &[LeafId],
    mut each: impl FnMut(usize, &[DocumentLeaf<'a>]),
) {
    /// Number of matches from which on the documents are gone through in parts, to bound the memory.
    const MATCHES_MAX: usize = 1 << 17;
    let mut counts = vec![0; matches.documents.len()];
    for leaf in leaves {
        each_match(matches.leaf(*leaf), |document, _, _| counts[document] += 1);
    }
    let mut from = 0;
    while from < counts.len() {
        // The places of the leaves of each document: first where they start, at last where they end.
        let (mut places, mut all) = (Vec::new(), 0);
        for count in &counts[from..] {
            if all > 0 && all + count > MATCHES_MAX {
                break;
            }
            places.push(all);
            all += count;
        }
        let mut found = vec![DocumentLeaf { number: 0, positions: &[] }; all];
        for (number, leaf) in leaves.iter().enumerate() {
            each_match(matches.leaf(*leaf), |document, _, positions| {
                if let Some(place) = document.checked_sub(from).and_then(|at| places.get_mut(at)) {
                    found[*place] = DocumentLeaf { number, positions };
                    *place += 1;
                }
            });
        }
        let mut start = 0;
        for (document, end) in (from..).zip(&places) {
            if start < *end {
                each(document, &found[start..*end]);
            }
            start = *end;
        }
        from += places.len();
    }
}

/// Positions of a leaf's occurrences, one document after another.
pub(crate) struct LeafPositions<'a> {
    counts: OccurrenceCounts<'a>,
    rest: &'a [u32],
    next: usize,
}

/// Number of recorded positions in each document.
enum OccurrenceCounts<'a> {
    Words(&'a [u32]),
    /// A match of the whole value: one word, at position 0.
    Whole(&'a [bool]),
}

impl<'a> LeafPositions<'a> {
    pub fn of(found: &'a LeafMatches) -> Self {
        match found {
            LeafMatches::Words(occurrences) => {
                let counts = OccurrenceCounts::Words(&occurrences.counts);
                LeafPositions { counts, rest: &occurrences.positions, next: 0 }
            }
            LeafMatches::Matched(matched) => {
                LeafPositions { counts: OccurrenceCounts::Whole(matched), rest: &[], next: 0 }
            }
            LeafMatches::None | LeafMatches::Weights(_) | LeafMatches::Distances(_) => {
                LeafPositions { counts: OccurrenceCounts::Words(&[]), rest: &[], next: 0 }
            }
        }
    }
}

impl<'a> Iterator for LeafPositions<'a> {
    type Item = &'a [u32];

    /// Positions in the next document; empty past the end, so that leaves of any kind can be iterated side by
    /// side.
    fn next(&mut self) -> Option<&'a [u32]> {
        let document = self.next;
        self.next += 1;
        let count = match self.counts {
            OccurrenceCounts::Words(counts) => counts.get(document).map_or(0, |count| *count as usize),
            OccurrenceCounts::Whole(matched) if matched.get(document) == Some(&true) => return Some(&[0]),
            OccurrenceCounts::Whole(_) => 0,
        };
        let count = count.min(self.rest.len());
        let (here, rest) = self.rest.split_at(count);
        self.rest = rest;
        Some(here)
    }
}

/// Positions of terms that may have several leaves, one document after another.
pub(crate) struct TermPositions<'a> {
    terms: Vec<Vec<LeafPositions<'a>>>,
    here: Vec<Vec<u32>>,
}

impl<'a> TermPositions<'a> {
    /// The positions of terms, each given by its leaves.
    pub fn of<'l>(matches: &'a ChunkMatches, terms: impl IntoIterator<Item = &'l Vec<LeafId>>) -> Self {
        let of_term = |leaves: &'l Vec<LeafId>| {
            leaves.iter().map(|leaf| LeafPositions::of(matches.leaf(*leaf))).collect::<Vec<_>>()
        };
        let terms: Vec<_> = terms.into_iter().map(of_term).collect();
        let here = terms.iter().map(|_| Vec::new()).collect();
        TermPositions { terms, here }
    }

    /// Positions of each term in the next document, ascending. A position that several leaves found is
    /// contained once.
    pub fn next(&mut self) -> &[Vec<u32>] {
        for (here, leaves) in self.here.iter_mut().zip(&mut self.terms) {
            here.clear();
            leaves.iter_mut().for_each(|leaf| here.extend(leaf.next().unwrap_or_default()));
            here.sort_unstable();
            here.dedup();
        }
        &self.here
    }
}

#[cfg(test)]
mod tests {
    use millrace_matching::WordOccurrences;

    use super::*;

    /// Matches of leaves of words, in documents that have so many occurrences of each.
    fn matches(counts: &[Vec<u32>]) -> ChunkMatches {
        let documents = counts.first().map_or(0, Vec::len) as u16;
        let leaf = |counts: &Vec<u32>| {
            let positions = counts.iter().flat_map(|count| 0..*count).collect();
            LeafMatches::Words(WordOccurrences { counts: counts.clone(), positions })
        };
        ChunkMatches {
            chunk: 0,
            documents: (0..documents).collect(),
            leaves: counts.iter().map(leaf).collect(),
        }
    }

    #[test]
    fn documents_have_the_leaves_that_match_them() {
        let count = |leaf: u32, document: u32| (leaf * 7 + document * 5) % 11 / 8;
        // With so many leaves the documents are gone through in parts.
        for (leaves, documents) in [(3, 40), (3, 0), (1000, 600)] {
            let counts: Vec<Vec<u32>> = (0..leaves)
                .map(|leaf| (0..documents).map(|document| count(leaf, document)).collect())
                .collect();
            let matches = matches(&counts);
            let ids: Vec<LeafId> = (0..counts.len()).map(LeafId).collect();
            let mut lists: Vec<_> = matches.leaves.iter().map(LeafPositions::of).collect();
            let mut expected = Vec::new();
            for document in 0..documents as usize {
                let here = lists.iter_mut().map(|list| list.next().unwrap_or_default()).enumerate();
                let here: Vec<DocumentLeaf<'_>> = here
                    .filter(|(_, positions)| !positions.is_empty())
                    .map(|(number, positions)| DocumentLeaf { number, positions })
                    .collect();
                if !here.is_empty() {
                    expected.push((document, here));
                }
            }
            let mut found = Vec::new();
            each_document(&matches, &ids, |document, here| found.push((document, here.to_vec())));
            assert_eq!(found, expected, "{leaves} leaves, {documents} documents");
        }
    }

    #[test]
    fn matches_of_each_kind_are_those_of_each_document() {
        let mut counts = vec![0; 100];
        [(3, 2), (15, 1), (16, 1), (99, 4)]
            .into_iter()
            .for_each(|(document, count)| counts[document] = count);
        let positions = (0..8).collect();
        let kinds = [
            LeafMatches::None,
            LeafMatches::Matched(counts.iter().map(|count| *count > 0).collect()),
            LeafMatches::Words(WordOccurrences { counts: counts.clone(), positions }),
            LeafMatches::Words(WordOccurrences { counts: counts.clone(), positions: Vec::new() }),
            LeafMatches::Weights(counts.iter().map(|count| (*count > 0).then_some(7)).collect()),
            LeafMatches::Distances(
                counts.iter().map(|count| if *count > 0 { 0.5 } else { f64::INFINITY }).collect(),
            ),
        ];
        for kind in &kinds {
            let mut found = Vec::new();
            each_match(kind, |document, count, positions| found.push((document, count, positions)));
            let each = (0..100).zip(LeafPositions::of(kind));
            let each = each.map(|(document, positions)| (document, count(kind, document), positions));
            let expected: Vec<(usize, u32, &[u32])> = each.filter(|(_, count, _)| *count > 0).collect();
            assert_eq!(found, expected, "{kind:?}");
        }
    }
}
