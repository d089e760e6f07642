//! Results and their exact JSON output.

use std::time::Duration;

use millrace_document::{DocumentId, DocumentValue};
use millrace_render::{
    ErrorMessage, QueryTiming, RenderOptions, SearchResponse, SourceGroup, TraceStep, json, write_cbor,
    write_xml,
};
use millrace_result::{
    FeatureValue, FieldValue, GroupId, GroupList, GroupValue, GroupingResult, ResultGroup, ResultHit,
    SearchCoverage,
};
use millrace_tensor::Tensor;

const FULL: SearchCoverage =
    SearchCoverage { documents: 10, target: 10, timed_out: false, non_ideal: false, nodes: 1 };
const ROOT: &str = r#"{"root":{"id":"toplevel","relevance":1.0,"fields":{"totalCount":1},"coverage":{"coverage":100,"documents":10,"full":true,"nodes":1,"results":1,"resultsFull":1},"children":["#;

fn hit(fields: Vec<(&str, FieldValue)>) -> ResultHit {
    ResultHit {
        id: DocumentId::parse("id:ns:mail:g=me:1").expect("an id"),
        document_type: "mail".into(),
        relevance: 0.16343879032006284,
        sort_values: Vec::new(),
        fields: fields.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        source: "inbox".into(),
    }
}

