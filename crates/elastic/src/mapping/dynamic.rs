//! Dynamic mapping: definitions of fields that a mapping lacks, by their first values and by its templates.

use regex::RegexBuilder;
use serde_json::{Map, Value, json};

use super::checks::{ParameterCheck, check_properties};
use super::type_of;
use crate::Error;
use crate::dates::DateText;
use crate::fields::names_of;
use crate::patterns::glob;
use crate::unread::unread_text;

/// Memory of a compiled regular expression of a template.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// Kinds of values by which templates choose.
const KINDS: [&str; 8] = ["object", "string", "long", "double", "boolean", "date", "binary", "*"];

/// Members of a template that are one pattern, or a list of them.
const PATTERNS: [&str; 4] = ["match", "unmatch", "path_match", "path_unmatch"];

/// Those of them that are about paths.
const PATHS: [&str; 2] = ["path_match", "path_unmatch"];

/// Placeholder in templates for the type that a field would have without one.
const TYPE_PLACEHOLDERS: [&str; 2] = ["{dynamic_type}", "{dynamicType}"];

/// Format of dates with slashes, as a field has it, and the forms by which such dates are known.
const SLASHED: &str = "yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_millis";
const SLASHED_FORMS: &str = "yyyy/MM/dd HH:mm:ss||yyyy/MM/dd";

/// Rules of a mapping for the fields that it lacks.
pub(super) struct DynamicRules {
    date_detection: bool,
    numeric_detection: bool,
    /// Formats of texts that are dates; null if they are those of every mapping.
    date_formats: Value,
    templates: Value,
}

impl DynamicRules {
    /// Rules of a mapping that has none of its own.
    pub(super) fn of_every_mapping() -> Self {
        Self::take(&mut Map::new())
    }

