//! Field lengths: of the whole field, or of the matching element.

use millrace_column::{ColumnKey, ELEMENT_BOUNDARY, TokenIds, TokensColumn};
use millrace_document::DataType;
use millrace_expression::FeatureName;
use millrace_matching::RankingDemands;
use millrace_schema::SchemaField;

use super::term::{LeafPositions, count, terms_of};
use super::terms::FAR;
use super::{
    ClosureExecutor, ColumnSlot, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues,
    RankFeature,
};
use crate::Error;

/// Number of words of each matched document, over all elements.
pub(crate) fn field_lengths(chunk: &FeatureChunk<'_>, tokens: Option<&TokensColumn>, lengths: &mut Vec<f64>) {
    lengths.clear();
    let Some(tokens) = tokens else {
        lengths.resize(chunk.len(), 0.0);
        return;
    };
    let starts = tokens.starts();
    // Element boundaries are not words. Most columns have none, which a single scan of the numbers shows.
    let has_boundaries = match tokens.ids() {
        TokenIds::Narrow(ids) => ids.contains(&0),
        TokenIds::Wide(ids) => ids.contains(&ELEMENT_BOUNDARY),
    };
    lengths.extend(chunk.documents().map(|(_, document)| {
        let all = starts[document + 1] - starts[document];
        if !has_boundaries {
            return f64::from(all);
        }
        let boundaries = tokens.document(document).iter().filter(|id| *id == ELEMENT_BOUNDARY).count();
        f64::from(all) - boundaries as f64
    }));
}

/// Division of a field into elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementBoundaries {
    /// The words of one text.
    Text,
    /// Words with boundaries between elements.
    Texts,
    /// Numbers; each is a word and an element.
    Numbers,
}

impl ElementBoundaries {
    pub fn of(field: &SchemaField) -> Self {
        let is_whole = !field.name.contains('.');
        match field.data_type {
            _ if field.is_number_word() => ElementBoundaries::Numbers,
            DataType::String | DataType::Uri if is_whole => ElementBoundaries::Text,
            _ => ElementBoundaries::Texts,
        }
    }

    /// Requests the columns that give the lengths.
    pub fn bind(self, field: &str, request: &mut FeatureRequest<'_>) -> BoundShape {
        let words = (self != ElementBoundaries::Numbers).then(|| request.column(ColumnKey::tokens(field)));
        BoundShape { words, has_elements: self == ElementBoundaries::Texts }
    }
}

/// A shape bound to a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoundShape {
    /// Column of the words; `None` if the values are numbers.
    words: Option<ColumnSlot>,
    has_elements: bool,
}

impl BoundShape {
    /// The elements of a document, by its index in the chunk.
    pub fn elements(self, chunk: &FeatureChunk<'_>, document: usize) -> DocumentElements {
        let Some(slot) = self.words else { return DocumentElements::Numbers };
        let Some(tokens) = chunk.tokens(slot) else {
            return DocumentElements::Words { boundaries: Vec::new(), end: 0 };
        };
        let ids = tokens.document(document);
        let boundaries = match self.has_elements {
            true => {
                (0..).zip(ids.iter()).filter(|(_, id)| *id == ELEMENT_BOUNDARY).map(|(at, _)| at).collect()
            }
            false => Vec::new(),
        };
        DocumentElements::Words { boundaries, end: ids.len() as u32 }
    }
}

/// Boundaries of a document's elements among its words.
pub(crate) enum DocumentElements {
    /// Indices of the boundaries, ascending, and the end of the last element.
    Words {
        boundaries: Vec<u32>,
        end: u32,
    },
    Numbers,
}

impl DocumentElements {
    /// Number of words of the longest element with one of the positions; of the longest element if there are
    /// no positions.
    pub fn longest(&self, positions: impl Iterator<Item = u32>) -> u32 {
        let length = |element| match self {
            DocumentElements::Words { .. } => {
                let (start, end) = self.bounds(element);
                end - start
            }
            DocumentElements::Numbers => 1,
        };
        let longest = positions.map(|position| length(self.element(position))).max();
        longest.unwrap_or_else(|| match self {
            DocumentElements::Words { boundaries, .. } => {
                (0..=boundaries.len()).map(length).max().unwrap_or(0)
            }
            DocumentElements::Numbers => 1,
        })
    }

    /// Number of words between the start of the element and a position.
    pub fn offset(&self, position: u32) -> u32 {
        match self {
            DocumentElements::Words { .. } => position - self.bounds(self.element(position)).0,
            DocumentElements::Numbers => 0,
        }
    }

    fn element(&self, position: u32) -> usize {
        match self {
            DocumentElements::Words { boundaries, .. } => {
                boundaries.partition_point(|boundary| *boundary < position)
            }
            DocumentElements::Numbers => position as usize / 2,
        }
    }

    /// First and end index of an element.
    fn bounds(&self, element: usize) -> (u32, u32) {
        match self {
            DocumentElements::Words { boundaries, end } => {
                let start = element.checked_sub(1).map_or(0, |before| boundaries[before] + 1);
                (start, boundaries.get(element).copied().unwrap_or(*end))
            }
            DocumentElements::Numbers => (element as u32 * 2, element as u32 * 2 + 1),
        }
    }
}

/// `fieldLength(field)`: 1000000 if no term matches.
pub(crate) fn field_length(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.searched(name, 0)?;
    if field.index.is_none() && !field.is_number_word() {
        return Err(Error::setup(format!(
            "{name} needs a field with 'indexing: index', but {} is none",
            field.name
        )));
    }
    Ok(Box::new(FieldLength {
        shape: ElementBoundaries::of(field),
        has_words: field.is_text() || field.is_number_word(),
        field: field.name.to_string(),
    }))
}

struct FieldLength {
    field: String,
    shape: ElementBoundaries,
    /// True if the values are words; otherwise no term matches.
    has_words: bool,
}

impl RankFeature for FieldLength {
    fn demands(&self) -> RankingDemands {
        // The matching element matters only if there are several.
        RankingDemands {
            counts: true,
            positions: self.shape == ElementBoundaries::Texts,
            ..RankingDemands::default()
        }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let mut terms = terms_of(request.plan, &self.field);
        terms.retain(|_| self.has_words);
        let shape = self.shape.bind(&self.field, request);
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), FAR);
            let found: Vec<_> = terms.iter().map(|found| chunk.matches.leaf(found.leaf)).collect();
            let mut positions: Vec<LeafPositions<'_>> =
                found.iter().map(|found| LeafPositions::of(found)).collect();
            let mut here: Vec<&[u32]> = Vec::with_capacity(positions.len());
            for (document, place) in chunk.documents() {
                here.clear();
                here.extend(positions.iter_mut().map(|list| list.next().unwrap_or_default()));
                if found.iter().any(|found| count(found, document) > 0) {
                    let here = here.iter().flat_map(|positions| positions.iter().copied());
                    out[document] = f64::from(shape.elements(chunk, place).longest(here));
                }
            }
        }))
    }
}
