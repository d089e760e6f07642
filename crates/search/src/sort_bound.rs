//! A test of a document's value against a key of the last hit, without making the document's key.

use std::cmp::Ordering;

use bytemuck::AnyBitPattern;
use millrace_column::{CellKind, Column, FixedColumn};
use millrace_plan::LocaleCollation;

use crate::sort_key::{ordered_float, ordered_integer};

/// The key of the last hit so far by which documents of a chunk differ first, in the form in which values
/// compare with it.
#[derive(Debug)]
pub(crate) struct SortBound {
    pub values: ValueBound,
    /// True if larger values come first.
    pub descending: bool,
    /// True if documents without a value come after the last hit.
    pub missing_after: bool,
}

/// The bound of values.
#[derive(Debug)]
pub(crate) enum ValueBound {
    /// No value is known to come after the last hit.
    Unknown,
    /// All values come after the last hit.
    All,
    /// The number of an integer's key.
    Integer(u64),
    /// The number of the key of any other number.
    Float(u64),
    /// Bytes of text or binary data.
    Bytes(Vec<u8>),
    /// Lower-case text.
    Lowercase(Vec<u8>),
    /// A text in the order of a locale.
    Collated(LocaleCollation, String),
}

impl SortBound {
    /// Returns the first index from `from` on in `documents` whose document may come before the last hit. All
    /// between come after it by this key alone.
    pub fn skip(&self, column: Option<&Column>, documents: &[u16], from: usize) -> usize {
        let count = match (&self.values, column) {
            (_, None) if self.missing_after => documents.len() - from,
            (ValueBound::All, Some(Column::Fixed(column))) => {
                let presence = column.presence();
                leading(&documents[from..], |document| presence.get(document) || self.missing_after)
            }
            (ValueBound::All, Some(Column::Bytes(column))) => {
                let presence = column.presence();
                leading(&documents[from..], |document| presence.get(document) || self.missing_after)
            }
            (ValueBound::Integer(bound), Some(Column::Fixed(column))) if column.width() == 1 => {
                self.integers(column, *bound, &documents[from..])
            }
            (ValueBound::Float(bound), Some(Column::Fixed(column))) if column.width() == 1 => {
                self.floats(column, *bound, &documents[from..])
            }
            (ValueBound::Bytes(bound), Some(Column::Bytes(column))) => {
                leading(&documents[from..], |document| match column.get(document) {
                    Some(value) => value.cmp(bound) == self.after(),
                    None => self.missing_after,
                })
            }
            (ValueBound::Lowercase(bound), Some(Column::Bytes(column))) => {
                leading(&documents[from..], |document| match column.get(document) {
                    Some(value) => folded_order(value, bound) == Some(self.after()),
                    None => self.missing_after,
                })
            }
            (ValueBound::Collated(collation, bound), Some(Column::Bytes(column))) => {
                leading(&documents[from..], |document| match column.get(document).map(std::str::from_utf8) {
                    Some(Ok(text)) => collation.compare(text, bound) == self.after(),
                    Some(Err(_)) => false,
                    None => self.missing_after,
                })
            }
            (_, None | Some(_)) => 0,
        };
        from + count
    }

    /// Order of a value that comes after the bound.
    fn after(&self) -> Ordering {
        if self.descending { Ordering::Less } else { Ordering::Greater }
    }

    fn integers(&self, column: &FixedColumn, bound: u64, documents: &[u16]) -> usize {
        match column.cell() {
            CellKind::Bool => {
                self.numbers(column, bound, documents, |bool: u8| ordered_integer(i64::from(bool)))
            }
            CellKind::I8 => self.numbers(column, bound, documents, |n: i8| ordered_integer(i64::from(n))),
            CellKind::I32 => self.numbers(column, bound, documents, |n: i32| ordered_integer(i64::from(n))),
            CellKind::I64 => self.numbers(column, bound, documents, ordered_integer),
            CellKind::U64 | CellKind::BF16 | CellKind::F32 | CellKind::F64 => 0,
        }
    }

    fn floats(&self, column: &FixedColumn, bound: u64, documents: &[u16]) -> usize {
        match column.cell() {
            CellKind::BF16 => {
                self.numbers(column, bound, documents, |n: half::bf16| ordered_float(n.to_f64()))
            }
            CellKind::F32 => self.numbers(column, bound, documents, |n: f32| ordered_float(f64::from(n))),
            CellKind::F64 => self.numbers(column, bound, documents, ordered_float),
            CellKind::Bool | CellKind::I8 | CellKind::I32 | CellKind::I64 | CellKind::U64 => 0,
        }
    }

    /// Number of leading documents that come after the bound.
    fn numbers<T: AnyBitPattern>(
        &self,
        column: &FixedColumn,
        bound: u64,
        documents: &[u16],
        ordered: impl Fn(T) -> u64,
    ) -> usize {
        let (cells, presence) = (column.cells::<T>(), column.presence());
        // The key of a descending order has all bits inverted.
        let inverted = if self.descending { u64::MAX } else { 0 };
        leading(documents, |document| match presence.get(document) {
            true => ordered(cells[document]) ^ inverted > bound,
            false => self.missing_after,
        })
    }
}

/// Number of leading documents for which `after` is true.
fn leading(documents: &[u16], after: impl Fn(usize) -> bool) -> usize {
    documents.iter().take_while(|document| after(usize::from(**document))).count()
}

/// Order of a text in lower case and a text that is lower-case already; `None` if it takes more than the
/// case of ASCII to tell.
fn folded_order(text: &[u8], lowercase: &[u8]) -> Option<Ordering> {
    for (byte, other) in text.iter().zip(lowercase) {
        if !byte.is_ascii() {
            return None;
        }
        let order = byte.to_ascii_lowercase().cmp(other);
        if order.is_ne() {
            return Some(order);
        }
    }
    Some(text.len().cmp(&lowercase.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_folded_as_far_as_it_decides() {
        let order = |text: &str, lowercase: &str| folded_order(text.as_bytes(), lowercase.as_bytes());
        assert_eq!(order("ABD", "abc"), Some(Ordering::Greater));
        assert_eq!(order("Ab", "abc"), Some(Ordering::Less));
        assert_eq!(order("aBCd", "abc"), Some(Ordering::Greater));
        assert_eq!(order("ABC", "abc"), Some(Ordering::Equal));
        assert_eq!(order("ACÄ", "abc"), Some(Ordering::Greater), "decided before the umlaut");
        assert_eq!(order("AÄc", "aäb"), None, "the umlaut's case is not that of ASCII");
    }
}