    /// Takes the rules out of a mapping, which may then be changed beside them.
    pub(super) fn take(mappings: &mut Map<String, Value>) -> Self {
        let flag = |name: &str, otherwise: bool| match mappings.get(name) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(flag)) => flag == "true",
            _ => otherwise,
        };
        let (date_detection, numeric_detection) =
            (flag("date_detection", true), flag("numeric_detection", false));
        let mut taken = |name: &str| mappings.get_mut(name).map(Value::take).unwrap_or_default();
        DynamicRules {
            date_detection,
            numeric_detection,
            date_formats: taken("dynamic_date_formats"),
            templates: taken("dynamic_templates"),
        }
    }

    /// Gives the rules back to the mapping that they were taken from.
    pub(super) fn give_back(self, mappings: &mut Map<String, Value>) {
        for (name, value) in
            [("dynamic_date_formats", self.date_formats), ("dynamic_templates", self.templates)]
        {
            if let Some(place) = mappings.get_mut(name) {
                *place = value;
            }
        }
    }

    /// Kind of the first value of a new field, and the field's definition without a template; `None` if the
    /// value has no type.
    pub(super) fn infer(&self, value: &Value) -> Option<(&'static str, Map<String, Value>)> {
        let (kind, definition) = match value {
            Value::Null => return None,
            Value::Object(members) if unread_text(members).is_some() => return None,
            Value::Array(elements) => return elements.iter().find_map(|element| self.infer(element)),
            Value::Object(_) => ("object", json!({ "properties": {} })),
            Value::Bool(_) => ("boolean", json!({ "type": "boolean" })),
            Value::Number(number) if number.is_f64() => ("double", json!({ "type": "float" })),
            Value::Number(_) => ("long", json!({ "type": "long" })),
            Value::String(text) => self.infer_text(text),
        };
        match definition {
            Value::Object(definition) => Some((kind, definition)),
            _ => None,
        }
    }

    fn infer_text(&self, text: &str) -> (&'static str, Value) {
        let is_whole = text.parse::<i64>().is_ok();
        let is_number = is_whole || text.parse::<f64>().is_ok_and(f64::is_finite);
        if is_number && self.numeric_detection {
            return match is_whole {
                true => ("long", json!({ "type": "long" })),
                false => ("double", json!({ "type": "float" })),
            };
        }
        // A number would be a date by many formats.
        if !is_number
            && self.date_detection
            && let Some(date) = self.date_field(text)
        {
            return ("date", date);
        }
        let keyword = json!({ "type": "keyword", "ignore_above": 256 });
        ("string", json!({ "type": "text", "fields": { "keyword": keyword } }))
    }

    /// Definition of the field of a text that is a date.
    fn date_field(&self, text: &str) -> Option<Value> {
        let format = match &self.date_formats {
            Value::Null if DateText::is_detected(text) => return Some(json!({ "type": "date" })),
            Value::Null => {
                let begins = text.as_bytes().first().is_some_and(u8::is_ascii_digit);
                let is_date = begins && DateText::parse(text, Some(SLASHED_FORMS)).is_some();
                is_date.then(|| SLASHED.to_owned())?
            }
            formats => {
                let mut formats = names_of(formats).into_iter();
                formats.find(|format| DateText::parse(text, Some(format.as_str())).is_some())?
            }
        };
        Some(json!({ "type": "date", "format": format }))
    }

    /// Definition of a new field by the first template that matches it.
    pub(super) fn by_template(
        &self,
        name: &str,
        path: &str,
        kind: &str,
        plain: &Map<String, Value>,
    ) -> Option<Map<String, Value>> {
        let mut all = self.templates.as_array()?.iter().filter_map(template_of);
        let (_, template) = all.find(|(_, template)| matches(template, name, path, kind))?;
        let mapping = template.get("mapping").and_then(Value::as_object);
        let filled = mapping.into_iter().flatten();
        let mut field: Map<String, Value> = filled
            .map(|(member, value)| {
                (fill_text(member, name, type_of(plain)), fill(value, name, type_of(plain)))
            })
            .collect();
        // An object has its fields instead of a type.
        if !field.contains_key("type") {
            for (member, value) in
                plain.iter().filter(|(member, _)| ["type", "properties"].contains(&member.as_str()))
            {
                field.entry(member.clone()).or_insert_with(|| value.clone());
            }
        }
        if type_of(&field) == "date"
            && !field.contains_key("format")
            && let Some(format) = plain.get("format")
        {
            field.insert("format".to_owned(), format.clone());
        }
        Some(field)
    }
}

/// Name and members of a template in the list of them.
fn template_of(listed: &Value) -> Option<(&String, &Map<String, Value>)> {
    let (name, template) = listed.as_object().filter(|named| named.len() == 1)?.iter().next()?;
    Some((name, template.as_object()?))
}

/// True if a template is for a new field. One without conditions is for none.
fn matches(template: &Map<String, Value>, name: &str, path: &str, kind: &str) -> bool {
    /// Conditions, with what they have to be; those that cost less are first.
    const CONDITIONS: [(&str, bool); 6] = [
        ("match_mapping_type", true),
        ("unmatch_mapping_type", false),
        ("match", true),
        ("unmatch", false),
        ("path_match", true),
        ("path_unmatch", false),
    ];
    let is_regex = template.get("match_pattern").is_some_and(|pattern| pattern == "regex");
    let mut has_conditions = false;
    for (member, wanted) in CONDITIONS {
        let Some(patterns) = template.get(member).map(names_of) else { continue };
        has_conditions = true;
        let is_met = patterns.iter().any(|pattern| {
            let text = if PATHS.contains(&member) { path } else { name };
            match (PATTERNS.contains(&member), is_regex) {
                (false, _) => pattern == "*" || pattern == kind,
                (true, true) => whole(pattern).is_ok_and(|regex| regex.is_match(text)),
                (true, false) => glob(pattern, text),
            }
        });
        if is_met != wanted {
            return false;
        }
    }
    has_conditions
}

/// Compiles a regular expression that matches whole names.
fn whole(pattern: &str) -> Result<regex::Regex, regex::Error> {
    RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(REGEX_BYTES_MAX).build()
}

