use millrace_expression::FeatureName;
use millrace_schema::did_you_mean;

use super::{
    FeatureSetup, RankFeature, attribute, bm25, bm25_tensors, closest, comparison, distance,
    distance_to_path, edit_distance, field_info, flow, lengths, multivalue, native, phases, query, random,
    segments, similarity, subqueries, tensor_from, terms, time, whole,
};
use crate::Error;

/// A rank feature as documented.
#[derive(Debug)]
pub struct FeatureInfo {
    /// The name before the parentheses.
    pub name: &'static str,
    /// The feature's syntax, with its outputs.
    pub usage: &'static str,
    /// Description.
    pub doc: &'static str,
    pub(crate) setup: SetupFunction,
}

pub(crate) type SetupFunction = fn(&FeatureSetup<'_>, &FeatureName) -> Result<Box<dyn RankFeature>, Error>;

/// Table rows: name, usage, description, setup.
macro_rules! features {
    ($($name:literal, $usage:literal, $doc:literal, $setup:expr;)*) => {
        &[$(FeatureInfo { name: $name, usage: $usage, doc: $doc, setup: $setup }),*]
    };
}

/// All rank features by name. Not listed are the features that are part of compiling an expression:
/// `constant`, `firstPhase`, `secondPhase`, `relevanceScore`, `foreach`, `rankingExpression`, those of models
/// (`xgboost`, `lightgbm`, `onnx`), those of tokens (`tokenInputIds`, …) and those of `derived`.
#[rustfmt::skip]
pub static FEATURES: &[FeatureInfo] = features! {
    "age", "age(field)", "Seconds since the time in a field.", time::age;
    "attribute", "attribute(field), attribute(field,n), attribute(field,key).weight|contains, attribute(field).count",
        "The value of a field: a number, a tensor, the hash of a string; NaN where there is none.", attribute::setup;
    "attributeMatch", "attributeMatch(field).completeness|queryCompleteness|fieldCompleteness|normalizedWeight|normalizedWeightedWeight|weight|significance|importance|matches|totalWeight|averageWeight|maxWeight",
        "How well the query's terms match an attribute.", terms::attribute_match;
    "averageFieldLength", "averageFieldLength(field)", "Words of the group's average document in a field.", bm25::average_field_length;
    "bm25", "bm25(field), bm25(field:name,label:label)", "The BM25 score of the query's words in a text field, with the statistics of the group.", bm25::setup;
    "bm25_for_labels", "bm25_for_labels(field)", "For each label of the query the BM25 score of its words in a text field.", bm25_tensors::for_labels;
    "closeness", "closeness(field), closeness(field,name), closeness(label,name), closeness(position).logscale",
        "1 for the query's vector or place itself, towards 0 far from it; the dot product where that is the metric.", distance::closeness;
    "closest", "closest(field), closest(field,label)", "The labels of the document's vector that is nearest to the query's.", closest::setup;
    "distance", "distance(field), distance(field,name), distance(label,name), distance(position).km|index|latitude|longitude", "The distance to the query's vector or place.", distance::distance;
    "distanceToPath", "distanceToPath(field).distance|traveled|product", "How far a position is from the path in the property distanceToPath(field).path.", distance_to_path::setup;
    "dotProduct", "dotProduct(field,vector)", "The dot product of an array or weighted set with the vector in the property dotProduct.vector.", multivalue::dot_product;
    "elementCompleteness", "elementCompleteness(field).completeness|fieldCompleteness|queryCompleteness|elementWeight",
        "How much of the query and of the best element match each other.", similarity::completeness;
    "elementSimilarity", "elementSimilarity(field), elementSimilarity(field).name", "How alike the query and the most similar element are, or what the property output.name makes of all that match.", similarity::element;
    "elementwise", "elementwise(bm25(field),dimension,cell_type)", "For each element of a text field its BM25 score.", bm25_tensors::elementwise;
    "euclideanDistance", "euclideanDistance(field,vector)", "The distance of an array of numbers from the vector in the property euclideanDistance.vector.", multivalue::euclidean_distance;
    "fieldInfo", "fieldInfo(field).type|filter|search|hit|len|first|last|cnt, fieldInfo.indexCnt|attrCnt",
        "A field's kind (1 index, 2 attribute), and what the query's first term finds in it: 1 if it searches the field, 1 if it matches, the words of the field, the first and the last position, their number; the number of fields of a kind.", field_info::setup;
    "fieldLength", "fieldLength(field)", "The words in a field, or in the longest element, that some term matches, else 1000000.", lengths::field_length;
    "fieldMatch", "fieldMatch(field), fieldMatch(field).proximity|completeness|queryCompleteness|fieldCompleteness|orderness|relatedness|earliness|longestSequenceRatio|segmentProximity|unweightedProximity|absoluteProximity|occurrence|absoluteOccurrence|weightedOccurrence|weightedAbsoluteOccurrence|significantOccurrence|weight|significance|importance|segments|matches|outOfOrder|gaps|gapLength|longestSequence|head|tail|segmentDistance|degradedMatches",
        "How well a field matches the query as text: what is found, how near together, in which order.", segments::setup;
    "fieldTermMatch", "fieldTermMatch(field,n).firstPosition|lastPosition|occurrences|weight|exactness", "Where and how often term n occurs in a field, with which weights in sum, and 1 where it occurs.", terms::field_term_match;
    "firstPhaseMax", "firstPhaseMax", "The highest score of the first phase.", phases::max;
    "firstPhaseRank", "firstPhaseRank", "The place of the document in the first phase, from 1.", phases::rank;
    "flowCompleteness", "flowCompleteness(field).completeness|fieldCompleteness|queryCompleteness|elementWeight|weight|flow",
        "How much of the query and of the best element match each other, where each word counts for one term.", flow::setup;
    "freshness", "freshness(field), freshness(field).logscale", "1 for the present, falling to 0 at the property maxAge.", time::freshness;
    "globalSequence", "globalSequence", "A number for each document, made of its id: the same for every query, and another one for another document.", random::sequence;
    "great_circle_distance", "great_circle_distance(field), great_circle_distance(field).km|latitude|longitude", "The kilometres to the query's place along the earth's surface, and the nearest position.", distance::great_circle;
    "itemRawScore", "itemRawScore(label)", "The raw score of the query item with a label.", distance::item_raw_score;
    "jaroWinklerDistance", "jaroWinklerDistance(field)", "The distance of Jaro and Winkler between the query's terms and the words of a field.", comparison::jaro_winkler;
    "match", "match, match.totalWeight, match.weight.field", "How well the fields that the query searches match it, each by its weight in the schema.", whole::setup;
    "matchCount", "matchCount(field)", "How many times terms match a field.", terms::match_count;
    "matches", "matches(field), matches(field,n)", "1 where a term, or term n, matches a field.", terms::matches;
    "nativeAttributeMatch", "nativeAttributeMatch, nativeAttributeMatch(field,…)", "How well terms match attributes.", native::attribute_match;
    "nativeDotProduct", "nativeDotProduct, nativeDotProduct(field)", "Weights of terms times weights of what they match.", native::dot_product;
    "nativeFieldMatch", "nativeFieldMatch, nativeFieldMatch(field,…)", "How often and how early terms occur in text.", native::field_match;
    "nativeProximity", "nativeProximity, nativeProximity(field,…)", "How near each other terms occur in text.", native::proximity;
    "nativeRank", "nativeRank, nativeRank(field,…)", "nativeFieldMatch, nativeProximity and nativeAttributeMatch in one.", native::rank;
    "now", "now", "The time of the query in seconds since 1970.", query::now;
    "num_docs_indexed", "num_docs_indexed", "How many documents the statistics of words are counted over.", query::document_count;
    "proximity", "proximity(field,a,b).out|posA|posB", "The least distance from term a to a later term b in one element, and where they are.", comparison::proximity;
    "query", "query(name)", "A value sent with the query.", query::setup;
    "queryCompleteness", "queryCompleteness(field,begin,end).hit|miss", "How many terms match a field, or do not, from one position to another; everywhere without positions.", comparison::query_completeness;
    "queryTermCount", "queryTermCount", "How many terms the query has.", query::query_term_count;
    "queryTermDocumentFrequency", "queryTermDocumentFrequency(field)", "For each term that searches a field how many documents of the group have it.", bm25_tensors::document_frequency;
    "random", "random, random(name), random.match", "A number from 0 to 1, drawn for each document; with match the same for every query. random(x[n],…) is a tensor of such numbers.", random::setup;
    "randomNormal", "randomNormal(mean,stddev)", "A number drawn for each document, spread as a bell around the mean.", random::normal;
    "randomNormalStable", "randomNormalStable(mean,stddev)", "As randomNormal, the same for every query.", random::normal_stable;
    "rawScore", "rawScore(field)", "The sum of the raw scores of the operators on a field.", distance::raw_score;
    "reverseProximity", "reverseProximity(field,a,b).out|posA|posB", "The least distance from term b to a later term a in one element, and where they are.", comparison::reverse_proximity;
    "subqueries", "subqueries(field).lsb|msb", "The subqueries of the query that a predicate field matches, as the number of their bits: 0 to 31 (lsb), 32 to 63 (msb).", subqueries::setup;
    "tensorFromLabels", "tensorFromLabels(attribute(field),dimension), tensorFromLabels(query(name),dimension)", "A cell of 1 for each value of a field, or of the list in the rank property of the query.", multivalue::from_labels;
    "tensorFromLabelsWithOffset", "tensorFromLabelsWithOffset(attribute(field),label-dimension,offset-dimension)", "A cell of 1 for each value of an array and its place.", tensor_from::labels_with_offset;
    "tensorFromStructs", "tensorFromStructs(attribute(field),key,…,value,type)", "A cell for each struct of an array: its keys are labels, its value is the cell. The type is double, float, bfloat16 or int8.", tensor_from::structs;
    "tensorFromWeightedSet", "tensorFromWeightedSet(attribute(field),dimension), tensorFromWeightedSet(query(name),dimension)", "A cell for each value of a weighted set, or of the set in the rank property of the query.", multivalue::from_weighted_set;
    "term", "term(n).significance|weight|connectedness", "What is known of term n of the query.", query::term;
    "termDistance", "termDistance(field,x,y).forward|forwardTermPosition|reverse|reverseTermPosition", "How near two terms are in a field.", terms::term_distance;
    "termEditDistance", "termEditDistance(field).out|del|ins|sub", "The cost and the numbers of the edits (deletions, insertions, substitutions) that make the words of a field of the query's terms.", edit_distance::setup;
    "termFieldMd", "termFieldMd(field).score|terms|match|termsmatched|firstweight|occurrences|maxTermWeight",
        "Sums over the terms that match a field: the weights of their matches, their number, their occurrences.", comparison::term_field;
    "termInfo", "termInfo(n).queryidx", "The number of a term, or -1 where the query has fewer terms.", comparison::term_info;
    "textSimilarity", "textSimilarity(field), textSimilarity(field).proximity|order|queryCoverage|fieldCoverage", "How alike the query and a field are.", similarity::text;
    "value", "value(x), value(x,…).n", "The number itself, or the one at place n, from 0.", query::value;
};

/// Names of the outputs that features have without naming one; any other feature has `out`.
const FIRST_OUTPUTS: &[(&str, &str)] = &[
    ("attribute", "value"),
    ("attributeMatch", "completeness"),
    ("bm25", "score"),
    ("bm25_for_labels", "score"),
    ("distanceToPath", "distance"),
    ("dotProduct", "scalar"),
    ("elementCompleteness", "completeness"),
    ("elementSimilarity", "default"),
    ("elementwise", "score"),
    ("euclideanDistance", "distance"),
    ("fieldInfo", "type"),
    ("fieldMatch", "score"),
    ("fieldTermMatch", "firstPosition"),
    ("firstPhaseMax", "score"),
    ("firstPhaseRank", "score"),
    ("flowCompleteness", "completeness"),
    ("great_circle_distance", "km"),
    ("match", "score"),
    ("nativeAttributeMatch", "score"),
    ("nativeFieldMatch", "score"),
    ("nativeProximity", "score"),
    ("nativeRank", "score"),
    ("queryCompleteness", "hit"),
    ("subqueries", "lsb"),
    ("tensorFromLabels", "tensor"),
    ("tensorFromLabelsWithOffset", "tensor"),
    ("tensorFromStructs", "tensor"),
    ("tensorFromWeightedSet", "tensor"),
    ("term", "connectedness"),
    ("termDistance", "forward"),
    ("termFieldMd", "score"),
    ("termInfo", "queryidx"),
    ("textSimilarity", "score"),
    ("value", "0"),
];

/// Features whose setup takes the name of the first output.
const NAMED_OUTPUTS: &[&str] =
    &["distanceToPath", "elementCompleteness", "fieldTermMatch", "subqueries", "term", "termDistance"];

/// Features of the global phase, which are not in the table.
const OF_GLOBAL_PHASE: [&str; 3] = ["normalize_linear", "reciprocal_rank", "reciprocal_rank_fusion"];

/// Hint at the feature, the function or the constant that may be meant. Any name is like one or two letters.
fn hint(setup: &FeatureSetup<'_>, name: &FeatureName) -> String {
    if name.name.len() <= 2 {
        return String::new();
    }
    let mut known: Vec<&str> = FEATURES.iter().map(|info| info.name).collect();
    known.extend(OF_GLOBAL_PHASE);
    known.extend(setup.profile.functions.keys().map(String::as_str));
    known.extend(setup.profile.constants.keys().map(String::as_str));
    did_you_mean(&name.name, known)
}

/// Sets a feature up. Its first output may be named or not.
pub(crate) fn set_up(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let Some(info) = FEATURES.iter().find(|info| info.name == name.name) else {
        return Err(Error::setup(format!(
            "no rank feature, function or constant '{name}'{}",
            hint(setup, name)
        )));
    };
    let first =
        FIRST_OUTPUTS.iter().find(|(feature, _)| *feature == info.name).map_or("out", |(_, out)| *out);
    let is_first = name.output.as_deref().is_none_or(|output| output == first);
    if is_first {
        let output = NAMED_OUTPUTS.contains(&info.name).then(|| first.to_owned());
        return (info.setup)(setup, &FeatureName { output, ..name.clone() });
    }
    if let Some(output) = &name.output
        && !info.usage.contains('.')
    {
        return Err(Error::setup(format!(
            "{name}: {} has no output '{output}'; write {}",
            info.name, info.usage
        )));
    }
    (info.setup)(setup, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_told() {
        let names: Vec<&str> = FEATURES.iter().map(|info| info.name).collect();
        assert!(names.is_sorted());
        assert!(FEATURES.iter().all(|info| info.usage.starts_with(info.name) && info.doc.ends_with('.')));
    }
}
