//! Conversion of columns to the current layout, of chunks that were written under another one.
//!
//! A value column can be of a type that its field had before. A value of the current type can be in the
//! overflow column, if it was written before the field was declared, or while it had another type. Views get
//! such columns joined with the overflow, as the next merge writes them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millrace_column::{Column, ColumnForm, ColumnKey, OverflowRows, join_values, layout as column_layout};
use millrace_segment::SegmentFile;
use quick_cache::Weighter;
use xxhash_rust::xxh3::Xxh3;

use crate::{Error, StoreLayout};

/// Joined columns that were made lately, up to a number of bytes.
pub(crate) struct JoinedColumnCache(quick_cache::sync::Cache<u128, Option<Column>, JoinedColumnWeigher>);

/// Overhead of an entry of the cache, in bytes, about.
const ENTRY_BYTES: u64 = 64;
/// Number of entries for which the tables of the cache are made at first; they grow when they must.
const ENTRIES_FIRST: usize = 256;

#[derive(Clone)]
struct JoinedColumnWeigher;

impl Weighter<u128, Option<Column>> for JoinedColumnWeigher {
    fn weight(&self, _: &u128, column: &Option<Column>) -> u64 {
        column.as_ref().map_or(0, |column| column.encoded().len() as u64) + ENTRY_BYTES
    }
}

impl JoinedColumnCache {
    pub fn new(bytes: u64) -> Self {
        JoinedColumnCache(quick_cache::sync::Cache::with_weighter(ENTRIES_FIRST, bytes, JoinedColumnWeigher))
    }
}

/// The layout that columns are to be of.
pub(crate) struct TargetLayout {
    pub document_type: String,
    pub layout: Arc<dyn StoreLayout>,
    /// Number of the layout: columns joined under one layout are not used under another.
    pub layout_number: u64,
    pub cache: Arc<JoinedColumnCache>,
}

/// Chunks of a segment that follow each other.
#[derive(Clone)]
pub(crate) struct NeighbourChunks<'a> {
    pub segment: &'a SegmentFile,
    pub section: usize,
    pub chunks: Range<u32>,
}

impl TargetLayout {
    /// Converts column `key` of these chunks from the form in which the segment has it. `plain` has a flag
    /// for each chunk that is known to have no overflow, and is updated.
    ///
    /// # Errors
    /// The segment cannot be read or is damaged.
    pub fn convert(
        &self,
        key: &ColumnKey,
        of: &NeighbourChunks<'_>,
        columns: &mut [Option<Column>],
        plain: &[AtomicBool],
    ) -> Result<(), Error> {
        assert!(columns.len() == of.chunks.len(), "each chunk has a column, or none");
        if !matches!(key.form, ColumnForm::Value | ColumnForm::Tokens) {
            return Ok(());
        }
        let overflows = Self::overflows(of, plain)?;
        for (index, column) in columns.iter_mut().enumerate() {
            let overflow = overflows.get(index).and_then(Option::as_ref);
            let chunk = of.chunks.start + index as u32;
            let one = NeighbourChunks { chunks: chunk..chunk + 1, ..of.clone() };
            if !self.is_current(key, column.as_ref(), overflow) {
                *column = self.converted(key, &one, column.take(), overflow)?;
            }
        }
        Ok(())
    }

    /// The overflow of each chunk; empty: none has one.
    fn overflows(of: &NeighbourChunks<'_>, plain: &[AtomicBool]) -> Result<Vec<Option<Column>>, Error> {
        if plain.iter().all(|plain| plain.load(Ordering::Relaxed)) {
            return Ok(Vec::new());
        }
        let overflows = of.segment.columns(of.section, &ColumnKey::overflow(), of.chunks.clone())?;
        for (plain, overflow) in plain.iter().zip(&overflows) {
            plain.store(overflow.is_none(), Ordering::Relaxed);
        }
        Ok(overflows)
    }

    /// Returns true if a column is as the layout wants it, independent of the other columns of the chunk.
    fn is_current(&self, key: &ColumnKey, column: Option<&Column>, overflow: Option<&Column>) -> bool {
        match (key.form, column) {
            (_, _) if overflow.is_some() => false,
            (ColumnForm::Value, Some(column)) => {
                let declared = self.layout.data_type(&self.document_type, &key.field);
                declared.is_none_or(|declared| column_layout(&declared).takes(column))
            }
            // Words are derived where there are none.
            (ColumnForm::Tokens, None) => false,
            _ => true,
        }
    }

    fn converted(
        &self,
        key: &ColumnKey,
        of: &NeighbourChunks<'_>,
        column: Option<Column>,
        overflow: Option<&Column>,
    ) -> Result<Option<Column>, Error> {
        let name = self.name(key, of);
        if let Some(converted) = self.cache.0.get(&name) {
            return Ok(converted);
        }
        let converted = if key.form == ColumnForm::Value {
            self.joined(&key.field, of, column.as_ref(), overflow)?.0
        } else {
            let value = of.segment.columns(of.section, &ColumnKey::value(key.root()), of.chunks.clone())?;
            let (value, moved) =
                self.joined(key.root(), of, value.first().and_then(Option::as_ref), overflow)?;
            match column {
                Some(words) if !moved => Some(words),
                _ => value.and_then(|value| self.layout.derive(&self.document_type, key, &value)),
            }
        };
        self.cache.0.insert(name, converted.clone());
        Ok(converted)
    }

    /// Returns the values of a field in one chunk, and true if they differ from those of its column.
    fn joined(
        &self,
        field: &str,
        of: &NeighbourChunks<'_>,
        column: Option<&Column>,
        overflow: Option<&Column>,
    ) -> Result<(Option<Column>, bool), Error> {
        let Some(declared) = self.layout.data_type(&self.document_type, field) else {
            return Ok((column.cloned(), false));
        };
        let declared = column_layout(&declared);
        let Some(documents) = column.or(overflow).map(Column::len) else { return Ok((None, false)) };
        let is_other = column.is_some_and(|column| !declared.takes(column));
        if overflow.is_none() && !is_other {
            return Ok((column.cloned(), false));
        }
        let damaged = |error: millrace_column::Error| Error::Corrupt {
            path: of.segment.path().to_owned(),
            offset: 0,
            reason: error.to_string(),
        };
        let mut overflow = OverflowRows::decode(&[(overflow, 0..documents)]).map_err(damaged)?;
        let joined =
            join_values(field, Some(&declared), &[(column, 0..documents)], &mut overflow).map_err(damaged)?;
        Ok((joined, is_other || overflow.moved() > 0))
    }

    fn name(&self, key: &ColumnKey, of: &NeighbourChunks<'_>) -> u128 {
        let mut hasher = Xxh3::new();
        for number in [of.segment.number(), of.section as u64, of.chunks.start.into(), self.layout_number] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(&[u8::from(key.form == ColumnForm::Tokens)]);
        hasher.update(key.field.as_bytes());
        hasher.digest128()
    }
}
