use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use millrace_column::{Chunk, Column, ColumnKey, Form, ReadError, View};

use crate::reading::{Part, Reading, Source};
use crate::shared::Shared;
use crate::{Error, Layout, ViewScope};

/// What search sees of the store: chunks of segments and of the tail side by side.
struct StoreView {
    document_type: String,
    layout: Arc<dyn Layout>,
    sources: Vec<Source>,
    chunks: Vec<Chunk>,
}

/// The documents of a type in a scope, as they are now.
pub(crate) fn view(shared: &Shared, document_type: &str, scope: &ViewScope) -> Result<Arc<dyn View>, Error> {
    let reading = Reading::new(shared);
    let mut parts = Vec::new();
    match scope {
        ViewScope::Groups(groups) => {
            for (index, group) in groups.iter().enumerate() {
                if !groups[..index].contains(group) {
                    parts.extend(reading.group(document_type, group)?);
                }
            }
        }
        ViewScope::Buckets(_) | ViewScope::All => {
            for bucket in reading.state.within(scope) {
                parts.extend(reading.ungrouped(document_type, &bucket)?);
                let _ = reading.groups_of_bucket(document_type, &bucket, (0, ""), &mut |_, of_group| {
                    parts.extend(of_group);
                    Ok(ControlFlow::Continue(()))
                })?;
            }
        }
    }
    parts.retain(|part| part.live.as_ref().is_none_or(|words| words.iter().any(|word| *word != 0)));
    let (sources, chunks) = parts
        .into_iter()
        .map(|Part { source, info, live, .. }| (source, Chunk { documents: info.documents as usize, live }))
        .unzip();
    Ok(Arc::new(StoreView {
        document_type: document_type.to_owned(),
        layout: reading.layout,
        sources,
        chunks,
    }))
}

impl View for StoreView {
    fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    fn columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        let failed = |error: millrace_segment::Error| ReadError(Error::from(error).to_string());
        let mut columns = Vec::with_capacity(range.len());
        for run in self.sources[range].chunk_by(are_neighbours) {
            match &run[0] {
                Source::Tail(chunk) => columns.push(chunk.column(key)),
                Source::Segment { segment, section, chunk } => {
                    let chunks = *chunk..*chunk + run.len() as u32;
                    let mut read = segment.columns(*section, key, chunks.clone()).map_err(failed)?;
                    if key.form == Form::Tokens && read.iter().any(Option::is_none) {
                        let values = segment
                            .columns(*section, &ColumnKey::value(key.root()), chunks)
                            .map_err(failed)?;
                        for (column, value) in read.iter_mut().zip(&values) {
                            if let (None, Some(value)) = (&column, value) {
                                *column = self.layout.derive(&self.document_type, key, value);
                            }
                        }
                    }
                    columns.extend(read);
                }
            }
        }
        Ok(columns)
    }
}

/// Whether two chunks follow each other in a segment.
fn are_neighbours(a: &Source, b: &Source) -> bool {
    match (a, b) {
        (
            Source::Segment { segment: of_a, section: section_a, chunk: a },
            Source::Segment { segment: of_b, section: section_b, chunk: b },
        ) => Arc::ptr_eq(of_a, of_b) && section_a == section_b && a + 1 == *b,
        _ => false,
    }
}
