//! Rank features. A feature is declared once, in [`FEATURES`], set up once per profile, bound once per
//! request, and run for one chunk after another.

mod attribute;
mod bm25;
mod bm25_tensors;
mod boost;
mod closest;
mod comparison;
mod derived;
mod distance;
mod distance_to_path;
mod dump;
mod edit_distance;
mod field_info;
mod flow;
mod foreach;
mod lengths;
mod multivalue;
mod native;
mod nearest_position;
mod path;
mod phases;
mod proximity;
mod query;
mod random;
mod segmentation;
mod segments;
mod similarity;
mod similarity_output;
mod stored_tensors;
mod subqueries;
mod table;
mod tensor_from;
mod term;
mod terms;
mod time;
mod whole;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use millrace_column::{Column, ColumnKey, ColumnValue, ExecutionPaths, FixedColumn, read_value};
use millrace_document::{DataType, LeafColumn};
use millrace_expression::{FeatureName, InputBatch, TensorRows};
use millrace_matching::{
    ChunkMatches, FoundSingleValue, MatchedDocuments, RankingDemands, SingleValue, SingleValueReader,
    SingleValueRef,
};
use millrace_plan::Plan;
use millrace_schema::{RankProfile, Schema, SchemaField};
use millrace_tensor::{Tensor, TensorCells, TensorType};

use crate::Error;
use crate::properties::RankProperties;

pub(crate) use derived::expand as expand_derived;
pub(crate) use dump::default_features;
pub(crate) use foreach::expand as expand_foreach;
pub(crate) use phases::{AllHitsValues, PerHit, model_output, normalized};
pub(crate) use stored_tensors::DocumentTensors;
pub(crate) use table::set_up;
pub use table::{FEATURES, FeatureInfo};

/// Environment of a feature's setup.
pub(crate) struct FeatureSetup<'a> {
    pub schema: &'a Schema,
    pub profile: &'a RankProfile,
    pub properties: RankProperties,
}

impl FeatureSetup<'_> {
    /// The field named by a parameter of the feature. The name of a position's number on a z-curve
    /// (`place_zcurve`) denotes the field of positions.
    pub fn field(&self, name: &FeatureName, at: usize) -> Result<&SchemaField, Error> {
        let Some(field) = name.parameters.get(at) else {
            return Err(Error::setup(format!("{name} needs the name of a field as parameter {}", at + 1)));
        };
        let of_schema = self.schema.fields.get(field.as_str()).or_else(|| self.schema.field_of_zcurve(field));
        of_schema.ok_or_else(|| {
            Error::setup(format!("{name}: schema {} has no field '{field}'", self.schema.name))
        })
    }

    /// A field, or part of a field, that terms can search.
    pub fn searchable_field(&self, name: &FeatureName, at: usize) -> Result<&SchemaField, Error> {
        let part = name.parameters.get(at).and_then(|path| self.schema.field_or_part(path));
        part.map_or_else(|| self.field(name, at), Ok)
    }

    /// A field, or part of a field, with words: text that is split into words, or values that count as words
    /// ([`SchemaField::is_value_word`]).
    pub fn word_field(&self, name: &FeatureName, at: usize) -> Result<&SchemaField, Error> {
        let field = self.searchable_field(name, at)?;
        if field.is_text() || field.is_value_word() {
            return Ok(field);
        }
        Err(Error::setup(format!(
            "{name} needs a text field with 'indexing: index', but {} is none",
            field.name
        )))
    }

    /// True if a field is used for filtering only, not for ranking.
    pub fn is_filter(&self, field: &SchemaField) -> bool {
        field.rank_filter || self.profile.filter_fields.iter().any(|name| *name == *field.name)
    }

    /// Names of the fields and parts with text that are used for filtering only.
    pub fn filters(&self) -> BTreeSet<String> {
        let fields = self.schema.fields.values();
        let parts = fields
            .flat_map(|field| std::iter::once(field).chain(field.struct_fields.iter().map(|(_, part)| part)));
        let filters = parts.filter(|field| field.index.is_some() && self.is_filter(field));
        filters.map(|field| field.name.to_string()).collect()
    }

    /// Weight of a field, in percent.
    pub fn weight(&self, field: &SchemaField) -> f64 {
        f64::from(self.profile.weights.get(&*field.name).copied().unwrap_or(field.weight))
    }
}

/// A feature set up for a profile.
pub(crate) trait RankFeature: Send + Sync {
    /// Type of the values.
    fn tensor_type(&self) -> TensorType {
        TensorType::scalar()
    }

    /// Match data that the feature needs.
    fn demands(&self) -> RankingDemands {
        RankingDemands::LEAVES
    }

    /// Binds the feature to a request: its terms and its columns.
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q>;
}

