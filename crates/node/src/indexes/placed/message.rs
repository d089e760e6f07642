//! Messages between nodes about placed indexes. Their serialized forms are part of the protocol between
//! nodes, from [`PLACED_INDEXES`](millrace_cluster::PLACED_INDEXES) on.

use std::collections::BTreeSet;
use std::fmt;

use millrace_bucket::BucketId;
use millrace_cluster::NodeKey;
use millrace_document::Timestamp;
use millrace_index_feed::{
    BatchReceipt, CopyMarks, FeedBatch, FeedCut, FeedRead, FeedReadScope, FollowRequest, OwnerPosition,
};
use millrace_index_placement::{CopyId, SliceId};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Question of a node to another about placed indexes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PlacedQuestion {
    /// To a node with documents: follow these buckets. Answered by [`PlacedAnswer::Taken`], or by
    /// [`PlacedAnswer::Cut`] if the session has ended.
    Follow {
        /// The node that asks.
        follower: NodeKey,
        /// The request.
        request: FollowRequest,
        /// Hashes of the definitions whose keys the rows should have.
        definitions: BTreeSet<u64>,
    },
    /// To a node with documents: read documents of many buckets. The pages come in the feed: those that fit
    /// into an answer, and pages without content for the others, which are asked for again. Answered by
    /// [`PlacedAnswer::Taken`].
    Read {
        /// The node that asks.
        follower: NodeKey,
        /// The reads, in their order.
        reads: Vec<KeyedRead>,
    },
    /// To a node with copies: changes. Answered by [`PlacedAnswer::Receipt`].
    Batch {
        /// The node that has the documents.
        owner: NodeKey,
        /// The changes.
        batch: FeedBatch<VersionKeys>,
    },
    /// To a node with copies: a session has ended. Answered by [`PlacedAnswer::Taken`].
    Cut {
        /// The node that has the documents.
        owner: NodeKey,
        /// The session.
        cut: FeedCut,
    },
    /// To a node with documents: the position of the feed. Answered by [`PlacedAnswer::Position`].
    Position {
        /// The node with the copy that is to have everything before the position.
        follower: NodeKey,
    },
    /// To a node with copies: offer one as files. Answered by [`PlacedAnswer::Exported`].
    Export {
        /// The slice that it is of.
        slice: SliceId,
    },
    /// To a node that offers a copy: a parcel of it. Answered by [`PlacedAnswer::Parcel`].
    Parcel {
        /// Number of the offer.
        export: u64,
        /// Number of the run in the header.
        run: u32,
        /// Offset in the run.
        offset: u64,
    },
    /// To a node that offers a copy: it is not needed any more. Answered by [`PlacedAnswer::Taken`].
    CloseExport {
        /// Number of the offer.
        export: u64,
    },
    /// To a node with copies: entries of one. Answered by [`PlacedAnswer::Scanned`].
    Scan(CopyScan),
    /// To a node with copies: what one has of some documents of a bucket. Answered by
    /// [`PlacedAnswer::Recorded`].
    Records(CopyRecords),
    /// To the owner of a bucket: what documents of it should have in an index. Answered by
    /// [`PlacedAnswer::Documents`].
    Documents(OwnedDocuments),
    /// To a node with copies: erase what was dropped until a time. Answered by [`PlacedAnswer::Erased`].
    Erase {
        /// The time.
        until: Timestamp,
    },
}

/// Read of documents for all copies of one type on a node that need it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyedRead {
    /// The request.
    pub read: FeedRead,
    /// Hashes of the definitions whose keys the page should have.
    pub definitions: BTreeSet<u64>,
}

