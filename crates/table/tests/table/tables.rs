//! Documents as tables and back, and tables that do not fit.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, MapBuilder, StringBuilder};
use arrow_array::types::{Float32Type, Int32Type, Int64Type, UInt16Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, FixedSizeListArray, Float32Array, Int64Array, ListArray,
    PrimitiveArray, RecordBatch, StringArray, StringViewArray, StructArray, TimestampMillisecondArray,
    TimestampSecondArray, UInt64Array,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType as ArrowType, Field, Schema};
use millrace_document::json::{self, ParseOptions};
use millrace_document::{
    DataType, Document, DocumentField, DocumentGroup, DocumentId, DocumentType, OperationAction,
    OperationKind, StructType,
};
use millrace_table::{Error, RowMapping, TableBounds, TableColumns, TableReader, TableRow, TableWriter};
use millrace_tensor::TensorType;

pub(super) const BOUNDS: TableBounds = TableBounds { message_bytes: 1 << 20, row_bytes: 1 << 20 };

pub(super) fn document_type(fields: &[(&str, DataType)]) -> DocumentType {
    let field = |(name, data_type): &(&str, DataType)| DocumentField {
        name: (*name).into(),
        data_type: data_type.clone(),
    };
    DocumentType::new("note", fields.iter().map(field).collect())
}

pub(super) fn tensor(spec: &str) -> DataType {
    DataType::Tensor(TensorType::parse(spec).expect("a tensor type"))
}

pub(super) fn array(element: DataType) -> DataType {
    DataType::Array(Box::new(element))
}

pub(super) fn set(element: DataType) -> DataType {
    DataType::WeightedSet { element: Box::new(element), create_if_nonexistent: false, remove_if_zero: false }
}

pub(super) fn map(key: DataType, value: DataType) -> DataType {
    DataType::Map(Box::new(key), Box::new(value))
}

pub(super) fn person() -> DataType {
    let field = |name: &str, data_type| DocumentField { name: name.into(), data_type };
    let fields = vec![
        field("name", DataType::String),
        field("year", DataType::Int),
        field("tags", array(DataType::String)),
        field("place", DataType::Position),
    ];
    DataType::Struct(Arc::new(StructType { name: "person".to_owned(), fields }))
}

