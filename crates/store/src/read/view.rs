use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use millrace_column::{ChunkIdentity, Column, ColumnKey, ExecutionPaths, ReadError, View, ViewChunk};
use millrace_segment::SegmentFile;

use crate::context::StoreContext;
use crate::read::layout_conversion::{NeighbourChunks, TargetLayout};
use crate::read::pieces::RowOrder;
use crate::read::reading::{ChunkPart, ChunkSource, GroupPosition, StoreSnapshot};
use crate::{Error, ViewScope};

/// View of the store for search: chunks of segments and of the tail side by side.
pub(super) struct StoreView {
    target: TargetLayout,
    sources: Vec<ChunkSource>,
    /// Flags of the sources that are known to be chunks without a rest.
    plain: Vec<AtomicBool>,
    chunks: Vec<ViewChunk>,
    paths: ExecutionPaths,
}

/// The documents of a type in a scope, as they are now.
pub(crate) fn view(
    shared: &StoreContext,
    document_type: &str,
    scope: &ViewScope,
) -> Result<Arc<dyn View>, Error> {
    let reading = StoreSnapshot::new(shared, RowOrder::Age);
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
                let from = GroupPosition::FIRST;
                let _ = reading.groups_of_bucket(document_type, &bucket, from, &mut |_, of_group| {
                    parts.extend(of_group);
                    Ok(ControlFlow::Continue(()))
                })?;
            }
        }
    }
    Ok(Arc::new(StoreView::new(reading, document_type, parts)))
}

/// Function that reads columns of adjacent chunks from a segment: all of them, or the first.
type Read =
    fn(&SegmentFile, usize, &ColumnKey, Range<u32>) -> Result<Vec<Option<Column>>, millrace_segment::Error>;

impl StoreView {
    /// View of chunks as they were found. Those without a document that counts are left out.
    pub fn new(reading: StoreSnapshot<'_>, document_type: &str, mut parts: Vec<ChunkPart>) -> Self {
        parts.retain(|part| part.live.as_ref().is_none_or(|words| words.iter().any(|word| *word != 0)));
        let (sources, chunks): (Vec<ChunkSource>, Vec<ViewChunk>) = parts
            .into_iter()
            .map(|ChunkPart { source, info, live, .. }| {
                (source, ViewChunk { documents: info.documents as usize, live })
            })
            .unzip();
        let target = TargetLayout {
            document_type: document_type.to_owned(),
            layout: reading.layout,
            layout_number: reading.layout_number,
            cache: Arc::clone(&reading.shared.caches.converted),
        };
        let plain = sources.iter().map(|_| AtomicBool::new(false)).collect();
        StoreView { target, sources, plain, chunks, paths: reading.shared.options.paths }
    }

    /// A column of the sources from `first` on that are neighbours in `run`, read in this way.
    fn of_run(
        &self,
        key: &ColumnKey,
        first: usize,
        run: &[ChunkSource],
        read: Read,
    ) -> Result<Vec<Option<Column>>, ReadError> {
        let failed = |error: Error| ReadError(error.to_string());
        match &run[0] {
            ChunkSource::Tail(chunk) => Ok(vec![chunk.column(key).map_err(failed)?]),
            ChunkSource::Segment { segment, section, chunk } => {
                let chunks = *chunk..*chunk + run.len() as u32;
                let mut columns =
                    read(segment, *section, key, chunks).map_err(|error| failed(error.into()))?;
                let chunks = *chunk..*chunk + columns.len() as u32;
                let plain = &self.plain[first..first + columns.len()];
                let of = NeighbourChunks { segment, section: *section, chunks };
                self.target.convert(key, &of, &mut columns, plain).map_err(failed)?;
                Ok(columns)
            }
        }
    }
}

impl View for StoreView {
    fn chunks(&self) -> &[ViewChunk] {
        &self.chunks
    }

    fn columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        let mut columns = Vec::with_capacity(range.len());
        let mut first = range.start;
        for run in self.sources[range].chunk_by(are_neighbours) {
            columns.extend(self.of_run(key, first, run, SegmentFile::columns)?);
            first += run.len();
        }
        Ok(columns)
    }

    fn first_columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        match self.sources[range.clone()].chunk_by(are_neighbours).next() {
            Some(run) => self.of_run(key, range.start, run, SegmentFile::first_columns),
            None => Ok(Vec::new()),
        }
    }

    fn will_read(&self, key: &ColumnKey, range: Range<usize>) {
        if let Some(run) = self.sources[range].chunk_by(are_neighbours).next()
            && let ChunkSource::Segment { segment, section, chunk } = &run[0]
        {
            segment.will_read(*section, key, *chunk..*chunk + run.len() as u32);
        }
    }

    fn paths(&self) -> ExecutionPaths {
        self.paths
    }

    fn identity(&self, chunk: usize) -> Option<ChunkIdentity> {
        Some(match self.sources.get(chunk)? {
            ChunkSource::Segment { segment, section, chunk } => {
                ChunkIdentity::Segment { segment: segment.number(), section: *section as u32, chunk: *chunk }
            }
            ChunkSource::Tail(rows) => ChunkIdentity::Rows(rows.number),
        })
    }
}

/// Returns true if two chunks follow each other in a segment.
fn are_neighbours(a: &ChunkSource, b: &ChunkSource) -> bool {
    match (a, b) {
        (
            ChunkSource::Segment { segment: of_a, section: section_a, chunk: a },
            ChunkSource::Segment { segment: of_b, section: section_b, chunk: b },
        ) => Arc::ptr_eq(of_a, of_b) && section_a == section_b && a + 1 == *b,
        _ => false,
    }
}
