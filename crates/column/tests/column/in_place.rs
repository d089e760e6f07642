//! Values that are read in place, compared with those that are decoded.

use std::sync::Arc;

use millrace_column::{ColumnValue, ValueBuilder, ValueLayout, encoded_values, read_value, value};
use millrace_document::{
    DataType, DocumentField, DocumentValue, EncodedLeafReader, EncodedLeafValues, StructType, ValueRef,
    unrecorded_type, wire,
};
use millrace_tensor::{CellType, Tensor, TensorBuilder, TensorType};
use proptest::prelude::*;

fn member(name: &str, data_type: DataType) -> DocumentField {
    DocumentField { name: Arc::from(name), data_type }
}

fn types() -> impl Strategy<Value = DataType> {
    let leaf = prop_oneof![
        Just(DataType::Bool),
        Just(DataType::Byte),
        Just(DataType::Int),
        Just(DataType::Long),
        Just(DataType::Float),
        Just(DataType::Double),
        Just(DataType::String),
        Just(DataType::Raw),
        Just(DataType::Position),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let set = inner.clone().prop_map(|element| DataType::WeightedSet {
            element: Box::new(element),
            create_if_nonexistent: false,
            remove_if_zero: false,
        });
        let map = (inner.clone(), inner.clone())
            .prop_map(|(key, value)| DataType::Map(Box::new(key), Box::new(value)));
        let members = (inner.clone(), inner.clone()).prop_map(|(a, b)| {
            let fields = vec![member("a", a), member("b", b)];
            DataType::Struct(Arc::new(StructType { name: "pair".to_owned(), fields }))
        });
        prop_oneof![inner.prop_map(|of| DataType::Array(Box::new(of))), set, map, members]
    })
}

/// A value of a type; structs may have a member that their type does not declare.
fn value_of(data_type: &DataType) -> BoxedStrategy<DocumentValue> {
    match data_type {
        DataType::Bool => any::<bool>().prop_map(DocumentValue::Bool).boxed(),
        DataType::Byte => any::<i8>().prop_map(DocumentValue::Byte).boxed(),
        DataType::Int => any::<i32>().prop_map(DocumentValue::Int).boxed(),
        DataType::Long => any::<i64>().prop_map(DocumentValue::Long).boxed(),
        DataType::Float => any::<i16>().prop_map(|n| DocumentValue::Float(f32::from(n))).boxed(),
        DataType::Double => any::<i16>().prop_map(|n| DocumentValue::Double(f64::from(n))).boxed(),
        DataType::String => "[a-zä]{0,5}".prop_map(DocumentValue::String).boxed(),
        DataType::Raw => prop::collection::vec(any::<u8>(), 0..4).prop_map(DocumentValue::Raw).boxed(),
        DataType::Position => (any::<i32>(), any::<i32>())
            .prop_map(|(latitude, longitude)| DocumentValue::Position { latitude, longitude })
            .boxed(),
        DataType::Array(of) => {
            prop::collection::vec(value_of(of), 0..4).prop_map(DocumentValue::Array).boxed()
        }
        DataType::WeightedSet { element, .. } => {
            let weighted = (value_of(element), any::<i32>());
            prop::collection::vec(weighted, 0..4).prop_map(DocumentValue::WeightedSet).boxed()
        }
        DataType::Map(key, value) => {
            let entry = (value_of(key), value_of(value));
            prop::collection::vec(entry, 0..4).prop_map(DocumentValue::Map).boxed()
        }
        DataType::Struct(of) => {
            let mut members: Vec<BoxedStrategy<(Arc<str>, DocumentValue)>> = Vec::new();
            for field in &of.fields {
                let name = field.name.clone();
                members.push(value_of(&field.data_type).prop_map(move |value| (name.clone(), value)).boxed());
            }
            (members, any::<u8>())
                .prop_map(|(mut members, dice)| {
                    if dice < 32 {
                        members.push((Arc::from("undeclared"), DocumentValue::Bool(true)));
                    }
                    DocumentValue::Struct(members)
                })
                .boxed()
        }
        other => panic!("{other:?} is not among the types of this test"),
    }
}

fn owned(value: ValueRef<'_>) -> DocumentValue {
    match value {
        ValueRef::Bool(value) => DocumentValue::Bool(value),
        ValueRef::Byte(number) => DocumentValue::Byte(number),
        ValueRef::Int(number) => DocumentValue::Int(number),
        ValueRef::Long(number) => DocumentValue::Long(number),
        ValueRef::Float(number) => DocumentValue::Float(number),
        ValueRef::Double(number) => DocumentValue::Double(number),
        ValueRef::String(text) => DocumentValue::String(text.to_owned()),
        ValueRef::Raw(bytes) => DocumentValue::Raw(bytes.to_vec()),
        ValueRef::Position { latitude, longitude } => DocumentValue::Position { latitude, longitude },
        ValueRef::Array(array) => DocumentValue::Array(array.values().map(owned).collect()),
        ValueRef::WeightedSet(set) => {
            DocumentValue::WeightedSet(set.weighted().map(|(value, weight)| (owned(value), weight)).collect())
        }
        ValueRef::Map(map) => {
            DocumentValue::Map(map.entries().map(|(key, value)| (owned(key), owned(value))).collect())
        }
        ValueRef::Struct(members) => DocumentValue::Struct(
            members.members().map(|(name, value)| (Arc::from(name), owned(value))).collect(),
        ),
        ValueRef::Tensor(_) | ValueRef::DenseCells(_) => panic!("tensors are decoded"),
    }
}

