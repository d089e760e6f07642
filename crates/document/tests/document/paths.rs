//! Updates on field paths, and members of structs: JSON in, JSON out.

use std::sync::Arc;

use millrace_document::json::{self, ParseOptions};
use millrace_document::{
    DataType, Document, DocumentField, DocumentId, DocumentOperation, DocumentType, FieldSet,
    OperationAction, OperationKind, StructType,
};

fn field(name: &str, data_type: DataType) -> DocumentField {
    DocumentField { name: name.into(), data_type }
}

fn array(element: DataType) -> DataType {
    DataType::Array(Box::new(element))
}

fn map(key: DataType, value: DataType) -> DataType {
    DataType::Map(Box::new(key), Box::new(value))
}

fn weighted_set(element: DataType, remove_if_zero: bool) -> DataType {
    DataType::WeightedSet {
        element: Box::new(element),
        create_if_nonexistent: remove_if_zero,
        remove_if_zero,
    }
}

fn music() -> DocumentType {
    let person = DataType::Struct(Arc::new(StructType {
        name: "person".to_owned(),
        fields: vec![
            field("first", DataType::String),
            field("age", DataType::Int),
            field("nicks", array(DataType::String)),
        ],
    }));
    DocumentType::new(
        "music",
        vec![
            field("tags", array(DataType::String)),
            field("matrix", array(array(DataType::Int))),
            field("people", array(person.clone())),
            field("lead", person.clone()),
            field("tracks", weighted_set(DataType::String, true)),
            field("codes", weighted_set(DataType::Int, false)),
            field("names", map(DataType::Int, DataType::String)),
            field("contacts", map(DataType::String, person)),
        ],
    )
}

