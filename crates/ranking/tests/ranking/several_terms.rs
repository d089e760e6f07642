//! Features of a field where terms of the query repeat, or search other fields as well.

use std::sync::Arc;

use millrace_plan::{LeafId, Plan, PlanLeaf, PlanNode, PlanTerm, Predicate, TermId, WordPattern};

use crate::features::{check, scores_of};

#[test]
fn a_request_may_say_what_all_terms_weigh() {
    let of_whole = |output: &str, property: &str, whole: &str| {
        let said = |mut plan: Plan| {
            let mut query = (*plan.query).clone();
            query.ranking.properties.insert(format!("fieldMatch(title).{property}"), whole.to_owned());
            plan.query = Arc::new(query);
            plan
        };
        scores_of(&format!("fieldMatch(title).{output}"), said).expect(output)
    };
    assert_eq!(of_whole("weight", "totalTermWeight", "1200"), [0.25, 1.0 / 12.0, 0.25]);
    assert_eq!(of_whole("weight", "totalTermWeight", "0"), [0.5, 1.0 / 6.0, 0.5]);
    let double: Vec<f64> =
        of_whole("significance", "totalTermSignificance", "4").iter().map(|part| part * 2.0).collect();
    assert_eq!(of_whole("significance", "totalTermSignificance", "2"), double);
}

#[test]
fn occurrences_are_those_of_the_terms_that_occur() {
    // The third title has 6 words, with "fox" twice and "red" once; the second has 2, and no "red".
    check("fieldMatch(title).occurrence", [2.0 / 3.0, 0.5, 0.5]);
    check("fieldMatch(title).absoluteOccurrence", [0.01, 0.01, 0.015]);
    check("fieldMatch(title).weightedOccurrence", [1.0 / 3.0, 0.5, 400.0 / 1800.0]);
    check("fieldMatch(title).weightedAbsoluteOccurrence", [0.01, 0.01, 400.0 / 30_000.0]);
}

#[test]
fn weights_of_sets_are_relative_to_all_terms_of_attributes() {
    let with_color = |mut plan: Plan| {
        let (term, leaf) = (TermId(plan.terms.len()), LeafId(plan.leaves.len()));
        plan.terms.push(PlanTerm { leaves: vec![leaf], ..plan.terms[3].clone() });
        let predicate = Predicate::Value { pattern: WordPattern::Exact("blue".to_owned()), cased: false };
        plan.leaves.push(PlanLeaf {
            field: "color".into(),
            predicate,
            term: Some(term),
            dot_product_above: None,
        });
        plan.root = PlanNode::Rank(Box::new(plan.root), vec![PlanNode::Leaf(leaf)]);
        plan
    };
    let check = |output: &str, expected: [f64; 3]| {
        assert_eq!(scores_of(&format!("attributeMatch({output}"), with_color).unwrap(), expected, "{output}");
    };
    check("tags).normalizedWeight", [10.0 / 512.0, 5.0 / 512.0, 0.0]);
    check("tags).normalizedWeightedWeight", [10.0 / 512.0, 5.0 / 512.0, 0.0]);
    check("tags).maxWeight", [10.0, 5.0, 0.0]);
    // Only sets have weights.
    check("color).matches", [1.0, 0.0, 0.0]);
    for output in ["totalWeight", "averageWeight", "maxWeight", "normalizedWeight"] {
        check(&format!("color).{output}"), [0.0; 3]);
    }
}

#[test]
fn repeated_words_of_the_query_may_meet_one_word_of_an_element() {
    // The query has the word fox twice for the notes, whose second element is that word.
    let twice = |weight: i32| {
        move |mut plan: Plan| {
            let (term, leaf) = (TermId(plan.terms.len()), LeafId(plan.leaves.len()));
            let mut again = PlanTerm { leaves: vec![leaf], ..plan.terms[2].clone() };
            again.annotations.weight = weight;
            plan.terms.push(again);
            plan.leaves.push(PlanLeaf { term: Some(term), ..plan.leaves[2].clone() });
            plan.root = PlanNode::Rank(Box::new(plan.root), vec![PlanNode::Leaf(leaf)]);
            plan
        }
    };
    let check = |feature: &str, weight: i32, expected: f64| {
        let found = scores_of(feature, twice(weight)).expect(feature)[0];
        assert!((found - expected).abs() < 1e-9, "{feature}, {weight}: {found}");
    };
    check("elementCompleteness(notes).queryCompleteness", 100, 1.0);
    check("elementCompleteness(notes).fieldCompleteness", 100, 1.0);
    // Similarity is that of one word each, and terms without a weight have no part in it.
    check("elementSimilarity(notes)", 100, 0.85);
    check("elementSimilarity(notes)", 0, 1.0);
}