/// A feature bound to a request.
pub(crate) trait FeatureExecutor {
    /// Computes the values for all matched documents of a chunk.
    fn run(&mut self, chunk: &FeatureChunk<'_>, values: &mut FeatureValues);
}

/// Environment of a feature's binding.
pub(crate) struct FeatureRequest<'q> {
    pub plan: &'q Plan,
    pub matches: &'q MatchedDocuments,
    /// Results of earlier phases; `None` during the first phase.
    pub earlier: Option<&'q AllHitsValues>,
    /// Names of the fields that are filters: their matches have no positions.
    pub filters: &'q BTreeSet<String>,
    keys: Vec<ColumnKey>,
}

/// Index of a requested column in a [`FeatureChunk`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnSlot(usize);

impl<'q> FeatureRequest<'q> {
    pub fn new(
        plan: &'q Plan,
        matches: &'q MatchedDocuments,
        earlier: Option<&'q AllHitsValues>,
        filters: &'q BTreeSet<String>,
    ) -> Self {
        FeatureRequest { plan, matches, earlier, filters, keys: Vec::new() }
    }

    /// Requests a column.
    pub fn column(&mut self, key: ColumnKey) -> ColumnSlot {
        let known = self.keys.iter().position(|known| *known == key);
        ColumnSlot(known.unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        }))
    }

    /// The requested columns.
    pub fn into_keys(self) -> Vec<ColumnKey> {
        self.keys
    }
}

/// One chunk of documents, as input of features.
pub(crate) struct FeatureChunk<'a> {
    pub matches: &'a ChunkMatches,
    pub columns: &'a [Option<Column>],
    pub paths: ExecutionPaths,
    /// Values that features have read.
    read: RefCell<Vec<ReadValues<'a>>>,
}

/// Values at the end of a path in a column, for all features that read them.
struct ReadValues<'a> {
    column: &'a Column,
    path: Vec<String>,
    /// `None` if they are read document by document.
    values: Rc<Option<LeafColumn<'a>>>,
}

impl<'a> FeatureChunk<'a> {
    pub fn new(matches: &'a ChunkMatches, columns: &'a [Option<Column>], paths: ExecutionPaths) -> Self {
        FeatureChunk { matches, columns, paths, read: RefCell::default() }
    }

