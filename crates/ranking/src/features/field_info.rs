//! `fieldInfo`: properties of a field, and the matches of the query's first term in it.

use millrace_expression::FeatureName;
use millrace_matching::{LeafMatches, RankingDemands};
use millrace_plan::{LeafId, TermId};

use super::comparison::output;
use super::lengths::ElementBoundaries;
use super::term::{TermPositions, count, leaves_by_term, positioned_terms_of, terms_of};
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, PerRequest,
    RankFeature, terms,
};
use crate::Error;

/// Output about the first term.
#[derive(Debug, Clone, Copy, PartialEq)]
enum FieldInfoOutput {
    Type,
    Filter,
    Searched,
    Hit,
    Length,
    First,
    Last,
    Count,
}

struct FieldInfo {
    field: String,
    /// Division of the field into elements; `None` for an attribute, whose length is unknown.
    shape: Option<ElementBoundaries>,
    output: FieldInfoOutput,
}

/// `fieldInfo.indexCnt`, `fieldInfo.attrCnt`, `fieldInfo(field).type` and the other outputs of a field.
pub(crate) fn setup(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    if name.parameters.is_empty() {
        let counts_index = output(name, &[("indexCnt", true), ("attrCnt", false)])?;
        let fields = setup.schema.fields.values();
        let counted = fields.filter(|field| match &field.index {
            Some(_) => counts_index,
            None => !counts_index && field.attribute.is_some(),
        });
        let counted = counted.count() as f64;
        return Ok(Box::new(PerRequest(move |_: &FeatureRequest<'_>| counted)));
    }
    let outputs = [
        ("type", FieldInfoOutput::Type),
        ("filter", FieldInfoOutput::Filter),
        ("search", FieldInfoOutput::Searched),
        ("hit", FieldInfoOutput::Hit),
        ("len", FieldInfoOutput::Length),
        ("first", FieldInfoOutput::First),
        ("last", FieldInfoOutput::Last),
        ("cnt", FieldInfoOutput::Count),
    ];
    let output = output(name, &outputs)?;
    let field = setup.searchable_field(name, 0)?;
    let is_worded = field.is_text() || field.is_value_word();
    let fixed = match output {
        FieldInfoOutput::Type if field.index.is_some() => Some(1.0),
        FieldInfoOutput::Type => Some(if field.attribute.is_some() { 2.0 } else { 0.0 }),
        FieldInfoOutput::Filter => Some(f64::from(u8::from(setup.is_filter(field)))),
        _ => None,
    };
    if let Some(number) = fixed {
        return Ok(Box::new(PerRequest(move |_: &FeatureRequest<'_>| number)));
    }
    let shape = is_worded.then(|| ElementBoundaries::of(field));
    Ok(Box::new(FieldInfo { field: field.name.to_string(), shape, output }))
}

impl RankFeature for FieldInfo {
    fn demands(&self) -> RankingDemands {
        match self.output {
            FieldInfoOutput::Type
            | FieldInfoOutput::Filter
            | FieldInfoOutput::Searched
            | FieldInfoOutput::Hit => RankingDemands::LEAVES,
            FieldInfoOutput::Length
            | FieldInfoOutput::First
            | FieldInfoOutput::Last
            | FieldInfoOutput::Count => {
                RankingDemands { counts: true, positions: true, ..RankingDemands::LEAVES }
            }
        }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let found = leaves_by_term(&terms_of(request.plan, &self.field));
        let has_positions =
            positioned_terms_of(request, &self.field).iter().any(|found| found.term == TermId(0));
        let first = found.into_iter().find(|(term, _)| *term == TermId(0));
        let leaves: Option<[Vec<LeafId>; 1]> = first.map(|(_, leaves)| [leaves]);
        let shape = self.shape.map(|shape| shape.bind(&self.field, request));
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let missing = match self.output {
                FieldInfoOutput::Searched => f64::from(u8::from(leaves.is_some())),
                FieldInfoOutput::Length | FieldInfoOutput::First | FieldInfoOutput::Last => terms::FAR,
                _ => 0.0,
            };
            let out = values.numbers(chunk.len(), missing);
            let Some(leaves) = &leaves else { return };
            let found: Vec<&LeafMatches> = leaves[0].iter().map(|leaf| chunk.matches.leaf(*leaf)).collect();
            let mut positions = TermPositions::of(chunk.matches, leaves);
            for (document, place) in chunk.documents() {
                let here = positions.next().first().map_or(&[][..], Vec::as_slice);
                let times = found.iter().map(|found| count(found, document)).max().unwrap_or(0);
                if times == 0 {
                    continue;
                }
                if !has_positions && self.output != FieldInfoOutput::Hit {
                    continue;
                }
                let at = |position: Option<&u32>| position.map_or(0.0, |position| f64::from(*position));
                out[document] = match self.output {
                    FieldInfoOutput::Hit => 1.0,
                    // A match without positions counts as one at the beginning.
                    FieldInfoOutput::Count => f64::from(times).max(here.len() as f64),
                    FieldInfoOutput::First => at(here.first()),
                    FieldInfoOutput::Last => at(here.last()),
                    FieldInfoOutput::Length => match shape {
                        Some(shape) => f64::from(shape.elements(chunk, place).longest(here.iter().copied())),
                        None => terms::FAR,
                    },
                    FieldInfoOutput::Type | FieldInfoOutput::Filter | FieldInfoOutput::Searched => continue,
                };
            }
        }))
    }
}
