//! Models over tensors: bound to types, and run over rows. `scripts/models.py` creates the files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use millrace_model::{
    BoundModel, Error, ModelEvaluator, ModelRows, ModelScheduler, ModelThreads, SchedulerOptions,
};
use millrace_tensor::{Tensor, TensorCells, TensorType};

/// Provides ONNX Runtime, which models need; downloads it if it is missing.
fn onnxruntime() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/onnxruntime");
        let fetched = Command::new(script).status().expect("the script runs");
        assert!(fetched.success(), "ONNX Runtime is not there and cannot be fetched");
    });
}

fn scheduler() -> &'static ModelScheduler {
    static SCHEDULER: OnceLock<ModelScheduler> = OnceLock::new();
    SCHEDULER.get_or_init(|| ModelScheduler::new(SchedulerOptions::default()).expect("threads"))
}

fn load(name: &str, threads: ModelThreads) -> Result<Arc<ModelEvaluator>, Error> {
    onnxruntime();
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format!("{name}.onnx"));
    ModelEvaluator::load(name, path, threads, scheduler()).map(Arc::new)
}

fn tensor_type(text: &str) -> TensorType {
    TensorType::parse(text).expect("the types here are right")
}

fn tensor(of: &str, cells: &[f64]) -> Tensor {
    Tensor::new(tensor_type(of), Vec::new(), TensorCells::Double(cells.to_vec()))
        .expect("as many cells as its type says")
}

fn bind(
    evaluator: &Arc<ModelEvaluator>,
    inputs: &[(&str, &str)],
    outputs: &[&str],
) -> Result<BoundModel, Error> {
    let types: Vec<TensorType> = inputs.iter().map(|(_, of)| tensor_type(of)).collect();
    let inputs: Vec<(&str, &TensorType)> = inputs.iter().map(|(name, _)| *name).zip(&types).collect();
    evaluator.bind(&inputs, outputs)
}

/// Cells of the first output for rows of three numbers each.
fn linear(evaluation: &BoundModel, rows: &[[f64; 3]]) -> Vec<f64> {
    let rows = ModelRows { count: rows.len(), inputs: vec![rows.concat()] };
    let outputs = evaluation.run(rows, &|| false).expect("it runs");
    outputs[0].iter().collect()
}

const FEATURES: &[(&str, &str)] = &[("features", "tensor<float>(d0[1],d1[3])")];

