//! Many words in several parts of a tree, searched only in the documents that each part leaves.

use std::ops::Range;
use std::sync::Arc;

use millrace_column::View;
use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{Fields, PlainView, field, plan, schema, view};
use millrace_matching::{ChunkMatches, RankingDemands, match_plan};
use millrace_plan::{
    LeafId, NumberRange, Plan, PlanNode, Predicate, QueryMemory, QueryMemoryLedger, WordPattern,
};
use millrace_schema::Schema;
use proptest::prelude::*;

/// Number of words that are asked for: so many that their leaves are searched together.
const WORDS: usize = 10;
/// Number of dates.
const DATES: usize = 4;

fn test_schema() -> Arc<Schema> {
    let fields = vec![field("body", DataType::String, true), field("date", DataType::Int, false)];
    Arc::new(schema("test", fields))
}

fn document(words: &[usize], date: usize) -> Fields {
    let words: Vec<String> = words.iter().map(|word| format!("w{word}")).collect();
    Fields::from([
        ("body", DocumentValue::String(words.join(" "))),
        ("date", DocumentValue::Int(date as i32)),
    ])
}

/// A condition for words in sequence.
fn sequence(words: &[usize]) -> (&'static str, Predicate) {
    let words = words.iter().map(|word| WordPattern::Exact(format!("w{word}")));
    ("body", Predicate::Words(words.collect()))
}

/// A condition for dates, both ends included.
fn dates(low: usize, high: usize) -> (&'static str, Predicate) {
    ("date", Predicate::Number(NumberRange::Integer { low: low as i64, high: high as i64 }))
}

fn chunks(plan: &Plan, view: &dyn View, demands: RankingDemands) -> Vec<ChunkMatches> {
    match_plan(plan, view, demands, &|| false).expect("columns in memory can be read").chunks
}

/// A tree of words, of a sequence of two, and of dates, whose leaves come in this order.
fn tree() -> impl Strategy<Value = PlanNode> {
    let words = |count: Range<usize>| prop::collection::vec((0..=WORDS).prop_map(LeafId), count);
    let near = (words(1..4), words(0..2), 0..6_u32, any::<bool>());
    let near = near.prop_map(|(leaves, excluded, distance, ordered)| PlanNode::Near {
        leaves,
        excluded,
        distance,
        exclusion_distance: 1,
        ordered,
    });
    let leaf = |leaf| PlanNode::Leaf(LeafId(leaf));
    let part = prop_oneof![
        6 => (0..=WORDS).prop_map(leaf),
        4 => (WORDS + 1..=WORDS + DATES).prop_map(leaf),
        1 => near,
    ];
    part.prop_recursive(4, 24, 4, |inner| {
        let some = prop::collection::vec(inner.clone(), 1..5);
        prop_oneof![
            some.clone().prop_map(PlanNode::And),
            some.clone().prop_map(PlanNode::Or),
            (inner.clone(), some.clone()).prop_map(|(first, rest)| PlanNode::AndNot(Box::new(first), rest)),
            (inner, some).prop_map(|(first, rest)| PlanNode::Rank(Box::new(first), rest)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn words_of_each_part_are_those_of_a_search_of_all_documents(
        documents in prop::collection::vec(
            (prop::collection::vec(0..WORDS + 2, 3..8), 0..DATES, prop::bool::weighted(0.8)), 1..24,
        ),
        root in tree(),
        // Words of long texts are counted.
        copies in prop::sample::select(vec![1, 12]),
        positions in any::<bool>(),
        statistics in any::<bool>(),
    ) {
        let documents: Vec<(Fields, bool)> = documents
            .iter()
            .map(|(words, date, live)| (document(&words.repeat(copies), *date), *live))
            .collect();
        let schema = test_schema();
        let mut leaves: Vec<_> = (0..WORDS).map(|word| sequence(&[word])).collect();
        leaves.push(sequence(&[0, 1]));
        leaves.extend((0..DATES).map(|date| dates(date, date)));
        let plan = plan(&schema, root, leaves);
        let view = view(&schema, &documents, 100);
        let demands = RankingDemands { leaves: true, counts: true, positions, statistics };
        let fast = format!("{:?}", chunks(&plan, &view, demands));
        let plain = format!("{:?}", chunks(&plan, &PlainView(view), demands));
        prop_assert_eq!(fast, plain, "{:#?}", plan.root);
    }
}

#[test]
fn words_of_many_parts_are_searched_together_few_times() {
    const PARTS: usize = 30;
    let documents: Vec<(Fields, bool)> = (0..2 * PARTS)
        .map(|number| {
            let words: Vec<usize> = (0..40).map(|at| (number + at) % PARTS).collect();
            (document(&words, number), true)
        })
        .collect();
    // Each word is asked for in documents of its own.
    let part = |part| PlanNode::And(vec![PlanNode::Leaf(LeafId(part)), PlanNode::Leaf(LeafId(PARTS + part))]);
    let root = PlanNode::Or((0..PARTS).map(part).collect());
    let words = (0..PARTS).map(|word| sequence(&[word]));
    let leaves = words.chain((0..PARTS).map(|part| dates(2 * part, 2 * part + 1)));
    let schema = test_schema();
    let mut plan = plan(&schema, root, leaves.collect());
    // One search for all words takes 7 KB, the count of each in each document; one for each part, 210 KB.
    plan.memory = QueryMemory::new(96 << 10, QueryMemoryLedger::new(usize::MAX));
    let demands = RankingDemands { leaves: true, counts: true, positions: false, statistics: false };
    let found = chunks(&plan, &view(&schema, &documents, documents.len()), demands);
    let found: Vec<usize> =
        found.iter().flat_map(|chunk| &chunk.documents).map(|at| usize::from(*at)).collect();
    assert_eq!(found, Vec::from_iter(0..2 * PARTS));
}
