//! Validation of statements against a schema, which also sets defaults: the input field of a statement, and
//! the type returned by an embedder, generator or hash.

mod expressions;

use std::collections::HashMap;

use millrace_document::{DataType, DocumentValue};
use millrace_schema::{Schema, SourcePosition};
use millrace_tensor::{CellType, DimensionKind, TensorDimension, TensorType};

use crate::script::{IndexingExpression, IndexingScript, IndexingStatement, IndexingStep, ValueFunction};
use crate::{Error, IndexingComponents, StatementFailure};

/// Type of a value before execution, if it is known.
type InferredType = Option<DataType>;

/// Members of an entry of a map, which is a struct within `for_each`.
pub(crate) const ENTRY_KEY: &str = "$key";
pub(crate) const ENTRY_VALUE: &str = "$value";

/// Validator of one field's statements.
pub(crate) struct StatementResolver<'a> {
    pub schema: &'a Schema,
    pub components: &'a dyn IndexingComponents,
    pub field: &'a str,
    /// True for statements of an application that is active already: what earlier versions accepted stays.
    pub is_active: bool,
    pub variables: HashMap<String, InferredType>,
}

impl StatementResolver<'_> {
    pub fn script(
        &mut self,
        script: &mut IndexingScript,
        input: &InferredType,
        target: &InferredType,
    ) -> Result<InferredType, Error> {
        let mut last = None;
        for statement in &mut script.statements {
            last = self.statement(statement, input, target)?;
        }
        Ok(last)
    }

    fn statement(
        &mut self,
        statement: &mut IndexingStatement,
        input: &InferredType,
        target: &InferredType,
    ) -> Result<InferredType, Error> {
        let mut known = input.clone();
        for at in 0..statement.steps.len() {
            let wanted = self.wanted_by(&statement.steps[at + 1..], target);
            known = self.step(&mut statement.steps[at], &known, &wanted)?;
        }
        Ok(known)
    }

    /// Type required by the following steps: by the next output, by a function that accepts one type or turns
    /// the wanted type into another, or by the context of the statement.
    fn wanted_by(&self, steps: &[IndexingStep], target: &InferredType) -> InferredType {
        let Some((step, rest)) = steps.split_first() else { return target.clone() };
        match &step.expression {
            IndexingExpression::Output(field) => {
                let field = self.schema.fields.get(field.as_str());
                field.map(|field| field.data_type.clone()).or_else(|| target.clone())
            }
            IndexingExpression::Apply(function) if function.needs_text() => Some(DataType::String),
            IndexingExpression::Chunk(_)
            | IndexingExpression::Hash { .. }
            | IndexingExpression::SetLanguage => Some(DataType::String),
            IndexingExpression::Apply(ValueFunction::ToArray | ValueFunction::ToWeightedSet { .. }) => {
                match self.wanted_by(rest, target) {
                    Some(DataType::Array(element) | DataType::WeightedSet { element, .. }) => Some(*element),
                    other => other,
                }
            }
            IndexingExpression::Apply(ValueFunction::PackBits) => match self.wanted_by(rest, target) {
                Some(DataType::Tensor(packed)) => unpacked(&packed).map(DataType::Tensor),
                other => other,
            },
            IndexingExpression::Apply(ValueFunction::Join(_)) => {
                Some(DataType::Array(Box::new(DataType::String)))
            }
            IndexingExpression::Apply(ValueFunction::ZCurve) => Some(DataType::Position),
            IndexingExpression::Apply(ValueFunction::Base64Encode | ValueFunction::HexEncode) => {
                Some(DataType::Long)
            }
            // They accept values of many types.
            IndexingExpression::Apply(ValueFunction::Convert(_))
            | IndexingExpression::GetField(_)
            | IndexingExpression::GetValue(_) => None,
            IndexingExpression::Nested(script) => match script.statements.first() {
                Some(first) => {
                    let after = self.wanted_by(rest, target);
                    self.wanted_by(&first.steps, &after)
                }
                None => self.wanted_by(rest, target),
            },
            _ => self.wanted_by(rest, target),
        }
    }

    /// Type of the value of an expression, whose defaults are set on the way.
    fn step(
        &mut self,
        step: &mut IndexingStep,
        input: &InferredType,
        target: &InferredType,
    ) -> Result<InferredType, Error> {
        let position = step.position.clone();
        match &mut step.expression {
            IndexingExpression::Constant(value) => Ok(type_of(value)),
            IndexingExpression::This => Ok(input.clone()),
            IndexingExpression::Input(path) => self.input(path, &position).map(Some),
            IndexingExpression::GetField(name) => self.get_field(name, input, &position),
            IndexingExpression::GetValue(_) => self.get_value(input, &position),
            IndexingExpression::GetVariable(name) => match self.variables.get(name) {
                Some(known) => Ok(known.clone()),
                None => self.fail(
                    &position,
                    format!("variable '{name}' is not set before; add '… | set_var {name};'"),
                ),
            },
            IndexingExpression::SetVariable(name) => {
                self.variables.insert(name.clone(), input.clone());
                Ok(input.clone())
            }
            IndexingExpression::Output(name) => self.output(name, input, &position).map(|()| input.clone()),
            IndexingExpression::Binary(_, left, right) => self.arithmetic(left, right, input, &position),
            IndexingExpression::Concat { parts, collects } => {
                let types = self.types_of_parts(parts, input)?;
                *collects = are_joined(&types);
                Ok(concatenated(types, *collects))
            }
            IndexingExpression::Choice(steps) => self.choice(steps, input, target),
            IndexingExpression::Nested(script) => self.script(script, input, target),
            IndexingExpression::ForEach(script) => self.for_each(script, input, target, &position),
            IndexingExpression::If(of) => self.condition(of, input, target),
            IndexingExpression::Switch(switch) => self.switch(switch, input, target),
            IndexingExpression::SelectInput(cases) => self.select_input(cases, target, &position),
            IndexingExpression::Apply(function) => self.apply(function, input, &position),
            IndexingExpression::Hash { long } => {
                self.want_text("hash", input, &position)?;
                *long = !matches!(target, Some(DataType::Int));
                Ok(Some(if *long { DataType::Long } else { DataType::Int }))
            }
            IndexingExpression::Embed { call, target: embedding } => {
                *embedding = self.embedding(call, input, target, &position)?;
                Ok(target.clone())
            }
            IndexingExpression::Chunk(call) => self.chunk(call, input, &position),
            IndexingExpression::Generate { call, wanted } => {
                wanted.data_type = target.clone().unwrap_or(DataType::String);
                wanted.name = format!("{}.{}", self.schema.name, self.field);
                self.check_generate(call, wanted, input, &position)?;
                Ok(target.clone())
            }
            IndexingExpression::SetLanguage => {
                self.want_text("set_language", input, &position)?;
                Ok(input.clone())
            }
            IndexingExpression::GetLanguage
            | IndexingExpression::Hostname
            | IndexingExpression::DocumentId(_) => Ok(Some(DataType::String)),
            IndexingExpression::Now => Ok(Some(DataType::Long)),
            IndexingExpression::Random(_) => Ok(Some(DataType::Int)),
            IndexingExpression::ClearState => {
                self.variables.clear();
                Ok(None)
            }
            IndexingExpression::Echo => Ok(input.clone()),
        }
    }

    /// Type of a field, or of a struct member in it.
    fn input(&self, path: &[String], position: &SourcePosition) -> Result<DataType, Error> {
        let Some((name, members)) = path.split_first() else {
            return self.fail(position, "input needs a field name".to_owned());
        };
        let Some(field) = self.schema.fields.get(name.as_str()) else {
            return self.fail(position, format!("schema '{}' has no field '{name}'", self.schema.name));
        };
        let mut data_type = field.data_type.clone();
        for member in members {
            let inner = match &data_type {
                DataType::Struct(struct_type) => {
                    struct_type.field(member).map(|member| member.data_type.clone())
                }
                _ => None,
            };
            match inner {
                Some(inner) => data_type = inner,
                None => return self.fail(position, format!("{data_type} has no field '{member}'")),
            }
        }
        Ok(data_type)
    }

    fn output(&self, name: &str, input: &InferredType, position: &SourcePosition) -> Result<(), Error> {
        let Some(field) = self.schema.fields.get(name) else {
            return self.fail(position, format!("schema '{}' has no field '{name}'", self.schema.name));
        };
        match input {
            Some(found) if !assignable(found, &field.data_type) => self.fail(
                position,
                format!(
                    "a {found} cannot be written to '{name}', which is a {}{}",
                    field.data_type,
                    conversion(found, &field.data_type)
                ),
            ),
            _ => Ok(()),
        }
    }

    fn want_text(&self, what: &str, input: &InferredType, position: &SourcePosition) -> Result<(), Error> {
        match input {
            Some(DataType::String | DataType::Uri) | None => Ok(()),
            Some(other) => self
                .fail(position, format!("{what} needs a string, not a {other}; convert it with to_string")),
        }
    }

    fn fail<T>(&self, position: &SourcePosition, reason: impl ToString) -> Result<T, Error> {
        let reason = reason.to_string();
        Err(Error::Script { position: position.clone(), field: self.field.to_owned(), reason })
    }
}