/// A field of each kind, with values as JSON: an ordinary one, and one at an edge.
pub(super) fn kinds() -> Vec<(&'static str, DataType, [&'static str; 2])> {
    vec![
        ("bool", DataType::Bool, ["true", "false"]),
        ("byte", DataType::Byte, ["7", "-128"]),
        ("int", DataType::Int, ["7", "-2147483648"]),
        ("long", DataType::Long, ["7", "9223372036854775807"]),
        ("half", DataType::Float16, ["0.5", "65504.0"]),
        ("float", DataType::Float, ["0.1", "\"-Infinity\""]),
        ("double", DataType::Double, ["0.1", "1e300"]),
        ("text", DataType::String, ["\"two\\nlines\"", "\"🙂\\u0001\""]),
        ("uri", DataType::Uri, ["\"http://a/b\"", "\"x\""]),
        ("predicate", DataType::Predicate, ["\"a in [b]\"", "\"true\""]),
        ("reference", DataType::Reference("note".to_owned()), ["\"id:n:note::1\"", "\"id:n:note:g=x:1\""]),
        ("raw", DataType::Raw, ["\"AAEC\"", "\"/w==\""]),
        (
            "position",
            DataType::Position,
            [r#"{"lat":63.4,"lng":10.4}"#, r#"{"lat":-2147.483648,"lng":2147.483647}"#],
        ),
        ("array", array(DataType::Int), ["[1,2,3]", "[-1]"]),
        ("nested", array(array(DataType::String)), [r#"[["a"],[],["b","c"]]"#, r#"[[""]]"#]),
        ("set", set(DataType::String), [r#"{"a":1,"b":-2}"#, r#"{"":0}"#]),
        ("numbers", set(DataType::Long), [r#"{"7":1}"#, r#"{"-7":2147483647}"#]),
        ("map", map(DataType::String, DataType::Int), [r#"{"a":1,"b":2}"#, r#"{"":0}"#]),
        ("maps", map(DataType::Int, array(DataType::Float)), [r#"{"1":[0.5],"2":[]}"#, r#"{"-1":[1.0]}"#]),
        (
            "people",
            array(person()),
            [
                r#"[{"name":"Ada","year":1815,"tags":["x","y"],"place":{"lat":51.5,"lng":-0.1}},{"year":1}]"#,
                "[{}]",
            ],
        ),
        ("person", person(), [r#"{"name":"Ada"}"#, r#"{"tags":["x"]}"#]),
        ("dense", tensor("tensor<float>(x[3])"), ["[1,2,3]", r#"[0.1,"NaN","-Infinity"]"#]),
        ("matrix", tensor("tensor<bfloat16>(x[2],y[2])"), ["[1,2,3,4]", "[0.5,-0.5,256,0]"]),
        ("bytes", tensor("tensor<int8>(x[2])"), ["[1,-1]", "[127,-128]"]),
        ("doubles", tensor("tensor<double>(x[2])"), ["[0.1,-0.1]", "[1e300,5e-324]"]),
        ("sparse", tensor("tensor<float>(key{})"), [r#"{"a":1,"b":2}"#, r#"{"é":-1}"#]),
        ("chunks", tensor("tensor<bfloat16>(c{},x[2])"), [r#"{"0":[1,2],"1":[3,4]}"#, r#"{"a b":[0,0]}"#]),
        (
            "links",
            tensor("tensor<float>(a{},b{})"),
            [r#"[{"address":{"a":"x","b":"y"},"value":2}]"#, r#"[{"address":{"a":"","b":"y"},"value":0}]"#],
        ),
        (
            "mixed",
            tensor("tensor<float>(a{},value{},x[2])"),
            [
                r#"[{"address":{"a":"x","value":"y"},"values":[2,3]}]"#,
                r#"[{"address":{"a":"1","value":""},"values":[0,1]}]"#,
            ],
        ),
    ]
}

fn parse(document_type: &DocumentType, id: &str, fields: &str) -> Document {
    let json = format!("{{\"put\":\"{id}\",\"fields\":{fields}}}");
    let operation =
        json::FeedReader::new(json.as_bytes()).next().expect("an operation").expect("an operation");
    let parsed =
        json::parse(&operation.json, operation.kind, operation.id, document_type, ParseOptions::default());
    match parsed.unwrap_or_else(|error| panic!("{json}: {error}")).action {
        OperationAction::Put(document) => document,
        OperationAction::Update(_) | OperationAction::Remove(_) => panic!("{json} is a put"),
    }
}

fn rows(
    table: &[u8],
    document_type: &DocumentType,
    mapping: &RowMapping,
) -> Result<Vec<Result<Document, String>>, Error> {
    let reader = TableReader::new(table, mapping, BOUNDS, |_| Ok::<_, Error>(document_type))?;
    let document = |(id, row): (DocumentId, TableRow)| {
        let document = row.document(id.clone())?;
        // Nodes of a cluster exchange rows as JSON.
        let put = row.put_json(&id)?;
        let put = json::parse(&put, OperationKind::Put, id, document_type, ParseOptions::default());
        let put = put.unwrap_or_else(|error| panic!("{document:?} as JSON: {error}"));
        assert_eq!(format!("{:?}", put.action), format!("{:?}", OperationAction::Put(document.clone())));
        Ok::<_, Error>(document)
    };
    reader.map(|row| Ok(row?.row.and_then(document).map_err(|error| error.to_string()))).collect()
}

#[test]
fn a_table_of_every_kind_of_field_comes_back() {
    let kinds = kinds();
    let fields: Vec<(&str, DataType)> =
        kinds.iter().map(|(name, data_type, _)| (*name, data_type.clone())).collect();
    let document_type = document_type(&fields);
    let mut documents = vec![parse(&document_type, "id:n:note:g=x:empty", "{}")];
    for at in 0..2 {
        let all: Vec<String> =
            kinds.iter().map(|(name, _, values)| format!("\"{name}\":{}", values[at])).collect();
        let fields = format!("{{{}}}", all.join(","));
        documents.push(parse(&document_type, &format!("id:n:note:n=7:all{at}"), &fields));
    }
    // Each kind alone, so that others are absent.
    for (name, _, values) in &kinds {
        documents.push(parse(
            &document_type,
            &format!("id:n:note::{name}"),
            &format!("{{\"{name}\":{}}}", values[0]),
        ));
    }
    let columns = TableColumns::new(&document_type, |_| true).expect("columns");
    let mut writer = TableWriter::new(columns).expect("columns");
    let mut table = writer.batch(&documents[..2]).expect("a batch");
    table.extend(writer.batch(&documents[2..]).expect("a batch"));
    table.extend(writer.finish().expect("an end"));
    let read = rows(&table, &document_type, &RowMapping::default()).expect("a table");
    assert_eq!(read.len(), documents.len());
    for (read, written) in read.iter().zip(&documents) {
        // NaN is not equal to itself.
        assert_eq!(format!("{:?}", read.as_ref().expect("a document")), format!("{written:?}"));
    }
    // The written table says what its columns are.
    let schema = writer_schema(&table);
    let again = TableColumns::of_schema(&schema, |_| true).expect("it names its types");
    assert_eq!(again.schema().fields(), schema.fields());
    assert_eq!(again.batch(&documents).expect("rows").num_rows(), documents.len());
    let some = TableColumns::of_schema(&schema, |name| name == "text").expect("it names its types");
    assert_eq!(some.schema().fields().len(), 2);
}

fn writer_schema(table: &[u8]) -> Schema {
    let mut schema = None;
    let document_type = document_type(&[]);
    let mapping = RowMapping { ignores_unknown_columns: true, ..RowMapping::default() };
    let reader = TableReader::new(table, &mapping, BOUNDS, |of: &Schema| {
        schema = Some(of.clone());
        Ok::<_, Error>(&document_type)
    });
    assert!(reader.is_ok());
    schema.expect("it was shown")
}

/// A stream of one batch.
fn table(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).expect("a schema");
    writer.write(&batch).expect("a batch");
    writer.into_inner().expect("an end")
}

pub(super) fn ids() -> (&'static str, ArrayRef) {
    ("id", Arc::new(StringArray::from(vec!["1"])))
}

/// Fields of the first row as JSON, or the reason why there are none.
pub(super) fn read(columns: Vec<(&str, ArrayRef)>, document_type: &DocumentType) -> String {
    let table = table(columns);
    let reader =
        TableReader::new(&table[..], &RowMapping::default(), BOUNDS, |_| Ok::<_, Error>(document_type));
    let row = reader.map(|mut reader| reader.next().expect("a row").expect("a row").row);
    match row.map(|row| row.and_then(|(id, row)| row.put_json(&id))) {
        Err(error) => format!("refused: {error}"),
        Ok(Err(error)) => format!("row: {error}"),
        Ok(Ok(json)) => {
            let text = String::from_utf8(json).expect("JSON is text");
            text.split_once("\"fields\":").expect("it has fields").1.trim_end_matches('}').to_owned()
        }
    }
}

#[test]
fn columns_of_other_programs_are_taken_where_nothing_is_lost() {
    let list = |values: Vec<Option<Vec<Option<i32>>>>| -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(values))
    };
    let vector = |values: Vec<Option<f32>>, size| -> ArrayRef {
        Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(vec![Some(values)], size))
    };
    let ragged = |values: Vec<f32>| -> ArrayRef {
        let values = values.into_iter().map(Some).collect::<Vec<_>>();
        Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(vec![Some(values)]))
    };
    let words: DictionaryArray<Int32Type> = vec![Some("red"), Some("blue")].into_iter().collect();
    let longs = || Arc::new(Int64Array::from(vec![300])) as ArrayRef;
    let bits: PrimitiveArray<UInt16Type> = vec![0x3F80, 0xBF80].into();
    let bits = FixedSizeListArray::new(
        Arc::new(Field::new("item", ArrowType::UInt16, true)),
        2,
        Arc::new(bits),
        None,
    );
    let blocks = {
        let inner = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(
            vec![Some(vec![Some(1.0), Some(2.0)]), Some(vec![Some(3.0), Some(4.0)])],
            2,
        );
        let field = Field::new("item", inner.data_type().clone(), true);
        ListArray::new(Arc::new(field), arrow_buffer::OffsetBuffer::from_lengths([2]), Arc::new(inner), None)
    };
    let place = |lat: &str, lng: &str| -> ArrayRef {
        let number = |number: f32| Arc::new(Float32Array::from(vec![number])) as ArrayRef;
        let field = |name: &str| Arc::new(Field::new(name, ArrowType::Float32, true));
        Arc::new(StructArray::from(vec![(field(lat), number(0.5)), (field(lng), number(-0.25))]))
    };
    let text = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let numbers = |keys: &[&str], numbers: &[i32]| -> ArrayRef {
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        keys.iter().for_each(|key| map.keys().append_value(key));
        numbers.iter().for_each(|number| map.values().append_value(*number));
        map.append(true).expect("a key for each value");
        Arc::new(map.finish())
    };
    let cases: Vec<(ArrayRef, DataType, &str)> = vec![
        (text(""), DataType::String, "{"),
        (text("a in [b]"), DataType::Predicate, r#""a in [b]""#),
        (
            text("a in ["),
            DataType::Predicate,
            "row: column 'f': 'a in [' is not a predicate: expected a value, found the end (character 7); write for example: gender in [Female]",
        ),
        (text("id:n:other::1"), DataType::Reference("other".to_owned()), r#""id:n:other::1""#),
        (
            text("id:n:note::1"),
            DataType::Reference("other".to_owned()),
            "row: column 'f': 'id:n:note::1' is not a reference<other>, for example \"id:ns:other::name\"",
        ),
        (
            text("here"),
            DataType::Position,
            "row: column 'f': 'here' is not a position, for example {\"lat\": 37.4, \"lng\": -122.0}",
        ),
        (Arc::new(Float32Array::from(vec![0.1])), DataType::Float16, "0.099975586"),
        // The last value of a key holds, as in JSON.
        (numbers(&["b", "a", "b"], &[1, 2, 3]), set(DataType::String), r#"{"a":2,"b":3"#),
        (
            numbers(&["b", "a", "b"], &[1, 2, 3]),
            DataType::Map(Box::new(DataType::String), Box::new(DataType::Int)),
            r#"{"a":2,"b":3"#,
        ),
        (numbers(&["b", "a", "b"], &[1, 2, 3]), tensor("tensor<float>(c{})"), r#"{"b":3.0,"a":2.0"#),
        (numbers(&[], &[]), set(DataType::String), "{"),
        (vector(vec![Some(1e39_f64 as f32)], 1), tensor("tensor<bfloat16>(x[1])"), r#""7F80""#),
        (
            vector(vec![Some(1.0), Some(f32::MAX)], 2),
            tensor("tensor<bfloat16>(x[2])"),
            "row: column 'f': 3.4028234663852886e38 is out of range for tensor<bfloat16>(x[2])",
        ),
        (list(vec![Some(vec![Some(1), Some(200)])]), tensor("tensor<int8>(x[2])"), r#""01C8""#),
        (longs(), DataType::Int, "300"),
        (longs(), DataType::Double, "300.0"),
        (longs(), DataType::Byte, "row: column 'f': 300 is out of range for byte"),
        (
            longs(),
            DataType::String,
            "refused: column 'f' is Int64, and the field is string; cast it to string",
        ),
        (
            Arc::new(UInt64Array::from(vec![u64::MAX])),
            DataType::Long,
            "row: column 'f': 18446744073709551615 is out of range for long",
        ),
        (
            Arc::new(Float32Array::from(vec![1.5])),
            DataType::Int,
            "refused: column 'f' is Float32, and the field is int; cast it to an integer type, or for a long timestamp[s]",
        ),
        (Arc::new(Float32Array::from(vec![1.5])), DataType::Double, "1.5"),
        (
            Arc::new(arrow_array::Float64Array::from(vec![1e300])),
            DataType::Float,
            "row: column 'f': 1e300 is beyond the range of a float",
        ),
        (Arc::new(BooleanArray::from(vec![true])), DataType::Bool, "true"),
        (
            Arc::new(BooleanArray::from(vec![true])),
            DataType::Int,
            "refused: column 'f' is Boolean, and the field is int; cast it to an integer type, or for a long timestamp[s]",
        ),
        (Arc::new(StringViewArray::from(vec!["a\"b"])), DataType::String, r#""a\"b""#),
        (Arc::new(words.slice(1, 1)), DataType::String, r#""blue""#),
        (Arc::new(StringArray::from(vec!["N63.4;E10.4"])), DataType::Position, r#"{"lat":63.4,"lng":10.4"#),
        (place("lat", "lng"), DataType::Position, r#"{"lat":0.5,"lng":-0.25"#),
        (place("Longitude", "Latitude"), DataType::Position, r#"{"lat":-0.25,"lng":0.5"#),
        (
            place("x", "y"),
            DataType::Position,
            "refused: column 'f' is Struct(\"x\": Float32, \"y\": Float32), and the field is position; cast it to a struct of lat and lng in degrees, or string",
        ),
        (Arc::new(TimestampSecondArray::from(vec![1_700_000_000])), DataType::Long, "1700000000"),
        (
            Arc::new(TimestampMillisecondArray::from(vec![1])),
            DataType::Long,
            "refused: column 'f' is Timestamp(ms), and the field is long; cast it to an integer type, or for a long timestamp[s]",
        ),
        (list(vec![Some(vec![Some(1), Some(2)])]), array(DataType::Long), "[1,2]"),
        (list(vec![None]), array(DataType::Long), "{"),
        (
            list(vec![Some(vec![Some(1)])]),
            set(DataType::Int),
            "refused: column 'f' is List(Int32), and the field is weightedset<int>; cast it to a map to integer weights whose keys are an integer type, or for a long timestamp[s]",
        ),
        (list(vec![Some(vec![Some(1), Some(2)])]), tensor("tensor<float>(x[2])"), r#""3F80000040000000""#),
        (
            list(vec![Some(vec![Some(1)])]),
            tensor("tensor<float>(x[2])"),
            "row: column 'f': 1 cells; tensor<float>(x[2]) has 2",
        ),
        (vector(vec![Some(0.5), Some(1.0)], 2), tensor("tensor<bfloat16>(x[2])"), r#""3F003F80""#),
        (
            vector(vec![Some(0.5), None], 2),
            tensor("tensor<float>(x[2])"),
            "row: column 'f': a cell of the tensor is null",
        ),
        (
            vector(vec![Some(0.5), Some(1.0)], 2),
            tensor("tensor<float>(x[3])"),
            "refused: column 'f' is FixedSizeList(2 x Float32), and the field is tensor<float>(x[3]); cast it to a list of 3 numbers",
        ),
        (
            vector(vec![Some(0.5), Some(1.0)], 2),
            tensor("tensor<int8>(x[2])"),
            "row: column 'f': 0.5 is out of range for tensor<int8>(x[2])",
        ),
        (ragged(vec![1.0, 2.0]), tensor("tensor<float>(c{})"), r#"{"0":1.0,"1":2.0"#),
        (Arc::new(bits), tensor("tensor<bfloat16>(x[2])"), r#""3F80BF80""#),
        (
            Arc::new(blocks),
            tensor("tensor<float>(c{},x[2])"),
            r#"{"0":"3F80000040000000","1":"4040000040800000""#,
        ),
        (
            longs(),
            tensor("tensor<float>(a{},b{})"),
            "refused: column 'f' is Int64, and the field is tensor<float>(a{},b{}); cast it to a list of structs with the labels a, b and a number as value",
        ),
        (Arc::new(arrow_array::NullArray::new(1)), DataType::Int, "{"),
    ];
    for (column, data_type, expected) in cases {
        let arrow = column.data_type().clone();
        let document_type = document_type(&[("f", data_type.clone())]);
        let text = read(vec![ids(), ("f", column)], &document_type);
        let value = text.strip_prefix("{\"f\":").unwrap_or(&text);
        assert_eq!(value, expected, "{arrow} as {data_type}");
    }
}

#[test]
fn ids_come_from_columns_and_parameters() {
    let document_type = document_type(&[("user", DataType::String)]);
    let strings = |values: &[Option<&str>]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    let table = table(vec![
        ("id", strings(&[Some("a"), Some("id:m:note:g=y:b"), None, Some("id:m:other::c"), Some("")])),
        ("user", strings(&[Some("ann"), Some("bob"), Some("x"), Some("x"), None])),
        ("number", Arc::new(PrimitiveArray::<Int64Type>::from(vec![1, 2, 3, 4, 5]))),
    ]);
    let check = |mapping: &RowMapping, expected: &str| {
        let text = match rows(&table, &document_type, mapping) {
            Err(error) => error.to_string(),
            Ok(rows) => {
                let row = |row: Result<Document, String>| {
                    row.map_or_else(|error| error, |document| document.id.to_string())
                };
                rows.into_iter().map(row).collect::<Vec<_>>().join("\n")
            }
        };
        assert_eq!(text, expected, "{mapping:?}");
    };
    let some = |text: &str| Some(text.to_owned());
    check(&RowMapping::default(), "column 'number' is not a field of note; leave it out, or rename it");
    let all = RowMapping { ignores_unknown_columns: true, ..RowMapping::default() };
    check(
        &RowMapping { group_column: some("user"), namespace: some("n"), ..all.clone() },
        "id:n:note:g=ann:a\nid:m:note:g=y:b\nthe row has no id: its cell is null\n\
         id:m:other::c is a document of another type than note\nthe row has no group: its cell is null or empty",
    );
    check(
        &RowMapping { id: some("number"), group: Some(DocumentGroup::Name("z".to_owned())), ..all.clone() },
        "id:note:note:g=z:1\nid:note:note:g=z:2\nid:note:note:g=z:3\nid:note:note:g=z:4\nid:note:note:g=z:5",
    );
    check(
        &RowMapping { id: some("key"), ..all.clone() },
        "the column 'key' for the id is missing; name another by the parameter id: the table has id, user, number",
    );
    check(
        &RowMapping { group_column: some("user"), group: Some(DocumentGroup::Name("z".to_owned())), ..all },
        "group names a column with the groups, and groupname one group for all rows: leave out one of them",
    );
}

#[test]
fn streams_that_are_none_are_refused() {
    let document_type = document_type(&[]);
    let whole = table(vec![ids()]);
    let check = |bytes: &[u8], expected: &str| {
        let outcome = rows(bytes, &document_type, &RowMapping::default());
        let text =
            outcome.map(|rows| format!("{} rows", rows.len())).unwrap_or_else(|error| error.to_string());
        assert_eq!(text, expected, "{} bytes", bytes.len());
    };
    check(&whole, "1 rows");
    // The end of the stream may be that of the body.
    check(&whole[..whole.len() - 8], "1 rows");
    check(b"", "the body is not an Arrow stream: it is empty");
    check(
        b"ARROW1\0\0",
        "the body is not an Arrow stream: it is the file form of Arrow (Feather); send the stream form, as pyarrow.ipc.new_stream writes it",
    );
    check(&whole[..5], "the body is not an Arrow stream: it ends inside a message");
    check(&[&whole[..], b"x"].concat(), "the body is not an Arrow stream: there are bytes after its end");
    check(
        &[0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0x7F],
        "a message of the Arrow stream has 2130706432 bytes, more than 1048576; write smaller record batches, as by \
         write_table(table, max_chunksize=1000)",
    );
    // Cut anywhere, damaged anywhere: an error or a row, and no panic.
    for at in 0..whole.len() {
        let _ = rows(&whole[..at], &document_type, &RowMapping::default());
        for flip in [0x01, 0x80, 0xFF] {
            let mut damaged = whole.clone();
            damaged[at] ^= flip;
            let _ = rows(&damaged, &document_type, &RowMapping::default());
        }
    }
}

#[test]
fn a_row_takes_bounded_memory() {
    let document_type = document_type(&[("f", array(DataType::Byte))]);
    let items: Vec<Option<i32>> = vec![Some(1); 30_000];
    let column: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(items)]));
    assert_eq!(
        read(vec![ids(), ("f", column)], &document_type),
        "row: column 'f': the row takes more than 1048576 bytes in memory"
    );
}

#[test]
fn a_column_has_bounded_parts() {
    // Each struct has ten of the next one.
    let mut data_type = DataType::Int;
    for _ in 0..8 {
        let field =
            |number: usize| DocumentField { name: format!("m{number}").into(), data_type: data_type.clone() };
        let members = StructType { name: "s".to_owned(), fields: (0..10).map(field).collect() };
        data_type = DataType::Struct(Arc::new(members));
    }
    let refused = TableColumns::new(&document_type(&[("f", data_type)]), |_| true);
    assert_eq!(
        refused.map(drop),
        Err(Error::Columns(
            "field 'f' has more than 10000 parts, too many for a column; leave it out, or take JSON lines"
                .to_owned()
        ))
    );
}

/// Limits of documents and quotas of groups count contents: a number has its width, in an array too.
#[test]
fn the_content_of_a_row_has_the_width_of_its_numbers_and_the_length_of_its_texts() {
    let kinds = kinds();
    let fields: Vec<(&str, DataType)> =
        kinds.iter().map(|(name, data_type, _)| (*name, data_type.clone())).collect();
    let document_type = document_type(&fields);
    let columns = || TableColumns::new(&document_type, |_| true).expect("columns");
    let size = |(name, _, values): &(&str, DataType, [&str; 2])| {
        let fields = format!("{{\"{name}\":{}}}", values[0]);
        let document = parse(&document_type, "id:n:note::1", &fields);
        let mut writer = TableWriter::new(columns()).expect("columns");
        let mut table = writer.batch(&[document]).expect("a batch");
        table.extend(writer.finish().expect("an end"));
        let mut reader =
            TableReader::new(&table[..], &RowMapping::default(), BOUNDS, |_| Ok::<_, Error>(&document_type))
                .expect("a table");
        let (_, row) = reader.next().expect("a row").expect("a row").row.expect("a row");
        assert!(row.content_bytes() < row.memory_bytes(), "{name}");
        format!("{name} {}", row.content_bytes())
    };
    let sizes: Vec<String> = kinds.iter().map(size).collect();
    let expected = "bool 1, byte 1, int 4, long 8, half 2, float 4, double 8, text 9, uri 10, \
         predicate 8, reference 12, raw 3, position 8, array 12, nested 3, set 10, \
         numbers 12, map 10, maps 12, people 21, person 3, dense 12, matrix 8, bytes 2, \
         doubles 16, sparse 10, chunks 10, links 6, mixed 10";
    assert_eq!(sizes.join(", "), expected);
}
