//! Tests of aggregations over documents that no node has: of their end, and of their memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millrace_plan::QueryMemory;

use super::*;
use crate::catalog::IndexEntry;
use crate::read_fields::ReadFields;
use crate::request::ElasticParameters;
use crate::scan_limit::ScanLimit;
use crate::storage::StoredSource;

fn members(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

fn index() -> OpenIndex {
    let entry = IndexEntry {
        name: "a".to_owned(),
        uuid: String::new(),
        number: 1,
        created_ms: 0,
        settings: BTreeMap::new(),
        mappings: members(json!({ "properties": {
            "n": { "type": "long" }, "t": { "type": "keyword" }, "w": { "type": "text" },
            "d": { "type": "date" }, "ip": { "type": "ip" },
            "p": { "type": "nested", "properties": { "q": { "type": "long" } } },
        } })),
        aliases: BTreeMap::new(),
        is_closed: false,
        seq_no_reserved: 0,
        time_field: None,
        observed: Map::new(),
    };
    OpenIndex::new(entry, Arc::default())
}

fn hit(index: &OpenIndex) -> SearchHit {
    let document = json!({
        "n": 1, "t": "x", "w": "some words", "d": "2024-03-04", "ip": "10.0.0.1", "p": [{ "q": 1 }],
    });
    let stored = StoredSource {
        id: "1".to_owned(),
        source: document.to_string().into(),
        version: 1,
        seq_no: 0,
        routing: None,
    };
    SearchHit {
        index: index.clone(),
        ordinal: 0,
        stored,
        document: members(document),
        formed: None,
        score: 1.0,
        matched: Vec::new(),
        sort: Vec::new(),
        place: None,
        collapsed: None,
        inner: Map::new(),
        row: None,
    }
}

fn limit_of(body: Value) -> ScanLimit {
    ScanLimit::parse(&members(body), &ElasticParameters::default()).expect("the limit is well-formed")
}

fn scope<'s>(
    indexes: &'s [OpenIndex],
    hits: &'s [&'s SearchHit],
    pace: &'s SearchPace<'s>,
    memory: &'s QueryMemory,
) -> AggregationScope<'s> {
    AggregationScope {
        indexes,
        query: &SearchQuery::All,
        matching: hits,
        everything: hits,
        names_types: false,
        total_as_number: false,
        buckets: Cell::new(0),
        buckets_max: BUCKETS_MAX,
        pace,
        memory,
    }
}