/// True if values of these types can be joined to one collection; types that are unknown are left to the
/// values.
fn are_joined(types: &[InferredType]) -> bool {
    let mut known = types.iter().flatten();
    let Some(first) = known.next() else { return true };
    matches!(first, DataType::Array(_) | DataType::WeightedSet { .. })
        && known.all(|other| assignable(other, first))
}

/// Type of concatenated values: a collection if they are joined, otherwise text.
fn concatenated(types: Vec<InferredType>, collects: bool) -> InferredType {
    match collects {
        true if types.contains(&None) => None,
        true => types.into_iter().next().flatten(),
        false => Some(DataType::String),
    }
}

/// The expression that converts one type to another, as the end of a message.
fn conversion(found: &DataType, wanted: &DataType) -> String {
    let converter = match wanted {
        DataType::Byte => "to_byte",
        DataType::Int => "to_int",
        DataType::Long => "to_long",
        DataType::Float => "to_float",
        DataType::Double => "to_double",
        DataType::Bool => "to_bool",
        DataType::String => "to_string",
        DataType::Position if *found == DataType::String => "to_pos",
        DataType::Array(element) if assignable(found, element) => "to_array",
        DataType::WeightedSet { element, .. } if assignable(found, element) => "to_wset",
        _ => return String::new(),
    };
    format!("; convert it with {converter}")
}

