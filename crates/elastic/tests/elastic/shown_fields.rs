//! Values that hits show beside their source: `fields` and `docvalue_fields`.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

#[test]
fn values_have_the_types_of_their_fields() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{
            "k":{"type":"keyword","ignore_above":5},"t":{"type":"text","fields":{"raw":{"type":"keyword"}}},
            "n":{"type":"long"},"x":{"type":"double"},"b":{"type":"boolean"},"ip":{"type":"ip"},
            "d":{"type":"date"},"bad":{"type":"integer","ignore_malformed":true},
            "u":{"type":"nested","properties":{"first":{"type":"keyword"},"last":{"type":"text"},
                "deep":{"type":"nested","properties":{"z":{"type":"long"}}}}}}}}"#,
    );
    service.get(
        "PUT /a/_doc/1",
        r#"{"k":["b",7,"longer","b","a"],"t":"One two","n":["12",3.9,3],"x":[2,"1.5"],"b":["true",false,""],
            "ip":["10.0.0.2","9.0.0.1"],"d":["2024-05-01","2024-01-01T10:00:00Z"],"bad":["x",1],
            "u":[{"first":"Ann","deep":[{"z":1},{"y":0},{"z":"2"}]},{"last":"Lee"},{"other":1}]}"#,
    );
    let fields =
        |body: Value| service.get("POST /a/_search", &body.to_string())["hits"]["hits"][0]["fields"].take();
    for (asked, shown, values) in [
        ("k", json!(["b", "7", "b", "a"]), Some(json!(["7", "a", "b"]))),
        ("t", json!(["One two"]), None),
        ("t.raw", json!(["One two"]), Some(json!(["One two"]))),
        ("n", json!([12, 3, 3]), Some(json!([3, 3, 12]))),
        ("x", json!([2.0, 1.5]), Some(json!([1.5, 2.0]))),
        ("b", json!([true, false, false]), Some(json!([false, false, true]))),
        ("ip", json!(["10.0.0.2", "9.0.0.1"]), Some(json!(["9.0.0.1", "10.0.0.2"]))),
        (
            "d",
            json!(["2024-05-01T00:00:00.000Z", "2024-01-01T10:00:00.000Z"]),
            Some(json!(["2024-01-01T10:00:00.000Z", "2024-05-01T00:00:00.000Z"])),
        ),
        ("bad", json!([1]), Some(json!([1]))),
    ] {
        assert_eq!(fields(json!({ "fields": [asked] })), json!({ asked: shown }), "{asked}");
        let of_values = json!({ "docvalue_fields": [asked] });
        match values {
            Some(values) => assert_eq!(fields(of_values), json!({ asked: values }), "{asked}"),
            None => {
                let (status, answer) = service.ask("POST /a/_search", &of_values.to_string());
                assert!(status == 400 && answer.to_string().contains("Text fields"), "{asked}: {answer}");
            }
        }
    }
    let whole =
        json!({ "u": [{ "first": ["Ann"], "deep": [{ "z": [1] }, { "z": [2] }] }, { "last": ["Lee"] }] });
    for (asked, expected) in [
        (
            json!(["u.*"]),
            json!({ "u": [
                { "first": ["Ann"], "deep": [{ "z": [1] }, { "y": [0] }, { "z": [2] }] },
                { "last": ["Lee"] },
                { "other": [1] },
            ] }),
        ),
        (json!(["u.first", "u.last", "u.deep.z"]), whole),
        (json!(["u.deep.z"]), json!({ "u": [{ "deep": [{ "z": [1] }, { "z": [2] }] }] })),
        (json!(["u.last", "n"]), json!({ "u": [{ "last": ["Lee"] }], "n": [12, 3, 3] })),
        (json!(["u", "u.none"]), Value::Null),
    ] {
        assert_eq!(fields(json!({ "fields": asked })), expected, "{asked}");
    }
}

#[test]
fn fields_are_shown_once_and_are_asked_for_in_few_patterns() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", r#"{"mappings":{"properties":{"n":{"type":"long"},"d":{"type":"date"}}}}"#);
    service.get("PUT /a/_doc/1", r#"{"n":[2,1],"d":"2024-05-01"}"#);
    let formats =
        json!(["n", { "field": "d", "format": "yyyy" }, "n*", "*", { "field": "d", "format": "MM" }, "n"]);
    // An index allows 100 of the others by default.
    for (member, numbers, most) in [("fields", json!([2, 1]), 1_000), ("docvalue_fields", json!([1, 2]), 100)]
    {
        let ask = |asked: &Value| service.ask("POST /a/_search", &json!({ member: asked }).to_string());
        let (status, answer) = ask(&formats);
        assert_eq!(
            (status, &answer["hits"]["hits"][0]["fields"]),
            (200, &json!({ "n": numbers, "d": ["05"] })),
            "the last format counts"
        );
        let (status, answer) = ask(&json!(vec!["n"; most]));
        assert_eq!(status, 200, "{answer}");
        let (status, answer) = ask(&json!(vec!["n"; 1_001]));
        assert!(status == 400 && answer.to_string().contains("names and patterns"), "{member}: {answer}");
        let (status, answer) = service.ask("POST /a/_search?docvalue_fields=n,n", "{}");
        assert_eq!(status, 200, "{answer}");
    }
    let many = format!("POST /a/_search?docvalue_fields={}", vec!["n"; 1_001].join(","));
    assert_eq!(service.ask(&many, "").0, 400);
}
