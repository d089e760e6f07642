//! Merges several segments into one; each source may be older than another in parts.
//!
//! 1. Types come in order. The columns of a type are those of all sources, as chosen by the policy.
//! 2. Each source has a cursor at a row. The cursor whose row is first in the order of keys advances.
//! 3. If only one source has a group, and nothing of it can be removed, its chunks are copied unchanged.
//! 4. Otherwise rows are taken one by one. Of rows with the same key the newest wins. Versions that were
//!    dropped with their group are removed, and so are removals that need not be remembered any more.
//! 5. Taken rows are recorded as runs of a chunk of a source; when a chunk is full, or the group ends, its
//!    columns are concatenated from those runs. No document is parsed; single values are, if a field's type
//!    was changed (see `values`).

mod concat;
mod cursor;
mod output;
mod values;

use std::sync::Arc;

use millrace_bucket::LocationRange;
use millrace_column::{Column, ColumnKey, Compression, ValueLayout};
use millrace_document::ReversedLocation;

use self::cursor::MergeCursor;
use self::output::{MergedChunkRows, TypeOutput};
use crate::{Error, NewColumn, SegmentFile, SegmentWriter};

/// A source of a merge.
#[derive(Debug, Clone)]
pub struct MergeInput {
    /// The segment.
    pub segment: Arc<SegmentFile>,
    /// Only documents whose location is in one of these ranges. In order, without overlaps.
    pub locations: Vec<LocationRange>,
}

/// Decisions of a merge that do not follow from the sources.
pub trait MergePolicy {
    /// Returns the columns of a type to keep, and those to derive in addition; sorted. Columns that belong to
    /// no field are always kept.
    fn columns(&self, document_type: &str, present: &[ColumnKey]) -> Vec<ColumnKey>;

    /// Returns the current layout of a field's values; `None` for a field that the schema does not have.
    fn layout(&self, document_type: &str, field: &str) -> Option<ValueLayout>;

    /// A column, from the value column of its field; `None` when it cannot be derived.
    fn derive(&self, document_type: &str, key: &ColumnKey, value: &Column) -> Option<Column>;

    /// Returns the compression of a column.
    fn compression(&self, document_type: &str, key: &ColumnKey) -> Compression;

    /// Versions of this group at this location with this timestamp or an earlier one were dropped;
    /// 0: none. It is the same at all locations of a group that are in one range of a source.
    fn dropped_until(&self, document_type: &str, location: ReversedLocation, group: &str) -> u64;

    /// Removals with an earlier timestamp need not be remembered, as far as the sources are all that there is
    /// of their group.
    fn forget_removals_before(&self) -> u64;

    /// Returns true if the merge should stop, because the result is no longer wanted.
    fn cancelled(&self) -> bool;
}

/// Size in bytes at which a chunk is closed.
const CHUNK_BYTES: u64 = 8 << 20;

/// Writes the merged contents of the sources. Returns `false` if the policy cancelled it.
///
/// # Errors
/// A source cannot be read or is damaged; the writer cannot write.
pub fn merge(
    inputs: &[MergeInput],
    writer: &mut SegmentWriter<'_>,
    policy: &dyn MergePolicy,
) -> Result<bool, Error> {
    let mut types: Vec<&str> = inputs
        .iter()
        .flat_map(|input| input.segment.sections())
        .map(|section| section.document_type.as_str())
        .collect();
    types.sort_unstable();
    types.dedup();
    for document_type in types {
        if !merge_section(document_type, inputs, writer, policy)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn merge_section(
    document_type: &str,
    inputs: &[MergeInput],
    writer: &mut SegmentWriter<'_>,
    policy: &dyn MergePolicy,
) -> Result<bool, Error> {
    let mut cursors = Vec::new();
    for input in inputs {
        if let Some(section) = input.segment.section(document_type) {
            cursors.push(MergeCursor::new(input, section)?);
        }
    }
    let mut present: Vec<ColumnKey> =
        cursors.iter().flat_map(|cursor| cursor.section().columns.iter().cloned()).collect();
    present.sort_unstable();
    present.dedup();
    let mut columns = policy.columns(document_type, &present);
    columns.extend(present.iter().filter(|key| key.field.is_empty()).cloned());
    // Values that their column cannot hold any more go there.
    columns.push(ColumnKey::overflow());
    columns.sort_unstable();
    columns.dedup();

    let new_column =
        |key: &ColumnKey| NewColumn { key: key.clone(), compression: policy.compression(document_type, key) };
    writer.begin_section(document_type, columns.iter().map(new_column).collect())?;
    let mut output =
        TypeOutput { document_type, columns: &columns, policy, taken: MergedChunkRows::default() };
    loop {
        if policy.cancelled() {
            return Ok(false);
        }
        let Some(group) = next_group(&cursors) else { break };
        let holders: Vec<usize> =
            (0..cursors.len()).filter(|&index| cursors[index].stands_in(&group)).collect();
        if let [only] = holders[..]
            && cursors[only].is_whole_group()
        {
            let dropped =
                policy.dropped_until(document_type, ReversedLocation::first_of_group(group.0), &group.1);
            if cursors[only].take_whole_group(dropped, &columns, policy, writer)? {
                continue;
            }
        }
        output.rows_of_group(&group, &mut cursors, writer)?;
    }
    Ok(true)
}

/// Returns the group whose rows come next: location and key. Documents without a group are in one as long as
/// no other group comes between.
fn next_group(cursors: &[MergeCursor]) -> Option<(u32, String)> {
    cursors.iter().filter_map(MergeCursor::group).min()
}
