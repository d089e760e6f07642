//! Conversion of a JSON body to parameters.
//!
//! Values stay text: a list of millions of numbers takes no more bytes than in the body, and counts as one
//! parameter.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{is_same_parameter, json_text};
use crate::Error;

/// First parts of parameter names, which are never parameters themselves.
const FAMILIES: [&str; 12] = [
    "collapse",
    "dispatch",
    "grouping",
    "input",
    "model",
    "presentation",
    "rankfeature",
    "ranking",
    "rankproperty",
    "rules",
    "streaming",
    "trace",
];

/// Parameters with names between commas, such as `sources=mail,files`.
const NAME_LISTS: [&str; 4] =
    ["collapsefield", "model.restrict", "model.sources", "presentation.summaryFields"];

/// Maximum nesting of objects whose names are joined. Each level is read once for each level above it.
const LEVELS_MAX: usize = 16;

/// Maximum nesting of a value that stays text: its readers recurse for each level.
const NESTING_MAX: usize = 128;

const EXAMPLE: &str = "for example: {\"yql\": \"select * from sources * where true\"}";

/// Converts a JSON body to parameters. Objects are flattened with dots, so that `{"ranking": {"profile":
/// "x"}}` is `ranking.profile=x`. Composite values stay JSON text: lists, the parts of `select`, query
/// tensors, schemas of answers, and maps of tokens that `@name` refers to (which are flattened as well). A
/// list of `streaming.groupname` becomes `streaming.groupnames`, and one of names that commas would separate
/// in a text becomes that text.
///
/// # Errors
/// [`Error::Syntax`] if it is not a JSON object, with the position; [`Error::TooMany`] for more than `max`
/// parameters.
pub fn flatten(body: &[u8], max: usize) -> Result<BTreeMap<String, String>, Error> {
    let fail = |error: &serde_json::Error| Error::Syntax {
        language: "JSON",
        line: error.line(),
        column: error.column(),
        reason: format!("{error}; {EXAMPLE}"),
    };
    json_text::read(body, |text| {
        let mut flattened = FlattenedParameters { parameters: BTreeMap::new(), max, refusal: None };
        let read = serde_json::from_slice::<&RawValue>(text).and_then(|whole| {
            flattened.object("", whole, 0)?;
            Ok(())
        });
        match (flattened.refusal, read) {
            (Some(refusal), _) => Ok(Err(refusal)),
            (None, Ok(())) => Ok(Ok(flattened.parameters)),
            (None, Err(error)) => Err(error),
        }
    })
    .unwrap_or_else(|error| Err(fail(&error)))
}

/// Parameters found so far.
struct FlattenedParameters {
    parameters: BTreeMap<String, String>,
    max: usize,
    /// Error that ended the reading.
    refusal: Option<Error>,
}

impl FlattenedParameters {
    /// Reads the entries of an object whose name is `prefix`, which is empty for the body itself.
    fn object(&mut self, prefix: &str, object: &RawValue, level: usize) -> Result<(), serde_json::Error> {
        if !object.get().starts_with('{') {
            self.refusal = Some(Error::Syntax {
                language: "JSON",
                line: 1,
                column: 1,
                reason: format!("expected an object; {EXAMPLE}"),
            });
            return Ok(());
        }
        let mut json = serde_json::Deserializer::from_str(object.get());
        ParameterEntries { parameters: self, prefix, level }.deserialize(&mut json)
    }

