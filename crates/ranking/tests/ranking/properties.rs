//! Rank properties of features: each name that Vespa's features look up changes the value of a feature.

use std::collections::BTreeMap;

use millrace_document::DocumentValue;
use millrace_fixtures::Fields;
use millrace_plan::{LeafId, Plan, PlanLeaf, PlanNode, Predicate};
use millrace_ranking::CompiledProfile;
use millrace_schema::Application;

use crate::support::{documents, matches, plan, profile, schema, view};

/// A feature, a property, a value that is not its default, and a property that is set in any case.
const PROPERTIES: &[(&str, &str, &str, &str)] = &[
    ("attributeMatch(tags)", "attributeMatch(tags).fieldCompletenessImportance", "0.9", ""),
    ("attributeMatch(tags).normalizedWeight", "attributeMatch(tags).maxWeight", "20", ""),
    ("bm25(title)", "bm25(title).averageFieldLength", "100", ""),
    ("bm25(title)", "bm25(title).b", "0.1", ""),
    ("bm25(title)", "bm25(title).k1", "2", ""),
    ("closeness(place)", "closeness(place).maxDistance", "1000000", ""),
    ("closeness(place).logscale", "closeness(place).halfResponse", "100000", ""),
    (
        "elementCompleteness(title).completeness",
        "elementCompleteness(title).fieldCompletenessImportance",
        "1",
        "",
    ),
    ("fieldMatch(title)", "fieldMatch(title).earlinessImportance", "0.5", ""),
    ("fieldMatch(title)", "fieldMatch(title).fieldCompletenessImportance", "0.9", ""),
    ("fieldMatch(title)", "fieldMatch(title).occurrenceImportance", "0.5", ""),
    ("fieldMatch(title)", "fieldMatch(title).proximityCompletenessImportance", "0.1", ""),
    ("fieldMatch(title)", "fieldMatch(title).relatednessImportance", "0.1", ""),
    ("fieldMatch(title)", "fieldMatch(title).segmentProximityImportance", "0.5", ""),
    ("fieldMatch(title).absoluteOccurrence", "fieldMatch(title).maxOccurrences", "1", ""),
    ("fieldMatch(title).segments", "fieldMatch(title).proximityLimit", "20", ""),
    ("flowCompleteness(title)", "flowCompleteness(title).fieldCompletenessImportance", "1", ""),
    ("foreach(terms,N,matches(title,N),true,count)", "foreach.maxTerms", "2", ""),
    ("freshness(sent)", "freshness(sent).maxAge", "200", ""),
    ("freshness(sent).logscale", "freshness(sent).halfResponse", "10", ""),
    ("jaroWinklerDistance(title)", "jaroWinklerDistance(title).boostThreshold", "0.5", ""),
    (
        "jaroWinklerDistance(title)",
        "jaroWinklerDistance(title).prefixSize",
        "1",
        "jaroWinklerDistance(title).boostThreshold: 0.5",
    ),
    ("nativeAttributeMatch", "nativeAttributeMatch.weightTable", "linear(1,1)", ""),
    ("nativeFieldMatch", "nativeFieldMatch.averageFieldLength.title", "100", ""),
    ("nativeFieldMatch", "nativeFieldMatch.firstOccurrenceImportance", "0.9", ""),
    ("nativeFieldMatch", "nativeFieldMatch.firstOccurrenceTable", "linear(1,5)", ""),
    ("nativeFieldMatch", "nativeFieldMatch.minFieldLength", "60", ""),
    ("nativeFieldMatch", "nativeFieldMatch.occurrenceCountTable.title", "linear(1,5)", ""),
    ("nativeProximity", "nativeProximity.proximityImportance", "0.9", ""),
    ("nativeProximity", "nativeProximity.proximityTable", "linear(1,1)", ""),
    ("nativeProximity", "nativeProximity.reverseProximityTable", "linear(1,1)", ""),
    ("nativeProximity", "nativeProximity.slidingWindowSize", "1", ""),
    ("nativeRank", "nativeRank.attributeMatchWeight", "0", ""),
    ("nativeRank", "nativeRank.fieldMatchWeight", "0", ""),
    ("nativeRank", "nativeRank.proximityWeight", "1000", ""),
    ("nativeRank", "nativeRank.useTableNormalization", "false", ""),
    ("termEditDistance(title)", "termEditDistance(title).costDel", "2", ""),
    ("termEditDistance(title)", "termEditDistance(title).costSub", "5", ""),
    ("termEditDistance(title)", "termEditDistance(title).costIns", "2", "termEditDistance(title).costSub: 5"),
];

