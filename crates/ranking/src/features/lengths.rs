//! Field lengths: of the whole field, or of the matching element.

use std::sync::Arc;

use millrace_column::{ColumnKey, ColumnValue, ELEMENT_BOUNDARY, TokenIds, TokensColumn};
use millrace_document::DataType;
use millrace_expression::FeatureName;
use millrace_matching::{RankingDemands, SingleValueReader, single_values_at};
use millrace_schema::SchemaField;

use super::path::WHOLE;
use super::term::{LeafPositions, count, positioned_terms_of};
use super::terms::FAR;
use super::{
    ClosureExecutor, ColumnSlot, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues,
    RankFeature,
};
use crate::Error;

/// Words of a field: those of its text, or its values, each of which is one word and an element of its own.
#[derive(Debug, Clone)]
pub(crate) struct FieldWords {
    name: String,
    /// Path of the values; `None` for text that is split into words.
    values: Option<ValuePath>,
}

/// Location of values that are words.
#[derive(Debug, Clone)]
struct ValuePath {
    /// Name and type of the whole field.
    field: String,
    data_type: DataType,
    /// Path from the field's value to the words.
    path: Vec<String>,
    reader: Arc<SingleValueReader>,
}

impl FieldWords {
    pub fn of(setup: &FeatureSetup<'_>, field: &SchemaField) -> Self {
        let mut names = field.name.split('.').map(str::to_owned);
        let whole = names.next().unwrap_or_default();
        let data_type = setup.schema.fields.get(whole.as_str()).map(|field| field.data_type.clone());
        let values = data_type.filter(|_| field.is_value_word()).map(|data_type| {
            let path: Vec<String> = names.collect();
            let reader = Arc::new(SingleValueReader::new(&data_type, &path));
            ValuePath { field: whole, data_type, path, reader }
        });
        FieldWords { name: field.name.to_string(), values }
    }

    /// Name of the field.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requests the column that has the words.
    pub fn bind(&self, request: &mut FeatureRequest<'_>) -> BoundWords<'_> {
        let key = match &self.values {
            Some(values) => ColumnKey::value(&values.field),
            None => ColumnKey::tokens(&self.name),
        };
        BoundWords { column: request.column(key), values: self.values.as_ref() }
    }
}

/// Words of a field bound to a request.
#[derive(Clone, Copy)]
pub(crate) struct BoundWords<'q> {
    column: ColumnSlot,
    values: Option<&'q ValuePath>,
}

impl BoundWords<'_> {
    /// Number of words of each matched document, over all elements.
    pub fn lengths(self, chunk: &FeatureChunk<'_>, lengths: &mut Vec<f64>) {
        lengths.clear();
        if let Some(values) = self.values {
            lengths.resize(chunk.len(), 0.0);
            if let Some(column) = chunk.column(self.column) {
                chunk.count_singles(&values.reader, column, lengths);
            }
            return;
        }
        let Some(tokens) = chunk.tokens(self.column) else {
            lengths.resize(chunk.len(), 0.0);
            return;
        };
        text_lengths(chunk, tokens, lengths);
    }

    /// Finds the number of words of each element of a document, by its index in the chunk. Between two
    /// elements lies one position.
    pub fn element_lengths(self, chunk: &FeatureChunk<'_>, document: usize, lengths: &mut Vec<u32>) {
        lengths.clear();
        if self.values.is_some() {
            lengths.resize(self.value_count(chunk, document), 1);
            return;
        }
        match chunk.tokens(self.column).map(|tokens| tokens.document(document)) {
            None => lengths.push(0),
            Some(TokenIds::Narrow(ids)) => lengths_between(ids, 0, lengths),
            Some(TokenIds::Wide(ids)) => lengths_between(ids, ELEMENT_BOUNDARY, lengths),
        }
    }

    fn value_count(self, chunk: &FeatureChunk<'_>, document: usize) -> usize {
        let mut count = 0;
        if let Some(values) = self.values
            && let Some(column) = chunk.column(self.column)
            && let Some(value) = chunk.value(column, &values.data_type, document)
        {
            single_values_at(&value, &values.path, &mut |_, _| count += 1);
        }
        count
    }
}

/// Words of a weighted set, with the weights of its elements.
#[derive(Debug, Clone)]
pub(crate) struct WeightedWords {
    words: FieldWords,
    data_type: DataType,
}

