//! The first entries of an index in the order of the hits, where it has too many candidates to look at all.
//!
//! Hits that are sorted by the leading keys are in the order of the entries. So the first hits are among the
//! documents of the first entries, as soon as enough of these are hits: documents of later entries sort
//! after them. Entries with equal values are read together or not at all, since the rest of the order decides
//! between them. Documents that change meanwhile may have left their place, and count as no hits.

use std::collections::{BTreeSet, HashMap};

use millrace_column::{Column, ColumnKey, ReadError, View};
use millrace_document::{DocumentGroup, DocumentId};
use millrace_index::ScannedEntry;
use millrace_keys::{ComponentCondition, KeyComponent, KeyRange, KeyType, overflow_range};
use millrace_plan::{Plan, Predicate, SortBy, SortColumn, TextOrder};
use millrace_store::ViewScope;

use super::IndexDefinition;
use super::service::document_id;
use super::usage::{
    CandidateReading, IndexAccess, IndexUse, NarrowedPart, NarrowedScope, QueriedBuckets, SOUGHT_MAX,
};
use crate::Error;

/// Minimum number of entries that are read at first.
const FIRST_MIN: usize = 256;

/// Factor by which more entries are read each time.
const GROWTH: usize = 4;

/// Number of entries to begin with; `None` if the query needs more than its first hits in an order.
pub fn first_entries(plan: &Plan) -> Option<usize> {
    let is_first = plan.hits > 0 && !plan.sorting.is_empty();
    let is_nearest = plan.leaves.iter().any(|leaf| matches!(leaf.predicate, Predicate::Nearest { .. }));
    let is_all = is_nearest || !plan.groupings.is_empty() || plan.collapse.is_some();
    let wanted = plan.offset.saturating_add(plan.hits);
    (is_first && !is_all).then(|| wanted.saturating_mul(2).clamp(FIRST_MIN, SOUGHT_MAX))
}

/// First entries of an index in the order of a query, where more follow.
pub struct OrderedEntries {
    /// Name of the index.
    name: String,
    /// Number of entries that were read.
    first: usize,
    /// Time of the version of each document, by its id.
    versions: HashMap<String, u64>,
}

impl OrderedEntries {
    /// Number of documents of a view whose version is not that of the entries.
    ///
    /// # Errors
    /// A column cannot be read.
    pub fn changed(&self, view: &dyn View) -> Result<u64, Error> {
        let failed = |error: ReadError| Error::Internal(error.to_string());
        let mut changed = 0;
        for (number, chunk) in view.chunks().iter().enumerate() {
            let column = |key: &ColumnKey| -> Result<Option<Column>, Error> {
                Ok(view.columns(key, number..number + 1).map_err(failed)?.pop().flatten())
            };
            let (ids, timestamps) = (column(&ColumnKey::id())?, column(&ColumnKey::timestamp())?);
            for row in (0..chunk.documents).filter(|row| is_live(chunk.live.as_deref(), *row)) {
                let id = match &ids {
                    Some(Column::Bytes(ids)) => ids.get(row).and_then(|id| std::str::from_utf8(id).ok()),
                    _ => None,
                };
                let timestamp = match &timestamps {
                    Some(Column::Fixed(timestamps))
                        if timestamps.cell().size() == 8 && timestamps.width() == 1 =>
                    {
                        timestamps.cells::<u64>().get(row)
                    }
                    _ => None,
                };
                let known = id.and_then(|id| self.versions.get(id));
                changed += u64::from(known.is_none() || known != timestamp);
            }
        }
        Ok(changed)
    }

    /// Number of entries to read next, since these have too few hits.
    ///
    /// # Errors
    /// As many as may be read were read.
    pub fn more(&self) -> Result<usize, Error> {
        if self.first < SOUGHT_MAX {
            return Ok(self.first.saturating_mul(GROWTH).min(SOUGHT_MAX));
        }
        Err(Error::BadRequest(format!(
            "index '{}' has too few hits among its first {SOUGHT_MAX} entries in the order of the query: add a condition, or let the query stream with index.use=none",
            self.name
        )))
    }
}

