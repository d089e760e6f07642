//! Columns of every Arrow type as fields of every kind, and the reasons why some are refused.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, ListArray};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{
    DataType as ArrowType, Field, FieldRef, Fields, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode,
};
use millrace_document::{DataType, DocumentField, DocumentType, StructType};
use millrace_table::{Error, RowMapping, TableColumns, TableReader, TableWriter};

use crate::tables::{BOUNDS, array, document_type, ids, kinds, map, person, read, set, tensor};

/// Reason why a table with the column `f` is not read; `None` if it is.
fn refusal(column: Field, document_type: &DocumentType) -> Option<String> {
    mapped_refusal(column, document_type, &RowMapping::default())
}

fn mapped_refusal(column: Field, document_type: &DocumentType, mapping: &RowMapping) -> Option<String> {
    let schema = Schema::new(vec![Field::new("id", ArrowType::Utf8, false), column]);
    schema_refusal(&schema, document_type, mapping)
}

fn schema_refusal(schema: &Schema, document_type: &DocumentType, mapping: &RowMapping) -> Option<String> {
    let writer = StreamWriter::try_new(Vec::new(), schema).expect("a schema");
    let table = writer.into_inner().expect("an end");
    let reader = TableReader::new(&table[..], mapping, BOUNDS, |_| Ok::<_, Error>(document_type));
    reader.err().map(|error| error.to_string())
}

fn item(of: ArrowType) -> FieldRef {
    Arc::new(Field::new("item", of, true))
}

fn list(of: ArrowType) -> ArrowType {
    ArrowType::List(item(of))
}

fn fixed(of: ArrowType, size: i32) -> ArrowType {
    ArrowType::FixedSizeList(item(of), size)
}

fn dictionary(of: ArrowType) -> ArrowType {
    ArrowType::Dictionary(Box::new(ArrowType::Int32), Box::new(of))
}

fn structure(members: &[(&str, ArrowType)]) -> ArrowType {
    let fields = members.iter().map(|(name, of)| Field::new(*name, of.clone(), true));
    ArrowType::Struct(fields.collect::<Fields>())
}

fn entries(key: ArrowType, value: ArrowType) -> ArrowType {
    let members = vec![Field::new("key", key, false), Field::new("value", value, true)];
    let entries = Field::new("entries", ArrowType::Struct(Fields::from(members)), false);
    ArrowType::Map(Arc::new(entries), false)
}

