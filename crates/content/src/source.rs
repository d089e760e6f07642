//! What other nodes fetch from this one.

use std::io::{self, Write};
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::{DocumentId, Drop, Timestamp, Version};
use millrace_peer::{Parcel, Source, VersionKey, VersionPage};

use crate::storage::Replicas;

/// Versions in a page.
pub(crate) const PAGE: usize = 4096;

/// A store's replicas, as others fetch them.
pub(crate) struct StoreSource(pub(crate) Arc<Replicas>);

impl Source for StoreSource {
    fn export(&self, buckets: &[BucketId]) -> Result<Vec<Box<dyn Parcel>>, String> {
        let parcels = self.0.store().export(buckets).map_err(|error| error.to_string())?;
        Ok(parcels.into_iter().map(|parcel| Box::new(StoreParcel(parcel)) as Box<dyn Parcel>).collect())
    }

    fn versions(&self, bucket: BucketId, after: Option<&str>) -> Result<VersionPage, String> {
        // All that is remembered: more than what is compared does no harm.
        let page = self.0.store().versions(bucket, Timestamp(0), after, PAGE);
        let page = page.map_err(|error| error.to_string())?;
        let versions = page.versions.into_iter();
        Ok(VersionPage {
            versions: versions.map(|key| VersionKey { id: key.id, timestamp: key.timestamp }).collect(),
            after: page.after,
        })
    }

    fn drops(&self, bucket: BucketId) -> Result<Vec<Drop>, String> {
        self.0.store().drops(bucket).map_err(|error| error.to_string())
    }

    fn bodies(&self, ids: &[DocumentId]) -> Result<Vec<Version>, String> {
        let read = |id| self.0.store().version(id).map_err(|error| error.to_string()).transpose();
        ids.iter().filter_map(read).collect()
    }
}

struct StoreParcel(millrace_store::Parcel);

impl Parcel for StoreParcel {
    fn shares(&self) -> Vec<(BucketId, u64, u64)> {
        self.0.shares().iter().map(|share| (share.bucket, share.bytes, share.documents)).collect()
    }

    fn write_to(&self, out: &mut (dyn Write + Send)) -> io::Result<()> {
        self.0.write_to(&mut Appending(out)).map_err(io::Error::other)
    }
}

/// A connection as a file that is only written.
struct Appending<'o>(&'o mut (dyn Write + Send));

impl millrace_env::AppendFile for Appending<'_> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        // It is synced where it arrives.
        Ok(())
    }
}
