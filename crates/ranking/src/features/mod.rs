//! Rank features. A feature is declared once, in [`FEATURES`], set up once per profile, bound once per
//! request, and run for one chunk after another.

mod attribute;
mod bm25;
mod bm25_tensors;
mod boost;
mod closest;
mod distance;
mod distance_to_path;
mod dump;
mod field_info;
mod foreach;
mod lengths;
mod multivalue;
mod native;
mod nearest_place;
mod path;
mod phases;
mod proximity;
mod query;
mod random;
mod segmentation;
mod segments;
mod similarity;
mod similarity_output;
mod table;
mod tensor_from;
mod term;
mod terms;
mod time;
mod whole;

use std::sync::Arc;

use millrace_column::{Column, ColumnKey, Fixed};
use millrace_expression::{FeatureName, Operand, Rows};
use millrace_matching::{ChunkMatches, Demands, Matches};
use millrace_plan::Plan;
use millrace_schema::{RankProfile, Schema, SchemaField};
use millrace_tensor::{Tensor, TensorType};

use crate::properties::Properties;

pub(crate) use dump::default_features;
pub(crate) use foreach::expand as expand_foreach;
pub(crate) use phases::{Earlier, PerHit, modelled, normalized};
pub(crate) use table::set_up;
pub use table::{FEATURES, FeatureInfo};

/// Environment of a feature's setup.
pub(crate) struct Setup<'a> {
    pub schema: &'a Schema,
    pub profile: &'a RankProfile,
    pub properties: Properties,
}

impl Setup<'_> {
    /// The field named by a parameter of the feature.
    pub fn field(&self, name: &FeatureName, at: usize) -> Result<&SchemaField, String> {
        let Some(field) = name.parameters.get(at) else {
            return Err(format!("{name} needs the name of a field as parameter {}", at + 1));
        };
        self.schema
            .fields
            .get(field.as_str())
            .ok_or_else(|| format!("{name}: schema {} has no field '{field}'", self.schema.name))
    }

    /// A field, or part of a field, that terms can search.
    pub fn searched(&self, name: &FeatureName, at: usize) -> Result<&SchemaField, String> {
        let part = name.parameters.get(at).and_then(|path| self.schema.field_or_part(path));
        part.map_or_else(|| self.field(name, at), Ok)
    }

    /// A field, or part of a field, whose text is split into words.
    pub fn text_field(&self, name: &FeatureName, at: usize) -> Result<&SchemaField, String> {
        let field = self.searched(name, at)?;
        if field.is_text() {
            return Ok(field);
        }
        Err(format!("{name} needs a text field with 'indexing: index', but {} is none", field.name))
    }

    /// A field, or part of a field, with words: text that is split into words, or numbers, which count as
    /// words.
    pub fn worded(&self, name: &FeatureName, at: usize) -> Result<&SchemaField, String> {
        match self.searched(name, at) {
            Ok(field) if field.is_number_word() => Ok(field),
            _ => self.text_field(name, at),
        }
    }

    /// True if a field is used for filtering only, not for ranking.
    pub fn is_filter(&self, field: &SchemaField) -> bool {
        field.rank_filter || self.profile.filter_fields.iter().any(|name| *name == *field.name)
    }

    /// Weight of a field, in percent.
    pub fn weight(&self, field: &SchemaField) -> f64 {
        f64::from(self.profile.weights.get(&*field.name).copied().unwrap_or(field.weight))
    }
}

/// A feature set up for a profile.
pub(crate) trait Feature: Send + Sync {
    /// Type of the values.
    fn tensor_type(&self) -> TensorType {
        TensorType::scalar()
    }

    /// Match data that the feature needs.
    fn demands(&self) -> Demands {
        Demands::default()
    }

    /// Binds the feature to a request: its terms and its columns.
    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q>;
}

/// A feature bound to a request.
pub(crate) trait Executor {
    /// Computes the values for all matched documents of a chunk.
    fn run(&mut self, chunk: &Chunk<'_>, values: &mut Values);
}

/// Environment of a feature's binding.
pub(crate) struct Request<'q> {
    pub plan: &'q Plan,
    pub matches: &'q Matches,
    /// Results of earlier phases; `None` during the first phase.
    pub earlier: Option<&'q Earlier>,
    keys: Vec<ColumnKey>,
}

/// Index of a requested column in a [`Chunk`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnSlot(usize);

impl<'q> Request<'q> {
    pub fn new(plan: &'q Plan, matches: &'q Matches, earlier: Option<&'q Earlier>) -> Self {
        Request { plan, matches, earlier, keys: Vec::new() }
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
pub(crate) struct Chunk<'a> {
    pub matches: &'a ChunkMatches,
    pub columns: &'a [Option<Column>],
}

impl<'a> Chunk<'a> {
    pub fn column(&self, slot: ColumnSlot) -> Option<&'a Column> {
        self.columns.get(slot.0)?.as_ref()
    }

    pub fn tokens(&self, slot: ColumnSlot) -> Option<&'a millrace_column::Tokens> {
        match self.column(slot) {
            Some(Column::Tokens(tokens)) => Some(tokens),
            _ => None,
        }
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
pub(crate) enum Values {
    /// The same number for all documents.
    Number(f64),
    Numbers(Vec<f64>),
    /// The same tensor for all documents.
    Tensor(Arc<Tensor>),
    Tensors(Vec<Tensor>),
    /// Dense tensors in the layout of their column.
    Rows(Fixed),
}

impl Values {
    /// Resizes to one number per document, all `default`. Reuses the memory.
    pub fn numbers(&mut self, count: usize, default: f64) -> &mut [f64] {
        if !matches!(self, Values::Numbers(_)) {
            *self = Values::Numbers(Vec::with_capacity(count));
        }
        match self {
            Values::Numbers(numbers) => {
                numbers.clear();
                numbers.resize(count, default);
                numbers
            }
            _ => &mut [],
        }
    }

    /// Converts the values to an operand of a program.
    pub fn operand<'a>(&'a self, documents: &'a [u16]) -> Operand<'a> {
        use millrace_column::Cell;
        match self {
            Values::Number(number) => Operand::number(*number),
            Values::Numbers(numbers) => Operand::numbers(numbers),
            Values::Tensor(tensor) => Operand::tensor(tensor),
            Values::Tensors(tensors) => Operand::tensors(tensors),
            Values::Rows(column) => match column.cell() {
                Cell::F64 => Operand::rows(Rows::Double(column.cells()), documents),
                Cell::F32 => Operand::rows(Rows::Float(column.cells()), documents),
                Cell::BF16 => Operand::rows(Rows::BFloat16(column.cells()), documents),
                Cell::I8 => Operand::rows(Rows::Int8(column.cells()), documents),
                // Dense tensors never have such cells: the column was written under another schema.
                Cell::Bool | Cell::I32 | Cell::I64 | Cell::U64 => Operand::rows(Rows::Double(&[]), documents),
            },
        }
    }
}

/// An executor made of a closure.
pub(crate) struct Run<F>(pub F);

impl<F: FnMut(&Chunk<'_>, &mut Values)> Executor for Run<F> {
    fn run(&mut self, chunk: &Chunk<'_>, values: &mut Values) {
        (self.0)(chunk, values);
    }
}

/// A feature whose number is the same for all documents of a request.
pub(crate) struct PerRequest<F>(pub F);

impl<F: Fn(&Request<'_>) -> f64 + Send + Sync> Feature for PerRequest<F> {
    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q> {
        let number = (self.0)(request);
        Box::new(Run(move |_: &Chunk<'_>, values: &mut Values| *values = Values::Number(number)))
    }
}