fn parse_with(options: ParseOptions, kind: OperationKind, fields: &str) -> Result<DocumentOperation, String> {
    let id = DocumentId::parse("id:ns:music::1").expect("an id");
    let body = format!(r#"{{"fields": {fields}}}"#);
    json::parse(body.as_bytes(), kind, id, &music(), options).map_err(|error| error.to_string())
}

fn parse(kind: OperationKind, fields: &str) -> Result<DocumentOperation, String> {
    parse_with(ParseOptions::default(), kind, fields)
}

fn shown(document: &Document) -> String {
    let music = music();
    let all = json::fields(document, Some(&music), &FieldSet::Document, Default::default());
    serde_json::to_string(&all).expect("it can be written")
}

/// The document with the fields `before` after an update, as JSON; or an error after `!`.
fn updated(before: &str, fields: &str) -> String {
    let put = parse(OperationKind::Put, before).expect("the document is right");
    let OperationAction::Put(document) = put.action else { panic!("a put is a put") };
    let outcome = parse(OperationKind::Update, fields).and_then(|operation| {
        let OperationAction::Update(update) = operation.action else { panic!("an update is an update") };
        update.apply(Some(document), &music()).map_err(|error| error.to_string())
    });
    match outcome {
        Ok(document) => shown(&document),
        Err(error) => format!("!{error}"),
    }
}

/// Documents, updates on paths, and what is left.
#[rustfmt::skip]
const PATHS: &[(&str, &str, &str)] = &[
    (r#"{"people":[{"age":1},{"age":2}]}"#, r#"{"people.age":{"increment":1}}"#, r#"{"people":[{"age":2},{"age":3}]}"#),
    (r#"{"people":[{"age":1},{"age":2}]}"#, r#"{"people[$i].age":{"assign":7}}"#, r#"{"people":[{"age":7},{"age":7}]}"#),
    (r#"{"people":[{"age":1,"first":"a"},{"age":2}]}"#, r#"{"people.age":{"remove":0}}"#, r#"{"people":[{"first":"a"},{}]}"#),
    (r#"{"people":[{"age":1}]}"#, r#"{"people[$i]":{"remove":0}}"#, "{}"),
    (r#"{"people":[{"age":1}]}"#, r#"{"people[$i]":{"assign":{"first":"a"}}}"#, r#"{"people":[{"first":"a"}]}"#),
    ("{}", r#"{"people.age":{"assign":7}}"#, "{}"),
    (r#"{"matrix":[[1],[2,3]]}"#, r#"{"matrix[$i][$j]":{"multiply":2}}"#, r#"{"matrix":[[2],[4,6]]}"#),
    (r#"{"matrix":[[1],[2,3]]}"#, r#"{"matrix[$i]":{"add":[9]}}"#, r#"{"matrix":[[1,9],[2,3,9]]}"#),
    (r#"{"contacts":{"a":{"age":1},"b":{"first":"x"}}}"#, r#"{"contacts.value.age":{"increment":1}}"#, r#"{"contacts":{"a":{"age":2},"b":{"first":"x","age":1}}}"#),
    (r#"{"contacts":{"a":{"age":1},"b":{"age":2}}}"#, r#"{"contacts{$k}.age":{"assign":5}}"#, r#"{"contacts":{"a":{"age":5},"b":{"age":5}}}"#),
    (r#"{"names":{"1":"a","2":"b"}}"#, r#"{"names{$k}":{"assign":"c"}}"#, r#"{"names":{"1":"c","2":"c"}}"#),
    (r#"{"contacts":{"$k":{"age":1}}}"#, r#"{"contacts{\"$k\"}.age":{"assign":5}}"#, r#"{"contacts":{"$k":{"age":5}}}"#),
    (r#"{"tracks":{"a":1,"b":2}}"#, r#"{"tracks{$k}":{"decrement":1}}"#, r#"{"tracks":{"b":1}}"#),
    (r#"{"codes":{"3":1,"4":2}}"#, r#"{"codes{$k}":{"assign":0}}"#, r#"{"codes":{"3":0,"4":0}}"#),
    (r#"{"lead":{"age":1,"first":"a"}}"#, r#"{"lead.first":{"remove":0}}"#, r#"{"lead":{"age":1}}"#),
    (r#"{"lead":{"age":1}}"#, r#"{"lead.age":{"remove":0}}"#, "{}"),
    // What is added to a collection creates it, with all around it.
    ("{}", r#"{"lead.nicks":{"add":["a"]}}"#, r#"{"lead":{"nicks":["a"]}}"#),
    ("{}", r#"{"lead.nicks":{"add":[]}}"#, "{}"),
    ("{}", r#"{"contacts{x}.nicks":{"add":["a"]}}"#, r#"{"contacts":{"x":{"nicks":["a"]}}}"#),
    // One value removes the whole, a list removes elements.
    (r#"{"lead":{"age":1,"nicks":["a","b"]}}"#, r#"{"lead.nicks":{"remove":["a"]}}"#, r#"{"lead":{"age":1,"nicks":["b"]}}"#),
    (r#"{"lead":{"age":1,"nicks":["a","b"]}}"#, r#"{"lead.nicks":{"remove":0}}"#, r#"{"lead":{"age":1}}"#),
    (r#"{"matrix":[[1,2],[3]]}"#, r#"{"matrix[0]":{"remove":[1]}}"#, r#"{"matrix":[[2],[3]]}"#),
    (r#"{"matrix":[[1,2],[3]]}"#, r#"{"matrix[0]":{"remove":0}}"#, r#"{"matrix":[[3]]}"#),
    (r#"{"matrix":[[1,2],[3]]}"#, r#"{"matrix":{"match":{"element":0,"remove":[1]}}}"#, r#"{"matrix":[[2],[3]]}"#),
    (r#"{"tags":["a"]}"#, r#"{"tags":{"remove":0}}"#, "!expected elements to remove"),
    // A weight of 0 removes, if the type says so.
    (r#"{"tracks":{"a":1}}"#, r#"{"tracks":{"add":{"a":0,"b":0}}}"#, "{}"),
    (r#"{"codes":{"1":1}}"#, r#"{"codes":{"add":{"1":0}}}"#, r#"{"codes":{"1":0}}"#),
    // A matched element of a weighted set is created if the type says so; one that a path names, always.
    ("{}", r#"{"tracks":{"match":{"element":"a","assign":5}}}"#, r#"{"tracks":{"a":5}}"#),
    (r#"{"codes":{"1":1}}"#, r#"{"codes":{"match":{"element":1,"assign":5}}}"#, r#"{"codes":{"1":5}}"#),
    (r#"{"codes":{"1":1}}"#, r#"{"codes":{"match":{"element":2,"assign":5}}}"#, r#"{"codes":{"1":1}}"#),
    (r#"{"codes":{"1":1}}"#, r#"{"codes{2}":{"assign":5}}"#, r#"{"codes":{"1":1,"2":5}}"#),
    (r#"{"contacts":{"a b":{"age":1}}}"#, r#"{"contacts{ \"a b\" }.age":{"assign":5}}"#, r#"{"contacts":{"a b":{"age":5}}}"#),
    ("{}", r#"{"contacts{ a}.age":{"assign":5}}"#, r#"{"contacts":{"a":{"age":5}}}"#),
    ("{}", r#"{"contacts.key":{"assign":"a"}}"#, "!the keys of a map are not changed"),
    ("{}", r#"{"contacts.age":{"assign":1}}"#, "!a map has .value, not '.age'"),
    ("{}", r#"{"people.name":{"assign":"a"}}"#, "!has no field 'name'"),
    ("{}", r#"{"tags.age":{"assign":1}}"#, "!'.' does not lead into string"),
    ("{}", r#"{"people[i].age":{"assign":1}}"#, "!'i' is not an array index"),
];

#[test]
fn updates_reach_every_element() {
    let mut wrong = Vec::new();
    for (before, fields, after) in PATHS {
        let shown = updated(before, fields);
        let is_right = match after.strip_prefix('!') {
            Some(error) => shown.starts_with('!') && shown.contains(error),
            None => shown == *after,
        };
        if !is_right {
            wrong.push(format!("{before} {fields}\n{shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unknown_members_of_structs_are_skipped_on_request() {
    let fields = r#"{"people":[{"age":1,"shoe":{"size":[4]}},{"shoe":2,"age":3}]}"#;
    let error = parse(OperationKind::Put, fields).expect_err("it is unknown");
    assert!(error.contains("struct person has no field 'shoe'"), "{error}");
    let options = ParseOptions { ignore_undefined_fields: true, ..ParseOptions::default() };
    let operation = parse_with(options, OperationKind::Put, fields).expect("it is skipped");
    assert!(operation.ignored_fields);
    let OperationAction::Put(document) = operation.action else { panic!("a put is a put") };
    assert_eq!(shown(&document), r#"{"people":[{"age":1},{"age":3}]}"#);
}

/// Types of few fields and of many; of two fields with one name the later counts.
#[test]
fn a_field_is_found_by_its_name() {
    for count in [0, 1, 7, 8, 40] {
        let names: Vec<String> = (0..count).map(|number| format!("field{number}")).collect();
        let first = names.first().map(|name| field(name, DataType::Long));
        let fields = names.iter().map(|name| field(name, DataType::Int)).chain(first).collect();
        let document_type = DocumentType::new("of", fields);
        for (number, name) in names.iter().enumerate() {
            let expected = if number == 0 { DataType::Long } else { DataType::Int };
            let found = document_type.field(name).map(|field| &field.data_type);
            assert_eq!(found, Some(&expected), "{name} of {count}");
        }
        assert_eq!(document_type.field("field"), None);
    }
}
