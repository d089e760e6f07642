//! Matches of terms in fields: positions and counts.

use std::collections::BTreeSet;

use millrace_column::{ColumnKey, ColumnValue};
use millrace_document::DataType;
use millrace_expression::FeatureName;
use millrace_matching::{LeafMatches, RankingDemands, SingleValueReader};
use millrace_plan::{LeafId, PlanLeaf, TermId};

use super::lengths::{WeightedWords, element_weights};
use super::multivalue::SourceValues;
use super::native::is_attribute;
use super::proximity::pair_at_distance;
use super::term::{
    FieldTerm, LeafPositions, count, element_terms_of, match_weight, positioned_terms_of, significance,
    terms_of, weight,
};
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// Substitute for a position or length that does not exist.
pub(crate) const FAR: f64 = 1_000_000.0;

/// A count over the terms of a field.
struct CountedTerms {
    field: String,
    term: Option<usize>,
    of: TermCount,
    /// The field if it is a weighted set of words, whose weights are those of the elements.
    weighted: Option<WeightedWords>,
}

enum TermCount {
    Matched,
    Total,
    FirstPosition,
    LastPosition,
    Occurrences,
    Weight,
    Exactness,
}

/// The number of a term as a parameter of a feature.
pub(super) fn number(name: &FeatureName, at: usize) -> Result<usize, Error> {
    let parameter = name.parameters.get(at).and_then(|number| number.parse().ok());
    parameter.ok_or_else(|| {
        Error::setup(format!("{name} needs the number of a term, from 0, as parameter {}", at + 1))
    })
}

/// `matches(field)`, `matches(field,n)`
pub(crate) fn matches(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.searchable_field(name, 0)?.name.to_string();
    let term = if name.parameters.len() > 1 { Some(number(name, 1)?) } else { None };
    Ok(Box::new(CountedTerms { field, term, of: TermCount::Matched, weighted: None }))
}

/// `matchCount(field)`
pub(crate) fn match_count(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    Ok(Box::new(CountedTerms {
        field: setup.searchable_field(name, 0)?.name.to_string(),
        term: None,
        of: TermCount::Total,
        weighted: None,
    }))
}

/// `fieldTermMatch(field,n).firstPosition`, `.lastPosition`, `.occurrences`, `.weight`
pub(crate) fn field_term_match(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.searchable_field(name, 0)?;
    let (weighted, field) = (WeightedWords::of(setup, field), field.name.to_string());
    let of = match name.output.as_deref() {
        Some("firstPosition") => TermCount::FirstPosition,
        Some("lastPosition") => TermCount::LastPosition,
        Some("occurrences") => TermCount::Occurrences,
        Some("weight") => TermCount::Weight,
        Some("exactness") => TermCount::Exactness,
        _ => {
            return Err(Error::setup(format!(
                "{name}: fieldTermMatch has the outputs firstPosition, lastPosition, occurrences, weight and exactness"
            )));
        }
    };
    Ok(Box::new(CountedTerms { field, term: Some(number(name, 1)?), of, weighted }))
}

impl RankFeature for CountedTerms {
    fn demands(&self) -> RankingDemands {
        match self.of {
            TermCount::Matched | TermCount::Total | TermCount::Occurrences => {
                RankingDemands { counts: true, ..RankingDemands::LEAVES }
            }
            TermCount::FirstPosition | TermCount::LastPosition | TermCount::Weight | TermCount::Exactness => {
                RankingDemands { counts: true, positions: true, ..RankingDemands::LEAVES }
            }
        }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let elements = match self.of {
            TermCount::Matched => element_terms_of(request.plan, &self.field),
            _ => Vec::new(),
        };
        let terms: Vec<FieldTerm> = terms_of(request.plan, &self.field)
            .into_iter()
            .chain(elements)
            .filter(|found| self.term.is_none_or(|term| found.term == TermId(term)))
            .collect();
        let weights = self.weighted.as_ref().map(|weighted| weighted.bind(request));
        let positioned = positioned_terms_of(request, &self.field);
        let has_positions =
            |found: &FieldTerm| positioned.iter().any(|positioned| positioned.leaf == found.leaf);
        let terms: Vec<(FieldTerm, bool)> =
            terms.into_iter().map(|found| (found, has_positions(&found))).collect();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let missing = match self.of {
                TermCount::FirstPosition | TermCount::LastPosition => FAR,
                _ => 0.0,
            };
            let out = values.numbers(chunk.len(), missing);
            for (FieldTerm { leaf, .. }, has_positions) in &terms {
                let found = chunk.matches.leaf(*leaf);
                // Of many words, most are in no document of a chunk.
                if matches!(found, LeafMatches::None) {
                    continue;
                }
                let mut positions = LeafPositions::of(found);
                for (document, out) in out.iter_mut().enumerate() {
                    let (count, positions) = (count(found, document), positions.next().unwrap_or_default());
                    match self.of {
                        TermCount::Matched if count > 0 => *out = 1.0,
                        TermCount::Matched => {}
                        // A filter matches once, at no position.
                        TermCount::Total | TermCount::Occurrences if !has_positions => {
                            *out += f64::from(u8::from(count > 0));
                        }
                        _ if !has_positions => {}
                        TermCount::Total | TermCount::Occurrences => *out += f64::from(count),
                        TermCount::FirstPosition => {
                            positions.first().into_iter().for_each(|first| *out = out.min(f64::from(*first)));
                        }
                        TermCount::LastPosition => {
                            let last = positions.last().map(|last| f64::from(*last));
                            *out = last.map_or(*out, |last| if *out == FAR { last } else { out.max(last) });
                        }
                        TermCount::Weight => {
                            let place = usize::from(chunk.matches.documents[document]);
                            let weight = weights.and_then(|all| all.sum(chunk, place, positions));
                            let each =
                                || match_weight(found, document).map(|weight| weight * f64::from(count));
                            *out += weight.or_else(each).unwrap_or(0.0);
                        }
                        // Words are found in the form in which they were written, or by their stem, which
                        // counts the same.
                        TermCount::Exactness => *out = out.max(f64::from(u8::from(count > 0))),
                    }
                }
            }
        }))
    }
}

