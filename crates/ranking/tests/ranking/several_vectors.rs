//! Expressions over documents with several vectors, on the fast and the plain paths, compared with loops over
//! the cells.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_column::View;
use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{Fields, PlainView, field};
use millrace_matching::match_plan;
use millrace_plan::{FeatureInput, LeafId, Plan, PlanNode, Predicate};
use millrace_ranking::CompiledProfile;
use millrace_schema::{DistanceMetric, InputDef, InputType, RankPhase, RankProfile, Schema};
use millrace_tensor::{Tensor, TensorCells, TensorType};
use proptest::prelude::*;

use crate::support::{sourced, tensor_type};

const WIDTH: usize = 3;

fn schema(chunks: &TensorType, expression: &str) -> Schema {
    let input_type = InputType::Tensor(tensor_type("tensor<float>(x[3])"));
    let profile = RankProfile {
        name: "default".to_owned(),
        inputs: BTreeMap::from([("q".to_owned(), InputDef { input_type, default: None })]),
        first_phase: RankPhase { expression: Some(sourced(expression)), ..RankPhase::default() },
        ..RankProfile::default()
    };
    Schema {
        rank_profiles: BTreeMap::from([("default".to_owned(), profile)]),
        ..millrace_fixtures::schema("test", vec![field("chunks", DataType::Tensor(chunks.clone()), false)])
    }
}

fn query(vector: &[i8]) -> Arc<Tensor> {
    let cells = TensorCells::Float(vector.iter().map(|cell| f32::from(*cell)).collect());
    Arc::new(Tensor::new(tensor_type("tensor<float>(x[3])"), Vec::new(), cells).expect("it fits its type"))
}

/// A query for all documents, ranked with the vectors nearest to the one of the query.
fn plan(schema: Schema, vector: &[i8]) -> Plan {
    let nearest = Predicate::Nearest {
        target: query(vector),
        metric: DistanceMetric::Euclidean,
        target_hits: 100,
        threshold: None,
    };
    let root = PlanNode::Rank(Box::new(PlanNode::True), vec![PlanNode::Leaf(LeafId(0))]);
    let mut plan = millrace_fixtures::plan(&Arc::new(schema), root, vec![("chunks", nearest)]);
    plan.inputs = BTreeMap::from([("q".to_owned(), FeatureInput::Tensor(query(vector)))]);
    plan
}

/// Labels of a vector: its number, in the first mapped dimension, and another in the second.
fn labels(number: usize, mapped: usize) -> Vec<String> {
    [number.to_string(), format!("other{}", number % 3)].into_iter().take(mapped).collect()
}

fn tensor(chunks: &TensorType, vectors: &[Vec<i8>]) -> Tensor {
    let mapped = chunks.mapped().count();
    let mut cells = TensorCells::with_capacity(chunks.cell(), vectors.len() * WIDTH);
    vectors.iter().flatten().for_each(|cell| cells.push(f64::from(*cell)));
    let labels = (0..vectors.len()).flat_map(|number| labels(number, mapped)).collect();
    Tensor::new(chunks.clone(), labels, cells).expect("it fits its type")
}

fn scores(compiled: &CompiledProfile, plan: &Plan, view: &dyn View) -> Vec<f64> {
    let matches =
        match_plan(plan, view, compiled.demands(plan), &|| false).expect("columns in memory can be read");
    let ranked =
        compiled.first_phase(plan, view, &matches, &|| false).expect("columns in memory can be read");
    ranked.scores.into_iter().flatten().collect()
}

/// The score that an expression has for a document without vectors, and its value for one with some.
type ExpectedScore = fn(&[i8], &[Vec<i8>]) -> f64;

fn product(a: &[i8], b: &[i8]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

fn largest(query: &[i8], vectors: &[Vec<i8>]) -> f64 {
    vectors.iter().map(|vector| product(query, vector)).reduce(f64::max).unwrap_or(0.0)
}

/// Number of the vector nearest to the query, the first of several.
fn nearest(query: &[i8], vectors: &[Vec<i8>]) -> Option<usize> {
    let distance = |vector: &Vec<i8>| -> i32 {
        query.iter().zip(vector).map(|(a, b)| (i32::from(*a) - i32::from(*b)).pow(2)).sum()
    };
    (0..vectors.len()).min_by_key(|number| distance(&vectors[*number]))
}

fn square_distance(a: &[i8], b: &[i8]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum()
}

fn differing_bits(a: &[i8], b: &[i8]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from((a ^ b).count_ones())).sum()
}

