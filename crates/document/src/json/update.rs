use std::fmt;

use millrace_tensor::TensorType;
use millrace_tensor::json::{ModifySeed, RemoveSeed, SkippedValue, TensorSeed};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Unexpected, Visitor};

use super::failure::FieldFailure;
use super::read::ValueSeed;
use crate::scalar;
use crate::{
    ArithmeticOperator, DataType, DocumentType, DocumentValue, FieldUpdate, MissingNumber, UpdatePath,
    UpdatePathStep, ValueChange,
};

/// Values that a change counts as, beside those in it.
const CHANGE_VALUES: usize = 4;

/// Reads the operations on the field path `path`, the key just returned by `map`.
pub(super) fn read_field_update<'de, A: MapAccess<'de>>(
    map: &mut A,
    path: &str,
    document_type: &DocumentType,
    failure: &FieldFailure,
    updates: &mut Vec<FieldUpdate>,
) -> Result<(), A::Error> {
    let (path, data_type) = UpdatePath::parse(path, document_type).map_err(A::Error::custom)?;
    // An entry of a map or weighted set can be removed in place, and so can an element of an array, or a
    // member of a struct that has no elements of its own.
    let is_entry = match path.steps.last() {
        None => false,
        Some(UpdatePathStep::Key(_) | UpdatePathStep::Index(_) | UpdatePathStep::Each) => true,
        Some(UpdatePathStep::Member(_)) => !matches!(
            data_type,
            DataType::Array(_) | DataType::WeightedSet { .. } | DataType::Map(..) | DataType::Tensor(_)
        ),
    };
    let changes = map.next_value_seed(ValueOperations {
        data_type: &data_type,
        is_inside: !path.steps.is_empty(),
        is_entry,
        missing: MissingNumber::Zero,
        failure,
    })?;
    updates.extend(changes.into_iter().map(|(steps, change)| {
        let mut path = path.clone();
        path.steps.extend(steps);
        FieldUpdate { path, change }
    }));
    Ok(())
}

/// A change, and the steps that `match` adds to its path.
type MatchedChange = (Vec<UpdatePathStep>, ValueChange);

/// Operations on one value, for example `{"assign": …}`.
struct ValueOperations<'a> {
    data_type: &'a DataType,
    /// True if the value is within that of a field.
    is_inside: bool,
    is_entry: bool,
    missing: MissingNumber,
    failure: &'a FieldFailure,
}

impl<'de> DeserializeSeed<'de> for ValueOperations<'_> {
    type Value = Vec<MatchedChange>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ValueOperations<'_> {
    type Value = Vec<MatchedChange>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"an object of update operations, for example {"assign": 1}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut changes = Vec::new();
        while let Some(operation) = map.next_key::<String>()? {
            self.operation(&mut map, &operation, &mut changes)?;
        }
        if changes.is_empty() {
            return Err(A::Error::custom(r#"no update operation, expected for example {"assign": 1}"#));
        }
        Ok(changes)
    }
}

