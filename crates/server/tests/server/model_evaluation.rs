//! Models of a package, evaluated by themselves.

use hyper::Method;
use millrace_client::{HttpProtocol, OutgoingRequest};
use serde_json::{Value, json};

use crate::support::{TestServer, file_of, onnxruntime, services_with};

const CONTAINER: &str = "<search/><document-api/><model-evaluation/>";

const XGBOOST: &str = r#"[{"nodeid":0,"split":"length","split_condition":0.5,"yes":1,"no":2,"missing":2,"children":[
  {"nodeid":1,"leaf":1.5},{"nodeid":2,"split":"age","split_condition":3,"yes":3,"no":4,"missing":3,"children":[
    {"nodeid":3,"leaf":10},{"nodeid":4,"leaf":20}]}]}]"#;

const LIGHTGBM: &str = r#"{"feature_names":["size","kind"],"pandas_categorical":[["fax","letter","mail"]],"tree_info":[
  {"tree_structure":{"split_feature":0,"threshold":1.0,"decision_type":"<=","default_left":true,"missing_type":"NaN",
    "left_child":{"leaf_value":-1},"right_child":{"leaf_value":2}}},
  {"tree_structure":{"split_feature":1,"threshold":"0||2","decision_type":"==",
    "left_child":{"leaf_value":40},"right_child":{"leaf_value":0}}}]}"#;

/// Deploys a package with these models, and with invalid ones.
fn deploy(server: &TestServer, container: &str, more: &[(&str, &str)]) -> (u16, Value) {
    onnxruntime();
    let schema = "schema note { document note { field a type string { indexing: index } } }";
    let (services, linear) = (services_with(container), file_of("model/tests/data/linear.onnx"));
    let mut files: Vec<(&str, &[u8])> = vec![
        ("services.xml", services.as_bytes()),
        ("schemas/note.sd", schema.as_bytes()),
        ("models/linear.onnx", &linear),
        ("models/trees.json", XGBOOST.as_bytes()),
        ("models/deep/light.v2.json", LIGHTGBM.as_bytes()),
        ("models/tokenizer.json", br#"{"model":{"vocab":{}}}"#),
    ];
    files.extend(more.iter().map(|(path, content)| (*path, content.as_bytes())));
    server.deploy_bytes(&files)
}

fn server() -> TestServer {
    let server = TestServer::start();
    let (status, answer) = deploy(&server, CONTAINER, &[]);
    assert_eq!(status, 200, "{answer}");
    server
}

#[test]
fn models_and_their_functions_are_listed() {
    let server = server();
    let (status, models) = server.get("/model-evaluation/v1/");
    assert_eq!(status, 200, "{models}");
    let names: Vec<&String> = models.as_object().expect("an object").keys().collect();
    assert_eq!(names, ["deep_light_v2", "linear", "trees"]);
    let link = models["linear"].as_str().unwrap_or_default();
    assert!(link.starts_with("http://") && link.ends_with("/model-evaluation/v1/linear"), "{link}");
    let (_, linear) = server.get("/model-evaluation/v1/linear");
    let functions = linear["functions"].as_array().expect("functions");
    let names: Vec<&Value> = functions.iter().map(|function| &function["function"]).collect();
    assert_eq!(names, [&json!("score"), &json!("twice:0")]);
    assert_eq!(
        functions[0]["arguments"],
        json!([{ "name": "features", "type": "tensor<float>(d0[],d1[3])" }])
    );
    let (_, score) = server.get("/model-evaluation/v1/linear/score");
    assert_eq!(score, functions[0]);
    let (_, trees) = server.get("/model-evaluation/v1/trees");
    let arguments = json!([{ "name": "age", "type": "tensor()" }, { "name": "length", "type": "tensor()" }]);
    assert_eq!(trees["functions"][0]["arguments"], arguments);
    let (_, light) = server.get("/model-evaluation/v1/deep_light_v2");
    let arguments = json!([{ "name": "size", "type": "tensor()" }, { "name": "kind", "type": "string" }]);
    assert_eq!(light["functions"][0]["arguments"], arguments);
}

#[test]
fn functions_are_evaluated() {
    let server = server();
    let check = |path: &str, expected: Value| {
        let (status, answer) = server.get(&format!("/model-evaluation/v1/{path}"));
        assert_eq!((status, &answer), (200, &expected), "{path}");
    };
    let of = |values: Value, rows: usize| json!({ "type": format!("tensor<float>(d0[{rows}],d1[1])"), "values": values });
    check("linear/score/eval?features=[[1,2,3]]", of(json!([[321.0]]), 1));
    check("linear/score/eval?features=[1,2,3]", of(json!([[321.0]]), 1));
    check("linear/score/eval?features=[[1,0,0],[0,1,0]]", of(json!([[1.0], [10.0]]), 2));
    check("linear/twice:0/eval?features=tensor(d0[1],d1[3]):[[1,0,0]]", of(json!([[2.0]]), 1));
    check(
        "linear/score/eval?features=%7B%7Bd0:0,d1:0%7D:4,%7Bd0:0,d1:1%7D:0,%7Bd0:0,d1:2%7D:0%7D&format.tensors=short-value",
        json!([[4.0]]),
    );
    check("trees/eval?length=0.4&format.tensors=short-value", json!([1.5]));
    check("trees/trees/eval?length=1&age=5&format.tensors=short-value", json!([20.0]));
    // One value for all arguments that are not given.
    check("trees/eval?missing-value=0.4&format.tensors=short-value", json!([1.5]));
    check("trees/eval?length=1&missing-value=5&format.tensors=short-value", json!([20.0]));
    check("linear/score/eval?missing-value=[1,2,3]&format.tensors=short-value", json!([[321.0]]));
    check("deep_light_v2/eval?size=7&format.tensors=short-value", json!([2.0]));
    check("deep_light_v2/eval/?size=7&kind=mail&format.tensors=short-value", json!([42.0]));
    check("deep_light_v2/eval?size=7&kind=letter&format.tensors=short-value", json!([2.0]));
    let scalar = json!({ "type": "tensor()", "cells": [{ "address": {}, "value": 2.0 }] });
    check("deep_light_v2/eval/?format.tensors=long&size=7&", scalar);
    let form = OutgoingRequest::new(
        Method::POST,
        "/model-evaluation/v1/linear/score/eval?format.tensors=short-value",
    )
    .body("application/x-www-form-urlencoded", "features=[[2,0,0]]");
    let answer = server.send(&server.url(), HttpProtocol::Http1, form);
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!([[2.0]])));
}

