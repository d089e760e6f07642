//! Features of the request and the profile.

use std::sync::Arc;

use millrace_expression::{FeatureName, string_hash};
use millrace_matching::RankingDemands;
use millrace_plan::FeatureInput;
use millrace_schema::InputType;
use millrace_tensor::{Tensor, TensorType};

use super::attribute::empty;
use super::term::{connectedness, significance, weight};
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, PerRequest,
    RankFeature,
};
use crate::Error;

/// `query(name)`
pub(crate) fn setup(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let Some(input) = name.parameters.first() else {
        return Err(Error::setup(format!("{name} needs the name of an input, as in query(user_vector)")));
    };
    let declared = setup.profile.inputs.get(input);
    if declared.is_none() && setup.profile.strict {
        return Err(Error::setup(format!(
            "{name} has no type, and the profile is strict; declare it: inputs {{ {name} double }}"
        )));
    }
    let tensor_type = match declared.map(|declared| &declared.input_type) {
        Some(InputType::Tensor(tensor_type)) => tensor_type.clone(),
        Some(InputType::String) | None => TensorType::scalar(),
    };
    Ok(Box::new(QueryInput { input: input.clone(), tensor_type }))
}

struct QueryInput {
    input: String,
    tensor_type: TensorType,
}

impl RankFeature for QueryInput {
    fn tensor_type(&self) -> TensorType {
        self.tensor_type.clone()
    }

    fn demands(&self) -> RankingDemands {
        RankingDemands::default()
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let tensor = match request.plan.inputs.get(&self.input) {
            Some(FeatureInput::Tensor(tensor)) if *tensor.tensor_type() == self.tensor_type => {
                Arc::clone(tensor)
            }
            Some(FeatureInput::String(text)) => Arc::new(Tensor::scalar(string_hash(text))),
            Some(FeatureInput::Tensor(_)) | None => Arc::new(empty(&self.tensor_type)),
        };
        let scalar = self.tensor_type.is_scalar();
        Box::new(ClosureExecutor(move |_: &FeatureChunk<'_>, values: &mut FeatureValues| {
            *values = match scalar {
                true => FeatureValues::Number(tensor.cells().get(0)),
                false => FeatureValues::Tensor(Arc::clone(&tensor)),
            };
        }))
    }
}

/// `term(n).significance`, `.weight`, `.connectedness`
pub(crate) fn term(_: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    use millrace_plan::TermId;
    let Some(number) = name.parameters.first().and_then(|number| number.parse().ok()).map(TermId) else {
        return Err(Error::setup(format!(
            "{name} needs the number of a term from 0, as in term(0).significance"
        )));
    };
    match name.output.as_deref() {
        Some("significance") => Ok(Box::new(TermSignificance(number))),
        Some("weight") => Ok(Box::new(PerRequest(move |request: &FeatureRequest<'_>| {
            if number.0 < request.plan.terms.len() { weight(request.plan, number) } else { 0.0 }
        }))),
        Some("connectedness") => Ok(Box::new(PerRequest(move |request: &FeatureRequest<'_>| {
            match number.0 < request.plan.terms.len() {
                true => connectedness(request.plan, number),
                false => 0.0,
            }
        }))),
        _ => {
            Err(Error::setup(format!("{name}: term has the outputs significance, weight and connectedness")))
        }
    }
}

struct TermSignificance(millrace_plan::TermId);

impl RankFeature for TermSignificance {
    fn demands(&self) -> RankingDemands {
        RankingDemands { statistics: true, ..RankingDemands::LEAVES }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let number = significance(request.plan, request.matches, self.0);
        Box::new(ClosureExecutor(move |_: &FeatureChunk<'_>, values: &mut FeatureValues| {
            *values = FeatureValues::Number(number)
        }))
    }
}

/// `queryTermCount`
pub(crate) fn query_term_count(_: &FeatureSetup<'_>, _: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    Ok(Box::new(PerRequest(|request: &FeatureRequest<'_>| request.plan.terms.len() as f64)))
}

/// `now`
pub(crate) fn now(_: &FeatureSetup<'_>, _: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    Ok(Box::new(PerRequest(|request: &FeatureRequest<'_>| request.plan.now as f64)))
}

/// `num_docs_indexed`: number of documents of the group, the population of the word statistics.
pub(crate) fn document_count(_: &FeatureSetup<'_>, _: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    Ok(Box::new(PerRequest(|request: &FeatureRequest<'_>| request.matches.documents as f64)))
}

/// `value(x)`, `value(x,…).n`
pub(crate) fn value(_: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let numbers: Result<Vec<f64>, _> = name.parameters.iter().map(|number| number.parse::<f64>()).collect();
    let Some(numbers) = numbers.ok().filter(|numbers| !numbers.is_empty()) else {
        return Err(Error::setup(format!("{name} needs a number, as in value(1.5)")));
    };
    let output = name.output.as_deref().unwrap_or("0");
    match output.parse::<usize>().ok().and_then(|at| numbers.get(at).copied()) {
        Some(number) => Ok(Box::new(PerRequest(move |_: &FeatureRequest<'_>| number))),
        None => {
            let last = numbers.len() - 1;
            Err(Error::setup(format!("{name}: its outputs are the numbers from 0 to {last}")))
        }
    }
}

/// `match.weight.field` and the other outputs of `match`.
pub(crate) fn match_weight(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let field = name.output.as_deref().and_then(|output| output.strip_prefix("weight."));
    let weight = match field.and_then(|field| setup.schema.field_or_part(field)) {
        Some(field) => setup.weight(field),
        None => {
            return Err(Error::setup(format!(
                "{name}: match has the output weight.<field>, for a field of the schema"
            )));
        }
    };
    Ok(Box::new(PerRequest(move |_: &FeatureRequest<'_>| weight)))
}
