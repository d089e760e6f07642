//! nativeRank and its parts, except proximity.

use millrace_document::DataType;
use millrace_expression::FeatureName;
use millrace_matching::RankingDemands;
use millrace_plan::LeafId;
use millrace_schema::SchemaField;

use super::boost::{BoostTable, of_rank_type};
use super::lengths::{BoundWords, FieldWords, WeightedWords};
use super::proximity::NativeProximity;
use super::term::{
    LeafPositions, each_match, is_positioned, match_weight, positioned_terms_of, significance, terms_of,
    weight,
};
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// Default of the minimum length of a field, in words: shorter ones count as if they had it.
const LENGTH_MIN: f64 = 6.0;

/// The fields of a native feature: those named, or all fields of the kind.
pub(crate) fn fields<'s>(
    setup: &'s FeatureSetup<'_>,
    name: &FeatureName,
    is_kind: impl Fn(&SchemaField) -> bool,
) -> Result<Vec<&'s SchemaField>, Error> {
    // A text that is used only for filtering contributes only the fact that it matches.
    let counts = |field: &SchemaField| is_kind(field) && !(is_index(field) && setup.is_filter(field));
    if name.parameters.is_empty() {
        let all = setup.schema.fields.values().flat_map(SchemaField::with_parts);
        return Ok(all.filter(|field| counts(field)).collect());
    }
    let named: Result<Vec<&SchemaField>, Error> =
        (0..name.parameters.len()).map(|at| setup.searchable_field(name, at)).collect();
    Ok(named?.into_iter().filter(|field| counts(field)).collect())
}

/// True if the field has words and is not an attribute that is matched as a whole.
pub(crate) fn is_index(field: &SchemaField) -> bool {
    field.is_text() || field.is_value_word() && field.attribute.is_none()
}

/// True if values of the field are compared as wholes.
pub(crate) fn is_attribute(field: &SchemaField) -> bool {
    field.attribute.is_some() && !field.is_text() && !matches!(field.data_type, DataType::Tensor(_))
}

/// The boost table of a field, from its rank properties or its rank type.
pub(crate) fn table(
    setup: &FeatureSetup<'_>,
    feature: &str,
    field: &SchemaField,
    table: &str,
) -> Result<BoostTable, Error> {
    let profile = setup.profile;
    let rank_type = match profile.filter_fields.iter().any(|name| *name == *field.name) {
        true => "empty",
        false => {
            profile.rank_types.get(&*field.name).or(field.rank_type.as_ref()).map_or("about", String::as_str)
        }
    };
    let default = of_rank_type(rank_type, table);
    BoostTable::parse(setup.properties.text(feature, &field.name, table).unwrap_or(default))
}

/// Maximum of a table; 1 if tables are not normalized.
pub(crate) fn table_max(setup: &FeatureSetup<'_>, table: &BoostTable) -> f64 {
    let normalized = setup.properties.text("nativeRank", "", "useTableNormalization") != Some("false");
    if normalized { table.max() } else { 1.0 }
}

/// `nativeFieldMatch`
pub(crate) struct NativeFieldMatch(Vec<MatchField>);

struct MatchField {
    words: FieldWords,
    weight: f64,
    first: BoostTable,
    count: BoostTable,
    first_importance: f64,
    max: f64,
    /// Replaces the length of each document's field.
    length: Option<f64>,
    /// Minimum length of a field, in words: shorter ones count as if they had it.
    length_min: f64,
}

