//! Indexing statements: a schema's statements and a document in, the document's fields out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millrace_column::{Column, ColumnKey};
use millrace_document::json::{self, ParseOptions};
use millrace_document::{
    DataType, Document, DocumentField, DocumentId, DocumentValue, EncodedDocument, FieldSet, OperationAction,
    OperationKind, StructType, wire,
};
use millrace_env::ManualClock;
use millrace_indexing::{
    ComponentCall, ComponentFailure, Error, GeneratorTarget, IndexingCaller, IndexingComponents,
    IndexingEnvironment, SchemaScripts,
};
use millrace_schema::{
    AttributeSettings, FieldMatching, FieldStemming, IndexSettings, Schema, SchemaField, SourcePosition,
    SourcedText,
};
use millrace_tensor::{Tensor, TensorCells, TensorType};

fn field(name: &str, data_type: DataType, synthetic: bool, indexing: &str, line: usize) -> SchemaField {
    let position = SourcePosition { file: "music.sd".to_owned(), line, column: 20 };
    let source = (!indexing.is_empty())
        .then(|| SourcedText { value: indexing.to_owned(), position: position.clone() });
    let of_fixture = millrace_fixtures::field(name, data_type, true);
    SchemaField {
        synthetic,
        indexing: source,
        index: indexing.contains("index").then(IndexSettings::default),
        in_summary: false,
        matching: FieldMatching { stemming: FieldStemming::Best, ..of_fixture.matching },
        position,
        ..of_fixture
    }
}

fn set_of_strings() -> DataType {
    let element = Box::new(DataType::String);
    DataType::WeightedSet { element, create_if_nonexistent: false, remove_if_zero: false }
}

/// A schema whose document has one field of each of these types, and outside of it the field `made` with a
/// type and statements.
pub(crate) fn schema(own: &str, made: DataType, statements: &str) -> Arc<Schema> {
    let array = |element| DataType::Array(Box::new(element));
    let person = DataType::Struct(Arc::new(StructType {
        name: "person".to_owned(),
        fields: vec![DocumentField { name: "name".into(), data_type: DataType::String }],
    }));
    let fields = [
        ("title", DataType::String, own),
        ("lang", DataType::String, ""),
        ("year", DataType::Int, "attribute | summary"),
        ("big", DataType::Long, ""),
        ("price", DataType::Double, ""),
        ("tags", array(DataType::String), ""),
        ("numbers", array(DataType::Int), ""),
        ("people", DataType::Map(Box::new(DataType::String), Box::new(person.clone())), ""),
        ("person", person, ""),
        ("names", DataType::Map(Box::new(DataType::String), Box::new(DataType::String)), ""),
        ("bits", DataType::Tensor(TensorType::parse("tensor<float>(x[10])").unwrap()), ""),
        ("marks", set_of_strings(), ""),
    ];
    let fields = fields
        .into_iter()
        .enumerate()
        .map(|(line, (name, data_type, indexing))| field(name, data_type, false, indexing, line + 1));
    let fields: Vec<SchemaField> = fields.chain([field("made", made, true, statements, 20)]).collect();
    Arc::new(Schema { stemming: FieldStemming::Best, ..millrace_fixtures::schema("music", fields) })
}

/// Components that embed a text as its length, cut it at spaces, and generate the text of the call.
#[derive(Default)]
struct LengthEmbedder {
    asked: AtomicUsize,
}

impl IndexingComponents for LengthEmbedder {
    fn check_embed(&self, call: &ComponentCall, _: bool, _: &TensorType) -> Result<(), ComponentFailure> {
        if call.id.as_deref() == Some("lengths") {
            Ok(())
        } else {
            Err(ComponentFailure::Input("no such embedder".to_owned()))
        }
    }

    fn embed(
        &self,
        _: &ComponentCall,
        input: &DocumentValue,
        to: &TensorType,
        _: &IndexingCaller,
    ) -> Result<Tensor, ComponentFailure> {
        let DocumentValue::String(text) = input else {
            return Err(ComponentFailure::Input("not a text".to_owned()));
        };
        if text == "busy" {
            return Err(ComponentFailure::Overloaded("too much to do".to_owned()));
        }
        let mut cells = TensorCells::with_capacity(to.cell(), to.dense_size());
        (0..to.dense_size()).for_each(|at| cells.push(if at % 3 == 0 { text.len() as f64 } else { 0.0 }));
        Tensor::new(to.clone(), Vec::new(), cells).map_err(|error| ComponentFailure::Input(error.to_string()))
    }

