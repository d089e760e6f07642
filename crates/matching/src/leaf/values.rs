//! Tests of values of any type, also of those inside collections and structs.

use millrace_column::Column;
use millrace_document::{EncodedLeafValues, LeafColumn};

use super::ReadyLeaf;
use crate::bits::DocumentBits;
use crate::matched::{MatchedValue, MatchedValues};
use crate::outcome::LeafOutcome;
use crate::prefilter::{documents_at, texts_at};
use crate::value::{ValueWeights, WeightSource};

impl ReadyLeaf {
    /// Matches values of any type.
    pub(super) fn values(&self, column: &Column, within: &DocumentBits, source: WeightSource) -> LeafOutcome {
        if let Some(found) = self.texts_with_part(column, within, source) {
            return found;
        }
        let rows = self.narrow(column, within).rows();
        self.values_of(column, &rows, self.leaf_column(column, &rows).as_ref(), source)
    }

    /// Matches values of documents; `encoded` has those of them that have a wire form, if there is one.
    pub(super) fn values_of(
        &self,
        column: &Column,
        rows: &[u16],
        encoded: Option<&LeafColumn<'_>>,
        source: WeightSource,
    ) -> LeafOutcome {
        match self.test.as_ref().zip(encoded) {
            Some((test, leaves)) => {
                self.weighed_values(column, rows, leaves, &test.matched(leaves.values()), source)
            }
            None => {
                let mut buffer = String::new();
                let weight = |row: &u16| Some((*row, self.any_weight(column, *row, source, &mut buffer)?));
                self.weighed(rows.iter().filter_map(weight).collect())
            }
        }
    }

    /// Matches texts inside values, of which only those are tested that have the part which is in each match.
    /// `None` if there is no such part, or if testing costs as little as looking for it.
    fn texts_with_part(
        &self,
        column: &Column,
        within: &DocumentBits,
        source: WeightSource,
    ) -> Option<LeafOutcome> {
        self.leaves.as_ref()?;
        let test = self.test.as_ref().filter(|test| test.ascii().is_none())?;
        let (prefilter, values) = test.prefilter().zip(millrace_column::encoded_values(column))?;
        let places = prefilter.places(values, within)?;
        let rows = documents_at(&places, values.offsets()).and(within).rows();
        let leaves = self.leaf_column(column, &rows)?;
        let EncodedLeafValues::Texts(texts) = leaves.values() else { return None };
        let candidates = texts_at(&places, values.data(), texts);
        let parts = candidates.iter().map(|candidate| texts[*candidate]).collect();
        let matched = test.matched(&EncodedLeafValues::Texts(parts)).at(&candidates);
        Some(self.weighed_values(column, &rows, &leaves, &matched, source))
    }

    /// The outcome of a test of values of documents, given those that match and have a wire form.
    fn weighed_values(
        &self,
        column: &Column,
        rows: &[u16],
        leaves: &LeafColumn<'_>,
        matched: &MatchedValues,
        source: WeightSource,
    ) -> LeafOutcome {
        let (mut found, mut buffer) = (Vec::new(), String::new());
        matched.each_row(leaves, &mut |row: usize, matched: &[MatchedValue]| {
            let mut weighing = ValueWeights::default();
            for value in matched {
                weighing.add(value.weight, leaves.weight(value.index), source);
            }
            found.extend(weighing.weight(self.dot_product_above).map(|weight| (rows[row], weight)));
        });
        if !leaves.irregular().is_empty() {
            let irregular = leaves.irregular().iter().map(|row| rows[*row]);
            let weight = |row: u16| Some((row, self.any_weight(column, row, source, &mut buffer)?));
            found.extend(irregular.filter_map(weight));
            found.sort_unstable();
        }
        self.weighed(found)
    }
}
