//! Many conditions on one value each of a field, which are tested together: each finds what it finds alone.

use std::sync::Arc;

use millrace_document::{DataType, DocumentField, DocumentValue, StructType};
use millrace_fixtures::{Fields, field, plan, schema, view};
use millrace_matching::{LeafMatches, RankingDemands, match_plan};
use millrace_plan::{LeafId, NumberRange, PlanNode, Predicate, WordPattern};
use proptest::prelude::*;

/// Texts of which some differ in case or accents alone, and one is longer than others are kept.
const TEXTS: [&str; 9] = ["", "a", "A", "b", "é", "e\u{301}", "e", "ab", "a text of more than sixteen bytes"];

fn array(of: DataType) -> DataType {
    DataType::Array(Box::new(of))
}

fn text(text: &str) -> DocumentValue {
    DocumentValue::String(text.to_owned())
}

fn fields() -> Vec<(&'static str, DataType)> {
    let member = |name: &str, data_type| DocumentField { name: name.into(), data_type };
    let members = vec![member("name", DataType::String), member("age", DataType::Int)];
    let person = DataType::Struct(Arc::new(StructType { name: "person".to_owned(), fields: members }));
    let set = DataType::WeightedSet {
        element: Box::new(DataType::String),
        create_if_nonexistent: false,
        remove_if_zero: false,
    };
    vec![
        ("folder", DataType::String),
        ("tags", array(DataType::String)),
        ("labels", set),
        ("sizes", array(DataType::Long)),
        ("props", DataType::Map(Box::new(DataType::String), Box::new(DataType::Int))),
        ("people", array(person)),
    ]
}

/// The paths of conditions, and true for those on numbers.
const PATHS: [(&str, bool); 8] = [
    ("folder", false),
    ("tags", false),
    ("labels", false),
    ("sizes", true),
    ("props.key", false),
    ("props.value", true),
    ("people.name", false),
    ("people.age", true),
];

fn document() -> impl Strategy<Value = (Fields, bool)> {
    let texts = || prop::collection::vec(prop::sample::select(&TEXTS[..]), 0..4);
    let numbers = || prop::collection::vec(-1..6_i32, 4);
    (prop::option::of(prop::sample::select(&TEXTS[..])), texts(), texts(), numbers(), any::<bool>()).prop_map(
        |(folder, mut some, others, numbers, live)| {
            let mut fields = Fields::new();
            fields.extend(folder.map(|folder| ("folder", text(folder))));
            fields.insert("tags", DocumentValue::Array(some.iter().map(|it| text(it)).collect()));
            let sizes = numbers[..some.len()].iter().map(|number| DocumentValue::Long((*number).into()));
            fields.insert("sizes", DocumentValue::Array(sizes.collect()));
            let person = |(name, age): (&&str, &i32)| {
                let members = [("name".into(), text(name)), ("age".into(), DocumentValue::Int(*age))];
                // Some have no age.
                DocumentValue::Struct(members.into_iter().take(if *age < 0 { 1 } else { 2 }).collect())
            };
            fields.insert("people", DocumentValue::Array(others.iter().zip(&numbers).map(person).collect()));
            some.sort_unstable();
            some.dedup();
            let weighted = some.iter().zip(&numbers).map(|(it, weight)| (text(it), *weight));
            fields.insert("labels", DocumentValue::WeightedSet(weighted.collect()));
            let entries =
                some.iter().zip(&numbers).map(|(it, number)| (text(it), DocumentValue::Int(*number)));
            fields.insert("props", DocumentValue::Map(entries.collect()));
            (fields, live)
        },
    )
}

/// Matched documents, and for each leaf what is found of it in them.
fn found(
    root: PlanNode,
    leaves: Vec<(&'static str, Predicate)>,
    documents: &[(Fields, bool)],
    demands: RankingDemands,
) -> (Vec<u16>, Vec<Vec<Option<i64>>>) {
    let fields = fields().into_iter().map(|(name, data_type)| field(name, data_type, false));
    let schema = Arc::new(schema("test", fields.collect()));
    let count = leaves.len();
    let plan = plan(&schema, root, leaves);
    let view = view(&schema, documents, 100);
    let matched = match_plan(&plan, &view, demands, &|| false).expect("columns in memory can be read");
    let Some(chunk) = matched.chunks.first() else { return (Vec::new(), vec![Vec::new(); count]) };
    let weights = chunk.leaves.iter().map(|leaf| match leaf {
        LeafMatches::Weights(weights) => weights.clone(),
        LeafMatches::Matched(matched) => matched.iter().map(|matched| matched.then_some(1)).collect(),
        LeafMatches::None => vec![None; chunk.documents.len()],
        other => panic!("unexpected {other:?}"),
    });
    (chunk.documents.clone(), weights.collect())
}

proptest! {
    #[test]
    fn each_of_many_finds_what_it_finds_alone(
        documents in prop::collection::vec(document(), 1..30),
        (path, of_numbers) in prop::sample::select(&PATHS[..]),
        asked in prop::collection::vec(0..TEXTS.len(), 8..20),
        cased in any::<bool>(),
        among in prop::option::of(0..7_usize),
    ) {
        let predicate = |asked: usize| match of_numbers {
            true => Predicate::Number(NumberRange::Integer { low: asked as i64, high: asked as i64 }),
            false => {
                // A pattern that ignores case is folded.
                let text = if cased { TEXTS[asked] } else { ["", "b", "e", "ab", TEXTS[8]][asked % 5] };
                Predicate::Value { pattern: WordPattern::Exact(text.to_owned()), cased }
            }
        };
        let leaf = |asked: usize| PlanNode::Leaf(LeafId(asked));
        let mut leaves: Vec<(&'static str, Predicate)> =
            asked.iter().map(|asked| (path, predicate(*asked))).collect();
        let any = PlanNode::Or((0..asked.len()).map(leaf).collect());
        // In some queries, a condition on another field is decided first, or later.
        let root = match among {
            Some(of) => {
                let other = if path == "folder" { "tags" } else { "folder" };
                let text = WordPattern::Exact(["a", "b", "e"][of % 3].to_owned());
                leaves.push((other, Predicate::Value { pattern: text, cased: false }));
                PlanNode::And(vec![any, leaf(asked.len())])
            }
            None => any,
        };
        let demands = RankingDemands::LEAVES;
        let (matched, weights) = found(root.clone(), leaves.clone(), &documents, demands);
        prop_assert_eq!(&found(root, leaves.clone(), &documents, RankingDemands::default()).0, &matched);
        let mut expected = vec![false; documents.len()];
        for (number, (path, predicate)) in leaves.iter().take(asked.len()).enumerate() {
            let (documents, alone) = found(leaf(0), vec![(*path, predicate.clone())], &documents, demands);
            for (at, document) in documents.iter().enumerate() {
                expected[usize::from(*document)] = true;
                if let Ok(here) = matched.binary_search(document) {
                    prop_assert_eq!(weights[number][here], alone[0][at], "{} {:?}", path, predicate);
                }
            }
            for (here, document) in matched.iter().enumerate() {
                let is_alone = documents.binary_search(document).is_ok();
                prop_assert_eq!(weights[number][here].is_some(), is_alone, "{} {:?}", path, predicate);
            }
        }
        if among.is_none() {
            let expected = (0..).zip(&expected).filter(|(_, holds)| **holds).map(|(document, _)| document);
            prop_assert_eq!(matched, expected.collect::<Vec<u16>>());
        }
    }
}
