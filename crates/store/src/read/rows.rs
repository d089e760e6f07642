//! Single versions in chunks, as a visit finds them.

use std::cell::{OnceCell, RefCell};
use std::path::Path;
use std::sync::Arc;

use millrace_bucket::DocumentSortKey;
use millrace_column::{BytesColumn, Column, ColumnKey, ColumnValue, FixedColumn};
use millrace_document::{Document, DocumentGroup, DocumentId, DocumentValue, Timestamp, ValueRef, wire};

use crate::read::columns::{self, ValueColumn};
use crate::read::masks::lacks_keys;
use crate::read::read_ahead::ColumnsAhead;
use crate::read::reading::{ChunkPart, ChunkSource, StoreSnapshot, TAIL};
use crate::tail::{RowKey, damaged_row};
use crate::{Error, StoreVisit, VisitedVersion};

/// Version that a visit found, read where it lies. It is valid while the visit calls back with it.
pub struct VisitedRow<'a> {
    id: &'a str,
    group: &'a DocumentGroup,
    timestamp: Timestamp,
    path: &'a Path,
    content: VisitedContent<'a>,
    /// The document, once it was asked for.
    made: OnceCell<Document>,
}

enum VisitedContent<'a> {
    Removed,
    /// A row of the tail, or on its way there: the wire form of its fields, and those of them that are
    /// required (`None`: all).
    Encoded(&'a [u8], Option<&'a [String]>),
    /// A row of a segment.
    Columns(&'a [ValueColumn], usize),
}

/// Value of a field in a [`VisitedRow`].
pub enum VisitedValue<'a> {
    /// A text or an encoded value in a column or a row.
    InPlace(ValueRef<'a>),
    /// A value that was decoded.
    Decoded(DocumentValue),
}

impl<'a> VisitedRow<'a> {
    /// A row of the tail with the wire form of its fields; `None` for a removal.
    pub(crate) fn committed(key: &RowKey<'a>, group: &'a DocumentGroup, fields: Option<&'a [u8]>) -> Self {
        let content = fields.map_or(VisitedContent::Removed, |fields| VisitedContent::Encoded(fields, None));
        let (id, timestamp, path) = (key.id, key.timestamp, Path::new(TAIL));
        VisitedRow { id, group, timestamp, path, content, made: OnceCell::new() }
    }

    /// Id of the document, as text.
    pub fn id(&self) -> &'a str {
        self.id
    }

    /// Time of the version.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// True if the version is a removal.
    pub fn is_removed(&self) -> bool {
        matches!(self.content, VisitedContent::Removed)
    }

    /// Group of the document.
    pub fn group(&self) -> &'a DocumentGroup {
        self.group
    }

    /// Appends the bytes of the document's [`DocumentSortKey`].
    pub fn write_sort_key(&self, bytes: &mut Vec<u8>) {
        DocumentSortKey::write(self.id, self.group, bytes);
    }

    /// Value of a field that the visit requires; `None` if the document has none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not one.
    pub fn value(&self, field: &str) -> Result<Option<VisitedValue<'a>>, Error> {
        let (columns, row) = match self.content {
            VisitedContent::Removed => return Ok(None),
            VisitedContent::Encoded(fields, _) => {
                let found = ValueRef::named(fields, field).map_err(|error| self.unreadable(&error))?;
                return Ok(found.map(VisitedValue::InPlace));
            }
            VisitedContent::Columns(columns, row) => (columns, row),
        };
        let damaged = |error: millrace_column::Error| corrupt(self.path, &error);
        for column in columns {
            if let ValueColumn::Field { name, values } = column
                && **name == *field
                && let Some(found) = values.read(row).map_err(damaged)?
            {
                return Ok(Some(match found {
                    ColumnValue::InPlace(value) => VisitedValue::InPlace(value),
                    ColumnValue::Decoded(value) => VisitedValue::Decoded(value),
                }));
            }
        }
        for column in columns {
            if let ValueColumn::Overflow(column) = column
                && let Some(bytes) = column.get(row)
            {
                let rest = wire::decode_named(bytes).map_err(|_| {
                    damaged(millrace_column::Error::Corrupt("the rest of a document is not one"))
                })?;
                let found = rest.into_iter().find(|(name, _)| **name == *field);
                return Ok(found.map(|(_, value)| VisitedValue::Decoded(value)));
            }
        }
        Ok(None)
    }

    /// The version, with the values of the fields that the visit requires.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not one.
    pub fn version(&self) -> Result<VisitedVersion, Error> {
        let document = match self.content {
            VisitedContent::Removed => {
                return Ok(VisitedVersion::Removed(self.document_id()?, self.timestamp));
            }
            VisitedContent::Encoded(fields, wanted) => {
                let fields = decoded(fields, wanted).map_err(|error| self.unreadable(&error))?;
                Document { id: self.document_id()?, fields }
            }
            VisitedContent::Columns(columns, row) => stored(self.path, self.document_id()?, row, columns)?,
        };
        Ok(VisitedVersion::Document(document, self.timestamp))
    }

    /// The document of [`VisitedRow::version`], which is made once; `None` for a removal.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not one.
    pub fn document(&self) -> Result<Option<&Document>, Error> {
        if let Some(made) = self.made.get() {
            return Ok(Some(made));
        }
        Ok(match self.version()? {
            VisitedVersion::Document(document, _) => Some(self.made.get_or_init(|| document)),
            VisitedVersion::Removed(..) => None,
        })
    }

    /// Error of a row of the tail.
    fn unreadable(&self, error: &millrace_document::Error) -> Error {
        Error::Corrupt { path: self.path.to_owned(), offset: 0, reason: error.to_string() }
    }

    /// Id of the document.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not one.
    pub fn document_id(&self) -> Result<DocumentId, Error> {
        DocumentId::parse(self.id).map_err(|_| lacks_keys(self.path))
    }
}