impl WeightedWords {
    /// Those of a field; `None` if it is not a weighted set of words. Sets inside structs and maps are not
    /// looked up.
    pub fn of(setup: &FeatureSetup<'_>, field: &SchemaField) -> Option<Self> {
        let has_words = field.is_text() || field.is_value_word();
        let is_weighted =
            matches!(field.data_type, DataType::WeightedSet { .. }) && !field.name.contains('.');
        (has_words && is_weighted).then(|| WeightedWords {
            words: FieldWords::of(setup, field),
            data_type: field.data_type.clone(),
        })
    }

    /// Name of the field.
    pub fn name(&self) -> &str {
        self.words.name()
    }

    /// Requests the columns that give the weights.
    pub fn bind(&self, request: &mut FeatureRequest<'_>) -> BoundWeights<'_> {
        let values = request.column(ColumnKey::value(self.words.name()));
        BoundWeights { words: self.words.bind(request), values, data_type: &self.data_type }
    }
}

/// Weights of words, bound to a request.
#[derive(Clone, Copy)]
pub(crate) struct BoundWeights<'q> {
    words: BoundWords<'q>,
    values: ColumnSlot,
    data_type: &'q DataType,
}

impl BoundWeights<'_> {
    /// The greatest weight of the elements that contain one of the positions, in a document by its index in
    /// the chunk.
    pub fn greatest(self, chunk: &FeatureChunk<'_>, document: usize, positions: &[u32]) -> Option<f64> {
        self.weights_at(chunk, document, positions)?.into_iter().reduce(f64::max)
    }

    /// The sum over the positions of the weights of the elements that contain them.
    pub fn sum(self, chunk: &FeatureChunk<'_>, document: usize, positions: &[u32]) -> Option<f64> {
        Some(self.weights_at(chunk, document, positions)?.into_iter().sum())
    }

    fn weights_at(self, chunk: &FeatureChunk<'_>, document: usize, positions: &[u32]) -> Option<Vec<f64>> {
        if positions.is_empty() {
            return None;
        }
        let weights = element_weights(&chunk.value(chunk.column(self.values)?, self.data_type, document)?);
        let (mut end, mut lengths) = (0, Vec::new());
        self.words.element_lengths(chunk, document, &mut lengths);
        let ends = lengths.into_iter().map(|length| {
            end += length + 1;
            end
        });
        let ends: Vec<u32> = ends.collect();
        let weight = |position: &u32| weights.get(ends.partition_point(|end| end <= position)).copied();
        Some(positions.iter().filter_map(weight).collect())
    }
}

/// Weights of the elements of a weighted set, in their order.
pub(crate) fn element_weights(set: &ColumnValue<'_>) -> Vec<f64> {
    let mut weights = Vec::new();
    single_values_at(set, WHOLE, &mut |_, weight| weights.push(f64::from(weight)));
    weights
}

/// Adds the number of words before, between and after the boundaries.
fn lengths_between<T: PartialEq>(ids: &[T], boundary: T, lengths: &mut Vec<u32>) {
    lengths.extend(ids.split(|id| *id == boundary).map(|element| element.len() as u32));
}

/// Positions of the boundaries.
fn positions_of<T: PartialEq>(ids: &[T], boundary: T) -> Vec<u32> {
    (0..).zip(ids).filter(|(_, id)| **id == boundary).map(|(at, _)| at).collect()
}

fn text_lengths(chunk: &FeatureChunk<'_>, tokens: &TokensColumn, lengths: &mut Vec<f64>) {
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
        // A loop for each width has no decision for each word.
        let boundaries = match tokens.document(document) {
            TokenIds::Narrow(ids) => ids.iter().filter(|id| **id == 0).count(),
            TokenIds::Wide(ids) => ids.iter().filter(|id| **id == ELEMENT_BOUNDARY).count(),
        };
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
    /// Values; each is a word and an element.
    Values,
}

impl ElementBoundaries {
    pub fn of(field: &SchemaField) -> Self {
        let is_whole = !field.name.contains('.');
        match field.data_type {
            _ if field.is_value_word() => ElementBoundaries::Values,
            DataType::String | DataType::Uri if is_whole => ElementBoundaries::Text,
            _ => ElementBoundaries::Texts,
        }
    }

