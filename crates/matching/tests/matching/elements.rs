//! Nearness inside one element: distance, order and exclusion, each against the elements of a text; and
//! conditions on an element by the positions of its words, which come to what its text comes to; and the
//! elements that are shown of words near each other.

use std::ops::Range;
use std::sync::Arc;

use millrace_column::View;
use millrace_document::{DataType, DocumentField, DocumentValue, StructType};
use millrace_fixtures::{Fields, PlainView, field};
use millrace_matching::{MatchedElements, RankingDemands, match_plan};
use millrace_plan::{LeafId, NumberRange, Plan, PlanNode, Predicate, WordPattern};
use proptest::prelude::*;

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

/// Documents that match, by index in their only chunk.
fn matched(plan: &Plan, view: &dyn View) -> Vec<u16> {
    let matches =
        match_plan(plan, view, RankingDemands::default(), &|| false).expect("columns in memory can be read");
    matches.chunks.into_iter().flat_map(|chunk| chunk.documents).collect()
}

/// Conditions on one element: leaves 0 to 4 are words, of which some are near each other.
fn condition() -> impl Strategy<Value = PlanNode> {
    let leaves = |count: Range<usize>| prop::collection::vec((0..5_usize).prop_map(LeafId), count);
    let near = (leaves(1..4), leaves(0..2), 0..5_u32, 0..3_u32, any::<bool>());
    let near = near.prop_map(|(leaves, excluded, distance, exclusion_distance, ordered)| PlanNode::Near {
        leaves,
        excluded,
        distance,
        exclusion_distance,
        ordered,
    });
    let leaf = prop_oneof![3 => near, 1 => (0..5_usize).prop_map(|leaf| PlanNode::Leaf(LeafId(leaf)))];
    leaf.prop_recursive(2, 6, 3, |inner| {
        let several = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            several.clone().prop_map(PlanNode::And),
            several.clone().prop_map(PlanNode::Or),
            (inner, several).prop_map(|(first, others)| PlanNode::AndNot(Box::new(first), others)),
        ]
    })
}

proptest! {
    #[test]
    fn positions_decide_as_the_texts_of_elements_do(
        documents in prop::collection::vec(prop::collection::vec("([abcde] ){0,6}", 0..4), 1..20),
        child in condition(),
        elements in prop::collection::btree_set(0..3_u32, 0..3),
    ) {
        let notes = field("notes", DataType::Array(Box::new(DataType::String)), true);
        let schema = Arc::new(millrace_fixtures::schema("test", vec![notes]));
        let value = |elements: &Vec<String>| {
            DocumentValue::Array(elements.iter().map(|text| DocumentValue::String(text.clone())).collect())
        };
        let documents: Vec<(Fields, bool)> =
            documents.iter().map(|elements| (Fields::from([("notes", value(elements))]), true)).collect();
        let leaf = |word: &str| ("notes", Predicate::Words(vec![WordPattern::Written(word.to_owned())]));
        let elements = elements.into_iter().collect();
        let root = PlanNode::SameElement { field: "notes".into(), child: Box::new(child), elements };
        let plan = millrace_fixtures::plan(&schema, root, ["a", "b", "c", "d", "e"].map(leaf).into());
        let view = millrace_fixtures::view(&schema, &documents, 100);
        let fast = matched(&plan, &view);
        prop_assert_eq!(fast, matched(&plan, &PlainView(view)), "{:#?}", plan.root);
    }
}

/// Conditions on a person: leaves 0 to 9 ask for a name, the others for an age or the beginning of a name.
fn person_condition() -> impl Strategy<Value = PlanNode> {
    let leaf = || (0..14_usize).prop_map(|leaf| PlanNode::Leaf(LeafId(leaf)));
    prop_oneof![
        leaf(),
        prop::collection::vec(leaf(), 1..4).prop_map(PlanNode::And),
        (leaf(), leaf()).prop_map(|(first, not)| PlanNode::AndNot(Box::new(first), vec![not])),
        (leaf(), prop::collection::vec(leaf(), 1..3))
            .prop_map(|(first, any)| PlanNode::And(vec![first, PlanNode::Or(any)])),
    ]
}

proptest! {
    #[test]
    fn any_of_many_conditions_on_elements_holds_as_each_by_itself(
        documents in prop::collection::vec(prop::collection::vec((0..12_u8, 0..4_i32), 0..5), 1..40),
        children in prop::collection::vec((person_condition(), prop::sample::select(vec![vec![], vec![1]])), 1..14),
        is_negated in any::<bool>(),
    ) {
        let members = [("name", DataType::String), ("age", DataType::Int)];
        let members = members.map(|(name, data_type)| DocumentField { name: name.into(), data_type });
        let person = StructType { name: "person".into(), fields: members.into() };
        let people = DataType::Array(Box::new(DataType::Struct(Arc::new(person))));
        let schema = Arc::new(millrace_fixtures::schema("test", vec![field("people", people, false)]));
        let name = |number: u8| format!("name{number}");
        let value = |person: &(u8, i32)| {
            let name = DocumentValue::String(name(person.0));
            DocumentValue::Struct(vec![("name".into(), name), ("age".into(), DocumentValue::Int(person.1))])
        };
        let document = |people: &Vec<(u8, i32)>| {
            (Fields::from([("people", DocumentValue::Array(people.iter().map(value).collect()))]), true)
        };
        let documents: Vec<(Fields, bool)> = documents.iter().map(document).collect();
        let text = |pattern| ("people.name", Predicate::Value { pattern, cased: false });
        let age = |low, high| ("people.age", Predicate::Number(NumberRange::Integer { low, high }));
        let mut leaves: Vec<_> = (0..10).map(|number| text(WordPattern::Exact(name(number)))).collect();
        leaves.extend([age(1, 2), age(3, 3), age(0, 9), text(WordPattern::Prefix("name1".to_owned()))]);
        let of_child = |(child, elements)| PlanNode::SameElement {
            field: "people".into(),
            child: Box::new(child),
            elements,
        };
        let any = PlanNode::Or(children.into_iter().map(of_child).collect());
        let root = match is_negated {
            true => PlanNode::AndNot(Box::new(PlanNode::True), vec![any]),
            false => any,
        };
        let plan = millrace_fixtures::plan(&schema, root, leaves);
        let view = millrace_fixtures::view(&schema, &documents, 100);
        let fast = matched(&plan, &view);
        prop_assert_eq!(fast, matched(&plan, &PlainView(view)), "{:#?}", plan.root);
    }
}

