//! ONNX models in profiles, with a stand-in that sums its inputs and records its runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_plan::{Plan, QueryMemory, QueryMemoryError, QueryMemoryLedger};
use millrace_ranking::{
    CompiledProfile, Error, FeatureSelection, ModelFailure, ModelInputRows, ModelSource, RankModelEvaluation,
    RankModelFile, RankOutcome, RankedDocuments,
};
use millrace_result::FeatureValue;
use millrace_schema::{ModelExecution, ModelFile, OnnxModelConfig, RankPhase, RankProfile, SourcedText};
use millrace_tensor::{Tensor, TensorCells, TensorType};
use parking_lot::Mutex;

use crate::support::{self, documents, matches, plan, profile, schema, sourced, view};

/// Runs recorded in a test: the row sums of each run.
#[derive(Default)]
struct SeenRuns {
    runs: Mutex<Vec<Vec<f64>>>,
}

/// A model that returns the sum of all cells of a row as a tensor `d0[1]`; 100 more for the output `other`. A
/// row with a negative sum fails.
#[derive(Clone)]
struct SumModels(Arc<SeenRuns>, &'static str);

impl ModelSource for SumModels {
    fn open(&self, name: &str, model: &OnnxModelConfig) -> Result<Arc<dyn RankModelFile>, Error> {
        match model.file.value.to_string().as_str() {
            "models/corrupt.onnx" => Err(Error::setup(format!("onnx-model {name}: no model"))),
            _ => Ok(Arc::new(self.clone())),
        }
    }
}

impl RankModelFile for SumModels {
    fn inputs(&self) -> Vec<String> {
        vec!["a".to_owned(), "b".to_owned()]
    }

    fn outputs(&self) -> Vec<String> {
        vec!["sum".to_owned(), "other:0".to_owned()]
    }

    fn bind(
        &self,
        inputs: &[(&str, &TensorType)],
        output: &str,
    ) -> Result<Arc<dyn RankModelEvaluation>, Error> {
        if inputs.iter().any(|(_, of)| of.is_scalar()) {
            return Err(Error::setup("expected a tensor"));
        }
        Ok(Arc::new(SumEvaluation(Arc::clone(&self.0), if output == "sum" { 0.0 } else { 100.0 }, self.1)))
    }
}

struct SumEvaluation(Arc<SeenRuns>, f64, &'static str);

impl RankModelEvaluation for SumEvaluation {
    fn tensor_type(&self) -> TensorType {
        support::tensor_type("tensor<float>(d0[1])")
    }

    fn run(&self, rows: ModelInputRows, stop: &dyn Fn() -> bool) -> Result<TensorCells, ModelFailure> {
        if stop() {
            return Err(ModelFailure::Stopped);
        }
        if self.2 == "overloaded" {
            return Err(ModelFailure::Overloaded("too much".to_owned()));
        }
        let cells = |row: usize, cells: &Vec<f64>| {
            let width = cells.len() / rows.count;
            cells[row * width..(row + 1) * width].iter().sum::<f64>()
        };
        let sum = |row| rows.inputs.iter().map(|input| cells(row, input)).sum();
        let sums: Vec<f64> = (0..rows.count).map(sum).collect();
        self.0.runs.lock().push(sums.clone());
        let number = |sum: f64| if sum < 0.0 { f32::NAN } else { (sum + self.1) as f32 };
        Ok(TensorCells::Float(sums.into_iter().map(number).collect()))
    }
}

fn model(inputs: &[(&str, &str)]) -> OnnxModelConfig {
    OnnxModelConfig {
        file: SourcedText {
            value: ModelFile::Path("models/m.onnx".to_owned()),
            position: sourced("").position,
        },
        inputs: inputs.iter().map(|(name, source)| ((*name).to_owned(), sourced(source))).collect(),
        outputs: vec![("other:0".to_owned(), "second".to_owned())],
        execution: ModelExecution::default(),
    }
}

/// A profile with a model `m` and the given inputs. The documents' sums of vector and price are 7 and 4, 1,
/// and 0.
fn with_model(first_phase: &str, inputs: &[(&str, &str)]) -> RankProfile {
    RankProfile { onnx_models: BTreeMap::from([("m".to_owned(), model(inputs))]), ..profile(first_phase) }
}

const INPUTS: &[(&str, &str)] = &[("a", "attribute(vector)"), ("b", "tensor(d0[1])(attribute(price))")];

fn phase(expression: &str, count: usize) -> RankPhase {
    RankPhase { expression: Some(sourced(expression)), rerank_count: Some(count), ..RankPhase::default() }
}

struct RankedSums {
    ranked: RankOutcome,
    hits: Vec<(usize, f64)>,
    features: Vec<Vec<(Arc<str>, FeatureValue)>>,
    seen: Arc<SeenRuns>,
}

fn rank(profile: RankProfile, kind: &'static str, stop: &dyn Fn() -> bool) -> Result<RankedSums, String> {
    let seen = Arc::new(SeenRuns::default());
    let schema = schema([profile]);
    let compiled = CompiledProfile::with_models(&schema, "default", &SumModels(Arc::clone(&seen), kind))
        .map_err(|errors| errors[0].to_string())?;
    let view = view(&schema, &documents());
    let plan = plan(schema);
    let matches = matches(&plan, &view, &compiled);
    let over = RankedDocuments { plan: &plan, view: &view, matches: &matches };
    let ranked = compiled.rank(&over, None, 10, stop).map_err(|error| error.to_string())?;
    let features = compiled
        .returned_features(FeatureSelection::Match, &over, &ranked.hits, &ranked.known, stop)
        .map_err(|error| error.to_string())?;
    let hits = ranked.hits.iter().map(|hit| (hit.chunk * 2 + usize::from(hit.document), hit.score)).collect();
    Ok(RankedSums { ranked, hits, features, seen })
}

/// Type and cells as text.
fn displayed(tensor: &Tensor) -> String {
    let cells: Vec<String> = tensor.cells().iter().map(|cell| cell.to_string()).collect();
    format!("{}:{}", tensor.tensor_type(), cells.join(","))
}

fn runs(profile: RankProfile) -> (Vec<(usize, f64)>, Vec<Vec<f64>>) {
    let found = rank(profile, "", &|| false).unwrap_or_else(|error| panic!("{error}"));
    let runs = found.seen.runs.lock().clone();
    (found.hits, runs)
}

#[test]
fn a_model_runs_once_over_all_hits_of_a_phase() {
    // Documents 0 and 1 are in one chunk, document 2 is in the next.
    let shape = [("a", "tensor(d0[1])(matchCount(title))"), ("b", "tensor(d0[1])(1)")];
    let second = RankProfile {
        second_phase: phase("onnx(m).sum{d0:0} * 10", 3),
        ..with_model("matchCount(title)", &shape)
    };
    let (hits, seen) = runs(second);
    assert_eq!(seen, [vec![4.0, 3.0, 2.0]], "one run, best first");
    assert_eq!(hits, [(2, 40.0), (0, 30.0), (1, 20.0)]);
    let best = RankProfile {
        second_phase: phase("sum(onnxModel(m).sum)", 1),
        ..with_model("matchCount(title)", &shape)
    };
    assert_eq!(runs(best), (vec![(2, 4.0), (0, 2.0), (1, 1.0)], vec![vec![4.0]]));
    let global = RankProfile {
        global_phase: phase("reciprocal_rank(sum(onnx(m).sum),0) + sum(onnx(m).sum)", 2),
        ..with_model("matchCount(title)", &shape)
    };
    let (hits, seen) = runs(global);
    assert_eq!(seen, [vec![4.0, 3.0]]);
    assert_eq!(hits, [(2, 5.0), (0, 3.5), (1, 1.0)]);
    let (hits, seen) = runs(with_model("sum(onnx(m).sum)", &shape));
    assert_eq!(seen, [vec![3.0, 2.0, 4.0]], "the first phase gives it all that matched");
    assert_eq!(hits, [(2, 4.0), (0, 3.0), (1, 2.0)]);
}

#[test]
fn outputs_have_their_own_names_and_those_of_the_schema() {
    let shown = |feature: &str| {
        let profile = RankProfile { match_features: vec![sourced(feature)], ..with_model("1", INPUTS) };
        let found = rank(profile, "", &|| false).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(&*found.features[0][0].0, feature);
        match &found.features[0][0].1 {
            FeatureValue::Tensor(tensor) => displayed(tensor),
            FeatureValue::Number(number) => number.to_string(),
        }
    };
    assert_eq!(shown("onnx(m).sum"), "tensor<float>(d0[1]):9.5");
    assert_eq!(shown("onnx(m).second"), "tensor<float>(d0[1]):109.5");
    assert_eq!(shown("onnx(m).other_0"), "tensor<float>(d0[1]):109.5");
    // Without a name it is the first output of the block.
    assert_eq!(shown("onnx(m)"), "tensor<float>(d0[1]):109.5");
}

/// Least memory, in bytes, with which a profile ranks all documents; with less, the query is refused.
fn needed(profile: RankProfile) -> usize {
    let schema = schema([profile]);
    let compiled = CompiledProfile::with_models(&schema, "default", &SumModels(Arc::default(), ""));
    let compiled = compiled.unwrap_or_else(|errors| panic!("{}", errors[0]));
    let view = view(&schema, &documents());
    let plan = plan(schema);
    let matches = matches(&plan, &view, &compiled);
    let (mut refused, mut enough) = (0_usize, 1 << 20);
    while refused + 1 < enough {
        let limit = refused.midpoint(enough);
        let plan =
            Plan { memory: QueryMemory::new(limit, QueryMemoryLedger::new(usize::MAX)), ..plan.clone() };
        let over = RankedDocuments { plan: &plan, view: &view, matches: &matches };
        match compiled.rank(&over, None, 10, &|| false) {
            Ok(_) => enough = limit,
            Err(Error::Memory(QueryMemoryError::OfQuery { limit: displayed })) => {
                assert_eq!(displayed, limit);
                refused = limit;
            }
            Err(error) => panic!("{error}"),
        }
    }
    enough
}

#[test]
fn inputs_and_outputs_of_models_are_counted() {
    let wide = [("a", "tensor<float>(d0[1000])(d0)"), ("b", "tensor<float>(d0[500])(d0)")];
    // Three documents; inputs are given to models as doubles.
    let inputs = 3 * 1500 * size_of::<f64>();
    let with = needed(with_model("sum(onnx(m).sum)", &wide));
    assert!(with >= inputs, "{with} bytes; the inputs have {inputs}");
    // Outputs are kept when the inputs are gone: of the second model beside the inputs of the first.
    let mut twice = with_model("sum(onnx(m).sum) + sum(onnx(other).sum)", &wide);
    twice.onnx_models.insert("other".to_owned(), model(&wide));
    let both = needed(twice);
    assert!(both >= with + 3 * size_of::<f32>(), "{both} bytes for two models, {with} for one");
    assert!(both < with + inputs, "{both} bytes: the inputs of one model are there at a time");
}

#[test]
fn a_model_may_be_given_what_another_gives() {
    let mut profile = with_model("sum(onnx(outer).sum)", INPUTS);
    profile.onnx_models.insert("outer".to_owned(), model(&[("a", "onnx(m).sum"), ("b", "onnx(m).sum")]));
    let (hits, seen) = runs(profile);
    assert_eq!(hits[..2], [(1, 22.0), (0, 19.0)]);
    assert_eq!(seen.len(), 2);
}

#[test]
fn inputs_that_are_not_declared_come_from_functions_of_their_name() {
    let mut profile = with_model("sum(onnx(m).sum)", &[("a", "attribute(vector)")]);
    let body = millrace_schema::FunctionDef {
        parameters: Vec::new(),
        body: sourced("tensor(d0[1])(3)"),
        inline: false,
    };
    profile.functions.insert("b".to_owned(), body);
    assert_eq!(runs(profile).0, [(0, 10.0), (1, 4.0), (2, 3.0)]);
}

#[test]
fn what_a_model_fails_on_comes_last() {
    let negative = [("a", "tensor(d0[1])(if (attribute(price) > 5, -1, 1))"), ("b", "tensor(d0[1])(0)")];
    let (hits, _) = runs(with_model("sum(onnx(m).sum)", &negative));
    assert_eq!(hits, [(0, 1.0), (2, 1.0), (1, f64::NEG_INFINITY)]);
}

#[test]
fn a_query_that_is_over_keeps_the_scores_it_has() {
    let profile = RankProfile {
        second_phase: phase("sum(onnx(m).sum)", 3),
        match_features: vec![sourced("onnx(m).sum")],
        ..with_model("matchCount(title)", INPUTS)
    };
    // The time is up between the first phase, which checks before each of two chunks, and the model.
    let asked = std::cell::Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    };
    let found = rank(profile.clone(), "", &stop).expect("what was found is an answer");
    assert_eq!(found.hits, [(2, 3.0), (0, 2.0), (1, 1.0)]);
    assert!(found.ranked.timed_out);
    let FeatureValue::Tensor(shown) = &found.features[0][0].1 else { panic!("a tensor") };
    assert!(shown.cells().get(0).is_nan());
    let refused = rank(profile, "overloaded", &|| false).err();
    assert_eq!(refused.as_deref(), Some("too much"));
}

#[test]
fn what_cannot_work_is_refused() {
    let check = |profile: RankProfile, part: &str| {
        let error = rank(profile, "", &|| false).err().unwrap_or_default();
        assert!(error.contains(part), "expected '{part}', found '{error}'");
    };
    check(with_model("sum(onnx(other))", INPUTS), "onnx(other): no such onnx-model, only m");
    check(with_model("sum(onnx(m).third)", INPUTS), "no output 'third', only second, sum, other_0");
    check(with_model("onnx(m)", INPUTS), "a score must be a number, but this is tensor<float>(d0[1])");
    check(
        with_model("sum(onnx(m))", &[("c", "attribute(price)")]),
        "Model does not contain input: 'c'. Model contains: a, b",
    );
    check(with_model("sum(onnx(m))", &[("a", "attribute(vector)")]), "input 'b'");
    check(
        with_model("sum(onnx(m))", &[("a", "attribute(price)"), ("b", "attribute(vector)")]),
        "models/m.onnx: expected a tensor",
    );
    check(
        with_model("sum(onnx(m))", &[("a", "onnx(m)"), ("b", "attribute(vector)")]),
        "the model is its own input",
    );
    let normalized = [("a", "tensor(d0[1])(normalize_linear(attribute(price)))"), ("b", "attribute(vector)")];
    check(
        RankProfile { global_phase: phase("sum(onnx(m))", 3), ..with_model("1", &normalized) },
        "compares hits with each other",
    );
    let mut corrupt = with_model("sum(onnx(m))", INPUTS);
    corrupt.onnx_models.get_mut("m").expect("it is there").file.value =
        ModelFile::Path("models/corrupt.onnx".to_owned());
    check(corrupt, "onnx-model m: no model");
}

#[test]
fn sequences_of_tokens_are_put_together_for_transformers() {
    let shown = |feature: &str| {
        let profile = RankProfile { match_features: vec![sourced(feature)], ..profile("1") };
        let found = rank(profile, "", &|| false).unwrap_or_else(|error| panic!("{error}"));
        match &found.features[0][0].1 {
            FeatureValue::Tensor(tensor) => displayed(tensor),
            FeatureValue::Number(number) => panic!("{feature} is {number}"),
        }
    };
    let two = "constant(weights),attribute(vector)";
    let expect = |cells: &str| format!("tensor(d0[1],d1[8]):{cells}");
    assert_eq!(shown(&format!("tokenInputIds(8,{two})")), expect("101,10,1,102,3,4,102,0"));
    assert_eq!(shown(&format!("tokenTypeIds(8,{two})")), expect("0,0,0,0,1,1,1,0"));
    assert_eq!(shown(&format!("tokenAttentionMask(8,{two})")), expect("1,1,1,1,1,1,1,0"));
    assert_eq!(shown("customTokenInputIds(1,2,8,attribute(vector))"), expect("1,3,4,2,0,0,0,0"));
    for (feature, part) in [
        ("tokenInputIds(8)", "write tokenInputIds(length,input,…)"),
        ("tokenInputIds(70000,attribute(vector))", "the length at most 65536"),
        (
            "customTokenInputIds(1,8,attribute(vector))",
            "write customTokenInputIds(start,separator,length,input,…)",
        ),
        ("tokenInputIds(8,attribute(price))", "must be a tensor of tokens"),
    ] {
        let profile = RankProfile { match_features: vec![sourced(feature)], ..profile("1") };
        let error = rank(profile, "", &|| false).err().unwrap_or_default();
        assert!(error.contains(part), "{feature}: {error}");
    }
}
