//! Predicate fields: each document's conditions, for the attributes of a query.

use std::sync::Arc;

use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{Fields, field, plan, schema, view};
use millrace_matching::{RankingDemands, match_plan};
use millrace_plan::{LeafId, PlanNode, Predicate, QueryAttributes};

/// Predicates of the documents; the last is no predicate, as it may have been stored as text.
const PREDICATES: [Option<&str>; 5] = [
    Some("gender in [Female] and age in [20..30]"),
    Some("gender not in [Female]"),
    None,
    Some("true"),
    Some("gender in"),
];

#[test]
fn documents_match_whose_predicates_hold() {
    let schema = Arc::new(schema("test", vec![field("wanted", DataType::Predicate, false)]));
    let document = |predicate: &Option<&str>| {
        let value = predicate.map(|predicate| ("wanted", DocumentValue::String(predicate.to_owned())));
        (value.into_iter().collect::<Fields>(), true)
    };
    let documents: Vec<(Fields, bool)> = PREDICATES.iter().map(document).collect();
    let view = view(&schema, &documents, 2);
    for (values, numbers, expected) in [
        (vec![("gender", "Female")], vec![("age", 20)], vec![0, 3]),
        (vec![("gender", "Female")], vec![("age", 31)], vec![3]),
        (vec![("gender", "Male"), ("gender", "Female")], vec![("age", 25)], vec![0, 3]),
        (vec![("gender", "Male")], vec![], vec![1, 3]),
        (vec![], vec![], vec![1, 3]),
    ] {
        let attributes = QueryAttributes {
            values: values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            numbers: numbers.iter().map(|(key, number)| ((*key).to_owned(), *number)).collect(),
        };
        let leaves = vec![("wanted", Predicate::Conditions(attributes))];
        let plan = plan(&schema, PlanNode::Leaf(LeafId(0)), leaves);
        let matched = match_plan(&plan, &view, RankingDemands::default(), &|| false).unwrap();
        let chunks = matched.chunks.iter();
        let found: Vec<usize> = chunks
            .flat_map(|chunk| chunk.documents.iter().map(|at| chunk.chunk * 2 + usize::from(*at)))
            .collect();
        assert_eq!(found, expected, "{values:?} {numbers:?}");
    }
}
