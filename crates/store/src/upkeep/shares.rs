//! Shares of several buckets in a file.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_bucket::{BucketId, LocationRange};
use millrace_segment::{RangeMeasure, SegmentFile, measure};

use crate::Error;
use crate::state::manifest::SegmentRecord;
use crate::state::{BucketSegment, StoredBucket};

/// Shares of files, by bucket and file number.
#[derive(Default)]
pub(crate) struct FileShares(HashMap<(BucketId, u64), RangeMeasure>);

impl FileShares {
    /// Adds the shares of these buckets, which are in the order of keys, in a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn measure<'b>(
        &mut self,
        segment: &SegmentFile,
        buckets: impl Iterator<Item = &'b Arc<StoredBucket>>,
    ) -> Result<(), Error> {
        let (ids, ranges): (Vec<BucketId>, Vec<LocationRange>) =
            buckets.map(|bucket| (bucket.id, bucket.reversed_range())).unzip();
        let measured = measure(segment, &ranges)?;
        assert!(measured.len() == ids.len(), "each bucket has its own share of the file");
        self.0.extend(ids.into_iter().map(|id| (id, segment.number())).zip(measured));
        Ok(())
    }

    /// Shares of the buckets that others are split into. A file that cannot be read is left out: a later read
    /// of its documents reports the error.
    pub fn of_split(whole: &[Arc<StoredBucket>], parts: &[Arc<StoredBucket>]) -> Self {
        let mut shares = FileShares::default();
        for old in whole.iter().filter(|bucket| !bucket.segments.is_empty()) {
            let begin =
                parts.partition_point(|part| part.reversed_range().first < old.reversed_range().first);
            let count = parts[begin..]
                .partition_point(|part| part.reversed_range().last <= old.reversed_range().last);
            if count > 1 {
                for segment in old.segments.iter().filter_map(|segment| segment.opened.as_ref().ok()) {
                    let _ = shares.measure(segment, parts[begin..begin + count].iter());
                }
            }
        }
        shares
    }

    /// Sets the measured shares in these buckets.
    pub fn set_in(&self, buckets: &mut [Arc<StoredBucket>]) {
        let is_known = |bucket: &StoredBucket| {
            bucket.segments.iter().any(|file| self.0.contains_key(&(bucket.id, file.record.number)))
        };
        for bucket in buckets.iter_mut().filter(|bucket| is_known(bucket)) {
            let segments = bucket.segments.iter().map(|file| self.with_share(bucket.id, file)).collect();
            *bucket = Arc::new(StoredBucket { id: bucket.id, segments });
        }
    }

    /// True if this bucket has nothing of a file.
    pub fn lacks(&self, bucket: BucketId, file: &BucketSegment) -> bool {
        self.0.get(&(bucket, file.record.number)).is_some_and(|measured| measured.bytes == 0)
    }

    /// The file with the share of this bucket. For a bucket that was not measured it is unchanged.
    pub fn with_share(&self, bucket: BucketId, file: &BucketSegment) -> BucketSegment {
        let measured = self.0.get(&(bucket, file.record.number));
        let record = measured.map_or(file.record, |measured| SegmentRecord {
            bytes: measured.bytes,
            documents: measured.documents,
            ..file.record
        });
        BucketSegment { record, opened: file.opened.clone() }
    }
}