/// Every Arrow type, and the kinds of fields that take it. No column is taken as something else than it
/// means.
#[test]
fn each_arrow_type_is_taken_by_the_kinds_of_fields_that_have_its_values() {
    use ArrowType::*;
    const TEXTS: &str = "text uri predicate reference position";
    const INTEGERS: &str = "byte int long half float double";
    const FLOATS: &str = "half float double";
    let kinds = kinds();
    let all: Vec<&str> = kinds.iter().map(|(name, ..)| *name).collect();
    let all = all.join(" ");
    let unions = UnionFields::from_iter([(0, item(Int64)), (1, item(Utf8))]);
    let cases: Vec<(ArrowType, &str)> = vec![
        (Null, &*all),
        (Boolean, "bool"),
        (Int8, INTEGERS),
        (Int16, INTEGERS),
        (Int32, INTEGERS),
        (Int64, INTEGERS),
        (UInt8, INTEGERS),
        (UInt16, INTEGERS),
        (UInt32, INTEGERS),
        (UInt64, INTEGERS),
        (Float16, FLOATS),
        (Float32, FLOATS),
        (Float64, FLOATS),
        (Decimal32(5, 2), ""),
        (Decimal64(5, 2), ""),
        (Decimal128(5, 0), ""),
        (Decimal256(5, 2), ""),
        (Date32, ""),
        (Date64, ""),
        (Time32(TimeUnit::Second), ""),
        (Time64(TimeUnit::Microsecond), ""),
        (Duration(TimeUnit::Second), ""),
        (Interval(IntervalUnit::MonthDayNano), ""),
        (Timestamp(TimeUnit::Second, None), "long"),
        (Timestamp(TimeUnit::Second, Some("Europe/Berlin".into())), "long"),
        (Timestamp(TimeUnit::Millisecond, None), ""),
        (Timestamp(TimeUnit::Microsecond, Some("UTC".into())), ""),
        (Timestamp(TimeUnit::Nanosecond, None), ""),
        (Utf8, TEXTS),
        (LargeUtf8, TEXTS),
        (Utf8View, TEXTS),
        (Binary, "raw"),
        (LargeBinary, "raw"),
        (BinaryView, "raw"),
        (FixedSizeBinary(16), "raw"),
        (dictionary(Utf8), TEXTS),
        (dictionary(LargeUtf8), TEXTS),
        (dictionary(Int64), INTEGERS),
        (dictionary(Float64), FLOATS),
        (dictionary(Binary), "raw"),
        (dictionary(Timestamp(TimeUnit::Second, None)), "long"),
        (dictionary(list(Int32)), ""),
        (RunEndEncoded(Arc::new(Field::new("run_ends", Int32, false)), item(Utf8)), ""),
        (Union(unions.clone(), UnionMode::Sparse), ""),
        (Union(unions, UnionMode::Dense), ""),
        (ListView(item(Int32)), ""),
        (LargeListView(item(Int32)), ""),
        (list(Int32), "array dense matrix bytes doubles sparse"),
        (LargeList(item(Float32)), "dense matrix bytes doubles sparse"),
        (list(Utf8), ""),
        (list(list(dictionary(Utf8))), "nested"),
        (fixed(Float32, 3), "dense sparse"),
        (fixed(Float16, 3), "dense sparse"),
        (fixed(Float64, 2), "bytes doubles sparse"),
        (fixed(UInt16, 4), "array matrix sparse"),
        // A level for each dimension, with the sizes of the dimensions.
        (list(list(Float32)), "matrix chunks"),
        (list(fixed(Float32, 2)), "matrix chunks"),
        (fixed(fixed(Float32, 2), 2), "matrix chunks"),
        (list(fixed(Float32, 4)), ""),
        (fixed(list(Float32), 4), "chunks"),
        (fixed(fixed(Float32, 1), 4), ""),
        (fixed(fixed(Float32, 4), 1), ""),
        (list(list(list(Float32))), ""),
        (entries(Utf8, Int32), "set map sparse"),
        (entries(dictionary(Utf8), Int64), "set map sparse"),
        (entries(Int64, Int32), "numbers sparse"),
        (entries(Int32, list(Float32)), "maps chunks"),
        (entries(Utf8, Float32), "sparse"),
        (entries(Utf8, Utf8), ""),
        (structure(&[("name", Utf8), ("year", Int32)]), "person"),
        (structure(&[("name", Utf8), ("other", Int32)]), ""),
        (structure(&[("Name", Utf8)]), ""),
        (list(structure(&[("tags", list(Utf8))])), "people"),
        (structure(&[("lat", Float64), ("lng", Float64)]), "position"),
        (structure(&[("latitude", Float32), ("longitude", Int32)]), "position"),
        (structure(&[("lat", Float64), ("lon", Float64)]), ""),
        (list(structure(&[("a", Utf8), ("b", Int32), ("value", Float32)])), "links"),
        (list(structure(&[("a", Utf8), ("value", Utf8), ("value_", fixed(Float32, 2))])), "mixed"),
        (list(structure(&[("key", Utf8), ("value", Int32)])), "sparse"),
    ];
    for (arrow, expected) in cases {
        let takes = |data_type: &DataType| {
            let document_type = document_type(&[("f", data_type.clone())]);
            refusal(Field::new("f", arrow.clone(), true), &document_type).is_none()
        };
        let taken = kinds.iter().filter(|(_, data_type, _)| takes(data_type));
        let taken: Vec<&str> = taken.map(|(name, ..)| *name).collect();
        assert_eq!(taken.join(" "), expected, "{arrow}");
    }
}

