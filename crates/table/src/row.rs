//! Rows of a table as documents.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use millrace_document::{Document, DocumentGroup, DocumentId, DocumentType, FieldSet, json};
use millrace_tensor::json::{CellNumbers, TensorFormat, TensorShape};

use crate::Error;
use crate::arrow::{is_label, name_of};
use crate::cell::{CellReader, misfit_member};
use crate::column::{TYPE_METADATA, id_column, taken};
use crate::shape::shape_fault;
use crate::size::RowSize;

/// Way in which the rows of a table become documents of one type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowMapping {
    /// Namespace of the ids; the name of the document type if there is none.
    pub namespace: Option<String>,
    /// Column with the ids of the documents, or their names.
    pub id: Option<String>,
    /// Column with the groups of the documents.
    pub group_column: Option<String>,
    /// Group of all documents.
    pub group: Option<DocumentGroup>,
    /// True to leave out columns, and members of structs in columns, that are not fields.
    pub ignores_unknown_columns: bool,
}

impl RowMapping {
    /// Name of the document type that a table was written from.
    pub fn document_type_of(schema: &Schema) -> Option<&str> {
        schema.metadata().get(TYPE_METADATA).map(String::as_str)
    }
}

/// Format of tensors in puts as JSON.
const TENSORS: TensorFormat =
    TensorFormat { shape: TensorShape::Hex, direct: true, numbers: CellNumbers::Exact };

/// A row of a table, whose values are read when they are needed. It keeps its record batch.
#[derive(Debug, Clone)]
pub struct TableRow {
    reader: Arc<TableRowReader>,
    batch: Arc<RecordBatch>,
    at: usize,
    size: RowSize,
}

impl TableRow {
    /// Memory that the values take once they are read, in bytes.
    pub const fn memory_bytes(&self) -> usize {
        self.size.memory
    }

    /// Bytes of the contents alone: numbers at their width, texts, cells and labels of tensors.
    pub const fn content_bytes(&self) -> usize {
        self.size.content
    }

    /// Reads the row as a document.
    ///
    /// # Errors
    /// [`Error::Value`]: a value is not one of its field; the text names the column.
    pub fn document(&self, id: DocumentId) -> Result<Document, Error> {
        self.reader.document(&self.batch, self.at, id)
    }

    /// Reads the row as a put in JSON, with the cells of tensors as hexadecimal digits.
    ///
    /// # Errors
    /// [`Error::Value`]: a value is not one of its field; the text names the column.
    pub fn put_json(&self, id: &DocumentId) -> Result<Vec<u8>, Error> {
        let document = self.document(id.clone())?;
        let fields = json::fields(&document, None, &FieldSet::All, TENSORS);
        let mut put = b"{\"put\":".to_vec();
        let written = serde_json::to_writer(&mut put, id.as_str()).and_then(|()| {
            put.extend_from_slice(b",\"fields\":");
            serde_json::to_writer(&mut put, &fields)
        });
        written.map_err(|error| Error::value(error.to_string()))?;
        put.push(b'}');
        Ok(put)
    }
}

/// Reader of the rows of a table.
#[derive(Debug)]
pub(crate) struct TableRowReader {
    document_type: String,
    namespace: String,
    id: usize,
    group: RowGroup,
    fields: Vec<FieldColumn>,
}

/// Group of the documents whose row has only a name.
#[derive(Debug)]
enum RowGroup {
    Same(DocumentGroup),
    Column(usize),
}

/// Column with the values of a field.
#[derive(Debug)]
struct FieldColumn {
    /// Number of the column.
    column: usize,
    name: Arc<str>,
    reader: CellReader,
}