/// A value of a column, in the widest type of its kind.
fn leaf(values: &EncodedLeafValues<'_>, at: usize) -> DocumentValue {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).expect("valid UTF-8").to_owned();
    match values {
        EncodedLeafValues::Bools(values) => DocumentValue::Bool(values[at]),
        EncodedLeafValues::Integers(values) => DocumentValue::Long(values[at]),
        EncodedLeafValues::Floats(values) => DocumentValue::Double(values[at]),
        EncodedLeafValues::Texts(values) => DocumentValue::String(text(values[at])),
        EncodedLeafValues::Raws(values) => DocumentValue::Raw(values[at].to_vec()),
        EncodedLeafValues::Positions(values) => {
            let [latitude, longitude] = values[at];
            DocumentValue::Position { latitude, longitude }
        }
    }
}

/// The same number in the widest type of its kind; any other value unchanged.
fn widest(value: &DocumentValue) -> DocumentValue {
    match value {
        DocumentValue::Byte(number) => DocumentValue::Long(i64::from(*number)),
        DocumentValue::Int(number) => DocumentValue::Long(i64::from(*number)),
        DocumentValue::Float(number) => DocumentValue::Double(f64::from(*number)),
        other => other.clone(),
    }
}

/// Number of elements of the outermost collection.
fn outermost(value: &DocumentValue) -> usize {
    match value {
        DocumentValue::Array(values) => values.len(),
        DocumentValue::WeightedSet(values) => values.len(),
        DocumentValue::Map(entries) => entries.len(),
        _ => 1,
    }
}

/// Two types, mostly the same, and values of the first.
fn rows() -> impl Strategy<Value = (DataType, DataType, Vec<Option<DocumentValue>>)> {
    (types(), types(), any::<u8>()).prop_flat_map(|(written, other, dice)| {
        let read = if dice < 64 { other } else { written.clone() };
        let values = prop::collection::vec(prop::option::of(value_of(&written)), 0..6);
        (Just(written), Just(read), values)
    })
}

/// A value at the end of a path, its weight, and the index of its outermost element.
type FoundLeaf = (DocumentValue, i32, usize);

/// Appends the single values at the end of a path.
fn leaves(
    value: &DocumentValue,
    path: &[&str],
    weight: i32,
    element: Option<usize>,
    out: &mut Vec<FoundLeaf>,
) {
    let inside = |index| element.or(Some(index));
    match value {
        DocumentValue::Array(values) => {
            values.iter().enumerate().for_each(|(index, value)| leaves(value, path, 1, inside(index), out));
        }
        DocumentValue::WeightedSet(values) => {
            let values = values.iter().enumerate();
            values.for_each(|(index, (value, weight))| leaves(value, path, *weight, inside(index), out));
        }
        DocumentValue::Map(entries) => {
            for (index, (key, value)) in entries.iter().enumerate() {
                match path.split_first() {
                    None => leaves(key, path, 1, inside(index), out),
                    Some((&"key", rest)) => leaves(key, rest, 1, inside(index), out),
                    Some((&"value", rest)) => leaves(value, rest, 1, inside(index), out),
                    Some(_) => {}
                }
            }
        }
        DocumentValue::Struct(members) => {
            let Some((name, rest)) = path.split_first() else { panic!("no reader for structs as a whole") };
            let wanted = members.iter().filter(|(member, _)| **member == **name);
            wanted.for_each(|(_, member)| leaves(member, rest, 1, element, out));
        }
        single if path.is_empty() => out.push((widest(single), weight, element.unwrap_or(0))),
        _ => {}
    }
}

