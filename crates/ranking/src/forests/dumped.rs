//! The JSON of dumped models: the members that are read, as values.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::Error;

/// Maximum memory of the values of a model: those of more than a million nodes.
const BYTES_MAX: usize = 1 << 30;

/// Memory of an element of a list, which may have grown to twice its elements.
const ELEMENT_BYTES: usize = 2 * size_of::<Value>();

/// Memory of a member of an object: also its name, and its place in the table of names.
const MEMBER_BYTES: usize = size_of::<Value>() + 80;

/// Members that are kept, at any depth. The others are passed over.
const KEPT: [&str; 25] = [
    "average_output",
    "children",
    "decision_type",
    "default_left",
    "feature_infos",
    "feature_names",
    "leaf",
    "leaf_value",
    "left_child",
    "missing",
    "missing_type",
    "no",
    "nodeid",
    "num_tree_per_iteration",
    "objective",
    "pandas_categorical",
    "right_child",
    "split",
    "split_condition",
    "split_feature",
    "threshold",
    "tree_info",
    "tree_structure",
    "values",
    "yes",
];

/// Reason for which the JSON of a model is not read.
#[derive(Debug)]
pub(super) enum DumpFault {
    /// The text is not JSON, or its list has other values than trees.
    Json(serde_json::Error),
    /// The values need more memory than a model may take.
    TooLarge,
}

impl From<DumpFault> for Error {
    fn from(fault: DumpFault) -> Self {
        Error::setup(match fault {
            DumpFault::Json(error) if error.is_data() => error.to_string(),
            DumpFault::Json(error) => format!("it is not JSON: {error}"),
            DumpFault::TooLarge => format!(
                "the values of its trees take more than {} MB: train fewer trees, or smaller ones",
                BYTES_MAX >> 20
            ),
        })
    }
}

/// Reads a whole text.
///
/// # Errors
/// The text is not JSON, or needs too much memory.
pub(super) fn read(text: &[u8]) -> Result<Value, DumpFault> {
    read_within(text, BYTES_MAX)
}

fn read_within(text: &[u8], bytes_max: usize) -> Result<Value, DumpFault> {
    let room = Cell::new(Some(bytes_max));
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = DumpSeed { part: DumpPart::Root, room: &room }.deserialize(&mut deserializer);
    let value = value.and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| if room.get().is_none() { DumpFault::TooLarge } else { DumpFault::Json(error) })
}

/// Position of a value in the document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DumpPart {
    /// The whole text.
    Root,
    /// An element of the list of trees.
    Tree,
    /// The object whose members have the names of features.
    Features,
    Inner,
}

/// Reader of a value.
#[derive(Clone, Copy)]
struct DumpSeed<'r> {
    part: DumpPart,
    /// Memory that values may take yet; `None` once it was not enough.
    room: &'r Cell<Option<usize>>,
}

impl DumpSeed<'_> {
    fn take<E: serde::de::Error>(self, bytes: usize) -> Result<(), E> {
        self.room.set(self.room.get().and_then(|room| room.checked_sub(bytes)));
        match self.room.get() {
            Some(_) => Ok(()),
            None => Err(E::custom("it is too large")),
        }
    }

    /// The value of a text, a number or another scalar, unless a tree is wanted.
    fn scalar<E: serde::de::Error>(self, value: Value) -> Result<Value, E> {
        match self.part {
            DumpPart::Tree => Err(E::custom("a tree has neither 'leaf' nor 'split'")),
            _ => Ok(value),
        }
    }
}

impl<'de> DeserializeSeed<'de> for DumpSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DumpSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: serde::de::Error>(self, truth: bool) -> Result<Value, E> {
        self.scalar(Value::Bool(truth))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Value, E> {
        self.scalar(Value::Number(number.into()))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Value, E> {
        self.scalar(Value::Number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        self.scalar(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.scalar(Value::String(text.to_owned()))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        self.scalar(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let part = if self.part == DumpPart::Root { DumpPart::Tree } else { DumpPart::Inner };
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element_seed(DumpSeed { part, ..self })? {
            self.take(ELEMENT_BYTES)?;
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if self.part != DumpPart::Features && !KEPT.contains(&name.as_str()) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            self.take(MEMBER_BYTES)?;
            let part = if name == "feature_infos" { DumpPart::Features } else { DumpPart::Inner };
            let value = map.next_value_seed(DumpSeed { part, ..self })?;
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_that_are_read_are_kept() {
        for (text, expected) in [
            (r#"[{"nodeid":0,"gain":[1,2],"leaf":0.5}]"#, json!([{ "nodeid": 0, "leaf": 0.5 }])),
            (
                r#"{"feature_infos":{"gain":{"min_value":1,"values":[1,-2]}},"other":{"leaf":1}}"#,
                json!({ "feature_infos": { "gain": { "values": [1, -2] } } }),
            ),
            (
                r#"{"pandas_categorical":[["a",null,true,1e2]]}"#,
                json!({
                "pandas_categorical": [["a", null, true, 100.0]] }),
            ),
            ("5", json!(5)),
        ] {
            assert_eq!(read(text.as_bytes()).expect("it is JSON"), expected, "{text}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let tree = r#"{"leaf":1},"#;
        let trees = |count: usize| format!("[{}]", tree.repeat(count).trim_end_matches(','));
        let limit = 100 * (ELEMENT_BYTES + MEMBER_BYTES);
        assert!(read_within(trees(100).as_bytes(), limit).is_ok());
        assert!(matches!(read_within(trees(101).as_bytes(), limit), Err(DumpFault::TooLarge)));
        let passed = format!(r#"{{"gain":[{}0]}}"#, "0,".repeat(100_000));
        assert!(read_within(passed.as_bytes(), 0).is_ok(), "what is passed over takes no memory");
    }

    #[test]
    fn what_is_no_model_is_refused() {
        for (text, part) in [
            ("[0,0]", "a tree has neither 'leaf' nor 'split'"),
            (r#"["x"]"#, "a tree has neither"),
            ("[{}", "it is not JSON: EOF"),
            ("[] 5", "it is not JSON: trailing characters"),
        ] {
            let error = Error::from(read(text.as_bytes()).expect_err("it is no model"));
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        let error = Error::from(DumpFault::TooLarge);
        assert!(error.to_string().contains("more than 1024 MB"), "{error}");
    }
}
