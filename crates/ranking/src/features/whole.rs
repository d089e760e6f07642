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
        let of = match &field.attribute {
            _ if is_index(field) => "fieldMatch",
            Some(_) if !is_tensor => "attributeMatch",
            _ => continue,
        };
        let of = FeatureName { name: of.to_owned(), parameters: vec![field.name.to_string()], output: None };
        fields.push(WholeField {
            name: field.name.to_string(),
            weight: setup.weight(field),
            degree: if total_weight { None } else { Some(set_up(setup, &of)?) },
        });
    }
    Ok(Box::new(WholeMatch(fields)))
}

struct WholeField {
    name: String,
    weight: f64,
    /// Match quality of the field; `None` if only the weight is needed.
    degree: Option<Box<dyn RankFeature>>,
}

struct WholeMatch(Vec<WholeField>);

impl RankFeature for WholeMatch {
    fn demands(&self) -> RankingDemands {
        self.0.iter().filter_map(|field| field.degree.as_ref()).map(|degree| degree.demands()).fold(
            RankingDemands::LEAVES,
            |all, one| RankingDemands {
                leaves: all.leaves || one.leaves,
                counts: all.counts || one.counts,
                positions: all.positions || one.positions,
                statistics: all.statistics || one.statistics,
            },
        )
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let searched = |field: &&WholeField| !terms_of(request.plan, &field.name).is_empty();
        let searched: Vec<&WholeField> = self.0.iter().filter(searched).collect();
        // The sum of no weights is -0.0 by itself.
        let total = searched.iter().fold(0.0, |total, field| total + field.weight);
        let mut degrees: Vec<(f64, Box<dyn FeatureExecutor + 'q>)> = searched
            .into_iter()
            .filter_map(|field| Some((field.weight, field.degree.as_ref()?.bind(request))))
            .collect();
        let mut of_field = FeatureValues::Number(0.0);
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            if degrees.is_empty() || total <= 0.0 {
                // Without match qualities the value is the weight itself; if no field is searched, both are
                // 0.
                *values = FeatureValues::Number(if degrees.is_empty() { total } else { 0.0 });
                return;
            }
            let out = values.numbers(chunk.len(), 0.0);
            for (weight, degree) in &mut degrees {
                degree.run(chunk, &mut of_field);
                match &of_field {
                    FeatureValues::Number(number) => {
                        out.iter_mut().for_each(|out| *out += *weight * number / total)
                    }
                    FeatureValues::Numbers(numbers) => {
                        out.iter_mut()
                            .zip(numbers)
                            .for_each(|(out, number)| *out += *weight * number / total);
                    }
                    // fieldMatch and attributeMatch are numbers.
                    FeatureValues::Tensor(_)
                    | FeatureValues::Tensors(_)
                    | FeatureValues::Stored(_)
                    | FeatureValues::Rows(_)
                    | FeatureValues::Gathered(_) => {}
                }
            }
        }))
    }
}