#[test]
fn values_have_the_form_that_is_asked_for() {
    let server = server();
    let ask = |path: &str, form: &str| {
        let path = format!("/model-evaluation/v1/{path}&format.tensors={form}");
        let request = OutgoingRequest::new(Method::GET, &path);
        let answer = server.send(&server.url(), HttpProtocol::Http1, request);
        assert_eq!(answer.status.as_u16(), 200, "{path}");
        answer
    };
    let (linear, light) = ("linear/score/eval?features=[[1,2,3]]", "deep_light_v2/eval?size=7");
    for (path, form, expected) in [
        (linear, "string", "tensor<float>(d0[1],d1[1]):[[321.0]]"),
        (linear, "String", "tensor<float>(d0[1],d1[1]):[[321.0]]"),
        (light, "string", "tensor():{2.0}"),
    ] {
        assert_eq!(String::from_utf8_lossy(&ask(path, form).body), expected, "{path} {form}");
    }
    for (form, expected) in [
        ("short-value", json!([[321.0]])),
        ("SHORT-VALUE", json!([[321.0]])),
        ("short", json!({ "type": "tensor<float>(d0[1],d1[1])", "values": [[321.0]] })),
    ] {
        assert_eq!(ask(linear, form).json(), expected, "{form}");
    }
}

#[test]
fn evaluations_that_cannot_work_are_errors() {
    let server = server();
    for (path, status, expected) in [
        ("other", 404, "No model named 'other'. Available models: deep_light_v2, linear, trees"),
        (
            "linear/eval?features=[1,2,3]",
            404,
            "several functions, so name one. Available functions: score, twice:0",
        ),
        ("linear/points/eval", 404, "No function named 'points'"),
        (
            "linear/score/eval",
            400,
            "Argument 'features' must be a value of type tensor<float>(d0[],d1[3]): it is not given",
        ),
        ("linear/score/eval?features=[[1,2]]", 400, "has size 3 in d1"),
        ("linear/score/eval?features=nothing", 400, "Argument 'features'"),
        ("linear/score/eval?features=[[1,2,3]]&format.tensors=loud", 400, "format.tensors"),
        ("a/b/c/d", 404, "/model-evaluation/v1/<model>/<function>/eval"),
    ] {
        let (found, answer) = server.get(&format!("/model-evaluation/v1/{path}"));
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(found == status && error.contains(expected), "{path}: {found} {answer}");
    }
    let (status, answer) = deploy(&server, CONTAINER, &[("models/broken.onnx", "no model")]);
    assert!(
        status == 400 && answer["message"].as_str().unwrap_or_default().contains("models/broken.onnx"),
        "{answer}"
    );
    let quiet = TestServer::start();
    deploy(&quiet, &CONTAINER.replace("<model-evaluation/>", ""), &[]);
    let (status, answer) = quiet.get("/model-evaluation/v1/linear");
    assert!(status == 404 && answer.to_string().contains("add <model-evaluation/>"), "{answer}");
}

#[test]
fn models_alone_need_no_schemas() {
    let server = TestServer::start();
    let container =
        format!("<services version='1.0'><container id='c' version='1.0'>{CONTAINER}</container></services>");
    let files = [("services.xml", container.as_bytes()), ("models/trees.json", XGBOOST.as_bytes())];
    let (status, answer) = server.deploy_bytes(&files);
    let warnings = answer["log"].to_string();
    assert!(status == 200 && warnings.contains("no schemas"), "{answer}");
    assert!(!warnings.contains("model-evaluation"), "{answer}");
    let (_, answer) = server.get("/model-evaluation/v1/trees/eval?length=0.4&format.tensors=short-value");
    assert_eq!(answer, json!([1.5]));
    for (path, expected) in [
        (
            "/search/?yql=select+*+from+sources+*+where+true&streaming.groupname=a",
            "the application has no schemas",
        ),
        ("/document/v1/a/note/docid/1", "Document type note does not exist; this application has none"),
    ] {
        let (_, answer) = server.get(path);
        assert!(answer.to_string().contains(expected), "{path}: {answer}");
    }
}
