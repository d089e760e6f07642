use std::collections::HashMap;
use std::ops::Range;

use millrace_column::{Column, ColumnKey, ReadError, View};

use crate::Error;

/// How many documents' columns are read together.
const WINDOW_DOCUMENTS: usize = 32 * 1024;

/// Columns of neighbouring chunks, each read when its first value is asked for: a column that no document needs is not read.
pub(crate) struct Window<'v> {
    view: &'v dyn View,
    chunks: Range<usize>,
    columns: HashMap<ColumnKey, (usize, Vec<Option<Column>>)>,
}

impl<'v> Window<'v> {
    /// The window that begins at chunk `first`.
    pub(crate) fn starting_at(view: &'v dyn View, first: usize) -> Self {
        let mut documents = 0;
        let fits = view.chunks()[first..].iter().take_while(|chunk| {
            documents += chunk.documents;
            documents <= WINDOW_DOCUMENTS
        });
        let count = fits.count().max(1);
        Window { view, chunks: first..first + count, columns: HashMap::new() }
    }

    /// Its chunks.
    pub(crate) fn chunks(&self) -> Range<usize> {
        self.chunks.clone()
    }

    /// A column of a chunk of the window, read together with that of all chunks after it.
    pub(crate) fn column(&mut self, key: &ColumnKey, chunk: usize) -> Result<Option<Column>, Error> {
        if !self.columns.contains_key(key) {
            let columns = self.view.columns(key, chunk..self.chunks.end)?;
            self.columns.insert(key.clone(), (chunk, columns));
        }
        let (first, columns) = &self.columns[key];
        let column = columns.get(chunk - first).cloned().flatten();
        let documents = self.view.chunks()[chunk].documents;
        match column {
            Some(column) if column.len() != documents => Err(Error::Read(ReadError(format!(
                "column {key} of chunk {chunk} has {} documents, and the chunk {documents}; check the data directory",
                column.len(),
            )))),
            column => Ok(column),
        }
    }
}
