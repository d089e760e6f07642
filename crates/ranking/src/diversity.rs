//! Selection of first-phase hits for the second phase under `diversity`: the number of hits per attribute
//! value is limited, so that enough values are represented.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use millrace_column::{Column, ColumnKey, View};
use millrace_document::{DataType, json};
use millrace_schema::{RankProfile, Schema};
use millrace_tensor::json::TensorFormat;

use crate::{Error, RankedHit};

/// Diversity settings of a profile.
pub(crate) struct HitDiversity {
    field: String,
    data_type: DataType,
    groups_min: usize,
}

impl HitDiversity {
    /// Returns the settings of a profile, if it declares any.
    pub fn of(schema: &Schema, profile: &RankProfile) -> Option<Self> {
        let (name, groups_min) = profile.diversity.as_ref()?;
        let field = schema.fields.get(name.as_str())?;
        Some(HitDiversity {
            field: name.clone(),
            data_type: field.data_type.clone(),
            groups_min: (*groups_min).max(1),
        })
    }

    /// Returns for each hit, best first, if it is among the `count` hits to rank again. A value gets at most
    /// `count` divided by the minimum number of values. Documents without a value count as one value.
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
            let value = value
                .and_then(|value| serde_json::to_string(&json::value(&value, TensorFormat::default())).ok());
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