/// Answer to a [`PlacedQuestion`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PlacedAnswer {
    /// Done, or to be done.
    Taken,
    /// The session has ended.
    Cut(FeedCut),
    /// Receipt of a batch; `None` if the node has no such session.
    Receipt(Option<BatchReceipt>),
    /// Position of the feed.
    Position(OwnerPosition),
    /// Offer of a copy.
    Exported {
        /// Number of the offer.
        export: u64,
        /// The header, as [`millrace_index::CopyHeader::encode`] writes it.
        header: MessageBytes,
        /// Marks of what the copy has.
        marks: CopyMarks,
    },
    /// The bytes of a parcel, of which the header has the checksum.
    Parcel(MessageBytes),
    /// Entries of a copy.
    Scanned(CopyScanned),
    /// Documents that have entries in a copy, in their order, each with its keys; `None` if there are too
    /// many.
    Recorded(Option<RecordedDocuments>),
    /// Documents that should have entries, in their order, each with its keys.
    Documents {
        /// The documents.
        documents: RecordedDocuments,
        /// The last document up to which these are all; `None` at the end of the bucket.
        until: Option<Vec<u8>>,
    },
    /// Time until which no file of the node's copies has anything of dropped documents.
    Erased(Timestamp),
}

/// Documents, each with the keys of its entries.
pub type RecordedDocuments = Vec<(Vec<u8>, Vec<Vec<u8>>)>;

/// Question for what a copy has of documents of a bucket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyRecords {
    /// The slice.
    pub slice: SliceId,
    /// The copy.
    pub copy: CopyId,
    /// The bucket.
    pub bucket: BucketId,
    /// Buckets inside of it, whose documents are not of it.
    pub excluded: Vec<BucketId>,
    /// Documents after this one; `None` for all.
    pub after: Option<Vec<u8>>,
    /// Documents up to this one; `None` for all.
    pub until: Option<Vec<u8>>,
    /// Milliseconds in which the copy is to have every write that was acknowledged before the question.
    pub timeout_ms: u64,
}

/// Question for what documents of a bucket should have in an index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnedDocuments {
    /// The bucket.
    pub bucket: BucketId,
    /// Hash of the definition of the index.
    pub definition: u64,
    /// The documents.
    pub scope: FeedReadScope,
}

/// Question for entries of a copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyScan {
    /// The slice.
    pub slice: SliceId,
    /// The copy.
    pub copy: CopyId,
    /// Ranges of keys: the lowest key, and the key above all, if there is one. Sorted, without overlap.
    pub ranges: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Start of the page; `None` for the first.
    pub from: Option<Vec<u8>>,
    /// Maximum number of entries.
    pub limit: u64,
    /// True to get the number of entries alone, up to the limit.
    pub count: bool,
    /// Milliseconds that the copy may wait until it has every write that was acknowledged before the question
    /// was asked, or names the buckets of which it may lack some; `None`: it answers with what it has.
    pub timeout_ms: Option<u64>,
}

/// Entries of a copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct CopyScanned {
    /// Version of the cluster state by which the copy has every acknowledged write; it is to be confirmed. 0
    /// if that was not asked for.
    pub version: u64,
    /// Keys of the entries, their documents, and the times of their versions, in the order of the keys.
    pub entries: Vec<(Vec<u8>, Vec<u8>, u64)>,
    /// Number of entries.
    pub count: u64,
    /// Start of the next page; `None` at the end.
    pub continuation: Option<Vec<u8>>,
    /// Buckets of which the copy may lack acknowledged writes, because nothing better came in time: their
    /// documents are to be read.
    pub missing: Vec<BucketId>,
}

/// Keys of a version by the definitions of indexes, which are given by their hashes; none for a removal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VersionKeys(pub Vec<(u64, Vec<Vec<u8>>)>);

impl VersionKeys {
    /// Keys by a definition; `None` if the node that sent them does not know it.
    pub fn by_definition(&self, definition: u64) -> Option<&[Vec<u8>]> {
        let keys = self.0.iter().find(|(known, _)| *known == definition);
        keys.map(|(_, keys)| keys.as_slice())
    }
}

/// Bytes that are sent as a whole.
#[derive(Clone, PartialEq, Eq)]
pub struct MessageBytes(pub Vec<u8>);

impl fmt::Debug for MessageBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for MessageBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for MessageBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;

        impl de::Visitor<'_> for BytesVisitor {
            type Value = MessageBytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<MessageBytes, E> {
                Ok(MessageBytes(bytes.to_vec()))
            }

            fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<MessageBytes, E> {
                Ok(MessageBytes(bytes))
            }
        }

        deserializer.deserialize_byte_buf(BytesVisitor)
    }
}
