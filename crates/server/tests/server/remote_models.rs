//! Models of other services, and downloaded files of models: the test plays the service, over real sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Method;
use serde_json::{Value, json};

use crate::support::{TestServer, services_with};

const NOTE: &str = "schema note {
  document note { field title type string { indexing: summary | index } }
  field vector type tensor<float>(x[3]) {
    indexing: input title | embed far | attribute
    attribute { distance-metric: euclidean }
  }
  field tokens type tensor<float>(d0[4]) { indexing: input title | embed tokens | attribute }
  rank-profile default {
    inputs { query(q) tensor<float>(x[3]) }
    first-phase { expression: closeness(field, vector) }
    match-features: attribute(tokens)
  }
}";

/// A service that gives each text its length and numbers of letters, refuses `poison`, and has a tokenizer's
/// file; and the number of requests.
fn service() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let fetched = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&fetched);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counter = Arc::clone(&counter);
            std::thread::spawn(move || serve(stream, &counter));
        }
    });
    (format!("http://{address}"), fetched)
}

fn serve(mut stream: TcpStream, fetched: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("a request");
    let (mut length, mut secret) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).expect("a header");
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "content-length" => length = value.parse().expect("a length"),
            "authorization" => secret = value.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let (status, answer) = if line.contains("/tokenizer.json") {
        fetched.fetch_add(1, Ordering::SeqCst);
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../embedding/tests/data/tokenizer.json");
        (200, std::fs::read(file).expect("a file of the repository"))
    } else if secret == "Bearer hush" {
        embeddings(&serde_json::from_slice(&body).expect("JSON"))
    } else {
        (401, json!({ "error": { "message": "who are you" } }).to_string().into_bytes())
    };
    let head =
        format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", answer.len());
    // The node may have left.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&answer));
}

fn embeddings(request: &Value) -> (u16, Vec<u8>) {
    let texts: Vec<&str> =
        request["input"].as_array().expect("texts").iter().filter_map(Value::as_str).collect();
    if texts.iter().any(|text| text.contains("poison")) {
        return (400, json!({ "error": { "message": "not this" } }).to_string().into_bytes());
    }
    let count = |text: &str, letter| text.matches(letter).count();
    let item = |(index, text): (usize, &&str)| json!({ "index": index, "embedding": [text.len(), count(text, 'a'), count(text, 'e')] });
    let data: Vec<Value> = texts.iter().enumerate().map(item).collect();
    (200, json!({ "data": data }).to_string().into_bytes())
}

fn services(url: &str) -> String {
    services_with(&format!(
        "    <search/><document-api/>
    <component id='far' type='openai-embedder'>
      <model>letters</model><dimensions>3</dimensions>
      <api-key-secret-ref>the-key</api-key-secret-ref>
      <endpoint>{url}/v1/embeddings</endpoint>
    </component>
    <component id='tokens' type='hugging-face-tokenizer'><model url='{url}/tokenizer.json'/></component>"
    ))
}

#[test]
fn another_service_embeds_and_files_are_fetched_once() {
    let (url, fetched) = service();
    let mut server = TestServer::start_with(&[
        ("MILLRACE_SECRET_THE_KEY", "hush"),
        ("MILLRACE_SECRET", "the-key=127.0.0.1"),
        ("MILLRACE_OUTBOUND_ALLOW", "127.0.0.1"),
    ]);
    let files = [("services.xml", services(&url)), ("schemas/note.sd", NOTE.to_owned())];
    let deploy = |server: &TestServer| {
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        server.deploy(&files)
    };
    for _ in 0..2 {
        let (status, answer) = deploy(&server);
        assert_eq!(status, 200, "{answer}");
    }
    server.restart();
    assert_eq!(fetched.load(Ordering::SeqCst), 1, "it is kept");
    for (id, title) in [("1", "the slow ferry"), ("2", "red"), ("3", "a mail")] {
        server.put(&format!("/document/v1/n/note/group/ann/{id}"), &json!({ "title": title }).to_string());
    }
    let poison = json!({ "fields": { "title": "poison" } }).to_string();
    let (status, answer) = server.call(Method::POST, "/document/v1/n/note/group/ann/4", &poison);
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(status == 400 && message.contains("refuses the text: 400: not this"), "{answer}");
    let ask = |input: &str| {
        server.query(&[
            ("yql", "select title from note where {targetHits: 3}nearestNeighbor(vector, q)"),
            ("streaming.groupname", "ann"),
            ("input.query(q)", input),
        ])
    };
    let (status, answer) = ask("embed(far, 'red')");
    assert_eq!(status, 200, "{answer}");
    let first = &answer["root"]["children"][0];
    assert_eq!((&first["fields"]["title"], &first["relevance"]), (&json!("red"), &json!(1.0)), "{answer}");
    let tokens = &first["fields"]["matchfeatures"]["attribute(tokens)"]["values"];
    assert_eq!(tokens, &json!([22.0, 0.0, 0.0, 0.0]), "{answer}");
    let (status, answer) = ask("embed(far, 'poison')");
    assert_eq!(status, 400, "{answer}");
    let (_, metrics) = server.get("/metrics/v2/values");
    let of_far = metrics
        .pointer("/nodes/0/services/0/metrics")
        .and_then(Value::as_array)
        .and_then(|all| all.iter().find(|one| one["dimensions"]["model"] == "far"))
        .cloned()
        .unwrap_or_default();
    assert_eq!(of_far["values"]["millrace.remote.texts.last"], 6.0, "{metrics}");
    let text = String::from_utf8(
        server
            .send(
                &server.url(),
                millrace_client::HttpProtocol::Http1,
                millrace_client::OutgoingRequest::new(Method::GET, "/prometheus/v1/values"),
            )
            .body
            .to_vec(),
    );
    assert!(text.expect("text").contains("millrace_remote_failed{model=\"far\"} 2"));
}

