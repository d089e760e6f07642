//! Messages of a transfer, as values.

use millrace_bucket::BucketId;
use millrace_document::{DocumentId, DocumentVersion, DroppedScope, Timestamp};
use serde::{Deserialize, Serialize};

/// A version without its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerVersionKey {
    /// Id of the document.
    pub id: DocumentId,
    /// Time of the write.
    pub timestamp: Timestamp,
}

/// Some of a replica's versions, in the order of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerVersionPage {
    /// The versions.
    pub versions: Vec<PeerVersionKey>,
    /// Start of the next page; `None` at the end.
    pub after: Option<String>,
}

/// Header of a parcel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParcelHead {
    /// Approximate bytes and documents of each bucket.
    pub shares: Vec<(BucketId, u64, u64)>,
    /// Length in bytes; `None` if it is not known in advance.
    pub bytes: Option<u64>,
    /// Equal for parcels of one node with the same bytes; `None` if they cannot be identified.
    pub identity: Option<u64>,
}

/// A question. New ones come last, in the next protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TransferQuestion {
    /// Contents of these buckets.
    Export(Vec<BucketId>),
    /// A parcel of the last export, by its index, from a byte offset on.
    Parcel { place: u64, from: u64 },
    /// A page of versions of a bucket.
    Versions { bucket: BucketId, after: Option<String> },
    /// Drops that affect a bucket.
    Drops(BucketId),
    /// Newest versions of these documents.
    Bodies(Vec<DocumentId>),
}

/// Answer to a [`TransferQuestion`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TransferAnswer {
    /// Reason why the question is not answered.
    Refused(String),
    Export(Vec<ParcelHead>),
    /// Outline of a parcel, whose bytes follow in pieces.
    Parcel(Vec<u32>),
    Versions(PeerVersionPage),
    Drops(Vec<DroppedScope>),
    Bodies(Vec<DocumentVersion>),
}

/// Kind of an answer that is not a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransferKind {
    Export,
    Parcel,
    Versions,
    Drops,
    Bodies,
}