impl ValueOperations<'_> {
    /// Reads one operation, whose name is in any case of letters.
    fn operation<'de, A: MapAccess<'de>>(
        &self,
        map: &mut A,
        operation: &str,
        changes: &mut Vec<MatchedChange>,
    ) -> Result<(), A::Error> {
        let operation = operation.to_ascii_lowercase();
        if operation == "match" {
            let element = ElementMatch { data_type: self.data_type, failure: self.failure };
            let inner = map.next_value_seed(element)?;
            self.failure.take(CHANGE_VALUES * inner.len())?;
            changes.extend(inner);
        } else {
            self.failure.take(CHANGE_VALUES)?;
            changes.push((Vec::new(), self.change(map, &operation)?));
        }
        Ok(())
    }

    fn change<'de, A: MapAccess<'de>>(&self, map: &mut A, operation: &str) -> Result<ValueChange, A::Error> {
        let value = |data_type| ValueSeed { data_type, failure: self.failure };
        Ok(match (operation, self.data_type) {
            ("assign", data_type) => match (map.next_value_seed(value(data_type))?, self.missing) {
                (Some(new), MissingNumber::Zero) => ValueChange::Assign(new),
                (Some(new), MissingNumber::Skip) => ValueChange::Replace(new),
                (None, _) => ValueChange::Clear,
            },
            (
                "remove",
                DataType::Array(element) | DataType::WeightedSet { element, .. } | DataType::Map(element, _),
            ) => {
                let (is_inside, failure) = (self.is_inside, self.failure);
                match map.next_value_seed(RemovedElements { data_type: element, is_inside, failure })? {
                    Some(elements) => ValueChange::RemoveElements(elements),
                    None => ValueChange::Clear,
                }
            }
            ("remove", _) if self.is_entry => {
                map.next_value::<SkippedValue>()?;
                ValueChange::Clear
            }
            ("add", data_type @ DataType::Array(_)) => match map.next_value_seed(value(data_type))? {
                Some(DocumentValue::Array(elements)) => ValueChange::AddElements(elements),
                _ => ValueChange::AddElements(Vec::new()),
            },
            ("add", data_type @ DataType::WeightedSet { .. }) => {
                match map.next_value_seed(value(data_type))? {
                    Some(DocumentValue::WeightedSet(elements)) => ValueChange::AddWeights(elements),
                    _ => ValueChange::AddWeights(Vec::new()),
                }
            }
            ("add", DataType::Tensor(tensor_type)) => {
                need_mapped::<A::Error>(operation, tensor_type)?;
                ValueChange::AddCells(
                    self.failure.take_tensor(map.next_value_seed(TensorSeed(tensor_type))?)?,
                )
            }
            ("modify", DataType::Tensor(tensor_type)) => {
                ValueChange::ModifyCells(map.next_value_seed(ModifySeed(tensor_type))?)
            }
            ("remove", DataType::Tensor(tensor_type)) => {
                need_mapped::<A::Error>(operation, tensor_type)?;
                ValueChange::RemoveCells(map.next_value_seed(RemoveSeed(tensor_type))?)
            }
            ("increment" | "decrement" | "multiply" | "divide", data_type) if is_number(data_type) => {
                self.arithmetic(map, operation)?
            }
            ("add" | "remove" | "modify" | "increment" | "decrement" | "multiply" | "divide", data_type) => {
                return Err(A::Error::custom(format!(
                    "'{operation}' does not work on {data_type}; use assign"
                )));
            }
            _ => {
                return Err(A::Error::custom(format!(
                    "unknown update operation '{operation}', expected assign, add, remove, increment, decrement, multiply, \
                     divide, match or modify"
                )));
            }
        })
    }

    fn arithmetic<'de, A: MapAccess<'de>>(
        &self,
        map: &mut A,
        operation: &str,
    ) -> Result<ValueChange, A::Error> {
        let seed = ValueSeed { data_type: &DataType::Double, failure: self.failure };
        let operand = match map.next_value_seed(seed)? {
            Some(DocumentValue::Double(operand)) if operand.is_finite() => operand,
            _ => return Err(A::Error::custom(format!("'{operation}' needs a number, for example 1"))),
        };
        let operator = match operation {
            "increment" => ArithmeticOperator::Add,
            "decrement" => ArithmeticOperator::Subtract,
            "multiply" => ArithmeticOperator::Multiply,
            _ => ArithmeticOperator::Divide,
        };
        if operator == ArithmeticOperator::Divide && operand == 0.0 {
            return Err(A::Error::custom("division by zero"));
        }
        Ok(ValueChange::Arithmetic(operator, operand, self.missing))
    }
}

/// Checks that a tensor has subspaces, which an operation adds or removes.
fn need_mapped<E: serde::de::Error>(operation: &str, tensor_type: &TensorType) -> Result<(), E> {
    if tensor_type.mapped().next().is_none() {
        return Err(E::custom(format!(
            "'{operation}' needs a mapped dimension, {tensor_type} has none; use modify"
        )));
    }
    Ok(())
}

