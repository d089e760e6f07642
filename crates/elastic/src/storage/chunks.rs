//! Documents of a group in the chunks of this node's own store, for readers that keep what they make of them.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::time::Duration;

use millrace_access::{Permit, WantedGroups};
use millrace_column::{BytesColumn, ChunkIdentity, Column, ColumnKey, View, ViewChunk};
use millrace_document::{Document, DocumentId, DocumentValue, wire};
use millrace_node::cluster::{own_bucket, wait_for};
use millrace_node::{Node, pool};
use millrace_store::ViewScope;

use super::{ELASTIC_TYPE, StorageGroup};
use crate::Error;
use crate::source_text::SourceText;

/// Time for the owner of a group to say who has its documents. Without an answer they are read one by one,
/// for which it is asked again.
const ASKING_TIME: Duration = Duration::from_secs(2);

/// Chunks of a group as they are now.
#[derive(Clone)]
pub(crate) struct GroupChunks(Arc<dyn View>);

impl GroupChunks {
    /// Chunks of a group; `None` if the store lacks documents of it that other nodes have, or if the node
    /// takes plain paths. No locks may be held: it may be asked of other nodes what this one has.
    ///
    /// # Errors
    /// The store cannot be read; another node fails.
    pub(crate) fn of(node: &Arc<Node>, group: StorageGroup) -> Result<Option<Self>, Error> {
        if !node.paths().is_fast() {
            return Ok(None);
        }
        let groups = vec![group.group()];
        let store = node.permitted_store(&Permit::of_server(), WantedGroups::These(&groups));
        let Some(cluster) = node.cluster().view()? else {
            return Ok(Some(GroupChunks(store.view(ELASTIC_TYPE, &ViewScope::Groups(groups))?)));
        };
        let buckets = cluster.buckets_of(&groups[0])?;
        let [bucket] = buckets.as_slice() else { return Ok(None) };
        let own = || wait_for(node, own_bucket(node, &groups[0], *bucket, ASKING_TIME));
        let Some(fence) = pool::wait_without_slot(own)?? else { return Ok(None) };
        let view = store.view(ELASTIC_TYPE, &ViewScope::GroupsIn(groups.clone(), buckets.clone()))?;
        // What is in the view stays there, wherever the documents move from now on.
        Ok(fence.check(node).is_ok().then_some(GroupChunks(view)))
    }

    /// The chunks, with the documents that are live.
    pub(crate) fn all(&self) -> &[ViewChunk] {
        self.0.chunks()
    }

    /// Identity of a chunk.
    pub(crate) fn identity(&self, chunk: usize) -> Option<ChunkIdentity> {
        self.0.identity(chunk)
    }

    /// A row of a chunk.
    pub(crate) fn row(&self, chunk: usize, row: usize) -> ChunkRow {
        ChunkRow { chunks: self.clone(), chunk, row }
    }

    /// Documents of a chunk.
    ///
    /// # Errors
    /// The store cannot be read, or a document has no values.
    pub(crate) fn documents(&self, chunk: usize) -> Result<ChunkDocuments, Error> {
        let column = |key: &ColumnKey| -> Result<BytesColumn, Error> {
            let columns = self.0.columns(key, chunk..chunk + 1);
            match columns.map_err(|error| Error::Internal(error.to_string()))?.pop().flatten() {
                Some(Column::Bytes(column)) => Ok(column),
                _ => Err(Error::Internal(format!("a chunk of documents lacks its column {key}"))),
            }
        };
        Ok(ChunkDocuments { ids: column(&ColumnKey::id())?, values: column(&ColumnKey::overflow())? })
    }
}

/// Row of a chunk, whose document is read later.
#[derive(Clone)]
pub(crate) struct ChunkRow {
    chunks: GroupChunks,
    chunk: usize,
    row: usize,
}

impl Debug for ChunkRow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "row {} of chunk {}", self.row, self.chunk)
    }
}

impl ChunkRow {
    /// Document of the row.
    ///
    /// # Errors
    /// The store cannot be read, or the row is damaged.
    pub(crate) fn document(&self) -> Result<Document, Error> {
        self.chunks.documents(self.chunk)?.document(self.row)
    }
}

/// Documents of a chunk, row by row.
pub(crate) struct ChunkDocuments {
    ids: BytesColumn,
    /// Values of each document: no schema has columns for the type.
    values: BytesColumn,
}

impl ChunkDocuments {
    /// Number of the rows, those without a document among them.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Document of a row.
    ///
    /// # Errors
    /// The row is damaged.
    pub(crate) fn document(&self, row: usize) -> Result<Document, Error> {
        let text = self.ids.get(row).and_then(|id| std::str::from_utf8(id).ok());
        let id = text.and_then(|id| DocumentId::parse(id).ok()).ok_or_else(damaged)?;
        Ok(Document { id, fields: self.fields(row)? })
    }

    /// Text of the document of a row, and its sequence number; those of an empty one for a row without a
    /// document.
    ///
    /// # Errors
    /// The row is damaged.
    pub(crate) fn source(&self, row: usize) -> Result<(SourceText, i64), Error> {
        let (mut source, mut seq_no): (SourceText, i64) = ("{}".into(), 0);
        for (name, value) in self.fields(row)? {
            match (&*name, value) {
                ("source", DocumentValue::String(text)) => source = text.into(),
                ("seq_no", DocumentValue::Long(number)) => seq_no = number,
                _ => {}
            }
        }
        Ok((source, seq_no))
    }

    fn fields(&self, row: usize) -> Result<Vec<(Arc<str>, DocumentValue)>, Error> {
        let fields = self.values.get(row).map(wire::decode_named).transpose();
        fields.map(Option::unwrap_or_default).map_err(|_| damaged())
    }
}

fn damaged() -> Error {
    Error::Internal("a row of documents is damaged".to_owned())
}
