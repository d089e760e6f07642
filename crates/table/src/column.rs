//! Types of columns for the types of fields.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType as ArrowType, Field, FieldRef, Fields, Schema};
use millrace_document::{DataType, DocumentField, DocumentType, StructType};
use millrace_tensor::{CellType, TensorType};

use crate::Error;

/// Name of the column of document ids, unless the document type has a field of this name.
const ID_COLUMN: &str = "id";

/// Its name otherwise; with underscores behind it if there is a field of this name too.
const FALLBACK_ID_COLUMN: &str = "documentid";

/// Key of the table's metadata with the name of the document type.
pub(crate) const TYPE_METADATA: &str = "millrace.type";

/// Key of a column's metadata with the type of its field.
const FIELD_METADATA: &str = "millrace.type";

/// Returns the name of the column with document ids, where nothing else is said.
pub(crate) fn id_column(document_type: &DocumentType) -> String {
    if document_type.field(ID_COLUMN).is_none() {
        return ID_COLUMN.to_owned();
    }
    let mut name = FALLBACK_ID_COLUMN.to_owned();
    while document_type.field(&name).is_some() {
        name.push('_');
    }
    name
}

/// Number of parts of a column beyond which it is not written: structs in themselves can have a great many.
const PARTS_MAX: usize = 10_000;

/// Returns the columns of a written table: the document id, and each field of the document type that `shown`
/// takes.
///
/// # Errors
/// [`Error::Columns`]: a field has too many parts.
pub(crate) fn arrow_schema(
    document_type: &DocumentType,
    shown: impl Fn(&str) -> bool,
) -> Result<Schema, Error> {
    let mut columns = vec![Field::new(id_column(document_type), ArrowType::Utf8, false)];
    for field in document_type.fields().iter().filter(|field| shown(&field.name)) {
        let mut left = PARTS_MAX;
        if !has_few_parts(&field.data_type, &mut left) {
            return Err(Error::Columns(format!(
                "field '{}' has more than {PARTS_MAX} parts, too many for a column; leave it out, or take JSON lines",
                field.name
            )));
        }
        columns.push(column(&field.name, &field.data_type, true));
    }
    let metadata = [(TYPE_METADATA.to_owned(), document_type.name().to_string())];
    Ok(Schema::new_with_metadata(columns, HashMap::from(metadata)))
}

/// Counts the parts of a type down from `left`; false if there are more.
fn has_few_parts(data_type: &DataType, left: &mut usize) -> bool {
    let Some(fewer) = left.checked_sub(1) else { return false };
    *left = fewer;
    match data_type {
        DataType::Array(element) | DataType::WeightedSet { element, .. } => has_few_parts(element, left),
        DataType::Map(key, value) => has_few_parts(key, left) && has_few_parts(value, left),
        DataType::Struct(members) => {
            members.fields.iter().all(|member| has_few_parts(&member.data_type, left))
        }
        _ => true,
    }
}

/// A column, or a part of one, that says of which type its values are: Arrow has fewer types.
fn column(name: &str, data_type: &DataType, nullable: bool) -> Field {
    let metadata = [(FIELD_METADATA.to_owned(), data_type.to_string())];
    Field::new(name, arrow_type(data_type), nullable).with_metadata(HashMap::from(metadata))
}

/// Returns the document type that a table was written from.
///
/// # Errors
/// It was not written by [`TableWriter`](crate::TableWriter), or by a later version.
pub(crate) fn document_type_of(schema: &Schema) -> Result<DocumentType, Error> {
    let name = schema.metadata().get(TYPE_METADATA);
    let name = name.ok_or_else(|| Error::Columns("the table does not name a document type".to_owned()))?;
    let fields = schema.fields().iter().skip(1).map(|column| {
        let data_type = data_type_of(column).ok_or_else(|| {
            Error::Columns(format!("column '{}' does not say the type of its field", column.name()))
        })?;
        Ok(DocumentField { name: column.name().as_str().into(), data_type })
    });
    Ok(DocumentType::new(name, fields.collect::<Result<_, Error>>()?))
}

