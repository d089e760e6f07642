//! ONNX models in rank profiles: models of a package are checked, run over hits, and shown.

use serde_json::{Value, json};

use crate::support::{TestServer, file_of, onnxruntime, services_with};

const CONTAINER: &str = "    <search/><document-api/>
    <component id='tokenizer' type='hugging-face-tokenizer'><model path='models/tokenizer.json'/></component>";

const NOTE: &str = "schema note {
  document note {
    field title type string { indexing: summary | index }
    field numbers type tensor<float>(d0[1],d1[3]) { indexing: summary | attribute }
  }
  field tokens type tensor<float>(d0[8]) { indexing: input title | embed tokenizer | attribute }
  onnx-model linear {
    file: models/linear.onnx
    input \"features\": attribute(numbers)
    output \"score\": score
  }
  rank-profile default { first-phase { expression: freshness(nothing) } }
  rank-profile first { first-phase { expression: sum(onnx(linear).score) } }
  rank-profile second {
    first-phase { expression: attribute(numbers){d0:0,d1:0} }
    second-phase { rerank-count: 2 expression: onnx(linear){d0:0,d1:0} }
    match-features: onnx(linear).twice_0
  }
  rank-profile cross {
    inputs { query(q) tensor<float>(d0[4]) }
    onnx-model encoder {
      file: models/cross-encoder.onnx
      input input_ids: ids
      input attention_mask: tokenAttentionMask(14,query(q),attribute(tokens))
      input token_type_ids: types
      gpu-device: 0
      intraop-threads: 1
      execution-mode: sequential
    }
    function ids() { expression: customTokenInputIds(2,3,14,query(q),attribute(tokens)) }
    function types() { expression: tokenTypeIds(14,query(q),attribute(tokens)) }
    first-phase { expression: 1 }
    global-phase { rerank-count: 10 expression { onnx(encoder){d0:0,d1:0} } }
    match-features: ids
  }
  rank-profile poison inherits cross {
    function ids() { expression: if (attribute(numbers){d0:0,d1:0} > 2, 1000, 1) * customTokenInputIds(2,3,14,query(q),attribute(tokens)) }
  }
}";

const NOTES: [(&str, &str, [f64; 3]); 3] = [
    ("1", "the slow ferry", [1.0, 1.0, 0.0]),
    ("2", "red invoice", [2.0, 0.0, 0.0]),
    ("3", "blue letter", [3.0, 0.0, 1.0]),
];

/// Deploys a package with this schema and the models of the tests.
fn deploy(server: &TestServer, note: &str) -> (u16, Value) {
    onnxruntime();
    server.deploy_bytes(&[
        ("services.xml", services_with(CONTAINER).as_bytes()),
        ("schemas/note.sd", note.replace("freshness(nothing)", "0").as_bytes()),
        ("models/tokenizer.json", &file_of("embedding/tests/data/tokenizer.json")),
        ("models/linear.onnx", &file_of("model/tests/data/linear.onnx")),
        ("models/cross-encoder.onnx", &file_of("model/tests/data/cross-encoder.onnx")),
        ("models/corrupt.onnx", b"no model"),
    ])
}

fn server() -> TestServer {
    let server = TestServer::start();
    let (status, answer) = deploy(&server, NOTE);
    assert_eq!(status, 200, "{answer}");
    let log = answer["log"].to_string();
    assert!(log.contains("rank profile first runs a model in its first phase"), "{answer}");
    assert!(!log.contains("rank profile second"), "{answer}");
    for (id, title, numbers) in NOTES {
        let fields = json!({ "title": title, "numbers": { "values": numbers } });
        server.put(&format!("/document/v1/n/note/group/ann/{id}"), &fields.to_string());
    }
    server
}

/// Titles and scores of the hits, best first, and the match features of the first.
fn rank(server: &TestServer, profile: &str, parameters: &[(&str, &str)]) -> (Vec<(String, f64)>, Value) {
    let mut all = vec![
        ("yql", "select title from note where true"),
        ("streaming.groupname", "ann"),
        ("ranking", profile),
    ];
    all.extend(parameters);
    let (status, answer) = server.query(&all);
    assert_eq!(status, 200, "{answer}");
    let hits = answer["root"]["children"].as_array().cloned().unwrap_or_default();
    let features = hits.first().map(|hit| hit["fields"]["matchfeatures"].clone()).unwrap_or_default();
    let hit = |hit: &Value| {
        let title = hit["fields"]["title"].as_str().unwrap_or_default().to_owned();
        (title, hit["relevance"].as_f64().unwrap_or(f64::NEG_INFINITY))
    };
    (hits.iter().map(hit).collect(), features)
}

