//! Features of text over every kind of indexed field: words, texts in arrays, and values that are
//! matched as a whole. Members: each feature that Vespa gives for an index field, with each output that
//! depends on the kind.

use std::sync::Arc;

use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{Fields, field};
use millrace_linguistics::MatchMode;
use millrace_plan::{LeafId, PlanNode, Predicate, WordPattern};
use millrace_ranking::CompiledProfile;
use millrace_schema::{Schema, SchemaField};

use crate::support::{matches, profile, view};

fn matched_as_a_whole(name: &str, data_type: DataType, mode: MatchMode) -> SchemaField {
    let mut field = field(name, data_type, true);
    field.matching.mode = mode;
    field
}

fn kinds(expression: &str) -> Schema {
    let string = || Box::new(DataType::String);
    let set =
        DataType::WeightedSet { element: string(), create_if_nonexistent: false, remove_if_zero: false };
    let fields = vec![
        field("title", DataType::String, true),
        matched_as_a_whole("word", DataType::String, MatchMode::Word),
        matched_as_a_whole("words", DataType::Array(string()), MatchMode::Exact),
        matched_as_a_whole("set", set, MatchMode::Word),
        field("color", DataType::String, false),
    ];
    let mut schema = millrace_fixtures::schema("test", fields);
    schema.rank_profiles.insert("default".to_owned(), profile(expression));
    schema
}

fn documents() -> Vec<Fields> {
    let text = |text: &str| DocumentValue::String(text.to_owned());
    let texts = |texts: &[&str]| DocumentValue::Array(texts.iter().map(|t| text(t)).collect());
    let set = |tags: &[(&str, i32)]| {
        DocumentValue::WeightedSet(tags.iter().map(|(tag, weight)| (text(tag), *weight)).collect())
    };
    vec![
        Fields::from([
            ("title", text("a fox")),
            ("word", text("blue fox")),
            ("words", texts(&["red", "blue fox", "green"])),
            ("set", set(&[("blue fox", 30), ("red", 10)])),
            ("color", text("blue fox")),
        ]),
        Fields::from([
            ("title", text("fox")),
            ("word", text("other")),
            ("words", texts(&["blue fox"])),
            ("set", set(&[("red", 5)])),
        ]),
        Fields::from([("title", text("fox fox"))]),
    ]
}

/// The query: word, words, set and color by value, and the word fox in the title.
fn scores(expression: &str) -> Result<Vec<f64>, String> {
    let schema = kinds(expression);
    let compiled = CompiledProfile::compile(&schema, "default").map_err(|error| error.to_string())?;
    let view = view(&schema, &documents());
    let value = |text: &str| Predicate::Value { pattern: WordPattern::Exact(text.to_owned()), cased: false };
    let leaves = vec![
        ("word", value("blue fox")),
        ("words", value("blue fox")),
        ("set", value("red")),
        ("color", value("blue fox")),
        ("title", Predicate::Words(vec![WordPattern::Exact("fox".to_owned())])),
    ];
    let root = PlanNode::Or((0..5).map(|leaf| PlanNode::Leaf(LeafId(leaf))).collect());
    let plan = millrace_fixtures::plan(&Arc::new(schema), root, leaves);
    let matches = matches(&plan, &view, &compiled);
    let first = compiled.first_phase(&plan, &view, &matches, &|| false).map_err(|error| error.to_string())?;
    Ok(first.scores.into_iter().flatten().collect())
}