fn fill_text(text: &str, name: &str, kind: &str) -> String {
    let filled = text.replace("{name}", name);
    TYPE_PLACEHOLDERS.iter().fold(filled, |filled, placeholder| filled.replace(placeholder, kind))
}

/// A value of a template with the name and the type of the field in it.
fn fill(value: &Value, name: &str, kind: &str) -> Value {
    match value {
        Value::String(text) => fill_text(text, name, kind).into(),
        Value::Array(elements) => elements.iter().map(|element| fill(element, name, kind)).collect(),
        Value::Object(members) => {
            let filled = members
                .iter()
                .map(|(member, value)| (fill_text(member, name, kind), fill(value, name, kind)));
            Value::Object(filled.collect())
        }
        other => other.clone(),
    }
}

/// Checks the dynamic templates of a mapping.
///
/// # Errors
/// They are not a list of named templates, or a template has members, patterns, kinds or types that are not
/// known.
pub(super) fn check_templates(templates: &Value) -> Result<(), Error> {
    let Some(list) = templates.as_array() else {
        return match templates.is_null() {
            true => Ok(()),
            false => Err(Error::mapping(
                "[dynamic_templates] is not an array of objects, each with one named template",
            )),
        };
    };
    for listed in list {
        let Some((name, template)) = template_of(listed) else {
            return Err(Error::mapping(
                "an element of [dynamic_templates] is not an object with one named template",
            ));
        };
        check_template(name, template, ParameterCheck::OfAnyType)?;
    }
    Ok(())
}

/// Drops the dynamic templates of a kept mapping that are malformed: the version that took them passed them
/// over.
pub(crate) fn drop_malformed(mappings: &mut Map<String, Value>) {
    let is_whole = |listed: &Value| {
        template_of(listed)
            .is_some_and(|(name, template)| check_template(name, template, ParameterCheck::Nothing).is_ok())
    };
    match mappings.get_mut("dynamic_templates") {
        Some(Value::Array(list)) => list.retain(is_whole),
        _ => drop(mappings.remove("dynamic_templates")),
    }
}

fn check_template(name: &str, template: &Map<String, Value>, checked: ParameterCheck) -> Result<(), Error> {
    let refuse = |reason: String| Err(Error::mapping(format!("dynamic template [{name}]: {reason}")));
    let is_regex = match template.get("match_pattern").map(Value::as_str) {
        None | Some(Some("simple")) => false,
        Some(Some("regex")) => true,
        Some(_) => return refuse("[match_pattern] is neither [simple] nor [regex]".to_owned()),
    };
    for (member, value) in template {
        match member.as_str() {
            "mapping" | "match_pattern" => {}
            one if PATTERNS.contains(&one) => {
                let patterns = names_of(value);
                let mut regexes = patterns.iter().filter(|_| is_regex).map(|pattern| whole(pattern));
                if let Some(Err(error)) = regexes.find(Result::is_err) {
                    return refuse(format!("[{one}] has an invalid expression: {error}"));
                }
            }
            one @ ("match_mapping_type" | "unmatch_mapping_type") => {
                if let Some(unknown) = names_of(value).iter().find(|kind| !KINDS.contains(&kind.as_str())) {
                    return refuse(format!(
                        "[{one}] has the kind [{unknown}]; there are [{}]",
                        KINDS.join(", ")
                    ));
                }
            }
            unknown => return refuse(format!("the parameter [{unknown}] is not known")),
        }
    }
    let Some(mapping) = template.get("mapping").and_then(Value::as_object) else {
        return refuse("[mapping] is missing or not an object".to_owned());
    };
    // A field of the template, with what is below it.
    let mut field: Map<String, Value> = mapping
        .iter()
        .map(|(member, value)| (fill_text(member, "field", "keyword"), fill(value, "field", "keyword")))
        .collect();
    field.entry("type").or_insert("keyword".into());
    let mut fields = Map::new();
    fields.insert("field".to_owned(), Value::Object(field));
    check_properties(Some(&Value::Object(fields)), 0, checked).or_else(|error| refuse(error.to_string()))
}
