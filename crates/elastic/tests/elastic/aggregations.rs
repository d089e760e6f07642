//! Aggregations: what is asked, and what is answered, over a handful of documents.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

const MAPPINGS: &str = r#"{"mappings":{"properties":{
    "k":{"type":"keyword"},"n":{"type":"integer"},"x":{"type":"double"},"u":{"type":"unsigned_long"},
    "d":{"type":"date"},"b":{"type":"boolean"},"ip":{"type":"ip"},"t":{"type":"text"},
    "r":{"type":"integer_range"},"dr":{"type":"date_range"}}}}"#;

const DOCUMENTS: [&str; 6] = [
    r#"{"k":"a","n":1,"x":1.5,"u":18446744073709551615,"d":"2024-01-01T01:00:00Z","b":true,"ip":"10.0.0.1","t":"red green"}"#,
    r#"{"k":"a","n":51,"x":2.5,"d":"2024-01-01T02:30:00Z","b":false,"ip":"10.0.1.1","t":"red blue"}"#,
    r#"{"k":"b","n":101,"x":4.0,"d":"2024-01-03T00:00:00Z","b":true,"ip":"192.168.0.1","t":"blue"}"#,
    r#"{"k":["b","c"],"n":151,"d":"2024-02-10T00:00:00Z","t":"red"}"#,
    r#"{"r":{"gte":5,"lt":8},"dr":{"gte":"2024-01-01","lt":"2024-01-03"}}"#,
    r#"{"r":{"gte":7,"lte":7}}"#,
];

fn service(directory: &tempfile::TempDir) -> TestService {
    let service = TestService::open(directory);
    service.get("PUT /a", MAPPINGS);
    for (number, document) in DOCUMENTS.iter().enumerate() {
        service.get(&format!("PUT /a/_doc/{number}"), document);
    }
    service.get("PUT /empty", MAPPINGS);
    service
}

/// An aggregation that needs all documents together, with which those beside it get them together, too.
pub(crate) fn together() -> Value {
    let back = json!({ "back": { "reverse_nested": {} } });
    json!({ "nested": { "path": "c" }, "aggs": { "x": { "sampler": {}, "aggs": back } } })
}

/// Keys and counts of buckets, with the figures in them: `key:count{name=value}`.
pub(crate) fn brief(answer: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let figure = |figure: &Value| match figure.get("value") {
        Some(value) => text(value),
        None => brief(figure),
    };
    let one = |key: Option<&str>, bucket: &Value| {
        let shown = bucket.get("key_as_string").or(bucket.get("key")).map(text);
        let key = key.map(str::to_owned).or(shown).unwrap_or_default();
        let members = bucket.as_object().expect("a bucket is an object").iter();
        let inner = members.filter(|(_, value)| value.is_object()).filter(|(name, _)| *name != "key");
        let inner: Vec<String> = inner.map(|(name, value)| format!("{name}={}", figure(value))).collect();
        let inner = if inner.is_empty() { String::new() } else { format!("{{{}}}", inner.join(" ")) };
        format!("{key}:{}{inner}", bucket["doc_count"])
    };
    match answer.get("buckets") {
        Some(Value::Array(buckets)) => {
            buckets.iter().map(|bucket| one(None, bucket)).collect::<Vec<_>>().join(" ")
        }
        Some(Value::Object(buckets)) => {
            buckets.iter().map(|(key, bucket)| one(Some(key), bucket)).collect::<Vec<_>>().join(" ")
        }
        _ => match (answer.get("doc_count"), answer.get("values")) {
            (Some(_), _) => one(Some(""), answer),
            (None, Some(values)) => values.to_string(),
            (None, None) => answer.to_string(),
        },
    }
}

