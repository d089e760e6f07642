use std::ops::Range;

use hashbrown::HashMap;
use millrace_column::{Column, ColumnKey, ReadError, View};

use crate::Error;

/// Number of documents whose small columns are read together.
const WINDOW_DOCUMENTS: usize = 32 * 1024;

/// Columns of adjacent chunks. Each is read when its first value is needed, so unused columns are not read.
pub(crate) struct ColumnWindow<'v> {
    view: &'v dyn View,
    chunks: Range<usize>,
    columns: HashMap<ColumnKey, (usize, Vec<Option<Column>>)>,
}

impl<'v> ColumnWindow<'v> {
    /// The window that starts at chunk `first`.
    pub(crate) fn starting_at(view: &'v dyn View, first: usize) -> Self {
        let mut documents = 0;
        let fits = view.chunks()[first..].iter().take_while(|chunk| {
            documents += chunk.documents;
            documents <= WINDOW_DOCUMENTS
        });
        let count = fits.count().max(1);
        ColumnWindow { view, chunks: first..first + count, columns: HashMap::new() }
    }

    /// Chunks of the window.
    pub(crate) fn chunks(&self) -> Range<usize> {
        self.chunks.clone()
    }

    /// A column of a chunk of the window. The columns of following chunks are read together with it, as far
    /// as one read returns them.
    pub(crate) fn column(&mut self, key: &ColumnKey, chunk: usize) -> Result<Option<Column>, Error> {
        let known = self.columns.get(key);
        let column = match known.and_then(|(first, columns)| columns.get(chunk.checked_sub(*first)?)) {
            Some(column) => column.clone(),
            None => {
                let is_fast = self.view.paths().is_fast();
                let rest = chunk..if is_fast { self.chunks.end } else { chunk + 1 };
                if known.is_none() && is_fast {
                    self.view.will_read(key, rest.clone());
                }
                let columns = self.view.first_columns(key, rest)?;
                let Some(column) = columns.first().cloned() else {
                    // Treating it as a column that the chunk lacks would hide matches.
                    return Err(Error::Read(ReadError(format!(
                        "column {key} of chunk {chunk} did not come; ask again"
                    ))));
                };
                self.columns.insert(key.clone(), (chunk, columns));
                column
            }
        };
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