/// True if every value of one type can be stored in a field of another.
fn assignable(found: &DataType, wanted: &DataType) -> bool {
    match (found, wanted) {
        (DataType::Array(found), DataType::Array(wanted)) => assignable(found, wanted),
        (DataType::WeightedSet { element: found, .. }, DataType::WeightedSet { element: wanted, .. }) => {
            assignable(found, wanted)
        }
        (DataType::Int, DataType::Byte) => true,
        _ if is_number(found) && is_number(wanted) => rank(found) <= rank(wanted),
        (
            DataType::String | DataType::Uri,
            DataType::String | DataType::Uri | DataType::Predicate | DataType::Reference(_),
        ) => true,
        _ => found == wanted,
    }
}

pub(crate) const fn is_number(data_type: &DataType) -> bool {
    rank(data_type) > 0
}

/// Order of number types by capacity; 0 for other types.
const fn rank(data_type: &DataType) -> u8 {
    match data_type {
        DataType::Byte => 1,
        DataType::Int => 2,
        DataType::Long => 3,
        DataType::Float16 | DataType::Float => 4,
        DataType::Double => 5,
        _ => 0,
    }
}

/// Type of a constant.
fn type_of(value: &DocumentValue) -> InferredType {
    match value {
        DocumentValue::Bool(_) => Some(DataType::Bool),
        DocumentValue::Int(_) => Some(DataType::Int),
        DocumentValue::Long(_) => Some(DataType::Long),
        DocumentValue::Float(_) => Some(DataType::Float),
        DocumentValue::Double(_) => Some(DataType::Double),
        DocumentValue::String(_) => Some(DataType::String),
        _ => None,
    }
}

impl ValueFunction {
    /// True if it accepts only a single text.
    const fn needs_text(&self) -> bool {
        matches!(
            self,
            ValueFunction::Split(_)
                | ValueFunction::ToPosition
                | ValueFunction::ToEpochSecond
                | ValueFunction::Base64Decode
                | ValueFunction::HexDecode
        )
    }