/// A plan for the words `a` and `b` near each other and far from `z`, in elements with a gap or without.
fn near_plan(distance: u32, exclusion_distance: u32, ordered: bool, gap: Option<u32>) -> Plan {
    let notes = field("notes", DataType::Array(Box::new(DataType::String)), true);
    let schema = Arc::new(millrace_fixtures::schema("test", vec![notes]));
    let leaf = |word: &str| ("notes", Predicate::Words(vec![WordPattern::Written(word.to_owned())]));
    let root = PlanNode::Near {
        leaves: vec![LeafId(0), LeafId(1)],
        excluded: vec![LeafId(2)],
        distance,
        exclusion_distance,
        ordered,
    };
    let mut plan = millrace_fixtures::plan(&schema, root, ["a", "b", "z"].map(leaf).into());
    let mut query = millrace_fixtures::query();
    query.ranking.element_gaps.insert("notes".to_owned(), gap);
    plan.query = Arc::new(query);
    plan
}

/// Elements that are shown of an array, given with `|` between them.
fn shown(plan: &Plan, texts: &str) -> Vec<usize> {
    let value =
        DocumentValue::Array(texts.split('|').map(|text| DocumentValue::String(text.into())).collect());
    MatchedElements::new(plan, "notes").expect("the words are right").of(&value, &|| false)
}

#[test]
fn elements_with_an_excluded_word_near_are_not_shown() {
    #[track_caller]
    fn check(gap: Option<u32>, texts: &str, expected: &[usize]) {
        assert_eq!(shown(&near_plan(2, 2, false, gap), texts), expected, "{gap:?} {texts}");
    }
    check(None, "a z b|a b|b a", &[1, 2]);
    check(None, "z|a b|z", &[1]);
    check(Some(0), "a b|z", &[]);
    check(Some(0), "z|a b", &[]);
    check(Some(0), "z x x|a b", &[1]);
    check(Some(5), "a b|z", &[0]);
    check(Some(0), "x a|b x x z", &[0, 1]);
    check(Some(0), "x a|b z", &[]);
    check(Some(0), "x a|b|z x", &[]);
    check(Some(0), "z|a|b x", &[]);
    check(Some(0), "a b z|x|a b", &[2]);
}

proptest! {
    #[test]
    fn a_document_matches_where_an_element_is_shown(
        texts in prop::collection::vec("([abz] ){0,5}", 1..5),
        (distance, exclusion_distance, ordered) in (0..4_u32, 0..4_u32, any::<bool>()),
        gap in prop::option::of(0..3_u32),
    ) {
        let plan = near_plan(distance, exclusion_distance, ordered, gap);
        let array = texts.iter().map(|text| DocumentValue::String(text.clone())).collect();
        let document = Fields::from([("notes", DocumentValue::Array(array))]);
        let view = millrace_fixtures::view(&plan.schema, &[(document, true)], 1);
        let texts = texts.join("|");
        prop_assert_eq!(!matched(&plan, &view).is_empty(), !shown(&plan, &texts).is_empty(), "{}", texts);
    }
}

proptest! {
    #[test]
    fn texts_of_an_array_match_by_their_parts_as_each_by_itself(
        documents in prop::collection::vec(
            (prop::collection::vec("[abkAÉ\u{212A} ]{0,6}", 0..4), 0..8_i32), 1..60,
        ),
        part in "[abk]{2,3}",
        shape in 0..4_usize,
        cased in any::<bool>(),
        dates in prop::sample::select(vec![0, 3, 8]),
    ) {
        let fields = vec![
            field("lines", DataType::Array(Box::new(DataType::String)), false),
            field("date", DataType::Int, false),
        ];
        let schema = Arc::new(millrace_fixtures::schema("test", fields));
        let document = |(lines, date): &(Vec<String>, i32)| {
            let lines = lines.iter().map(|line| DocumentValue::String(line.clone())).collect();
            let lines = ("lines", DocumentValue::Array(lines));
            (Fields::from([lines, ("date", DocumentValue::Int(*date))]), true)
        };
        let documents: Vec<(Fields, bool)> = documents.iter().map(document).collect();
        let pattern = match shape {
            0 => WordPattern::Regex(format!("{part}[ak]?")),
            1 => WordPattern::Regex(format!("^a?{part}")),
            2 => WordPattern::Substring(part),
            _ => WordPattern::Suffix(part),
        };
        let date = Predicate::Number(NumberRange::Integer { low: 0, high: dates - 1 });
        let leaves = vec![("lines", Predicate::Value { pattern, cased }), ("date", date)];
        let root = PlanNode::And(vec![PlanNode::Leaf(LeafId(0)), PlanNode::Leaf(LeafId(1))]);
        let plan = millrace_fixtures::plan(&schema, root, leaves);
        let view = millrace_fixtures::view(&schema, &documents, 100);
        let fast = matched(&plan, &view);
        prop_assert_eq!(fast, matched(&plan, &PlainView(view)), "{:?}", plan.leaves);
    }
}