    fn check_chunk(&self, _: &ComponentCall) -> Result<(), ComponentFailure> {
        Ok(())
    }

    fn chunk(&self, _: &ComponentCall, text: &str) -> Result<Vec<String>, ComponentFailure> {
        Ok(text.split(' ').map(str::to_owned).collect())
    }

    fn check_generate(&self, call: &ComponentCall, wanted: &GeneratorTarget) -> Result<(), ComponentFailure> {
        match (call.id.as_deref(), &wanted.data_type) {
            (Some("words"), DataType::String | DataType::Array(_)) => Ok(()),
            (Some("words"), other) => Err(ComponentFailure::Input(format!("a {other} is not made of words"))),
            (other, _) => {
                let other = other.unwrap_or_default();
                Err(ComponentFailure::Input(format!("no field generator '{other}'")))
            }
        }
    }

    /// Text of the call, and its number.
    fn generate(
        &self,
        _: &ComponentCall,
        input: &DocumentValue,
        wanted: &GeneratorTarget,
        _: &IndexingCaller,
    ) -> Result<Option<DocumentValue>, ComponentFailure> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let one = |text: &str| DocumentValue::String(format!("{} {number}: {text}", wanted.name));
        match (input, &wanted.data_type) {
            (DocumentValue::String(text), _) if text == "nothing" => Ok(None),
            (DocumentValue::String(text), _) if text == "busy" => {
                Err(ComponentFailure::Overloaded("too much to do".to_owned()))
            }
            (DocumentValue::String(text), DataType::String) => Ok(Some(one(text))),
            (DocumentValue::String(text), _) => {
                Ok(Some(DocumentValue::Array(text.split_whitespace().map(one).collect())))
            }
            (DocumentValue::Array(texts), _) => Ok(Some(DocumentValue::Array(texts.clone()))),
            _ => Err(ComponentFailure::Input("not a text".to_owned())),
        }
    }
}

pub(crate) fn compile(schema: &Arc<Schema>) -> Result<SchemaScripts, String> {
    let clock = Arc::new(ManualClock::new(1_700_000_000_000_000));
    let environment = Arc::new(IndexingEnvironment::new(clock, "box", 1));
    SchemaScripts::compile(schema, Arc::new(LengthEmbedder::default()), environment)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

pub(crate) fn document(schema: &Schema, fields: &str) -> Document {
    let id = DocumentId::parse("id:a:music::1").unwrap();
    let body = format!("{{\"fields\":{fields}}}");
    let parsed =
        json::parse(body.as_bytes(), OperationKind::Put, id, &schema.document_type, ParseOptions::default());
    match parsed.unwrap().action {
        OperationAction::Put(document) => document,
        _ => panic!("a put is a put"),
    }
}

pub(crate) fn render(document: &Document) -> String {
    serde_json::to_string(&json::fields(document, None, &FieldSet::All, Default::default())).unwrap()
}

const FIELDS: &str = r#"{"title":"Best  of Bob","lang":"de","year":1999,"big":5,"price":1.5,"tags":["Rock","folk"],
    "numbers":[1,2],"person":{"name":"Ann"},"names":{"a":"x"},"people":{"k":{"name":"Bea"}},"bits":[1,0,1,0,0,0,0,0,2,-1],
    "marks":{"x":2,"y":3}}"#;