/// `termDistance(field,x,y)`
pub(crate) fn term_distance(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let (reverse, position) = match name.output.as_deref() {
        Some("forward") => (false, false),
        Some("forwardTermPosition") => (false, true),
        Some("reverse") => (true, false),
        Some("reverseTermPosition") => (true, true),
        _ => {
            return Err(Error::setup(format!(
                "{name}: termDistance has the outputs forward, forwardTermPosition, reverse, reverseTermPosition"
            )));
        }
    };
    let (x, y) = (number(name, 1)?, number(name, 2)?);
    let terms = if reverse { (y, x) } else { (x, y) };
    Ok(Box::new(TermDistance { field: setup.word_field(name, 0)?.name.to_string(), terms, position }))
}

struct TermDistance {
    field: String,
    /// The preceding term and the other one.
    terms: (usize, usize),
    /// True for the position of the first term instead of the distance.
    position: bool,
}

impl RankFeature for TermDistance {
    fn demands(&self) -> RankingDemands {
        RankingDemands { counts: true, positions: true, ..RankingDemands::LEAVES }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let terms = positioned_terms_of(request, &self.field);
        let leaf =
            |term: usize| terms.iter().find(|found| found.term == TermId(term)).map(|found| found.leaf);
        let leaves = leaf(self.terms.0).zip(leaf(self.terms.1));
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), FAR);
            let Some((a, b)) = leaves else { return };
            let (a, b) = (LeafPositions::of(chunk.matches.leaf(a)), LeafPositions::of(chunk.matches.leaf(b)));
            for (out, (a, b)) in out.iter_mut().zip(a.zip(b)) {
                if let Some((from, to)) = pair_at_distance(a, b) {
                    *out = f64::from(if self.position { from } else { to - from });
                }
            }
        }))
    }
}

/// `attributeMatch(field)`
pub(crate) fn attribute_match(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let source = SourceValues::of_parameter(setup, name, 0)?;
    let field = source.text();
    let output = name.output.clone().unwrap_or_else(|| "completeness".to_owned());
    if !ATTRIBUTE_OUTPUTS.contains(&output.as_str()) {
        return Err(Error::setup(format!(
            "{name}: attributeMatch has the outputs {}",
            ATTRIBUTE_OUTPUTS.join(", ")
        )));
    }
    let property = |property, default| setup.properties.number("attributeMatch", &field, property, default);
    Ok(Box::new(AttributeMatch {
        output,
        importance: property("fieldCompletenessImportance", 0.05)?,
        max_weight: property("maxWeight", 256.0)?,
        values: source.reader(),
        source,
        field,
    }))
}

const ATTRIBUTE_OUTPUTS: [&str; 12] = [
    "completeness",
    "queryCompleteness",
    "fieldCompleteness",
    "normalizedWeight",
    "normalizedWeightedWeight",
    "weight",
    "significance",
    "importance",
    "matches",
    "totalWeight",
    "averageWeight",
    "maxWeight",
];

struct AttributeMatch {
    /// Name of the field, or path of the part of it, as terms that search it have it.
    field: String,
    source: SourceValues,
    /// Reader of the single values of `source`.
    values: SingleValueReader,
    output: String,
    importance: f64,
    max_weight: f64,
}

