//! Single versions out of chunks, as a visit returns them.

use millrace_column::{Column, ColumnForm, ColumnKey};
use millrace_document::{Document, DocumentId, Timestamp};

use crate::read::columns::{self, ValueColumn};
use crate::read::reading::{ChunkPart, ChunkSource, StoreSnapshot};
use crate::{Error, StoreVisit, VisitedVersion};

/// Reads documents out of chunks; the columns that were read of a chunk stay at hand.
pub(crate) struct RowReader<'a> {
    reading: &'a StoreSnapshot<'a>,
    document_type: &'a str,
    parts: &'a [ChunkPart],
    visit: &'a StoreVisit,
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
    pub fn new(
        reading: &'a StoreSnapshot<'a>,
        visit: &'a StoreVisit,
        document_type: &'a str,
        parts: &'a [ChunkPart],
    ) -> Self {
        RowReader {
            reading,
            document_type,
            parts,
            visit,
            columns: parts.iter().map(|_| PartColumns::default()).collect(),
        }
    }

    /// The chunks that it reads from.
    pub fn parts(&self) -> &'a [ChunkPart] {
        self.parts
    }

    /// Returns a version, or `None` if the filter of the visit refuses it.
    pub fn read(
        &mut self,
        id: DocumentId,
        number: usize,
        row: usize,
        timestamp: u64,
    ) -> Result<Option<VisitedVersion>, Error> {
        let timestamp = Timestamp(timestamp);
        let visit = self.visit;
        let part = &self.parts[number];
        if let ChunkSource::Tail(chunk) = &part.source {
            let row = &chunk.rows[row];
            if row.removed {
                return Ok(Some(VisitedVersion::Removed(id, timestamp)));
            }
            let document = row.decode()?.document;
            let is_wanted = visit.filter.as_ref().is_none_or(|filter| filter.accepts(&document));
            return Ok(is_wanted.then_some(VisitedVersion::Document(document, timestamp)));
        }
        let removed = match &mut self.columns[number].removed {
            Some(removed) => removed,
            place => place.insert(part.column(&ColumnKey::removed())?),
        };
        if let Some(Column::Fixed(removed)) = removed
            && removed.integer(row) == Some(1)
        {
            return Ok(Some(VisitedVersion::Removed(id, timestamp)));
        }
        if let Some(filter) = &visit.filter {
            if self.columns[number].filtered.is_none() {
                self.columns[number].filtered = Some(self.value_columns(part, Some(filter.fields()))?);
            }
            let columns = self.columns[number].filtered.as_deref().unwrap_or_default();
            if !filter.accepts(&stored(part, id.clone(), row, columns)?) {
                return Ok(None);
            }
        }
        if self.columns[number].wanted.is_none() {
            self.columns[number].wanted = Some(self.value_columns(part, visit.fields.as_deref())?);
        }
        let columns = self.columns[number].wanted.as_deref().unwrap_or_default();
        let document = stored(part, id, row, columns)?;
        Ok(Some(VisitedVersion::Document(document, timestamp)))
    }
}

/// The document in a row of a segment, with the values that are in these columns.
fn stored(part: &ChunkPart, id: DocumentId, row: usize, columns: &[ValueColumn]) -> Result<Document, Error> {
    columns::document(id, row, columns).map_err(|error| corrupt(part, &error))
}

fn corrupt(part: &ChunkPart, error: &millrace_column::Error) -> Error {
    Error::Corrupt { path: part.path().to_owned(), offset: 0, reason: error.to_string() }
}

impl RowReader<'_> {
    /// The columns of a part of a segment in which values of these fields can be; `None`: of all fields.
    fn value_columns(&self, part: &ChunkPart, fields: Option<&[String]>) -> Result<Vec<ValueColumn>, Error> {
        let ChunkSource::Segment { segment, section, .. } = &part.source else { return Ok(Vec::new()) };
        let is_wanted = |key: &&ColumnKey| match key.form {
            ColumnForm::Value => fields.is_none_or(|fields| fields.contains(&key.field)),
            // Any field can be in the rest.
            ColumnForm::Rest => fields.is_none_or(|fields| !fields.is_empty()),
            _ => false,
        };
        let mut columns = Vec::new();
        for key in segment.sections()[*section].columns.iter().filter(is_wanted) {
            let column = ValueColumn::new(&*self.reading.layout, self.document_type, key, part.column(key)?);
            columns.extend(column.map_err(|error| corrupt(part, &error))?);
        }
        Ok(columns)
    }
}
