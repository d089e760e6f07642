//! Embeddings of a service that this test plays, over real sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millrace_env::{ModelCaller, SequencePurpose};
use millrace_remote::{
    EmbeddingOptions, Error, OutboundHttp, OutboundPolicy, RemoteEmbeddings, ServiceDialect, VectorCells,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::mock::{MockReply, MockServer};

fn embeddings(service: &MockServer, batch_max: usize) -> RemoteEmbeddings {
    speaking(ServiceDialect::OpenAi, service, batch_max)
}

fn speaking(dialect: ServiceDialect, service: &MockServer, batch_max: usize) -> RemoteEmbeddings {
    let options = EmbeddingOptions {
        dialect,
        endpoint: service.url("/v1/embeddings"),
        model: "m-1".to_owned(),
        dimensions: 2,
        batch_max,
        secret: Some("hush".to_owned()),
    };
    RemoteEmbeddings::new(
        options,
        OutboundHttp::new(OutboundPolicy::parse(&["127.0.0.1"]).expect("a rule")).expect("a client"),
    )
}

fn patient() -> ModelCaller {
    ModelCaller {
        purpose: SequencePurpose::Query,
        deadline: Some(Instant::now() + Duration::from_secs(120)),
        gone: Arc::default(),
    }
}

fn within(time: Duration) -> ModelCaller {
    ModelCaller { deadline: Some(Instant::now() + time), ..patient() }
}

/// The length and the first letter of each text, in the opposite order.
fn vectors(request: &Value) -> MockReply {
    let texts = request["input"].as_array().expect("texts");
    let item = |(index, text): (usize, &Value)| {
        let text = text.as_str().expect("a text");
        json!({ "object": "embedding", "index": index, "embedding": [text.len(), text.as_bytes()[0]] })
    };
    let data: Vec<Value> = texts.iter().enumerate().map(item).rev().collect();
    MockReply::json(200, json!({ "object": "list", "data": data }))
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn texts_go_together_and_come_back_in_order() {
    let service = MockServer::start(|request| {
        assert_eq!(request.authorization.as_deref(), Some("Bearer hush"));
        let body = request.json();
        assert_eq!((&body["model"], &body["dimensions"]), (&json!("m-1"), &json!(2)));
        assert!(body["input"].as_array().expect("texts").len() <= 2);
        vectors(&body)
    });
    let embeddings = embeddings(&service, 2);
    let found =
        embeddings.embed(texts(&["a", "bb", "ccc"]), VectorCells::Float, &patient()).expect("vectors");
    assert_eq!(found, [[1.0, 97.0], [2.0, 98.0], [3.0, 99.0]]);
    assert_eq!(embeddings.embed(Vec::new(), VectorCells::Float, &patient()), Ok(Vec::new()));
    assert_eq!((embeddings.usage().requests, embeddings.usage().texts), (2, 3));
}

#[test]
fn a_service_that_asks_to_wait_is_waited_for() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let service = MockServer::start(move |request| match counter.fetch_add(1, Ordering::SeqCst) {
        0 => MockReply::json(429, json!({ "error": { "message": "slow down" } })).header("retry-after", "1"),
        1 => MockReply::json(503, json!({})),
        2 => MockReply::hang_up(),
        _ => vectors(&request.json()),
    });
    let embeddings = embeddings(&service, 8);
    let began = Instant::now();
    assert_eq!(embeddings.embed(texts(&["a"]), VectorCells::Float, &patient()), Ok(vec![vec![1.0, 97.0]]));
    assert!(began.elapsed() >= Duration::from_secs(1), "it said so");
    assert_eq!(asked.load(Ordering::SeqCst), 4);
    assert_eq!((embeddings.usage().retries, embeddings.usage().failed), (3, 0));
}

#[test]
fn failures_are_told_apart() {
    let check = |status: u16, message: Value, kind: fn(&Error) -> bool, part: &str, tries: usize| {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let service = MockServer::start(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            MockReply::json(status, message.clone()).header("retry-after", "0")
        });
        let error = embeddings(&service, 8)
            .embed(texts(&["a"]), VectorCells::Float, &patient())
            .expect_err("it fails");
        assert!(kind(&error) && error.to_string().contains(part), "{status}: {error}");
        assert_eq!(asked.load(Ordering::SeqCst), tries, "{status}");
    };
    let error_body = |text: &str| json!({ "error": { "message": text } });
    check(400, error_body("too long"), |error| matches!(error, Error::Fix { .. }), "400: too long", 1);
    check(
        401,
        error_body("who?"),
        |error| matches!(error, Error::GiveUp { .. }),
        "401: who?; check its endpoint",
        1,
    );
    check(
        429,
        error_body("busy"),
        |error| matches!(error, Error::Retry { .. }),
        "429: busy; try again later",
        5,
    );
    check(200, json!({ "data": [] }), |error| matches!(error, Error::GiveUp { .. }), "lacks vectors", 1);
    let short = json!({ "data": [{ "index": 0, "embedding": [1] }] });
    check(
        200,
        short,
        |error| matches!(error, Error::GiveUp { .. }),
        "have 1 dimensions, and 2 are expected",
        1,
    );
}

