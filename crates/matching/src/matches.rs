use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_plan::LeafId;
use serde::{Deserialize, Serialize};

/// What ranking will ask about, so that nothing else is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demands {
    /// How often a word occurs.
    pub counts: bool,
    /// Where it occurs (implies counts).
    pub positions: bool,
    /// [`Statistics`], over all live documents in scope, whether they match the rest of the query or not.
    pub statistics: bool,
}

/// What matched.
#[derive(Debug, Clone, Default)]
pub struct Matches {
    /// The chunks with at least one matched document, in order.
    pub chunks: Vec<ChunkMatches>,
    /// Over all live documents in scope.
    pub statistics: Statistics,
    /// Live documents that were looked at.
    pub documents: u64,
    /// The deadline passed; chunks after the last one here were not looked at.
    pub timed_out: bool,
}

/// What matched in one chunk.
#[derive(Debug, Clone)]
pub struct ChunkMatches {
    /// The chunk's number in the view.
    pub chunk: usize,
    /// The matched documents, by place in the chunk, ascending. All lists below have one entry for each of them.
    pub documents: Vec<u16>,
    /// What each leaf found, by [`LeafId`].
    pub leaves: Vec<LeafMatches>,
}

impl ChunkMatches {
    /// What a leaf found.
    pub fn leaf(&self, id: LeafId) -> &LeafMatches {
        &self.leaves[id.0]
    }
}

/// What a leaf found in the matched documents of a chunk.
#[derive(Debug, Clone)]
pub enum LeafMatches {
    /// Nothing in any of them, or nobody asked.
    None,
    /// Whether it matches.
    Matched(Vec<bool>),
    /// Words among tokens.
    Words(Occurrences),
    /// A weight where it matches: weighted sets, `in`, array elements (1).
    Weights(Vec<Option<i64>>),
    /// How far away, in the metric's own unit; infinite where there is no vector.
    Distances(Vec<f64>),
}

/// Where words occur.
#[derive(Debug, Clone, Default)]
pub struct Occurrences {
    /// How often, for each document; 0 where the leaf does not match.
    pub counts: Vec<u32>,
    /// With [`Demands::positions`]: the first token of each occurrence, document after document (`counts` says how many belong to
    /// each), as places among the document's tokens, element boundaries counted.
    pub positions: Vec<u32>,
}

/// Term statistics of the group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Live documents in scope.
    pub documents: u64,
    /// For each leaf, by [`LeafId`], in how many of them it matches. Counted for ranked words only.
    pub document_frequency: Vec<u64>,
    /// By field.
    pub fields: BTreeMap<Arc<str>, FieldStatistics>,
}

impl Statistics {
    /// Adds those of other documents, of the same plan.
    pub fn add(&mut self, other: &Statistics) {
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

/// Statistics of a text field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct FieldStatistics {
    /// Live documents with at least one token.
    pub documents: u64,
    /// Tokens of all of them.
    pub tokens: u64,
}

impl FieldStatistics {
    /// Tokens of the average document that has any; 1 where none has.
    pub fn average_length(&self) -> f64 {
        if self.documents == 0 { 1.0 } else { self.tokens as f64 / self.documents as f64 }
    }
}

impl ChunkMatches {
    /// Only the documents that `keep` accepts; `None` when that is none of them.
    pub fn retain(self, keep: impl Fn(u16) -> bool) -> Option<Self> {
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
    /// Whether no document has any of it.
    pub(crate) fn is_nothing(&self) -> bool {
        match self {
            LeafMatches::None => true,
            LeafMatches::Matched(matched) => !matched.contains(&true),
            LeafMatches::Words(occurrences) => occurrences.counts.iter().all(|count| *count == 0),
            LeafMatches::Weights(weights) => weights.iter().all(Option::is_none),
            LeafMatches::Distances(distances) => distances.iter().all(|distance| *distance == f64::INFINITY),
        }
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

impl Occurrences {
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
        Occurrences { counts: filtered(self.counts, kept), positions }
    }
}

fn filtered<T>(entries: Vec<T>, kept: &[bool]) -> Vec<T> {
    entries.into_iter().zip(kept).filter(|(_, kept)| **kept).map(|(entry, _)| entry).collect()
}