#[test]
fn rows_run_together_where_that_comes_to_the_same() {
    for (name, is_batched, runs) in
        [("linear", true, 1), ("linear-of-one", false, 1), ("linear-mixed", false, 1)]
    {
        let model = load(name, ModelThreads::default()).expect("it is a model");
        let evaluation = bind(&model, FEATURES, &["score"]).expect("it fits");
        assert_eq!(evaluation.is_batched(), is_batched, "{name}");
        assert_eq!(evaluation.output_types(), [tensor_type("tensor<float>(d0[1],d1[1])")]);
        let expected = if name == "linear-mixed" { [0.0, 0.0] } else { [321.0, 654.0] };
        assert_eq!(linear(&evaluation, &[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), expected, "{name}");
        let usage = model.usage();
        assert_eq!((usage.runs, usage.sequences), (runs, 2), "{name}");
    }
}

#[test]
fn many_rows_and_none() {
    let model = load("linear", ModelThreads::default()).expect("it is a model");
    let evaluation = bind(&model, FEATURES, &["score"]).expect("it fits");
    let rows: Vec<[f64; 3]> = (0..20_000).map(|row| [f64::from(row), 0.0, 0.0]).collect();
    let expected: Vec<f64> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(linear(&evaluation, &rows), expected);
    assert_eq!(linear(&evaluation, &[]), [0.0; 0]);
}

#[test]
fn several_outputs_and_threads_of_its_own() {
    let threads = ModelThreads { intra_op: Some(1), ..ModelThreads::default() };
    let model = load("linear", threads).expect("it is a model");
    let evaluation = bind(&model, FEATURES, &["twice:0", "score"]).expect("it fits");
    let rows = ModelRows::one(&[tensor("tensor(d0[1],d1[3])", &[1.0, 1.0, 0.0])]);
    let outputs = evaluation.run(rows, &|| false).expect("it runs");
    assert_eq!(outputs.iter().map(|output| output.get(0)).collect::<Vec<_>>(), [22.0, 11.0]);
}

#[test]
fn a_graphics_processor_that_is_not_there_is_done_without() {
    let model = load("linear", ModelThreads { gpu_device: Some(7), ..ModelThreads::default() })
        .expect("it is a model");
    let evaluation = bind(&model, FEATURES, &["score"]).expect("it fits");
    assert_eq!(linear(&evaluation, &[[1.0, 0.0, 0.0]]), [1.0]);
}

const TOKENS: &[(&str, &str)] = &[
    ("input_ids", "tensor(d0[1],d1[6])"),
    ("attention_mask", "tensor(d0[1],d1[6])"),
    ("token_type_ids", "tensor<int8>(d0[1],d1[6])"),
];

#[test]
fn a_row_that_the_model_fails_on_fails_alone() {
    let model = load("cross-encoder", ModelThreads::default()).expect("it is a model");
    let evaluation = bind(&model, TOKENS, &["logits"]).expect("it fits");
    assert!(evaluation.is_batched());
    assert_eq!(evaluation.output_types(), [tensor_type("tensor<float>(d0[1],d1[1])")]);
    let row = |token: f64| {
        let of = "tensor(d0[1],d1[6])";
        ModelRows::one(&[
            tensor(of, &[2.0, token, 3.0, 7.0, 3.0, 0.0]),
            tensor(of, &[1.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
            tensor(of, &[0.0, 0.0, 0.0, 1.0, 1.0, 0.0]),
        ])
    };
    let scores = |tokens: &[f64]| -> Vec<f64> {
        let mut rows = row(tokens[0]);
        tokens[1..].iter().for_each(|token| rows.append(&row(*token)));
        evaluation.run(rows, &|| false).expect("it runs")[0].iter().collect()
    };
    let alone = [scores(&[5.0])[0], scores(&[6.0])[0]];
    assert_ne!(alone[0], alone[1]);
    // There are 32 tokens.
    let [one, poison, other] = scores(&[5.0, 999.0, 6.0])[..] else { panic!("three rows") };
    assert!(poison.is_nan(), "{poison}");
    assert!((one - alone[0]).abs() < 1e-4 && (other - alone[1]).abs() < 1e-4, "{one} {other} {alone:?}");
    assert_eq!(model.usage().failed, 1);
}

#[test]
fn who_does_not_wait_gets_nothing() {
    let model = load("cross-encoder", ModelThreads::default()).expect("it is a model");
    let evaluation = bind(&model, TOKENS, &["logits"]).expect("it fits");
    let ones = vec![1.0; 6 * 4000];
    let rows = ModelRows { count: 4000, inputs: vec![ones.clone(), ones, vec![0.0; 6 * 4000]] };
    let error = evaluation.run(rows, &|| true).expect_err("nobody waits");
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
}

#[test]
fn an_idle_model_leaves_memory_and_comes_back() {
    let model = load("linear", ModelThreads::default()).expect("it is a model");
    let evaluation = bind(&model, FEATURES, &["score"]).expect("it fits");
    assert!(model.is_loaded());
    assert!(!model.unload_idle(Duration::from_secs(60)));
    assert!(model.unload_idle(Duration::ZERO));
    assert!(!model.is_loaded());
    assert_eq!(linear(&evaluation, &[[0.0, 1.0, 0.0]]), [10.0]);
    assert!(model.is_loaded());
}

#[test]
fn what_does_not_fit_is_refused_with_what_was_expected_and_found() {
    let linear = load("linear", ModelThreads::default()).expect("it is a model");
    let cross = load("cross-encoder", ModelThreads::default()).expect("it is a model");
    let check = |model: &Arc<ModelEvaluator>, inputs: &[(&str, &str)], output: &str, parts: &[&str]| {
        let error = bind(model, inputs, &[output]).err().expect("it does not fit").to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "expected {parts:?}, found '{error}'");
    };
    let found = "'features' float[batch,3]";
    check(&linear, &[("other", "tensor(d0[1])")], "score", &["does not contain input: 'other'", found]);
    check(&linear, &[], "score", &["input 'features' float[batch,3] is given nothing"]);
    check(
        &linear,
        &[("features", "tensor<float>(d0[1],d1[4])")],
        "score",
        &[
            found,
            "has size 3 in d1",
            "is given tensor<float>(d0[1],d1[4])",
            "expected a type such as tensor<float>(d0[1],d1[3])",
        ],
    );
    check(&linear, &[("features", "tensor<float>(d1[3])")], "score", &[found, "has 2 dimensions"]);
    check(&linear, &[("features", "tensor<float>(d0{},d1[3])")], "score", &[found, "has 2 dimensions"]);
    check(&linear, &[("features", "tensor()")], "score", &[found, "is given tensor()"]);
    check(
        &linear,
        FEATURES,
        "logits",
        &["does not contain required output: 'logits'", "'score' float[batch,1], 'twice:0' float[batch,1]"],
    );
    let mut uneven = TOKENS.to_vec();
    uneven[1].1 = "tensor(d0[1],d1[5])";
    check(&cross, &uneven, "logits", &["'attention_mask'", "has size 6 in 'sequence_length'"]);
    let long: Vec<(&str, &str)> = TOKENS.iter().map(|(name, _)| (*name, "tensor(d0[1],d1[65])")).collect();
    check(&cross, &long, "logits", &["the model fails on inputs of these types"]);
    let corrupt = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(corrupt.path(), b"no model").expect("it is written");
    let error =
        ModelEvaluator::load("m", corrupt.path().to_owned(), ModelThreads::default(), scheduler()).err();
    assert!(matches!(error, Some(Error::Load { .. })));
}
