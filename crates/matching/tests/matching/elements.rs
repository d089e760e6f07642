//! Nearness inside one element: distance, order and exclusion, each against the elements of a text.

use std::sync::Arc;

use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{Fields, field};
use millrace_matching::{RankingDemands, match_plan};
use millrace_plan::{LeafId, PlanNode, Predicate, WordPattern};

/// Indices of the documents with an element in which `near` holds. Words are separated by blanks, and those
/// of `excluded` must not be near.
fn found(near: &str, distance: u32, ordered: bool, excluded: &str, exclusion_distance: u32) -> Vec<u16> {
    let notes = field("notes", DataType::Array(Box::new(DataType::String)), true);
    let schema = Arc::new(millrace_fixtures::schema("test", vec![notes]));
    let documents = [
        "the quick brown fox|jumps over the lazy dog",
        "lazy fox|quick dog",
        "fox quick",
        "quick fox stays here lazy",
    ];
    let text = |element: &str| DocumentValue::String(element.to_owned());
    let value = |elements: &str| DocumentValue::Array(elements.split('|').map(text).collect());
    let documents: Vec<(Fields, bool)> =
        documents.iter().map(|elements| (Fields::from([("notes", value(elements))]), true)).collect();
    let words: Vec<&str> = near.split(' ').chain(excluded.split_terminator(' ')).collect();
    let leaf = |word: &&str| ("notes", Predicate::Words(vec![WordPattern::Written((*word).to_owned())]));
    let wanted = near.split(' ').count();
    let node = PlanNode::Near {
        leaves: (0..wanted).map(LeafId).collect(),
        excluded: (wanted..words.len()).map(LeafId).collect(),
        distance,
        exclusion_distance,
        ordered,
    };
    let root = PlanNode::SameElement { field: "notes".into(), child: Box::new(node), elements: Vec::new() };
    let plan = millrace_fixtures::plan(&schema, root, words.iter().map(leaf).collect());
    let view = millrace_fixtures::view(&schema, &documents, 10);
    let matches = match_plan(&plan, &view, RankingDemands::default(), &|| false)
        .expect("columns in memory can be read");
    matches.chunks.into_iter().flat_map(|chunk| chunk.documents).collect()
}

#[test]
fn words_are_near_within_one_element() {
    assert_eq!(found("quick fox", 1, false, "", 0), [2, 3]);
    assert_eq!(found("quick fox", 2, false, "", 0), [0, 2, 3]);
    assert_eq!(found("quick dog", 9, false, "", 0), [1]);
    assert_eq!(found("lazy fox", 9, false, "", 0), [1, 3]);
}

#[test]
fn words_are_in_order() {
    assert_eq!(found("quick fox", 1, true, "", 0), [3]);
    assert_eq!(found("quick fox", 2, true, "", 0), [0, 3]);
    assert_eq!(found("fox quick", 9, true, "", 0), [2]);
}

#[test]
fn excluded_words_are_not_near() {
    assert_eq!(found("quick fox", 2, false, "brown", 0), [2, 3]);
    assert_eq!(found("quick fox", 2, false, "stays", 1), [0, 2]);
    assert_eq!(found("quick fox", 2, false, "lazy", 1), [0, 2, 3]);
}
