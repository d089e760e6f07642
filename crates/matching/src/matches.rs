use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_plan::LeafId;
use serde::{Deserialize, Serialize};

use crate::bits::DocumentBits;

/// Match data that ranking needs; nothing else is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RankingDemands {
    /// True to record, for each matched document, the leaves of the plan that match it, with their weights.
    /// Distances of nearest neighbours are recorded in any case.
    pub leaves: bool,
    /// True to count the occurrences of words (implies leaves).
    pub counts: bool,
    /// True to record the positions of words (implies counts).
    pub positions: bool,
    /// [`TermStatistics`] over all live documents in scope, including those that do not match the rest of the
    /// query.
    pub statistics: bool,
}

impl RankingDemands {
    /// The leaves that match, without occurrences.
    pub const LEAVES: Self =
        RankingDemands { leaves: true, counts: false, positions: false, statistics: false };
}

/// Result of matching.
#[derive(Debug, Clone, Default)]
pub struct MatchedDocuments {
    /// The chunks with at least one matched document, in order.
    pub chunks: Vec<ChunkMatches>,
    /// Statistics over all live documents in scope.
    pub statistics: TermStatistics,
    /// Number of live documents that were examined.
    pub documents: u64,
    /// True if the deadline passed; chunks after the last one here were not examined.
    pub timed_out: bool,
}

/// Matches in one chunk.
#[derive(Debug, Clone)]
pub struct ChunkMatches {
    /// Index of the chunk in the view.
    pub chunk: usize,
    /// Matched documents, by index in the chunk, ascending. All lists below have one entry for each of them.
    pub documents: Vec<u16>,
    /// Matches of each leaf, by [`LeafId`].
    pub leaves: Vec<LeafMatches>,
}

impl ChunkMatches {
    /// Matches of a leaf.
    pub fn leaf(&self, id: LeafId) -> &LeafMatches {
        &self.leaves[id.0]
    }
}

/// Matches of a leaf in the matched documents of a chunk.
#[derive(Debug, Clone)]
pub enum LeafMatches {
    /// No matches, or no demand for them.
    None,
    /// True for each document that matches.
    Matched(Vec<bool>),
    /// Words among tokens.
    Words(WordOccurrences),
    /// A weight for each document that matches: weighted sets, `in`, array elements (1).
    Weights(Vec<Option<i64>>),
    /// Distances in the metric's own unit; infinite without a vector.
    Distances(Vec<f64>),
}

/// Occurrences of the words of a leaf in the matched documents of a chunk.
#[derive(Debug, Clone, Default)]
pub struct WordOccurrences {
    /// Number of occurrences in each document; 0 if the leaf does not match.
    pub counts: Vec<u32>,
    /// With [`RankingDemands::positions`]: the first token of each occurrence, document after document
    /// (`counts` gives the number per document), as an index among the document's tokens, including element
    /// boundaries.
    pub positions: Vec<u32>,
}

/// Statistics of the terms of a plan over all documents in scope, for features that rate rare words higher.
/// The statistics of several nodes are added up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TermStatistics {
    /// Number of live documents in scope.
    pub documents: u64,
    /// For each leaf, by [`LeafId`], the number of documents that it matches. Only ranked words are counted.
    pub document_frequency: Vec<u64>,
    /// Lengths of text fields, by the name of the field.
    pub fields: BTreeMap<Arc<str>, FieldStatistics>,
}

impl TermStatistics {
    /// Adds statistics of other documents for the same plan.
    pub fn add(&mut self, other: &TermStatistics) {
        self.documents += other.documents;
        if self.document_frequency.len() < other.document_frequency.len() {
            self.document_frequency.resize(other.document_frequency.len(), 0);
        }
        for (frequency, more) in self.document_frequency.iter_mut().zip(&other.document_frequency) {
            *frequency += more;
        }
        for (name, more) in &other.fields {
            let field = self.fields.entry(Arc::clone(name)).or_default();
            field.documents += more.documents;
            field.tokens += more.tokens;
        }
    }
}

/// Length of a text field over all documents in scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct FieldStatistics {
    /// Number of live documents with at least one token.
    pub documents: u64,
    /// Total number of tokens in these documents.
    pub tokens: u64,
}

impl FieldStatistics {
    /// Average number of tokens of the documents that have any; 1 if none has.
    pub fn average_length(&self) -> f64 {
        if self.documents == 0 { 1.0 } else { self.tokens as f64 / self.documents as f64 }
    }
}

