use std::cmp::Ordering;
use std::sync::Arc;

use millrace_document::{DocumentId, Value};
use millrace_tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::{GroupingResult, wire};

/// What one pass over documents found.
#[derive(Debug, Clone, Default)]
pub struct PartialResult {
    /// How many documents matched, those without a hit here included.
    pub total_count: u64,
    /// The best hits, best first; at most offset + hits of the query.
    pub hits: Vec<Hit>,
    /// One for each grouping request, in order.
    pub groupings: Vec<GroupingResult>,
    /// What was looked at.
    pub coverage: Coverage,
}

/// One document found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hit {
    /// The document.
    #[serde(with = "wire::id")]
    pub id: DocumentId,
    /// Its type.
    pub document_type: Arc<str>,
    /// Its score; never NaN (that becomes −∞).
    pub relevance: f64,
    /// What it is sorted by, where the query asks for an order; compares before relevance.
    pub sort_values: Vec<SortValue>,
    /// The summary's fields, in the summary's order.
    pub fields: Vec<(Arc<str>, FieldValue)>,
    /// The content cluster.
    pub source: Arc<str>,
}

impl Hit {
    /// The order of hits: by sort values, then relevance (highest first), then id, so that it is the same on every run.
    pub fn order(&self, other: &Hit) -> Ordering {
        self.sort_values
            .cmp(&other.sort_values)
            .then_with(|| other.relevance.total_cmp(&self.relevance))
            .then_with(|| self.id.cmp(&other.id))
    }
}

/// A value to sort by, already turned so that smaller comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SortValue {
    /// A missing value that goes before all others.
    First,
    /// Bytes that compare in the order wanted (numbers and text are encoded so).
    Key(#[serde(with = "wire::bytes")] Vec<u8>),
    /// A missing value that goes after all others.
    Last,
}

/// The value of a summary field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FieldValue {
    /// A document's value.
    Value(#[serde(with = "wire::value")] Value),
    /// Several named numbers or tensors: match features, summary features, rank features.
    Features(Vec<(Arc<str>, Feature)>),
    /// A list of strings (tokens).
    Strings(Vec<String>),
}

/// A rank feature's value in a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Feature {
    /// A number.
    Number(f64),
    /// A tensor.
    Tensor(#[serde(with = "wire::tensor")] Tensor),
}

/// How much of what should have been looked at was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Coverage {
    /// Documents looked at.
    pub documents: u64,
    /// Documents that should have been looked at.
    pub target: u64,
    /// Whether the deadline passed before the end.
    pub timed_out: bool,
    /// Whether documents may be missing since no node that serves has all of them, or none that has them answered.
    pub non_ideal: bool,
    /// Nodes that answered.
    pub nodes: u32,
}

impl Coverage {
    /// Whether everything was looked at.
    pub fn is_full(&self) -> bool {
        self.documents >= self.target && !self.timed_out && !self.non_ideal
    }

    /// How much of it, from 0 to 100.
    pub fn percent(&self) -> u64 {
        match self.target {
            _ if self.is_full() => 100,
            0 => 0,
            target => (u128::from(self.documents) * 100 / u128::from(target)).min(100) as u64,
        }
    }

    /// Both together.
    pub fn merge(&mut self, other: &Coverage) {
        self.documents += other.documents;
        self.target += other.target;
        self.timed_out |= other.timed_out;
        self.non_ideal |= other.non_ideal;
        self.nodes += other.nodes;
    }
}