#[test]
fn aggregations_of_each_kind_end_with_their_client_and_their_time() {
    let index = index();
    let (hit, indexes) = (hit(&index), [index]);
    let hits = [&hit];
    let figures = "avg sum min max stats extended_stats value_count cardinality percentiles percentile_ranks \
                   median_absolute_deviation";
    let figures = figures.split_whitespace().map(|kind| {
        let values = (kind == "percentile_ranks").then(|| ("values".to_owned(), json!([1])));
        let field = ("field".to_owned(), json!("n"));
        (kind, Value::Object([field].into_iter().chain(values).collect()))
    });
    let one = json!({ "one": { "term": { "n": 1 } } });
    let others = [
        ("terms", json!({ "field": "t" })),
        ("terms", json!({ "field": "t", "min_doc_count": 0 })),
        ("rare_terms", json!({ "field": "t" })),
        ("significant_terms", json!({ "field": "t" })),
        (
            "significant_terms",
            json!({ "field": "t", "background_filter": { "range": { "n": { "gte": 1 } } } }),
        ),
        ("significant_text", json!({ "field": "w" })),
        ("multi_terms", json!({ "terms": [{ "field": "t" }, { "field": "n" }] })),
        ("histogram", json!({ "field": "n", "interval": 1 })),
        ("date_histogram", json!({ "field": "d", "fixed_interval": "1d" })),
        ("auto_date_histogram", json!({ "field": "d" })),
        ("range", json!({ "field": "n", "ranges": [{ "to": 5 }] })),
        ("date_range", json!({ "field": "d", "ranges": [{ "to": "2025-01-01" }] })),
        ("ip_range", json!({ "field": "ip", "ranges": [{ "to": "10.0.0.9" }] })),
        ("filter", json!({ "term": { "n": 1 } })),
        ("filters", json!({ "filters": one })),
        ("adjacency_matrix", json!({ "filters": one })),
        ("missing", json!({ "field": "n" })),
        ("nested", json!({ "path": "p" })),
        ("global", json!({})),
        ("sampler", json!({})),
        ("composite", json!({ "sources": [{ "t": { "terms": { "field": "t" } } }] })),
        ("weighted_avg", json!({ "value": { "field": "n" }, "weight": { "field": "n" } })),
        ("top_hits", json!({})),
        ("top_metrics", json!({ "metrics": { "field": "n" }, "sort": "n" })),
    ];
    let requested: Vec<(&str, Value)> = figures.chain(others).collect();
    for (kind, _) in options::OPTIONS {
        let is_asked = requested.iter().any(|(one, _)| one == kind);
        // This one is only inside of `nested`, which ends first.
        assert!(
            is_asked || PipelineKind::of(kind).is_some() || *kind == "reverse_nested",
            "{kind} is tested"
        );
    }
    let memory = QueryMemory::standalone();
    let (endless, over) = (limit_of(json!({})), limit_of(json!({ "timeout": "0" })));
    let (here, gone) = (AtomicBool::new(false), AtomicBool::new(true));
    for (kind, options) in requested {
        let mut body = Map::from_iter([(kind.to_owned(), options)]);
        if kind == "global" {
            // Work on its documents is that of those inside.
            body.insert("aggs".to_owned(), json!({ "s": { "sum": { "field": "n" } } }));
        }
        let requested = parse(&json!({ "a": body })).expect("the aggregation is well-formed");
        let run_over = |hits: &[&SearchHit], pace: &SearchPace<'_>| {
            let scope = scope(&indexes, hits, pace, &memory);
            scope.run(&requested, hits).map_err(|error| error.status())
        };
        let run = |pace: &SearchPace<'_>| run_over(&hits, pace);
        let mut fields = ReadFields::NONE;
        fields.add_aggregations(&indexes[0].entry.mappings, &requested);
        let reads_all = ["nested", "top_hits", "top_metrics"].contains(&kind);
        assert_eq!(fields == ReadFields::All, reads_all, "{kind}");
        let document = hit.stored.source.members(&fields).expect("a document");
        let by_fields = SearchHit { document, ..hit.clone() };
        let endless_pace = SearchPace::begin(&endless, &here);
        assert_eq!(
            run_over(&[&by_fields], &endless_pace),
            run(&endless_pace),
            "{kind} reads its fields alone"
        );
        let pace = SearchPace::begin(&endless, &here);
        assert!(run(&pace).is_ok() && !pace.is_over(), "{kind}: there is time");
        let pace = SearchPace::begin(&over, &here);
        assert!(run(&pace).is_ok() && pace.is_over(), "{kind}: the time is over");
        assert_eq!(run(&SearchPace::begin(&endless, &gone)).err(), Some(408), "{kind}: the client has left");
    }
}

#[test]
fn composite_has_memory_for_the_buckets_that_it_shows() {
    let index = index();
    let indexes = [index.clone()];
    let requested = json!({ "c": {
        "composite": { "size": 10, "sources": [{ "n": { "terms": { "field": "n" } } }] },
        "aggs": { "h": { "top_hits": { "size": 1 } }, "t": { "cardinality": { "field": "t" } } },
    } });
    let requested = parse(&requested).expect("the aggregation is well-formed");
    let (endless, here) = (limit_of(json!({})), AtomicBool::new(false));
    let pace = SearchPace::begin(&endless, &here);
    let memory = QueryMemory::standalone();
    let scope = scope(&indexes, &[], &pace, &memory);
    let streamed = StreamedAggregations::new(&requested, &scope, &memory).expect("there is memory");
    let mut streamed = streamed.expect("it keeps no documents");
    let mut add = |n: i64| {
        let mut hit = hit(&index);
        hit.document.insert("n".to_owned(), n.into());
        streamed.add(&hit).expect("there is memory");
        memory.taken()
    };
    let mut taken = 0;
    for n in (90..100).rev() {
        taken = add(n);
    }
    for n in (0..90).rev() {
        assert_eq!(add(n), taken, "{n} is before all others, of which one is dropped");
    }
    for n in 10..200 {
        assert_eq!(add(n), taken, "{n} is after the last");
    }
    let answer = streamed.finish().expect("there is an answer");
    let buckets = answer["c"]["buckets"].as_array().expect("buckets");
    let keys: Vec<_> = buckets.iter().map(|bucket| bucket["key"]["n"].as_i64()).collect();
    assert_eq!(keys, (0..10).map(Some).collect::<Vec<_>>());
    assert!(buckets.iter().all(|bucket| bucket["doc_count"] == 1 && bucket["t"]["value"] == 1));
}

