//! Tensors of many documents, laid out flat: the labels of all subspaces as numbers in one list, and all
//! cells in another. Operations are loops over these lists, and allocate nothing per document.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use millrace_tensor::{ShortText, TensorType};

use crate::value::TensorValue;

/// Number of labels, or of pairs of labels, above which they are forgotten between two batches.
const LABELS_MAX: usize = 1 << 16;

/// Distinct labels, numbered from 0 in the order of their appearance.
#[derive(Debug, Default)]
pub(crate) struct LabelTable {
    short: HashMap<ShortText, u32>,
    /// Numbers of the labels that are too long for `short`.
    long: HashTable<u32>,
    hasher: DefaultHashBuilder,
    labels: Vec<Arc<str>>,
}

impl LabelTable {
    /// The number of a label; a new one if it is new. Bytes that are not UTF-8 are replaced.
    pub fn number(&mut self, label: &[u8]) -> u32 {
        use std::hash::BuildHasher;
        let LabelTable { short, long, hasher, labels } = self;
        let number = labels.len() as u32;
        if let Some(text) = ShortText::new(label) {
            let known = *short.entry(text).or_insert(number);
            if known == number {
                labels.push(String::from_utf8_lossy(label).into());
            }
            return known;
        }
        let hash = hasher.hash_one(label);
        if let Some(known) = long.find(hash, |number| labels[*number as usize].as_bytes() == label) {
            return *known;
        }
        labels.push(String::from_utf8_lossy(label).into());
        long.insert_unique(hash, number, |number| hasher.hash_one(labels[*number as usize].as_bytes()));
        number
    }

    /// The number of a label, or one that no label has.
    pub fn find(&self, label: &[u8]) -> u32 {
        use std::hash::BuildHasher;
        let known = match ShortText::new(label) {
            Some(text) => self.short.get(&text),
            None => {
                let is_label = |number: &u32| self.labels[*number as usize].as_bytes() == label;
                self.long.find(self.hasher.hash_one(label), is_label)
            }
        };
        known.copied().unwrap_or(u32::MAX)
    }

    /// The label with a number.
    pub fn label(&self, number: u32) -> &Arc<str> {
        &self.labels[number as usize]
    }
}

/// Subspaces by their labels in some dimensions. An address of several labels has one number: the number of
/// its first label paired with the second, that of this pair paired with the third, and so on.
#[derive(Debug, Default)]
pub(crate) struct AddressIndex {
    pairs: HashMap<u64, u32>,
    /// For each address number, the round in which it was added, and its first entry.
    slots: Vec<(u32, u32)>,
    /// Entries: a number, and the next entry with the same address, or [`NONE`].
    entries: Vec<(u32, u32)>,
    round: u32,
}

const NONE: u32 = u32::MAX;

impl AddressIndex {
    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.slots.clear();
            self.round = 1;
        }
    }

    /// The number of the labels of `address` at `dimensions`, of which there is at least one.
    fn key(&mut self, address: &[u32], mut dimensions: impl Iterator<Item = usize>) -> usize {
        let mut key = dimensions.next().map_or(0, |dimension| address[dimension]);
        for dimension in dimensions {
            let next = self.pairs.len() as u32;
            key = *self.pairs.entry(u64::from(key) << 32 | u64::from(address[dimension])).or_insert(next);
        }
        key as usize
    }

    /// Adds an entry before those with the same labels.
    pub fn insert(&mut self, address: &[u32], dimensions: impl Iterator<Item = usize>, number: usize) {
        let key = self.key(address, dimensions);
        if self.slots.len() <= key {
            self.slots.resize(key + 1, (0, NONE));
        }
        let next = if self.slots[key].0 == self.round { self.slots[key].1 } else { NONE };
        self.slots[key] = (self.round, self.entries.len() as u32);
        self.entries.push((number as u32, next));
    }

    /// The first entry with these labels.
    pub fn first(&mut self, address: &[u32], dimensions: impl Iterator<Item = usize>) -> Option<usize> {
        let key = self.key(address, dimensions);
        self.slots.get(key).filter(|slot| slot.0 == self.round).map(|slot| slot.1 as usize)
    }

    /// The number that was added with an entry, and the next entry with the same labels.
    pub fn entry(&self, entry: usize) -> (usize, Option<usize>) {
        let (number, next) = self.entries[entry];
        (number as usize, (next != NONE).then_some(next as usize))
    }
}