/// Runs `statements` of the field `made` of a type on a document with every field, and expects its value; or,
/// after `!`, an error that contains the text. `-` means no value.
pub(crate) fn check(made: &str, statements: &str, expected: &str) {
    let data_type = match made {
        "string" => DataType::String,
        "int" => DataType::Int,
        "long" => DataType::Long,
        "double" => DataType::Double,
        "bool" => DataType::Bool,
        "byte" => DataType::Byte,
        "position" => DataType::Position,
        "strings" => DataType::Array(Box::new(DataType::String)),
        "ints" => DataType::Array(Box::new(DataType::Int)),
        "set" => set_of_strings(),
        spec => DataType::Tensor(TensorType::parse(spec).unwrap()),
    };
    let schema = schema("index | summary", data_type, statements);
    let outcome = compile(&schema).and_then(|scripts| {
        scripts.run(document(&schema, FIELDS), &IndexingCaller::default()).map_err(|error| error.to_string())
    });
    match (outcome, expected.strip_prefix('!')) {
        (Ok(document), None) => {
            let made = document.get("made").map(|value| {
                serde_json::to_string(&json::value(value, "short-value".parse().unwrap())).unwrap()
            });
            assert_eq!(made.as_deref().unwrap_or("-"), expected, "{statements}");
        }
        (Err(error), Some(reason)) => assert!(error.contains(reason), "{statements}: {error}"),
        (Ok(document), Some(_)) => panic!("{statements} gave {}", render(&document)),
        (Err(error), None) => panic!("{statements}: {error}"),
    }
}

