//! Places in the order of a visit, as its continuations name them.

use millrace_bucket::{DocumentSortKey, reversed_location};
use millrace_document::{DocumentGroup, DocumentId};

use crate::Error;

/// A place in the order of a visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StorePosition {
    /// Number of the type.
    pub document_type: usize,
    /// True among the documents with a group.
    pub grouped: bool,
    pub sort_key: Vec<u8>,
}

impl StorePosition {
    /// The position of a document.
    pub fn of(document_type: usize, id: &DocumentId) -> Self {
        StorePosition {
            document_type,
            grouped: *id.group() != DocumentGroup::None,
            sort_key: DocumentSortKey::new(id).as_bytes().to_vec(),
        }
    }

    /// Share of all locations of `document_types` types before this position, from 0 to 1. Documents without
    /// a group are assumed to be few.
    pub fn progress(&self, document_types: usize) -> f64 {
        let location = match self.grouped {
            true => f64::from(reversed_location(&self.sort_key).high()) / (1_u64 << 32) as f64,
            false => 0.0,
        };
        (self.document_type as f64 + location) / document_types.max(1) as f64
    }

    pub fn encode(&self) -> String {
        let mut text = format!("{}{}", if self.grouped { 'g' } else { 'u' }, self.document_type);
        text.push('.');
        for byte in &self.sort_key {
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }

    pub fn decode(text: &str) -> Result<Self, Error> {
        let parse = || {
            let (head, hex) = text.split_once('.')?;
            let grouped = match head.get(..1)? {
                "g" => true,
                "u" => false,
                _ => return None,
            };
            if hex.len() % 2 != 0 || !hex.is_ascii() {
                return None;
            }
            let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok());
            Some(StorePosition {
                document_type: head[1..].parse().ok()?,
                grouped,
                sort_key: bytes.collect::<Option<_>>()?,
            })
        };
        parse().ok_or(Error::Continuation)
    }
}
