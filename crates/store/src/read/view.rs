use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use millrace_column::{Chunk, Column, ColumnKey, Form, PathChoice, ReadError, View};
use millrace_segment::Segment;

use crate::read::pieces::Order;
use crate::read::reading::{Part, Reading, Source};
use crate::shared::Shared;
use crate::{Error, Layout, ViewScope};

/// What search sees of the store: chunks of segments and of the tail side by side.
struct StoreView {
    document_type: String,
    layout: Arc<dyn Layout>,
    sources: Vec<Source>,
    chunks: Vec<Chunk>,
    paths: PathChoice,
}

/// The documents of a type in a scope, as they are now.
pub(crate) fn view(shared: &Shared, document_type: &str, scope: &ViewScope) -> Result<Arc<dyn View>, Error> {
    let reading = Reading::new(shared, Order::Age);
    let mut parts = Vec::new();
    match scope {
        ViewScope::Groups(groups) | ViewScope::GroupsIn(groups, _) => {
            for (index, group) in groups.iter().enumerate() {
                if !groups[..index].contains(group) {
                    parts.extend(reading.group(document_type, group, scope.within())?);
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
        paths: shared.options.paths,
    }))
}

/// How columns of neighbouring chunks are read from a segment: all of them, or the first.
type Read =
    fn(&Segment, usize, &ColumnKey, Range<u32>) -> Result<Vec<Option<Column>>, millrace_segment::Error>;

impl StoreView {
    /// A column of chunks that are neighbours, read in this way.
    fn of_run(&self, key: &ColumnKey, run: &[Source], read: Read) -> Result<Vec<Option<Column>>, ReadError> {
        let failed = |error: millrace_segment::Error| ReadError(Error::from(error).to_string());
        match &run[0] {
            Source::Tail(chunk) => Ok(vec![chunk.column(key)]),
            Source::Segment { segment, section, chunk } => {
                let chunks = *chunk..*chunk + run.len() as u32;
                let mut columns = read(segment, *section, key, chunks).map_err(failed)?;
                if key.form == Form::Tokens && columns.iter().any(Option::is_none) {
                    let chunks = *chunk..*chunk + columns.len() as u32;
                    let values = ColumnKey::value(key.root());
                    let values = segment.columns(*section, &values, chunks).map_err(failed)?;
                    for (column, value) in columns.iter_mut().zip(&values) {
                        if let (None, Some(value)) = (&column, value) {
                            *column = self.layout.derive(&self.document_type, key, value);
                        }
                    }
                }
                Ok(columns)
            }
        }
    }
}

impl View for StoreView {
    fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    fn columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        let mut columns = Vec::with_capacity(range.len());
        for run in self.sources[range].chunk_by(are_neighbours) {
            columns.extend(self.of_run(key, run, Segment::columns)?);
        }
        Ok(columns)
    }

    fn first_columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        match self.sources[range].chunk_by(are_neighbours).next() {
            Some(run) => self.of_run(key, run, Segment::first_columns),
            None => Ok(Vec::new()),
        }
    }

    fn will_read(&self, key: &ColumnKey, range: Range<usize>) {
        if let Some(run) = self.sources[range].chunk_by(are_neighbours).next()
            && let Source::Segment { segment, section, chunk } = &run[0]
        {
            segment.will_read(*section, key, *chunk..*chunk + run.len() as u32);
        }
    }

    fn paths(&self) -> PathChoice {
        self.paths
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