    fn put(&mut self, name: String, value: &RawValue, level: usize) -> Result<(), serde_json::Error> {
        let text = value.get();
        let is_value = name.ends_with(')')
            || name.ends_with(".json_schema")
            || name == "select"
            || name.starts_with("select.");
        match text.as_bytes().first() {
            Some(b'{') if !is_value => {
                if level == LEVELS_MAX {
                    self.refuse(&name, format!("objects are nested more than {LEVELS_MAX} deep"));
                    return Ok(());
                }
                if name.contains('.') || FAMILIES.contains(&name.as_str()) {
                    return self.object(&name, value, level + 1);
                }
                self.map(name, value, level + 1)?;
            }
            Some(b'[') if is_same_parameter(&name, "streaming.groupname") => {
                self.insert_json("streaming.groupnames".to_owned(), text);
            }
            Some(b'[') if NAME_LISTS.iter().any(|list| is_same_parameter(&name, list)) => {
                match joined(text) {
                    Some(names) => self.insert(name, names),
                    None => self.insert_json(name, text),
                }
            }
            Some(b'{' | b'[') => self.insert_json(name, text),
            _ => match serde_json::from_str(text)? {
                serde_json::Value::Null => {}
                serde_json::Value::String(text) => self.insert(name, text),
                other => self.insert(name, other.to_string()),
            },
        }
        Ok(())
    }

    /// Reads an object that may be a map of tokens, which counts as one parameter, and is its entries where
    /// they are few.
    fn map(&mut self, name: String, map: &RawValue, level: usize) -> Result<(), serde_json::Error> {
        let left = self.max.saturating_sub(self.parameters.len() + 1);
        let mut entries = FlattenedParameters { parameters: BTreeMap::new(), max: left, refusal: None };
        match (entries.object(&name, map, level), entries.refusal.take()) {
            (_, Some(Error::TooMany { .. })) => {}
            (_, Some(refusal)) => self.refusal = Some(refusal),
            (Err(error), None) => return Err(error),
            (Ok(()), None) => self.parameters.append(&mut entries.parameters),
        }
        if !self.parameters.contains_key(&name) {
            self.insert_json(name, map.get());
        }
        Ok(())
    }

    fn insert_json(&mut self, name: String, text: &str) {
        match compact(text) {
            Some(text) => self.insert(name, text),
            None => self.refuse(&name, format!("its value is nested more than {NESTING_MAX} deep")),
        }
    }

    fn insert(&mut self, name: String, value: String) {
        self.parameters.insert(name, value);
        if self.parameters.len() > self.max {
            self.refusal = Some(Error::TooMany { max: self.max });
        }
    }

    fn refuse(&mut self, name: &str, reason: String) {
        // A name is as long as the body lets it be.
        let parameter = name.chars().take(100).collect();
        self.refusal = Some(Error::Parameter { parameter, reason });
    }
}

/// Entries of an object, each of which becomes parameters.
struct ParameterEntries<'f, 'n> {
    parameters: &'f mut FlattenedParameters,
    prefix: &'n str,
    level: usize,
}

impl<'de> DeserializeSeed<'de> for ParameterEntries<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ParameterEntries<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut entries = 0;
        while let Some(key) = map.next_key::<String>()? {
            let value: &RawValue = map.next_value()?;
            let name = if self.prefix.is_empty() { key } else { format!("{}.{key}", self.prefix) };
            self.parameters.put(name, value, self.level).map_err(serde::de::Error::custom)?;
            // Entries without a parameter, such as nulls, or ones with a repeated name, count as well.
            entries += 1;
            if entries > self.parameters.max {
                self.parameters.refusal.get_or_insert(Error::TooMany { max: self.parameters.max });
            }
            if let Some(refusal) = &self.parameters.refusal {
                return Err(serde::de::Error::custom(refusal));
            }
        }
        Ok(())
    }
}

/// Names of a list with commas between them; `None` for an empty list, and for one of other values.
fn joined(text: &str) -> Option<String> {
    let names: Vec<String> = serde_json::from_str(text).ok()?;
    let are_names = !names.is_empty() && !names.iter().any(|name| name.contains(','));
    are_names.then(|| names.join(","))
}

/// Removes the blanks between tokens of JSON; `None` if it is nested too deeply.
fn compact(text: &str) -> Option<String> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            _ if in_string => {}
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            ' ' | '\t' | '\n' | '\r' => continue,
            _ => {}
        }
        if depth > NESTING_MAX {
            return None;
        }
        out.push(character);
    }
    Some(out)
}