fn borrowed(hits: &[(String, f64)]) -> Vec<(&str, f64)> {
    hits.iter().map(|(title, score)| (title.as_str(), *score)).collect()
}

#[test]
fn a_model_ranks_in_the_first_and_the_second_phase() {
    let server = server();
    let (hits, _) = rank(&server, "first", &[]);
    assert_eq!(borrowed(&hits), [("blue letter", 103.0), ("the slow ferry", 11.0), ("red invoice", 2.0)]);
    let (hits, features) = rank(&server, "second", &[]);
    assert_eq!(borrowed(&hits), [("blue letter", 103.0), ("red invoice", 2.0), ("the slow ferry", 1.0)]);
    assert_eq!(features["onnx(linear).twice_0"]["values"], json!([[206.0]]), "{features}");
}

#[test]
fn a_cross_encoder_ranks_by_the_tokens_of_query_and_document() {
    let server = server();
    let ask =
        |text: &str| rank(&server, "cross", &[("input.query(q)", &format!("embed(tokenizer, '{text}')"))]);
    let (ferry, features) = ask("a ferry");
    assert_eq!(ferry.len(), 3);
    assert!(ferry.iter().all(|(_, score)| score.is_finite()) && ferry[0].1 > ferry[1].1, "{ferry:?}");
    let ids: Vec<f64> = serde_json::from_value(features["ids"]["values"][0].clone()).expect("tokens");
    assert_eq!(ids[..4], [2.0, 6.0, 8.0, 3.0], "start, the two words, separator: {features}");
    assert_eq!(ids.len(), 14);
    let (again, _) = ask("a ferry");
    assert_eq!(ferry, again);
    let (other, _) = ask("red");
    assert_ne!(borrowed(&ferry), borrowed(&other));
}

#[test]
fn a_document_that_a_model_fails_on_comes_last_and_the_others_are_ranked() {
    let server = server();
    let input = [("input.query(q)", "embed(tokenizer, 'a ferry')")];
    let (right, _) = rank(&server, "cross", &input);
    let (hits, _) = rank(&server, "poison", &input);
    assert_eq!(hits.len(), 3);
    assert_eq!(hits[2], ("blue letter".to_owned(), f64::NEG_INFINITY), "its tokens are in no vocabulary");
    for (title, score) in &hits[..2] {
        let alone = right.iter().find(|(known, _)| known == title).map(|(_, score)| *score);
        assert!(alone.is_some_and(|alone| (alone - score).abs() < 1e-4), "{title}: {score}, {alone:?}");
    }
    let (_, metrics) = server.get("/state/v1/metrics");
    assert!(metrics.to_string().contains("millrace.model.failed"), "{metrics}");
}

#[test]
fn a_model_that_does_not_fit_is_refused_and_the_application_stays() {
    let empty = TestServer::start();
    for (from, to, expected) in [
        ("models/linear.onnx", "models/corrupt.onnx", "onnx(linear).score: models/corrupt.onnx"),
        ("models/linear.onnx", "models/other.onnx", "no file models/other.onnx in the package"),
        ("models/linear.onnx", "models/tokenizer.json", "models/tokenizer.json"),
        (
            "tensor<float>(d0[1],d1[3])",
            "tensor<float>(d0[1],d1[4])",
            "the model's input 'features' float[batch,3] has size 3 in d1, and is given tensor<float>(d0[1],d1[4]): expected a type such as tensor<float>(d0[1],d1[3])",
        ),
        (
            "input \"features\"",
            "input \"inputs\"",
            "Model does not contain input: 'inputs'. Model contains: features",
        ),
        (
            "output \"score\": score",
            "output \"points\": score",
            "Model does not contain required output: 'points'",
        ),
        ("intraop-threads: 1", "intraop-threads: many", "'many' is not a number of threads"),
        (
            "tensor<float>(d0[8])",
            "tensor<float>(d0[8],d1[2])",
            "expected a type such as tensor<float>(d0[512])",
        ),
    ] {
        let (status, answer) = deploy(&empty, &NOTE.replace(from, to));
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(expected), "{to}: {status} {message}");
    }
    let server = server();
    assert_eq!(deploy(&server, &NOTE.replace("models/linear.onnx", "models/corrupt.onnx")).0, 400);
    assert_eq!(rank(&server, "first", &[]).0[0].1, 103.0);
}

#[test]
fn models_come_back_after_a_restart() {
    let mut server = server();
    let before = rank(&server, "second", &[]);
    server.restart();
    assert_eq!(rank(&server, "second", &[]), before);
}