    /// Requests the columns that give the lengths.
    pub fn bind(self, field: &str, request: &mut FeatureRequest<'_>) -> BoundShape {
        let words = (self != ElementBoundaries::Values).then(|| request.column(ColumnKey::tokens(field)));
        BoundShape { words, has_elements: self == ElementBoundaries::Texts }
    }
}

/// A shape bound to a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BoundShape {
    /// Column of the words; `None` if the values are words.
    words: Option<ColumnSlot>,
    has_elements: bool,
}

impl BoundShape {
    /// The elements of a document, by its index in the chunk.
    pub fn elements(self, chunk: &FeatureChunk<'_>, document: usize) -> DocumentElements {
        let Some(slot) = self.words else { return DocumentElements::Values };
        let Some(tokens) = chunk.tokens(slot) else {
            return DocumentElements::Words { boundaries: Vec::new(), end: 0 };
        };
        let ids = tokens.document(document);
        let boundaries = match ids {
            _ if !self.has_elements => Vec::new(),
            TokenIds::Narrow(ids) => positions_of(ids, 0),
            TokenIds::Wide(ids) => positions_of(ids, ELEMENT_BOUNDARY),
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
    Values,
}

impl DocumentElements {
    /// Number of words of the longest element with one of the positions; of the longest element if there are
    /// no positions.
    pub fn longest(&self, positions: impl Iterator<Item = u32>) -> u32 {
        if let DocumentElements::Words { boundaries, end } = self
            && boundaries.is_empty()
        {
            return *end;
        }
        let length = |element| match self {
            DocumentElements::Words { .. } => {
                let (start, end) = self.bounds(element);
                end - start
            }
            DocumentElements::Values => 1,
        };
        let longest = positions.map(|position| length(self.element(position))).max();
        longest.unwrap_or_else(|| match self {
            DocumentElements::Words { boundaries, .. } => {
                (0..=boundaries.len()).map(length).max().unwrap_or(0)
            }
            DocumentElements::Values => 1,
        })
    }

    /// Number of words of all elements; the largest number where each value is a word.
    pub fn words(&self) -> u32 {
        match self {
            DocumentElements::Words { boundaries, end } => end - boundaries.len() as u32,
            DocumentElements::Values => u32::MAX,
        }
    }

    /// Number of words between the start of the element and a position.
    pub fn offset(&self, position: u32) -> u32 {
        match self {
            DocumentElements::Words { .. } => position - self.bounds(self.element(position)).0,
            DocumentElements::Values => 0,
        }
    }

    /// Index of the element that contains a position.
    pub fn element(&self, position: u32) -> usize {
        match self {
            DocumentElements::Words { boundaries, .. } => {
                boundaries.partition_point(|boundary| *boundary < position)
            }
            DocumentElements::Values => position as usize / 2,
        }
    }

    /// First and end index of an element.
    fn bounds(&self, element: usize) -> (u32, u32) {
        match self {
            DocumentElements::Words { boundaries, end } => {
                let start = element.checked_sub(1).map_or(0, |before| boundaries[before] + 1);
                (start, boundaries.get(element).copied().unwrap_or(*end))
            }
            DocumentElements::Values => (element as u32 * 2, element as u32 * 2 + 1),
        }
    }
}

/// `fieldLength(field)`: 1000000 if no term matches.
pub(crate) fn field_length(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.word_field(name, 0)?;
    Ok(Box::new(FieldLength { shape: ElementBoundaries::of(field), field: field.name.to_string() }))
}

struct FieldLength {
    field: String,
    shape: ElementBoundaries,
}

impl RankFeature for FieldLength {
    fn demands(&self) -> RankingDemands {
        // The matching element matters only if there are several.
        RankingDemands {
            counts: true,
            positions: self.shape == ElementBoundaries::Texts,
            ..RankingDemands::LEAVES
        }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let terms = positioned_terms_of(request, &self.field);
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

#[cfg(test)]
mod tests {
    use super::lengths_between;

    #[test]
    fn elements_lie_between_boundaries() {
        let cases: [(&[u16], &[u32]); 5] = [
            (&[], &[0]),
            (&[3, 4, 5], &[3]),
            (&[0], &[0, 0]),
            (&[7, 0, 8, 9], &[1, 2]),
            (&[0, 7, 0, 0, 8], &[0, 1, 0, 1]),
        ];
        for (ids, expected) in cases {
            let mut lengths = Vec::new();
            lengths_between(ids, 0, &mut lengths);
            assert_eq!(lengths, expected, "{ids:?}");
        }
    }
}
