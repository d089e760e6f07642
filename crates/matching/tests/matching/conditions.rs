//! Predicate fields: each document's conditions, for the attributes of a query.

use std::sync::Arc;

use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{Fields, field, plan, schema, view};
use millrace_matching::{RankingDemands, match_plan};
use millrace_plan::{LeafId, PlanNode, Predicate, QueryAttributes};
use millrace_query::PredicateAttribute;

/// Predicates of the documents; the last is no predicate, as it may have been stored as text.
const PREDICATES: [Option<&str>; 5] = [
    Some("gender in [Female] and age in [20..30]"),
    Some("gender not in [Female]"),
    None,
    Some("true"),
    Some("gender in"),
];

fn attribute<V>(name: &str, value: V, subqueries: u64) -> PredicateAttribute<V> {
    PredicateAttribute { name: name.to_owned(), value, subqueries }
}

/// Of each predicate, the bits of the subqueries for which it holds.
#[test]
fn subqueries_have_attributes_of_their_own() {
    let of = |name: &str, value: &str, bits| attribute(name, value.to_owned(), bits);
    let (first_and_last, others) = (1 | 1 << 63, 1 << 31 | 1 << 62);
    let (women, norway, all) = ("gender in [Female]", "country in [Norway]", u64::MAX);
    for (values, numbers, predicate, expected) in [
        (vec![of("gender", "Female", all)], vec![], women, all),
        (vec![of("gender", "Female", 1)], vec![], women, 1),
        (vec![of("gender", "Female", 1)], vec![], "gender not in [Female]", !1),
        (vec![of("gender", "Female", 1), of("gender", "Female", 6)], vec![], women, 7),
        (
            vec![of("gender", "Female", first_and_last), of("country", "Norway", others)],
            vec![],
            norway,
            others,
        ),
        (
            vec![of("gender", "Female", first_and_last), of("country", "Norway", others)],
            vec![],
            "gender in [Female] or country in [Norway]",
            first_and_last | others,
        ),
        (
            vec![of("gender", "Female", first_and_last), of("country", "Norway", others | 1)],
            vec![],
            "gender in [Female] and country in [Norway]",
            1,
        ),
        (
            vec![of("gender", "Female", all)],
            vec![attribute("age", 5, 2)],
            "gender in [Female] and age in [1..9]",
            2,
        ),
        (vec![], vec![attribute("age", 5, 2), attribute("age", 50, 4)], "age in [1..9]", 2),
        (vec![of("gender", "Female", 1)], vec![], "gender in", 0),
    ] {
        let attributes = QueryAttributes::new(values, numbers);
        assert_eq!(attributes.subqueries(predicate), expected, "{attributes}: {predicate}");
        assert_eq!(attributes.satisfy(predicate), expected != 0);
    }
}

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
        let attributes = QueryAttributes::new(
            values.iter().map(|(name, value)| attribute(name, (*value).to_owned(), u64::MAX)).collect(),
            numbers.iter().map(|(name, number)| attribute(name, *number, u64::MAX)).collect(),
        );
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
