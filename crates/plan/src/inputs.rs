//! Query features: values of `input.query(name)`, typed as in the rank profile.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_query::{EmbedCall, Query, read_tensor};
use millrace_schema::{InputDef, InputType, RankProfile, Schema, unknown_engine_property};
use millrace_tensor::{TENSOR_BYTES_MAX, Tensor, TensorType};

use crate::{Error, FeatureInput, PlanContext};

/// Values of query features, including defaults.
pub(crate) struct QueryInputs {
    pub values: BTreeMap<String, FeatureInput>,
    /// Declared features without a value.
    missing: Vec<String>,
}

impl QueryInputs {
    pub fn read(query: &Query, profile: &RankProfile, context: &PlanContext<'_>) -> Result<Self, Error> {
        let mut inputs = QueryInputs { values: BTreeMap::new(), missing: Vec::new() };
        let mut room = InputRoom::default();
        for (name, declared) in &profile.inputs {
            let Some(text) = text_of(query, name, declared) else {
                inputs.missing.push(name.clone());
                continue;
            };
            let value = match &declared.input_type {
                InputType::String => FeatureInput::String(unquoted(text).to_owned()),
                InputType::Tensor(tensor_type) => {
                    if let Some(call) = EmbedCall::parse(text, &query.parameters) {
                        let call = call.map_err(|error| Error::Input {
                            name: name.clone(),
                            reason: error.to_string(),
                        })?;
                        let tensor = (context.embedded)(&call, tensor_type).ok_or_else(|| Error::Input {
                            name: name.clone(),
                            reason: "texts are not embedded here; send the vector itself, as in input.query(q)=[0.1,0.2]"
                                .to_owned(),
                        })?;
                        inputs.values.insert(name.clone(), FeatureInput::Tensor(tensor));
                        continue;
                    }
                    let tensor = read_tensor(text, tensor_type)
                        .map_err(|error| Error::Input { name: name.clone(), reason: error.to_string() })?;
                    room.take(name, &tensor)?;
                    FeatureInput::Tensor(Arc::new(tensor))
                }
            };
            inputs.values.insert(name.clone(), value);
        }
        for (name, text) in &query.ranking.inputs {
            if !profile.inputs.contains_key(name) {
                inputs.values.insert(name.clone(), room.taken_by(name, undeclared(text))?);
            }
        }
        for key in query.ranking.properties.keys() {
            if let Some(reason) = unknown_engine_property(key) {
                return Err(Error::RankProperty { name: key.clone(), reason });
            }
            let name = feature_of_property(key);
            if !profile.inputs.contains_key(name)
                && !inputs.values.contains_key(name)
                && let Some(text) = property_of_feature(query, name)
            {
                inputs.values.insert(name.to_owned(), room.taken_by(name, undeclared(text))?);
            }
        }
        Ok(inputs)
    }

    /// Values that the request sets for rank features other than query features.
    pub fn feature_values(query: &Query) -> Result<BTreeMap<String, Arc<Tensor>>, Error> {
        let mut room = InputRoom::default();
        let tensor = |(name, text): (&String, &String)| match Tensor::parse(text.trim(), None) {
            Ok(tensor) => {
                room.take(name, &tensor)?;
                Ok((name.clone(), Arc::new(tensor)))
            }
            Err(error) => Err(Error::FeatureValue { name: name.clone(), reason: error.to_string() }),
        };
        query.ranking.feature_values.iter().map(tensor).collect()
    }