const EXPRESSIONS: [(&str, ExpectedScore); 12] = [
    ("reduce(1 + sum(query(q) * attribute(chunks), x), max)", |query, vectors| {
        if vectors.is_empty() { 0.0 } else { 1.0 + largest(query, vectors) }
    }),
    ("reduce(2 * sum(map(query(q) - attribute(chunks), f(d)(d * d)), x), min)", |query, vectors| {
        let distances = vectors.iter().map(|vector| 2.0 * square_distance(query, vector));
        distances.reduce(f64::min).unwrap_or(0.0)
    }),
    ("reduce(sum(hamming(query(q), attribute(chunks)), x), max)", |query, vectors| {
        vectors.iter().map(|vector| differing_bits(query, vector)).reduce(f64::max).unwrap_or(0.0)
    }),
    (
        "reduce(sum(attribute(chunks) * attribute(chunks), x) - sum(query(q) * query(q)), sum)",
        |query, vectors| vectors.iter().map(|vector| product(vector, vector) - product(query, query)).sum(),
    ),
    ("sum(top(2, sum(query(q) * attribute(chunks), x)))", |query, vectors| {
        let mut products: Vec<f64> = vectors.iter().map(|vector| product(query, vector)).collect();
        products.sort_by(|a, b| b.total_cmp(a));
        products.iter().take(2).sum()
    }),
    ("reduce(query(q) * attribute(chunks), max)", |query, vectors| {
        let cells = vectors.iter().flat_map(|vector| query.iter().zip(vector));
        cells.map(|(a, b)| f64::from(*a) * f64::from(*b)).reduce(f64::max).unwrap_or(0.0)
    }),
    ("reduce(sum(query(q) * attribute(chunks), x), max)", largest),
    ("sum(query(q) * attribute(chunks))", |query, vectors| {
        vectors.iter().map(|vector| product(query, vector)).sum()
    }),
    ("sum(attribute(chunks) * attribute(chunks))", |_, vectors| {
        vectors.iter().map(|vector| product(vector, vector)).sum()
    }),
    ("reduce(closest(chunks), count)", |_, vectors| f64::from(u8::from(!vectors.is_empty()))),
    ("sum(closest(chunks) * attribute(chunks))", |query, vectors| {
        nearest(query, vectors)
            .map_or(0.0, |number| vectors[number].iter().map(|cell| f64::from(*cell)).sum())
    }),
    ("sum(join(sum(query(q) * attribute(chunks), x), closest(chunks), f(a, b)(a * b)))", |query, vectors| {
        nearest(query, vectors).map_or(0.0, |number| product(query, &vectors[number]))
    }),
];

fn documents() -> impl Strategy<Value = Vec<Option<Vec<Vec<i8>>>>> {
    let vector = proptest::collection::vec(-4i8..5, WIDTH);
    let vectors = proptest::option::weighted(0.9, proptest::collection::vec(vector, 0..20));
    proptest::collection::vec(vectors, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn expressions_read_several_vectors_as_their_plain_forms_do(
        documents in documents(),
        vector in proptest::collection::vec(-4i8..5, WIDTH),
        expression in proptest::sample::select(&EXPRESSIONS[..]),
        cell in proptest::sample::select(&["double", "float", "bfloat16", "int8"][..]),
        mapped in proptest::sample::select(&["c{}", "a{},c{}"][..]),
    ) {
        let chunks = tensor_type(&format!("tensor<{cell}>({mapped},x[{WIDTH}])"));
        let schema = schema(&chunks, expression.0);
        let compiled = CompiledProfile::compile(&schema, "default").expect("the expressions here are right");
        let rows: Vec<(Fields, bool)> = documents
            .iter()
            .map(|vectors| {
                let value = vectors.as_ref().map(|vectors| tensor(&chunks, vectors));
                (value.map(|value| ("chunks", DocumentValue::Tensor(value))).into_iter().collect(), true)
            })
            .collect();
        let view = millrace_fixtures::view(&schema, &rows, 5);
        let plan = plan(schema, &vector);
        let expected: Vec<f64> =
            documents.iter().map(|vectors| (expression.1)(&vector, vectors.as_deref().unwrap_or(&[]))).collect();
        prop_assert_eq!(scores(&compiled, &plan, &view), expected.clone(), "{}", expression.0);
        prop_assert_eq!(scores(&compiled, &plan, &PlainView(view)), expected, "plain {}", expression.0);
    }
}
