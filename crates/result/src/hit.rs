use std::cmp::Ordering;
use std::sync::Arc;

use millrace_document::{DocumentId, DocumentValue};
use millrace_tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::{GroupingResult, wire};

/// Result of one pass over documents.
#[derive(Debug, Clone, Default)]
pub struct PartialResult {
    /// Number of matching documents, including those without a hit here.
    pub total_count: u64,
    /// Best hits, best first; at most offset + hits of the query.
    pub hits: Vec<ResultHit>,
    /// Groups, one per grouping request, in order.
    pub groupings: Vec<GroupingResult>,
    /// Share of the documents that was examined.
    pub coverage: SearchCoverage,
}

/// A document in a result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResultHit {
    /// Id of the document.
    pub id: DocumentId,
    /// Type of the document.
    pub document_type: Arc<str>,
    /// Relevance score; never NaN (which becomes −∞).
    pub relevance: f64,
    /// Sort values if the query specifies an order; they take precedence over relevance.
    pub sort_values: Vec<SortValue>,
    /// Fields of the summary, in its order.
    pub fields: Vec<(Arc<str>, FieldValue)>,
    /// Name of the content cluster.
    pub source: Arc<str>,
}

impl ResultHit {
    /// Memory that it takes, in bytes, without what allocations round up to.
    pub fn memory_bytes(&self) -> usize {
        let keys: usize = self.sort_values.iter().map(SortValue::memory_bytes).sum();
        let fields: usize =
            self.fields.iter().map(|(_, value)| size_of::<Arc<str>>() + value.memory_bytes()).sum();
        size_of::<Self>() + keys + fields
    }

    /// Order of hits: by sort values, or without any by descending relevance; then by id, so that it is
    /// deterministic.
    pub fn order(&self, other: &ResultHit) -> Ordering {
        self.sort_values
            .cmp(&other.sort_values)
            .then_with(|| match self.sort_values.is_empty() {
                true => other.relevance.total_cmp(&self.relevance),
                false => Ordering::Equal,
            })
            .then_with(|| self.id.cmp(&other.id))
    }
}

impl FieldValue {
    /// Memory that it takes, in bytes, without what allocations round up to.
    pub fn memory_bytes(&self) -> usize {
        match self {
            FieldValue::Value(value) => value.memory_bytes(),
            FieldValue::Features(features) => {
                let bytes = features.iter().map(|(name, value)| size_of_val(name) + value.memory_bytes());
                size_of::<Self>() + bytes.sum::<usize>()
            }
            FieldValue::Strings(texts) => {
                size_of::<Self>() + texts.iter().map(|text| size_of_val(text) + text.len()).sum::<usize>()
            }
        }
    }
}

impl FeatureValue {
    /// Memory that it takes, in bytes, without what allocations round up to.
    pub fn memory_bytes(&self) -> usize {
        match self {
            FeatureValue::Number(_) => size_of::<Self>(),
            FeatureValue::Tensor(tensor) => size_of::<Self>() + tensor.memory_bytes(),
        }
    }
}

impl SortValue {
    /// Memory that it takes, in bytes, without what allocations round up to.
    pub fn memory_bytes(&self) -> usize {
        match self {
            SortValue::Key(bytes) => size_of::<Self>() + bytes.len(),
            SortValue::First | SortValue::Last => size_of::<Self>(),
        }
    }
}

/// A sort value, encoded so that smaller values come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SortValue {
    /// A missing value before all others.
    First,
    /// Bytes that compare in the requested order (encoded numbers and text).
    Key(#[serde(with = "wire::bytes")] Vec<u8>),
    /// A missing value after all others.
    Last,
}

/// The value of a summary field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FieldValue {
    /// A document's value.
    Value(#[serde(with = "wire::value")] DocumentValue),
    /// Several named numbers or tensors: match features, summary features, rank features.
    Features(Vec<(Arc<str>, FeatureValue)>),
    /// A list of strings (tokens).
    Strings(Vec<String>),
}

/// A rank feature's value in a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FeatureValue {
    /// A number.
    Number(f64),
    /// A tensor.
    Tensor(#[serde(with = "wire::tensor")] Tensor),
}

/// Share of the target documents that was examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SearchCoverage {
    /// Number of examined documents.
    pub documents: u64,
    /// Number of documents to examine.
    pub target: u64,
    /// True if the deadline passed before the end.
    pub timed_out: bool,
    /// True if documents may be missing because no serving node has all of them, or none of those that do has
    /// answered.
    pub non_ideal: bool,
    /// Number of nodes that answered.
    pub nodes: u32,
}

impl SearchCoverage {
    /// True if all documents were examined.
    pub fn is_full(&self) -> bool {
        self.documents >= self.target && !self.timed_out && !self.non_ideal
    }

    /// Share of examined documents in percent, 0 to 100.
    pub fn percent(&self) -> u64 {
        match self.target {
            _ if self.is_full() => 100,
            0 => 0,
            target => (u128::from(self.documents) * 100 / u128::from(target)).min(100) as u64,
        }
    }

    /// Adds another coverage.
    pub fn merge(&mut self, other: &SearchCoverage) {
        self.documents += other.documents;
        self.target += other.target;
        self.timed_out |= other.timed_out;
        self.non_ideal |= other.non_ideal;
        self.nodes += other.nodes;
    }
}
