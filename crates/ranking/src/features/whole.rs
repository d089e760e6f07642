//! `match`: all fields that the query searches, combined.

use millrace_document::DataType;
use millrace_expression::FeatureName;
use millrace_matching::RankingDemands;

use super::native::is_index;
use super::term::terms_of;
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
    query, set_up,
};
use crate::Error;

/// `match`, `match.totalWeight`, `match.weight.field`
pub(crate) fn setup(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    if name.output.as_deref().is_some_and(|output| output.starts_with("weight.")) {
        return query::match_weight(setup, name);
    }
    let total_weight = match name.output.as_deref() {
        None => false,
        Some("totalWeight") => true,
        Some(_) => {
            return Err(Error::setup(format!(
                "{name}: match has the outputs totalWeight and weight.<field>"
            )));
        }
    };
    let mut fields = Vec::new();
    for field in setup.schema.fields.values() {
        let is_tensor = matches!(field.data_type, DataType::Tensor(_));
        let has_elements = matches!(field.data_type, DataType::Array(_) | DataType::WeightedSet { .. });
        let of = match &field.attribute {
            _ if is_index(field) && has_elements => "elementCompleteness",
            _ if is_index(field) => "fieldMatch",
            Some(_) if !is_tensor => "attributeMatch",
            _ => continue,
        };
        let of = FeatureName { name: of.to_owned(), parameters: vec![field.name.to_string()], output: None };
        fields.push(WholeField {
            name: field.name.to_string(),
            weight: setup.weight(field),
            degree: set_up(setup, &of)?,
        });
    }
    Ok(Box::new(WholeMatch { fields, is_total_weight: total_weight }))
}

struct WholeField {
    name: String,
    weight: f64,
    /// Match quality of the field.
    degree: Box<dyn RankFeature>,
}

/// Average of the match qualities of the fields that match, or the sum of their weights.
struct WholeMatch {
    fields: Vec<WholeField>,
    is_total_weight: bool,
}

impl RankFeature for WholeMatch {
    fn demands(&self) -> RankingDemands {
        self.fields.iter().map(|field| field.degree.demands()).fold(RankingDemands::LEAVES, |all, one| {
            RankingDemands {
                leaves: all.leaves || one.leaves,
                counts: all.counts || one.counts,
                positions: all.positions || one.positions,
                statistics: all.statistics || one.statistics,
            }
        })
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let plan = request.plan;
        let searched = self.fields.iter().filter(|field| !terms_of(plan, &field.name).is_empty());
        let mut degrees: Vec<(f64, Box<dyn FeatureExecutor + 'q>)> =
            searched.map(|field| (field.weight, field.degree.bind(request))).collect();
        let mut of_field = FeatureValues::Number(0.0);
        // The sum of the weighted qualities of each document, and that of their weights.
        let mut sums: Vec<(f64, f64)> = Vec::new();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            sums.clear();
            sums.resize(chunk.len(), (0.0, 0.0));
            for (weight, degree) in &mut degrees {
                degree.run(chunk, &mut of_field);
                let add = |(sum, total): &mut (f64, f64), quality: f64| {
                    // A field that does not match has no part in the average.
                    if quality > 0.0 {
                        *sum += *weight * quality;
                        *total += *weight;
                    }
                };
                match &of_field {
                    FeatureValues::Number(quality) => sums.iter_mut().for_each(|sums| add(sums, *quality)),
                    FeatureValues::Numbers(qualities) => {
                        sums.iter_mut().zip(qualities).for_each(|(sums, quality)| add(sums, *quality));
                    }
                    // Match qualities are numbers.
                    FeatureValues::Tensor(_)
                    | FeatureValues::Tensors(_)
                    | FeatureValues::Stored(_)
                    | FeatureValues::Rows(_)
                    | FeatureValues::Gathered(_) => {}
                }
            }
            let out = values.numbers(chunk.len(), 0.0);
            for (out, (sum, total)) in out.iter_mut().zip(&sums) {
                *out = match self.is_total_weight {
                    true => *total,
                    false if *total > 0.0 => sum / total,
                    false => 0.0,
                };
            }
        }))
    }
}
