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
