//! Which hits of the first phase the second ranks: with `diversity`, so many of each value of an attribute that enough values are among them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use millrace_column::{Column, ColumnKey, View};
use millrace_document::{DataType, json};
use millrace_schema::{RankProfile, Schema};
use millrace_tensor::json::Format;

use crate::{Error, RankedHit};

/// What makes the hits of a profile diverse.
pub(crate) struct Diversity {
    field: String,
    data_type: DataType,
    groups_min: usize,
}

impl Diversity {
    /// That of a profile, where it has any.
    pub fn of(schema: &Schema, profile: &RankProfile) -> Option<Self> {
        let (name, groups_min) = profile.diversity.as_ref()?;
        let field = schema.fields.get(name.as_str())?;
        Some(Diversity {
            field: name.clone(),
            data_type: field.data_type.clone(),
            groups_min: (*groups_min).max(1),
        })
    }

    /// For each hit, best first, whether it is among the `count` that are ranked again: a value has no more of these than `count` divided by
    /// the least number of values. Documents without a value are like each other.
    ///
    /// # Errors
    /// A column could not be read.
    pub fn choose(&self, view: &dyn View, hits: &[RankedHit], count: usize) -> Result<Vec<bool>, Error> {
        let of_value_max = (count / self.groups_min).max(1);
        let mut columns: BTreeMap<usize, Option<Column>> = BTreeMap::new();
        let mut of_values: HashMap<Option<String>, usize> = HashMap::new();
        let mut chosen = vec![false; hits.len()];
        let mut missing = count;
        for (hit, chosen) in hits.iter().zip(&mut chosen) {
            if missing == 0 {
                break;
            }
            let column = match columns.entry(hit.chunk) {
                Entry::Occupied(read) => read.into_mut(),
                Entry::Vacant(unread) => {
                    let key = ColumnKey::value(&self.field);
                    let columns = view.columns(&key, hit.chunk..hit.chunk + 1)?;
                    unread.insert(columns.into_iter().next().flatten())
                }
            };
            let value = column.as_ref().and_then(|column| {
                millrace_column::value(column, &self.data_type, usize::from(hit.document))
            });
            let value =
                value.and_then(|value| serde_json::to_string(&json::value(&value, Format::default())).ok());
            let of_value = of_values.entry(value).or_default();
            if *of_value < of_value_max {
                *of_value += 1;
                *chosen = true;
                missing -= 1;
            }
        }
        Ok(chosen)
    }
}