/// Memory that operations on batches share.
#[derive(Debug, Default)]
pub(crate) struct BatchSpace {
    pub labels: LabelTable,
    pub index: AddressIndex,
    pub left: Vec<f64>,
    pub right: Vec<f64>,
    pub order: Vec<usize>,
    /// Group and number of subspaces.
    pub groups: Vec<(u32, u32)>,
}

impl BatchSpace {
    /// Forgets labels if there are many. No batch may be in use.
    pub fn trim(&mut self) {
        if self.labels.labels.len() > LABELS_MAX {
            self.labels = LabelTable::default();
        }
        if self.index.pairs.len() > LABELS_MAX {
            self.index = AddressIndex::default();
        }
    }
}

/// The parts of a tensor type that the layout of a batch depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SubspaceShape {
    /// Number of mapped dimensions.
    pub mapped: usize,
    /// Number of cells of a dense subspace.
    pub size: usize,
}

impl SubspaceShape {
    pub fn of(tensor_type: &TensorType) -> Self {
        SubspaceShape { mapped: tensor_type.mapped().count(), size: tensor_type.dense_size() }
    }
}

/// Tensors of one type.
#[derive(Debug, Clone, Default)]
pub(crate) struct TensorBatch {
    /// For each tensor the number of its first subspace, followed by the number of all; empty without mapped
    /// dimensions, where each tensor is one subspace.
    pub starts: Vec<u32>,
    /// Labels of each subspace in turn, one per mapped dimension, as numbers in the [`LabelTable`].
    pub labels: Vec<u32>,
    pub cells: Vec<f64>,
}

impl TensorBatch {
    /// A batch without tensors, in the memory of another.
    pub fn new(shape: SubspaceShape, mut cells: Vec<f64>) -> Self {
        cells.clear();
        let starts = if shape.mapped > 0 { vec![0] } else { Vec::new() };
        TensorBatch { starts, labels: Vec::new(), cells }
    }

    /// One tensor.
    pub fn of_value(value: &TensorValue, labels: &mut LabelTable) -> Self {
        let shape = SubspaceShape::of(&value.tensor_type);
        let mut batch = TensorBatch::new(shape, Vec::new());
        batch.labels.extend(value.labels.iter().map(|label| labels.number(label.as_bytes())));
        batch.cells.extend_from_slice(&value.cells);
        batch.end_tensor(shape);
        batch
    }

    /// Ends the current tensor.
    pub fn end_tensor(&mut self, shape: SubspaceShape) {
        if shape.mapped > 0 {
            self.starts.push((self.cells.len() / shape.size) as u32);
        }
    }

    /// The batch as an operand: one tensor for each document, or the first for all.
    pub fn view(&self, shape: SubspaceShape, same: bool) -> BatchView<'_> {
        let sharing = if same { usize::MAX } else { 1 };
        BatchView { shape, starts: &self.starts, labels: &self.labels, cells: &self.cells, sharing, first: 0 }
    }
}

/// Tensors of one type, as an operand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchView<'a> {
    pub shape: SubspaceShape,
    /// Starts of the documents, see [`TensorBatch`].
    pub starts: &'a [u32],
    pub labels: &'a [u32],
    pub cells: &'a [f64],
    /// Number of adjacent documents that share a tensor: `usize::MAX` for all.
    pub sharing: usize,
    /// Number of documents before the first.
    pub first: usize,
}

impl<'a> BatchView<'a> {
    /// Numbers: one for each document, or the first for all.
    pub fn numbers(numbers: &'a [f64], same: bool) -> Self {
        let shape = SubspaceShape { mapped: 0, size: 1 };
        let sharing = if same { usize::MAX } else { 1 };
        BatchView { shape, starts: &[], labels: &[], cells: numbers, sharing, first: 0 }
    }

    /// True if all documents have the same tensor.
    pub fn is_same(&self) -> bool {
        self.sharing == usize::MAX
    }

    /// The subspaces of a document's tensor.
    #[inline]
    pub fn subspaces(&self, document: usize) -> Range<usize> {
        let at = self.first + document;
        let at = if self.sharing == 1 { at } else { at / self.sharing };
        match self.shape.mapped {
            0 => at..at + 1,
            _ => self.starts[at] as usize..self.starts[at + 1] as usize,
        }
    }

