//! Conditions and texts that repeat words, on which an algorithm that compares each place with each takes
//! minutes; and the time limit within a chunk.

use std::cell::Cell;
use std::sync::Arc;

use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{Fields, field, plan, query, schema, view};
use millrace_matching::{LeafMatches, MatchedDocuments, MatchedElements, RankingDemands, match_plan};
use millrace_plan::{LeafId, PlanNode, Predicate, WordPattern};
use millrace_schema::DistanceMetric;
use millrace_tensor::{Tensor, TensorType};

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
    far_from(1, words, excluded, distance, ordered)
}

/// Words near each other, with the excluded ones farther away than `exclusion_distance`.
fn far_from(
    exclusion_distance: u32,
    words: usize,
    excluded: usize,
    distance: u32,
    ordered: bool,
) -> PlanNode {
    PlanNode::Near {
        leaves: (0..words).map(LeafId).collect(),
        excluded: (words..words + excluded).map(LeafId).collect(),
        distance,
        exclusion_distance,
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
    let cases: [(&str, String, PlanNode, &[&str], bool); 10] = [
        ("a phrase", format!("{often_a} b {many_a}"), PlanNode::Leaf(LeafId(0)), &[phrase.as_str()], true),
        ("a phrase", format!("{often_a} c {many_a}"), PlanNode::Leaf(LeafId(0)), &[phrase.as_str()], false),
        ("an exclusion", "a b c ".repeat(50_000), near(2, 1, 2, false), &["a", "b", "c"], false),
        (
            "exclusions far away",
            format!("c {}", "a b ".repeat(200_000)),
            far_from(u32::MAX, 2, 1, 1, false),
            &["a", "b", "c"],
            false,
        ),
        ("spans", alternating, near(2, 0, 1, false), &["a", "b"], true),
        ("wide spans", format!("{often_a} z"), near(2, 0, 1_000_000, false), &["a", "z"], true),
        (
            "nine words",
            format!("{often_a} {} z", "x ".repeat(50)),
            near(9, 0, 10, false),
            &words[words.len() - 9..],
            false,
        ),
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
fn an_element_has_all_of_many_words() {
    let words: Vec<String> = (0..1000).map(|number| format!("w{number}")).collect();
    let all = words.join(" ");
    let notes = field("notes", DataType::Array(Box::new(DataType::String)), true);
    let schema = Arc::new(schema("test", vec![notes]));
    for (last, expected) in [("z".to_owned(), false), (format!("{all} z"), true)] {
        let texts = std::iter::repeat_n(all.clone(), 100).chain([last]).map(DocumentValue::String);
        let document = Fields::from([("notes", DocumentValue::Array(texts.collect()))]);
        let view = view(&schema, &[(document, true)], 1);
        let conditions = (0..=words.len()).map(|leaf| PlanNode::Leaf(LeafId(leaf))).collect();
        let child = Box::new(PlanNode::And(conditions));
        let root = PlanNode::SameElement { field: "notes".into(), child, elements: Vec::new() };
        let leaves = words.iter().map(String::as_str).chain(["z"]);
        let plan = plan(&schema, root, leaves.map(|word| ("notes", sequence(word))).collect());
        let found = match_plan(&plan, &view, RankingDemands::default(), &|| false);
        let found = found.expect("columns in memory can be read");
        assert_eq!(!found.chunks.is_empty(), expected);
    }
}

#[test]
fn neighbours_are_looked_for_until_time_is_over() {
    let notes = field("notes", DataType::Array(Box::new(DataType::String)), true);
    let schema = Arc::new(schema("test", vec![notes]));
    let leaves = vec![("notes", sequence("a")), ("notes", sequence("b"))];
    let mut plan = plan(&schema, near(2, 0, 3, false), leaves);
    let mut query = query();
    query.ranking.element_gaps.insert("notes".to_owned(), Some(0));
    plan.query = Arc::new(query);
    let elements = MatchedElements::new(&plan, "notes").expect("the pattern is valid");
    let texts = ["x a", "b x", "x", "x"].map(|text| DocumentValue::String(text.to_owned()));
    let value = DocumentValue::Array(texts.into());
    assert_eq!(elements.of(&value, &|| false), [0, 1]);
    // The first question comes before other conditions, the second one before words near each other.
    let calls = Cell::new(0);
    assert_eq!(elements.of(&value, &|| calls.replace(calls.get() + 1) > 0), [0, 1, 2, 3]);
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

#[test]
fn phrases_of_all_lengths_are_found_where_they_are() {
    // Words in an order of which many beginnings come again.
    let words = |from: usize, count: usize| -> String {
        let is_a = |number: usize| number.count_ones().is_multiple_of(2) || number.is_multiple_of(5);
        let word = |number: usize| if is_a(number) { "a" } else { "b" };
        (from..from + count).map(word).collect::<Vec<_>>().join(" ")
    };
    let prefixes = |word: &str| match word {
        "a" => WordPattern::Prefix("a".to_owned()),
        word => WordPattern::Exact(word.to_owned()),
    };
    let exactly = |word: &str| WordPattern::Exact(word.to_owned());
    let forms: [&dyn Fn(&str) -> WordPattern; 2] = [&exactly, &prefixes];
    for length in [1, 2, 7, 8, 9, 10, 63, 64, 65, 66, 127, 128, 129] {
        let (phrase, less) = (words(7, length), words(7, length - 1));
        let texts = [
            phrase.clone(),
            format!("a {phrase} b {phrase}"),
            format!("{less} c"),
            format!("{less} {phrase} {less}"),
            words(0, 400),
            words(8, 300),
            "c".to_owned(),
            String::new(),
        ];
        let wanted: Vec<&str> = phrase.split_whitespace().collect();
        let counts = texts.each_ref().map(|text| {
            let text: Vec<&str> = text.split_whitespace().collect();
            text.windows(length).filter(|window| *window == wanted).count()
        });
        for form in forms {
            let predicate = || Predicate::Words(wanted.iter().copied().map(form).collect());
            let notes = field("notes", DataType::Array(Box::new(DataType::String)), true);
            let schema = Arc::new(schema("test", vec![notes, field("body", DataType::String, true)]));
            let in_notes = plan(&schema, PlanNode::Leaf(LeafId(0)), vec![("notes", predicate())]);
            let elements = MatchedElements::new(&in_notes, "notes").expect("the pattern is valid");
            let value = DocumentValue::Array(texts.clone().map(DocumentValue::String).into());
            let expected: Vec<usize> = (0..texts.len()).filter(|index| counts[*index] > 0).collect();
            assert_eq!(elements.of(&value, &|| false), expected, "{length} words in elements");
            let in_body = plan(&schema, PlanNode::Leaf(LeafId(0)), vec![("body", predicate())]);
            let document =
                |text: &String| (Fields::from([("body", DocumentValue::String(text.clone()))]), true);
            let view = view(&schema, &texts.each_ref().map(document), texts.len());
            let demands = RankingDemands { leaves: true, counts: true, positions: true, statistics: true };
            let found = match_plan(&in_body, &view, demands, &|| false).expect("columns can be read");
            let mut found_counts = [0; 8];
            for chunk in &found.chunks {
                let LeafMatches::Words(words) = chunk.leaf(LeafId(0)) else { panic!("words are counted") };
                for (document, count) in chunk.documents.iter().zip(&words.counts) {
                    found_counts[usize::from(*document)] = *count as usize;
                }
            }
            assert_eq!(found_counts, counts, "{length} words in texts");
        }
    }
}

#[test]
fn distances_of_a_chunk_that_does_not_count_exclude_no_document() {
    let vector = |cell: u32| Tensor::parse(&format!("tensor<float>(x[1]):[{cell}]"), None).expect("a tensor");
    let at = DataType::Tensor(TensorType::parse("tensor<float>(x[1])").expect("a type"));
    let fields = vec![field("at", at, false), field("body", DataType::String, true)];
    let schema = Arc::new(schema("test", fields));
    // The nearer document is in the second chunk.
    let document = |cell: u32| {
        let body = DocumentValue::String("a b a".to_owned());
        (Fields::from([("at", DocumentValue::Tensor(vector(cell))), ("body", body)]), true)
    };
    let view = view(&schema, &[document(9), document(1)], 1);
    let nearest = Predicate::Nearest {
        target: Arc::new(vector(0)),
        metric: DistanceMetric::Euclidean,
        target_hits: 1,
        threshold: None,
    };
    let others = (1..65).map(|leaf| PlanNode::Leaf(LeafId(leaf))).collect();
    let root = PlanNode::Rank(Box::new(PlanNode::Leaf(LeafId(0))), others);
    let leaves = std::iter::once(("at", nearest)).chain((1..65).map(|_| ("body", sequence("b a"))));
    let plan = plan(&schema, root, leaves.collect());
    let demands = RankingDemands { leaves: true, counts: true, positions: false, statistics: false };
    let calls = Cell::new(0);
    let found_with = |calls_left: usize| {
        calls.set(0);
        let stop = || calls.replace(calls.get() + 1) >= calls_left;
        match_plan(&plan, &view, demands, &stop).expect("columns in memory can be read")
    };
    let chunks = |found: &MatchedDocuments| found.chunks.iter().map(|chunk| chunk.chunk).collect::<Vec<_>>();
    let whole = found_with(usize::MAX);
    assert_eq!((whole.timed_out, whole.documents, chunks(&whole)), (false, 2, vec![1]));
    // The last question is one within the second chunk, when its distance is known.
    let cut = found_with(calls.get() - 1);
    assert_eq!((cut.timed_out, cut.documents, chunks(&cut)), (true, 1, vec![0]));
}
