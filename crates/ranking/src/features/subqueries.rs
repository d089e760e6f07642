//! `subqueries(field)`: the subqueries of the query that a predicate field matches.

use millrace_column::{Column, ColumnKey};
use millrace_expression::FeatureName;
use millrace_matching::RankingDemands;
use millrace_plan::{LeafId, Predicate};

use super::term::match_weight;
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// `subqueries(field).lsb`, `subqueries(field).msb`
pub(crate) fn setup(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let shift = match name.output.as_deref() {
        Some("lsb") => 0,
        Some("msb") => 32,
        _ => return Err(Error::setup(format!("{name}: subqueries has the outputs lsb and msb"))),
    };
    Ok(Box::new(MatchedSubqueries { field: setup.field(name, 0)?.name.to_string(), shift }))
}

/// 32 bits of the subqueries that match, as a number.
struct MatchedSubqueries {
    field: String,
    /// Number of lower bits left out.
    shift: u32,
}

impl RankFeature for MatchedSubqueries {
    fn demands(&self) -> RankingDemands {
        RankingDemands { counts: true, ..RankingDemands::LEAVES }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let leaves = request.plan.leaves.iter().enumerate();
        let conditions = leaves.filter_map(|(index, leaf)| match &leaf.predicate {
            Predicate::Conditions(attributes) if *leaf.field == *self.field => {
                Some((LeafId(index), attributes))
            }
            _ => None,
        });
        let conditions: Vec<_> = conditions.collect();
        let column = request.column(ColumnKey::value(&self.field));
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 0.0);
            let Some(Column::Bytes(column)) = chunk.column(column) else { return };
            for (at, document) in chunk.documents() {
                let predicate = column.get(document).and_then(|bytes| std::str::from_utf8(bytes).ok());
                let Some(predicate) = predicate else { continue };
                let matched =
                    conditions.iter().filter(|(id, _)| match_weight(chunk.matches.leaf(*id), at).is_some());
                let bits = matched.fold(0, |bits, (_, attributes)| bits | attributes.subqueries(predicate));
                out[at] = f64::from((bits >> self.shift) as u32);
            }
        }))
    }
}
