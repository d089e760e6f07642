//! Distances to documents with several vectors, compared with loops over the cells, for all metrics and cell
//! types, and with the plain paths.

use std::sync::Arc;

use millrace_column::View;
use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{Fields, PlainView, field, plan, schema, view};
use millrace_matching::{LeafMatches, RankingDemands, match_plan};
use millrace_plan::{LeafId, PlanNode, Predicate};
use millrace_schema::{DistanceMetric, Schema};
use millrace_tensor::{Tensor, TensorCells, TensorType};
use proptest::prelude::*;

const METRICS: [DistanceMetric; 5] = [
    DistanceMetric::Angular,
    DistanceMetric::PrenormalizedAngular,
    DistanceMetric::DotProduct,
    DistanceMetric::Euclidean,
    DistanceMetric::Hamming,
];

/// Types of fields with several vectors a document.
fn field_type(cell: &str, two_dimensions: bool, width: usize) -> TensorType {
    let mapped = if two_dimensions { "a{},c{}" } else { "c{}" };
    TensorType::parse(&format!("tensor<{cell}>({mapped},x[{width}])")).expect("the type is well written")
}

fn test_schema(tensor_type: &TensorType) -> Arc<Schema> {
    Arc::new(schema("test", vec![field("chunks", DataType::Tensor(tensor_type.clone()), false)]))
}

/// A tensor with these vectors; labels of several lengths, so that cells lie at all alignments.
fn tensor(tensor_type: &TensorType, vectors: &[Vec<i8>], offset: usize) -> Tensor {
    let mapped = tensor_type.mapped().count();
    let label = |number: usize| format!("{}{number}", "l".repeat((number + offset) % 4));
    let labels = (0..vectors.len()).flat_map(|number| (0..mapped).map(move |_| label(number))).collect();
    let width = tensor_type.dense_size();
    let mut cells = TensorCells::with_capacity(tensor_type.cell(), vectors.len() * width);
    vectors.iter().flat_map(|vector| &vector[..width]).for_each(|cell| cells.push(f64::from(*cell)));
    Tensor::new(tensor_type.clone(), labels, cells).expect("labels and cells are of the same count")
}

/// Distance of two vectors, by its definition.
fn distance(metric: DistanceMetric, query: &[i8], vector: &[i8]) -> f64 {
    let pairs = || query.iter().zip(vector).map(|(a, b)| (f64::from(*a), f64::from(*b)));
    let product: f64 = pairs().map(|(a, b)| a * b).sum();
    match metric {
        DistanceMetric::Euclidean => pairs().map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt(),
        DistanceMetric::DotProduct => -product,
        DistanceMetric::PrenormalizedAngular => 1.0 - product,
        DistanceMetric::Hamming => {
            query.iter().zip(vector).map(|(a, b)| f64::from((a ^ b).count_ones())).sum()
        }
        DistanceMetric::Angular => {
            let squares = pairs().fold((0.0, 0.0), |(a, b), (x, y)| (a + x * x, b + y * y));
            let lengths = (squares.0 * squares.1).sqrt();
            if lengths == 0.0 {
                std::f64::consts::FRAC_PI_2
            } else {
                (product / lengths).clamp(-1.0, 1.0).acos()
            }
        }
        DistanceMetric::GeoDegrees => unreachable!("places have a test of their own"),
    }
}

/// The matched documents with their distances.
fn found(
    schema: &Arc<Schema>,
    view: &dyn View,
    target: &Arc<Tensor>,
    metric: DistanceMetric,
    chunk: usize,
) -> Vec<(usize, f64)> {
    let nearest =
        Predicate::Nearest { target: Arc::clone(target), metric, target_hits: 1000, threshold: None };
    let plan = plan(schema, PlanNode::Leaf(LeafId(0)), vec![("chunks", nearest)]);
    let matches =
        match_plan(&plan, view, RankingDemands::default(), &|| false).expect("columns in memory can be read");
    let mut all = Vec::new();
    for of_chunk in &matches.chunks {
        let LeafMatches::Distances(distances) = &of_chunk.leaves[0] else { panic!("distances are measured") };
        let documents =
            of_chunk.documents.iter().map(|document| of_chunk.chunk * chunk + usize::from(*document));
        all.extend(documents.zip(distances.iter().copied()));
    }
    all
}