/// Reader of versions in chunks; the columns that were read of a chunk stay at hand.
pub(crate) struct RowReader<'a> {
    reading: &'a StoreSnapshot<'a>,
    document_type: &'a str,
    group: &'a DocumentGroup,
    parts: &'a [ChunkPart],
    visit: &'a StoreVisit,
    /// Columns that are read together with those of the next chunks.
    ahead: Option<&'a RefCell<ColumnsAhead>>,
    columns: Vec<PartColumns>,
}

/// Columns of one part.
#[derive(Default)]
struct PartColumns {
    removed: Option<Option<Column>>,
    /// Columns that the filter reads.
    filtered: Option<Vec<ValueColumn>>,
    /// Columns of the wanted fields.
    wanted: Option<Vec<ValueColumn>>,
}

impl<'a> RowReader<'a> {
    /// A reader of the parts of a group.
    pub fn new(
        reading: &'a StoreSnapshot<'a>,
        visit: &'a StoreVisit,
        document_type: &'a str,
        group: &'a DocumentGroup,
        parts: &'a [ChunkPart],
        ahead: Option<&'a RefCell<ColumnsAhead>>,
    ) -> Self {
        let columns = parts.iter().map(|_| PartColumns::default()).collect();
        RowReader { reading, document_type, group, parts, visit, ahead, columns }
    }