#[test]
fn values_go_through_pipes() {
    check("string", "input title | index", r#""Best  of Bob""#);
    check("string", "input title | lowercase | substring 0 4 | attribute", r#""best""#);
    check("string", r#"input title . " (" . input year . ")" | summary"#, r#""Best  of Bob (1999)""#);
    check("string", "input person.name | index", r#""Ann""#);
    check("string", "input person | get_field name | index", r#""Ann""#);
    check("string", "input names | get_value a | index", r#""x""#);
    check("strings", r#"input title | split " +" | index"#, r#"["Best","of","Bob"]"#);
    check("strings", "(input title | to_array) . input tags | index", r#"["Best  of Bob","Rock","folk"]"#);
    check("string", r#"input tags | join ", " | index"#, r#""Rock, folk""#);
    check("strings", r#"input tags | for_each { lowercase . "!" } | index"#, r#"["rock!","folk!"]"#);
    let both = r#"["Best  of BobRock","Best  of Bobfolk"]"#;
    check("strings", "input tags | for_each { input title . _ } | index", both);
    // Of elements that become equal the last counts.
    check("set", r#"input marks | for_each { "k" } | attribute"#, r#"{"k":3}"#);
    check("ints", r#"input numbers | for_each { _ * 2 + 1 } | attribute"#, "[3,5]");
    check("string", r#"" áé " | trim | normalize | index"#, r#""ae""#);
    check("int", "input year + 1 - 2 * 3 | attribute", "1994");
    check("int", "(input year + 1) % 1000 / 7 | attribute", "0");
    check("double", "input year * input price | attribute", "2998.5");
    check("long", "input year | attribute", "1999");
    check("long", "now | attribute", "1700000000");
    check("string", "hostname | index", r#""box""#);
    check("string", "documentid | index", r#""id:a:music::1""#);
    let parts = "documentid namespace . documentid documenttype . documentid specific | index";
    check("string", parts, r#""amusic1""#);
    check("string", r#"documentid group . documentid number . "-" | index"#, r#""-""#);
    check("int", "+3 - -4 + 0x10 | attribute", "23");
    check("double", "1.5f + 2L + 1e1 | attribute", "13.5");
    check("string", "input lang | set_language | get_language | index", r#""de""#);
    check("string", "input title | set_var t; get_var t | index", r#""Best  of Bob""#);
    let annotated = "input title | tokenize normalize stem:\"BEST\" | ngram 3 | echo | index";
    check("string", annotated, r#""Best  of Bob""#);
    check("int", "random 1 | attribute", "0");
}

#[test]
fn values_are_converted() {
    check("int", r#""42" | to_int | attribute"#, "42");
    check("int", "input price | to_int | attribute", "1");
    check("string", "input year | to_string | index", r#""1999""#);
    check("bool", "input title | to_bool | attribute", "true");
    check("position", r#""N37.5;W122" | to_pos | attribute"#, r#"{"lat":37.5,"lng":-122.0}"#);
    check("set", "input title | to_wset | attribute", r#"{"Best  of Bob":1}"#);
    check("long", r#""2023-12-24T17:00:43.431+00:00" | to_epoch_second | attribute"#, "1703437243");
    check("long", r#""2000-02-29T23:59:59-01:30" | to_epoch_second | attribute"#, "951874199");
    for (instant, expected) in [
        ("2001-02-29T00:00:00Z", "!is not an instant"),
        ("2000-13-01T00:00:00Z", "!is not an instant"),
        ("2000-01-00T00:00:00Z", "!is not an instant"),
        ("2000-01-01T24:00:00Z", "946771200"),
        ("2000-01-01T24:00:01Z", "!is not an instant"),
        ("2016-12-31T23:59:60Z", "1483228799"),
        ("2000-01-01T00:60:00Z", "!is not an instant"),
        ("2000-01-01T00:00:60Z", "!is not an instant"),
        ("2000-01-01T00:00:00:00Z", "!is not an instant"),
        ("10000-01-01T00:00:00Z", "!is not an instant"),
        ("2000-257-01T00:00:00Z", "!is not an instant"),
        ("1969-12-31T23:59:59z", "-1"),
        ("0000-01-01T00:00Z", "-62167219200"),
        ("9999-12-31T23:59:59+00", "253402300799"),
    ] {
        check("long", &format!(r#""{instant}" | to_epoch_second | attribute"#), expected);
    }
    check("string", "1L | base64encode | index", r#""AQAAAAAAAAA=""#);
    check("long", r#"("AQAAAAAAAAA=" | base64decode) + ("AQAAAAAAAAA" | base64decode) | attribute"#, "2");
    check("string", "-1L | hex_encode | index", r#""ffffffffffffffff""#);
    check("string", "255L | hexencode | index", r#""ff""#);
    check("long", r#""ff" | hexdecode | attribute"#, "255");
    check("double", r#""2.5" | to_double | attribute"#, "2.5");
    check("string", r#""http://a.b/" | to_uri | to_string | index"#, r#""http://a.b/""#);
    check("double", r#""2.5" | to_float | to_double | attribute"#, "2.5");
    check("long", r#""-3" | to_long | attribute"#, "-3");
    check("long", r#""ff" | hex_decode | attribute"#, "255");
    check("long", r#""ff" | to_uri | hex_decode | attribute"#, "255");
    // The reference vector of SipHash-2-4 with the keys 00 to 0f: the bytes 00 to 0e.
    let bytes: String = (0..15).map(|byte| format!("\\x{byte:02x}")).collect();
    check("long", &format!("\"{bytes}\" | hash | attribute"), "-6833708440360172059");
    check("int", &format!("\"{bytes}\" | to_uri | hash | attribute"), "1237206501");
    let (bits, ones) = ("[1.0,0.0,1.0,0.0,0.0,0.0,0.0,0.0,1.0,0.0]", format!("[1.0{}]", ",1.0".repeat(9)));
    check("tensor<float>(x[10])", "input bits | binarize | attribute", bits);
    check("tensor<float>(x[10])", "input bits | binarize -5 | attribute", &ones);
    check("tensor<int8>(x[2])", "input bits | pack_bits | attribute", "[-96,-128]");
    check("tensor<float>(x[1])", "input title | embed lengths | attribute", "[12.0]");
    // The embedder is asked for as many numbers as the packed bits stand for.
    for embedding in ["embed lengths", "embed lengths | binarize", "embed lengths | set_var e"] {
        check(
            "tensor<int8>(x[2])",
            &format!("input title | {embedding} | pack_bits | attribute"),
            "[-110,73]",
        );
    }
    check("tensor<int8>(x[1])", "input title | embed lengths | (pack_bits | attribute)", "[-110]");
    check(
        "tensor<int8>(x[1])",
        "(input title || input lang) | embed lengths | pack_bits | attribute",
        "[-110]",
    );
    check("strings", "input title | chunk words 3 | index", r#"["Best","","of","Bob"]"#);
}

#[test]
fn values_are_generated_as_the_next_step_wants_them() {
    let check_title = |data_type: &str, statements: &str, expected: &str| {
        check(data_type, &format!("\"a b\" | {statements}"), expected);
    };
    check_title("string", "generate words | index", r#""music.made 0: a b""#);
    check_title("strings", "generate words | index", r#"["music.made 0: a","music.made 0: b"]"#);
    check_title("strings", "generate words | split \" \" | index", r#"["music.made","0:","a","b"]"#);
    check_title("string", "generate words | join \", \" | index", r#""music.made 0: a, music.made 0: b""#);
    check_title("string", "generate words | (join \", \" | index)", r#""music.made 0: a, music.made 0: b""#);
    check_title("int", "generate words | substring 11 12 | to_int | attribute", "0");
    check_title("strings", "generate words | to_array | index", r#"["music.made 0: a b"]"#);
    for text in ["\"music.made 0: a b\"", "\"a b\" | generate words"] {
        check("int", &format!("{text} | hash | attribute"), "-907807442");
    }
    check(
        "strings",
        "input tags | for_each { generate words } | index",
        r#"["music.made 0: Rock","music.made 1: folk"]"#,
    );
    check("strings", "input tags | generate words | index", r#"["Rock","folk"]"#);
    check("string", "input tags | generate words | index", "!generate needs a string, not a array<string>");
    check("string", "input year | generate words | index", "!generate needs a string, not a int");
    check("int", "input title | generate words | attribute", "!a int is not made of words");
    // A field that the generator leaves empty stays empty; a busy component is not an error of the document.
    check("string", r#"("nothing" | generate words) . "!" | index"#, "-");
    let busy = schema("index", DataType::String, "input title | generate words | index");
    let scripts = compile(&busy).unwrap();
    assert!(scripts.waits());
    let error = scripts.run(document(&busy, r#"{"title":"busy"}"#), &IndexingCaller::default()).unwrap_err();
    assert!(matches!(error, Error::Component { failure: ComponentFailure::Overloaded(_), .. }), "{error}");
    // Equal calls are made once per document.
    check(
        "string",
        r#"("a" | generate words) . ", " . ("b" | generate words) . ", " . ("a" | generate words) | index"#,
        r#""music.made 0: a, music.made 1: b, music.made 0: a""#,
    );
}

#[test]
fn statements_choose() {
    check("string", r#"(input absent || "none") | index"#, "!schema 'music' has no field 'absent'");
    check("string", r#"if (input year > 1990) { "new" } else { "old" } | index"#, r#""new""#);
    check(
        "string",
        r#"if (input year < 1990) { "new" } else if (input lang == "de") { "alt" } | index"#,
        r#""alt""#,
    );
    check(
        "string",
        r#"input lang | switch { case "en": "e" | index; case "de": "d" | index; default: "x" | index; }"#,
        r#""d""#,
    );
    check("string", r#"input title | switch { case "en": "e" | index; default: "x" | index; }"#, r#""x""#);
    check(
        "string",
        "select_input { lang: input title | index; title: input lang | index; }",
        r#""Best  of Bob""#,
    );
    check("string", "guard { input title | index; }", r#""Best  of Bob""#);
    let schema =
        schema("index", DataType::String, r#"(input lang || "none") . "/" . (input title || "-") | index"#);
    let scripts = compile(&schema).unwrap();
    let made = scripts.run(document(&schema, r#"{"title":"a"}"#), &IndexingCaller::default()).unwrap();
    assert_eq!(render(&made), r#"{"title":"a","made":"none/a"}"#);
}

/// A mutable attribute outside of the document needs no value in its statements.
#[test]
fn mutable_attributes_begin_with_nothing() {
    for (data_type, expected) in
        [(DataType::Long, r#"{"title":"a","made":0}"#), (DataType::String, r#"{"title":"a"}"#)]
    {
        let mut schema = (*schema("index", data_type, "attribute | summary")).clone();
        let made = schema.fields.get_mut("made").expect("the schema has the field");
        made.attribute = Some(AttributeSettings { mutable: true, ..AttributeSettings::default() });
        let schema = Arc::new(schema);
        let given = document(&schema, r#"{"title":"a"}"#);
        let made = compile(&schema).unwrap().run(given, &IndexingCaller::default()).unwrap();
        assert_eq!(render(&made), expected);
    }
}

#[test]
fn wrong_statements_are_refused_with_their_place() {
    for (statements, reason) in [
        (
            "input title | lowercas | index",
            "music.sd:20:34: field 'made': indexing: unknown expression 'lowercas'",
        ),
        ("input title |\n  index 5", "music.sd:21:9: "),
        ("input title | attribute nowhere", "has no field 'nowhere'"),
        ("index", "begin with a value"),
        (
            "input year | index",
            "a int cannot be written to 'made', which is a string; convert it with to_string",
        ),
        ("input person.age | to_string | index", "person has no field 'age'"),
        ("input title + 1 | index", "arithmetic needs numbers"),
        ("get_var x | index", "variable 'x' is not set"),
        ("input title | split \"(\" | index", "is not a regular expression: unclosed group"),
        ("input title | substring 1 | index", "expected where the substring ends, got '|'"),
        ("input year | for_each { _ } | index", "for_each needs an array"),
        (
            "input year | hex_decode | index",
            "hex_decode needs a string, not a int; convert it with to_string",
        ),
        ("input tags | base64decode | index", "needs a string, not a array<string>; use it within for_each"),
        ("input title | embed other | index", "embed makes a tensor"),
        ("input title | generate x | index", "no field generator 'x'"),
        ("input title | \"open", "the \" is not closed"),
        ("input title | for_each { index", "before the end"),
        ("input title } index", "expected '|', ';' or the end, got '}'"),
        ("$", "'$' is not part of the language"),
    ] {
        check("string", statements, &format!("!{reason}"));
    }
    for deep in ["(".repeat(100_000), format!("1{}", " . 1".repeat(100_000)), "for_each {".repeat(10_000)] {
        check("string", &deep, "!");
    }
    check("int", "300 | to_byte | attribute", "!'300' is not a byte");
    check("int", "input year / 0 | attribute", "!division by zero");
}

#[test]
fn a_component_that_is_busy_is_told_from_a_document_that_is_wrong() {
    let target = DataType::Tensor(TensorType::parse("tensor<float>(x[1])").unwrap());
    let schema = schema("attribute", target, "input title | embed lengths | attribute");
    let scripts = compile(&schema).unwrap();
    assert!(scripts.waits());
    let error =
        scripts.run(document(&schema, r#"{"title":"busy"}"#), &IndexingCaller::default()).unwrap_err();
    assert!(matches!(error, Error::Component { failure: ComponentFailure::Overloaded(_), .. }), "{error}");
}

#[test]
fn document_fields_are_changed_in_place_and_plain_ones_cost_nothing() {
    let plain = schema("index | summary", DataType::String, "");
    assert!(compile(&plain).unwrap().is_empty());
    let changing = schema("lowercase | index | summary", DataType::String, "");
    let scripts = compile(&changing).unwrap();
    let made =
        scripts.run(document(&changing, r#"{"title":"Best","year":3}"#), &IndexingCaller::default()).unwrap();
    assert_eq!(render(&made), r#"{"title":"best","year":3}"#);
}

#[test]
fn updates_run_what_reads_the_changed_field() {
    let schema = schema("index", DataType::String, r#"input title . "/" . input lang | index"#);
    let scripts = compile(&schema).unwrap();
    let before = scripts
        .run(document(&schema, r#"{"title":"a","lang":"de","year":1}"#), &IndexingCaller::default())
        .unwrap();
    let update = |fields: &str| {
        let body = format!("{{\"fields\":{fields}}}");
        let options = ParseOptions::default();
        let parsed = json::parse(
            body.as_bytes(),
            OperationKind::Update,
            before.id.clone(),
            &schema.document_type,
            options,
        );
        let OperationAction::Update(update) = parsed.unwrap().action else {
            panic!("an update is an update")
        };
        let updated = update.apply(Some(before.clone()), &schema.document_type).unwrap();
        render(&scripts.run_update(updated, &update, &IndexingCaller::default()).unwrap())
    };
    assert_eq!(update(r#"{"title":{"assign":"b"}}"#), r#"{"title":"b","lang":"de","year":1,"made":"b/de"}"#);
    assert_eq!(update(r#"{"year":{"assign":2}}"#), r#"{"title":"a","lang":"de","year":2,"made":"a/de"}"#);
    assert_eq!(update(r#"{"lang":{"assign":null}}"#), r#"{"title":"a","year":1}"#);
}

#[test]
fn columns_are_built_from_documents() {
    use millrace_column::StoreLayout;
    let schema = schema("index", DataType::String, "");
    let application = millrace_schema::Application {
        schemas: [(Arc::clone(&schema.name), Arc::clone(&schema))].into(),
        sources: BTreeMap::new(),
        federations: BTreeMap::new(),
        content: Vec::new(),
        container: Default::default(),
        query_profiles: Default::default(),
        overrides: Vec::new(),
        significance: Default::default(),
        warnings: Vec::new(),
        files: BTreeMap::new(),
    };
    let columns = millrace_indexing::DocumentColumns::new(&application);
    let keys = columns.columns("music").unwrap();
    assert!(keys.contains(&ColumnKey::tokens("title")) && keys.is_sorted());
    assert_eq!(columns.columns("book"), None);
    let rows = [r#"{"title":"The Cafés"}"#, r#"{"year":4}"#]
        .map(|fields| wire::encode_fields(&document(&schema, fields)));
    let documents: Vec<EncodedDocument<'_>> =
        rows.iter().map(|row| EncodedDocument::parse("id:n:music::1", row).expect("a row")).collect();
    let build = |key: &ColumnKey| columns.build("music", key, &documents).expect("the rows can be read");
    let words = |column: &Column| match column {
        Column::Tokens(tokens) => (0..tokens.len())
            .map(|at| {
                tokens
                    .document(at)
                    .iter()
                    .map(|id| String::from_utf8_lossy(tokens.word(id)).into_owned())
                    .collect()
            })
            .collect::<Vec<Vec<String>>>(),
        _ => panic!("tokens are tokens"),
    };
    let built = build(&ColumnKey::tokens("title"));
    assert_eq!(words(&built), [vec!["the", "cafes"], vec![]]);
    let Column::Tokens(tokens) = &built else { panic!("tokens are tokens") };
    let mut of_stem = Vec::new();
    tokens.stemmed(b"cafe", |number| of_stem.push(tokens.word(number).to_vec()));
    assert_eq!(of_stem, [b"cafes"]);
    let values = build(&ColumnKey::value("title"));
    let derived = columns.derive("music", &ColumnKey::tokens("title"), &values).unwrap();
    assert_eq!(words(&derived), words(&built));
    assert_eq!(columns.data_type("music", "year"), Some(DataType::Int));
    assert_eq!(build(&ColumnKey::value("nowhere")).len(), 2);
}

/// The language of a text is the last one set by `set_language` before its statement: a constant, or the
/// value of the document's field.
#[test]
fn words_are_stemmed_by_the_language_that_was_set() {
    use millrace_column::StoreLayout;
    const SERVICES: &str = "<services><content id='c'><documents><document type='d' mode='streaming'/></documents></content></services>";
    let stems = |fields: &str, document: &str, field: &str, stem: &str| {
        let schema = format!("schema d {{ {fields} }}");
        let files = [("services.xml", SERVICES), ("schemas/d.sd", &schema)];
        let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
        let application =
            millrace_schema::Application::from_files(files.into()).expect("the application is right");
        let row = wire::encode_fields(&self::document(&application.schemas["d"], document));
        let document = EncodedDocument::parse("id:n:d::1", &row).expect("a row");
        let columns = millrace_indexing::DocumentColumns::new(&application);
        let built = columns.build("d", &ColumnKey::tokens(field), &[document]);
        let Ok(Column::Tokens(tokens)) = built else { panic!("tokens are tokens") };
        let mut found = 0;
        tokens.stemmed(stem.as_bytes(), |_| found += 1);
        found
    };
    let said = "document d { field lang type string { indexing: set_language }
                 field t type string { indexing: index } }";
    assert_eq!(stems(said, r#"{"lang":"de","t":"Häuser"}"#, "t", "haus"), 1);
    assert_eq!(stems(said, r#"{"lang":"en","t":"Häuser"}"#, "t", "haus"), 0);
    assert_eq!(stems(said, r#"{"t":"houses"}"#, "t", "hous"), 1);
    let before = "document d { field t type string { indexing: index }
                   field lang type string { indexing: set_language } }";
    assert_eq!(stems(before, r#"{"lang":"de","t":"Häuser"}"#, "t", "haus"), 0);
    let fixed = "document d { field t type string { indexing { \"de\" | set_language; index; } } }";
    assert_eq!(stems(fixed, r#"{"t":"Häuser"}"#, "t", "haus"), 1);
    let beside = "field l type string { indexing: \"de\" | set_language }
                   document d { field t type string { indexing: index } }";
    assert_eq!(stems(beside, r#"{"t":"Häuser"}"#, "t", "haus"), 1);
}
