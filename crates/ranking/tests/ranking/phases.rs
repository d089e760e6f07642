//! Phases, limits, order, and features returned with hits.

use millrace_document::DocumentValue;
use millrace_fixtures::Fields;
use millrace_plan::Plan;
use millrace_ranking::{CompiledProfile, FeatureSelection, RankOutcome, RankedDocuments};
use millrace_result::FeatureValue;
use millrace_schema::{RankPhase, RankProfile};

use crate::support::{documents, matches, plan, profile, schema, sourced, view};

/// Ranks the query's documents with a profile; a hit is identified by the index of its document.
fn rank_with(
    profile: RankProfile,
    wanted: usize,
    change: impl FnOnce(&mut Plan),
) -> (Vec<(usize, f64)>, RankOutcome) {
    rank_those(&documents(), profile, wanted, change)
}

fn rank_those(
    documents: &[Fields],
    profile: RankProfile,
    wanted: usize,
    change: impl FnOnce(&mut Plan),
) -> (Vec<(usize, f64)>, RankOutcome) {
    let schema = schema([profile]);
    let compiled = CompiledProfile::compile(&schema, "default").expect("the profile is right");
    let view = view(&schema, documents);
    let mut plan = plan(schema);
    change(&mut plan);
    let matches = matches(&plan, &view, &compiled);
    let over = RankedDocuments { plan: &plan, view: &view, matches: &matches };
    let ranked = compiled.rank(&over, None, wanted, &|| false).expect("columns can be read");
    let hits = ranked.hits.iter().map(|hit| (hit.chunk * 2 + usize::from(hit.document), hit.score)).collect();
    (hits, ranked)
}

fn rank(profile: RankProfile, wanted: usize) -> Vec<(usize, f64)> {
    rank_with(profile, wanted, |_| {}).0
}

fn second(expression: &str, rerank_count: usize) -> RankPhase {
    RankPhase {
        expression: Some(sourced(expression)),
        rerank_count: Some(rerank_count),
        ..RankPhase::default()
    }
}

#[test]
fn the_best_come_first_and_what_is_no_number_last() {
    assert_eq!(rank(profile("attribute(price)"), 10), [(1, 10.0), (0, 2.5), (2, f64::NEG_INFINITY)]);
    assert_eq!(rank(profile("attribute(price)"), 1), [(1, 10.0)]);
    assert_eq!(rank(profile("attribute(price)"), 0), []);
    assert_eq!(rank(profile("1"), 10), [(0, 1.0), (1, 1.0), (2, 1.0)]);
}

#[test]
fn hits_at_the_limit_are_dropped_and_not_counted() {
    let mut limited = profile("attribute(price)");
    limited.first_phase.score_drop_limit = Some(2.5);
    let (hits, ranked) = rank_with(limited, 10, |_| {});
    assert_eq!(hits, [(1, 10.0)]);
    assert_eq!(ranked.total, 1);
    assert_eq!(rank_with(profile("1"), 1, |_| {}).1.total, 3);
}

#[test]
fn the_second_phase_ranks_the_best_again() {
    let of = |first: &str, phase: RankPhase| RankProfile { second_phase: phase, ..profile(first) };
    // All hits: only the second phase decides.
    assert_eq!(rank(of("attribute(price)", second("0 - attribute(price)", 10)), 2), [(0, -2.5), (1, -10.0)]);
    // Only the best hit: the others keep their score while it is lower.
    assert_eq!(rank(of("matchCount(title)", second("100", 1)), 10), [(2, 100.0), (0, 2.0), (1, 1.0)]);
    // The others move below if the second phase's scores are lower than the first phase's.
    assert_eq!(
        rank(of("matchCount(title)", second("firstPhase - 13", 1)), 10),
        [(2, -10.0), (0, -10.0), (1, -10.0)]
    );
    let spread = of("matchCount(title)", second("firstPhase * 2 - 10", 2));
    assert_eq!(rank(spread, 10), [(2, -4.0), (0, -6.0), (1, -8.0)]);
    let mut limited = of("matchCount(title)", second("firstPhase", 2));
    limited.second_phase.score_drop_limit = Some(2.0);
    assert_eq!(rank(limited, 10), [(2, 3.0)]);
    // Hits that were not ranked again are dropped by their adjusted scores.
    let mut shifted = of("matchCount(title)", second("firstPhase - 13", 1));
    shifted.second_phase.score_drop_limit = Some(-10.0);
    assert_eq!(rank(shifted, 10), []);
}