impl ChunkMatches {
    /// Keeps only the documents that `keep` accepts, which gets them in order; `None` if it accepts none.
    pub fn retain(self, mut keep: impl FnMut(u16) -> bool) -> Option<Self> {
        let kept: Vec<bool> = self.documents.iter().map(|document| keep(*document)).collect();
        if kept.iter().all(|kept| *kept) {
            return (!kept.is_empty()).then_some(self);
        }
        let documents = filtered(self.documents, &kept);
        let leaves = self.leaves.into_iter().map(|leaf| leaf.filtered(&kept)).collect();
        (!documents.is_empty()).then_some(ChunkMatches { chunk: self.chunk, documents, leaves })
    }
}

impl LeafMatches {
    /// True if there is no match in any document.
    pub(crate) fn is_nothing(&self) -> bool {
        match self {
            LeafMatches::None => true,
            LeafMatches::Matched(matched) => !matched.contains(&true),
            LeafMatches::Words(occurrences) => occurrences.counts.iter().all(|count| *count == 0),
            LeafMatches::Weights(weights) => weights.iter().all(Option::is_none),
            LeafMatches::Distances(distances) => distances.iter().all(|distance| *distance == f64::INFINITY),
        }
    }

    /// Memory that they take, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            LeafMatches::None => 0,
            LeafMatches::Matched(matched) => size_of_val(&**matched),
            LeafMatches::Words(occurrences) => {
                size_of_val(&*occurrences.counts) + size_of_val(&*occurrences.positions)
            }
            LeafMatches::Weights(weights) => size_of_val(&**weights),
            LeafMatches::Distances(distances) => size_of_val(&**distances),
        }
    }

    /// Removes the matches in those of `documents` that are not `active`. Distances are no matches, and stay.
    pub(crate) fn limited_to(mut self, documents: &[u16], active: &DocumentBits) -> Self {
        let idle: Vec<bool> = documents.iter().map(|document| !active.get(usize::from(*document))).collect();
        match &mut self {
            LeafMatches::None | LeafMatches::Distances(_) => {}
            LeafMatches::Matched(matched) => {
                matched.iter_mut().zip(&idle).for_each(|(matched, idle)| *matched &= !idle);
            }
            LeafMatches::Weights(weights) => {
                weights
                    .iter_mut()
                    .zip(&idle)
                    .filter(|(_, idle)| **idle)
                    .for_each(|(weight, _)| *weight = None);
            }
            LeafMatches::Words(occurrences) => occurrences.remove(&idle),
        }
        self
    }

    fn filtered(self, kept: &[bool]) -> Self {
        match self {
            LeafMatches::None => LeafMatches::None,
            LeafMatches::Matched(matched) => LeafMatches::Matched(filtered(matched, kept)),
            LeafMatches::Weights(weights) => LeafMatches::Weights(filtered(weights, kept)),
            LeafMatches::Distances(distances) => LeafMatches::Distances(filtered(distances, kept)),
            LeafMatches::Words(occurrences) => LeafMatches::Words(occurrences.filtered(kept)),
        }
    }
}

impl WordOccurrences {
    /// Removes the occurrences in the documents for which `idle` is true.
    fn remove(&mut self, idle: &[bool]) {
        let (mut start, mut positions) = (0, Vec::with_capacity(self.positions.len()));
        for (count, idle) in self.counts.iter_mut().zip(idle) {
            // Without positions there is nothing to remove.
            let end = (start + *count as usize).min(self.positions.len());
            match idle {
                true => *count = 0,
                false => positions.extend_from_slice(&self.positions[start..end]),
            }
            start = end;
        }
        self.positions = positions;
    }

    fn filtered(self, kept: &[bool]) -> Self {
        let mut positions = Vec::new();
        let mut rest = self.positions.as_slice();
        for (count, kept) in self.counts.iter().zip(kept) {
            // Without positions there is nothing to split.
            let (here, after) = rest.split_at((*count as usize).min(rest.len()));
            if *kept {
                positions.extend_from_slice(here);
            }
            rest = after;
        }
        WordOccurrences { counts: filtered(self.counts, kept), positions }
    }
}

fn filtered<T>(entries: Vec<T>, kept: &[bool]) -> Vec<T> {
    entries.into_iter().zip(kept).filter(|(_, kept)| **kept).map(|(entry, _)| entry).collect()
}