fn data_type_of(column: &Field) -> Option<DataType> {
    let name = column.metadata().get(FIELD_METADATA)?.as_str();
    Some(match (name, column.data_type()) {
        ("bool", _) => DataType::Bool,
        ("byte", _) => DataType::Byte,
        ("int", _) => DataType::Int,
        ("long", _) => DataType::Long,
        ("float16", _) => DataType::Float16,
        ("float", _) => DataType::Float,
        ("double", _) => DataType::Double,
        ("string", _) => DataType::String,
        ("uri", _) => DataType::Uri,
        ("raw", _) => DataType::Raw,
        ("predicate", _) => DataType::Predicate,
        ("position", _) => DataType::Position,
        _ if name.starts_with("tensor") => DataType::Tensor(TensorType::parse(name).ok()?),
        (_, ArrowType::List(item)) => DataType::Array(Box::new(data_type_of(item)?)),
        (_, ArrowType::Map(entries, _)) => {
            let [key, value] = entry_members(entries)?;
            let key_type = Box::new(data_type_of(key)?);
            match name.starts_with("weightedset") {
                true => DataType::WeightedSet {
                    element: key_type,
                    create_if_nonexistent: false,
                    remove_if_zero: false,
                },
                false => DataType::Map(key_type, Box::new(data_type_of(value)?)),
            }
        }
        (_, ArrowType::Struct(members)) => {
            let member = |member: &FieldRef| {
                let data_type = data_type_of(member)?;
                Some(DocumentField { name: member.name().as_str().into(), data_type })
            };
            let fields = members.iter().map(member).collect::<Option<_>>()?;
            DataType::Struct(Arc::new(StructType { name: name.to_owned(), fields }))
        }
        _ => {
            let target = name.strip_prefix("reference<").and_then(|rest| rest.strip_suffix('>'))?;
            DataType::Reference(target.to_owned())
        }
    })
}

/// Returns the type of a written column.
pub(crate) fn arrow_type(data_type: &DataType) -> ArrowType {
    match data_type {
        DataType::Bool => ArrowType::Boolean,
        DataType::Byte => ArrowType::Int8,
        DataType::Int => ArrowType::Int32,
        DataType::Long => ArrowType::Int64,
        DataType::Float16 => ArrowType::Float16,
        DataType::Float => ArrowType::Float32,
        DataType::Double => ArrowType::Float64,
        DataType::String | DataType::Uri | DataType::Predicate | DataType::Reference(_) => ArrowType::Utf8,
        DataType::Raw => ArrowType::Binary,
        DataType::Position => {
            let degrees = |name| Field::new(name, ArrowType::Float64, false);
            ArrowType::Struct(Fields::from(vec![degrees("lat"), degrees("lng")]))
        }
        DataType::Tensor(tensor_type) => tensor_column(tensor_type),
        DataType::Array(element) => ArrowType::List(Arc::new(column("item", element, true))),
        DataType::WeightedSet { element, .. } => {
            map(column("key", element, false), Field::new("value", ArrowType::Int32, true))
        }
        DataType::Map(key, value) => map(column("key", key, false), column("value", value, true)),
        DataType::Struct(struct_type) => ArrowType::Struct(
            struct_type.fields.iter().map(|member| column(&member.name, &member.data_type, true)).collect(),
        ),
    }
}

fn map(key: Field, value: Field) -> ArrowType {
    let entries = Field::new("entries", ArrowType::Struct(Fields::from(vec![key, value])), false);
    ArrowType::Map(Arc::new(entries), false)
}

