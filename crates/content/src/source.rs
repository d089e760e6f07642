//! Source of transfers from this node to others.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_bucket::BucketId;
use millrace_document::{DocumentId, DocumentVersion, DroppedScope, Timestamp};
use millrace_peer::{
    ParcelHead, PeerVersionKey, PeerVersionPage, TransferFault, TransferParcel, TransferSource,
};

use crate::TransferThrottle;
use crate::storage::StoreReplicas;

/// Number of versions in a page.
pub(crate) const PAGE: usize = 4096;

/// Maximum bytes of documents in one answer; a larger document is sent alone.
const ANSWER_BYTES: u64 = 16 << 20;

/// Size of the pieces in which a parcel is throttled, in bytes: the receiver must not wait long between two.
const PIECE_BYTES: usize = 256 << 10;

/// A store's replicas, as a source for other nodes.
pub struct StoreSource {
    replicas: Arc<StoreReplicas>,
    throttle: Arc<TransferThrottle>,
    leaving: Arc<AtomicU64>,
}

impl StoreSource {
    pub(crate) fn new(replicas: Arc<StoreReplicas>, throttle: Arc<TransferThrottle>) -> Self {
        StoreSource { replicas, throttle, leaving: Arc::default() }
    }

    /// Number of buckets that others have requested as a whole, and may not have completely.
    pub fn leaving(&self) -> u64 {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Creates the source of a store that is not in a cluster.
    pub fn of(store: &millrace_store::Store, throttle: Arc<TransferThrottle>) -> Self {
        StoreSource::new(Arc::new(StoreReplicas::new(store.clone())), throttle)
    }
}

/// Outgoing buckets; counted as long as this lives.
struct LeavingBuckets {
    all: Arc<AtomicU64>,
    buckets: u64,
}

impl LeavingBuckets {
    fn new(all: &Arc<AtomicU64>, buckets: usize) -> Self {
        let buckets = buckets as u64;
        all.fetch_add(buckets, Ordering::Relaxed);
        LeavingBuckets { all: Arc::clone(all), buckets }
    }
}

impl std::ops::Drop for LeavingBuckets {
    fn drop(&mut self) {
        self.all.fetch_sub(self.buckets, Ordering::Relaxed);
    }
}

impl TransferSource for StoreSource {
    fn export(&self, buckets: &[BucketId]) -> Result<Vec<Box<dyn TransferParcel>>, TransferFault> {
        let parcels = self.replicas.store().export(buckets).map_err(TransferFault::of)?;
        let leaving = Arc::new(LeavingBuckets::new(&self.leaving, buckets.len()));
        let parcel = |parcel| {
            let (throttle, leaving) = (Arc::clone(&self.throttle), Arc::clone(&leaving));
            Box::new(StoreParcel { parcel, throttle, _leaving: leaving })
        };
        Ok(parcels.into_iter().map(|of| parcel(of) as Box<dyn TransferParcel>).collect())
    }

    fn versions(&self, bucket: BucketId, after: Option<&str>) -> Result<PeerVersionPage, TransferFault> {
        // All remembered versions: an excess over the compared ones is harmless.
        let page = self.replicas.store().versions(bucket, Timestamp(0), after, PAGE);
        let page = page.map_err(TransferFault::of)?;
        let versions = page.versions.into_iter();
        Ok(PeerVersionPage {
            versions: versions.map(|key| PeerVersionKey { id: key.id, timestamp: key.timestamp }).collect(),
            after: page.after,
        })
    }

    fn drops(&self, bucket: BucketId) -> Result<Vec<DroppedScope>, TransferFault> {
        self.replicas.store().drops(bucket).map_err(TransferFault::of)
    }

    fn bodies(&self, ids: &[DocumentId]) -> Result<Vec<DocumentVersion>, TransferFault> {
        let (mut versions, mut bytes) = (Vec::new(), 0);
        for id in ids {
            let found = self.replicas.store().version(id).map_err(TransferFault::of)?;
            let Some(version) = found else { continue };
            let more = version.body.as_ref().map_or(0, |body| body.len() as u64);
            if !versions.is_empty() && bytes + more > ANSWER_BYTES {
                break;
            }
            bytes += more;
            versions.push(version);
        }
        self.throttle.pass(bytes);
        Ok(versions)
    }
}

struct StoreParcel {
    parcel: millrace_store::ExportParcel,
    throttle: Arc<TransferThrottle>,
    /// The connection keeps the parcels of an export until it ends, or requests another.
    _leaving: Arc<LeavingBuckets>,
}

impl TransferParcel for StoreParcel {
    fn head(&self) -> ParcelHead {
        let shares = self.parcel.shares().iter();
        ParcelHead {
            shares: shares.map(|share| (share.bucket, share.bytes, share.documents)).collect(),
            bytes: self.parcel.file_bytes(),
            identity: self.parcel.identity(),
        }
    }

    fn outline(&self) -> Vec<u32> {
        self.parcel.outline()
    }

    fn write_to(&self, from: u64, out: &mut (dyn Write + Send)) -> io::Result<()> {
        let mut out = ConnectionFile { out, throttle: &self.throttle };
        self.parcel.write_to(from, &mut out).map_err(io::Error::other)
    }
}

/// A connection as an append-only file.
struct ConnectionFile<'o> {
    out: &'o mut (dyn Write + Send),
    throttle: &'o TransferThrottle,
}

impl millrace_env::AppendFile for ConnectionFile<'_> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(PIECE_BYTES).try_for_each(|piece| {
            self.throttle.pass(piece.len() as u64);
            self.out.write_all(piece)
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        // The receiver syncs it.
        Ok(())
    }
}