/// The documents, and one with both words of the query too far apart for one segment.
fn with_a_long_title() -> Vec<Fields> {
    let title = "red one two three four five six seven eight nine ten eleven twelve fox";
    let mut all = documents();
    all.push(Fields::from([("title", DocumentValue::String(title.to_owned()))]));
    all
}

/// Adds a place, half a degree from that of the first document.
fn placed(mut plan: Plan) -> Plan {
    let predicate = Predicate::GeoCircle { latitude: 1.0, longitude: 2.5, radius_km: None };
    plan.leaves.push(PlanLeaf { field: "place".into(), predicate, term: None, dot_product_above: None });
    let place = PlanNode::Leaf(LeafId(plan.leaves.len() - 1));
    plan.root = PlanNode::Rank(Box::new(plan.root), vec![place]);
    plan
}

fn scores(feature: &str, properties: &[(&str, &str)]) -> Vec<f64> {
    let mut profile = profile(feature);
    profile.properties.extend(properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    let schema = schema([profile]);
    let compiled = CompiledProfile::compile(&schema, "default")
        .unwrap_or_else(|error| panic!("{feature} {properties:?}: {error}"));
    let view = view(&schema, &with_a_long_title());
    let plan = if feature.starts_with("closeness") { placed(plan(schema)) } else { plan(schema) };
    let matches = matches(&plan, &view, &compiled);
    let first = compiled.first_phase(&plan, &view, &matches, &|| false).expect("columns can be read");
    first.scores.concat()
}

#[test]
fn each_property_changes_its_feature() {
    let mut wrong = Vec::new();
    for (feature, property, value, given) in PROPERTIES {
        let given: Vec<(&str, &str)> = given.split_once(": ").into_iter().collect();
        let without = scores(feature, &given);
        let with = scores(feature, &[given, vec![(*property, *value)]].concat());
        let same = with.iter().zip(&without).all(|(a, b)| a == b || (a - b).abs() < 1e-9);
        if same || with.len() != 4 {
            wrong.push(format!("{property}: {value}: {feature} is {with:?}, and was {without:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_property_is_known_at_deployment() {
    let lines: Vec<String> =
        PROPERTIES.iter().map(|(_, property, value, _)| format!("{property}: {value}\n")).collect();
    let schema = format!(
        "schema x {{ document x {{ }}\nrank-profile p {{ rank-properties {{\n{}}} }} }}",
        lines.concat()
    );
    let services = "<services><container id='c'><search/></container><content id='c'><documents>\
                    <document type='x' mode='streaming'/></documents></content></services>";
    let files = [("services.xml", services), ("schemas/x.sd", schema.as_str())];
    let files = files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    let application = Application::from_files(BTreeMap::from(files)).expect("a package");
    let mut warnings = application.warnings.iter();
    assert_eq!(warnings.find(|warning| warning.contains("rank property")), None);
}

/// A logarithm falls to a half before the middle of its range, as in Vespa: by default at 49 seconds of 100.
#[test]
fn a_half_response_is_below_the_middle() {
    let check = |properties: &[(&str, &str)], expected: f64| {
        let found = scores("freshness(sent).logscale", properties)[0];
        assert!((found - expected).abs() < 1e-9, "{properties:?}: {found}, not {expected}");
    };
    let expected = |max: f64, half: f64| {
        let scale = half * half / (max - 2.0 * half);
        ((max + scale).ln() - (10.0 + scale).ln()) / ((max + scale).ln() - scale.ln())
    };
    check(&[], expected(100.0, 49.0));
    check(&[("freshness(sent).halfResponse", "50")], expected(100.0, 49.0));
    check(&[("freshness(sent).halfResponse", "20")], expected(100.0, 20.0));
    check(&[("freshness(sent).halfResponse", "0")], expected(100.0, 1.0));
    check(&[("freshness(sent).maxAge", "0")], 0.0);
}