    fn result_type(&self, input: &InferredType) -> Result<InferredType, StatementFailure> {
        let text = |name: &str| match input.as_ref().map(innermost) {
            None | Some(DataType::String | DataType::Uri) => Ok(input.clone()),
            Some(_) => Err(StatementFailure::value(format!("{name} needs text; convert it with to_string"))),
        };
        let long = |name: &str| match input.as_ref().map(innermost) {
            None | Some(DataType::Long) => Ok(Some(DataType::String)),
            Some(other) => Err(StatementFailure::value(format!(
                "{name} needs a long, not a {other}; convert it with to_long"
            ))),
        };
        match self {
            ValueFunction::Convert(to) => Ok(Some(to.clone())),
            ValueFunction::ToArray => Ok(input.clone().map(|element| DataType::Array(Box::new(element)))),
            ValueFunction::ToWeightedSet { create_if_nonexistent, remove_if_zero } => {
                Ok(input.clone().map(|element| DataType::WeightedSet {
                    element: Box::new(element),
                    create_if_nonexistent: *create_if_nonexistent,
                    remove_if_zero: *remove_if_zero,
                }))
            }
            ValueFunction::ToPosition => text("to_pos").map(|_| Some(DataType::Position)),
            ValueFunction::ZCurve => match input {
                None | Some(DataType::Position) => Ok(Some(DataType::Long)),
                Some(other) => {
                    Err(StatementFailure::value(format!("zcurve needs a position, not a {other}")))
                }
            },
            ValueFunction::ToEpochSecond => text("to_epoch_second").map(|_| Some(DataType::Long)),
            ValueFunction::Lowercase => text("lowercase"),
            ValueFunction::Normalize => text("normalize"),
            ValueFunction::Trim => text("trim"),
            ValueFunction::Substring(..) => text("substring"),
            ValueFunction::Split(_) => Ok(Some(DataType::Array(Box::new(DataType::String)))),
            ValueFunction::Join(_) => match input {
                None | Some(DataType::Array(_)) => Ok(Some(DataType::String)),
                Some(other) => Err(StatementFailure::value(format!("join needs an array, not a {other}"))),
            },
            ValueFunction::Base64Decode => one_text("base64decode", input).map(|()| Some(DataType::Long)),
            ValueFunction::HexDecode => one_text("hex_decode", input).map(|()| Some(DataType::Long)),
            ValueFunction::Base64Encode => long("base64encode"),
            ValueFunction::HexEncode => long("hex_encode"),
            ValueFunction::Binarize(_) => match input {
                None | Some(DataType::Tensor(_)) => Ok(input.clone()),
                Some(other) => {
                    Err(StatementFailure::value(format!("binarize needs a tensor, not a {other}")))
                }
            },
            ValueFunction::PackBits => match input {
                None => Ok(None),
                Some(DataType::Tensor(tensor_type)) => {
                    packed(tensor_type).map(|to| Some(DataType::Tensor(to)))
                }
                Some(other) => {
                    Err(StatementFailure::value(format!("pack_bits needs a tensor, not a {other}")))
                }
            },
            ValueFunction::Annotate => Ok(input.clone()),
        }
    }
}

/// Checks that a value is a single text.
fn one_text(name: &str, input: &InferredType) -> Result<(), StatementFailure> {
    let cure = match input {
        None | Some(DataType::String | DataType::Uri) => return Ok(()),
        Some(DataType::Array(_) | DataType::WeightedSet { .. }) => "use it within for_each",
        Some(_) => "convert it with to_string",
    };
    let found = input.as_ref().map_or_else(String::new, ToString::to_string);
    Err(StatementFailure::value(format!("{name} needs a string, not a {found}; {cure}")))
}

/// Element type of nested collections.
fn innermost(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Array(element) | DataType::WeightedSet { element, .. } => innermost(element),
        DataType::Map(_, value) => innermost(value),
        other => other,
    }
}

/// Type of a tensor with packed bits.
pub(crate) fn packed(tensor_type: &TensorType) -> Result<TensorType, StatementFailure> {
    if tensor_type.indexed().count() != 1 {
        return Err(StatementFailure::value(format!(
            "pack_bits needs exactly one indexed dimension, {tensor_type} has not"
        )));
    }
    TensorType::new(CellType::Int8, resized(tensor_type, |size| size.div_ceil(8)))
        .map_err(|error| StatementFailure::value(error.to_string()))
}

/// Type of a tensor whose packed bits have a type, with float cells; `None` if it would be too large.
fn unpacked(tensor_type: &TensorType) -> Option<TensorType> {
    TensorType::new(CellType::Float, resized(tensor_type, |size| size.saturating_mul(8))).ok()
}

/// Dimensions of a tensor type, with other sizes of the indexed ones.
fn resized(tensor_type: &TensorType, size: impl Fn(usize) -> usize) -> Vec<TensorDimension> {
    let resize = |dimension: &TensorDimension| TensorDimension {
        name: dimension.name.clone(),
        kind: match dimension.kind {
            DimensionKind::Indexed(old) => DimensionKind::Indexed(size(old)),
            DimensionKind::Mapped => DimensionKind::Mapped,
        },
    };
    tensor_type.dimensions().iter().map(resize).collect()
}