#[test]
fn a_text_that_is_refused_fails_alone() {
    let service = MockServer::start(|request| {
        let body = request.json();
        match body["input"].as_array().expect("texts").iter().any(|text| text == "poison") {
            true => MockReply::json(400, json!({ "error": { "message": "no" } })),
            false => vectors(&body),
        }
    });
    let embeddings = Arc::new(embeddings(&service, 8));
    // The first request holds the others up, so that they go together.
    std::thread::scope(|scope| {
        let ask = |text: &'static str| {
            let embeddings = Arc::clone(&embeddings);
            scope.spawn(move || embeddings.embed(texts(&[text, text]), VectorCells::Float, &patient()))
        };
        let (one, poison, other) = (ask("a"), ask("poison"), ask("bb"));
        assert_eq!(one.join().expect("no panic"), Ok(vec![vec![1.0, 97.0]; 2]));
        assert!(matches!(poison.join().expect("no panic"), Err(Error::Fix { .. })));
        assert_eq!(other.join().expect("no panic"), Ok(vec![vec![2.0, 98.0]; 2]));
    });
}

#[test]
fn no_call_waits_past_its_deadline_or_for_a_caller_that_left() {
    let service = MockServer::start(|_| MockReply::silence());
    let embeddings = embeddings(&service, 8);
    let late = embeddings.embed(texts(&["a"]), VectorCells::Float, &within(Duration::from_millis(200)));
    assert!(matches!(late, Err(Error::Deadline { .. })), "{late:?}");
    let gone = ModelCaller { deadline: None, gone: Arc::new(AtomicBool::new(true)), ..patient() };
    let left = embeddings.embed(texts(&["a"]), VectorCells::Float, &gone);
    assert!(matches!(left, Err(Error::Deadline { .. })), "{left:?}");
}

#[test]
fn a_refused_connection_is_a_transient_failure() {
    let options = EmbeddingOptions {
        dialect: ServiceDialect::OpenAi,
        endpoint: "http://127.0.0.1:1/v1/embeddings".to_owned(),
        model: "m".to_owned(),
        dimensions: 2,
        batch_max: 1,
        secret: None,
    };
    let embeddings = RemoteEmbeddings::new(
        options,
        OutboundHttp::new(OutboundPolicy::parse(&["127.0.0.1"]).expect("a rule")).expect("a client"),
    );
    let error = embeddings.embed(texts(&["a"]), VectorCells::Float, &patient()).expect_err("nobody is there");
    assert!(matches!(error, Error::Retry { .. }), "{error}");
}

#[test]
fn texts_for_other_cells_do_not_go_together() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let service = MockServer::start(move |request| {
        let body = request.json();
        let cells = body["output_dtype"].as_str().unwrap_or("float").to_owned();
        let count = body["input"].as_array().expect("texts").len();
        log.lock().push((cells.clone(), body["input_type"].clone()));
        let length = if cells == "binary" { 1 } else { 2 };
        let item = |index: usize| json!({ "index": index, "embedding": vec![7; length] });
        MockReply::json(200, json!({ "data": (0..count).map(item).collect::<Vec<_>>() }))
    });
    let embeddings = speaking(ServiceDialect::Voyage { truncates: true }, &service, 8);
    std::thread::scope(|scope| {
        for cells in [
            VectorCells::Float,
            VectorCells::Binary,
            VectorCells::Int8,
            VectorCells::Binary,
            VectorCells::Float,
        ] {
            let embeddings = &embeddings;
            scope.spawn(move || {
                let found = embeddings.embed(texts(&["a", "b"]), cells, &patient());
                assert_eq!(found, Ok(vec![vec![7.0; cells.count(2)]; 2]));
            });
        }
    });
    let feeding = ModelCaller { purpose: SequencePurpose::Feed, ..patient() };
    assert_eq!(embeddings.embed(texts(&["a"]), VectorCells::Int8, &feeding), Ok(vec![vec![7.0, 7.0]]));
    let asked = asked.lock();
    let (last, earlier) = asked.split_last().expect("it was asked");
    assert_eq!(*last, ("int8".to_owned(), json!("document")));
    assert!(earlier.iter().all(|(_, input_type)| input_type == "query"), "{asked:?}");
}

#[test]
fn the_texts_of_a_call_stay_together_where_they_are_each_others_context() {
    let service = MockServer::start(|request| {
        let body = request.json();
        let calls = body["inputs"].as_array().expect("calls");
        if calls.iter().any(|call| call[0] == "poison") {
            return MockReply::json(400, json!({ "detail": "not this" }));
        }
        let item = |(index, text): (usize, &Value)| json!({ "index": index, "embedding": [text.as_str().expect("a text").len(), index] });
        let call = |(index, texts): (usize, &Value)| {
            let data: Vec<Value> = texts.as_array().expect("texts").iter().enumerate().map(item).collect();
            json!({ "index": index, "data": data })
        };
        MockReply::json(200, json!({ "data": calls.iter().enumerate().map(call).collect::<Vec<_>>() }))
    });
    let embeddings = speaking(ServiceDialect::VoyageInContext, &service, 2);
    std::thread::scope(|scope| {
        for number in 0..12 {
            let embeddings = &embeddings;
            scope.spawn(move || {
                let first = if number % 4 == 0 { "poison" } else { "aaa" };
                let found = embeddings.embed(texts(&[first, "bb", "c"]), VectorCells::Float, &patient());
                match found {
                    Ok(vectors) => {
                        assert_ne!(first, "poison");
                        assert_eq!(vectors, [vec![3.0, 0.0], vec![2.0, 1.0], vec![1.0, 2.0]]);
                    }
                    Err(error) => {
                        assert_eq!(first, "poison", "{error}");
                        assert!(error.to_string().contains("refuses the text: 400: not this"), "{error}");
                    }
                }
            });
        }
    });
}
