//! Texts become vectors in feeds and in queries.

use hyper::Method;
use serde_json::{Value, json};

use crate::support::{TestServer, file_of, onnxruntime, services_with};

fn services() -> String {
    services_with(
        "    <search/><document-api/>
    <component id='tiny' type='hugging-face-embedder'>
      <transformer-model path='models/model.onnx'/>
      <tokenizer-model path='models/tokenizer.json'/>
      <transformer-token-type-ids/>
      <max-tokens>64</max-tokens>
      <normalize>true</normalize>
    </component>
    <component id='loose' type='hugging-face-embedder'>
      <transformer-model path='models/model.onnx'/>
      <tokenizer-model path='models/tokenizer.json'/>
      <transformer-token-type-ids/>
    </component>",
    )
}

const NOTE: &str = "schema note {
  document note {
    field title type string { indexing: summary | index }
    field body type string { indexing: summary | index }
    field risky type string { indexing: summary }
  }
  field whole type tensor<bfloat16>(x[16]) {
    indexing: (input title || '') . ' ' . (input body || '') | embed tiny | attribute
    attribute { distance-metric: prenormalized-angular }
  }
  field sentences type tensor<float>(chunk{},x[16]) {
    indexing: input body | chunk sentence | embed tiny | attribute | summary
    attribute { distance-metric: euclidean }
  }
  field said type array<string> {
    indexing: input body | chunk sentence | summary | index
    summary: select-elements-by: best_chunks
  }
  field bits type tensor<int8>(x[2]) {
    indexing: input title | embed tiny | attribute
    attribute { distance-metric: hamming }
  }
  field beyond type tensor<float>(x[16]) { indexing: input risky | embed loose | attribute }
  rank-profile default {
    inputs {
      query(q) tensor<float>(x[16])
      query(b) tensor<int8>(x[2])
    }
  }
  rank-profile whole inherits default { first-phase { expression: closeness(field, whole) } }
  rank-profile sentences inherits default { first-phase { expression: closeness(field, sentences) } }
  rank-profile bits inherits default { first-phase { expression: closeness(field, bits) } }
  rank-profile layered inherits default {
    function by_chunk() { expression: reduce(query(q) * attribute(sentences), sum, x) }
    function best_chunks() { expression: top(1, by_chunk) }
    first-phase { expression: reduce(by_chunk, max) }
    summary-features { best_chunks closest(sentences) }
  }
  rank-profile reranked inherits default {
    first-phase { expression: closeness(field, bits) }
    second-phase { rerank-count: 4 expression: sum(query(q) * attribute(whole)) }
  }
}";

/// Deploys a package with these two files and the tiny model.
fn deploy(server: &TestServer, services: &str, note: &str) -> (u16, Value) {
    onnxruntime();
    let of_crate = |name: &str| file_of(&format!("embedding/tests/data/{name}"));
    server.deploy_bytes(&[
        ("services.xml", services.as_bytes()),
        ("schemas/note.sd", note.as_bytes()),
        ("models/model.onnx", &of_crate("model.onnx")),
        ("models/tokenizer.json", &of_crate("tokenizer.json")),
    ])
}

fn server() -> TestServer {
    let server = TestServer::start();
    let (status, answer) = deploy(&server, &services(), NOTE);
    assert_eq!(status, 200, "{answer}");
    server
}

const NOTES: [(&str, &str, &str); 4] = [
    ("1", "the slow ferry", "The ferry runs slow. A mail sends water!"),
    ("2", "red invoice", "The race pays the invoice."),
    ("3", "blue letter", "A letter runs fast. The wheel? The mill runs slow."),
    ("4", "water wheel", ""),
];

fn feed(server: &TestServer) {
    for (id, title, body) in NOTES {
        server.put(
            &format!("/document/v1/n/note/group/ann/{id}"),
            &json!({ "title": title, "body": body }).to_string(),
        );
    }
}

/// Titles and scores of the hits, best first.
fn nearest(server: &TestServer, field: &str, input: &str, parameters: &[(&str, &str)]) -> Vec<(String, f64)> {
    let name = if field == "bits" { "b" } else { "q" };
    let yql = format!("select title from note where {{targetHits: 4}}nearestNeighbor({field}, {name})");
    let feature = format!("input.query({name})");
    let mut all = vec![
        ("yql", yql.as_str()),
        ("streaming.groupname", "ann"),
        ("ranking", field),
        (feature.as_str(), input),
    ];
    all.extend(parameters);
    let (status, answer) = server.query(&all);
    assert_eq!(status, 200, "{answer}");
    let hits = answer["root"]["children"].as_array().cloned().unwrap_or_default();
    hits.iter()
        .map(|hit| {
            let title = hit["fields"]["title"].as_str().unwrap_or_default().to_owned();
            (title, hit["relevance"].as_f64().unwrap_or(f64::NAN))
        })
        .collect()
}

