//! Values of fields that a language model writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_document::{DataType, Value, json as document_json};
use millrace_indexing::{Failure, Wanted};
use millrace_model::Caller;
use millrace_remote::Inference;
use millrace_schema::{FieldGenerator, OnMisfit};
use serde_json::json;
use serde_json::value::RawValue;

use super::Language;

/// A field generator of an application, and the model that it asks.
pub(crate) struct Generator {
    config: FieldGenerator,
    language: Arc<Language>,
}

impl Generator {
    /// What services.xml says, with the model that it names.
    pub(crate) fn new(config: FieldGenerator, language: Arc<Language>) -> Self {
        Generator { config, language }
    }

    /// Its id.
    pub(crate) fn id(&self) -> &str {
        &self.config.id
    }

    /// Whether values of this type can be generated.
    ///
    /// # Errors
    /// Which can.
    pub(crate) fn check(&self, wanted: &DataType) -> Result<(), String> {
        match wanted {
            DataType::String => Ok(()),
            other if !self.config.structured => Err(format!(
                "generator '{}' has the responseFormatType TEXT, which makes strings, not a {other}",
                self.config.id
            )),
            DataType::Array(element) if scalar(element).is_some() => Ok(()),
            other if scalar(other).is_some() => Ok(()),
            other => {
                Err(format!("a {other} cannot be generated: strings, numbers, bools and arrays of them can"))
            }
        }
    }

    /// The value for a text, or an array of those for several. Waits.
    ///
    /// # Errors
    /// The model does not come through; or it answers with something else, and the document is to be refused then.
    pub(crate) fn generate(
        &self,
        input: &Value,
        wanted: &Wanted,
        caller: &Caller,
    ) -> Result<Option<Value>, Failure> {
        match (input, &wanted.data_type) {
            (Value::String(text), _) => {
                let values = self.values(&[text], wanted, caller)?;
                Ok(values.into_iter().next().flatten())
            }
            (Value::Array(elements), DataType::Array(element)) => {
                let texts: Option<Vec<&str>> = elements.iter().map(super::components::string).collect();
                let texts = texts.ok_or_else(only_strings)?;
                let each = Wanted { data_type: (**element).clone(), name: wanted.name.clone() };
                let values = self.values(&texts, &each, caller)?;
                Ok(Some(Value::Array(values.into_iter().flatten().collect())))
            }
            _ => Err(only_strings()),
        }
    }

    /// The value for each text.
    fn values(
        &self,
        texts: &[&str],
        wanted: &Wanted,
        caller: &Caller,
    ) -> Result<Vec<Option<Value>>, Failure> {
        let config = self.language.config();
        let form = form(wanted);
        let shown = form.to_string();
        let prompts = texts.iter().map(|text| self.config.template.fill(text, &shown)).collect();
        let inference = Inference {
            model: config.model.clone(),
            tokens_max: config.tokens_max,
            temperature: config.temperature,
            reasoning_effort: config.reasoning_effort.clone(),
            schema: self.config.structured.then_some(form),
            is_strict: config.strict_schema,
            ..Inference::default()
        };
        let model = self.language.model();
        let answers = model
            .answers(prompts, &inference, self.language.secret(), caller)
            .map_err(|error| super::components::of_service(&error))?;
        answers.iter().map(|answer| self.value(answer, wanted)).collect()
    }

    /// What an answer says.
    fn value(&self, answer: &str, wanted: &Wanted) -> Result<Option<Value>, Failure> {
        if !self.config.structured {
            return Ok(Some(Value::String(answer.to_owned())));
        }
        let reason = match read(answer, wanted) {
            Ok(value) => return Ok(value),
            Err(reason) => reason,
        };
        let told = || {
            const SHOWN: usize = 200;
            let shown: String = answer.chars().take(SHOWN).collect();
            format!(
                "generator '{}': the answer is no {} for {}: {reason}: {shown}",
                self.config.id, wanted.data_type, wanted.name
            )
        };
        match self.config.on_misfit {
            OnMisfit::Discard => Ok(None),
            OnMisfit::Warn => {
                tracing::warn!("{}; the field stays empty", told());
                Ok(None)
            }
            OnMisfit::Fail => Err(Failure::Input(told())),
        }
    }
}

fn only_strings() -> Failure {
    Failure::Input("values are generated from strings only".to_owned())
}

/// The value in an answer that follows [`form`]; none where it says so.
fn read(answer: &str, wanted: &Wanted) -> Result<Option<Value>, String> {
    let members: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(answer).map_err(|error| error.to_string())?;
    let value = members.get(&wanted.name).ok_or_else(|| format!("it lacks \"{}\"", wanted.name))?;
    document_json::read_value(value.get(), &wanted.data_type)
}

/// The JSON schema of an answer: an object with the value under the field's name.
fn form(wanted: &Wanted) -> serde_json::Value {
    let value = match &wanted.data_type {
        DataType::Array(element) => json!({ "type": "array", "items": { "type": scalar(element) } }),
        other => json!({ "type": scalar(other) }),
    };
    let name = &wanted.name;
    json!({
        "type": "object",
        "properties": { name: value },
        "required": [name],
        "additionalProperties": false,
    })
}

/// What JSON schemas call a type; none for those that are not generated.
const fn scalar(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::String => Some("string"),
        DataType::Bool => Some("boolean"),
        DataType::Byte | DataType::Int | DataType::Long => Some("integer"),
        DataType::Float16 | DataType::Float | DataType::Double => Some("number"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(data_type: DataType) -> Wanted {
        Wanted { data_type, name: "passage.made".to_owned() }
    }

    #[test]
    fn forms_are_those_that_answers_are_read_by() {
        let strings = DataType::Array(Box::new(DataType::String));
        let expected = r#"{"type":"object","properties":{"passage.made":{"type":"array","items":{"type":"string"}}},"required":["passage.made"],"additionalProperties":false}"#;
        assert_eq!(form(&wanted(strings.clone())).to_string(), expected);
        let check = |data_type: &DataType, answer: &str, expected: Result<Option<Value>, &str>| {
            let value = read(answer, &wanted(data_type.clone()));
            match (&value, expected) {
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
                (_, expected) => assert_eq!(
                    value.as_ref().map_err(String::as_str),
                    expected.as_ref().map_err(|part| *part)
                ),
            }
        };
        let text = |text: &str| Value::String(text.to_owned());
        check(&strings, r#"{"passage.made":["a","b"]}"#, Ok(Some(Value::Array(vec![text("a"), text("b")]))));
        check(&strings, r#"{"passage.made":"a"}"#, Err("expected"));
        check(&DataType::Int, r#" {"passage.made": 7}"#, Ok(Some(Value::Int(7))));
        check(&DataType::Byte, r#"{"passage.made":700}"#, Err("700"));
        check(&DataType::Bool, r#"{"passage.made":true}"#, Ok(Some(Value::Bool(true))));
        check(&DataType::Double, r#"{"passage.made":0.5}"#, Ok(Some(Value::Double(0.5))));
        check(&DataType::String, r#"{"passage.made":null}"#, Ok(None));
        check(&DataType::String, r#"{"made":"a"}"#, Err("it lacks \"passage.made\""));
        check(&DataType::String, "Sure! a", Err("expected value"));
    }
}