fn is_live(live: Option<&[u64]>, row: usize) -> bool {
    live.is_none_or(|words| words[row / 64] >> (row % 64) & 1 == 1)
}

/// Returns the number of leading components of the keys within which the entries of the ranges are in the
/// order of the hits; `None` if they are in another order.
pub(super) fn ordered_components(
    definition: &IndexDefinition,
    plan: &Plan,
    conditions: &[ComponentCondition],
) -> Option<usize> {
    let mut sorting = plan.sorting.iter();
    let mut column = sorting.next();
    let mut ordered = None;
    let keys = definition.config.keys.iter().zip(definition.layout.components());
    for (position, (key, component)) in keys.enumerate() {
        let condition = conditions.get(position);
        if column.is_some_and(|column| is_order_of(column, &key.path, component, condition)) {
            ordered = Some(position + 1);
            column = sorting.next();
        } else if !condition.is_some_and(is_single) {
            break;
        }
    }
    ordered
}

/// True if a column of the order is a component of the keys, in the same order.
fn is_order_of(
    column: &SortColumn,
    path: &str,
    component: &KeyComponent,
    condition: Option<&ComponentCondition>,
) -> bool {
    let is_field = match (&column.by, component.key_type) {
        (SortBy::Number(field), KeyType::Integer) => **field == *path,
        // NaN comes before all numbers in the order of hits, and after them in that of keys. It fulfils no
        // other condition.
        (SortBy::Number(field), KeyType::Float) => {
            **field == *path && condition.is_some_and(|condition| *condition != ComponentCondition::Present)
        }
        (SortBy::Text(field, TextOrder::Raw), KeyType::Text) => {
            **field == *path && component.analyzer.is_none()
        }
        _ => false,
    };
    let is_same = column.descending == component.descending && column.missing.is_none();
    is_field && is_same && !component.several
}

/// True if a condition selects one value.
fn is_single(condition: &ComponentCondition) -> bool {
    match condition {
        ComponentCondition::Bools(values) => values.len() == 1,
        ComponentCondition::Integers(values) => values.len() == 1,
        ComponentCondition::Texts(values) => values.len() == 1,
        ComponentCondition::IntegerRange(..)
        | ComponentCondition::FloatRange(..)
        | ComponentCondition::Prefix(_)
        | ComponentCondition::Present => false,
    }
}

/// Narrows a query to the documents of the `first` entries. `components`: [`ordered_components`].
///
/// # Errors
/// A file cannot be read; too many documents have no place in the order.
pub(super) fn narrow(
    access: &IndexAccess,
    buckets: &QueriedBuckets,
    components: usize,
    first: usize,
) -> Result<NarrowedScope, Error> {
    let definition = &access.index.definition;
    let overflow = overflow_range();
    let ranges: Vec<KeyRange> = access.ranges.iter().filter(|range| **range != overflow).cloned().collect();
    let page = access.index.copy.scan(&ranges, None, first)?;
    let (mut entries, is_whole) = (page.entries, page.continuation.is_none());
    if !is_whole {
        let values = |entry: ScannedEntry<'_>| {
            let length = definition.layout.length_of(entry.key, components);
            length.map(|length| entry.key[..length].to_vec())
        };
        // More entries with the values of the last one can follow.
        let last = entries.last().and_then(values);
        while entries.last().is_some_and(|entry| values(entry) == last) {
            entries.pop();
        }
    }
    let page = access.index.copy.scan(&[overflow], None, SOUGHT_MAX)?;
    if page.continuation.is_some() {
        return Err(too_many_others(definition));
    }
    let entries = entries.iter().map(|entry| (entry.document, entry.timestamp));
    let others = page.entries.iter().map(|entry| entry.document);
    Ok(scope(definition, buckets, first, is_whole, entries, others))
}