#[test]
fn maps_and_sets_can_be_lists() {
    let set = || DocumentValue::WeightedSet(vec![(text("a"), 3)]);
    let map = DocumentValue::Map(vec![(text("k"), set()), (text("l"), text("x"))]);
    let years = DocumentValue::Map(vec![(DocumentValue::Int(7), text("x"))]);
    let member = DocumentValue::Struct(vec![("m".into(), map.clone())]);
    let hits = [hit(vec![
        ("map", FieldValue::Value(map)),
        ("list", FieldValue::Value(DocumentValue::Array(vec![set(), text("y")]))),
        ("member", FieldValue::Value(member)),
        ("years", FieldValue::Value(years)),
    ])];
    let response = SearchResponse { hits: &hits, ..SearchResponse::default() };
    let both = RenderOptions { maps_as_lists: true, sets_as_lists: true, ..RenderOptions::default() };
    // A field with a map of texts is an object all the same.
    let map = r#"[{"key":"k","value":[{"item":"a","weight":3}]},{"key":"l","value":"x"}]"#;
    let object = r#"{"k":[{"item":"a","weight":3}],"l":"x"}"#;
    let years = r#"[{"key":7,"value":"x"}]"#;
    let expected = format!(
        r#""fields":{{"map":{object},"list":[[{{"item":"a","weight":3}}],"y"],"member":{{"m":{map}}},"years":{years}}}"#
    );
    let found = json(&response, &both);
    assert!(found.contains(&expected), "{found}");
    let sets = RenderOptions { sets_as_lists: true, ..RenderOptions::default() };
    let found = json(&response, &sets);
    assert!(found.contains(r#""map":{"k":[{"item":"a","weight":3}],"l":"x"}"#), "{found}");
}

#[test]
fn raw_values_can_be_digits() {
    let raw = || DocumentValue::Raw(vec![0xde, 0x00, 0x0a]);
    let fields = || {
        vec![
            ("raw", FieldValue::Value(raw())),
            ("none", FieldValue::Value(DocumentValue::Raw(Vec::new()))),
            ("list", FieldValue::Value(DocumentValue::Array(vec![raw(), text("x")]))),
            ("member", FieldValue::Value(DocumentValue::Struct(vec![("m".into(), raw())]))),
            ("map", FieldValue::Value(DocumentValue::Map(vec![(text("k"), raw())]))),
            ("years", FieldValue::Value(DocumentValue::Map(vec![(DocumentValue::Int(7), raw())]))),
            ("set", FieldValue::Value(DocumentValue::WeightedSet(vec![(text("a"), 3)]))),
        ]
    };
    let hex = RenderOptions { raw_as_hex: true, ..RenderOptions::default() };
    let lists = RenderOptions { maps_as_lists: true, ..hex };
    let number = |text: &str| format!(r#"{{"7":{text}}}"#);
    let entry = |text: &str| format!(r#"[{{"key":7,"value":{text}}}]"#);
    for (options, one, none, years) in [
        (RenderOptions::default(), r#""3gAK""#, "", number(r#""3gAK""#)),
        (hex, r#""0xDE000A""#, "0x", number(r#""0xDE000A""#)),
        (lists, r#""0xDE000A""#, "0x", entry(r#""0xDE000A""#)),
    ] {
        let hits = [hit(fields())];
        let found = json(&SearchResponse { hits: &hits, ..SearchResponse::default() }, &options);
        let expected = format!(
            r#""fields":{{"raw":{one},"none":"{none}","list":[{one},"x"],"member":{{"m":{one}}},"map":{{"k":{one}}},"years":{years},"set":{{"a":3}}}}"#
        );
        assert!(found.contains(&expected), "{options:?}: {found}");
    }
}

fn check(response: &SearchResponse<'_>, expected: &str) {
    assert_eq!(json(response, &RenderOptions::default()), expected);
}

/// Checks the JSON of one field.
fn check_field(value: FieldValue, expected: &str) {
    let hits = [hit(vec![
        ("documentid", FieldValue::Value(DocumentValue::String("id:ns:mail:g=me:1".to_owned()))),
        ("f", value),
    ])];
    let response =
        SearchResponse { total_count: 1, hits: &hits, coverage: FULL, ..SearchResponse::default() };
    check(
        &response,
        &format!(
            "{ROOT}{}{expected}{}",
            r#"{"id":"id:ns:mail:g=me:1","relevance":0.16343879032006284,"source":"inbox","fields":{"documentid":"id:ns:mail:g=me:1","f":"#,
            "}}]}}"
        ),
    );
}

fn check_value(value: DocumentValue, expected: &str) {
    check_field(FieldValue::Value(value), expected);
}

fn text(text: &str) -> DocumentValue {
    DocumentValue::String(text.to_owned())
}

#[test]
fn values_of_all_types() {
    check_value(DocumentValue::Bool(true), "true");
    check_value(DocumentValue::Byte(-3), "-3");
    check_value(DocumentValue::Long(i64::MAX), "9223372036854775807");
    check_value(DocumentValue::Float(0.2), "0.2");
    check_value(DocumentValue::Double(2.0), "2.0");
    check_value(DocumentValue::Double(1e20), "1.0E20");
    check_value(DocumentValue::Double(f64::INFINITY), r#""Infinity""#);
    check_value(DocumentValue::Array(vec![DocumentValue::Double(f64::NAN)]), r#"["NaN"]"#);
    check_value(text("a\"b\\c\n\u{1}é日🦀</hi>"), "\"a\\\"b\\\\c\\n\\u0001é日🦀</hi>\"");
    check_value(DocumentValue::Raw(vec![0, 255, 16]), r#""AP8Q""#);
    check_value(
        DocumentValue::Position { latitude: 63_400_000, longitude: -10_500_000 },
        r#"{"lat":63.4,"lng":-10.5}"#,
    );
    check_value(DocumentValue::Array(vec![DocumentValue::Int(1), DocumentValue::Int(2)]), "[1,2]");
    check_value(DocumentValue::WeightedSet(vec![(text("a"), 3), (text("b"), -1)]), r#"{"a":3,"b":-1}"#);
    check_value(DocumentValue::Map(vec![(DocumentValue::Int(7), text("x"))]), r#"{"7":"x"}"#);
    check_value(
        DocumentValue::Struct(vec![("name".into(), text("n")), ("age".into(), DocumentValue::Int(1))]),
        r#"{"name":"n","age":1}"#,
    );
}

#[test]
fn fields_that_are_not_a_number_are_left_out() {
    let not_numbers = || {
        vec![
            ("f", FieldValue::Value(DocumentValue::Float(f32::NAN))),
            ("d", FieldValue::Value(DocumentValue::Double(f64::NAN))),
        ]
    };
    let hits = [hit(not_numbers())];
    let response = SearchResponse { hits: &hits, ..SearchResponse::default() };
    let found = json(&response, &RenderOptions::default());
    assert!(found.ends_with(r#""source":"inbox"}]}}"#), "{found}");
    let mut fields = not_numbers();
    fields.push(("g", FieldValue::Value(DocumentValue::Double(1.0))));
    let hits = [hit(fields)];
    let response = SearchResponse { hits: &hits, ..SearchResponse::default() };
    let found = json(&response, &RenderOptions::default());
    assert!(found.ends_with(r#""fields":{"g":1.0}}]}}"#), "{found}");
    let mut xml = Vec::new();
    write_xml(&response, &RenderOptions::default(), "utf-8", &mut xml);
    let xml = String::from_utf8(xml).expect("it is UTF-8");
    assert!(xml.contains("<field name=\"f\"></field>"), "{xml}");
}

#[test]
fn values_of_all_types_in_xml() {
    let check = |value: DocumentValue, expected: &str| {
        let hits = [hit(vec![("f", FieldValue::Value(value))])];
        let response = SearchResponse { hits: &hits, ..SearchResponse::default() };
        let mut out = Vec::new();
        write_xml(&response, &RenderOptions::default(), "utf-8", &mut out);
        let lines = String::from_utf8(out).expect("it is UTF-8");
        let shown: String = lines.lines().map(str::trim).collect();
        let field = shown.split_once("<field name=\"f\">").and_then(|(_, rest)| rest.split_once("</field>"));
        assert_eq!(field.map(|(field, _)| field), Some(expected), "{shown}");
    };
    let place = || DocumentValue::Position { latitude: 63_400_000, longitude: -10_500_000 };
    let in_xml =
        r#"<struct-field name="lat">63.4</struct-field><struct-field name="lng">-10.5</struct-field>"#;
    check(DocumentValue::Bool(true), "true");
    check(DocumentValue::Byte(-3), "-3");
    check(DocumentValue::Double(1e20), "1.0E20");
    check(text("a<b & c"), "a&lt;b &amp; c");
    check(text("a <hi>b</hi><sep />c"), "a <hi>b</hi><sep />c");
    for unpaired in ["<hi>", "</hi>", "</hi><hi>", "<hi>a</hi></hi>", "<hi><hi>a</hi>"] {
        check(text(unpaired), &unpaired.replace('<', "&lt;").replace('>', "&gt;"));
    }
    check(DocumentValue::Raw(vec![0, 255, 16]), "AP8Q");
    check(
        DocumentValue::Array(vec![DocumentValue::Raw(vec![0, 255, 16])]),
        r#"<item><data length="3" encoding="hex">00FF10</data></item>"#,
    );
    let tensor = Tensor::parse("tensor<float>(k{},x[2]):{a:[1,2]}", None).expect("a tensor");
    check(DocumentValue::Tensor(tensor), "tensor&lt;float&gt;(k{},x[2]):{a:[1.0, 2.0]}");
    check(place(), in_xml);
    check(DocumentValue::Array(vec![place()]), &format!("<item>{in_xml}</item>"));
    check(
        DocumentValue::Array(vec![DocumentValue::Int(1), DocumentValue::Int(2)]),
        "<item>1</item><item>2</item>",
    );
    check(
        DocumentValue::WeightedSet(vec![(text("a"), 3), (text("b"), -1)]),
        r#"<item weight="3">a</item><item weight="-1">b</item>"#,
    );
    check(
        DocumentValue::Map(vec![(DocumentValue::Int(7), text("x"))]),
        "<item><key>7</key><value>x</value></item>",
    );
    let person = DocumentValue::Struct(vec![("name".into(), text("n")), ("home".into(), place())]);
    check(
        DocumentValue::Map(vec![(text("k"), person)]),
        &format!(
            r#"<item><key>k</key><value><struct-field name="name">n</struct-field><struct-field name="home">{in_xml}</struct-field></value></item>"#
        ),
    );
}

#[test]
fn tensors_among_features_have_all_addresses_in_xml() {
    let tensor = Tensor::parse("tensor(x[1]):[1.5]", None).expect("a tensor");
    let features = FieldValue::Features(vec![("t".into(), FeatureValue::Tensor(tensor))]);
    let hits = [hit(vec![("matchfeatures", features)])];
    let response = SearchResponse { hits: &hits, ..SearchResponse::default() };
    let mut out = Vec::new();
    write_xml(&response, &RenderOptions::default(), "utf-8", &mut out);
    let text = String::from_utf8(out).expect("it is UTF-8");
    let expected = r#"{"t":{"type":"tensor(x[1])","cells":[{"address":{"x":"0"},"value":1.5}]}}"#;
    assert!(text.contains(expected), "{text}");
}

#[test]
fn tensors_in_formats() {
    let tensor = Tensor::parse("tensor<float>(cat{}):{pop:1.0,rock:0.2}", None).expect("a tensor");
    check_value(
        DocumentValue::Tensor(tensor.clone()),
        r#"{"type":"tensor<float>(cat{})","cells":{"pop":1.0,"rock":0.2}}"#,
    );
    let hits = [hit(vec![("f", FieldValue::Value(DocumentValue::Tensor(tensor)))])];
    let response = SearchResponse { hits: &hits, ..SearchResponse::default() };
    let options =
        RenderOptions { tensors: "short-value".parse().expect("a format"), ..RenderOptions::default() };
    let text = json(&response, &options);
    assert!(text.ends_with(r#""fields":{"f":{"pop":1.0,"rock":0.2}}}]}}"#), "{text}");
}

#[test]
fn features() {
    let tensor = Tensor::parse("tensor(x[2]):[1,2]", None).expect("a tensor");
    check_field(
        FieldValue::Features(vec![
            ("bm25(title)".into(), FeatureValue::Number(0.5)),
            ("lost".into(), FeatureValue::Number(f64::NEG_INFINITY)),
            ("vector".into(), FeatureValue::Tensor(tensor)),
        ]),
        r#"{"bm25(title)":0.5,"lost":null,"vector":{"type":"tensor(x[2])","values":[1.0,2.0]}}"#,
    );
    check_field(FieldValue::Strings(vec!["a".to_owned()]), r#"["a"]"#);
}

#[test]
fn a_hit_without_its_document_id() {
    let mut hits = [hit(Vec::new())];
    hits[0].relevance = f64::NEG_INFINITY;
    let response =
        SearchResponse { total_count: 1, hits: &hits, coverage: FULL, ..SearchResponse::default() };
    // The first four bytes are the low bits of the location: the MD5 of the group's name. The others are from
    // the MD5 of the id.
    let text = json(&response, &RenderOptions::default());
    let id =
        text.split(r#""id":"index:inbox/0/"#).nth(1).and_then(|rest| rest.split('"').next()).expect("an id");
    assert_eq!(id.len(), 24);
    assert!(text.ends_with(r#"","relevance":"-Infinity","source":"inbox"}]}}"#), "{text}");
}

#[test]
fn nothing_found() {
    check(
        &SearchResponse { coverage: FULL, ..SearchResponse::default() },
        r#"{"root":{"id":"toplevel","relevance":1.0,"fields":{"totalCount":0},"coverage":{"coverage":100,"documents":10,"full":true,"nodes":1,"results":1,"resultsFull":1}}}"#,
    );
}

#[test]
fn a_part_only() {
    let coverage = SearchCoverage { documents: 5, target: 20, timed_out: true, non_ideal: false, nodes: 1 };
    check(
        &SearchResponse { coverage, ..SearchResponse::default() },
        r#"{"root":{"id":"toplevel","relevance":1.0,"fields":{"totalCount":0},"coverage":{"coverage":25,"documents":5,"degraded":{"match-phase":false,"timeout":true,"adaptive-timeout":false,"anntimeout":false,"non-ideal-state":false},"full":false,"nodes":1,"results":1,"resultsFull":0}}}"#,
    );
}

#[test]
fn errors() {
    let errors = [
        ErrorMessage {
            code: 4,
            summary: "Invalid query parameter".to_owned(),
            message: Some("Could not parse 'x'".to_owned()),
            source: Some("inbox".to_owned()),
            transient: Some(false),
        },
        ErrorMessage { code: 12, summary: "Timed out".to_owned(), ..ErrorMessage::default() },
    ];
    check(
        &SearchResponse { errors: &errors, ..SearchResponse::default() },
        r#"{"root":{"id":"toplevel","relevance":1.0,"fields":{"totalCount":0},"errors":[{"code":4,"summary":"Invalid query parameter","source":"inbox","message":"Could not parse 'x'","transient":false},{"code":12,"summary":"Timed out"}]}}"#,
    );
}

#[test]
fn timing_and_trace() {
    let timing = QueryTiming {
        query: Duration::from_micros(1500),
        summary_fetch: Duration::from_micros(250),
        search: Duration::from_millis(2),
    };
    let inner =
        TraceStep { timestamp_ms: Some(1), message: Some("matched".to_owned()), children: Vec::new() };
    let trace = TraceStep { children: vec![inner], ..TraceStep::default() };
    check(
        &SearchResponse {
            coverage: FULL,
            timing: Some(timing),
            trace: Some(&trace),
            ..SearchResponse::default()
        },
        r#"{"trace":{"children":[{"timestamp":1,"message":"matched"}]},"timing":{"querytime":0.0015,"summaryfetchtime":2.5E-4,"searchtime":0.002},"root":{"id":"toplevel","relevance":1.0,"fields":{"totalCount":0},"coverage":{"coverage":100,"documents":10,"full":true,"nodes":1,"results":1,"resultsFull":1}}}"#,
    );
}

fn group(id: GroupId, outputs: Vec<(&str, GroupValue)>, lists: Vec<GroupList>) -> ResultGroup {
    let outputs = outputs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    ResultGroup { id, relevance: 0.5, outputs, lists }
}

#[test]
fn groups() {
    let hits = GroupList::Hits {
        label: "hits".to_owned(),
        hits: vec![hit(Vec::new())],
        continuation: (None, Some("AB".to_owned())),
    };
    let groups = vec![
        group(
            GroupId::String("Smith".to_owned()),
            vec![("count()", GroupValue::Long(3)), ("avg(tax)", GroupValue::Double(f64::NAN))],
            vec![hits],
        ),
        group(GroupId::Null, Vec::new(), Vec::new()),
        group(GroupId::Long(-5), vec![("max(item)", GroupValue::String("x".to_owned()))], Vec::new()),
        group(
            GroupId::Double(0.5),
            vec![("q", GroupValue::Quantiles(vec![(0.5, 2.0), (0.9, 3.5)]))],
            Vec::new(),
        ),
        group(GroupId::Bool(true), vec![("b", GroupValue::Bool(false))], Vec::new()),
        group(GroupId::Raw(vec![1, 255]), vec![("r", GroupValue::Raw(vec![2]))], Vec::new()),
        group(GroupId::LongBucket(i64::MIN, 0), Vec::new(), Vec::new()),
        group(GroupId::DoubleBucket(0.0, f64::INFINITY), Vec::new(), Vec::new()),
        group(GroupId::StringBucket("a".to_owned(), "b".to_owned()), Vec::new(), Vec::new()),
        group(GroupId::RawBucket(vec![1], vec![2]), Vec::new(), Vec::new()),
    ];
    let list = GroupList::Groups {
        label: "customer".to_owned(),
        groups,
        continuation: (Some("CD".to_owned()), None),
    };
    let mut root = group(GroupId::Root, vec![("count()", GroupValue::Long(9))], vec![list]);
    root.relevance = 1.0;
    let groupings = [
        GroupingResult { root, continuation: "EF".to_owned() },
        GroupingResult { root: group(GroupId::Root, Vec::new(), Vec::new()), continuation: String::new() },
    ];
    let text = json(
        &SearchResponse {
            total_count: 1,
            groupings: &groupings,
            coverage: FULL,
            ..SearchResponse::default()
        },
        &RenderOptions::default(),
    );
    let index =
        text.split("index:inbox/0/").nth(1).map(|rest| rest[..24].to_owned()).expect("the id of the hit");
    let expected = [
        ROOT,
        r#"{"id":"group:root:0","relevance":1.0,"continuation":{"this":"EF"},"fields":{"count()":9},"children":["#,
        r#"{"id":"grouplist:customer","relevance":1.0,"label":"customer","continuation":{"next":"CD"},"children":["#,
        r#"{"id":"group:string:Smith","relevance":0.5,"value":"Smith","fields":{"count()":3,"avg(tax)":"NaN"},"children":["#,
        r#"{"id":"hitlist:hits","relevance":1.0,"label":"hits","continuation":{"prev":"AB"},"children":[{"id":"index:inbox/0/"#,
        &index,
        r#"","relevance":0.16343879032006284,"source":"inbox"}]}]},"#,
        r#"{"id":"group:null","relevance":0.5},"#,
        r#"{"id":"group:long:-5","relevance":0.5,"value":"-5","fields":{"max(item)":"x"}},"#,
        r#"{"id":"group:double:0.5","relevance":0.5,"value":"0.5","fields":{"q":[{"quantile":0.5,"value":2.0},{"quantile":0.9,"value":3.5}]}},"#,
        r#"{"id":"group:bool:true","relevance":0.5,"value":"true","fields":{"b":false}},"#,
        r#"{"id":"group:raw:Af8=","relevance":0.5,"value":"Af8=","fields":{"r":"Ag=="}},"#,
        r#"{"id":"group:long_bucket:-9223372036854775808:0","relevance":0.5,"limits":{"from":"-9223372036854775808","to":"0"}},"#,
        r#"{"id":"group:double_bucket:0.0:Infinity","relevance":0.5,"limits":{"from":"0.0","to":"Infinity"}},"#,
        r#"{"id":"group:string_bucket:a:b","relevance":0.5,"limits":{"from":"a","to":"b"}},"#,
        r#"{"id":"group:raw_bucket:AQ==:Ag==","relevance":0.5,"limits":{"from":"AQ==","to":"Ag=="}}]}]},"#,
        r#"{"id":"group:root:1","relevance":0.5,"continuation":{"this":""}}]}}"#,
    ]
    .concat();
    assert_eq!(text, expected);
}

/// Calls `test` with hits and groups of all kinds.
fn with_response(test: impl Fn(&SearchResponse<'_>)) {
    let fields = vec![
        ("documentid", FieldValue::Value(text("id:ns:mail:g=me:1"))),
        ("title", FieldValue::Value(text("a <hi>b</hi> & <c>"))),
        ("votes", FieldValue::Value(DocumentValue::WeightedSet(vec![(text("ann"), 3)]))),
        (
            "names",
            FieldValue::Value(DocumentValue::Map(vec![(
                text("k"),
                DocumentValue::Array(vec![DocumentValue::Double(0.5)]),
            )])),
        ),
        ("person", FieldValue::Value(DocumentValue::Struct(vec![("age".into(), DocumentValue::Int(7))]))),
        ("matchfeatures", FieldValue::Features(vec![("firstPhase".into(), FeatureValue::Number(2.0))])),
        (
            "summaryfeatures",
            FieldValue::Features(vec![
                ("value(2)".into(), FeatureValue::Number(2.0)),
                ("bm25(title)".into(), FeatureValue::Number(0.5)),
            ]),
        ),
        ("words", FieldValue::Strings(vec!["x".to_owned()])),
    ];
    let hits = [ResultHit { relevance: 9.0, ..hit(Vec::new()) }, hit(fields)];
    let group = |id| ResultGroup { id, relevance: 0.5, outputs: Vec::new(), lists: Vec::new() };
    let groups = vec![group(GroupId::Long(7)), group(GroupId::LongBucket(1, 5)), group(GroupId::Null)];
    let list =
        GroupList::Groups { label: "a".to_owned(), groups, continuation: (Some("BC".to_owned()), None) };
    let mut root = group(GroupId::Root);
    root.outputs = vec![("count()".to_owned(), GroupValue::Long(9))];
    root.lists = vec![list];
    let groupings = [GroupingResult { root, continuation: "EF".to_owned() }];
    let errors = [
        ErrorMessage {
            code: 3,
            summary: "Illegal query".to_owned(),
            message: Some("no field <x>".to_owned()),
            ..ErrorMessage::default()
        },
        ErrorMessage {
            code: 12,
            summary: "Timeout".to_owned(),
            source: Some("far".to_owned()),
            ..ErrorMessage::default()
        },
    ];
    let timing = QueryTiming { search: Duration::from_millis(5), ..QueryTiming::default() };
    let ranked = TraceStep { message: Some("ranked".to_owned()), ..TraceStep::default() };
    let matched =
        TraceStep { timestamp_ms: Some(1), message: Some("matched <3>".to_owned()), children: vec![ranked] };
    let trace = TraceStep { children: vec![matched], ..TraceStep::default() };
    test(&SearchResponse {
        total_count: 2,
        hits: &hits,
        groupings: &groupings,
        coverage: FULL,
        errors: &errors,
        timing: Some(timing),
        trace: Some(&trace),
        ..SearchResponse::default()
    });
}

#[test]
fn the_same_as_xml() {
    with_response(|response| {
        let mut out = Vec::new();
        write_xml(response, &RenderOptions::default(), "utf-8", &mut out);
        let text = String::from_utf8(out).expect("it is text");
        assert_eq!(text, include_str!("response.xml"));
    });
    let mut empty = Vec::new();
    write_xml(&SearchResponse::default(), &RenderOptions::default(), "utf-8", &mut empty);
    let text = String::from_utf8(empty).expect("it is text");
    assert!(text.contains("<result total-hit-count=\"0\""), "{text}");
}

/// Characters that XML has no form for, in every place that can have texts of documents, schemas or requests.
#[test]
fn xml_is_well_formed_whatever_texts_have() {
    let allowed =
        |c: char| !matches!(c, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}');
    let all: String = ('\0'..='\x1f').chain(['\x7f', '\u{85}', '\u{9b}', '\u{fffe}', '\u{ffff}']).collect();
    let hostile = || text(&format!("<{all}>"));
    let values = [
        hostile(),
        DocumentValue::Array(vec![hostile()]),
        DocumentValue::WeightedSet(vec![(hostile(), 1)]),
        DocumentValue::Map(vec![(hostile(), hostile())]),
        DocumentValue::Struct(vec![(all.as_str().into(), hostile())]),
    ];
    let mut fields: Vec<(&str, FieldValue)> =
        values.into_iter().map(|value| (all.as_str(), FieldValue::Value(value))).collect();
    fields.push(("strings", FieldValue::Strings(vec![all.clone()])));
    fields.push(("features", FieldValue::Features(vec![(all.as_str().into(), FeatureValue::Number(1.0))])));
    let hits = [ResultHit { source: all.as_str().into(), ..hit(fields) }];
    let list = GroupList::Groups {
        label: all.clone(),
        groups: vec![ResultGroup {
            id: GroupId::String(all.clone()),
            relevance: 1.0,
            outputs: vec![(all.clone(), GroupValue::String(all.clone()))],
            lists: Vec::new(),
        }],
        continuation: (Some(all.clone()), Some(all.clone())),
    };
    let root = ResultGroup { id: GroupId::Root, relevance: 1.0, outputs: Vec::new(), lists: vec![list] };
    let groupings = [GroupingResult { root, continuation: all.clone() }];
    let errors = [ErrorMessage { message: Some(all.clone()), ..ErrorMessage::default() }];
    let sources = [SourceGroup { name: &all, hits: &hits, groupings: &groupings }];
    let response = SearchResponse {
        hits: &hits,
        groupings: &groupings,
        errors: &errors,
        sources: &sources,
        coverage: FULL,
        ..SearchResponse::default()
    };
    let mut out = b"\x01before".to_vec();
    write_xml(&response, &RenderOptions::default(), "utf-8", &mut out);
    let xml = String::from_utf8(out).expect("it is UTF-8");
    let xml = xml.strip_prefix("\x01before").expect("what was there stays");
    assert!(xml.chars().all(allowed), "{xml:?}");
    assert!(xml.matches('\u{fffd}').count() > 20 * all.chars().filter(|c| !allowed(*c)).count(), "{xml}");
}

#[test]
fn cbor_says_what_json_says() {
    with_response(|response| {
        let mut out = Vec::new();
        write_cbor(response, &RenderOptions::default(), &mut out);
        let value: serde_json::Value = ciborium::from_reader(out.as_slice()).expect("it is CBOR");
        let expected: serde_json::Value =
            serde_json::from_str(&json(response, &RenderOptions::default())).expect("it is JSON");
        assert_eq!(value, expected);
    });
}

#[test]
fn sources_have_groups_of_their_own() {
    let hits = [hit(Vec::new())];
    let sources = [
        SourceGroup { name: "mail", hits: &hits, groupings: &[] },
        SourceGroup { name: "files", hits: &[], groupings: &[] },
    ];
    let merged = Some((2, 1));
    let response = SearchResponse {
        total_count: 1,
        sources: &sources,
        merged,
        coverage: FULL,
        ..SearchResponse::default()
    };
    let root = ROOT.replace(r#""results":1"#, r#""results":2"#);
    let found = json(&response, &RenderOptions::default());
    let expected = root
        + r#"{"id":"source:mail","relevance":1.0,"source":"mail","children":["#
        + r#"{"id":"index:inbox/0/"#;
    assert!(found.starts_with(&expected), "{found}");
    assert!(found.ends_with(r#"]},{"id":"source:files","relevance":1.0,"source":"files"}]}}"#), "{found}");

    let mut xml = Vec::new();
    write_xml(&response, &RenderOptions::default(), "utf-8", &mut xml);
    let xml = String::from_utf8(xml).expect("it is UTF-8");
    assert!(xml.contains(r#"results-full="1" results="2""#), "{xml}");
    let group = xml.find("<group relevancy=\"1.0\" source=\"mail\">").expect("a group");
    let hit = xml.find("<hit ").expect("a hit");
    let end = xml.find("</group>").expect("its end");
    assert!(group < hit && hit < end, "{xml}");
}
