//! Answers of a language model that this test plays, over real sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use millrace_env::{ModelCaller, SequencePurpose};
use millrace_remote::{
    AnswerPieces, ChatModel, ChatPrompt, Error, InferenceOptions, OutboundHttp, OutboundPolicy,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::mock::{MockReply, MockRequest, MockServer};

fn model(service: &MockServer) -> ChatModel {
    ChatModel::new(
        &service.url("/v1/"),
        OutboundHttp::new(OutboundPolicy::parse(&["127.0.0.1"]).expect("a rule")).expect("a client"),
    )
}

fn prompt(text: &str) -> ChatPrompt {
    ChatPrompt {
        text: text.to_owned(),
        inference: InferenceOptions { model: "m-1".to_owned(), ..InferenceOptions::default() },
        streams: true,
        secret: Some("hush".to_owned()),
        timeout: Duration::from_secs(120),
    }
}

fn caller(timeout: Duration) -> ModelCaller {
    ModelCaller {
        purpose: SequencePurpose::Feed,
        deadline: Some(Instant::now() + timeout),
        gone: Arc::default(),
    }
}

fn token(text: &str) -> String {
    format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }))
}

fn next(pieces: &mut AnswerPieces) -> Option<Result<String, Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(pieces.next())
}

fn all(mut pieces: AnswerPieces) -> Result<Vec<String>, Error> {
    std::iter::from_fn(|| next(&mut pieces)).collect()
}

/// A service that answers by a function of the prompt's text.
fn answering(answer: impl Fn(&str) -> MockReply + Send + Sync + 'static) -> MockServer {
    MockServer::start(move |request: &MockRequest| {
        answer(request.json()["messages"][0]["content"].as_str().expect("a prompt"))
    })
}

fn saying(text: &str) -> MockReply {
    MockReply::json(200, json!({ "choices": [{ "message": { "content": text } }] }))
}

fn answers(model: &ChatModel, texts: &[&str], caller: &ModelCaller) -> Result<Vec<String>, Error> {
    let inference = InferenceOptions { model: "m-1".to_owned(), ..InferenceOptions::default() };
    model.answers(texts.iter().map(|text| (*text).to_owned()).collect(), &inference, Some("hush"), caller)
}

/// A service that streams what comes through the channel, to the first who asks.
fn streaming() -> (Sender<String>, MockServer, Arc<Mutex<Vec<Value>>>) {
    let (sender, receiver) = channel();
    let receiver: Mutex<Option<Receiver<String>>> = Mutex::new(Some(receiver));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let service = MockServer::start(move |request: &MockRequest| {
        assert_eq!(request.path, "/v1/chat/completions");
        assert_eq!(request.authorization.as_deref(), Some("Bearer hush"));
        log.lock().push(request.json());
        MockReply::Events(receiver.lock().take().expect("one request"))
    });
    (sender, service, asked)
}

#[test]
fn pieces_come_while_the_answer_is_made() {
    let (sender, service, asked) = streaming();
    let mut pieces = model(&service).ask(prompt("why?")).expect("it is free");
    for text in ["The", " ferry", " is \"late\""] {
        sender.send(token(text)).expect("it is sent");
        assert_eq!(next(&mut pieces), Some(Ok(text.to_owned())));
    }
    sender.send("data: [DONE]\n\n".to_owned()).expect("it is sent");
    assert_eq!(next(&mut pieces), None);
    let asked = asked.lock();
    let messages = json!([{ "role": "user", "content": "why?" }]);
    assert_eq!(asked[..], [json!({ "model": "m-1", "messages": messages, "stream": true })]);
}

#[test]
fn an_answer_ends_by_its_last_piece_or_has_broken_off() {
    let last = "data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n";
    let error_body = "data: {\"error\":{\"message\":\"out of memory\"}}\n\n";
    for (end, expected) in [
        (last, None),
        ("", Some("broke off: nothing more comes")),
        (error_body, Some("broke off: out of memory")),
    ] {
        let (sender, service, _) = streaming();
        sender.send(token("a")).expect("it is sent");
        sender.send(end.to_owned()).expect("it is sent");
        drop(sender);
        let mut pieces = model(&service).ask(prompt("why?")).expect("it is free");
        assert_eq!(next(&mut pieces), Some(Ok("a".to_owned())));
        match expected {
            None => assert_eq!((next(&mut pieces), next(&mut pieces)), (Some(Ok("b".to_owned())), None)),
            Some(part) => {
                let error = next(&mut pieces).expect("an error").expect_err(part);
                assert!(error.to_string().contains(part), "{error}");
                assert_eq!(next(&mut pieces), None);
            }
        }
    }
}