    /// The labels of a subspace.
    #[inline]
    pub fn address(&self, subspace: usize) -> &'a [u32] {
        &self.labels[subspace * self.shape.mapped..(subspace + 1) * self.shape.mapped]
    }

    /// The cells of a subspace.
    #[inline]
    pub fn subspace(&self, subspace: usize) -> &'a [f64] {
        &self.cells[subspace * self.shape.size..(subspace + 1) * self.shape.size]
    }

    /// The cells of a document's tensor.
    #[inline]
    pub fn of_document(&self, document: usize) -> &'a [f64] {
        let subspaces = self.subspaces(document);
        &self.cells[subspaces.start * self.shape.size..subspaces.end * self.shape.size]
    }

    /// The cells of all of the first documents, in order, if they are adjacent.
    pub fn adjacent(&self, documents: usize) -> Option<&'a [f64]> {
        if self.sharing != 1 {
            return None;
        }
        let begin = self.subspaces(0).start;
        let end = if documents == 0 { begin } else { self.subspaces(documents - 1).end };
        Some(&self.cells[begin * self.shape.size..end * self.shape.size])
    }

    /// The tensor of one document, for all.
    pub fn one(&self, document: usize) -> Self {
        let subspaces = self.subspaces(document);
        let at = (self.first + document) / self.sharing;
        let starts = if self.shape.mapped == 0 { &[] } else { &self.starts[at..at + 2] };
        let cells = match self.shape.mapped {
            0 => &self.cells[subspaces.start * self.shape.size..subspaces.end * self.shape.size],
            _ => self.cells,
        };
        BatchView { starts, cells, sharing: usize::MAX, first: 0, ..*self }
    }

    /// The tensors of the documents from one on, for as many adjacent entries each.
    pub fn spread(&self, document: usize, entries: usize) -> Self {
        if self.is_same() {
            return *self;
        }
        BatchView { sharing: self.sharing * entries, first: (self.first + document) * entries, ..*self }
    }

    /// Appends the tensor of a document to a batch of the same shape.
    pub fn copy_to(&self, document: usize, out: &mut TensorBatch) {
        let subspaces = self.subspaces(document);
        out.cells.extend_from_slice(self.of_document(document));
        let labels = subspaces.start * self.shape.mapped..subspaces.end * self.shape.mapped;
        out.labels.extend_from_slice(&self.labels[labels]);
        out.end_tensor(self.shape);
    }

    /// The labels and the subspace boundaries of the first documents in a batch that has no cells yet.
    pub fn copy_labels(&self, documents: usize, cells: Vec<f64>) -> TensorBatch {
        let mut out = TensorBatch::new(self.shape, cells);
        if self.shape.mapped > 0 {
            let mut subspaces = 0;
            for document in 0..documents {
                let range = self.subspaces(document);
                subspaces += range.len();
                out.starts.push(subspaces as u32);
                let labels = range.start * self.shape.mapped..range.end * self.shape.mapped;
                out.labels.extend_from_slice(&self.labels[labels]);
            }
        }
        out
    }

    /// The tensor of a document.
    pub fn value(&self, document: usize, tensor_type: &TensorType, labels: &LabelTable) -> TensorValue {
        let subspaces = self.subspaces(document);
        let numbers = &self.labels[subspaces.start * self.shape.mapped..subspaces.end * self.shape.mapped];
        TensorValue {
            tensor_type: tensor_type.clone(),
            labels: numbers.iter().map(|number| Arc::clone(labels.label(*number))).collect(),
            cells: self.of_document(document).to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LabelTable;

    #[test]
    fn labels_of_any_length_are_numbered_once() {
        let labels: Vec<String> =
            (0..40).flat_map(|length| ["a", "b", "é"].map(|letter| letter.repeat(length))).collect();
        let mut table = LabelTable::default();
        let numbers: Vec<u32> = labels.iter().map(|label| table.number(label.as_bytes())).collect();
        for (label, number) in labels.iter().zip(&numbers) {
            assert_eq!(table.number(label.as_bytes()), *number, "{label}");
            assert_eq!(table.find(label.as_bytes()), *number, "{label}");
            assert_eq!(**table.label(*number), **label);
        }
        // The three texts without letters are one label.
        assert_eq!(numbers.iter().max(), Some(&(labels.len() as u32 - 3)));
        assert_eq!([&b"c"[..], &[b'c'; 20]].map(|label| table.find(label)), [u32::MAX; 2]);
    }
}
