//! Conditions and texts that repeat words, on which an algorithm that compares each place with each takes
//! minutes; and the time limit within a chunk.

use std::cell::Cell;
use std::sync::Arc;

use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{Fields, field, plan, schema, view};
use millrace_matching::{MatchedDocuments, MatchedElements, RankingDemands, match_plan};
use millrace_plan::{LeafId, PlanNode, Predicate, WordPattern};

fn sequence(words: &str) -> Predicate {
    Predicate::Words(words.split_whitespace().map(|word| WordPattern::Exact(word.to_owned())).collect())
}

/// Matches of a condition over leaves in one text.
fn matched(
    text: &str,
    root: PlanNode,
    leaves: &[&str],
    demands: RankingDemands,
    stop: &dyn Fn() -> bool,
) -> MatchedDocuments {
    let schema = Arc::new(schema("test", vec![field("body", DataType::String, true)]));
    let document = Fields::from([("body", DocumentValue::String(text.to_owned()))]);
    let view = view(&schema, &[(document, true)], 1);
    let plan = plan(&schema, root, leaves.iter().map(|words| ("body", sequence(words))).collect());
    match_plan(&plan, &view, demands, stop).expect("columns in memory can be read")
}

fn near(words: usize, excluded: usize, distance: u32, ordered: bool) -> PlanNode {
    PlanNode::Near {
        leaves: (0..words).map(LeafId).collect(),
        excluded: (words..words + excluded).map(LeafId).collect(),
        distance,
        exclusion_distance: 1,
        ordered,
    }
}

#[test]
fn repeated_words_match_as_the_table_says() {
    let many_a = "a ".repeat(20_000);
    let phrase = format!("{many_a} b {many_a}");
    let (often_a, alternating) = ("a ".repeat(200_000), "a b ".repeat(50_000));
    let mut words = vec!["a"; 200];
    words.push("z");
    let cases: [(&str, String, PlanNode, &[&str], bool); 7] = [
        ("a phrase", format!("{often_a} b {many_a}"), PlanNode::Leaf(LeafId(0)), &[phrase.as_str()], true),
        ("a phrase", format!("{often_a} c {many_a}"), PlanNode::Leaf(LeafId(0)), &[phrase.as_str()], false),
        ("an exclusion", "a b c ".repeat(50_000), near(2, 1, 2, false), &["a", "b", "c"], false),
        ("spans", alternating, near(2, 0, 1, false), &["a", "b"], true),
        (
            "many words",
            format!("{many_a} {} z", "x ".repeat(50)),
            near(201, 0, 10, false),
            words.as_slice(),
            false,
        ),
        (
            "many words",
            format!("{many_a} {} z", "x ".repeat(50)),
            near(201, 0, 300, true),
            words.as_slice(),
            true,
        ),
        ("many words", format!("{many_a} z"), near(201, 0, 199, true), words.as_slice(), false),
    ];
    let demands = RankingDemands { leaves: true, counts: true, positions: true, statistics: true };
    for (name, text, root, leaves, expected) in cases {
        let found = matched(&text, root, leaves, demands, &|| false);
        assert_eq!(!found.chunks.is_empty(), expected, "{name}");
        assert_eq!((found.timed_out, found.documents), (false, 1), "{name}");
    }
}

#[test]
fn phrases_of_repeated_words_are_found_in_elements() {
    let many_a = "a ".repeat(20_000);
    let notes = field("notes", DataType::Array(Box::new(DataType::String)), true);
    let schema = Arc::new(schema("test", vec![notes]));
    let leaves = vec![("notes", sequence(&format!("{many_a} b {many_a}")))];
    let plan = plan(&schema, PlanNode::Leaf(LeafId(0)), leaves);
    let elements = MatchedElements::new(&plan, "notes").expect("the pattern is valid");
    let texts = [format!("{many_a} {many_a}"), format!("{many_a} a b {many_a}"), format!("{many_a} b a")];
    let value = DocumentValue::Array(texts.map(DocumentValue::String).into());
    assert_eq!(elements.of(&value, &|| false), [1]);
    assert_eq!(elements.of(&value, &|| true), [0, 1, 2], "without time elements are shown");
}

#[test]
fn a_chunk_in_which_time_is_over_does_not_count() {
    let root = || PlanNode::Or((0..64).map(|leaf| PlanNode::Leaf(LeafId(leaf))).collect());
    let leaves = ["b a"; 64];
    let whole = matched("a b a", root(), &leaves, RankingDemands::default(), &|| false);
    assert_eq!((whole.timed_out, whole.documents, whole.chunks.len()), (false, 1, 1));
    let calls = Cell::new(0);
    let stop = || calls.replace(calls.get() + 1) > 0;
    let cut = matched("a b a", root(), &leaves, RankingDemands::default(), &stop);
    assert_eq!((cut.timed_out, cut.documents, cut.chunks.len()), (true, 0, 0));
}