#[test]
fn who_leaves_ends_the_request() {
    let (sender, service, _) = streaming();
    let mut pieces = model(&service).ask(prompt("why?")).expect("it is free");
    sender.send(token("a")).expect("it is sent");
    assert_eq!(next(&mut pieces), Some(Ok("a".to_owned())));
    drop(pieces);
    // The service notices by what it cannot send.
    while sender.send(token(&"b".repeat(4096))).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_service_that_does_not_stream_answers_in_one_piece() {
    let service = MockServer::start(|_| {
        let answer = json!({ "choices": [{ "index": 0, "message": { "content": "It is late." } }] });
        MockReply::json(200, answer).header("content-type", "application/json")
    });
    for streams in [true, false] {
        let pieces = model(&service).ask(ChatPrompt { streams, ..prompt("why?") }).expect("it is free");
        assert_eq!(all(pieces), Ok(vec!["It is late.".to_owned()]));
    }
}

#[test]
fn failures_are_told_apart() {
    let error_body = |message: &str| json!({ "error": { "message": message } });
    let check = |status: u16, body: Value, part: &str, tries: usize| {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let service = MockServer::start(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            MockReply::json(status, body.clone()).header("retry-after", "0.01")
        });
        let error = all(model(&service).ask(prompt("why?")).expect("it is free")).expect_err(part);
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(error.status(), Some(status), "{error}");
        assert_eq!(asked.load(Ordering::SeqCst), tries, "{status}");
    };
    check(401, error_body("who?"), "cannot be used: 401: who?; check its endpoint", 1);
    check(404, error_body("no such model"), "404: no such model", 1);
    check(400, error_body("too long"), "refuses the text: 400: too long", 1);
    check(429, error_body("busy"), "cannot answer now: 429: busy; try again later", 5);
    check(503, error_body("loading"), "503: loading", 5);
    check(200, json!({ "choices": [] }), "its answer has no text", 1);
}

#[test]
fn what_passes_is_tried_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let service = MockServer::start(move |_| match counter.fetch_add(1, Ordering::SeqCst) {
        0 => MockReply::hang_up(),
        1 => MockReply::json(429, json!({})).header("retry-after", "0.05"),
        _ => MockReply::json(200, json!({ "choices": [{ "message": { "content": "yes" } }] })),
    });
    let model = model(&service);
    assert_eq!(all(model.ask(prompt("why?")).expect("it is free")), Ok(vec!["yes".to_owned()]));
    let usage = model.usage();
    assert_eq!((usage.requests, usage.texts, usage.retries, usage.failed), (1, 1, 2, 0));
}

#[test]
fn whole_answers_come_in_order_and_more_than_may_be_in_flight() {
    let service = answering(|text| match text {
        "poison" => MockReply::json(400, json!({ "error": { "message": "not this" } })),
        text => saying(&format!("{text}!")),
    });
    let model = model(&service);
    let texts: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let caller = caller(Duration::from_secs(120));
    let expected: Vec<String> = texts.iter().map(|text| format!("{text}!")).collect();
    assert_eq!(answers(&model, &texts, &caller), Ok(expected));
    assert_eq!(answers(&model, &[], &caller), Ok(Vec::new()));
    let error = answers(&model, &["1", "poison", "2"], &caller).expect_err("it is refused");
    assert!(error.to_string().contains("refuses the text: 400: not this"), "{error}");
}

#[test]
fn who_leaves_ends_the_request_for_a_whole_answer() {
    let (sender, service, asked) = streaming();
    let model = model(&service);
    let caller = caller(Duration::from_secs(600));
    let gone = Arc::clone(&caller.gone);
    let waiting = std::thread::spawn(move || answers(&model, &["why?"], &caller));
    while asked.lock().is_empty() {
        std::thread::yield_now();
    }
    gone.store(true, Ordering::Relaxed);
    // The service notices by what it cannot send.
    while sender.send(token(&"b".repeat(4096))).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let error = waiting.join().expect("no panic").expect_err("nobody waits");
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
}

#[test]
fn who_waits_for_a_turn_leaves_room_to_others_and_gives_up_in_time() {
    let service = answering(|text| match text {
        "silence" => MockReply::silence(),
        text => saying(text),
    });
    let model = Arc::new(model(&service));
    let other = Arc::clone(&model);
    let waiting =
        std::thread::spawn(move || answers(&other, &["silence"; 16], &caller(Duration::from_secs(600))));
    while model.usage().texts < 16 {
        std::thread::yield_now();
    }
    let error = answers(&model, &["late"], &caller(Duration::from_millis(50))).expect_err("no turn");
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    assert_eq!(all(model.ask(prompt("query")).expect("it is free")), Ok(vec!["query".to_owned()]));
    drop(waiting);
}

#[test]
fn an_asker_waits_as_long_as_it_said_and_so_many_may_wait() {
    let service = MockServer::start(|_| MockReply::silence());
    let model = model(&service);
    let short = ChatPrompt { timeout: Duration::from_millis(50), ..prompt("why?") };
    let error = all(model.ask(short).expect("it is free")).expect_err("silence");
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    let waiting: Vec<AnswerPieces> =
        std::iter::from_fn(|| model.ask(prompt("why?")).ok()).take(1000).collect();
    assert_eq!(waiting.len(), 64);
    let error = model.ask(prompt("why?")).err().expect("it is full");
    assert!(error.to_string().contains("64 texts wait"), "{error}");
}