#[test]
fn diverse_hits_are_ranked_again_and_the_others_come_after_them() {
    let colored = |sent: i64, color: &str| {
        let text = |text: &str| DocumentValue::String(text.to_owned());
        let mut fields = Fields::from([("title", text("fox")), ("sent", DocumentValue::Long(sent))]);
        fields.extend((!color.is_empty()).then(|| ("color", text(color))));
        fields
    };
    let colors = ["red", "red", "red", "blue", "", "blue", "green"];
    let documents: Vec<Fields> = (0..7).map(|at| colored(9 - at as i64, colors[at])).collect();
    let check = |expression: &str, count: usize, groups_min: usize, expected: &[(usize, f64)]| {
        let diverse = RankProfile {
            second_phase: second(expression, count),
            diversity: Some(("color".to_owned(), groups_min)),
            ..profile("attribute(sent)")
        };
        for wanted in [7, 3] {
            let (hits, ranked) = rank_those(&documents, diverse.clone(), wanted, |_| {});
            assert_eq!(hits, expected[..wanted], "{expression} {count} {groups_min}");
            assert_eq!(ranked.total, 7);
        }
    };
    let again = "100 + attribute(sent)";
    // Two hits of each color, then one; documents without a color form one group.
    let two = [(0, 109.0), (1, 108.0), (3, 106.0), (4, 105.0), (2, 7.0), (5, 4.0), (6, 3.0)];
    check(again, 4, 2, &two);
    let one = [(0, 109.0), (3, 106.0), (4, 105.0), (6, 103.0), (1, 8.0), (2, 7.0), (5, 4.0)];
    check(again, 4, 4, &one);
    check(again, 4, 10, &one);
    check(again, 6, 6, &one);
    // Hits that were left out do not overtake.
    let lower = [(6, -3.0), (4, -5.0), (3, -6.0), (0, -9.0), (1, -9.0), (2, -15.0), (5, -33.0)];
    check("0 - attribute(sent)", 4, 4, &lower);
    check("firstPhaseRank", 4, 4, &[(6, 7.0), (4, 5.0), (3, 4.0), (0, 1.0), (1, 1.0), (2, -5.0), (5, -23.0)]);
}

#[test]
fn the_request_may_set_how_many_are_ranked_again() {
    let profile = RankProfile { second_phase: second("100", 10), ..profile("matchCount(title)") };
    let (hits, _) = rank_with(profile, 10, |plan| {
        let mut query = (*plan.query).clone();
        query.ranking.rerank_count = Some(1);
        plan.query = std::sync::Arc::new(query);
    });
    assert_eq!(hits, [(2, 100.0), (0, 2.0), (1, 1.0)]);
}

#[test]
fn a_stop_leaves_the_rest_out() {
    let schema = schema([profile("attribute(price)")]);
    let compiled = CompiledProfile::compile(&schema, "default").expect("the profile is right");
    let view = view(&schema, &documents());
    let plan = plan(schema);
    let matches = matches(&plan, &view, &compiled);
    let asked = std::cell::Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 1
    };
    let over = RankedDocuments { plan: &plan, view: &view, matches: &matches };
    let ranked = compiled.rank(&over, None, 10, &stop).expect("columns can be read");
    assert!(ranked.timed_out);
    assert_eq!(ranked.hits.len(), 2);
}