impl NativeFieldMatch {
    fn new(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Self, Error> {
        const FEATURE: &str = "nativeFieldMatch";
        let fields = fields(setup, name, is_index)?;
        // A field of one word would have no last word beside its first one.
        let length_min = setup.properties.number(FEATURE, "", "minFieldLength", LENGTH_MIN)?.max(2.0);
        let of = |field: &SchemaField| {
            let first = table(setup, FEATURE, field, "firstOccurrenceTable")?;
            let count = table(setup, FEATURE, field, "occurrenceCountTable")?;
            let importance =
                setup.properties.number(FEATURE, &field.name, "firstOccurrenceImportance", 0.5)?;
            let length = setup.properties.number(FEATURE, &field.name, "averageFieldLength", 0.0)?;
            Ok(MatchField {
                words: FieldWords::of(setup, field),
                weight: setup.weight(field),
                max: importance * table_max(setup, &first) + (1.0 - importance) * table_max(setup, &count),
                first,
                count,
                first_importance: importance,
                length: (length > 0.0).then_some(length),
                length_min,
            })
        };
        Ok(NativeFieldMatch(fields.into_iter().map(of).collect::<Result<_, Error>>()?))
    }
}

impl MatchField {
    /// Maps the last word of a field to the end of the table of first occurrences, and a count equal to the
    /// number of words to the end of the table of occurrences.
    fn boost(&self, first: u32, count: u32, length: f64) -> f64 {
        let place = |number: u32, of: f64, table: &BoostTable| {
            (f64::from(number) * (table.len() - 1) as f64 / of) as usize
        };
        let length = length.max(self.length_min);
        self.first_importance * self.first.at(place(first, length - 1.0, &self.first))
            + (1.0 - self.first_importance) * self.count.at(place(count, length, &self.count))
    }
}

/// A field with the terms that search it and their weights.
struct SearchedField<'q> {
    field: &'q MatchField,
    terms: Vec<(LeafId, f64)>,
    words: BoundWords<'q>,
}

impl RankFeature for NativeFieldMatch {
    fn demands(&self) -> RankingDemands {
        RankingDemands { leaves: true, counts: true, positions: true, statistics: true }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let mut divisor = 0.0;
        let mut searched = Vec::new();
        for field in &self.0 {
            let mut terms = Vec::new();
            for found in positioned_terms_of(request, field.words.name()) {
                let importance = significance(request.plan, request.matches, found.term)
                    * weight(request.plan, found.term)
                    * field.weight;
                divisor += importance * field.max;
                terms.push((found.leaf, importance));
            }
            if !terms.is_empty() {
                searched.push(SearchedField { field, terms, words: field.words.bind(request) });
            }
        }
        let mut lengths = Vec::new();
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 0.0);
            for SearchedField { field, terms, words } in &searched {
                words.lengths(chunk, &mut lengths);
                if let Some(length) = field.length {
                    lengths.fill(length);
                }
                for (leaf, importance) in terms {
                    each_match(chunk.matches.leaf(*leaf), |document, count, positions| {
                        let first = positions.first().copied().unwrap_or_default();
                        out[document] += importance * field.boost(first, count, lengths[document]);
                    });
                }
            }
            if divisor != 0.0 {
                out.iter_mut().for_each(|score| *score /= divisor);
            }
        }))
    }
}

/// `nativeAttributeMatch`
pub(crate) struct NativeAttributeMatch(Vec<AttributeField>);

struct AttributeField {
    name: String,
    weight: f64,
    table: BoostTable,
    max: f64,
}

impl NativeAttributeMatch {
    fn new(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Self, Error> {
        let fields = fields(setup, name, is_attribute)?;
        let of = |field: &SchemaField| {
            let table = table(setup, "nativeAttributeMatch", field, "weightTable")?;
            let max = table_max(setup, &table);
            Ok(AttributeField { name: field.name.to_string(), weight: setup.weight(field), table, max })
        };
        Ok(NativeAttributeMatch(fields.into_iter().map(of).collect::<Result<_, Error>>()?))
    }
}

impl RankFeature for NativeAttributeMatch {
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let mut divisor = 0.0;
        let mut searched = Vec::new();
        for field in &self.0 {
            for found in terms_of(request.plan, &field.name) {
                let importance = weight(request.plan, found.term) * field.weight;
                divisor += importance * field.max;
                searched.push((field, found.leaf, importance));
            }
        }
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 0.0);
            for (field, leaf, importance) in &searched {
                let found = chunk.matches.leaf(*leaf);
                each_match(found, |document, _, _| {
                    if let Some(weight) = match_weight(found, document) {
                        out[document] += importance * weight.signum() * field.table.at(weight.abs() as usize);
                    }
                });
            }
            if divisor != 0.0 {
                out.iter_mut().for_each(|score| *score /= divisor);
            }
        }))
    }
}

