//! Every rank feature of Vespa with each of its outputs, and the values of those that compare the query with
//! a field word by word. The first three documents match the query (see `support`).

use std::collections::BTreeMap;

use millrace_plan::Plan;
use millrace_ranking::{CompiledProfile, FEATURES};
use millrace_schema::RankProfile;

use crate::support::{documents, matches, plan, profile, schema, view};

fn scores_of(profile: RankProfile, change: impl Fn(&mut Plan)) -> Result<Vec<f64>, String> {
    let schema = schema([profile]);
    let compiled = CompiledProfile::compile(&schema, "default").map_err(|error| error.to_string())?;
    let view = view(&schema, &documents());
    let mut plan = plan(schema);
    change(&mut plan);
    let matches = matches(&plan, &view, &compiled);
    let first = compiled.first_phase(&plan, &view, &matches, &|| false).map_err(|error| error.to_string())?;
    Ok(first.scores.into_iter().flatten().collect())
}

#[track_caller]
fn check_all(rows: &[(&str, [f64; 3])], prepare: impl Fn(&mut RankProfile), change: impl Fn(&mut Plan)) {
    let close = |(a, b): (&f64, &f64)| a == b || (a - b).abs() < 1e-6 * b.abs().max(1.0);
    let mut wrong = Vec::new();
    for (expression, expected) in rows {
        let mut profile = profile(expression);
        prepare(&mut profile);
        match scores_of(profile, &change) {
            Ok(found) if found.len() == 3 && found.iter().zip(expected).all(close) => {}
            found => wrong.push(format!("{expression}: expected {expected:?}, found {found:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The features that Vespa registers, each with its outputs after a colon, the first one first. Features
/// that are refused have a reason after an exclamation mark.
const OF_VESPA: &str = "
age(sent): out
attribute(price): value weight contains count
attributeMatch(tags): completeness queryCompleteness fieldCompleteness normalizedWeight normalizedWeightedWeight weight significance importance matches totalWeight averageWeight maxWeight
averageFieldLength(title): out
bm25(title): score
bm25_for_labels(title): score
closeness(vector): out
closeness(place): out logscale
closest(parts): out
constant(seven): out
debugAttributeWait(price,0)! only delays
debugWait(0,0)! only delays
distance(vector): out
distance(place): out index latitude longitude km
distanceToPath(place): distance traveled product
dotProduct(tags,v): scalar
elementCompleteness(title): completeness fieldCompleteness queryCompleteness elementWeight
elementSimilarity(title): default
elementwise(bm25(title),e): score
euclideanDistance(numbers,v): distance
fieldInfo: indexCnt attrCnt
fieldInfo(title): type filter search hit len first last cnt
fieldLength(title): out
fieldMatch(title): score proximity completeness queryCompleteness fieldCompleteness orderness relatedness earliness longestSequenceRatio segmentProximity unweightedProximity absoluteProximity occurrence absoluteOccurrence weightedOccurrence weightedAbsoluteOccurrence significantOccurrence weight significance importance segments matches outOfOrder gaps gapLength longestSequence head tail segmentDistance degradedMatches
fieldTermMatch(title,0): firstPosition lastPosition occurrences weight exactness
firstPhaseMax: score
firstPhaseRank: score
flowCompleteness(title): completeness fieldCompleteness queryCompleteness elementWeight weight flow
foreach(terms,N,matches(title,N),true,sum): value
freshness(sent): out logscale
globalSequence: out
great_circle_distance(place): km latitude longitude
itemRawScore(near): out
jaroWinklerDistance(title): out
match: score totalWeight weight.title
matchCount(title): out
matches(title): out
nativeAttributeMatch: score
nativeDotProduct(tags): out
nativeFieldMatch: score
nativeProximity: score
nativeRank: score
now: out
num_docs_indexed: out
proximity(title,0,1): out posA posB
query(boost): out
queryCompleteness(title): hit miss
queryTermCount: out
queryTermDocumentFrequency(title): out
random: out match
randomNormal(0,1): out
randomNormalStable(0,1): out
rawScore(vector): out
reverseProximity(title,0,1): out posA posB
subqueries(color): lsb msb
tensorFromLabels(attribute(numbers),n): tensor
tensorFromLabelsWithOffset(attribute(numbers),n,o): tensor
tensorFromWeightedSet(attribute(tags),t): tensor
term(0): connectedness significance weight
termDistance(title,0,1): forward forwardTermPosition reverse reverseTermPosition
termEditDistance(title): out del ins sub
termFieldMd(title): score terms match termsmatched firstweight occurrences maxTermWeight
termInfo(0): queryidx
textSimilarity(title): score proximity order queryCoverage fieldCoverage
value(1): 0
";

#[test]
fn features_of_vespa_have_their_outputs() {
    let compiles = |feature: &str| {
        // A feature may be a tensor, which becomes a number in any case.
        let expression = format!("reduce({feature}, sum)");
        scores_of(profile(&expression), |_| {}).map(|_| ())
    };
    let mut wrong = Vec::new();
    let mut told: BTreeMap<&str, bool> = BTreeMap::new();
    for line in OF_VESPA.lines().filter(|line| !line.is_empty()) {
        let base = |feature: &'static str| feature.split('(').next().unwrap_or_default();
        if let Some((feature, _)) = line.split_once("! ") {
            told.insert(base(feature), false);
            if compiles(feature).is_ok() {
                wrong.push(format!("{feature} is not refused"));
            }
            continue;
        }
        let (feature, outputs) = line.rsplit_once(": ").expect("outputs follow a colon");
        told.insert(base(feature), true);
        let outputs = outputs.split(' ').map(|output| format!("{feature}.{output}"));
        let whole = (feature != "fieldInfo").then(|| feature.to_owned());
        for feature in whole.into_iter().chain(outputs) {
            wrong.extend(compiles(&feature).err().map(|error| format!("{feature}: {error}")));
        }
        if compiles(&format!("{feature}.beauty")).is_ok() && base(feature) != "fieldInfo" {
            wrong.push(format!("{feature}.beauty is not refused"));
        }
    }
    let untold =
        FEATURES.iter().filter(|info| !told.contains_key(info.name) && info.name != "tensorFromStructs");
    wrong.extend(untold.map(|info| format!("{} is not in the list", info.name)));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn terms_are_compared_with_words() {
    let (far, none) = (f64::MAX, f64::MIN);
    let rows = [
        ("proximity(title,0,1)", [1.0, far, far]),
        ("proximity(title,0,1).posA", [0.0, far, far]),
        ("proximity(title,0,1).posB", [1.0, none, none]),
        ("proximity(title,1,0)", [far, far, 2.0]),
        ("proximity(title,0,9)", [far; 3]),
        ("reverseProximity(title,0,1)", [far, far, 2.0]),
        ("reverseProximity(title,0,1).posA", [none, none, 4.0]),
        ("reverseProximity(title,0,1).posB", [far, far, 2.0]),
        ("queryCompleteness(title)", [2.0, 1.0, 2.0]),
        ("queryCompleteness(title).miss", [0.0, 1.0, 0.0]),
        ("queryCompleteness(title,1)", [1.0, 1.0, 2.0]),
        ("queryCompleteness(title,0,1)", [1.0, 0.0, 1.0]),
        ("termFieldMd(title)", [2.0, 1.0, 2.0]),
        ("termFieldMd(title).terms", [2.0; 3]),
        ("termFieldMd(title).match", [1.0; 3]),
        ("termFieldMd(title).termsmatched", [2.0, 1.0, 2.0]),
        ("termFieldMd(tags).firstweight", [10.0, 5.0, 0.0]),
        ("termFieldMd(title).occurrences", [2.0, 1.0, 3.0]),
        ("termFieldMd(title).maxTermWeight", [200.0, 100.0, 200.0]),
        ("termInfo(4)", [4.0; 3]),
        ("termInfo(9).queryidx", [-1.0; 3]),
        ("euclideanDistance(numbers,v)", [5.0, 0.0, 0.0]),
        ("flowCompleteness(title)", [5.0 / 6.0, 0.5, 2.0 / 3.0]),
        ("flowCompleteness(title).fieldCompleteness", [2.0 / 3.0, 0.5, 1.0 / 3.0]),
        ("flowCompleteness(title).queryCompleteness", [1.0, 0.5, 1.0]),
        ("flowCompleteness(title).flow", [2.0, 1.0, 2.0]),
        ("flowCompleteness(title).elementWeight", [1.0; 3]),
        ("flowCompleteness(title).weight", [100.0; 3]),
        ("flowCompleteness(notes).flow", [1.0, 0.0, 0.0]),
        ("jaroWinklerDistance(title)", [1.0 - 31.0 / 45.0, 1.0 - 17.0 / 30.0, 1.0 - 41.0 / 90.0]),
        // The query has five terms: the last three match nowhere in the title.
        ("termEditDistance(title)", [3.0, 4.0, 5.0]),
        ("termEditDistance(title).del", [2.0, 3.0, 0.0]),
        ("termEditDistance(title).ins", [0.0, 0.0, 1.0]),
        ("termEditDistance(title).sub", [1.0, 1.0, 4.0]),
        ("termEditDistance(notes)", [4.0, 1e6, 1e6]),
        ("globalSequence > 0 && globalSequence < 281474976710657", [1.0; 3]),
        ("globalSequence == globalSequence", [1.0; 3]),
        ("fieldTermMatch(title,1).weight", [1.0, 1.0, 2.0]),
        ("fieldTermMatch(title,1).exactness", [1.0; 3]),
        ("fieldTermMatch(title,0).exactness", [1.0, 0.0, 1.0]),
    ];
    check_all(&rows, |_| {}, |_| {});
}

#[test]
fn field_info_is_about_the_first_term() {
    let rows = [
        ("fieldInfo.indexCnt", [2.0; 3]),
        ("fieldInfo.attrCnt", [10.0; 3]),
        ("fieldInfo(title)", [1.0; 3]),
        ("fieldInfo(price).type", [2.0; 3]),
        ("fieldInfo(title).filter", [0.0; 3]),
        ("fieldInfo(title).search", [1.0; 3]),
        ("fieldInfo(notes).search", [0.0; 3]),
        ("fieldInfo(title).hit", [1.0, 0.0, 1.0]),
        ("fieldInfo(title).len", [3.0, 1e6, 6.0]),
        ("fieldInfo(title).first", [0.0, 1e6, 4.0]),
        ("fieldInfo(title).last", [0.0, 1e6, 4.0]),
        ("fieldInfo(title).cnt", [1.0, 0.0, 1.0]),
        ("fieldInfo(tags).cnt", [0.0; 3]),
    ];
    check_all(&rows, |_| {}, |_| {});
}

/// Features of a filter: it matches, at no position.
const OF_FILTER: &[(&str, [f64; 3])] = &[
    ("matches(title)", [1.0; 3]),
    ("matches(title,0)", [1.0, 0.0, 1.0]),
    ("matchCount(title)", [2.0, 1.0, 2.0]),
    ("fieldLength(title)", [1e6; 3]),
    ("bm25(title)", [0.0; 3]),
    ("fieldMatch(title)", [0.0; 3]),
    ("fieldMatch(title).matches", [0.0; 3]),
    ("fieldTermMatch(title,1).firstPosition", [1e6; 3]),
    ("fieldTermMatch(title,1).lastPosition", [1e6; 3]),
    ("fieldTermMatch(title,1).occurrences", [1.0; 3]),
    ("fieldTermMatch(title,1).weight", [0.0; 3]),
    ("fieldInfo(title).hit", [1.0, 0.0, 1.0]),
    ("fieldInfo(title).first", [1e6; 3]),
    ("fieldInfo(title).cnt", [0.0; 3]),
    ("textSimilarity(title)", [0.0; 3]),
    ("elementSimilarity(title)", [0.0; 3]),
    ("elementCompleteness(title).completeness", [0.0; 3]),
    ("termDistance(title,0,1).forward", [1e6; 3]),
    ("proximity(title,0,1)", [f64::MAX; 3]),
    ("queryCompleteness(title).miss", [2.0; 3]),
    ("flowCompleteness(title).flow", [0.0; 3]),
    ("termFieldMd(title).termsmatched", [2.0, 1.0, 2.0]),
    ("termFieldMd(title).occurrences", [0.0; 3]),
    ("nativeFieldMatch(title)", [0.0; 3]),
    ("nativeProximity(title)", [0.0; 3]),
    // Other fields keep theirs.
    ("fieldLength(notes)", [1.0, 1e6, 1e6]),
];

#[test]
fn a_filter_has_no_positions() {
    check_all(OF_FILTER, |profile| profile.filter_fields.push("title".to_owned()), |_| {});
    let unpositioned = |plan: &mut Plan| {
        plan.terms[..2].iter_mut().for_each(|term| term.annotations.use_position_data = false);
    };
    check_all(OF_FILTER, |_| {}, unpositioned);
}

#[test]
fn a_filter_has_no_native_score() {
    let filter = |profile: &mut RankProfile| profile.filter_fields.push("tags".to_owned());
    check_all(&[("nativeAttributeMatch(tags)", [0.0; 3])], filter, |_| {});
    check_all(&[("nativeAttributeMatch(tags) > 0", [1.0, 1.0, 0.0])], |_| {}, |_| {});
}

#[test]
fn positions_are_numbers_on_a_curve() {
    let rows = [
        ("if (isNan(attribute(place_zcurve)), -1, attribute(place_zcurve))", [2192045531136.0, -1.0, -1.0]),
        ("attribute(place_zcurve).count", [1.0; 3]),
        ("attribute(route_zcurve).count", [2.0, 0.0, 0.0]),
        ("attribute(route_zcurve,1)", [2192045531136.0, 0.0, 0.0]),
        ("reduce(tensorFromLabels(attribute(route_zcurve),r),count)", [2.0, 0.0, 0.0]),
        ("tensorFromLabels(attribute(place_zcurve),r){r:2192045531136}", [1.0, 0.0, 0.0]),
    ];
    check_all(&rows, |_| {}, |_| {});
    let refused = scores_of(profile("attribute(place)"), |_| {}).expect_err("a position is not a number");
    assert!(refused.contains("use attribute(place_zcurve)"), "{refused}");
}

#[test]
fn tensors_are_made_of_properties_of_the_request() {
    let rows = [
        ("sum(tensorFromLabels(query(labels),t))", [2.0; 3]),
        ("tensorFromLabels(query(labels),t){t:b}", [1.0; 3]),
        ("sum(tensorFromWeightedSet(query(cells)))", [5.0; 3]),
        ("tensorFromWeightedSet(query(cells),t){t:b}", [3.0; 3]),
        ("sum(tensorFromWeightedSet(query(nothing),t))", [0.0; 3]),
    ];
    check_all(&rows, |_| {}, |_| {});
}