#[test]
fn hits_have_the_features_that_the_profile_names() {
    let named = |texts: &[&str]| texts.iter().map(|text| sourced(text)).collect();
    let profile = RankProfile {
        match_features: named(&[
            "attribute(price)",
            "twice(attribute( price ))",
            "firstPhase",
            "attribute(vector)",
        ]),
        summary_features: named(&["rankingExpression(sum_price)", "secondPhase"]),
        second_phase: second("firstPhase + 1", 10),
        ..profile("attribute(price) * 2")
    };
    let mut profile = profile;
    profile.functions.insert("sum_price".to_owned(), profile.functions["twice"].clone());
    profile.functions.get_mut("sum_price").expect("just put there").parameters.clear();
    profile.functions.get_mut("sum_price").expect("just put there").body = sourced("sum(attribute(vector))");
    let schema = schema([profile]);
    let compiled = CompiledProfile::compile(&schema, "default").expect("the profile is right");
    let view = view(&schema, &documents());
    let plan = plan(schema);
    let matches = matches(&plan, &view, &compiled);
    let over = RankedDocuments { plan: &plan, view: &view, matches: &matches };
    let ranked = compiled.rank(&over, None, 2, &|| false).expect("columns can be read");
    let features = compiled
        .returned_features(FeatureSelection::Match, &over, &ranked.hits, &ranked.known, &|| false)
        .expect("columns can be read");
    let names: Vec<&str> = features[0].iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["attribute(price)", "twice(attribute(price))", "firstPhase", "attribute(vector)"]);
    let number = |hit: usize, feature: usize| match &features[hit][feature].1 {
        FeatureValue::Number(number) => *number,
        FeatureValue::Tensor(tensor) => tensor.cells().iter().sum(),
    };
    assert_eq!([number(0, 0), number(0, 1), number(0, 2), number(0, 3)], [10.0, 20.0, 20.0, 1.0]);
    assert_eq!([number(1, 0), number(1, 1), number(1, 2), number(1, 3)], [2.5, 5.0, 5.0, 7.0]);
    let summary = compiled
        .returned_features(FeatureSelection::Summary, &over, &ranked.hits, &ranked.known, &|| false)
        .expect("columns can be read");
    assert_eq!(
        summary[0],
        [
            ("rankingExpression(sum_price)".into(), FeatureValue::Number(1.0)),
            ("secondPhase".into(), FeatureValue::Number(21.0)),
        ]
    );
    let listed = compiled
        .returned_features(FeatureSelection::All, &over, &ranked.hits, &ranked.known, &|| false)
        .expect("columns can be read");
    assert!(listed[0].iter().any(|(name, _)| &**name == "bm25(title)"));
    assert!(listed[0].iter().any(|(name, _)| &**name == "attribute(price)"));
}

#[test]
fn the_default_is_native_rank_and_unranked_is_nothing() {
    let unranked = RankProfile { name: "unranked".to_owned(), ..RankProfile::default() };
    let default = RankProfile { name: "default".to_owned(), ..RankProfile::default() };
    let schema = schema([unranked, default]);
    let view = view(&schema, &documents());
    let plan = plan(schema.clone());
    let scores = |name: &str| {
        let compiled = CompiledProfile::compile(&schema, name).expect("the profile is right");
        let matches = matches(&plan, &view, &compiled);
        compiled.first_phase(&plan, &view, &matches, &|| false).expect("columns can be read").scores.concat()
    };
    assert_eq!(scores("unranked"), [0.0; 3]);
    assert!(scores("default").iter().all(|score| *score > 0.0 && *score < 1.0));
    let error = CompiledProfile::compile(&schema, "other").expect_err("no such profile").to_string();
    assert_eq!(error, "schema test has no rank profile 'other'; it has default, unranked");
}

#[test]
fn the_global_phase_compares_hits_with_each_other() {
    // First phase: 2, 1, 3 for documents 0, 1, 2; prices 2.5, 10 and none.
    let of = |expression: &str, count: usize| RankProfile {
        global_phase: second(expression, count),
        ..profile("matchCount(title)")
    };
    let close = |found: Vec<(usize, f64)>, expected: &[(usize, f64)]| {
        let same = found.len() == expected.len()
            && found.iter().zip(expected).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-9);
        assert!(same, "{found:?}");
    };
    close(rank(of("normalize_linear(firstPhase)", 10), 10), &[(2, 1.0), (0, 0.5), (1, 0.0)]);
    close(rank(of("reciprocal_rank(matchCount(title), 1)", 10), 10), &[(2, 0.5), (0, 1.0 / 3.0), (1, 0.25)]);
    close(
        rank(of("reciprocal_rank_fusion(firstPhase, 0 - matchCount(title))", 10), 10),
        &[(1, 1.0 / 61.0 + 1.0 / 63.0), (2, 1.0 / 61.0 + 1.0 / 63.0), (0, 2.0 / 62.0)],
    );
    close(rank(of("relevanceScore + 10 * firstPhaseRank", 10), 10), &[(1, 31.0), (0, 22.0), (2, 13.0)]);
    close(rank(of("firstPhaseMax - firstPhase", 10), 10), &[(1, 2.0), (0, 1.0), (2, 0.0)]);
    // Hits that were not ranked again do not overtake.
    close(rank(of("normalize_linear(firstPhase)", 2), 10), &[(2, 1.0), (0, 0.0), (1, -1.0)]);
    let refused = |profile: RankProfile, part: &str| {
        let error =
            CompiledProfile::compile(&schema([profile]), "default").expect_err("it cannot work").to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(profile("normalize_linear(bm25(title))"), "only the global phase can");
    refused(of("normalize_linear(reciprocal_rank(bm25(title)))", 1), "only the global phase can");
    refused(of("reciprocal_rank(bm25(title), few)", 1), "k a number");
    refused(of("reciprocal_rank_fusion(bm25(title))", 1), "at least two");
    refused(of("normalize_linear(nothing)", 1), "normalize_linear(nothing): no rank feature");
}