    /// The vector with this name, which the profile must declare.
    pub fn tensor(&self, name: &str, profile: &str, wanted_type: &str) -> Result<Arc<Tensor>, Error> {
        let reason = match self.values.get(name) {
            Some(FeatureInput::Tensor(tensor)) if !tensor.tensor_type().is_scalar() => {
                return Ok(Arc::clone(tensor));
            }
            Some(FeatureInput::Tensor(_)) => "expected a tensor, but it is a number".to_owned(),
            Some(FeatureInput::String(text)) => format!(
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

/// The bytes that the tensors of a query take together, which are bounded as those of one tensor are.
#[derive(Default)]
struct InputRoom {
    taken: usize,
}

impl InputRoom {
    fn take(&mut self, name: &str, tensor: &Tensor) -> Result<(), Error> {
        let labels: usize = tensor.all_labels().iter().map(|label| label.len() + size_of::<String>()).sum();
        self.taken = self.taken.saturating_add(tensor.cells().as_bytes().len() + labels);
        if self.taken <= TENSOR_BYTES_MAX {
            return Ok(());
        }
        let megabytes_max = TENSOR_BYTES_MAX >> 20;
        let reason =
            format!("the tensors of the query take more than {megabytes_max} MB together; send fewer cells");
        Err(Error::Input { name: name.to_owned(), reason })
    }

    fn taken_by(&mut self, name: &str, input: FeatureInput) -> Result<FeatureInput, Error> {
        if let FeatureInput::Tensor(tensor) = &input {
            self.take(name, tensor)?;
        }
        Ok(input)
    }
}

/// A text to embed for a query.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedInput {
    /// Name of the query feature to set.
    pub input: String,
    /// The text, and the embedder.
    pub call: EmbedCall,
    /// Type of the resulting tensor.
    pub target: TensorType,
}

/// Texts that a query over this schema needs embedded. The [`PlanContext`] of its plan must contain them.
///
/// # Errors
/// [`Error::Input`] for a call with invalid syntax.
pub fn embeddings(query: &Query, schema: &Schema) -> Result<Vec<EmbeddedInput>, Error> {
    let asked = query.ranking.profile.as_deref().unwrap_or("default");
    let Some(profile) = schema.rank_profiles.get(asked).or_else(|| schema.rank_profiles.get("default"))
    else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for (name, declared) in &profile.inputs {
        let InputType::Tensor(target) = &declared.input_type else { continue };
        let Some(text) = text_of(query, name, declared) else { continue };
        if let Some(call) = EmbedCall::parse(text, &query.parameters) {
            let call =
                call.map_err(|error| Error::Input { name: name.clone(), reason: error.to_string() })?;
            found.push(EmbeddedInput { input: name.clone(), call, target: target.clone() });
        }
    }
    Ok(found)
}

/// Checks that the default of a declared input is a value of its type, or a call of an embedder.
///
/// # Errors
/// [`Error::Input`] for any other text.
pub fn check_input_default(name: &str, declared: &InputDef) -> Result<(), Error> {
    let (InputType::Tensor(tensor_type), Some(default)) = (&declared.input_type, &declared.default) else {
        return Ok(());
    };
    if EmbedCall::parse(&default.value, &BTreeMap::new()).is_some() {
        return Ok(());
    }
    read_tensor(&default.value, tensor_type)
        .map(drop)
        .map_err(|error| Error::Input { name: name.to_owned(), reason: error.to_string() })
}

/// Text of an input, from the query or else from the profile.
fn text_of<'a>(query: &'a Query, name: &str, declared: &'a InputDef) -> Option<&'a String> {
    // Before inputs existed, rank properties had this function.
    let given = query.ranking.inputs.get(name).or_else(|| property_of_feature(query, name));
    given.or(declared.default.as_ref().map(|default| &default.value))
}

/// The query feature that a rank property of the request sets: that of `query(name)`, `name` or `$name`.
fn feature_of_property(key: &str) -> &str {
    let inside = key.strip_prefix("query(").and_then(|rest| rest.strip_suffix(')'));
    inside.or_else(|| key.strip_prefix('$')).unwrap_or(key)
}

/// The rank property that sets a query feature, in this order of precedence.
fn property_of_feature<'a>(query: &'a Query, name: &str) -> Option<&'a String> {
    let properties = &query.ranking.properties;
    properties
        .get(&format!("query({name})"))
        .or_else(|| properties.get(name))
        .or_else(|| properties.get(&format!("${name}")))
}

/// An undeclared input: a number, or a tensor with its type; any other text is a string.
fn undeclared(text: &str) -> FeatureInput {
    let trimmed = text.trim();
    let looks_like_tensor =
        trimmed.starts_with("tensor") || trimmed.starts_with("{{") || trimmed.parse::<f64>().is_ok();
    match Tensor::parse(trimmed, None) {
        Ok(tensor) if looks_like_tensor => FeatureInput::Tensor(Arc::new(tensor)),
        _ => FeatureInput::String(unquoted(text).to_owned()),
    }
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text)
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= 40 { text.to_owned() } else { text.chars().take(40).chain(['…']).collect() }
}