const fn is_number(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Byte
            | DataType::Int
            | DataType::Long
            | DataType::Float16
            | DataType::Float
            | DataType::Double
    )
}

/// Elements to remove: a list, or the keys of an object. `None` for a single value, which stands for the
/// whole collection if that is within a value.
struct RemovedElements<'a> {
    data_type: &'a DataType,
    is_inside: bool,
    failure: &'a FieldFailure,
}

impl RemovedElements<'_> {
    fn whole<E: serde::de::Error>(self, found: Unexpected<'_>) -> Result<Option<Vec<DocumentValue>>, E> {
        if self.is_inside { Ok(None) } else { Err(E::invalid_type(found, &self)) }
    }
}

impl<'de> DeserializeSeed<'de> for RemovedElements<'_> {
    type Value = Option<Vec<DocumentValue>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RemovedElements<'_> {
    type Value = Option<Vec<DocumentValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "elements to remove, each {}", scalar::with_article(self.data_type))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let seed = ValueSeed { data_type: self.data_type, failure: self.failure };
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element_seed(seed)? {
            self.failure.take(1)?;
            elements.extend(element);
        }
        Ok(Some(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            self.failure.take(1)?;
            elements.push(scalar::parse(&key, self.data_type).map_err(A::Error::custom)?);
            map.next_value::<SkippedValue>()?;
        }
        Ok(Some(elements))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        self.whole(Unexpected::Unit)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Self::Value, E> {
        self.whole(Unexpected::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Self::Value, E> {
        self.whole(Unexpected::Signed(number))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Self::Value, E> {
        self.whole(Unexpected::Unsigned(number))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Self::Value, E> {
        self.whole(Unexpected::Float(number))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        self.whole(Unexpected::Str(text))
    }
}

/// `{"element": …, <operation>: …}`: operations on one element of an array, a map or a weighted set.
struct ElementMatch<'a> {
    data_type: &'a DataType,
    failure: &'a FieldFailure,
}

impl<'de> DeserializeSeed<'de> for ElementMatch<'_> {
    type Value = Vec<MatchedChange>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ElementMatch<'_> {
    type Value = Vec<MatchedChange>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"an element and an operation, for example {"element": "a", "increment": 1}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let int = DataType::Int;
        let (key_type, inner_type) = match self.data_type {
            DataType::Array(element) => (&int, &**element),
            DataType::WeightedSet { element, .. } => (&**element, &int),
            DataType::Map(key, value) => (&**key, &**value),
            other => return Err(A::Error::custom(format!("'match' does not work on {other}; use assign"))),
        };
        let missing = match self.data_type {
            DataType::WeightedSet { create_if_nonexistent: false, .. } => MissingNumber::Skip,
            _ => MissingNumber::Zero,
        };
        let operations = ValueOperations {
            data_type: inner_type,
            is_inside: true,
            is_entry: true,
            missing,
            failure: self.failure,
        };
        let (mut key, mut changes) = (None, Vec::new());
        while let Some(name) = map.next_key::<String>()? {
            if name == "element" {
                key = map.next_value_seed(ValueSeed { data_type: key_type, failure: self.failure })?;
            } else {
                operations.operation(&mut map, &name, &mut changes)?;
            }
        }
        let step = match (key, self.data_type) {
            (Some(DocumentValue::Int(index)), DataType::Array(_)) => UpdatePathStep::Index(
                usize::try_from(index).map_err(|_| A::Error::custom("an array index is 0 or more"))?,
            ),
            (Some(key), _) => UpdatePathStep::Key(key),
            (None, _) => return Err(A::Error::missing_field("element")),
        };
        for (steps, _) in &mut changes {
            steps.insert(0, step.clone());
        }
        Ok(changes)
    }
}
