//! Parser for values of a data type.

use std::fmt;
use std::sync::Arc;

use millrace_tensor::Tensor;
use millrace_tensor::json::{SkippedValue, TensorSeed};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Unexpected, Visitor};

use super::failure::{FieldFailure, reason};
use super::nesting::{DEPTH, too_deep};
use super::operation::ParseOptions;
use crate::{DataType, DocumentValue, Error, StructType, scalar, unique_keys};

/// Reads JSON as a value of the type, in the format of document fields; `None` for null.
///
/// # Errors
/// The JSON is not a value of the type; the text gives the expected value.
pub fn read_value(json: &str, data_type: &DataType) -> Result<Option<DocumentValue>, Error> {
    if too_deep(json.as_bytes()).is_some() {
        return Err(Error::value(format!("it is nested deeper than {DEPTH}")));
    }
    let failure = FieldFailure::new(ParseOptions::default());
    let mut deserializer = sonic_rs::Deserializer::from_str(json);
    let value = ValueSeed { data_type, failure: &failure }.deserialize(&mut deserializer).and_then(|value| {
        deserializer.end()?;
        Ok(value)
    });
    value.map_err(|error| Error::value(reason(&error)))
}

/// The size from which whole numbers may be read as floats.
const WHOLE_NUMBERS_END: f64 = 9_223_372_036_854_775_808.0;

/// Number of decimal digits that a float keeps of any number.
const DECIMAL_DIGITS: usize = f64::DIGITS as usize;

/// Number of digits of the shortest decimal number that is read as this one.
fn digits_of(number: f64) -> usize {
    let text = format!("{number:e}");
    text.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count()
}

/// Reader of a value of a data type; null is not a value.
#[derive(Clone, Copy)]
pub(super) struct ValueSeed<'a> {
    pub(super) data_type: &'a DataType,
    pub(super) failure: &'a FieldFailure,
}

