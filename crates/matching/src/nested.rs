//! Access to the values inside collections and structs, decoded or in their wire form.

use millrace_column::ColumnValue;
use millrace_document::{DocumentValue, ValueRef};

/// A value that may have values inside: a [`DocumentValue`], or a [`ValueRef`], which is read in place.
pub trait NestedValue: Copy {
    /// The value itself if it is a truth value, a number, a text, raw bytes, or a position.
    fn single(&self) -> Option<ValueRef<'_>>;

    /// Kind of the values inside.
    fn shape(&self) -> ValueShape;

    /// Calls `each` with the elements of a collection and their indices; never for another value.
    fn each_element(self, each: &mut impl FnMut(usize, ValueElement<Self>));

    /// Calls `each` with the member of a struct that has this name; never for another value.
    fn each_member(self, name: &str, each: &mut impl FnMut(Self));
}

/// Kind of the values inside a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueShape {
    /// No values are inside.
    Single,
    /// An array, a weighted set, or a map.
    Collection,
    /// Members with names.
    Struct,
}

impl NestedValue for &DocumentValue {
    fn single(&self) -> Option<ValueRef<'_>> {
        Some(match *self {
            DocumentValue::Bool(value) => ValueRef::Bool(*value),
            DocumentValue::Byte(number) => ValueRef::Byte(*number),
            DocumentValue::Int(number) => ValueRef::Int(*number),
            DocumentValue::Long(number) => ValueRef::Long(*number),
            DocumentValue::Float(number) => ValueRef::Float(*number),
            DocumentValue::Double(number) => ValueRef::Double(*number),
            DocumentValue::String(text) => ValueRef::String(text),
            DocumentValue::Raw(bytes) => ValueRef::Raw(bytes),
            DocumentValue::Position { latitude, longitude } => {
                ValueRef::Position { latitude: *latitude, longitude: *longitude }
            }
            _ => return None,
        })
    }

    fn shape(&self) -> ValueShape {
        match self {
            DocumentValue::Array(_) | DocumentValue::WeightedSet(_) | DocumentValue::Map(_) => {
                ValueShape::Collection
            }
            DocumentValue::Struct(_) => ValueShape::Struct,
            _ => ValueShape::Single,
        }
    }

    fn each_element(self, each: &mut impl FnMut(usize, ValueElement<Self>)) {
        match self {
            DocumentValue::Array(values) => {
                let values = values.iter().enumerate();
                values.for_each(|(index, value)| each(index, ValueElement::Value(value, 1)));
            }
            DocumentValue::WeightedSet(values) => {
                let weighted = values.iter().enumerate();
                weighted
                    .for_each(|(index, (value, weight))| each(index, ValueElement::Value(value, *weight)));
            }
            DocumentValue::Map(entries) => {
                let entries = entries.iter().enumerate();
                entries.for_each(|(index, (key, value))| each(index, ValueElement::Entry(key, value)));
            }
            _ => {}
        }
    }

    fn each_member(self, name: &str, each: &mut impl FnMut(Self)) {
        let DocumentValue::Struct(members) = self else { return };
        members.iter().filter(|(member, _)| &**member == name).for_each(|(_, member)| each(member));
    }
}

impl NestedValue for ValueRef<'_> {
    fn single(&self) -> Option<ValueRef<'_>> {
        match self {
            ValueRef::Tensor(_) | ValueRef::DenseCells(_) => None,
            _ => (self.shape() == ValueShape::Single).then_some(*self),
        }
    }

    fn shape(&self) -> ValueShape {
        match self {
            ValueRef::Array(_) | ValueRef::WeightedSet(_) | ValueRef::Map(_) => ValueShape::Collection,
            ValueRef::Struct(_) => ValueShape::Struct,
            _ => ValueShape::Single,
        }
    }

    fn each_element(self, each: &mut impl FnMut(usize, ValueElement<Self>)) {
        match self {
            ValueRef::Array(array) => {
                let values = array.values().enumerate();
                values.for_each(|(index, value)| each(index, ValueElement::Value(value, 1)));
            }
            ValueRef::WeightedSet(set) => {
                let weighted = set.weighted().enumerate();
                weighted.for_each(|(index, (value, weight))| each(index, ValueElement::Value(value, weight)));
            }
            ValueRef::Map(map) => {
                let entries = map.entries().enumerate();
                entries.for_each(|(index, (key, value))| each(index, ValueElement::Entry(key, value)));
            }
            _ => {}
        }
    }

    fn each_member(self, name: &str, each: &mut impl FnMut(Self)) {
        let ValueRef::Struct(members) = self else { return };
        members.members().filter(|(member, _)| *member == name).for_each(|(_, member)| each(member));
    }
}

/// A part of a value that can match separately: an element of an array or set, an entry of a map, or the
/// value itself.
#[derive(Clone, Copy)]
pub enum ValueElement<V> {
    /// A value with its weight in a weighted set, otherwise 1.
    Value(V, i32),
    /// An entry of a map: key and value.
    Entry(V, V),
}

impl<V: NestedValue> ValueElement<V> {
    /// Calls `each` with every value at the end of `path`, with collections as one value. See
    /// [`ValueElement::at`] for the path.
    pub(crate) fn wholes(self, path: &[&str], each: &mut dyn FnMut(V)) {
        match self {
            ValueElement::Entry(key, value) => match path.split_first() {
                Some((&"key", rest)) => ValueElement::Value(key, 1).wholes(rest, each),
                Some((&"value", rest)) => ValueElement::Value(value, 1).wholes(rest, each),
                _ => {}
            },
            ValueElement::Value(value, _) => match (value.shape(), path.split_first()) {
                (_, None) => each(value),
                (ValueShape::Collection, _) => {
                    value.each_element(&mut |_, element| element.wholes(path, each));
                }
                (ValueShape::Struct, Some((name, rest))) => {
                    value.each_member(name, &mut |member| ValueElement::Value(member, 1).wholes(rest, each));
                }
                (ValueShape::Single, _) => {}
            },
        }
    }