#[test]
fn a_text_finds_the_documents_that_say_the_same() {
    let server = server();
    feed(&server);
    for (_, title, body) in NOTES {
        let text = format!("{title} {body}");
        for (input, parameters) in [
            (format!("embed(tiny, \"{text}\")"), vec![]),
            ("embed(tiny, @text)".to_owned(), vec![("text", text.as_str())]),
        ] {
            let hits = nearest(&server, "whole", &input, &parameters);
            assert_eq!(hits.len(), 4, "{hits:?}");
            assert_eq!(hits[0].0, title, "{hits:?}");
            // The document's vector is rounded to bfloat16.
            assert!(hits[0].1 > 0.95 && hits[1].1 < hits[0].1, "{hits:?}");
        }
        let bits = nearest(&server, "bits", &format!("embed(tiny, '{title}')"), &[]);
        assert!(bits.iter().any(|hit| hit.0 == title && hit.1 == 1.0), "{bits:?}");
    }
}

#[test]
fn a_text_without_words_has_the_vector_zero() {
    let server = server();
    feed(&server);
    for (input, text) in [("embed(tiny, '')", "x"), ("embed(tiny, \"  \")", "x"), ("embed(tiny, @text)", " ")]
    {
        let (status, answer) = server.query(&[
            ("yql", "select title from note where true"),
            ("streaming.groupname", "ann"),
            ("ranking", "reranked"),
            ("input.query(q)", input),
            ("text", text),
        ]);
        assert_eq!(status, 200, "{answer}");
        let hits = answer["root"]["children"].as_array().expect("there are hits");
        assert!(hits.len() == 4 && hits.iter().all(|hit| hit["relevance"] == 0.0), "{input}: {answer}");
    }
}

#[test]
fn a_sentence_finds_the_document_that_holds_it() {
    let server = server();
    feed(&server);
    for (sentence, title) in [
        ("A mail sends water!", "the slow ferry"),
        ("the wheel?", "blue letter"),
        ("the mill runs slow.", "blue letter"),
    ] {
        let hits = nearest(&server, "sentences", "embed(tiny, @text)", &[("text", sentence)]);
        assert_eq!(hits[0].0, title, "{sentence}: {hits:?}");
        assert!(hits[0].1 > 0.99, "{sentence}: {hits:?}");
    }
    let (_, document) = server.get("/document/v1/n/note/group/ann/3");
    assert_eq!(document["fields"].get("sentences"), None, "what statements make is not part of the document");
}

#[test]
fn the_best_chunk_of_a_document_is_what_is_shown_of_it() {
    let server = server();
    feed(&server);
    for (sentence, title, chunk) in
        [("A mail sends water!", "the slow ferry", "1"), ("the mill runs slow.", "blue letter", "2")]
    {
        let (status, answer) = server.query(&[
            ("yql", "select title, said from note where {targetHits: 4}nearestNeighbor(sentences, q)"),
            ("streaming.groupname", "ann"),
            ("ranking", "layered"),
            ("input.query(q)", "embed(tiny, @text)"),
            ("text", sentence),
        ]);
        assert_eq!(status, 200, "{answer}");
        let hit = &answer["root"]["children"][0]["fields"];
        assert_eq!(hit["title"], title, "{answer}");
        let said = hit["said"].as_array().map(Vec::as_slice).unwrap_or_default();
        let [said] = said else { panic!("one chunk is selected: {answer}") };
        assert!(said.as_str().unwrap_or_default().trim().eq_ignore_ascii_case(sentence), "{answer}");
        assert_eq!(hit["summaryfeatures"]["closest(sentences)"]["cells"], json!({ chunk: 1.0 }), "{answer}");
    }
}

#[test]
fn what_bits_find_is_ranked_again_by_the_whole_vectors() {
    let server = server();
    feed(&server);
    let (_, title, body) = NOTES[2];
    let text = format!("{title} {body}");
    let (status, answer) = server.query(&[
        ("yql", "select title from note where {targetHits: 4}nearestNeighbor(bits, b)"),
        ("streaming.groupname", "ann"),
        ("ranking", "reranked"),
        ("input.query(b)", "embed(tiny, @text)"),
        ("input.query(q)", "embed(tiny, @text)"),
        ("text", &text),
    ]);
    assert_eq!(status, 200, "{answer}");
    let hits = answer["root"]["children"].as_array().cloned().unwrap_or_default();
    assert_eq!(hits.len(), NOTES.len(), "{answer}");
    assert_eq!(hits[0]["fields"]["title"], title, "{answer}");
    // Vectors of length 1, those of documents rounded: the product of a vector with itself is 1.
    assert!(hits[0]["relevance"].as_f64().is_some_and(|score| (score - 1.0).abs() < 0.01), "{answer}");
}