#[test]
fn keys_of_composite_take_memory() {
    let index = index();
    let indexes = [index.clone()];
    let requested = json!({ "c": { "composite": { "sources": [{ "t": { "terms": { "field": "t" } } }] } } });
    let requested = parse(&requested).expect("the aggregation is well-formed");
    let (endless, here) = (limit_of(json!({})), AtomicBool::new(false));
    let pace = SearchPace::begin(&endless, &here);
    let memory = QueryMemory::standalone();
    let scope = scope(&indexes, &[], &pace, &memory);
    let streamed = StreamedAggregations::new(&requested, &scope, &memory).expect("there is memory");
    let mut streamed = streamed.expect("it keeps no documents");
    let mut hit = hit(&index);
    hit.document.insert("t".to_owned(), "x".repeat(30_000).into());
    streamed.add(&hit).expect("there is memory");
    assert!(memory.taken() >= 30_000, "{} bytes", memory.taken());
}

#[test]
fn work_on_documents_ends_when_the_client_leaves_meanwhile() {
    let index = index();
    let (hit, indexes) = (hit(&index), [index]);
    let (endless, gone) = (limit_of(json!({})), AtomicBool::new(false));
    let pace = SearchPace::begin(&endless, &gone);
    let mut count = 0;
    let memory = QueryMemory::standalone();
    let outcome = scope(&indexes, &[], &pace, &memory).each(&[&hit; 1_000], |_| {
        count += 1;
        if count == 100 {
            gone.store(true, Ordering::Relaxed);
        }
        Ok(())
    });
    assert_eq!(outcome.err().map(|error| error.status()), Some(408));
    assert!((100..200).contains(&count), "{count} documents");
}

/// An aggregation, and true if each of its 50 buckets copies a long text or many figures.
fn asked_in_buckets() -> Vec<(Value, bool)> {
    let long = "x".repeat(2_000);
    let named = |body: Value| Value::Object(Map::from_iter([(long.clone(), body)]));
    let terms = |inner: Value| json!({ "t": { "terms": { "field": "t", "size": 50 }, "aggs": inner } });
    let intervals =
        |inner: Value| json!({ "h": { "histogram": { "field": "n", "interval": 1 }, "aggs": inner } });
    let count = json!({ "value_count": { "field": "n" } });
    let sum = json!({ "cumulative_sum": { "buckets_path": "_count" } });
    let filters = named(json!({ "match_all": {} }));
    let percents: Vec<f64> = (0..100).map(f64::from).collect();
    vec![
        (terms(json!({ "a": count })), false),
        (terms(named(count.clone())), true),
        (terms(json!({ "a": { "value_count": { "field": "n" }, "meta": { "m": long } } })), true),
        (terms(json!({ "a": { "range": { "field": "n", "ranges": [{ "key": long, "from": 0 }] } } })), true),
        (terms(json!({ "a": { "filters": { "filters": filters } } })), true),
        (
            terms(
                json!({ "a": { "filters": { "filters": { "b": { "match_all": {} } }, "other_bucket_key": long } } }),
            ),
            true,
        ),
        (terms(json!({ "a": { "percentiles": { "field": "n", "percents": percents } } })), true),
        (terms(json!({ "a": { "top_hits": {} } })), true),
        (intervals(json!({ "a": sum })), false),
        (intervals(named(sum.clone())), true),
    ]
}

#[test]
fn what_is_in_each_bucket_takes_memory() {
    let index = index();
    let mut hit = hit(&index);
    hit.document.insert("t".to_owned(), (0..50).map(|n| json!(format!("value {n}"))).collect());
    hit.document.insert("n".to_owned(), (0..50).map(|n| json!(n)).collect());
    hit.stored.source = Value::Object(hit.document.clone()).to_string().into();
    let (hits, indexes) = ([&hit], [index]);
    let (endless, here) = (limit_of(json!({})), AtomicBool::new(false));
    let pace = SearchPace::begin(&endless, &here);
    for (body, is_large) in asked_in_buckets() {
        let requested = parse(&body).expect("the aggregation is well-formed");
        let memory = QueryMemory::standalone();
        let together = scope(&indexes, &hits, &pace, &memory);
        let answer = together.run(&requested, &hits).expect("there is memory");
        assert_eq!(memory.taken() >= 50 * 1_000, is_large, "{} bytes for {body}", memory.taken());
        let memory = QueryMemory::standalone();
        let one_by_one = scope(&indexes, &[], &pace, &memory);
        let streamed = StreamedAggregations::new(&requested, &one_by_one, &memory).expect("there is memory");
        let mut streamed = streamed.expect("it keeps no documents");
        streamed.add(&hit).expect("there is memory");
        let before = memory.taken();
        assert_eq!(streamed.finish().expect("there is memory"), answer, "{body}");
        let taken = memory.taken() - before;
        assert_eq!(taken >= 50 * 1_000, is_large, "{taken} bytes for {body}");
    }
}
