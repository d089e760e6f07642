use std::collections::HashMap;
use std::ops::Range;

use millrace_column::{Column, ColumnKey, ReadError, View};

use crate::Error;

/// Of how many documents small columns are read together.
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

    /// A column of a chunk of the window, read together with those of chunks after it as far as they come at once.
    pub(crate) fn column(&mut self, key: &ColumnKey, chunk: usize) -> Result<Option<Column>, Error> {
        let first = match self.columns.get(key) {
            Some((first, columns)) if (*first..first + columns.len()).contains(&chunk) => *first,
            known => {
                let rest = chunk..self.chunks.end;
                if known.is_none() {
                    self.view.will_read(key, rest.clone());
                }
                let columns = self.view.first_columns(key, rest)?;
                if columns.is_empty() {
                    // Taken for a column that the chunk lacks, it would hide what matches.
                    return Err(Error::Read(ReadError(format!(
                        "column {key} of chunk {chunk} did not come; ask again"
                    ))));
                }
                self.columns.insert(key.clone(), (chunk, columns));
                chunk
            }
        };
        let column = self.columns[key].1.get(chunk - first).cloned().flatten();
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