#[test]
fn an_update_computes_its_embedding_again() {
    let server = server();
    feed(&server);
    let path = "/document/v1/n/note/group/ann/2";
    let (status, answer) = server.call(
        Method::PUT,
        path,
        r#"{"fields":{"body":{"assign":"A train! The mill sends letters."}}}"#,
    );
    assert_eq!(status, 200, "{answer}");
    let hits = nearest(&server, "sentences", "embed(tiny, 'a train!')", &[]);
    assert_eq!((hits[0].0.as_str(), hits[0].1 > 0.99), ("red invoice", true), "{hits:?}");
    server.call(Method::PUT, path, r#"{"fields":{"body":{"assign":null}}}"#);
    let hits = nearest(&server, "sentences", "embed(tiny, 'a train!')", &[]);
    assert!(hits.iter().all(|hit| hit.0 != "red invoice" || hit.1 < 0.99), "{hits:?}");
}

#[test]
fn a_document_or_query_that_cannot_be_embedded_fails_alone() {
    let server = server();
    // The model has 64 positions, and the embedder 'loose' accepts more.
    let long = json!({ "fields": { "risky": "mill ".repeat(100) } }).to_string();
    let (status, answer) = server.call(Method::POST, "/document/v1/n/note/group/ann/9", &long);
    assert_eq!(status, 400, "{answer}");
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(message.contains("field 'beyond'") && message.contains("the model 'loose' failed"), "{message}");
    feed(&server);
    for (input, expected) in [
        ("embed(huge, 'x')", "no embedder 'huge', only 'tiny', 'loose'"),
        ("embed('x')", "several embedders, so name one of 'tiny', 'loose'"),
        ("embed(tiny, @nothing)", "names a parameter that the request has not: add 'nothing'"),
        ("embed(tiny, 'x'", "no closing parenthesis"),
    ] {
        let (status, answer) = server.query(&[
            ("yql", "select * from note where {targetHits: 4}nearestNeighbor(whole, q)"),
            ("streaming.groupname", "ann"),
            ("ranking", "whole"),
            ("input.query(q)", input),
        ]);
        let message = answer.pointer("/root/errors/0/message").and_then(Value::as_str).unwrap_or_default();
        assert!(status == 400 && message.contains(expected), "{input}: {status} {answer}");
    }
    assert_eq!(nearest(&server, "whole", "embed(tiny, 'red invoice')", &[]).len(), 4);
}

#[test]
fn what_cannot_work_is_refused_when_it_is_deployed() {
    let empty = TestServer::start();
    for (services, note, expected) in [
        (
            services().replace("models/model.onnx", "models/other.onnx"),
            NOTE.to_owned(),
            "the package has no file 'models/other.onnx'",
        ),
        (
            services().replace("models/model.onnx", "models/tokenizer.json"),
            NOTE.to_owned(),
            "services.xml:4:5: embedder 'tiny'",
        ),
        (
            services().replacen("<transformer-token-type-ids/>", "", 1),
            NOTE.to_owned(),
            "Model does not contain required input: 'token_type_ids'. Model contains: 'input_ids' int64[batch_size,sequence_length]",
        ),
        (
            services(),
            NOTE.replace("tensor<bfloat16>(x[16])", "tensor<bfloat16>(x[384])"),
            "the model's vectors have 16 cells",
        ),
        (
            services(),
            NOTE.replace("tensor<float>(chunk{},x[16])", "tensor<float>(x[16])"),
            "expected a type such as tensor<float>(chunk{},x[16])",
        ),
        (
            services(),
            NOTE.replace("embed loose", "embed"),
            "several embedders, so name one of 'tiny', 'loose'",
        ),
        (services(), NOTE.replace("chunk sentence", "chunk page"), "no chunker 'page'"),
    ] {
        let (status, answer) = deploy(&empty, &services, &note);
        assert_eq!(status, 400, "{answer}");
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.contains(expected), "{message}");
    }
    let server = server();
    feed(&server);
    assert_eq!(
        deploy(&server, &services().replace("models/model.onnx", "models/tokenizer.json"), NOTE).0,
        400
    );
    let hits = nearest(&server, "whole", "embed(tiny, 'red invoice The race pays the invoice.')", &[]);
    assert_eq!(hits[0].0, "red invoice", "the application stays as it was");
}

#[test]
fn models_come_back_after_a_restart_and_are_counted() {
    let mut server = server();
    feed(&server);
    let before = nearest(&server, "whole", "embed(tiny, 'slow ferry')", &[]);
    server.restart();
    assert_eq!(nearest(&server, "whole", "embed(tiny, 'slow ferry')", &[]), before);
    let (_, metrics) = server.get("/state/v1/metrics");
    let of = |name: &str| {
        let values = metrics["metrics"]["values"]
            .as_array()
            .or(metrics["values"].as_array())
            .cloned()
            .unwrap_or_default();
        let metric = values.iter().find(|metric| metric["name"] == name).cloned().unwrap_or_default();
        metric["values"]["last"].as_f64()
    };
    assert_eq!(of("millrace.model.sequences"), Some(1.0), "{metrics}");
    assert_eq!(of("millrace.model.loaded"), Some(2.0), "{metrics}");
    let kept = std::fs::read_dir(server.data_dir().join("models")).expect("a directory").count();
    assert_eq!(kept, 2, "one model and one tokenizer, whoever uses them");
}