impl TableRowReader {
    /// Compares the columns with the fields of the document type.
    ///
    /// # Errors
    /// A column is missing, or has a type that its field does not take; the text lists all of them.
    pub(crate) fn new(
        schema: &Schema,
        document_type: &DocumentType,
        mapping: &RowMapping,
    ) -> Result<Self, Error> {
        let type_name = document_type.name();
        let id_name = mapping.id.clone().unwrap_or_else(|| id_column(document_type));
        let id = name_column(schema, &id_name, "id")?;
        let group = match (&mapping.group_column, &mapping.group) {
            (Some(name), None) => RowGroup::Column(name_column(schema, name, "group")?),
            (None, group) => RowGroup::Same(group.clone().unwrap_or(DocumentGroup::None)),
            (Some(_), Some(_)) => {
                let reason = "group names a column with the groups, and groupname one group for all rows: leave out one of them";
                return Err(Error::Columns(reason.to_owned()));
            }
        };
        let (mut fields, mut refused, mut names) = (Vec::new(), Vec::new(), HashSet::new());
        for (at, column) in schema.fields().iter().enumerate() {
            let name = column.name();
            if !names.insert(name) {
                refused.push(format!("there are two columns '{name}'; leave out one of them"));
                continue;
            }
            let Some(field) = document_type.field(name) else {
                let is_used = at == id || matches!(group, RowGroup::Column(group) if group == at);
                if !is_used && !mapping.ignores_unknown_columns {
                    refused.push(format!(
                        "column '{name}' is not a field of {type_name}; leave it out, or rename it"
                    ));
                }
                continue;
            };
            let (arrow, data_type) = (column.data_type(), &field.data_type);
            let ignores_unknown = mapping.ignores_unknown_columns;
            let reader = CellReader::new(arrow, data_type, ignores_unknown);
            match (reader, shape_fault(column, data_type)) {
                (Some(reader), None) => {
                    fields.push(FieldColumn { column: at, name: Arc::clone(&field.name), reader });
                }
                (Some(_), Some(fault)) => refused.push(format!("column '{name}' {fault}")),
                (None, _) => {
                    let cure = misfit_member(arrow, data_type, ignores_unknown)
                        .unwrap_or_else(|| format!("cast it to {}", taken(data_type)));
                    refused.push(format!("column '{name}' is {arrow}, and the field is {data_type}; {cure}"));
                }
            }
        }
        match refused.is_empty() {
            true => Ok(TableRowReader {
                document_type: type_name.to_string(),
                namespace: mapping.namespace.clone().unwrap_or_else(|| type_name.to_string()),
                id,
                group,
                fields,
            }),
            false => Err(Error::Columns(refused.join(". "))),
        }
    }

    /// A row of a batch, and the id of its document.
    ///
    /// # Errors
    /// It has no id, or its values take more memory than `memory_max`.
    pub(crate) fn row(
        self: &Arc<Self>,
        batch: &Arc<RecordBatch>,
        at: usize,
        memory_max: usize,
    ) -> Result<(DocumentId, TableRow), Error> {
        let id = self.id(batch, at)?;
        let mut size = RowSize::default();
        for FieldColumn { column, name, reader } in &self.fields {
            size = size + reader.size(batch.column(*column).as_ref(), at);
            if size.memory > memory_max {
                let reason = format!("column '{name}': the row takes more than {memory_max} bytes in memory");
                return Err(Error::value(reason));
            }
        }
        let (reader, batch) = (Arc::clone(self), Arc::clone(batch));
        Ok((id, TableRow { reader, batch, at, size }))
    }

    /// Reads a row.
    ///
    /// # Errors
    /// It has a value that its field does not take.
    fn document(&self, batch: &RecordBatch, at: usize, id: DocumentId) -> Result<Document, Error> {
        let mut fields = Vec::with_capacity(self.fields.len());
        for FieldColumn { column, name, reader } in &self.fields {
            let value = reader.read(batch.column(*column).as_ref(), at);
            let value = value.map_err(|error| Error::value(format!("column '{name}': {error}")))?;
            // As in JSON, a field without content is absent.
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                fields.push((Arc::clone(name), value));
            }
        }
        Ok(Document { id, fields })
    }

    fn id(&self, batch: &RecordBatch, row: usize) -> Result<DocumentId, Error> {
        let name = name_of(batch.column(self.id).as_ref(), row);
        let name = name.ok_or_else(|| Error::value("the row has no id: its cell is null"))?;
        let id = match name.starts_with("id:") {
            true => DocumentId::parse(&name),
            false => DocumentId::new(&self.namespace, &self.document_type, &self.group(batch, row)?, &name),
        };
        let id = id.map_err(|error| Error::value(error.to_string()))?;
        if id.document_type() != self.document_type {
            let reason = format!("{id} is a document of another type than {}", self.document_type);
            return Err(Error::value(reason));
        }
        Ok(id)
    }

    fn group(&self, batch: &RecordBatch, row: usize) -> Result<DocumentGroup, Error> {
        match &self.group {
            RowGroup::Same(group) => Ok(group.clone()),
            RowGroup::Column(column) => match name_of(batch.column(*column).as_ref(), row) {
                Some(name) if !name.is_empty() => Ok(DocumentGroup::Name(name)),
                _ => Err(Error::value("the row has no group: its cell is null or empty")),
            },
        }
    }
}

/// Number of a column with names.
fn name_column(schema: &Schema, name: &str, part: &str) -> Result<usize, Error> {
    let Some((at, column)) = schema.fields().find(name) else {
        let known: Vec<&str> = schema.fields().iter().map(|column| column.name().as_str()).collect();
        return Err(Error::Columns(format!(
            "the column '{name}' for the {part} is missing; name another by the parameter {part}: the table has {}",
            known.join(", ")
        )));
    };
    match is_label(column.data_type()) {
        true => Ok(at),
        false => Err(Error::Columns(format!(
            "column '{name}' is {}, and the {part} is a string or an integer; cast it to one of them",
            column.data_type()
        ))),
    }
}
