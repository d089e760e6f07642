//! Rank properties that stand for elements of a rank profile, each beside the element.

use std::collections::BTreeMap;

use millrace_schema::{Application, RankProfile, unknown_engine_property};

const SERVICES: &str = "<services><container id='c'><search/></container><content id='mail'><documents>\
                        <document type='x' mode='streaming'/></documents></content></services>";

/// The profile `p`, which may inherit `base`, with these elements; errors as text.
fn profile(name: &str, elements: &str) -> Result<RankProfile, String> {
    let schema = format!(
        "schema x {{ document x {{
            field f type string {{ indexing: index }}
            field n type int {{ indexing: attribute }} }}
            rank-profile base {{ rank-properties {{ vespa.hitcollector.arraysize: 9\n }} }}
            rank-profile {name} {{ {elements} }} }}"
    );
    let files = [("services.xml", SERVICES), ("schemas/x.sd", schema.as_str())];
    let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    let application =
        Application::from_files(BTreeMap::from(files)).map_err(|error| format!("{error}\n{elements}"))?;
    Ok(application.schemas["x"].rank_profiles["p"].clone())
}

/// A profile without what differs between an element and a property: the property, and places.
fn described(elements: &str) -> Result<String, String> {
    let mut profile = profile("p", elements)?;
    let phases = [&mut profile.first_phase, &mut profile.second_phase, &mut profile.global_phase];
    let expressions = phases.into_iter().filter_map(|phase| phase.expression.as_mut());
    let functions = profile.functions.values_mut().map(|function| &mut function.body);
    let lists = [&mut profile.match_features, &mut profile.summary_features, &mut profile.rank_features];
    for text in expressions.chain(functions).chain(lists.into_iter().flatten()) {
        text.position = profile.position.clone();
    }
    profile.properties.clear();
    Ok(format!("{profile:?}"))
}

/// A property with its value, and the element that sets the same.
const ELEMENTS: &[(&str, &str)] = &[
    ("vespa.dump.feature: bm25(f)", "rank-features: bm25(f)"),
    ("vespa.dump.ignoredefaultfeatures: true", "ignore-default-rank-features"),
    ("vespa.fieldweight.f: 300", "weight f: 300"),
    ("vespa.globalphase.rankscoredroplimit: 0.5", "global-phase { rank-score-drop-limit: 0.5 }"),
    ("vespa.globalphase.rerankcount: 7", "global-phase { rerank-count: 7 }"),
    ("vespa.hitcollector.arraysize: 7", "first-phase { keep-rank-count: 7 }"),
    ("vespa.hitcollector.heapsize: 7", "second-phase { rerank-count: 7 }"),
    ("vespa.hitcollector.rankscoredroplimit: -1.5", "first-phase { rank-score-drop-limit: -1.5 }"),
    ("vespa.hitcollector.secondphase.rankscoredroplimit: 1", "second-phase { rank-score-drop-limit: 1 }"),
    ("vespa.isfilterfield.f: true", "rank f: filter"),
    ("vespa.isfilterfield.f: false", "rank f: normal"),
    ("vespa.match.feature: bm25(f)", "match-features: bm25(f)"),
    ("vespa.matching.element_gap.f: 3", "rank f { element-gap: 3 }"),
    ("vespa.matching.element_gap.f: infinity", "rank f { element-gap: infinity }"),
    (
        "vespa.matchphase.diversity.mingroups: 3\n vespa.matchphase.diversity.attribute: n",
        "diversity { attribute: n\n min-groups: 3\n }",
    ),
    ("vespa.rank.firstphase: bm25(f)", "first-phase { expression: bm25(f)\n }"),
    (
        "vespa.rank.firstphase: bm25(f)\n rankingExpression(firstphase).rankingScript: 2 * bm25(f)",
        "first-phase { expression: bm25(f)\n }",
    ),
    (
        "vespa.rank.firstphase: rankingExpression(firstphase)\n \
         rankingExpression(firstphase).rankingScript: 2 * bm25(f)",
        "first-phase { expression: 2 * bm25(f)\n }",
    ),
    ("vespa.rank.secondphase: bm25(f)", "second-phase { expression: bm25(f)\n }"),
    ("vespa.rank.globalphase: bm25(f)", "global-phase { expression: bm25(f)\n }"),
    ("rankingExpression(firstphase).rankingScript: 2 * bm25(f)", "first-phase { expression: 2 * bm25(f)\n }"),
    ("rankingExpression(g).rankingScript: 2 * bm25(f)", "function g() { expression: 2 * bm25(f)\n }"),
    ("vespa.summary.feature: bm25(f)", "summary-features: bm25(f)"),
];