#[test]
fn features_of_text_see_values_as_words() {
    let one_of_three = (1.0f64 + 2.5 / 1.5).ln();
    let two_of_three = (1.0f64 + 1.5 / 2.5).ln();
    let mut wrong = Vec::new();
    for (expression, expected) in [
        ("matches(word)", [1.0, 0.0, 0.0]),
        ("matches(words)", [1.0, 1.0, 0.0]),
        ("matchCount(words)", [1.0, 1.0, 0.0]),
        ("matchCount(set)", [1.0, 1.0, 0.0]),
        ("fieldTermMatch(word,0).firstPosition", [0.0, 1e6, 1e6]),
        ("fieldTermMatch(words,1).firstPosition", [2.0, 0.0, 1e6]),
        ("fieldTermMatch(words,1).occurrences", [1.0, 1.0, 0.0]),
        ("fieldTermMatch(set,2).weight", [10.0, 5.0, 0.0]),
        ("fieldLength(word)", [1.0, 1e6, 1e6]),
        ("fieldLength(words)", [1.0, 1.0, 1e6]),
        ("fieldInfo(word).first", [0.0, 1e6, 1e6]),
        ("fieldInfo(word).cnt", [1.0, 0.0, 0.0]),
        ("fieldInfo(word).len", [1.0, 1e6, 1e6]),
        ("fieldMatch(word).matches", [1.0, 0.0, 0.0]),
        ("fieldMatch(word).completeness", [1.0, 0.0, 0.0]),
        ("fieldMatch(word).degradedMatches", [0.0; 3]),
        ("fieldMatch(words).fieldCompleteness", [1.0, 1.0, 0.0]),
        ("fieldMatch(set).queryCompleteness", [1.0, 1.0, 0.0]),
        ("textSimilarity(word)", [1.0, 0.0, 0.0]),
        ("textSimilarity(words).fieldCoverage", [1.0 / 3.0, 1.0, 0.0]),
        ("elementSimilarity(words)", [1.0, 1.0, 0.0]),
        ("elementSimilarity(set)", [10.0, 5.0, 0.0]),
        ("elementCompleteness(words).completeness", [1.0, 1.0, 0.0]),
        ("elementCompleteness(set).elementWeight", [10.0, 5.0, 0.0]),
        ("nativeFieldMatch(word) > 0", [1.0, 0.0, 0.0]),
        ("nativeFieldMatch(words) > 0", [1.0, 1.0, 0.0]),
        ("nativeRank(set) > 0", [1.0, 1.0, 0.0]),
        ("nativeProximity(words)", [0.0; 3]),
        ("nativeDotProduct(set)", [1000.0, 500.0, 0.0]),
        ("nativeDotProduct(words)", [100.0, 100.0, 0.0]),
        ("bm25(word)", [one_of_three, 0.0, 0.0]),
        // The average length of such fields is not counted, and taken as 1.
        ("bm25(words)", [two_of_three * 2.2 / 4.0, two_of_three, 0.0]),
        ("averageFieldLength(word)", [0.0; 3]),
        ("queryTermDocumentFrequency(word){term:0}", [1.0; 3]),
        ("reduce(elementwise(bm25(words),e,double),count)", [1.0, 1.0, 0.0]),
        ("elementwise(bm25(words),e,double){e:1} > 0", [1.0, 0.0, 0.0]),
        ("sum(bm25_for_labels(word))", [0.0; 3]),
        ("termDistance(words,1,1).forward", [1e6; 3]),
        ("foreach(fields,F,matches(F),true,sum)", [4.0, 3.0, 1.0]),
        ("match.totalWeight", [500.0, 300.0, 100.0]),
        // Attributes are no text, and have the features of attributes.
        ("attributeMatch(color)", [1.0, 0.0, 0.0]),
        ("matchCount(color)", [1.0, 0.0, 0.0]),
        ("nativeAttributeMatch(color) > 0", [1.0, 0.0, 0.0]),
    ] {
        match scores(expression) {
            Ok(found)
                if found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6 * b.abs().max(1.0)) => {}
            found => wrong.push(format!("{expression}: expected {expected:?}, found {found:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn features_of_text_refuse_attributes() {
    for expression in ["bm25(color)", "fieldMatch(color)", "fieldLength(color)", "textSimilarity(color)"] {
        let refused = scores(expression).expect_err(expression);
        assert!(refused.contains("needs a text field with 'indexing: index'"), "{expression}: {refused}");
    }
}