type Vectors = Option<Vec<Vec<i8>>>;

fn documents(cells: usize) -> impl Strategy<Value = Vec<(Vectors, bool)>> {
    let vector = proptest::collection::vec(-3i8..4, cells);
    let vectors = proptest::option::weighted(0.9, proptest::collection::vec(vector, 0..21));
    proptest::collection::vec((vectors, proptest::bool::weighted(0.9)), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_nearest_of_several_vectors_is_found_where_it_lies(
        documents in documents(40),
        target in proptest::collection::vec(-3i8..4, 40),
        metric in proptest::sample::select(&METRICS[..]),
        cell in proptest::sample::select(&["double", "float", "bfloat16", "int8"][..]),
        two_dimensions in any::<bool>(),
        width in prop_oneof![Just(1usize), Just(3), Just(8), Just(16), Just(33), Just(40)],
        chunk in 1usize..20,
    ) {
        let tensor_type = field_type(cell, two_dimensions, width);
        let schema = test_schema(&tensor_type);
        let rows: Vec<(Fields, bool)> = documents
            .iter()
            .enumerate()
            .map(|(number, (vectors, live))| {
                let value = vectors.as_ref().map(|vectors| tensor(&tensor_type, vectors, number));
                let value = value.map(|value| ("chunks", DocumentValue::Tensor(value)));
                (value.into_iter().collect(), *live)
            })
            .collect();
        let view = view(&schema, &rows, chunk);
        let target_type = TensorType::parse(&format!("tensor<{cell}>(x[{width}])")).expect("a type");
        let mut cells = TensorCells::with_capacity(target_type.cell(), width);
        target[..width].iter().for_each(|cell| cells.push(f64::from(*cell)));
        let query = Arc::new(Tensor::new(target_type, Vec::new(), cells).expect("it fits its type"));

        let expected: Vec<(usize, f64)> = documents
            .iter()
            .enumerate()
            .filter(|(_, (_, live))| *live)
            .filter_map(|(number, (vectors, _))| {
                let distances =
                    vectors.iter().flatten().map(|vector| distance(metric, &target[..width], &vector[..width]));
                let nearest = distances.fold(f64::INFINITY, f64::min);
                (nearest < f64::INFINITY).then_some((number, nearest))
            })
            .collect();
        let fast = found(&schema, &view, &query, metric, chunk);
        let plain = found(&schema, &PlainView(view), &query, metric, chunk);
        for measured in [&fast, &plain] {
            prop_assert_eq!(measured.len(), expected.len());
            for ((document, distance), (expected_document, expected_distance)) in measured.iter().zip(&expected) {
                prop_assert_eq!(document, expected_document);
                prop_assert!(
                    (distance - expected_distance).abs() < 1e-9,
                    "document {} is at {}, not {}", document, distance, expected_distance
                );
            }
        }
    }
}

#[test]
fn the_nearest_of_several_places_is_found() {
    let tensor_type = field_type("double", false, 2);
    let schema = test_schema(&tensor_type);
    let places = vec![vec![60, 11], vec![59, 18]];
    let rows: Vec<(Fields, bool)> =
        vec![([("chunks", DocumentValue::Tensor(tensor(&tensor_type, &places, 0)))].into(), true)];
    let target = Tensor::parse("tensor<double>(x[2]):[59.0,18.5]", None).expect("a tensor");
    let near = found(&schema, &view(&schema, &rows, 10), &Arc::new(target), DistanceMetric::GeoDegrees, 10);
    assert_eq!(near.len(), 1);
    // Half a degree of longitude at 59 degrees north.
    assert!((28.0..29.0).contains(&near[0].1), "{near:?}");
}