    pub fn column(&self, slot: ColumnSlot) -> Option<&'a Column> {
        self.columns.get(slot.0)?.as_ref()
    }

    pub fn tokens(&self, slot: ColumnSlot) -> Option<&'a millrace_column::TokensColumn> {
        match self.column(slot) {
            Some(Column::Tokens(tokens)) => Some(tokens),
            _ => None,
        }
    }

    /// The value of a document by its index in the chunk; on the fast paths in place.
    pub fn value(
        &self,
        column: &'a Column,
        data_type: &DataType,
        document: usize,
    ) -> Option<ColumnValue<'a>> {
        match self.paths {
            ExecutionPaths::Fast => read_value(column, data_type, document),
            ExecutionPaths::Plain => {
                millrace_column::value(column, data_type, document).map(ColumnValue::Decoded)
            }
        }
    }

    /// Calls `each` with the single values of the matched documents, document by document.
    pub fn each_single(
        &self,
        reader: &SingleValueReader,
        column: &'a Column,
        each: impl FnMut(SingleValue<'_>),
    ) {
        let values = self.values(reader, column);
        reader.for_each_of((*values).as_ref(), column, &self.matches.documents, self.paths, each);
    }

    /// Calls `each` with the single values of the matched documents for which `find` finds something, those
    /// of a document in their order.
    pub fn each_found<T>(
        &self,
        reader: &SingleValueReader,
        column: &'a Column,
        find: impl Fn(SingleValueRef<'_>) -> Option<T>,
        each: impl FnMut(FoundSingleValue<T>),
    ) {
        let (values, documents) = (self.values(reader, column), &self.matches.documents);
        reader.for_each_found((*values).as_ref(), column, documents, self.paths, find, each);
    }

    /// Calls `each` with the single value at an index of each matched document that has as many.
    pub fn each_at(
        &self,
        reader: &SingleValueReader,
        column: &'a Column,
        index: usize,
        each: impl FnMut(SingleValue<'_>),
    ) {
        let (values, documents) = (self.values(reader, column), &self.matches.documents);
        reader.for_each_at((*values).as_ref(), column, documents, self.paths, index, each);
    }

    /// Adds the number of single values of each matched document.
    pub fn count_singles(&self, reader: &SingleValueReader, column: &'a Column, counts: &mut [f64]) {
        let (values, documents) = (self.values(reader, column), &self.matches.documents);
        reader.for_each_count((*values).as_ref(), column, documents, self.paths, |row, count| {
            counts[row] += count as f64;
        });
    }

    /// The values of a reader, which are read once for all features.
    fn values(&self, reader: &SingleValueReader, column: &'a Column) -> Rc<Option<LeafColumn<'a>>> {
        let mut read = self.read.borrow_mut();
        let is_known =
            |read: &&ReadValues<'a>| std::ptr::eq(read.column, column) && read.path == reader.path();
        if let Some(known) = read.iter().find(is_known) {
            return Rc::clone(&known.values);
        }
        let values = Rc::new(reader.read(column, &self.matches.documents, self.paths));
        read.push(ReadValues { column, path: reader.path().to_vec(), values: Rc::clone(&values) });
        values
    }

    /// Number of matched documents.
    pub fn len(&self) -> usize {
        self.matches.documents.len()
    }

    /// The matched documents: the index among the matches, and the index in the chunk.
    pub fn documents(&self) -> impl Iterator<Item = (usize, usize)> + 'a {
        self.matches.documents.iter().map(|document| usize::from(*document)).enumerate()
    }
}

/// The values of a feature for the matched documents of a chunk.
pub(crate) enum FeatureValues {
    /// The same number for all documents.
    Number(f64),
    Numbers(Vec<f64>),
    /// The same tensor for all documents.
    Tensor(Arc<Tensor>),
    Tensors(Vec<Tensor>),
    /// Tensors with mapped dimensions, as bytes.
    Stored(DocumentTensors),
    /// Dense tensors in the layout of their column.
    Rows(FixedColumn),
    /// Dense tensors, one for each document in their order.
    Gathered(GatheredRows),
}

/// Dense tensors of documents, one after another.
pub(crate) struct GatheredRows {
    cells: TensorCells,
    /// Indices of the rows: 0, 1, 2, …
    order: Vec<u16>,
}

impl GatheredRows {
    /// Rows of as many documents, which are at most those of a chunk.
    pub fn new(cells: TensorCells, documents: usize) -> Self {
        GatheredRows { cells, order: (0..=u16::MAX).take(documents).collect() }
    }
}

impl FeatureValues {
    /// Resizes to one number per document, all `default`. Reuses the memory.
    pub fn numbers(&mut self, count: usize, default: f64) -> &mut [f64] {
        if !matches!(self, FeatureValues::Numbers(_)) {
            *self = FeatureValues::Numbers(Vec::with_capacity(count));
        }
        match self {
            FeatureValues::Numbers(numbers) => {
                numbers.clear();
                numbers.resize(count, default);
                numbers
            }
            _ => &mut [],
        }
    }

    /// Converts the values to an operand of a program.
    pub fn operand<'a>(&'a self, documents: &'a [u16]) -> InputBatch<'a> {
        use millrace_column::CellKind;
        match self {
            FeatureValues::Number(number) => InputBatch::number(*number),
            FeatureValues::Numbers(numbers) => InputBatch::numbers(numbers),
            FeatureValues::Tensor(tensor) => InputBatch::tensor(tensor),
            FeatureValues::Tensors(tensors) => InputBatch::tensors(tensors),
            FeatureValues::Stored(tensors) => tensors.operand(),
            FeatureValues::Gathered(rows) => {
                let cells = match &rows.cells {
                    TensorCells::Double(cells) => TensorRows::Double(cells),
                    TensorCells::Float(cells) => TensorRows::Float(cells),
                    TensorCells::BFloat16(cells) => TensorRows::BFloat16(cells),
                    TensorCells::Int8(cells) => TensorRows::Int8(cells),
                };
                InputBatch::rows(cells, &rows.order)
            }
            FeatureValues::Rows(column) => match column.cell() {
                CellKind::F64 => InputBatch::rows(TensorRows::Double(column.cells()), documents),
                CellKind::F32 => InputBatch::rows(TensorRows::Float(column.cells()), documents),
                CellKind::BF16 => InputBatch::rows(TensorRows::BFloat16(column.cells()), documents),
                CellKind::I8 => InputBatch::rows(TensorRows::Int8(column.cells()), documents),
                // Dense tensors never have such cells: the column was written under another schema.
                CellKind::Bool | CellKind::I32 | CellKind::I64 | CellKind::U64 => {
                    InputBatch::rows(TensorRows::Double(&[]), documents)
                }
            },
        }
    }
}

/// An executor made of a closure.
pub(crate) struct ClosureExecutor<F>(pub F);

impl<F: FnMut(&FeatureChunk<'_>, &mut FeatureValues)> FeatureExecutor for ClosureExecutor<F> {
    fn run(&mut self, chunk: &FeatureChunk<'_>, values: &mut FeatureValues) {
        (self.0)(chunk, values);
    }
}

/// A feature whose number is the same for all documents of a request.
pub(crate) struct PerRequest<F>(pub F);

impl<F: Fn(&FeatureRequest<'_>) -> f64 + Send + Sync> RankFeature for PerRequest<F> {
    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let number = (self.0)(request);
        Box::new(ClosureExecutor(move |_: &FeatureChunk<'_>, values: &mut FeatureValues| {
            *values = FeatureValues::Number(number)
        }))
    }
}