    /// The chunks that it reads from.
    pub fn parts(&self) -> &'a [ChunkPart] {
        self.parts
    }

    /// The group that they are of.
    pub fn group(&self) -> &'a DocumentGroup {
        self.group
    }

    /// Gives up the columns of a part that is not read any more.
    pub fn leave(&mut self, number: usize) {
        self.columns[number] = PartColumns::default();
    }

    /// The ids and the timestamps of a part ([`ChunkPart::keys`]).
    pub fn keys(&self, number: usize) -> Result<(BytesColumn, FixedColumn), Error> {
        self.parts[number].keys_of(|key| self.column(number, key))
    }

    fn column(&self, number: usize, key: &ColumnKey) -> Result<Option<Column>, Error> {
        let part = &self.parts[number];
        match (&part.source, self.ahead) {
            (ChunkSource::Segment { segment, section, chunk }, Some(ahead)) => {
                ahead.borrow_mut().column((&**segment, *section, *chunk), key, part.info.documents)
            }
            _ => part.column(key),
        }
    }

    /// Returns a version, or `None` if the filter of the visit refuses it.
    pub fn read<'r>(
        &'r mut self,
        id: &'r str,
        number: usize,
        row: usize,
        timestamp: u64,
    ) -> Result<Option<VisitedRow<'r>>, Error> {
        let (visit, parts) = (self.visit, self.parts);
        let part = &parts[number];
        let (path, group) = (part.path(), self.group);
        let timestamp = Timestamp(timestamp);
        let found =
            |content| Ok(Some(VisitedRow { id, group, timestamp, path, content, made: OnceCell::new() }));
        if let ChunkSource::Tail(chunk) = &part.source {
            let row = &chunk.rows[row];
            let Some(fields) = row.fields()? else { return found(VisitedContent::Removed) };
            if let Some(filter) = &visit.filter {
                let parsed = DocumentId::parse(id).map_err(|_| lacks_keys(path))?;
                let fields = decoded(fields, Some(filter.fields())).map_err(|error| damaged_row(&error))?;
                if !filter.accepts(&Document { id: parsed, fields }) {
                    return Ok(None);
                }
            }
            return found(VisitedContent::Encoded(fields, visit.fields.as_deref()));
        }
        if part.info.removed > 0 && self.is_removed(number, row)? {
            return found(VisitedContent::Removed);
        }
        if let Some(filter) = &visit.filter {
            if self.columns[number].filtered.is_none() {
                self.columns[number].filtered = Some(self.value_columns(number, Some(filter.fields()))?);
            }
            let columns = self.columns[number].filtered.as_deref().unwrap_or_default();
            let parsed = DocumentId::parse(id).map_err(|_| lacks_keys(path))?;
            if !filter.accepts(&stored(path, parsed, row, columns)?) {
                return Ok(None);
            }
        }
        if self.columns[number].wanted.is_none() {
            self.columns[number].wanted = Some(self.value_columns(number, visit.fields.as_deref())?);
        }
        let columns = self.columns[number].wanted.as_deref().unwrap_or_default();
        found(VisitedContent::Columns(columns, row))
    }

    fn is_removed(&mut self, number: usize, row: usize) -> Result<bool, Error> {
        if self.columns[number].removed.is_none() {
            self.columns[number].removed = Some(self.column(number, &ColumnKey::removed())?);
        }
        Ok(match self.columns[number].removed.as_ref().and_then(Option::as_ref) {
            Some(Column::Fixed(removed)) => removed.integer(row) == Some(1),
            _ => false,
        })
    }

    /// The columns of a part of a segment in which values of these fields can be; `None`: of all fields.
    fn value_columns(&self, number: usize, fields: Option<&[String]>) -> Result<Vec<ValueColumn>, Error> {
        let part = &self.parts[number];
        let ChunkSource::Segment { segment, section, .. } = &part.source else { return Ok(Vec::new()) };
        let held = &segment.sections()[*section].columns;
        let mut columns = Vec::new();
        for key in held.iter().filter(|key| columns::can_hold(key, fields)) {
            let column = self.column(number, key)?;
            let column = ValueColumn::new(&*self.reading.layout, self.document_type, key, column);
            columns.extend(column.map_err(|error| corrupt(part.path(), &error))?);
        }
        Ok(columns)
    }
}

/// The required ones of fields in their wire form; `None`: all.
fn decoded(
    fields: &[u8],
    wanted: Option<&[String]>,
) -> Result<Vec<(Arc<str>, DocumentValue)>, millrace_document::Error> {
    match wanted {
        Some(wanted) => wire::decode_some(fields, |name| wanted.iter().any(|field| *field == *name)),
        None => wire::decode_named(fields),
    }
}

/// The document in a row of a segment, with the values that are in these columns.
fn stored(path: &Path, id: DocumentId, row: usize, columns: &[ValueColumn]) -> Result<Document, Error> {
    columns::document(id, row, columns).map_err(|error| corrupt(path, &error))
}

fn corrupt(path: &Path, error: &millrace_column::Error) -> Error {
    Error::Corrupt { path: path.to_owned(), offset: 0, reason: error.to_string() }
}