    /// Calls `each` with every value at the end of `path`, and its weight.
    ///
    /// A path consists of struct members, and of `key` and `value` of maps. Arrays and sets are traversed
    /// without a name.
    pub fn at(self, path: &[impl AsRef<str>], each: &mut impl FnMut(V, i32)) {
        match self {
            ValueElement::Entry(key, value) => match path.split_first() {
                Some((name, rest)) => match name.as_ref() {
                    "key" => ValueElement::Value(key, 1).at(rest, each),
                    "value" => ValueElement::Value(value, 1).at(rest, each),
                    _ => {}
                },
                // A map as a whole is represented by its keys, like a set by its values.
                None => ValueElement::Value(key, 1).at(path, each),
            },
            ValueElement::Value(value, weight) => match (value.shape(), path.split_first()) {
                (ValueShape::Collection, _) => {
                    value.each_element(&mut |_, element| element.at(path, each));
                }
                (_, None) => each(value, weight),
                (ValueShape::Struct, Some((name, rest))) => {
                    let name = name.as_ref();
                    value.each_member(name, &mut |member| ValueElement::Value(member, 1).at(rest, each));
                }
                (ValueShape::Single, _) => {}
            },
        }
    }
}

/// Calls `each` with every value at the end of `path` (`name`, `value.name`) inside a value, with elements of
/// arrays and sets one by one.
pub fn values_at<'v>(value: &'v DocumentValue, path: &[&str], each: &mut impl FnMut(&'v DocumentValue)) {
    ValueElement::Value(value, 1).at(path, &mut |value, _| each(value));
}

/// [`values_at`] for a value of a column: `each` gets truth values, numbers, texts, raw bytes and
/// positions, `None` for other values, and the weight in a weighted set (otherwise 1).
pub fn single_values_at(
    value: &ColumnValue<'_>,
    path: &[impl AsRef<str>],
    each: &mut impl FnMut(Option<ValueRef<'_>>, i32),
) {
    match value {
        ColumnValue::InPlace(value) => {
            ValueElement::Value(*value, 1).at(path, &mut |value, weight| each(value.single(), weight));
        }
        ColumnValue::Decoded(value) => {
            ValueElement::Value(value, 1).at(path, &mut |value, weight| each(value.single(), weight));
        }
    }
}

/// Calls `each` with the elements of a collection and their indices. Any other value is its own only element.
pub(crate) fn elements<V: NestedValue>(value: V, each: &mut impl FnMut(usize, ValueElement<V>)) {
    match value.shape() {
        ValueShape::Collection => value.each_element(each),
        ValueShape::Single | ValueShape::Struct => each(0, ValueElement::Value(value, 1)),
    }
}

#[cfg(test)]
mod tests {
    use millrace_document::wire;
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = DocumentValue> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(DocumentValue::Bool),
            any::<i8>().prop_map(DocumentValue::Byte),
            any::<i32>().prop_map(DocumentValue::Int),
            any::<i64>().prop_map(DocumentValue::Long),
            any::<i16>().prop_map(|number| DocumentValue::Float(f32::from(number))),
            any::<i16>().prop_map(|number| DocumentValue::Double(f64::from(number))),
            "[a-zä]{0,5}".prop_map(DocumentValue::String),
            Just(DocumentValue::Raw(vec![1, 2])),
            (any::<i32>(), any::<i32>())
                .prop_map(|(latitude, longitude)| DocumentValue::Position { latitude, longitude }),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let array = prop::collection::vec(inner.clone(), 0..4).prop_map(DocumentValue::Array);
            let set = prop::collection::vec((inner.clone(), any::<i32>()), 0..4)
                .prop_map(DocumentValue::WeightedSet);
            let map =
                prop::collection::vec((inner.clone(), inner.clone()), 0..4).prop_map(DocumentValue::Map);
            let members = prop::collection::vec(("[ab]", inner), 0..4).prop_map(|members| {
                DocumentValue::Struct(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
            });
            prop_oneof![array, set, map, members]
        })
    }

    /// All that can be seen at the end of a path: the values there, and the elements of the collections.
    fn seen(value: impl NestedValue, path: &[&str]) -> Vec<String> {
        let mut seen = Vec::new();
        let from = ValueElement::Value(value, 1);
        from.at(path, &mut |value, weight| {
            seen.push(format!("{:?} {:?} {weight}", value.shape(), value.single()));
        });
        from.wholes(path, &mut |whole| {
            elements(whole, &mut |index, element| match element {
                ValueElement::Value(value, weight) => {
                    seen.push(format!("{index}: {:?} {:?} {weight}", value.shape(), value.single()));
                }
                ValueElement::Entry(key, value) => {
                    seen.push(format!("{index}: {:?} = {:?}", key.single(), value.single()));
                }
            });
        });
        seen
    }

    proptest! {
        #[test]
        fn a_value_in_place_is_the_decoded_one(
            value in values(),
            path in prop::collection::vec(prop::sample::select(vec!["a", "b", "key", "value"]), 0..3),
        ) {
            let bytes = wire::encode_value(&value);
            let in_place = ValueRef::parse(&bytes).expect("a value was encoded");
            prop_assert_eq!(seen(in_place, &path), seen(&value, &path));
        }
    }
}
