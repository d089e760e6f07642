//! Operations as JSON in, documents as JSON out.

use std::sync::Arc;

use millrace_document::json::{self, FeedReader, ParseOptions};
use millrace_document::{
    DataType, Document, DocumentField, DocumentId, DocumentOperation, DocumentType, DocumentValue, FieldSet,
    OperationAction, OperationKind, StructType, wire,
};
use millrace_tensor::{Tensor, TensorCells, TensorType};
use proptest::prelude::*;

fn field(name: &str, data_type: DataType) -> DocumentField {
    DocumentField { name: name.into(), data_type }
}

fn array(element: DataType) -> DataType {
    DataType::Array(Box::new(element))
}

fn weighted_set(element: DataType, create: bool, remove: bool) -> DataType {
    DataType::WeightedSet {
        element: Box::new(element),
        create_if_nonexistent: create,
        remove_if_zero: remove,
    }
}

fn tensor(spec: &str) -> DataType {
    DataType::Tensor(TensorType::parse(spec).unwrap())
}

/// A type with a field of every data type.
fn music() -> DocumentType {
    let person = DataType::Struct(Arc::new(StructType {
        name: "person".to_owned(),
        fields: vec![field("first", DataType::String), field("age", DataType::Int)],
    }));
    DocumentType::new(
        "music",
        vec![
            field("title", DataType::String),
            field("year", DataType::Int),
            field("plays", DataType::Long),
            field("rank", DataType::Byte),
            field("live", DataType::Bool),
            field("score", DataType::Float),
            field("half", DataType::Float16),
            field("weight", DataType::Double),
            field("url", DataType::Uri),
            field("raw", DataType::Raw),
            field("who", DataType::Predicate),
            field("place", DataType::Position),
            field("parent", DataType::Reference("artist".to_owned())),
            field("tags", array(DataType::String)),
            field("matrix", array(array(DataType::Int))),
            field("people", array(person.clone())),
            field("lead", person.clone()),
            field("tracks", weighted_set(DataType::String, true, true)),
            field("codes", weighted_set(DataType::Int, false, false)),
            field("names", DataType::Map(Box::new(DataType::Int), Box::new(DataType::String))),
            field("contacts", DataType::Map(Box::new(DataType::String), Box::new(person))),
            field("dense", tensor("tensor<float>(x[3])")),
            field("sparse", tensor("tensor(x{})")),
            field("mixed", tensor("tensor<bfloat16>(x{},y[2])")),
        ],
    )
    .with_made_fields(["embedding".into()])
}

fn id() -> DocumentId {
    DocumentId::parse("id:mine:music:g=me:1").unwrap()
}

fn parse(kind: OperationKind, body: &str) -> Result<DocumentOperation, String> {
    json::parse(body.as_bytes(), kind, id(), &music(), ParseOptions::default())
        .map_err(|error| error.to_string())
}

fn render(document: &Document) -> String {
    serde_json::to_string(&json::fields(document, Some(&music()), &FieldSet::Document, Default::default()))
        .unwrap()
}