/// `nativeRank`: the weighted sum of its parts.
struct NativeRank {
    parts: [(f64, Box<dyn RankFeature>); 3],
}

impl RankFeature for NativeRank {
    fn demands(&self) -> RankingDemands {
        RankingDemands { leaves: true, counts: true, positions: true, statistics: true }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let total: f64 = self.parts.iter().map(|(weight, _)| weight).sum();
        let mut parts: Vec<_> = self
            .parts
            .iter()
            .filter(|(weight, _)| *weight != 0.0)
            .map(|(weight, part)| (weight / total, part.bind(request)))
            .collect();
        let mut part_values = FeatureValues::Number(0.0);
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 0.0);
            for (weight, part) in &mut parts {
                part.run(chunk, &mut part_values);
                if let FeatureValues::Numbers(numbers) = &part_values {
                    out.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += *weight * number);
                }
            }
        }))
    }
}

/// `nativeFieldMatch(field,…)`
pub(crate) fn field_match(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    Ok(Box::new(NativeFieldMatch::new(setup, name)?))
}

/// `nativeAttributeMatch(field,…)`
pub(crate) fn attribute_match(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    Ok(Box::new(NativeAttributeMatch::new(setup, name)?))
}

/// `nativeProximity(field,…)`
pub(crate) fn proximity(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    Ok(Box::new(NativeProximity::new(setup, name)?))
}

/// `nativeRank(field,…)`
pub(crate) fn rank(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let weight = |property, default| setup.properties.number("nativeRank", "", property, default);
    let normalized = setup.properties.text("nativeRank", "", "useTableNormalization") != Some("false");
    let proximity = weight("proximityWeight", if normalized { 25.0 } else { 100.0 })?;
    Ok(Box::new(NativeRank {
        parts: [
            (weight("fieldMatchWeight", 100.0)?, Box::new(NativeFieldMatch::new(setup, name)?)),
            (proximity, Box::new(NativeProximity::new(setup, name)?)),
            (weight("attributeMatchWeight", 100.0)?, Box::new(NativeAttributeMatch::new(setup, name)?)),
        ],
    }))
}

/// `nativeDotProduct(field)`: the weights of the query's terms times those of the document's values.
pub(crate) fn dot_product(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let field = match name.parameters.first() {
        Some(_) => Some(setup.searchable_field(name, 0)?.name.to_string()),
        None => None,
    };
    let fields =
        setup.schema.fields.values().filter(|known| field.as_ref().is_none_or(|f| **f == *known.name));
    let weighted = fields.filter_map(|known| WeightedWords::of(setup, known)).collect();
    Ok(Box::new(NativeDotProduct { field, weighted }))
}

struct NativeDotProduct {
    /// The only field; `None` for all.
    field: Option<String>,
    /// Those of the fields whose words have weights.
    weighted: Vec<WeightedWords>,
}

impl RankFeature for NativeDotProduct {
    fn demands(&self) -> RankingDemands {
        let positions = !self.weighted.is_empty();
        RankingDemands { counts: positions, positions, ..RankingDemands::LEAVES }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let plan = request.plan;
        let mut searched = Vec::new();
        for (at, leaf) in plan.leaves.iter().enumerate() {
            let Some(term) =
                leaf.term.filter(|_| self.field.as_ref().is_none_or(|field| *leaf.field == **field))
            else {
                continue;
            };
            let weighted = self.weighted.iter().find(|words| *leaf.field == *words.name());
            let weighted = weighted.filter(|_| is_positioned(request, &leaf.field, term));
            searched.push((LeafId(at), weight(plan, term), weighted.map(|words| words.bind(request))));
        }
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 0.0);
            for (leaf, weight, weights) in &searched {
                let found = chunk.matches.leaf(*leaf);
                let mut positions = LeafPositions::of(found);
                for (document, out) in out.iter_mut().enumerate() {
                    let positions = positions.next().unwrap_or_default();
                    let place = usize::from(chunk.matches.documents[document]);
                    let of_element = weights.and_then(|weights| weights.greatest(chunk, place, positions));
                    let here = of_element.or_else(|| match_weight(found, document));
                    *out += weight * here.unwrap_or_default();
                }
            }
        }))
    }
}
