//! Query features: the values of `input.query(name)`, as the rank profile declares them.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_query::Query;
use millrace_schema::{InputType, RankProfile};
use millrace_tensor::Tensor;

use crate::{Error, Input};

/// The values of query features, defaults filled in.
pub(crate) struct Inputs {
    pub values: BTreeMap<String, Input>,
    /// Declared, but without a value.
    missing: Vec<String>,
}

impl Inputs {
    pub fn read(query: &Query, profile: &RankProfile) -> Result<Self, Error> {
        let mut inputs = Inputs { values: BTreeMap::new(), missing: Vec::new() };
        for (name, declared) in &profile.inputs {
            // Before there were inputs, a rank property of the same name was one.
            let given = query.ranking.inputs.get(name).or_else(|| query.ranking.properties.get(name));
            let Some(text) = given.or(declared.default.as_ref().map(|default| &default.value)) else {
                inputs.missing.push(name.clone());
                continue;
            };
            let value = match &declared.input_type {
                InputType::String => Input::String(unquoted(text).to_owned()),
                InputType::Tensor(tensor_type) => {
                    if text.trim_start().starts_with("embed(") {
                        let reason = "the application has no embedder; send the vector itself, as in input.query(q)=[0.1,0.2]";
                        return Err(Error::Input { name: name.clone(), reason: reason.to_owned() });
                    }
                    let tensor = Tensor::parse(text, Some(tensor_type))
                        .map_err(|error| Error::Input { name: name.clone(), reason: error.to_string() })?;
                    Input::Tensor(Arc::new(tensor))
                }
            };
            inputs.values.insert(name.clone(), value);
        }
        for (name, text) in &query.ranking.inputs {
            if !profile.inputs.contains_key(name) {
                inputs.values.insert(name.clone(), undeclared(text));
            }
        }
        for (name, text) in &query.ranking.properties {
            if !profile.inputs.contains_key(name) && !inputs.values.contains_key(name) {
                inputs.values.insert(name.clone(), undeclared(text));
            }
        }
        Ok(inputs)
    }

    /// The values that rank features other than query features are to have.
    pub fn feature_values(query: &Query) -> Result<BTreeMap<String, Arc<Tensor>>, Error> {
        let tensor = |(name, text): (&String, &String)| match Tensor::parse(text.trim(), None) {
            Ok(tensor) => Ok((name.clone(), Arc::new(tensor))),
            Err(error) => Err(Error::FeatureValue { name: name.clone(), reason: error.to_string() }),
        };
        query.ranking.feature_values.iter().map(tensor).collect()
    }

    /// The vector of this name, which the profile must declare.
    pub fn tensor(&self, name: &str, profile: &str, wanted_type: &str) -> Result<Arc<Tensor>, Error> {
        let reason = match self.values.get(name) {
            Some(Input::Tensor(tensor)) if !tensor.tensor_type().is_scalar() => {
                return Ok(Arc::clone(tensor));
            }
            Some(Input::Tensor(_)) => "expected a tensor, but it is a number".to_owned(),
            Some(Input::String(text)) => format!(
                "expected a tensor, but it is the string '{}'; declare it: rank-profile {profile} {{ inputs {{ query({name}) {wanted_type} }} }}",
                shortened(text)
            ),
            None if self.missing.iter().any(|missing| missing == name) => {
                format!("it has no value; add the parameter input.query({name})=[…]")
            }
            None => format!(
                "it is not declared and has no value; declare it: rank-profile {profile} {{ inputs {{ query({name}) {wanted_type} }} }}, and add the parameter input.query({name})=[…]"
            ),
        };
        Err(Error::Input { name: name.to_owned(), reason })
    }
}

/// What nobody declared: a number or a tensor with its type, if it is one, else a string.
fn undeclared(text: &str) -> Input {
    let trimmed = text.trim();
    let looks_like_tensor =
        trimmed.starts_with("tensor") || trimmed.starts_with("{{") || trimmed.parse::<f64>().is_ok();
    match Tensor::parse(trimmed, None) {
        Ok(tensor) if looks_like_tensor => Input::Tensor(Arc::new(tensor)),
        _ => Input::String(unquoted(text).to_owned()),
    }
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text)
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= 40 { text.to_owned() } else { text.chars().take(40).chain(['…']).collect() }
}