#[test]
fn properties_set_what_elements_set() {
    let mut wrong = Vec::new();
    for (property, element) in ELEMENTS {
        let set = described(&format!("rank-properties {{ {property}\n }}"));
        let expected = described(&format!("{element}\n"));
        if set != expected || set.is_err() {
            wrong.push(format!("{property}: {set:?}\n    {element}: {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_property_takes_precedence_over_the_element_and_is_inherited() {
    let both = profile(
        "p inherits base",
        "first-phase { keep-rank-count: 5 }
        second-phase { rerank-count: 5 }
        rank-properties { vespa.hitcollector.heapsize: 7\n }",
    );
    let both = both.expect("the profile is right");
    assert_eq!((both.first_phase.keep_rank_count, both.second_phase.rerank_count), (Some(9), Some(7)));
}

#[test]
fn elements_are_inherited_without_what_properties_set() {
    let child = profile(
        "a { second-phase { rerank-count: 5 } }
        rank-profile b inherits a {
            rank-properties { vespa.hitcollector.heapsize: 7\n vespa.summary.feature: bm25(f)\n }
        }
        rank-profile p inherits a, b",
        "rank-properties { vespa.summary.feature: fieldLength(f)\n }",
    );
    let child = child.expect("the property of one parent does not contradict the element of the other");
    assert_eq!(child.second_phase.rerank_count, Some(7));
    let features: Vec<&str> = child.summary_features.iter().map(|feature| feature.value.as_str()).collect();
    assert_eq!(features, ["fieldLength(f)"]);
}

#[test]
fn wrong_values_are_refused_with_the_profile() {
    for (property, expected) in [
        ("vespa.hitcollector.heapsize: -1", "must be a whole number, found '-1'"),
        ("vespa.hitcollector.rankscoredroplimit: low", "must be a number, found 'low'"),
        ("vespa.isfilterfield.f: yes", "must be true or false, found 'yes'"),
        ("vespa.matching.element_gap.f: wide", "must be a whole number or infinity, found 'wide'"),
    ] {
        let error = profile("p", &format!("rank-properties {{ {property}\n }}")).expect_err(property);
        let name = property.split(':').next().unwrap_or_default();
        assert!(error.contains(&format!("rank-profile 'p': the rank property {name} {expected}")), "{error}");
    }
}

#[test]
fn names_of_the_engine_are_known_in_any_case() {
    for name in [
        "bm25(f).k1",
        "mine",
        "vespa",
        "vespa.now",
        "Vespa.HitCollector.heapsize",
        "vespa.term.3.connexity",
        "vespa.matching.split_unpacking_iterators",
        "vespa.matchphase.diversity.cutoffstrategy",
    ] {
        assert_eq!(unknown_engine_property(name), None, "{name}");
    }
    for (name, hint) in [
        ("vespa.hitcollector.heapsizes", " (did you mean 'vespa.hitcollector.heapsize'?)"),
        ("vespa.fieldweight.", ""),
        ("vespa.now.then", ""),
    ] {
        let faults = unknown_engine_property(name).expect(name);
        assert!(
            faults.starts_with("the engine has no such rank property") && faults.contains(hint),
            "{faults}"
        );
    }
}

/// Warnings of the rank property of a profile.
fn warnings(property: &str) -> Vec<String> {
    let schema = format!(
        "schema x {{ document x {{ }}\nrank-profile p {{ rank-properties {{ {property}: 1\n }} }} }}"
    );
    let files = [("services.xml", SERVICES), ("schemas/x.sd", schema.as_str())];
    let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    let application = Application::from_files(BTreeMap::from(files));
    let all = application.unwrap_or_else(|error| panic!("{error}\n{schema}")).warnings;
    all.into_iter().filter(|warning| warning.contains("rank property")).collect()
}

#[test]
fn a_property_that_its_feature_does_not_have_is_warned_of() {
    for (property, reason) in [
        (
            "fieldMatch(f).maxOccurences",
            "fieldMatch has no property 'maxOccurences' (did you mean 'maxOccurrences'?)",
        ),
        (
            "nativeFieldMatch.averageFieldLenght.f",
            "nativeFieldMatch has no property 'averageFieldLenght' (did you mean 'averageFieldLength'?)",
        ),
        ("nativeRank.weight", "nativeRank has no property 'weight'"),
        ("elementwise(bm25(f),d,float).k2", "elementwise has no property 'k2'"),
    ] {
        let faults = warnings(property);
        let [warning] = &faults[..] else { panic!("{property}: {faults:?}") };
        let expected = format!("rank-profile 'p': the rank property {property} has no effect: {reason}");
        assert!(warning.contains(&expected), "{warning}");
    }
    for property in [
        "fieldMatch(f).maxOccurrences",
        "nativeFieldMatch.averageFieldLength.f",
        "nativeProximity.elementGap.a.b",
        "elementwise(bm25(f),d,float).k1",
        "elementSimilarity(f).output.own",
        "random.match.seed",
        "dotProduct.mine",
        "distanceToPath(f).path",
        "query(x)",
        "$x",
        "mine.own",
        "bm25",
    ] {
        assert_eq!(warnings(property), [""; 0], "{property}");
    }
}