/// Matches of a field's terms in one document. Weights of the field are those of a weighted set; others have
/// none.
#[derive(Default)]
struct FieldTermMatches {
    matches: f64,
    total_weight: f64,
    max_weight: f64,
    weight_of_terms: f64,
    significance_of_terms: f64,
    weighted_weight: f64,
}

impl RankFeature for AttributeMatch {
    fn demands(&self) -> RankingDemands {
        RankingDemands { counts: true, statistics: true, ..RankingDemands::LEAVES }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let (plan, matches) = (request.plan, request.matches);
        let terms: Vec<(LeafId, f64, f64)> = terms_of(plan, &self.field)
            .into_iter()
            .map(|found| (found.leaf, weight(plan, found.term), significance(plan, matches, found.term)))
            .collect();
        let all = || (0..plan.terms.len()).map(TermId);
        let all_weight: f64 = all().map(|id| weight(plan, id)).sum();
        let all_significance: f64 = all().map(|id| significance(plan, matches, id)).sum();
        let is_counted = |leaf: &&PlanLeaf| {
            *leaf.field == *self.field || plan.schema.field_or_part(&leaf.field).is_some_and(is_attribute)
        };
        let of_attributes: BTreeSet<TermId> =
            plan.leaves.iter().filter(is_counted).filter_map(|leaf| leaf.term).collect();
        let attribute_terms = of_attributes.len() as f64;
        let weight_of_attributes: f64 = of_attributes.iter().map(|id| weight(plan, *id)).sum();
        let is_weighted = matches!(self.source.data_type, DataType::WeightedSet { .. });
        let is_array = matches!(self.source.data_type, DataType::Array(_));
        let column = request.column(ColumnKey::value(&self.source.field));
        let mut sizes = Vec::new();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 0.0);
            let column = chunk.column(column);
            sizes.clear();
            sizes.resize(chunk.len(), 0.0);
            if let Some(column) = column.filter(|_| is_array && self.is_of_sizes()) {
                chunk.count_singles(&self.values, column, &mut sizes);
            }
            for (document, place) in chunk.documents() {
                let mut found = FieldTermMatches::default();
                for (leaf, weight, significance) in &terms {
                    let Some(here) = match_weight(chunk.matches.leaf(*leaf), document) else { continue };
                    let here = if is_weighted { here } else { 0.0 };
                    found.max_weight = if found.matches == 0.0 { here } else { found.max_weight.max(here) };
                    found.matches += 1.0;
                    found.total_weight += here;
                    found.weight_of_terms += weight;
                    found.significance_of_terms += significance;
                    found.weighted_weight += weight * here;
                }
                if found.matches == 0.0 {
                    continue;
                }
                let query_completeness = found.matches / terms.len() as f64;
                let field_completeness = || {
                    let set = column.filter(|_| is_weighted);
                    let set = set.and_then(|column| self.source.read(chunk, column, place));
                    self.field_completeness(&found, sizes[document], set)
                };
                let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
                out[document] = match self.output.as_str() {
                    "queryCompleteness" => query_completeness,
                    "fieldCompleteness" => field_completeness(),
                    "normalizedWeight" => {
                        share(found.total_weight, self.max_weight * attribute_terms).clamp(0.0, 1.0)
                    }
                    "normalizedWeightedWeight" => {
                        share(found.weighted_weight, weight_of_attributes * self.max_weight).clamp(0.0, 1.0)
                    }
                    "weight" => share(found.weight_of_terms, all_weight),
                    "significance" => share(found.significance_of_terms, all_significance),
                    "importance" => {
                        (share(found.weight_of_terms, all_weight)
                            + share(found.significance_of_terms, all_significance))
                            / 2.0
                    }
                    "matches" => found.matches,
                    "totalWeight" => found.total_weight,
                    "averageWeight" => found.total_weight / found.matches,
                    "maxWeight" => found.max_weight,
                    _ => {
                        query_completeness * (1.0 - self.importance + self.importance * field_completeness())
                    }
                };
            }
        }))
    }
}

impl AttributeMatch {
    /// True if the output depends on the number of values of a document.
    fn is_of_sizes(&self) -> bool {
        matches!(self.output.as_str(), "completeness" | "fieldCompleteness")
    }

    /// Share of the values that match: of an array with `size` values, or by weight of a weighted set.
    fn field_completeness(&self, found: &FieldTermMatches, size: f64, set: Option<ColumnValue<'_>>) -> f64 {
        let completeness = match (&self.source.data_type, set) {
            (DataType::Array(_), _) => found.matches / size.max(1.0),
            (_, Some(set)) => {
                let total: f64 = element_weights(&set).iter().sum();
                if total > 0.0 { found.total_weight / total } else { found.total_weight }
            }
            (_, None) => found.matches,
        };
        completeness.clamp(0.0, 1.0)
    }
}