proptest! {
    #[test]
    fn leaves_in_place_are_those_of_the_decoded_value(
        (written, read, values) in rows(),
        path in prop::collection::vec(prop::sample::select(vec!["a", "b", "key", "value"]), 0..4),
    ) {
        let mut builder = ValueBuilder::new(&written);
        values.iter().for_each(|value| builder.push(value.as_ref()));
        let column = builder.finish();
        let stored = column;
        let Some((reader, encoded)) = EncodedLeafReader::new(&read, &path).zip(encoded_values(&stored)) else {
            return Ok(());
        };
        let column = reader.column((0..values.len()).map(|index| encoded.get(index)));
        prop_assert_eq!(column.rows(), values.len());
        for (index, given) in values.iter().enumerate() {
            let shown = value(&stored, &read, index);
            // All of it is shown, or a general reader is needed.
            let is_read = !column.irregular().contains(&index);
            prop_assert_eq!(is_read, shown == *given);
            let shown = shown.filter(|_| is_read);
            let mut expected = Vec::new();
            shown.iter().for_each(|shown| {
                // A struct is one element, with all collections inside it.
                let element = matches!(shown, DocumentValue::Struct(_)).then_some(0);
                leaves(shown, &path, 1, element, &mut expected);
            });
            let elements = column.elements(index);
            let found = column.of_row(index).map(|at| {
                let element = column.element(at);
                assert!(elements.contains(&element), "an element of another row");
                (leaf(column.values(), at), column.weight(at), element - elements.start)
            });
            prop_assert_eq!(found.collect::<Vec<_>>(), expected);
            prop_assert_eq!(elements.len(), shown.as_ref().map_or(0, outermost));
            let first = |element| column.of_row(index).find(|at| column.element(*at) == element);
            let firsts: Vec<_> = elements.clone().map(first).collect();
            prop_assert_eq!(column.by_element(index).collect::<Vec<_>>(), firsts.clone());
            // The place after the last element has no value.
            let at = (0..=elements.len()).map(|element| column.of_element(index, element));
            prop_assert_eq!(at.collect::<Vec<_>>(), [firsts, vec![None]].concat());
        }
    }

    #[test]
    fn a_value_in_place_is_the_decoded_one((written, read, values) in rows()) {
        let mut builder = ValueBuilder::new(&written);
        values.iter().for_each(|value| builder.push(value.as_ref()));
        let column = builder.finish();
        for index in 0..values.len() {
            let found = read_value(&column, &read, index).map(|found| match found {
                ColumnValue::InPlace(in_place) => owned(in_place),
                ColumnValue::Decoded(decoded) => decoded,
            });
            prop_assert_eq!(found, value(&column, &read, index));
        }
    }

    #[test]
    fn values_without_hidden_parts_are_not_decoded((written, _, values) in rows()) {
        let mut builder = ValueBuilder::new(&written);
        values.iter().for_each(|value| builder.push(value.as_ref()));
        let column = builder.finish();
        for (index, value) in values.iter().enumerate() {
            if value.is_none() || millrace_column::value(&column, &written, index) != *value {
                continue;
            }
            let in_place = matches!(read_value(&column, &written, index), Some(ColumnValue::InPlace(_)));
            let lies_there =
                written == DataType::String || millrace_column::layout(&written) == ValueLayout::Encoded;
            prop_assert_eq!(in_place, lies_there, "{:?}", value);
        }
    }

    #[test]
    fn encoded_values_make_the_column_of_decoded_ones((written, read, values) in rows()) {
        prop_assert!(are_columns_same(&written, &values) && are_columns_same(&read, &values));
    }
}

/// True if a column of a type is the same, made of values and made of their wire form.
fn are_columns_same(data_type: &DataType, values: &[Option<DocumentValue>]) -> bool {
    let (mut decoded, mut encoded) = (ValueBuilder::new(data_type), ValueBuilder::new(data_type));
    for value in values {
        decoded.push(value.as_ref());
        let bytes = value.as_ref().map(wire::encode_value);
        encoded.push_encoded(bytes.as_deref()).expect("a value in its wire form");
    }
    let (decoded, encoded) = (decoded.finish(), encoded.finish());
    decoded.encoded()[..] == encoded.encoded()[..]
}

#[test]
fn encoded_tensors_make_the_column_of_decoded_ones() {
    let unrecorded = unrecorded_type(CellType::Float, 2).expect("a type");
    let unrecorded = DocumentValue::Tensor(TensorBuilder::new(&unrecorded).finish());
    let types = [
        "tensor<float>(x[2])",
        "tensor<float>(x[3])",
        "tensor<float>(y[2])",
        "tensor(x[2])",
        "tensor<float>(k{})",
    ];
    let tensors = [
        "tensor<float>(x[2]):[1,2]",
        "tensor<float>(x[3]):[1,2,3]",
        "tensor<float>(y[2]):[3,4]",
        "tensor(x[2]):[5,6]",
        "tensor<float>(k{}):{a:7}",
    ];
    let tensor = |text: &str| Some(DocumentValue::Tensor(Tensor::parse(text, None).expect("a tensor")));
    let mut values: Vec<Option<DocumentValue>> = tensors.map(tensor).into();
    values.extend([None, Some(unrecorded), Some(DocumentValue::String("tensor".to_owned()))]);
    for text in types {
        let data_type = DataType::Tensor(TensorType::parse(text).expect("a type"));
        assert!(are_columns_same(&data_type, &values), "{text}");
    }
}

#[test]
fn bytes_that_are_not_a_value_are_an_error() {
    let dense = DataType::Tensor(TensorType::parse("tensor<float>(x[2])").expect("a type"));
    for data_type in [DataType::Long, DataType::String, dense] {
        let mut builder = ValueBuilder::new(&data_type);
        for bytes in [&[][..], &[99], &[7, 2, b'a'], &[4, 1]] {
            assert!(builder.push_encoded(Some(bytes)).is_err(), "{data_type:?} of {bytes:?}");
        }
    }
}