impl ValueSeed<'_> {
    fn tensor<E: serde::de::Error>(self, tensor: Tensor) -> Result<Option<DocumentValue>, E> {
        self.failure.take_tensor(tensor).map(|tensor| Some(DocumentValue::Tensor(tensor)))
    }

    fn parse<E: serde::de::Error>(self, text: &str) -> Result<Option<DocumentValue>, E> {
        scalar::parse(text, self.data_type).map(Some).map_err(E::custom)
    }

    /// Reads the digits of a number, or a truth value, for a type whose values are text.
    fn text<E: serde::de::Error>(self, text: String) -> Result<Option<DocumentValue>, E> {
        match self.data_type {
            DataType::String => Ok(Some(DocumentValue::String(text))),
            _ => self.parse(&text),
        }
    }

    fn integer<E: serde::de::Error>(self, number: i64) -> Result<Option<DocumentValue>, E> {
        match self.data_type {
            DataType::Byte | DataType::Int | DataType::Long => scalar::integer(number, self.data_type)
                .map(Some)
                .ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self)),
            DataType::Float16 | DataType::Float | DataType::Double => self.visit_f64(number as f64),
            data_type if is_text(data_type) => self.text(number.to_string()),
            _ => Err(E::invalid_type(Unexpected::Signed(number), &self)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Option<DocumentValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<DocumentValue>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Option<DocumentValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&scalar::expectation(self.data_type))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Option<DocumentValue>, E> {
        Ok(None)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Option<DocumentValue>, E> {
        match self.data_type {
            DataType::Bool => Ok(Some(DocumentValue::Bool(value))),
            data_type if is_text(data_type) => self.text(value.to_string()),
            _ => Err(E::invalid_type(Unexpected::Bool(value), &self)),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Option<DocumentValue>, E> {
        self.integer(number)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Option<DocumentValue>, E> {
        match (i64::try_from(number), self.data_type) {
            (Ok(number), _) => self.integer(number),
            (Err(_), DataType::Float16 | DataType::Float | DataType::Double) => self.visit_f64(number as f64),
            (Err(_), data_type) if is_text(data_type) => self.text(number.to_string()),
            (Err(_), _) => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Option<DocumentValue>, E> {
        match self.data_type {
            DataType::Float16 | DataType::Float | DataType::Double => scalar::float(number, self.data_type)
                .map(Some)
                .ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self)),
            DataType::Byte | DataType::Int | DataType::Long
                if number.fract() == 0.0 && number.abs() < 9e15 =>
            {
                self.integer(number as i64)
            }
            // Digits of so large a number may be lost before they come here.
            data_type
                if is_text(data_type)
                    && number.abs() >= WHOLE_NUMBERS_END
                    && digits_of(number) > DECIMAL_DIGITS =>
            {
                Err(E::custom(format!(
                    "{number:e} is above 2^64, or below -2^63, and has more than {DECIMAL_DIGITS} digits, which are \
                     not all kept; write the text in quotes"
                )))
            }
            data_type if is_text(data_type) => self.text(format!("{number:?}")),
            _ => Err(E::invalid_type(Unexpected::Float(number), &self)),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Option<DocumentValue>, E> {
        match self.data_type {
            DataType::String => Ok(Some(DocumentValue::String(text.to_owned()))),
            DataType::Raw => {
                let bytes = scalar::bytes_of_base64(text).map_err(|error| {
                    E::custom(format!("{error}, expected {}", scalar::expectation(self.data_type)))
                })?;
                Ok(Some(DocumentValue::Raw(bytes)))
            }
            DataType::Tensor(tensor_type) => self.tensor(TensorSeed(tensor_type).visit_str(text)?),
            DataType::Array(_) | DataType::WeightedSet { .. } | DataType::Map(..) | DataType::Struct(_) => {
                Err(E::invalid_type(Unexpected::Str(text), &self))
            }
            _ => self.parse(text),
        }
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Option<DocumentValue>, E> {
        match self.data_type {
            DataType::String => Ok(Some(DocumentValue::String(text))),
            _ => self.visit_str(&text),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<DocumentValue>, A::Error> {
        match self.data_type {
            DataType::Tensor(tensor_type) => self.tensor(TensorSeed(tensor_type).visit_seq(seq)?),
            DataType::Array(element) => {
                let seed = ValueSeed { data_type: element, failure: self.failure };
                let mut elements = Vec::new();
                for index in 0.. {
                    let next = self.failure.within(seq.next_element_seed(seed), || format!("[{index}]"))?;
                    let Some(next) = next else { break };
                    self.failure.take(1)?;
                    elements.extend(next);
                }
                Ok(Some(DocumentValue::Array(elements)))
            }
            DataType::Map(key, value) => {
                let mut entries = Vec::new();
                for index in 0.. {
                    let seed = EntrySeed { key, value, failure: self.failure };
                    let next = self.failure.within(seq.next_element_seed(seed), || format!("[{index}]"))?;
                    let Some(entry) = next else { break };
                    self.failure.take(2)?;
                    entries.extend(entry);
                }
                Ok(Some(DocumentValue::Map(unique_keys(entries))))
            }
            _ => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<DocumentValue>, A::Error> {
        match self.data_type {
            DataType::Tensor(tensor_type) => self.tensor(TensorSeed(tensor_type).visit_map(map)?),
            DataType::Position => self.read_position(map).map(Some),
            DataType::Map(key, value) => self.read_map(map, key, value).map(Some),
            DataType::WeightedSet { element, .. } => self.read_weighted_set(map, element).map(Some),
            DataType::Struct(struct_type) => self.read_struct(map, struct_type).map(Some),
            _ => Err(A::Error::invalid_type(Unexpected::Map, &self)),
        }
    }
}

impl<'a> ValueSeed<'a> {
    fn read_map<'de, A: MapAccess<'de>>(
        self,
        mut map: A,
        key: &DataType,
        value: &'a DataType,
    ) -> Result<DocumentValue, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let segment = || format!("{{{name}}}");
            let key = self.failure.within(scalar::parse(&name, key).map_err(A::Error::custom), segment)?;
            let seed = ValueSeed { data_type: value, failure: self.failure };
            if let Some(value) = self.failure.within(map.next_value_seed(seed), segment)? {
                self.failure.take(2)?;
                entries.push((key, value));
            }
        }
        Ok(DocumentValue::Map(unique_keys(entries)))
    }

    fn read_weighted_set<'de, A: MapAccess<'de>>(
        self,
        mut map: A,
        element: &DataType,
    ) -> Result<DocumentValue, A::Error> {
        let mut elements = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let segment = || format!("{{{name}}}");
            let element =
                self.failure.within(scalar::parse(&name, element).map_err(A::Error::custom), segment)?;
            let seed = ValueSeed { data_type: &DataType::Int, failure: self.failure };
            if let Some(DocumentValue::Int(weight)) =
                self.failure.within(map.next_value_seed(seed), segment)?
            {
                self.failure.take(2)?;
                elements.push((element, weight));
            }
        }
        Ok(DocumentValue::WeightedSet(unique_keys(elements)))
    }

    fn read_struct<'de, A: MapAccess<'de>>(
        self,
        mut map: A,
        struct_type: &StructType,
    ) -> Result<DocumentValue, A::Error> {
        let mut members: Vec<(Arc<str>, DocumentValue)> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let segment = || format!(".{name}");
            let Some(member) = struct_type.field(&name) else {
                if self.failure.skips_unknown() {
                    map.next_value::<SkippedValue>()?;
                    continue;
                }
                let reason = format!("struct {} has no field '{name}'", struct_type.name);
                return self.failure.within(Err(A::Error::custom(reason)), segment);
            };
            let seed = ValueSeed { data_type: &member.data_type, failure: self.failure };
            if let Some(value) = self.failure.within(map.next_value_seed(seed), segment)? {
                self.failure.take(1)?;
                members.retain(|(there, _)| *there != member.name);
                members.push((Arc::clone(&member.name), value));
            }
        }
        Ok(DocumentValue::Struct(members))
    }

    fn read_position<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<DocumentValue, A::Error> {
        let (mut latitude, mut longitude) = (None, None);
        while let Some(name) = map.next_key::<String>()? {
            let (axis, factor) = match name.as_str() {
                "lat" | "latitude" => (&mut latitude, 1e6),
                "lng" | "longitude" => (&mut longitude, 1e6),
                "x" => (&mut longitude, 1.0),
                "y" => (&mut latitude, 1.0),
                other => {
                    let known = &["lat", "lng", "latitude", "longitude", "x", "y"];
                    return Err(A::Error::unknown_field(other, known));
                }
            };
            let seed = ValueSeed { data_type: &DataType::Double, failure: self.failure };
            if let Some(DocumentValue::Double(number)) = map.next_value_seed(seed)? {
                *axis = Some(number * factor);
            }
        }
        let position = latitude.zip(longitude).and_then(|(y, x)| scalar::rounded_position(y, x));
        match position {
            Some((latitude, longitude)) => Ok(DocumentValue::Position { latitude, longitude }),
            None => Err(A::Error::invalid_value(Unexpected::Map, &self)),
        }
    }
}

/// True for types whose values are text, which numbers and truth values are read as.
const fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::String | DataType::Uri | DataType::Predicate)
}

/// One element of a map written as a list: `{"key": …, "value": …}`.
struct EntrySeed<'a> {
    key: &'a DataType,
    value: &'a DataType,
    failure: &'a FieldFailure,
}

impl<'de> DeserializeSeed<'de> for EntrySeed<'_> {
    type Value = Option<(DocumentValue, DocumentValue)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EntrySeed<'_> {
    type Value = Option<(DocumentValue, DocumentValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"an entry of a map, for example {"key": "a", "value": 1}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut key, mut value, mut has_value) = (None, None, false);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "key" => {
                    key = map.next_value_seed(ValueSeed { data_type: self.key, failure: self.failure })?
                }
                "value" => {
                    value =
                        map.next_value_seed(ValueSeed { data_type: self.value, failure: self.failure })?;
                    has_value = true;
                }
                other => return Err(A::Error::unknown_field(other, &["key", "value"])),
            }
        }
        let key = key.ok_or_else(|| A::Error::missing_field("key"))?;
        if !has_value {
            return Err(A::Error::missing_field("value"));
        }
        Ok(value.map(|value| (key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_texts_if_no_digit_is_lost() {
        for (number, text) in [
            ("1e20", Some("1e20")),
            ("1e300", Some("1e300")),
            ("-1.5e19", Some("-1.5e19")),
            ("1.23456789012345e30", Some("1.23456789012345e30")),
            ("18446744073709551615", Some("18446744073709551615")),
            ("18446744073709551617", None),
            ("-9223372036854775809", None),
            ("123456789012345678901234567890", None),
            ("1.234567890123456789e30", None),
        ] {
            match (read_value(number, &DataType::String), text) {
                (Ok(Some(DocumentValue::String(read))), Some(text)) => assert_eq!(read, text, "{number}"),
                (Err(error), None) => {
                    let error = error.to_string();
                    assert!(
                        error.contains("more than 15 digits, which are not all kept"),
                        "{number}: {error}"
                    );
                }
                (outcome, _) => panic!("{number}: {outcome:?}"),
            }
        }
    }
}