/// A feeder gives up after 400, and keeps the document for later after 500.
#[test]
fn a_service_that_refuses_its_secret_is_no_fault_of_a_document() {
    let (url, _) = service();
    let server = TestServer::start_with(&[
        ("MILLRACE_SECRET_THE_KEY", "another"),
        ("MILLRACE_SECRET", "the-key=127.0.0.1"),
        ("MILLRACE_OUTBOUND_ALLOW", "127.0.0.1"),
    ]);
    let (status, answer) = server.deploy(&[("services.xml", &services(&url)), ("schemas/note.sd", NOTE)]);
    assert_eq!(status, 200, "{answer}");
    let path = "/document/v1/n/note/group/ann/1";
    let put = json!({ "fields": { "title": "red" } }).to_string();
    let update = json!({ "fields": { "title": { "assign": "red" } } }).to_string();
    for (method, path, body) in
        [(Method::POST, path.to_owned(), put), (Method::PUT, format!("{path}?create=true"), update)]
    {
        let (status, answer) = server.call(method.clone(), &path, &body);
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(
            status == 500 && message.contains("check its endpoint, model, dimensions"),
            "{method}: {answer}"
        );
    }
}

#[test]
fn remote_models_that_cannot_be_used_are_reported_at_deployment() {
    let (url, _) = service();
    let server = TestServer::start_with(&[("MILLRACE_OUTBOUND_ALLOW", "127.0.0.1")]);
    let deploy = |services: &str| {
        let (status, answer) = server.deploy(&[("services.xml", services), ("schemas/note.sd", NOTE)]);
        assert_eq!(status, 400, "{answer}");
        answer["message"].as_str().unwrap_or_default().to_owned()
    };
    let message = deploy(&services(&url));
    assert!(message.contains("set the environment variable MILLRACE_SECRET_THE_KEY"), "{message}");
    let open = services(&url).replace("<api-key-secret-ref>the-key</api-key-secret-ref>", "");
    let message = deploy(&open.replace("tokenizer.json", "v1/nothing"));
    assert!(message.contains("cannot be fetched: the answer is 401"), "{message}");
    let message = deploy(&open.replace("<dimensions>3<", "<dimensions>2<"));
    assert!(message.contains("the model's vectors have 2 cells"), "{message}");
}

/// An application names addresses and secrets; the operator sets the permitted destinations and the secrets
/// for each.
#[test]
fn the_operator_says_which_services_are_asked_and_which_secrets_they_get() {
    let (url, fetched) = service();
    let secret = ("MILLRACE_SECRET_THE_KEY", "hush");
    let by_name = url.replace("127.0.0.1", "localhost");
    let elsewhere = "the-key=other.example,other=127.0.0.1,the-key=127.0.0.1:1";
    let only_model =
        services(&url).replace(&format!("{url}/tokenizer.json"), "https://models.example/t.json");
    for (environment, services, expected) in [
        (&[secret][..], services(&url), "an address of this machine itself (loopback)"),
        (&[secret], services(&by_name), "localhost is at"),
        (&[secret, ("MILLRACE_OUTBOUND_ALLOW", "none")], services(&url), "--outbound-allow"),
        (&[secret, ("MILLRACE_OUTBOUND_ALLOW", &url)], only_model, "no rule of --outbound-allow permits it"),
        (
            &[secret, ("MILLRACE_OUTBOUND_ALLOW", &url)],
            services(&url),
            "the secret 'the-key' may not be sent to",
        ),
        (
            &[secret, ("MILLRACE_OUTBOUND_ALLOW", &url), ("MILLRACE_SECRET", elsewhere)],
            services(&url),
            "start the server with --secret the-key=",
        ),
    ] {
        let server = TestServer::start_with(environment);
        let (status, answer) = server.deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]);
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(expected), "{environment:?}: {answer}");
        assert!(!answer.to_string().contains("hush"), "{answer}");
    }
    // Only the tokenizer was requested if the model was refused for its secret.
    assert!(fetched.load(Ordering::SeqCst) <= 2);
}
