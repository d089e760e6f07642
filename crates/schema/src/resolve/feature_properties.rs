//! Rank properties of features, by the names that the features read: any other name is a slip.

use crate::suggest::did_you_mean;

/// Features with the names of their properties. Features whose properties have names of the application, such
/// as `dotProduct.vector`, are not listed.
static FEATURE_PROPERTIES: &[(&str, &[&str])] = &[
    ("attributeMatch", &["fieldCompletenessImportance", "maxWeight"]),
    ("bm25", &["averageFieldLength", "b", "k1"]),
    ("closeness", &["halfResponse", "maxDistance"]),
    ("elementCompleteness", &["fieldCompletenessImportance"]),
    ("elementSimilarity", &["output"]),
    ("elementwise", &["averageElementLength", "b", "k1"]),
    (
        "fieldMatch",
        &[
            "earlinessImportance",
            "fieldCompletenessImportance",
            "maxAlternativeSegmentations",
            "maxOccurrences",
            "occurrenceImportance",
            "proximityCompletenessImportance",
            "proximityLimit",
            "proximityTable",
            "relatednessImportance",
            "segmentProximityImportance",
        ],
    ),
    ("fieldTermMatch", &["numTerms"]),
    ("flowCompleteness", &["fieldCompletenessImportance"]),
    ("foreach", &["maxTerms"]),
    ("freshness", &["halfResponse", "maxAge"]),
    ("jaroWinklerDistance", &["boostThreshold", "prefixSize"]),
    ("nativeAttributeMatch", &["weightTable"]),
    (
        "nativeFieldMatch",
        &[
            "averageFieldLength",
            "firstOccurrenceImportance",
            "firstOccurrenceTable",
            "minFieldLength",
            "occurrenceCountTable",
        ],
    ),
    (
        "nativeProximity",
        &[
            "elementGap",
            "proximityImportance",
            "proximityTable",
            "reverseProximityTable",
            "slidingWindowSize",
        ],
    ),
    ("nativeRank", &["attributeMatchWeight", "fieldMatchWeight", "proximityWeight", "useTableNormalization"]),
    ("random", &["match", "seed"]),
    ("randomNormal", &["seed"]),
    ("randomNormalStable", &["seed"]),
    ("term", &["numTerms"]),
    ("termEditDistance", &["costDel", "costIns", "costSub"]),
];

/// Tells that a feature has no property of the name in `key`, with a similar one; `None` for all others.
pub(super) fn unknown_feature_property(key: &str) -> Option<String> {
    let (feature, rest) = key.split_at(key.find(['(', '.'])?);
    let (_, known) = FEATURE_PROPERTIES.iter().find(|(name, _)| *name == feature)?;
    // `feature(parameters).name`, `feature.name` or `feature.name.parameter`; parameters can be features.
    let (_, after) = if rest.starts_with('(') { rest.rsplit_once(").")? } else { rest.split_once('.')? };
    let name = after.split('.').next().unwrap_or_default();
    if known.contains(&name) {
        return None;
    }
    Some(format!("{feature} has no property '{name}'{}", did_you_mean(name, known.iter().copied())))
}