#[test]
fn each_kind_answers_as_the_table_says() {
    let directory = directory();
    let service = service(&directory);
    for (asked, expected) in [
        // Values: their order, their choice, and documents without one.
        (r#"{"terms":{"field":"k"}}"#, "a:2 b:2 c:1"),
        (r#"{"terms":{"field":"k","order":{"_key":"desc"},"size":2}}"#, "c:1 b:2"),
        (r#"{"terms":{"field":"k","order":[{"_count":"asc"},{"_key":"desc"}]}}"#, "c:1 b:2 a:2"),
        (
            r#"{"terms":{"field":"k","order":{"m":"desc"}},"aggs":{"m":{"max":{"field":"n"}}}}"#,
            "b:2{m=151.0} c:1{m=151.0} a:2{m=51.0}",
        ),
        (
            r#"{"terms":{"field":"k","order":{"s.avg":"asc"},"size":1},"aggs":{"s":{"stats":{"field":"n"}}}}"#,
            r#"a:2{s={"count":2,"min":1.0,"max":51.0,"avg":26.0,"sum":52.0}}"#,
        ),
        (r#"{"terms":{"field":"k","include":["a","c"]}}"#, "a:2 c:1"),
        (r#"{"terms":{"field":"k","include":"[ab]","exclude":["b"]}}"#, "a:2"),
        (r#"{"terms":{"field":"k","missing":"z","min_doc_count":2}}"#, "a:2 b:2 z:2"),
        (r#"{"terms":{"field":"b"}}"#, "true:2 false:1"),
        (r#"{"terms":{"field":"u"}}"#, "18446744073709551615:1"),
        (r#"{"terms":{"field":"d","format":"yyyy-MM","size":1}}"#, "2024-01:1"),
        (r#"{"terms":{"field":"nowhere"}}"#, ""),
        (
            r#"{"terms":{"field":"nowhere","missing":"2024-05-01","value_type":"date"}}"#,
            "2024-05-01T00:00:00.000Z:6",
        ),
        (r#"{"terms":{"field":"ip","order":{"_key":"asc"},"size":2}}"#, "10.0.0.1:1 10.0.1.1:1"),
        (r#"{"rare_terms":{"field":"k"}}"#, "c:1"),
        (r#"{"multi_terms":{"terms":[{"field":"k"},{"field":"b"}]}}"#, "a|false:1 a|true:1 b|true:1"),
        (r#"{"significant_terms":{"field":"k","min_doc_count":1}}"#, ""),
        // Intervals.
        (r#"{"histogram":{"field":"n","interval":50}}"#, "0.0:1 50.0:1 100.0:1 150.0:1"),
        (
            r#"{"histogram":{"field":"n","interval":50,"offset":10,"min_doc_count":1}}"#,
            "-40.0:1 10.0:1 60.0:1 110.0:1",
        ),
        (
            r#"{"histogram":{"field":"x","interval":1,"extended_bounds":{"min":0,"max":5}}}"#,
            "0.0:0 1.0:1 2.0:1 3.0:0 4.0:1 5.0:0",
        ),
        (r#"{"histogram":{"field":"x","interval":1,"hard_bounds":{"min":2,"max":9}}}"#, "2.0:1 3.0:0 4.0:1"),
        (r#"{"histogram":{"field":"r","interval":1}}"#, "5.0:1 6.0:1 7.0:2"),
        (
            r#"{"histogram":{"field":"n","interval":100,"format":"0.0#","order":{"_key":"desc"}}}"#,
            "100.0:2 0.0:2",
        ),
        (r#"{"histogram":{"field":"n","interval":100,"keyed":true}}"#, "0.0:2 100.0:2"),
        (
            r#"{"date_histogram":{"field":"d","calendar_interval":"month","format":"yyyy-MM"}}"#,
            "2024-01:3 2024-02:1",
        ),
        (
            r#"{"date_histogram":{"field":"d","calendar_interval":"day","time_zone":"-02:00","format":"MM-dd","min_doc_count":1}}"#,
            "12-31:1 01-01:1 01-02:1 02-09:1",
        ),
        (
            r#"{"date_histogram":{"field":"d","fixed_interval":"12h","offset":"2h","format":"yyyy-MM-dd HH","min_doc_count":1,"hard_bounds":{"max":"2024-01-20 00"}}}"#,
            "2023-12-31 14:1 2024-01-01 02:1 2024-01-02 14:1",
        ),
        (
            r#"{"date_histogram":{"field":"dr","calendar_interval":"day","format":"MM-dd"}}"#,
            "01-01:1 01-02:1",
        ),
        (
            r#"{"auto_date_histogram":{"field":"d","buckets":3,"format":"yyyy-MM-dd"}}"#,
            "2024-01-01:3 2024-02-01:1",
        ),
        // Ranges.
        (r#"{"range":{"field":"n","ranges":[{"from":50},{"to":50,"key":"low"}]}}"#, "low:1 50.0-*:3"),
        (r#"{"range":{"field":"n","ranges":[{"from":1,"to":51}],"keyed":true}}"#, "1.0-51.0:1"),
        (
            r#"{"date_range":{"field":"d","format":"yyyy-MM-dd","ranges":[{"to":"2024-01-02"},{"from":"2024-01-02||/M"}]}}"#,
            "*-2024-01-02:2 2024-01-01-*:4",
        ),
        (
            r#"{"ip_range":{"field":"ip","ranges":[{"mask":"10.0.0.0/16"},{"from":"10.0.1.0"}]}}"#,
            "10.0.0.0/16:2 10.0.1.0-*:2",
        ),
        // Queries.
        (r#"{"filter":{"term":{"k":"a"}},"aggs":{"s":{"sum":{"field":"n"}}}}"#, ":2{s=52.0}"),
        (r#"{"filters":{"filters":{"one":{"term":{"k":"a"}}},"other_bucket_key":"rest"}}"#, "one:2 rest:4"),
        (r#"{"filters":{"filters":[{"term":{"k":"a"}}],"other_bucket":true}}"#, ":2 :4"),
        (
            r#"{"adjacency_matrix":{"filters":{"b":{"term":{"k":"b"}},"c":{"term":{"k":"c"}}}}}"#,
            "b:2 b&c:1 c:1",
        ),
        (r#"{"missing":{"field":"n"}}"#, ":2"),
        (r#"{"sampler":{"shard_size":1}}"#, ":1"),
        (
            r#"{"composite":{"sources":[{"k":{"terms":{"field":"k","order":"desc"}}}],"size":2}}"#,
            r#"{"k":"c"}:1 {"k":"b"}:2"#,
        ),
        (
            r#"{"composite":{"sources":[{"k":{"terms":{"field":"k"}}},{"n":{"histogram":{"field":"n","interval":100}}}],"after":{"k":"a","n":0}}}"#,
            r#"{"k":"b","n":100.0}:2 {"k":"c","n":100.0}:1"#,
        ),
        (
            r#"{"composite":{"sources":{"d":{"date_histogram":{"field":"d","calendar_interval":"month","format":"yyyy-MM","missing_bucket":true}}}}}"#,
            r#"{"d":null}:2 {"d":"2024-01"}:3 {"d":"2024-02"}:1"#,
        ),
        (
            r#"{"composite":{"sources":[{"d":{"date_histogram":{"field":"d","calendar_interval":"day","time_zone":"-02:00","format":"yyyy-MM-dd"}}}],"after":{"d":"2024-01-01"}}}"#,
            r#"{"d":"2024-01-02"}:1 {"d":"2024-02-09"}:1"#,
        ),
        (
            r#"{"filter":{"term":{"k":"a"}},"aggs":{"c":{"composite":{"sources":[{"n":{"terms":{"field":"n"}}}]}}}}"#,
            r#":2{c={"n":1}:1 {"n":51}:1}"#,
        ),
        // Figures.
        (r#"{"avg":{"field":"n"}}"#, r#"{"value":76.0}"#),
        (r#"{"sum":{"field":"nowhere"}}"#, r#"{"value":0.0}"#),
        (r#"{"avg":{"field":"nowhere","missing":4}}"#, r#"{"value":4.0}"#),
        (
            r#"{"max":{"field":"d"}}"#,
            r#"{"value":1707523200000.0,"value_as_string":"2024-02-10T00:00:00.000Z"}"#,
        ),
        (r#"{"value_count":{"field":"k"}}"#, r#"{"value":5}"#),
        (r#"{"cardinality":{"field":"k"}}"#, r#"{"value":3}"#),
        (r#"{"weighted_avg":{"value":{"field":"n"},"weight":{"field":"x"}}}"#, r#"{"value":66.625}"#),
        (
            r#"{"weighted_avg":{"value":{"field":"n"},"weight":{"field":"x"},"format":"0.0"}}"#,
            r#"{"value":66.625,"value_as_string":"66.6"}"#,
        ),
        (r#"{"percentiles":{"field":"n","percents":[5,25,50]}}"#, r#"{"5.0":1.0,"25.0":26.0,"50.0":76.0}"#),
        (r#"{"percentiles":{"field":"n","percents":[50],"hdr":{}}}"#, r#"{"50.0":51.0302734375}"#),
        (
            r#"{"percentiles":{"field":"nowhere","percents":[50],"keyed":false}}"#,
            r#"[{"key":50.0,"value":null}]"#,
        ),
        (r#"{"percentile_ranks":{"field":"n","values":[76]}}"#, r#"{"76.0":50.0}"#),
        (r#"{"median_absolute_deviation":{"field":"n"}}"#, r#"{"value":50.0}"#),
    ] {
        let body = format!(r#"{{"size":0,"aggs":{{"it":{asked}}}}}"#);
        let answer = service.get("GET /a/_search", &body);
        assert_eq!(brief(&answer["aggregations"]["it"]), expected, "{asked}");
        // The same over documents that there are none of.
        service.get("GET /empty/_search", &body);
    }
}

#[test]
fn spread_of_numbers() {
    let directory = directory();
    let service = service(&directory);
    let body = r#"{"size":0,"aggs":{"it":{"extended_stats":{"field":"n","sigma":1}}}}"#;
    let it = &service.get("GET /a/_search", body)["aggregations"]["it"];
    assert_eq!((&it["sum_of_squares"], &it["variance"]), (&json!(35604.0), &json!(3125.0)));
    assert_eq!(it["variance_sampling"], json!(12_500.0 / 3.0));
    let upper = it["std_deviation_bounds"]["upper"].as_f64().expect("a number");
    assert!((upper - 76.0 - 3125_f64.sqrt()).abs() < 1e-9, "{upper}");
    let empty = &service.get("GET /empty/_search", body)["aggregations"]["it"];
    assert_eq!((&empty["variance"], &empty["std_deviation_bounds"]["upper"]), (&Value::Null, &Value::Null));
}

#[test]
fn pipelines_read_finished_buckets() {
    let directory = directory();
    let service = service(&directory);
    let inside = |pipeline: &str| {
        format!(
            r#"{{"it":{{"histogram":{{"field":"n","interval":50}},
                "aggs":{{"s":{{"sum":{{"field":"n"}}}},"p":{pipeline}}}}}}}"#
        )
    };
    let beside = |pipeline: &str| {
        format!(
            r#"{{"of":{{"histogram":{{"field":"n","interval":50}},"aggs":{{"s":{{"sum":{{"field":"n"}}}}}}}},"it":{pipeline}}}"#
        )
    };
    let sums = ["0.0:1{s=1.0", "50.0:1{s=51.0", "100.0:1{s=101.0", "150.0:1{s=151.0"];
    let with = |figures: [&str; 4]| {
        let one = |(sum, figure): (&str, &str)| match figure {
            "" => format!("{sum}}}"),
            figure => format!("{sum} p={figure}}}"),
        };
        sums.into_iter().zip(figures).map(one).collect::<Vec<_>>().join(" ")
    };
    for (asked, expected) in [
        (inside(r#"{"derivative":{"buckets_path":"s"}}"#), with(["", "50.0", "50.0", "50.0"])),
        (inside(r#"{"cumulative_sum":{"buckets_path":"s"}}"#), with(["1.0", "52.0", "153.0", "304.0"])),
        (inside(r#"{"cumulative_sum":{"buckets_path":"_count"}}"#), with(["1.0", "2.0", "3.0", "4.0"])),
        (inside(r#"{"serial_diff":{"buckets_path":"s","lag":2}}"#), with(["", "", "100.0", "100.0"])),
        (
            inside(r#"{"moving_fn":{"buckets_path":"s","window":2,"script":"MovingFunctions.max(values)"}}"#),
            with(["null", "1.0", "51.0", "101.0"]),
        ),
        (
            inside(r#"{"bucket_sort":{"sort":[{"s":{"order":"desc"}}],"from":1,"size":2}}"#),
            format!("{}}} {}}}", sums[2], sums[1]),
        ),
        (beside(r#"{"avg_bucket":{"buckets_path":"of>s"}}"#), r#"{"value":76.0}"#.to_owned()),
        (
            beside(r#"{"max_bucket":{"buckets_path":"of>s.value"}}"#),
            r#"{"value":151.0,"keys":["150.0"]}"#.to_owned(),
        ),
        (beside(r#"{"sum_bucket":{"buckets_path":"of._count"}}"#), r#"{"value":4.0}"#.to_owned()),
        (
            beside(r#"{"stats_bucket":{"buckets_path":"of>s"}}"#),
            r#"{"count":4,"min":1.0,"max":151.0,"avg":76.0,"sum":304.0}"#.to_owned(),
        ),
        (
            beside(r#"{"percentiles_bucket":{"buckets_path":"of>s","percents":[50]}}"#),
            r#"{"50.0":51.0}"#.to_owned(),
        ),
    ] {
        let body = format!(r#"{{"size":0,"aggs":{asked}}}"#);
        let answer = service.get("GET /a/_search", &body);
        assert_eq!(brief(&answer["aggregations"]["it"]), expected, "{asked}");
    }
}

#[test]
fn pipelines_read_those_of_others_which_some_buckets_lack() {
    let directory = directory();
    let service = service(&directory);
    // A pipeline may stand before the one that it reads.
    let inner = r#""aggs":{"s":{"sum":{"field":"n"}},"second":{"derivative":{"buckets_path":"first"}},
        "first":{"derivative":{"buckets_path":"s"}},"total":{"cumulative_sum":{"buckets_path":"first"}}"#;
    let histogram = r#""histogram":{"field":"n","interval":50}"#;
    let body = format!(
        r#"{{"size":0,"aggs":{{"of":{{{histogram},{inner}}}}},"most":{{"max_bucket":{{"buckets_path":"of>first"}}}},
            "sorted":{{{histogram},{inner},"b":{{"bucket_sort":{{"sort":[{{"first":"desc"}}],"size":2}}}}}}}}}}}}"#
    );
    let answer = &service.get("GET /a/_search", &body)["aggregations"];
    let figures = |name: &str| -> Vec<Value> {
        let buckets = answer["of"]["buckets"].as_array().expect("buckets").iter();
        buckets.map(|bucket| bucket[name]["value"].clone()).collect()
    };
    assert_eq!(figures("first"), [json!(null), json!(50.0), json!(50.0), json!(50.0)]);
    assert_eq!(figures("second"), [json!(null), json!(null), json!(0.0), json!(0.0)]);
    assert_eq!(figures("total"), [json!(0.0), json!(50.0), json!(100.0), json!(150.0)]);
    assert_eq!(answer["most"], json!({ "value": 50.0, "keys": ["50.0", "100.0", "150.0"] }));
    assert_eq!(answer["sorted"]["buckets"].as_array().map(Vec::len), Some(2), "{answer}");
    let around = format!(
        r#"{{"size":0,"aggs":{{"of":{{{histogram},"aggs":{{
            "x":{{"derivative":{{"buckets_path":"y"}}}},"y":{{"derivative":{{"buckets_path":"x"}}}}}}}}}}}}"#
    );
    assert_eq!(service.ask("GET /a/_search", &around).0, 200, "a circle has no figures");
}

#[test]
fn what_cannot_be_aggregated_is_refused() {
    let directory = directory();
    let service = service(&directory);
    for (asked, reason) in [
        (r#"{"what":{}}"#, "Unknown aggregation type [what]; docs/elastic.md lists what there is"),
        (r#"{"terms":{"field":"k","surprise":1}}"#, "[terms] unknown field [surprise]"),
        (r#"{"terms":{}}"#, "Required one of fields [field, script]"),
        (r#"{"terms":{"field":"t"}}"#, "Text fields are not optimised"),
        (r#"{"terms":{"field":"k","order":{"nothing":"asc"}}}"#, "Invalid aggregation order path [nothing]"),
        (r#"{"terms":{"field":"k","size":0}}"#, "[size] must be greater than 0"),
        (r#"{"terms":{"field":"n","include":"1.*"}}"#, "chooses texts"),
        (r#"{"avg":{"field":"k"}}"#, "Field [k] of type [keyword] is not supported for aggregation [avg]"),
        (r#"{"histogram":{"field":"n","interval":0}}"#, "[interval] must be >0"),
        (r#"{"histogram":{"field":"n","interval":0.0001}}"#, "Trying to create too many buckets"),
        (
            r#"{"auto_date_histogram":{"field":"d","buckets":1000000000}}"#,
            "Trying to create too many buckets",
        ),
        (r#"{"date_histogram":{"field":"d"}}"#, "Invalid interval specified"),
        (r#"{"date_histogram":{"field":"d","calendar_interval":"3d"}}"#, "calendar interval"),
        (r#"{"date_histogram":{"field":"d","fixed_interval":"1M"}}"#, "unit is missing"),
        (r#"{"range":{"field":"n","ranges":[]}}"#, "No [ranges] specified"),
        (r#"{"ip_range":{"field":"ip","ranges":[{"mask":"10/99"}]}}"#, "invalid CIDR mask"),
        (r#"{"percentiles":{"field":"n","percents":[101]}}"#, "percent must be in [0,100]"),
        (
            r#"{"percentiles":{"field":"n","hdr":{"number_of_significant_value_digits":6}}}"#,
            "between 0 and 5",
        ),
        (r#"{"composite":{"sources":[]}}"#, "cannot be null or empty"),
        (
            r#"{"terms":{"field":"k"},"aggs":{"c":{"composite":{"sources":[{"n":{"terms":{"field":"n"}}}]}}}}"#,
            "[composite] aggregation cannot be used with a parent aggregation",
        ),
        (r#"{"terms":{"field":"k"},"aggs":{"g":{"global":{}}}}"#, "cannot be used as sub-aggregation"),
        (r#"{"avg":{"field":"n"},"aggs":{"m":{"max":{"field":"n"}}}}"#, "cannot accept sub-aggregations"),
        (r#"{"top_hits":{"size":101}}"#, "Top hits result window is too large"),
        (r#"{"avg_bucket":{"buckets_path":"none>x"}}"#, "No aggregation found for path [none>x]"),
        (r#"{"derivative":{"buckets_path":"x"}}"#, "must be declared inside of another aggregation"),
    ] {
        let body = format!(r#"{{"size":0,"aggs":{{"it":{asked}}}}}"#);
        let (status, answer) = service.ask("GET /a/_search", &body);
        let found = answer["error"]["reason"].as_str().unwrap_or_default();
        assert!(status == 400 && found.contains(reason), "{asked}: {status} {answer}");
    }
    service.get("PUT /_cluster/settings", r#"{"transient":{"search.max_buckets":2}}"#);
    let (status, answer) = service.ask("GET /a/_search", r#"{"aggs":{"it":{"terms":{"field":"k"}}}}"#);
    assert!(status == 400 && answer.to_string().contains("but was [3]"), "{answer}");
}

#[test]
fn everything_is_read_where_the_query_does_not_bind() {
    let directory = directory();
    let service = service(&directory);
    let body = r#"{"size":0,"query":{"term":{"k":"a"}},"aggs":{
        "all":{"global":{},"aggs":{"n":{"value_count":{"field":"n"}}}},
        "k":{"terms":{"field":"k","min_doc_count":0}},
        "s":{"significant_terms":{"field":"k","min_doc_count":1}},
        "w":{"significant_text":{"field":"t","min_doc_count":1}},
        "best":{"top_hits":{"size":1,"sort":[{"n":"desc"}],"_source":"n"}}}}"#;
    let answer = &service.get("GET /a/_search?typed_keys", body)["aggregations"];
    assert_eq!(brief(&answer["global#all"]), ":6{value_count#n=4}");
    assert_eq!(brief(&answer["sterms#k"]), "a:2 b:0 c:0");
    assert_eq!(brief(&answer["sigsterms#s"]), "a:2");
    assert_eq!(answer["sigsterms#s"]["bg_count"], 6);
    assert_eq!(brief(&answer["sigsterms#w"]), "green:1 red:2 blue:1");
    let best = &answer["top_hits#best"]["hits"];
    assert_eq!((&best["total"]["value"], &best["hits"][0]["_source"]), (&json!(2), &json!({ "n": 51 })));
}

#[test]
fn the_largest_numbers_break_nothing() {
    let directory = directory();
    let service = service(&directory);
    let most = i64::MAX;
    let zeros = "0".repeat(100_000);
    for body in [
        format!(
            r#"{{"aggs":{{"h":{{"histogram":{{"field":"n","interval":50}},"aggs":{{"m":{{"moving_fn":{{
            "buckets_path":"_count","window":{most},"shift":{most},"script":"MovingFunctions.sum(values)"}}}}}}}}}}}}"#
        ),
        format!(r#"{{"aggs":{{"a":{{"avg":{{"field":"n","format":"{zeros}.{zeros}"}}}}}}}}"#),
        format!(
            r#"{{"aggs":{{"d":{{"date_histogram":{{"field":"d","calendar_interval":"day","offset":"{most}"}}}}}}}}"#
        ),
        format!(r#"{{"query":{{"range":{{"r":{{"gt":"{}"}}}}}}}}"#, i128::MAX),
    ] {
        service.get("GET /a/_search", &body);
    }
}

/// Aggregations that take documents one by one answer as those over all documents do, which run beside one
/// that needs all values.
#[test]
fn documents_one_by_one_and_together_give_the_same() {
    let directory = directory();
    let service = service(&directory);
    service.get(
        "PUT /n",
        r#"{"mappings":{"properties":{"k":{"type":"keyword"},"n":{"type":"integer"},"c":{"type":"nested","properties":{
            "stars":{"type":"integer"}}}}}}"#,
    );
    service.get("PUT /n/_doc/1", r#"{"k":"a","n":7,"c":[{"stars":5},{"stars":1}]}"#);
    service.get("PUT /n/_doc/2", r#"{"k":"d","n":-3,"c":{"stars":5}}"#);
    let inside = json!({
        "s": { "stats": { "field": "n" } }, "p": { "percentiles": { "field": "n" } },
        "e": { "extended_stats": { "field": "n" } }, "c": { "cardinality": { "field": "k" } },
        "v": { "value_count": { "field": "n" } }, "t": { "top_hits": { "size": 1, "sort": [{ "n": "desc" }] } },
        "m": { "median_absolute_deviation": { "field": "n" } },
        "w": { "weighted_avg": { "value": { "field": "n" }, "weight": { "field": "x" } } },
    });
    let range = json!({ "field": "n", "ranges": [{ "to": 60 }, { "from": 50, "key": "high" }] });
    for kind in [
        json!({ "terms": { "field": "k" } }),
        json!({ "terms": { "field": "k", "order": { "s.max": "asc" }, "size": 2 } }),
        json!({ "terms": { "field": "k", "missing": "none", "include": ["a", "none"], "min_doc_count": 2 } }),
        json!({ "terms": { "field": "b" } }),
        json!({ "histogram": { "field": "n", "interval": 25 } }),
        json!({ "histogram": { "field": "r", "interval": 2, "min_doc_count": 1 } }),
        json!({ "histogram": { "field": "n", "interval": 50, "extended_bounds": { "min": -100, "max": 300 } } }),
        json!({ "date_histogram": { "field": "d", "calendar_interval": "day" } }),
        json!({ "date_histogram": { "field": "dr", "fixed_interval": "12h", "keyed": true } }),
        json!({ "range": range }),
        json!({ "date_range": { "field": "d", "ranges": [{ "to": "2024-01-02" }, { "from": "2024-01-02" }] } }),
        json!({ "filter": { "range": { "n": { "gt": 50 } } } }),
        json!({ "filters": { "filters": { "a": { "term": { "k": "a" } }, "b": { "term": { "k": "b" } } }, "other_bucket": true } }),
        json!({ "filters": { "filters": [{ "term": { "k": "a" } }, { "match_none": {} }] } }),
        json!({ "rare_terms": { "field": "k", "max_doc_count": 2 } }),
        json!({ "rare_terms": { "field": "n", "exclude": [51] } }),
        json!({ "adjacency_matrix": { "separator": "+", "filters": {
            "c": { "term": { "k": "c" } }, "a": { "term": { "k": "a" } }, "n": { "range": { "n": { "gt": 50 } } },
            "none": { "match_none": {} },
        } } }),
        json!({ "global": {} }),
        json!({ "missing": { "field": "k" } }),
        json!({ "nested": { "path": "c" } }),
        json!({ "multi_terms": { "terms": [{ "field": "k" }, { "field": "b", "missing": false }], "size": 3 } }),
        json!({ "composite": { "sources": [{ "k": { "terms": { "field": "k" } } }], "size": 2 } }),
        json!({ "composite": { "size": 3, "after": { "n": 51, "k": "a" }, "sources": [
            { "n": { "terms": { "field": "n", "order": "desc" } } },
            { "k": { "terms": { "field": "k", "missing_bucket": true } } },
        ] } }),
        json!({ "composite": { "sources": [
            { "d": { "date_histogram": { "field": "d", "calendar_interval": "month" } } },
            { "n": { "histogram": { "field": "n", "interval": 60 } } },
        ] } }),
    ] {
        let inner = json!({ "again": { "terms": { "field": "k" }, "aggs": inside } });
        for within in [json!({}), inside.clone(), inner] {
            // An order needs its figure.
            if kind.to_string().contains("s.max") && within.get("s").is_none() {
                continue;
            }
            let mut asked = kind.clone();
            asked["aggs"] = within;
            let ask = |aggregations: Value| {
                let body = json!({ "size": 0, "aggs": aggregations }).to_string();
                service.get("GET /a,n,empty/_search", &body)["aggregations"]["x"].clone()
            };
            let alone = ask(json!({ "x": asked }));
            let other = together();
            assert_eq!(alone, ask(json!({ "x": asked, "other": other })), "{asked}");
        }
    }
}

/// Those that wait for the last document, or compare with all documents: alone, in buckets, and in each
/// other.
#[test]
fn documents_that_wait_and_that_are_compared_give_the_same() {
    let directory = directory();
    let service = service(&directory);
    // There are seconds between the first ones, and minutes between the last ones.
    let line = |n: i64| {
        let key = ["a", "b", "c", "d"][n as usize / 3 % 4];
        let document = json!({
            "k": key, "n": n % 50, "d": 1_704_067_200_000 + n * n * 1_000,
            "t": format!("red w{}", n % 11),
        });
        format!("{{\"index\":{{\"_id\":\"n{n}\"}}}}\n{document}\n")
    };
    assert_eq!(service.get("POST /a/_bulk", &(0..600).map(line).collect::<String>())["errors"], false);
    // Points in one second, and in several units.
    service.get(
        "PUT /a/_doc/several",
        r#"{"k":"b","n":3,"d":["2024-01-01T01:00:00Z","2024-01-01T01:00:00.500Z"]}"#,
    );
    service.get(
        "PUT /a/_doc/far",
        r#"{"k":"a","n":4,"d":["2024-01-01T01:00:00Z","2024-01-01T01:00:09Z","2024-01-03"]}"#,
    );
    let inside = json!({
        "s": { "stats": { "field": "n" } }, "p": { "percentiles": { "field": "n" } },
        "c": { "cardinality": { "field": "k" } }, "v": { "value_count": { "field": "d" } },
        "t": { "top_hits": { "size": 2, "sort": [{ "n": "desc" }], "_source": false } },
        "h": { "histogram": { "field": "n", "interval": 20 } }, "k": { "terms": { "field": "k" } },
    });
    let around = [
        json!({ "filter": { "match_all": {} } }),
        json!({ "terms": { "field": "k" } }),
        json!({ "date_histogram": { "field": "d", "fixed_interval": "2h" } }),
        json!({ "auto_date_histogram": { "field": "d", "buckets": 4 } }),
        json!({ "sampler": { "shard_size": 40 } }),
        json!({ "global": {} }),
    ];
    for kind in [
        json!({ "sampler": { "shard_size": 7 } }),
        json!({ "sampler": { "shard_size": 0 } }),
        json!({ "significant_terms": { "field": "k", "min_doc_count": 1 } }),
        json!({ "significant_terms": { "field": "n", "background_filter": { "range": { "n": { "lt": 30 } } } } }),
        json!({ "significant_text": { "field": "t", "size": 3 } }),
        json!({ "auto_date_histogram": { "field": "d" } }),
        json!({ "auto_date_histogram": { "field": "d", "buckets": 3, "time_zone": "+05:30" } }),
        json!({ "auto_date_histogram": { "field": "d", "minimum_interval": "day" } }),
        json!({ "auto_date_histogram": { "field": "d", "buckets": 200 } }),
    ] {
        for around in &around {
            let mut asked = around.clone();
            asked["aggs"] = json!({ "x": kind });
            asked["aggs"]["x"]["aggs"] = inside.clone();
            let ask = |aggregations: Value| {
                let query = json!({ "range": { "n": { "lt": 20 } } });
                let body = json!({ "size": 0, "query": query, "aggs": aggregations }).to_string();
                service.get("GET /a,empty/_search", &body)["aggregations"]["o"].clone()
            };
            let alone = ask(json!({ "o": asked }));
            let other = together();
            assert_eq!(alone, ask(json!({ "o": asked, "other": other })), "{asked}");
        }
    }
}

#[test]
fn aggregations_keep_no_documents() {
    let directory = directory();
    let service = TestService::open_small(&directory, 4 << 20);
    let text = "x".repeat(4_000);
    let lines = (0..400).map(|n| {
        let document = json!({ "n": n, "k": n % 7, "d": n * 3_600_000_i64, "t": text });
        format!("{{\"index\":{{\"_index\":\"a\",\"_id\":\"{n}\"}}}}\n{document}\n")
    });
    service.get("PUT /a", r#"{"mappings":{"properties":{"d":{"type":"date","format":"epoch_millis"}}}}"#);
    assert_eq!(service.get("POST /_bulk", &lines.collect::<String>())["errors"], false);
    let body = r#"{"size":0,"aggs":{
        "k":{"terms":{"field":"k","size":2},"aggs":{
            "latest":{"top_hits":{"size":1,"sort":[{"n":"desc"}],"_source":["n"]}},"n":{"sum":{"field":"n"}}}},
        "days":{"date_histogram":{"field":"d","calendar_interval":"day"},"aggs":{"p":{"percentiles":{"field":"n"}}}},
        "best":{"max_bucket":{"buckets_path":"k>n"}}}}"#;
    let answer = &service.get("GET /a/_search", body)["aggregations"];
    let first = &answer["k"]["buckets"][0];
    assert_eq!((&first["key"], &first["doc_count"]), (&json!(0), &json!(58)));
    assert_eq!(first["latest"]["hits"]["hits"][0]["_source"], json!({ "n": 399 }));
    assert_eq!(first["latest"]["hits"]["total"]["value"], 58);
    assert_eq!(answer["k"]["sum_other_doc_count"], 400 - 58 - 57);
    assert_eq!(answer["days"]["buckets"].as_array().map(Vec::len), Some(17));
    assert_eq!(answer["best"]["value"], first["n"]["value"]);
    // Those of all documents, too, and those that compare sets of them.
    let body = r#"{"size":0,"query":{"range":{"n":{"lt":200}}},"aggs":{
        "all":{"global":{},"aggs":{"n":{"sum":{"field":"n"}}}},
        "rare":{"rare_terms":{"field":"n","max_doc_count":1},"aggs":{"t":{"value_count":{"field":"d"}}}},
        "pairs":{"adjacency_matrix":{"filters":{
            "three":{"term":{"k":3}},"low":{"range":{"n":{"lt":70}}},"none":{"term":{"k":9}}}},
            "aggs":{"n":{"max":{"field":"n"}}}}}}"#;
    let answer = &service.get("GET /a/_search", body)["aggregations"];
    assert_eq!((&answer["all"]["doc_count"], &answer["all"]["n"]["value"]), (&json!(400), &json!(79_800.0)));
    assert_eq!(answer["rare"]["buckets"].as_array().map(Vec::len), Some(200));
    let pairs = answer["pairs"]["buckets"].as_array().expect("buckets").iter();
    let pairs: Vec<String> =
        pairs.map(|pair| format!("{}:{}:{}", pair["key"], pair["doc_count"], pair["n"]["value"])).collect();
    assert_eq!(pairs, [r#""low":70:69.0"#, r#""low&three":10:66.0"#, r#""three":29:199.0"#]);
    // Those that keep some, or wait for the last one.
    let body = r#"{"size":0,"query":{"range":{"n":{"lt":200}}},"aggs":{
        "some":{"sampler":{"shard_size":10},"aggs":{"n":{"max":{"field":"n"}}}},
        "low":{"filter":{"range":{"n":{"lt":3}}},"aggs":{"k":{"significant_terms":{"field":"k","min_doc_count":1}}}},
        "all":{"global":{},"aggs":{"some":{"filter":{"range":{"n":{"lt":3}}},
            "aggs":{"k":{"significant_terms":{"field":"k","min_doc_count":1}}}}}},
        "days":{"auto_date_histogram":{"field":"d","buckets":9},"aggs":{"n":{"min":{"field":"n"}}}}}}"#;
    let answer = &service.get("GET /a/_search", body)["aggregations"];
    assert_eq!((&answer["some"]["doc_count"], &answer["some"]["n"]["value"]), (&json!(10), &json!(9.0)));
    for low in [&answer["low"], &answer["all"]["some"]] {
        assert_eq!((&low["k"]["bg_count"], brief(&low["k"])), (&json!(400), "1:1 2:1 0:1".into()));
    }
    assert_eq!(
        (&answer["days"]["interval"], &answer["days"]["buckets"][8]["n"]["value"]),
        (&json!("1d"), &json!(192.0))
    );
    // One that needs all documents together has to keep them.
    let compared = json!({ "size": 0, "aggs": { "k": together() } }).to_string();
    let (status, answer) = service.ask("GET /a/_search", &compared);
    assert_eq!((status, &answer["error"]["type"]), (400, &json!("illegal_argument_exception")), "{answer}");
}