/// Reads the fields `given` of a put, and expects them to be written as `expected`; or, after `!`, an error
/// that contains the text.
fn check(given: &str, expected: &str) {
    match (parse(OperationKind::Put, &format!(r#"{{"fields": {given}}}"#)), expected.strip_prefix('!')) {
        (Ok(DocumentOperation { action: OperationAction::Put(document), .. }), None) => {
            assert_eq!(render(&document), expected, "from {given}");
            let row = wire::decode_fields(id(), &wire::encode_fields(&document)).unwrap();
            assert_eq!(row, document, "through the wire form");
        }
        (Err(error), Some(expected)) => assert!(error.contains(expected), "{given}: {error}"),
        (outcome, _) => panic!("{given}: {outcome:?}"),
    }
}

#[test]
fn every_data_type_is_read_and_written() {
    let same = [
        r#"{"title":"Best \"of\" Bob é 😀"}"#,
        r#"{"year":-42,"plays":1742837807000,"rank":-128,"live":false}"#,
        r#"{"score":123.4567,"half":0.5,"weight":1e+300}"#,
        r#"{"url":"https://x.y/?a=b","raw":"AAEC/w==","who":"gender in [Female]"}"#,
        r#"{"place":{"lat":37.4181488,"lng":-122.025616}}"#.replace("4181488", "418148").leak(),
        r#"{"parent":"id:mine:artist::bob"}"#,
        r#"{"tags":["a","b","a"],"matrix":[[1,2],[],[3]]}"#,
        r#"{"people":[{"first":"Chris","age":3},{"first":"Jim"}],"lead":{"age":7}}"#,
        r#"{"tracks":{"item 1":143,"b":-6},"codes":{"123":2}}"#,
        r#"{"names":{"123":"foo","-4":"bar"},"contacts":{"a":{"first":"x"}}}"#,
        r#"{"dense":{"type":"tensor<float>(x[3])","values":[1.0,2.5,-3.0]}}"#,
        r#"{"sparse":{"type":"tensor(x{})","cells":{"a":1.0}}}"#,
        r#"{"mixed":{"type":"tensor<bfloat16>(x{},y[2])","blocks":{"a":[1.0,2.0]}}}"#,
    ];
    same.iter().for_each(|fields| check(fields, fields));
    check(
        r#"{"names": [{"key": 5, "value": "x"}, {"value": "y", "key": "6"}]}"#,
        r#"{"names":{"5":"x","6":"y"}}"#,
    );
    check(r#"{"place": "N37.5;W122"}"#, r#"{"place":{"lat":37.5,"lng":-122.0}}"#);
    check(r#"{"place": "63N30;10.25W"}"#, r#"{"place":{"lat":63.5,"lng":-10.25}}"#);
    check(r#"{"place": "N41o40'48;W72°30"}"#, r#"{"place":{"lat":41.68,"lng":-72.5}}"#);
    check(r#"{"place": "41o30N;S"}"#, "!is not a position");
    check(r#"{"place": "10E0'36;0S15"}"#, r#"{"place":{"lat":-0.25,"lng":10.01}}"#);
    check(r#"{"place": {"x": -122000000, "y": 37500000}}"#, r#"{"place":{"lat":37.5,"lng":-122.0}}"#);
    check(
        r#"{"year": "42", "score": 3, "plays": 5.0, "title": 7}"#,
        r#"{"year":42,"score":3.0,"plays":5,"title":"7"}"#,
    );
    check(r#"{"score": "Infinity", "weight": "-Infinity"}"#, r#"{"score":"Infinity","weight":"-Infinity"}"#);
    check(
        r#"{"dense": [1, 2, 3], "sparse": {"b": 2}}"#,
        concat!(
            r#"{"dense":{"type":"tensor<float>(x[3])","values":[1.0,2.0,3.0]},"#,
            r#""sparse":{"type":"tensor(x{})","cells":{"b":2.0}}}"#
        ),
    );
    check(r#"{"year": 1, "year": 2, "names": {"1": "a", "01": "b"}}"#, r#"{"year":2,"names":{"1":"b"}}"#);
}

/// Forms beside the one that is written, by the type of the field.
#[test]
fn values_have_several_forms() {
    let one = |field: &str, forms: &[&str], expected: &str| {
        for form in forms {
            check(&format!(r#"{{"{field}":{form}}}"#), &format!(r#"{{"{field}":{expected}}}"#));
        }
    };
    one("year", &["42", "42.0", "\"42\"", "\" +42 \""], "42");
    one("plays", &["-9007199254740993", "\"-9007199254740993\""], "-9007199254740993");
    one("rank", &["7", "7.0", "\"7\""], "7");
    one("score", &["1.5", "\"1.5\"", "15e-1"], "1.5");
    one("half", &["2", "\"2\"", "2.0"], "2.0");
    one("weight", &["-0.25", "\"-.25\"", "\"-25e-2\""], "-0.25");
    one("live", &["true", "\"true\"", "\"TRUE\"", "\"True\""], "true");
    one("title", &["true", "\"true\""], "\"true\"");
    one("title", &["7", "\"7\""], "\"7\"");
    one("url", &["7", "\"7\""], "\"7\"");
    one("raw", &["\"AAEC/w==\"", "\"AAEC/w\"", "\"AAEC\\r\\n/w==\\n\"", "\" AAEC /w= \""], "\"AAEC/w==\"");
    let place = [
        r#"{"lat": 37.5, "lng": -122}"#,
        r#"{"latitude": 37.5, "longitude": -122}"#,
        r#"{"lng": "-122.0", "lat": "37.5"}"#,
        r#"{"x": -122000000, "y": 37500000}"#,
        r#"{"x": -122000000.4, "y": "37499999.6"}"#,
        r#"{"lat": 37.5, "x": -122000000}"#,
        r#""N37.5;W122""#,
        r#""37.5N;122W""#,
        r#""W122;N37.5""#,
        r#""N37.5 W122""#,
        r#""N37o30;W122o0'0""#,
        r#""37o30N;122W""#,
        r#""37N30'0;122W0""#,
        r#""N37°30'0;W122""#,
        r#""-122000000;37500000""#,
    ];
    one("place", &place, r#"{"lat":37.5,"lng":-122.0}"#);
    // Objects are rounded to millionths, texts are cut off.
    one("place", &[r#"{"lat": 31.5113888, "lng": -62.9383336}"#], r#"{"lat":31.511389,"lng":-62.938334}"#);
    one(
        "place",
        &["\"N31o30'41;W62o56'18\"", "\"N31.5113888;W62.938333\""],
        r#"{"lat":31.511388,"lng":-62.938333}"#,
    );
    one("tracks", &[r#"{"a": 5}"#, r#"{"a": "5"}"#, r#"{"a": 5.0}"#], r#"{"a":5}"#);
    one(
        "names",
        &[r#"{"5": "x"}"#, r#"[{"key": 5, "value": "x"}]"#, r#"[{"value": "x", "key": "5"}]"#],
        r#"{"5":"x"}"#,
    );
    let dense = [
        "[1, 2, 3]",
        "[\"1\", 2.0, \"3\"]",
        r#"{"values": [1, 2, 3]}"#,
        r#"{"type": "tensor<float>(x[3])", "values": [1, 2, 3]}"#,
        r#"{"x": [1, 2, 3]}"#,
        r#"{"values": "3F8000004000000040400000"}"#,
        "\"3f8000004000000040400000\"",
        r#"{"cells": [{"address": {"x": "0"}, "value": 1}, {"address": {"x": 1}, "value": 2}, {"address": {"x": "2"}, "value": 3}]}"#,
        r#"[{"address": {"x": "0"}, "value": 1}, {"address": {"x": "1"}, "value": "2"}, {"value": 3, "address": {"x": "2"}}]"#,
        r#"{"cells": {"0": 1, "1": 2, "2": "3"}}"#,
    ];
    one("dense", &dense, r#"{"type":"tensor<float>(x[3])","values":[1.0,2.0,3.0]}"#);
    let sparse = [
        r#"{"a": 1, "b": 2}"#,
        r#"{"cells": {"a": 1, "b": "2"}}"#,
        r#"{"cells": [{"address": {"x": "a"}, "value": 1}, {"address": {"x": "b"}, "value": 2}]}"#,
        r#"[{"address": {"x": "a"}, "value": 1}, {"address": {"x": "b"}, "value": 2}]"#,
    ];
    one("sparse", &sparse, r#"{"type":"tensor(x{})","cells":{"a":1.0,"b":2.0}}"#);
    one("sparse", &[r#"{"cells": 1}"#], r#"{"type":"tensor(x{})","cells":{"cells":1.0}}"#);
    one("sparse", &[r#"{"values": 1}"#], r#"{"type":"tensor(x{})","cells":{"values":1.0}}"#);
    let mixed = [
        r#"{"a": [1, 2]}"#,
        r#"{"a": ["1", 2]}"#,
        r#"{"a": "3F804000"}"#,
        r#"{"blocks": {"a": [1, 2]}}"#,
        r#"{"blocks": [{"address": {"x": "a"}, "values": [1, 2]}]}"#,
        r#"{"cells": [{"address": {"x": "a", "y": "0"}, "value": 1}, {"address": {"x": "a", "y": 1}, "value": 2}]}"#,
        r#"[{"address": {"x": "a", "y": "0"}, "value": 1}, {"address": {"x": "a", "y": "1"}, "value": 2}]"#,
    ];
    one("mixed", &mixed, r#"{"type":"tensor<bfloat16>(x{},y[2])","blocks":{"a":[1.0,2.0]}}"#);
}

#[test]
fn what_is_empty_is_absent() {
    check(
        r#"{"title": "", "tags": [], "tracks": {}, "names": {}, "year": null, "raw": "", "lead": {}}"#,
        "{}",
    );
    // Inside of a value, it is a part of it.
    for whole in [r#"{"tags":["","a"]}"#, r#"{"names":{"1":""}}"#, r#"{"lead":{"first":"","age":1}}"#] {
        check(whole, whole);
    }
}

#[test]
fn wrong_values_are_refused_with_place_and_example() {
    check(
        r#"{"year": 2147483648}"#,
        "!field 'year': invalid value: integer `2147483648`, expected int (32 bits), for example 42 (line 1, column ",
    );
    check(r#"{"rank": 128}"#, "!expected byte (-128 to 127)");
    check(r#"{"year": "x"}"#, "!field 'year': 'x' is not an int (32 bits), for example 42");
    check(r#"{"year": 1.5}"#, "!expected int");
    check(r#"{"score": 1e39}"#, "!expected float");
    check(r#"{"live": 1}"#, "!invalid type: integer `1`, expected bool, for example true");
    check(r#"{"title": ["a"]}"#, "!invalid type: sequence, expected string");
    check(r#"{"title": {}}"#, "!invalid type: map, expected string");
    check(r#"{"tags": "a"}"#, r#"!expected array<string>, for example ["text"]"#);
    check(r#"{"people": [{"first": "a"}, {"age": "old"}]}"#, "!field 'people[1].age': 'old' is not an int");
    check(r#"{"people": [{"last": "a"}]}"#, "!field 'people[0].last': struct person has no field 'last'");
    check(r#"{"names": {"a": "b"}}"#, "!field 'names{a}': 'a' is not an int");
    check(r#"{"tracks": {"a": 1.5}}"#, "!field 'tracks{a}'");
    check(r#"{"tracks": 5}"#, r#"!for example {"word": 100}"#);
    check(r#"{"codes": 5}"#, r#"!for example {"42": 100}"#);
    check(r#"{"place": {"lat": 987.5, "lng": 0}}"#, r#"{"place":{"lat":987.5,"lng":0.0}}"#);
    check(r#"{"place": {"lat": 2148, "lng": 0}}"#, "!expected position");
    check(r#"{"place": "63;10E"}"#, "!is not a position");
    check(r#"{"place": "nowhere"}"#, "!'nowhere' is not a position");
    check(r#"{"place": {"lat": 1, "lng": 2, "z": 3}}"#, "!field 'place': unknown field `z`");
    check(r#"{"names": [{"key": 5}]}"#, "!field 'names[0]': missing field `value`");
    check(r#"{"names": [{"key": 5, "valeu": "x"}]}"#, "!field 'names[0]': unknown field `valeu`");
    check(r#"{"who": 1}"#, "!field 'who': ");
    check(r#"{"title": 123456789012345678901234567890}"#, "!write the text in quotes");
    check(r#"{"parent": "id:mine:music::x"}"#, "!reference<artist>, for example \"id:ns:artist::name\"");
    check(r#"{"raw": "§"}"#, "!expected raw as base64");
    check(
        r#"{"dense": [1, 2]}"#,
        "!field 'dense': tensor value for tensor<float>(x[3]): expected 3 cells, got 2",
    );
    check(
        r#"{"colour": "red"}"#,
        "!Field 'colour' is not defined in document type 'music', which has title, year, plays",
    );
    check(r#"{"embedding": "x"}"#, "!, …: indexing statements make it, so leave it out (line 1, column ");
    check("{\"title\": \"a\",\n \"year\": x}", "!malformed JSON");
    check("{\"title\": \"a\",\n \"year\": x}", "!(line 2, column ");
}

#[test]
fn operations_have_conditions() {
    let operation = parse(
        OperationKind::Put,
        r#"{"put": "id:mine:music::1", "condition": "music.year>1", "create": true, "fields": {}}"#,
    );
    let operation = operation.unwrap();
    assert_eq!((operation.condition.as_deref(), operation.create), (Some("music.year>1"), true));
    let removed = parse(OperationKind::Remove, "").unwrap();
    assert_eq!(removed.action, OperationAction::Remove(id()));
    let removed = parse(OperationKind::Remove, r#"{"remove": "x", "condition": "true"}"#).unwrap();
    assert_eq!(removed.condition.as_deref(), Some("true"));
    let noted = r#"{"note": {"a": [1, {}]}, "fields": {}, "more": null}"#;
    assert_eq!(parse(OperationKind::Put, noted), parse(OperationKind::Put, r#"{"fields":{}}"#));
    for (body, reason) in [
        ("", "malformed JSON"),
        ("{}", "missing field `fields`"),
        ("[]", "expected a put, for example"),
        (r#"{"feilds": {}}"#, "unknown member 'feilds'"),
        (r#"{"fields": {}} x"#, "malformed JSON"),
        (r#"{"fields": {"title": "a"}"#, "malformed JSON"),
    ] {
        let error = parse(OperationKind::Put, body).unwrap_err();
        assert!(error.contains(reason), "{body}: {error}");
    }
}

#[test]
fn unknown_fields_are_skipped_on_request() {
    let options = ParseOptions { ignore_undefined_fields: true, ..ParseOptions::default() };
    let body = br#"{"fields": {"colour": {"deep": [1, {"x": null}]}, "year": 3}}"#;
    let operation = json::parse(body, OperationKind::Put, id(), &music(), options).unwrap();
    assert!(
        matches!(operation.action, OperationAction::Put(document) if render(&document) == r#"{"year":3}"#)
    );
    let body = br#"{"fields": {"colour{x}": {"assign": 1}, "year": {"assign": 3}}}"#;
    let operation = json::parse(body, OperationKind::Update, id(), &music(), options).unwrap();
    assert!(matches!(operation.action, OperationAction::Update(update) if update.fields.len() == 1));
}

/// Applies the update `fields` to a document with the fields `before`, and expects `after`; or, after `!`, an
/// error.
fn check_update(before: &str, fields: &str, after: &str) {
    let put = parse(OperationKind::Put, &format!(r#"{{"fields": {before}}}"#)).unwrap();
    let OperationAction::Put(document) = put.action else { panic!("a put is a put") };
    let outcome = parse(OperationKind::Update, &format!(r#"{{"fields": {fields}}}"#)).and_then(|operation| {
        let OperationAction::Update(update) = operation.action else { panic!("an update is an update") };
        update.apply(Some(document), &music()).map_err(|error| error.to_string())
    });
    match (outcome, after.strip_prefix('!')) {
        (Ok(document), None) => assert_eq!(render(&document), after, "{fields}"),
        (Err(error), Some(after)) => assert!(error.contains(after), "{fields}: {error}"),
        (outcome, _) => panic!("{fields}: {outcome:?}"),
    }
}

#[test]
fn updates_assign_and_clear() {
    check_update(r#"{"title":"a","year":1}"#, r#"{"title":{"assign":"b"}}"#, r#"{"title":"b","year":1}"#);
    check_update(r#"{"title":"a","year":1}"#, r#"{"title":{"assign":null}}"#, r#"{"year":1}"#);
    check_update(r#"{"tags":["a"]}"#, r#"{"tags":{"assign":[]}}"#, "{}");
    check_update(r#"{"title":"a","year":1}"#, r#"{"title":{"assign":""}}"#, r#"{"year":1}"#);
    check_update(r#"{"raw":"aGk="}"#, r#"{"raw":{"assign":""}}"#, "{}");
    check_update(
        r#"{"lead":{"age":1}}"#,
        r#"{"lead.first":{"assign":""}}"#,
        r#"{"lead":{"age":1,"first":""}}"#,
    );
    check_update(
        r#"{"lead":{"age":1}}"#,
        r#"{"lead.first":{"assign":"Bob"}}"#,
        r#"{"lead":{"age":1,"first":"Bob"}}"#,
    );
    check_update("{}", r#"{"lead.first":{"assign":"Bob"}}"#, r#"{"lead":{"first":"Bob"}}"#);
    check_update(
        "{}",
        r#"{"contacts{\"Uncle S\"}.age":{"assign":7}}"#,
        r#"{"contacts":{"Uncle S":{"age":7}}}"#,
    );
    check_update(r#"{"names":{"1":"a"}}"#, r#"{"names{1}":{"remove":0}}"#, "{}");
    check_update(r#"{"tags":["a","b"]}"#, r#"{"tags[1]":{"assign":"c"}}"#, r#"{"tags":["a","c"]}"#);
    check_update(r#"{"tags":["a","b"]}"#, r#"{"tags[2]":{"assign":"c"}}"#, r#"{"tags":["a","b"]}"#);
    check_update(
        r#"{"matrix":[[1],[2,3]]}"#,
        r#"{"matrix[1][0]":{"increment":5}}"#,
        r#"{"matrix":[[1],[7,3]]}"#,
    );
    check_update(
        r#"{"people":[{"age":1}]}"#,
        r#"{"people[0].age":{"assign":2}}"#,
        r#"{"people":[{"age":2}]}"#,
    );
    check_update("{}", r#"{"codes{123}":{"assign":5}}"#, r#"{"codes":{"123":5}}"#);
}

#[test]
fn updates_add_and_remove() {
    check_update(r#"{"tags":["a"]}"#, r#"{"tags":{"add":["b","a"]}}"#, r#"{"tags":["a","b","a"]}"#);
    check_update("{}", r#"{"tags":{"add":["b"]}}"#, r#"{"tags":["b"]}"#);
    check_update(r#"{"tags":["hello","1","x"]}"#, r#"{"tags":{"remove":["hello",1]}}"#, r#"{"tags":["x"]}"#);
    check_update(r#"{"codes":{"1":1}}"#, r#"{"codes":{"add":{"1":5,"2":6}}}"#, r#"{"codes":{"1":5,"2":6}}"#);
    check_update(r#"{"tracks":{"a":1,"b":2}}"#, r#"{"tracks":{"remove":{"a":0}}}"#, r#"{"tracks":{"b":2}}"#);
    check_update(r#"{"tracks":{"a":1,"b":2}}"#, r#"{"tracks":{"remove":["b"]}}"#, r#"{"tracks":{"a":1}}"#);
    check_update(
        r#"{"sparse":{"a":1}}"#,
        r#"{"sparse":{"add":{"b":2},"modify":{"operation":"add","cells":{"a":4}},"remove":{"addresses":[{"x":"z"}]}}}"#,
        r#"{"sparse":{"type":"tensor(x{})","cells":{"a":5.0,"b":2.0}}}"#,
    );
    check_update("{}", r#"{"dense":{"add":[1,2,3]}}"#, "!'add' needs a mapped dimension");
    check_update("{}", r#"{"title":{"add":"x"}}"#, "!'add' does not work on string; use assign");
}

#[test]
fn updates_calculate() {
    check_update(r#"{"year":10}"#, r#"{"year":{"increment":5}}"#, r#"{"year":15}"#);
    check_update(r#"{"year":10}"#, r#"{"year":{"decrement":5}}"#, r#"{"year":5}"#);
    check_update(r#"{"year":10}"#, r#"{"year":{"multiply":1.55}}"#, r#"{"year":15}"#);
    check_update(r#"{"score":1.5}"#, r#"{"score":{"divide":2}}"#, r#"{"score":0.75}"#);
    check_update(
        r#"{"plays":9007199254740993}"#,
        r#"{"plays":{"increment":2}}"#,
        r#"{"plays":9007199254740995}"#,
    );
    check_update(
        r#"{"year":2147483647}"#,
        r#"{"year":{"increment":1}}"#,
        "!field 'year': the result 2147483648 is out of the range of int",
    );
    check_update(r#"{"year":1}"#, r#"{"year":{"divide":0}}"#, "!division by zero");
    check_update(r#"{"title":"a"}"#, r#"{"title":{"increment":1}}"#, "!'increment' does not work on string");
    let track = r#"{"tracks":{"match":{"element":"a","increment":1}}}"#;
    check_update(r#"{"tracks":{"a":5}}"#, track, r#"{"tracks":{"a":6}}"#);
    check_update(r#"{"tracks":{"a":-1}}"#, track, "{}");
    check_update("{}", track, r#"{"tracks":{"a":1}}"#);
    check_update("{}", r#"{"codes":{"match":{"increment":1,"element":3}}}"#, "{}");
    check_update(
        r#"{"matrix":[[1]]}"#,
        r#"{"matrix":{"match":{"element":0,"assign":[2]}}}"#,
        r#"{"matrix":[[2]]}"#,
    );
    check_update(
        r#"{"tags":["a"]}"#,
        r#"{"tags":{"match":{"element":0,"assign":"b"}}}"#,
        r#"{"tags":["b"]}"#,
    );
}

#[test]
fn elements_are_matched_within_elements() {
    check_update(
        r#"{"matrix":[[1],[2,3]]}"#,
        r#"{"matrix":{"match":{"element":1,"match":{"element":0,"increment":5}}}}"#,
        r#"{"matrix":[[1],[7,3]]}"#,
    );
    check_update(
        r#"{"matrix":[[1],[2,3]]}"#,
        r#"{"matrix":{"match":{"match":{"assign":9,"element":"1"},"element":1}}}"#,
        r#"{"matrix":[[1],[2,9]]}"#,
    );
    check_update(r#"{"title":"a"}"#, r#"{"title":{"Assign":"b"}}"#, r#"{"title":"b"}"#);
}

#[test]
fn arithmetic_on_what_is_missing_starts_from_zero() {
    // Every number and every place that a path can lead to; elements of arrays are not created.
    check_update("{}", r#"{"year":{"increment":5}}"#, r#"{"year":5}"#);
    check_update("{}", r#"{"year":{"decrement":5}}"#, r#"{"year":-5}"#);
    check_update("{}", r#"{"year":{"multiply":5}}"#, r#"{"year":0}"#);
    check_update("{}", r#"{"plays":{"divide":5}}"#, r#"{"plays":0}"#);
    check_update("{}", r#"{"score":{"increment":1.5}}"#, r#"{"score":1.5}"#);
    check_update("{}", r#"{"codes{3}":{"increment":1}}"#, r#"{"codes":{"3":1}}"#);
    check_update(r#"{"codes":{"1":7}}"#, r#"{"codes{3}":{"increment":1}}"#, r#"{"codes":{"1":7,"3":1}}"#);
    check_update("{}", r#"{"tracks{a}":{"increment":1}}"#, r#"{"tracks":{"a":1}}"#);
    check_update("{}", r#"{"contacts{x}.age":{"increment":1}}"#, r#"{"contacts":{"x":{"age":1}}}"#);
    check_update(r#"{"people":[{}]}"#, r#"{"people[0].age":{"increment":2}}"#, r#"{"people":[{"age":2}]}"#);
    check_update(r#"{"matrix":[[1]]}"#, r#"{"matrix[0][1]":{"increment":2}}"#, r#"{"matrix":[[1]]}"#);
    check_update("{}", r#"{"matrix[0][1]":{"increment":2}}"#, "{}");
}

#[test]
fn wrong_updates_are_refused() {
    check_update(
        "{}",
        r#"{"title":"b"}"#,
        "!expected an object of update operations, for example {\"assign\": 1}",
    );
    check_update("{}", r#"{"title":{}}"#, "!no update operation");
    check_update("{}", r#"{"title":{"set":1}}"#, "!unknown update operation 'set'");
    check_update("{}", r#"{"tags{x}":{"assign":1}}"#, "!'{' does not lead into array<string>");
    check_update("{}", r#"{"names{é}":{"assign":"1"}}"#, "!'é' is not an int");
    check_update("{}", r#"{"contacts{a}é":{"assign":1}}"#, "!expected '{', '[' or '.'");
    check_update("{}", r#"{"lead.last":{"assign":1}}"#, "!struct person has no field 'last'");
    check_update("{}", r#"{"colour":{"assign":1}}"#, "!Field 'colour' is not defined");
    check_update("{}", r#"{"year":{"assign":"x"}}"#, "!field 'year': 'x' is not an int");
    check_update("{}", r#"{"sparse":{"modify":{"operation":"add"}}}"#, "!missing field `cells`");
    check_update("{}", r#"{"sparse":{"remove":{}}}"#, "!missing field `addresses`");
}

#[test]
fn field_sets_choose_fields() {
    let mut document = Document { id: id(), fields: vec![] };
    document.set(&"title".into(), DocumentValue::String("a".to_owned()));
    document.set(&"made".into(), DocumentValue::Int(1));
    for (field_set, expected) in [
        ("[all]", r#"{"title":"a","made":1}"#),
        ("[document]", r#"{"title":"a"}"#),
        ("music:[document]", r#"{"title":"a"}"#),
        ("[id]", "{}"),
        ("[docid]", "{}"),
        ("[none]", "{}"),
        ("music:made, year", r#"{"made":1}"#),
        ("other:title", "{}"),
    ] {
        let chosen: FieldSet = field_set.parse().unwrap();
        let music = music();
        let json = json::fields(&document, Some(&music), &chosen, Default::default());
        assert_eq!(serde_json::to_string(&json).unwrap(), expected, "{field_set}");
    }
    assert!("title".parse::<FieldSet>().unwrap_err().to_string().contains("[document]"));
}

fn values() -> impl Strategy<Value = Vec<(Arc<str>, DocumentValue)>> {
    let text = "\\PC{1,12}";
    let person = |first: String, age: i32| {
        DocumentValue::Struct(vec![
            ("first".into(), DocumentValue::String(first)),
            ("age".into(), DocumentValue::Int(age)),
        ])
    };
    let scalars = (any::<i32>(), any::<i64>(), any::<i8>(), any::<bool>(), any::<f32>(), any::<f64>(), text);
    let lists = (
        proptest::collection::vec(text, 1..4),
        proptest::collection::btree_map(text, any::<i32>(), 1..4),
        proptest::collection::btree_map(any::<i32>(), text, 1..4),
        proptest::collection::vec((text, any::<i32>()), 1..3),
        proptest::collection::vec(any::<f32>(), 3),
        proptest::collection::vec(any::<u8>(), 1..9),
        (-90_000_000i32..=90_000_000, -180_000_000i32..=180_000_000),
    );
    (scalars, lists).prop_map(move |((year, plays, rank, live, score, weight, title), lists)| {
        let (tags, tracks, names, people, dense, raw, (latitude, longitude)) = lists;
        let dense = TensorType::parse("tensor<float>(x[3])")
            .and_then(|tensor_type| Tensor::new(tensor_type, vec![], TensorCells::Float(dense)));
        let fields: Vec<(&str, DocumentValue)> = vec![
            ("year", DocumentValue::Int(year)),
            ("plays", DocumentValue::Long(plays)),
            ("rank", DocumentValue::Byte(rank)),
            ("live", DocumentValue::Bool(live)),
            ("score", DocumentValue::Float(score)),
            ("weight", DocumentValue::Double(weight)),
            ("title", DocumentValue::String(title)),
            ("tags", DocumentValue::Array(tags.into_iter().map(DocumentValue::String).collect())),
            (
                "tracks",
                DocumentValue::WeightedSet(
                    tracks.into_iter().map(|(k, w)| (DocumentValue::String(k), w)).collect(),
                ),
            ),
            (
                "names",
                DocumentValue::Map(
                    names
                        .into_iter()
                        .map(|(k, v)| (DocumentValue::Int(k), DocumentValue::String(v)))
                        .collect(),
                ),
            ),
            (
                "people",
                DocumentValue::Array(people.into_iter().map(|(first, age)| person(first, age)).collect()),
            ),
            ("dense", DocumentValue::Tensor(dense.unwrap())),
            ("raw", DocumentValue::Raw(raw)),
            ("place", DocumentValue::Position { latitude, longitude }),
        ];
        fields.into_iter().map(|(name, value)| (name.into(), value)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_document_survives_json_and_the_wire(fields in values()) {
        let document = Document { id: id(), fields };
        let json = render(&document);
        let read = parse(OperationKind::Put, &format!(r#"{{"fields":{json}}}"#)).unwrap();
        let OperationAction::Put(read) = read.action else { panic!("a put is a put") };
        prop_assert_eq!(&read, &document, "{}", json);
        prop_assert_eq!(wire::decode_fields(id(), &wire::encode_fields(&document)).unwrap(), document);
    }

    #[test]
    fn no_body_breaks_the_reader(
        pieces in proptest::collection::vec(prop_oneof![
            Just("{"), Just("}"), Just("["), Just("]"), Just(":"), Just(","), Just("\"fields\":{"), Just("\"title\":"),
            Just("\"dense\":"), Just("\"mixed\":"), Just("\"names\":"), Just("\"people\":"), Just("\"place\":"),
            Just("\"assign\":"), Just("\"modify\":"), Just("\"operation\":\"add\""), Just("\"cells\":"), Just("\"match\":"),
            Just("\"address\":"), Just("\"value\":"), Just("\"a\""), Just("1e400"), Just("-1"), Just("null"), Just("\"\\ud800\""),
            Just("\"names{1}\":"), Just("\"contacts{\\\"a\\\"}.age\":"), Just("true"), Just("\u{0}"), Just("\"raw\":\"A\""),
        ], 0..14),
    ) {
        let body = pieces.concat();
        let inside = format!("{{\"fields\":{{{body}}}}}");
        for text in [&body, &inside] {
            for kind in [OperationKind::Put, OperationKind::Update, OperationKind::Remove] {
                let _ = parse(kind, text);
            }
            FeedReader::new(text.as_bytes()).take(100).for_each(drop);
        }
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = json::parse(&bytes, OperationKind::Put, id(), &music(), ParseOptions::default());
        let _ = wire::decode_fields(id(), &bytes);
        FeedReader::new(&bytes[..]).take(100).for_each(drop);
    }
}

#[test]
fn nesting_is_bounded() {
    for open in ["[", "{\"a\":"] {
        let deep = open.repeat(1_000_000);
        let options = ParseOptions { ignore_undefined_fields: true, ..ParseOptions::default() };
        let body = format!("{{\"fields\":{{\"x\":{deep}");
        assert!(json::parse(body.as_bytes(), OperationKind::Put, id(), &music(), options).is_err());
        let feed = format!("{{\"put\":\"id:a:b::c\",\"x\":{deep}");
        assert!(FeedReader::new(feed.as_bytes()).next().is_some_and(|operation| operation.is_err()));
        let body = format!("{{\"fields\":{{\"dense\":{deep}");
        assert!(json::parse(body.as_bytes(), OperationKind::Put, id(), &music(), options).is_err());
    }
}
