//! What each of several buckets has of a file that they share.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_segment::{Measured, Segment, measure};

use crate::Error;
use crate::state::manifest::SegmentRecord;
use crate::state::{Bucket, BucketSegment};

/// A file's shares, by buckets and the file's number.
#[derive(Default)]
pub(crate) struct Shares(HashMap<(BucketId, u64), Measured>);

impl Shares {
    /// Adds what these buckets, which are in the order of keys, have of a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn measure<'b>(
        &mut self,
        segment: &Segment,
        buckets: impl Iterator<Item = &'b Arc<Bucket>>,
    ) -> Result<(), Error> {
        let (ids, places): (Vec<BucketId>, Vec<(u64, u64)>) =
            buckets.map(|bucket| (bucket.id, bucket.places())).unzip();
        let measured = measure(segment, &places)?;
        self.0.extend(ids.into_iter().map(|id| (id, segment.number())).zip(measured));
        Ok(())
    }

    /// What buckets have that others are split into. A file that cannot be read is left out: whoever needs its documents finds out.
    pub fn of_split(whole: &[Arc<Bucket>], parts: &[Arc<Bucket>]) -> Self {
        let mut shares = Shares::default();
        for old in whole.iter().filter(|bucket| !bucket.segments.is_empty()) {
            let begin = parts.partition_point(|part| part.places().0 < old.places().0);
            let count = parts[begin..].partition_point(|part| part.places().1 <= old.places().1);
            if count > 1 {
                for segment in old.segments.iter().filter_map(|segment| segment.opened.as_ref().ok()) {
                    let _ = shares.measure(segment, parts[begin..begin + count].iter());
                }
            }
        }
        shares
    }

    /// Gives the buckets that were measured what they have.
    pub fn give(&self, buckets: &mut [Arc<Bucket>]) {
        let is_known = |bucket: &Bucket| {
            bucket.segments.iter().any(|file| self.0.contains_key(&(bucket.id, file.record.number)))
        };
        for bucket in buckets.iter_mut().filter(|bucket| is_known(bucket)) {
            let segments = bucket.segments.iter().map(|file| self.of(bucket.id, file)).collect();
            *bucket = Arc::new(Bucket { id: bucket.id, segments });
        }
    }

    /// The file as this bucket has it. A bucket that was not measured has it as it is given.
    pub fn of(&self, bucket: BucketId, file: &BucketSegment) -> BucketSegment {
        let measured = self.0.get(&(bucket, file.record.number));
        let record = measured.map_or(file.record, |measured| SegmentRecord {
            bytes: measured.bytes,
            documents: measured.documents,
            ..file.record
        });
        BucketSegment { record, opened: file.opened.clone() }
    }
}
