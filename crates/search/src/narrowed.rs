use std::ops::Range;
use std::sync::Arc;

use millrace_column::{Column, ColumnKey, ExecutionPaths, ReadError, View, ViewChunk};
use millrace_document::{Document, DocumentId};
use millrace_schema::Schema;
use millrace_selection::DocumentSelection;

use crate::SearchDeadline;
use crate::deadline::SearchStep;

/// A view of the documents of another view that match document selections.
pub struct SelectedView<V> {
    view: V,
    chunks: Vec<ViewChunk>,
    complete: bool,
}

impl<V: View> SelectedView<V> {
    /// Tests the live documents of a view: of each list, one selection must match. `now()` in selections is
    /// `now_s`. Documents that the deadline leaves no time for do not pass.
    ///
    /// # Errors
    /// A column cannot be read.
    pub fn new(
        view: V,
        schema: &Schema,
        selections: &[Vec<&DocumentSelection>],
        now_s: i64,
        deadline: &SearchDeadline,
    ) -> Result<Self, ReadError> {
        let mut fields: Vec<&str> =
            selections.iter().flatten().flat_map(|selection| selection.fields(&schema.name)).collect();
        fields.sort_unstable();
        fields.dedup();
        let matches = |document: &Document| {
            selections.iter().all(|any| any.iter().any(|selection| selection.matches(document, now_s)))
        };
        let mut narrowed = SelectedView { chunks: view.chunks().to_vec(), view, complete: true };
        for number in 0..narrowed.chunks.len() {
            let chunk = &mut narrowed.chunks[number];
            let mut live = vec![0u64; chunk.documents.div_ceil(64)];
            if deadline.ends(SearchStep::Scan) {
                narrowed.complete = false;
            } else {
                let documents = SelectedDocuments::read(&narrowed.view, schema, &fields, number)?;
                for document in (0..chunk.documents).filter(|document| is_live(chunk, *document)) {
                    let passes = documents.at(document).is_some_and(|document| matches(&document));
                    live[document / 64] |= u64::from(passes) << (document % 64);
                }
            }
            chunk.live = Some(live);
        }
        Ok(narrowed)
    }

    /// Returns true if there was time to test all documents.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

impl<V: View> View for SelectedView<V> {
    fn chunks(&self) -> &[ViewChunk] {
        &self.chunks
    }

    fn columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        self.view.columns(key, range)
    }

    fn first_columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        self.view.first_columns(key, range)
    }

    fn will_read(&self, key: &ColumnKey, range: Range<usize>) {
        self.view.will_read(key, range);
    }

    fn paths(&self) -> ExecutionPaths {
        self.view.paths()
    }
}

pub(crate) fn is_live(chunk: &ViewChunk, document: usize) -> bool {
    chunk
        .live
        .as_ref()
        .is_none_or(|live| live.get(document / 64).is_some_and(|word| word >> (document % 64) & 1 == 1))
}

/// The documents of a chunk, as far as a selection looks at them.
struct SelectedDocuments<'s> {
    ids: Option<Column>,
    fields: Vec<(&'s Arc<str>, &'s millrace_document::DataType, Column)>,
}

impl<'s> SelectedDocuments<'s> {
    fn read(view: &dyn View, schema: &'s Schema, names: &[&str], chunk: usize) -> Result<Self, ReadError> {
        let column = |key: &ColumnKey| -> Result<Option<Column>, ReadError> {
            Ok(view.columns(key, chunk..chunk + 1)?.into_iter().next().flatten())
        };
        let mut fields = Vec::new();
        for name in names {
            if let Some((name, field)) = schema.fields.get_key_value(*name)
                && let Some(values) = column(&ColumnKey::value(name))?
            {
                fields.push((name, &field.data_type, values));
            }
        }
        Ok(SelectedDocuments { ids: column(&ColumnKey::id())?, fields })
    }

    fn at(&self, document: usize) -> Option<Document> {
        let Some(Column::Bytes(ids)) = &self.ids else { return None };
        let id = DocumentId::parse(std::str::from_utf8(ids.get(document)?).ok()?).ok()?;
        let mut fields = Vec::with_capacity(self.fields.len());
        for (name, data_type, column) in &self.fields {
            let value = millrace_column::value(column, data_type, document);
            fields.extend(value.map(|value| (Arc::clone(*name), value)));
        }
        Some(Document { id, fields })
    }
}