/// Column of tensors: the cells of a dense one, a map of labels to blocks for one mapped dimension, else a
/// list of addresses with their blocks.
fn tensor_column(tensor_type: &TensorType) -> ArrowType {
    let block = block_type(tensor_type);
    match tensor_type.mapped().count() {
        0 => block,
        1 => map(Field::new("key", ArrowType::Utf8, false), Field::new("value", block, true)),
        _ => {
            let label = |dimension: &str| Field::new(dimension, ArrowType::Utf8, false);
            let labels = tensor_type.mapped().map(|dimension| label(&dimension.name));
            let cells = Field::new(cells_member(tensor_type), block, false);
            let address = ArrowType::Struct(labels.chain([cells]).collect());
            ArrowType::List(Arc::new(Field::new("item", address, true)))
        }
    }
}

/// Type of the cells for one address: one number without indexed dimensions, else a list of all.
pub(crate) fn block_type(tensor_type: &TensorType) -> ArrowType {
    let cell = match tensor_type.cell() {
        CellType::Double => ArrowType::Float64,
        // Arrow has no bfloat16, all of whose numbers are numbers of 32 bits.
        CellType::Float | CellType::BFloat16 => ArrowType::Float32,
        CellType::Int8 => ArrowType::Int8,
    };
    match tensor_type.mapped().count() > 0 && tensor_type.indexed().next().is_none() {
        true => cell,
        false => {
            let size = i32::try_from(tensor_type.dense_size());
            let size = size.expect("a dense subspace has less than 2^31 cells");
            ArrowType::FixedSizeList(Arc::new(Field::new("item", cell, false)), size)
        }
    }
}

/// Name of the member with the cells beside those with labels.
pub(crate) fn cells_member(tensor_type: &TensorType) -> String {
    let mut name = "value".to_owned();
    while tensor_type.mapped().any(|dimension| dimension.name == name) {
        name.push('_');
    }
    name
}

/// Members of the entries of a map: key and value.
pub(crate) fn entry_members(entries: &FieldRef) -> Option<[&FieldRef; 2]> {
    let ArrowType::Struct(members) = entries.data_type() else { return None };
    match &members[..] {
        [key, value] => Some([key, value]),
        _ => None,
    }
}

/// Describes the columns that a field takes, for messages.
pub(crate) fn taken(data_type: &DataType) -> String {
    match data_type {
        DataType::Bool => "bool".to_owned(),
        DataType::Byte | DataType::Int | DataType::Long => {
            "an integer type, or for a long timestamp[s]".to_owned()
        }
        DataType::Float16 | DataType::Float | DataType::Double => "a float or integer type".to_owned(),
        DataType::String | DataType::Uri | DataType::Predicate | DataType::Reference(_) => {
            "string".to_owned()
        }
        DataType::Raw => "binary".to_owned(),
        DataType::Position => "a struct of lat and lng in degrees, or string".to_owned(),
        DataType::Array(element) => format!("a list whose items are {}", taken(element)),
        DataType::WeightedSet { element, .. } => {
            format!("a map to integer weights whose keys are {}", taken(element))
        }
        DataType::Map(key, value) => {
            format!("a map whose keys are {} and whose values are {}", taken(key), taken(value))
        }
        DataType::Struct(_) => "a struct with members of the same names".to_owned(),
        DataType::Tensor(tensor_type) => taken_tensor(tensor_type),
    }
}

fn taken_tensor(tensor_type: &TensorType) -> String {
    let block = match tensor_type.mapped().count() > 0 && tensor_type.indexed().next().is_none() {
        true => "a number".to_owned(),
        false => format!("a list of {} numbers", tensor_type.dense_size()),
    };
    let dimensions: Vec<&str> = tensor_type.mapped().map(|dimension| &*dimension.name).collect();
    match dimensions.len() {
        0 => block,
        1 => format!("a map from labels to {block}, or a list with {block} for each of the labels 0, 1, …"),
        _ => {
            let cells = cells_member(tensor_type);
            format!("a list of structs with the labels {} and {block} as {cells}", dimensions.join(", "))
        }
    }
}
