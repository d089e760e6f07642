//! Collapsing of hits that have the same values as better ones: `collapsefield`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use millrace_column::{Column, ColumnKey, View};
use millrace_document::json;
use millrace_plan::{Plan, PlannedCollapse, QueryMemory};
use millrace_schema::SchemaField;
use millrace_tensor::json::TensorFormat;

use crate::{Error, SortedHit};

/// Keys for the comparison of a hit: for each field of the request its value as text, or `None` without a
/// value.
pub type CollapseKeys = Vec<Option<String>>;

/// Filter of collapsed hits, which are passed in order.
#[derive(Debug)]
pub struct HitCollapsing {
    sizes: Vec<usize>,
    /// Number of remaining hits of each value so far, for each field.
    kept: Vec<HashMap<String, usize>>,
}

impl HitCollapsing {
    /// Creates the filter of one result.
    pub fn new(collapse: &PlannedCollapse) -> Self {
        let sizes: Vec<usize> = collapse.fields.iter().map(|field| field.size).collect();
        HitCollapsing { kept: vec![HashMap::new(); sizes.len()], sizes }
    }

    /// True if the next hit stays. A hit without a value is equal to no other.
    pub fn keeps(&mut self, keys: &CollapseKeys) -> bool {
        keys.iter().zip(&self.sizes).zip(&mut self.kept).all(|((key, size), kept)| {
            let Some(key) = key else { return true };
            let count = kept.entry(key.clone()).or_default();
            let stays = *count < *size;
            *count += usize::from(stays);
            stays
        })
    }
}

/// Fields of a schema by which a request collapses.
pub(crate) struct CollapseFields<'p>(Vec<Option<&'p SchemaField>>);

impl<'p> CollapseFields<'p> {
    /// Returns the fields of a plan's schema, in the order of the request.
    pub(crate) fn of(plan: &'p Plan, collapse: &PlannedCollapse) -> Self {
        let sources = collapse.fields.iter().map(|field| field.source.as_ref());
        CollapseFields(sources.map(|source| plan.schema.fields.get(&**source?)).collect())
    }

    /// Keys of hits, in their order.
    pub(crate) fn keys(
        &self,
        view: &dyn View,
        hits: &[SortedHit],
        memory: &QueryMemory,
    ) -> Result<Vec<CollapseKeys>, Error> {
        let mut columns: BTreeMap<usize, Vec<Option<Column>>> = BTreeMap::new();
        let mut keys = Vec::with_capacity(hits.len());
        for hit in hits {
            let columns = match columns.entry(hit.chunk) {
                Entry::Occupied(read) => read.into_mut(),
                Entry::Vacant(unread) => unread.insert(self.columns(view, hit.chunk)?),
            };
            let key = |(field, column): (&Option<&SchemaField>, &Option<Column>)| {
                let document = usize::from(hit.document);
                let value = millrace_column::value(column.as_ref()?, &field.as_ref()?.data_type, document)?;
                serde_json::to_string(&json::value(&value, TensorFormat::default())).ok()
            };
            let of_hit: CollapseKeys = self.0.iter().zip(&*columns).map(key).collect();
            memory.take(
                of_hit.iter().map(|key| size_of_val(key) + key.as_ref().map_or(0, String::len)).sum(),
            )?;
            keys.push(of_hit);
        }
        Ok(keys)
    }

    /// Columns of the fields in a chunk.
    fn columns(&self, view: &dyn View, chunk: usize) -> Result<Vec<Option<Column>>, Error> {
        let column = |field: &Option<&SchemaField>| match field {
            None => Ok(None),
            Some(field) => {
                let key = ColumnKey::value(&field.name);
                Ok(view.columns(&key, chunk..chunk + 1)?.into_iter().next().flatten())
            }
        };
        self.0.iter().map(column).collect()
    }
}