/// Error of an index with too many documents that have no place in the order.
pub(super) fn too_many_others(definition: &IndexDefinition) -> Error {
    Error::BadRequest(format!(
        "index '{}' has more than {SOUGHT_MAX} documents with very many elements: let the query stream with index.use=none",
        definition.name()
    ))
}

/// Scope of a query of the documents of some first entries, given with the times of their versions, and of
/// `others`: documents with one entry for very many elements, which have no place in the order. `first`
/// entries were asked for; `is_whole` is true if there are no more.
pub(super) fn scope<'e>(
    definition: &IndexDefinition,
    buckets: &QueriedBuckets,
    first: usize,
    is_whole: bool,
    entries: impl Iterator<Item = (&'e [u8], u64)>,
    others: impl Iterator<Item = &'e [u8]>,
) -> NarrowedScope {
    let (mut documents, mut versions) = (Vec::new(), HashMap::new());
    for (document, timestamp) in entries.filter(|(document, _)| buckets.has(document)) {
        let Some(id) = document_id(document) else { continue };
        if versions.insert(id.as_str().to_owned(), timestamp).is_none() {
            documents.push(id);
        }
    }
    let others: Vec<DocumentId> = others
        .filter(|document| buckets.has(document))
        .filter_map(document_id)
        .filter(|id| !versions.contains_key(id.as_str()))
        .collect();
    let groups: BTreeSet<&DocumentGroup> = documents.iter().chain(&others).map(DocumentId::group).collect();
    let index_use = IndexUse {
        name: definition.name().to_owned(),
        candidates: (documents.len() + others.len()) as u64,
        groups: groups.len(),
        reading: CandidateReading::InOrder,
        stale: buckets.stale.len(),
    };
    let mut parts = vec![NarrowedPart::Documents(documents, buckets.fresh.clone())];
    if !others.is_empty() {
        parts.push(NarrowedPart::Documents(others, buckets.fresh.clone()));
    }
    if !buckets.stale.is_empty() {
        parts.push(NarrowedPart::Scope(ViewScope::Buckets(buckets.stale.clone())));
    }
    let ordered = OrderedEntries { name: definition.name().to_owned(), first, versions };
    NarrowedScope { parts, index_use, ordered: (!is_whole).then_some(ordered), entries: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_order_of_a_column_of_the_same_values() {
        let number = || SortColumn { by: SortBy::Number("stars".into()), descending: false, missing: None };
        let text = |order| SortColumn { by: SortBy::Text("stars".into(), order), ..number() };
        let of = |key_type| KeyComponent { key_type, analyzer: None, descending: false, several: false };
        let [bool_key, integer, float, text_key] =
            [KeyType::Bool, KeyType::Integer, KeyType::Float, KeyType::Text].map(of);
        let descending = SortColumn { descending: true, ..number() };
        let last = SortColumn { missing: Some(millrace_plan::MissingOrder::Last), ..number() };
        let other = SortColumn { by: SortBy::Number("age".into()), ..number() };
        let (some, range) = (ComponentCondition::Present, ComponentCondition::IntegerRange(1, 5));
        for (column, component, condition, expected) in [
            (number(), integer.clone(), None, true),
            (number(), integer.clone(), Some(&some), true),
            (number(), KeyComponent { several: true, ..integer.clone() }, None, false),
            (number(), KeyComponent { descending: true, ..integer.clone() }, None, false),
            (descending.clone(), KeyComponent { descending: true, ..integer.clone() }, None, true),
            (descending, integer.clone(), None, false),
            (last, integer.clone(), None, false),
            (other, integer.clone(), None, false),
            (text(TextOrder::Raw), integer, None, false),
            (number(), bool_key, None, false),
            (number(), float.clone(), Some(&range), true),
            (number(), float.clone(), Some(&some), false),
            (number(), float, None, false),
            (text(TextOrder::Raw), text_key.clone(), None, true),
            (text(TextOrder::Lowercase), text_key, None, false),
        ] {
            let found = is_order_of(&column, "stars", &component, condition);
            assert_eq!(found, expected, "{column:?} {:?} {condition:?}", component.key_type);
        }
    }
}