#[test]
fn a_request_may_give_features_their_values() {
    let (hits, _) = rank_with(profile("value(2) + attribute(sent) + bm25(title)"), 10, |plan| {
        let number = |number| std::sync::Arc::new(millrace_tensor::Tensor::scalar(number));
        plan.feature_values.insert("value( \"2\" )".to_owned(), number(5.0));
        plan.feature_values.insert("attribute(sent)".to_owned(), number(1.0));
        plan.feature_values.insert("bm25(title)".to_owned(), number(0.5));
        plan.feature_values.insert("bm25(notes)".to_owned(), number(100.0));
    });
    assert_eq!(hits, [(0, 6.5), (1, 6.5), (2, 6.5)]);
}

#[test]
fn hits_that_a_later_phase_drops_are_not_counted() {
    let first = || profile("matchCount(title)");
    let mut by_second = RankProfile { second_phase: second("firstPhase", 2), ..first() };
    by_second.second_phase.score_drop_limit = Some(2.0);
    let mut by_global = RankProfile { global_phase: second("firstPhase", 2), ..first() };
    by_global.global_phase.score_drop_limit = Some(2.0);
    for (phase, limited) in [("second", by_second), ("global", by_global)] {
        let (hits, ranked) = rank_with(limited, 10, |_| {});
        assert_eq!((hits, ranked.total), (vec![(2, 3.0)], 1), "{phase}");
    }
    // A hit that was not ranked again takes the place of one that is dropped.
    let mut replaced = RankProfile { second_phase: second("0 - 100", 1), ..first() };
    replaced.second_phase.score_drop_limit = Some(-1000.0);
    let (hits, ranked) = rank_with(replaced.clone(), 1, |_| {});
    assert_eq!((hits, ranked.total), (vec![(2, -100.0)], 3));
    replaced.second_phase =
        RankPhase { score_drop_limit: Some(1.5), ..second("if (firstPhase > 2, 2, 9)", 2) };
    let (hits, ranked) = rank_with(replaced, 1, |_| {});
    assert_eq!((hits, ranked.total), (vec![(0, 9.0)], 2));
}

#[test]
fn shown_features_of_the_first_phase_have_their_values() {
    let named = || ["firstPhaseRank", "firstPhaseMax"].map(sourced).to_vec();
    let one =
        RankProfile { match_features: named(), summary_features: named(), ..profile("matchCount(title)") };
    let two = RankProfile { second_phase: second("0 - firstPhase", 10), ..one.clone() };
    for (phases, profile, expected) in [
        ("first", one, [(2, 1.0, 3.0), (0, 2.0, 3.0), (1, 3.0, 3.0)]),
        ("second", two, [(1, 3.0, 3.0), (0, 2.0, 3.0), (2, 1.0, 3.0)]),
    ] {
        let schema = schema([profile]);
        let compiled = CompiledProfile::compile(&schema, "default").expect("the profile is right");
        let view = view(&schema, &documents());
        let plan = plan(schema);
        let matches = matches(&plan, &view, &compiled);
        let over = RankedDocuments { plan: &plan, view: &view, matches: &matches };
        let ranked = compiled.rank(&over, None, 3, &|| false).expect("columns can be read");
        for selection in [FeatureSelection::Match, FeatureSelection::Summary] {
            let features = compiled
                .returned_features(selection, &over, &ranked.hits, &ranked.known, &|| false)
                .expect("columns can be read");
            let found = ranked.hits.iter().zip(&features).map(|(hit, features)| {
                let number = |at: usize| match &features[at].1 {
                    FeatureValue::Number(number) => *number,
                    FeatureValue::Tensor(_) => f64::NAN,
                };
                (hit.chunk * 2 + usize::from(hit.document), number(0), number(1))
            });
            assert_eq!(found.collect::<Vec<_>>(), expected, "{phases} {selection:?}");
        }
    }
}