#[test]
fn tensors_of_another_shape_are_refused() {
    let matrix = "tensor<double>(x[2],y[2])";
    let order = "has tensors whose numbers are in another order of dimensions than those of tensor(x[2],y[2]); \
                 transpose them, and make them contiguous, as by numpy.ascontiguousarray";
    let shape = "has tensors of the shape [4, 1], and the field is tensor(x[2],y[2]); reshape them, or store their \
                 numbers as a list";
    let numbers = DataType::Array(Box::new(DataType::Double));
    let cases: [(&str, DataType, &str); 13] = [
        (r#"{"shape":[2,2]}"#, tensor(matrix), ""),
        (r#"{"shape":[4]}"#, tensor(matrix), ""),
        (r#"{"shape":[2,2],"permutation":[0,1]}"#, tensor(matrix), ""),
        (r#"{"shape":[2,2],"dim_names":["x","y"]}"#, tensor(matrix), ""),
        (r#"{"shape":[2,2],"dim_names":["row","column"]}"#, tensor(matrix), ""),
        ("", tensor(matrix), ""),
        (r#"{"shape":[4,1]}"#, tensor(matrix), shape),
        (r#"{"shape":[2,2],"permutation":[1,0]}"#, tensor(matrix), order),
        (r#"{"shape":[2,2],"dim_names":["y","x"]}"#, tensor(matrix), order),
        (r#"{"shape":[4]}"#, numbers.clone(), ""),
        (
            r#"{"shape":[2,2]}"#,
            numbers,
            "has tensors of the shape [2, 2], and the field is array<double>; reshape them, or store their numbers as a \
             list",
        ),
        (r#"{"shape":[4]}"#, tensor("tensor<double>(c{})"), ""),
        (
            r#"{"shape":[2,2]}"#,
            tensor("tensor<double>(c{})"),
            "has tensors of the shape [2, 2], and the field is tensor(c{}); reshape them, or store their numbers as a \
             list",
        ),
    ];
    for (metadata, data_type, expected) in cases {
        let pairs =
            [("ARROW:extension:name", "arrow.fixed_shape_tensor"), ("ARROW:extension:metadata", metadata)];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let tensors = Field::new("f", fixed(ArrowType::Float64, 4), true).with_metadata(HashMap::from(pairs));
        let document_type = document_type(&[("f", data_type)]);
        let refused = refusal(tensors, &document_type).unwrap_or_default();
        assert_eq!(refused.strip_prefix("column 'f' ").unwrap_or(&refused), expected, "{metadata}");
    }
    // Lists without a fixed size are compared row by row.
    let rows: [(&[&[f32]], &str); 4] = [
        (&[&[1.0, 2.0], &[3.0, 4.0]], r#""3F80400040404080""#),
        (
            &[&[1.0, 2.0, 3.0], &[4.0]],
            "row: column 'f': a list of 3 where tensor<bfloat16>(x[2],y[2]) has y[2]",
        ),
        (&[&[1.0, 2.0, 3.0, 4.0]], "row: column 'f': a list of 1 where tensor<bfloat16>(x[2],y[2]) has x[2]"),
        (&[&[], &[]], "row: column 'f': a list of 0 where tensor<bfloat16>(x[2],y[2]) has y[2]"),
    ];
    for (lists, expected) in rows {
        let mut builder = ListBuilder::new(ListBuilder::new(Float32Builder::new()));
        for list in lists {
            builder.values().values().append_slice(list);
            builder.values().append(true);
        }
        builder.append(true);
        let column: ArrayRef = Arc::new(builder.finish());
        let document_type = document_type(&[("f", tensor("tensor<bfloat16>(x[2],y[2])"))]);
        let text = read(vec![ids(), ("f", column)], &document_type);
        assert_eq!(text.strip_prefix("{\"f\":").unwrap_or(&text), expected, "{lists:?}");
    }
}

#[test]
fn shapes_are_compared_with_those_of_the_tensors_within_a_field() {
    let matrix = || tensor("tensor<double>(x[2],y[2])");
    let cells = |shape: &str| {
        let pairs =
            [("ARROW:extension:name", "arrow.fixed_shape_tensor"), ("ARROW:extension:metadata", shape)];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Field::new("cells", fixed(ArrowType::Float64, 4), true).with_metadata(HashMap::from(pairs))
    };
    let member = DocumentField { name: "cells".into(), data_type: matrix() };
    let page = StructType { name: "page".to_owned(), fields: vec![member] };
    type TypeOfItems = fn(Field) -> ArrowType;
    let forms: [(DataType, TypeOfItems); 3] = [
        (DataType::Struct(Arc::new(page)), |cells| ArrowType::Struct(Fields::from(vec![cells]))),
        (array(matrix()), |cells| ArrowType::List(Arc::new(cells))),
        (map(DataType::String, matrix()), |cells| {
            let members = vec![Field::new("key", ArrowType::Utf8, false), cells];
            let entries = Field::new("entries", ArrowType::Struct(Fields::from(members)), false);
            ArrowType::Map(Arc::new(entries), false)
        }),
    ];
    for (data_type, column_of) in forms {
        let document_type = document_type(&[("f", data_type.clone())]);
        let refused = |shape: &str| refusal(Field::new("f", column_of(cells(shape)), true), &document_type);
        assert_eq!(refused(r#"{"shape":[2,2]}"#), None, "{data_type}");
        let other = refused(r#"{"shape":[4,1]}"#).unwrap_or_default();
        assert!(other.contains("the shape [4, 1], and the field is tensor"), "{data_type}: {other}");
    }
}

/// Nulls do not count as values, as in JSON.
#[test]
fn nulls_in_collections_are_left_out() {
    let numbers = |values: Vec<Option<i32>>| -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(values)]))
    };
    let pairs = |pairs: &[(&str, Option<i32>)]| -> ArrayRef {
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        for (key, value) in pairs {
            map.keys().append_value(key);
            map.values().append_option(*value);
        }
        map.append(true).expect("a key for each value");
        Arc::new(map.finish())
    };
    let sparse = tensor("tensor<float>(c{})");
    let cases: Vec<(ArrayRef, DataType, &str)> = vec![
        (numbers(vec![Some(1), None, Some(2)]), array(DataType::Long), "[1,2]"),
        (numbers(vec![None]), array(DataType::Long), "{"),
        (pairs(&[("a", Some(1)), ("b", None)]), set(DataType::String), r#"{"a":1"#),
        (pairs(&[("a", Some(1)), ("b", None)]), map(DataType::String, DataType::Int), r#"{"a":1"#),
        (pairs(&[("a", None)]), map(DataType::String, DataType::Int), "{"),
        (pairs(&[("a", Some(1)), ("b", None)]), sparse, "row: column 'f': a cell of the tensor is null"),
    ];
    for (column, data_type, expected) in cases {
        let document_type = document_type(&[("f", data_type.clone())]);
        let text = read(vec![ids(), ("f", column)], &document_type);
        assert_eq!(text.strip_prefix("{\"f\":").unwrap_or(&text), expected, "{data_type}");
    }
}

#[test]
fn the_error_of_a_struct_names_its_member() {
    let people = array(person());
    let cases = [
        (
            structure(&[("name", ArrowType::Utf8), ("zip", ArrowType::Utf8)]),
            person(),
            "person has no member 'zip'",
        ),
        (
            list(structure(&[("year", ArrowType::Utf8)])),
            people.clone(),
            "the member 'year' is Utf8; cast it to an integer type, or for a long timestamp[s]",
        ),
        (
            structure(&[("name", ArrowType::Utf8), ("name", ArrowType::Utf8)]),
            person(),
            "there are two members 'name'; leave out one of them",
        ),
        (
            ArrowType::Int32,
            people,
            "cast it to a list whose items are a struct with members of the same names",
        ),
    ];
    for (arrow, data_type, expected) in cases {
        let document_type = document_type(&[("f", data_type.clone())]);
        let refused = refusal(Field::new("f", arrow.clone(), true), &document_type);
        let expected = format!("column 'f' is {arrow}, and the field is {data_type}; {expected}");
        assert_eq!(refused, Some(expected));
    }
    // With ignore-undefined-fields, unknown members are left out, and known ones are checked.
    let mapping = RowMapping { ignores_unknown_columns: true, ..RowMapping::default() };
    let document_type = document_type(&[("f", person())]);
    let ignoring = |members: &[(&str, ArrowType)]| {
        mapped_refusal(Field::new("f", structure(members), true), &document_type, &mapping)
    };
    assert_eq!(ignoring(&[("zip", ArrowType::Date32), ("name", ArrowType::Utf8)]), None);
    let refused = ignoring(&[("zip", ArrowType::Utf8), ("year", ArrowType::Date32)]).expect("it is refused");
    assert!(refused.contains("the member 'year' is Date32"), "{refused}");
}

#[test]
fn ids_of_other_types_are_refused_with_the_cure() {
    let document_type = document_type(&[]);
    for arrow in [ArrowType::Binary, ArrowType::FixedSizeBinary(16), ArrowType::Float64, ArrowType::Null] {
        let mapping = RowMapping { id: Some("f".to_owned()), ..RowMapping::default() };
        let refused = mapped_refusal(Field::new("f", arrow.clone(), true), &document_type, &mapping);
        let expected =
            format!("column 'f' is {arrow}, and the id is a string or an integer; cast it to one of them");
        assert_eq!(refused, Some(expected));
    }
}

#[test]
fn the_column_of_ids_has_another_name_than_all_fields() {
    for (names, expected) in [
        (&["text"][..], "id"),
        (&["documentid"][..], "id"),
        (&["id"][..], "documentid"),
        (&["id", "documentid", "documentid_"][..], "documentid__"),
    ] {
        let fields: Vec<(&str, DataType)> = names.iter().map(|name| (*name, DataType::String)).collect();
        let document_type = document_type(&fields);
        let columns = TableColumns::new(&document_type, |_| true).expect("columns");
        assert_eq!(columns.schema().field(0).name(), expected);
        let table = TableWriter::new(columns).and_then(TableWriter::finish).expect("a table");
        let reader =
            TableReader::new(&table[..], &RowMapping::default(), BOUNDS, |_| Ok::<_, Error>(&document_type));
        assert_eq!(reader.err(), None, "{names:?}");
    }
}

#[test]
fn columns_of_one_name_are_refused() {
    let columns = ["id", "f", "f", "g"].map(|name| Field::new(name, ArrowType::Utf8, true));
    let schema = Schema::new(columns.to_vec());
    let document_type = document_type(&[("f", DataType::String)]);
    assert_eq!(
        schema_refusal(&schema, &document_type, &RowMapping::default()).as_deref(),
        Some(
            "there are two columns 'f'; leave out one of them. column 'g' is not a field of note; leave it out, or rename it"
        )
    );
}
