//! Segments from their creation until the manifest lists them.

use millrace_segment::SegmentWriter;
use parking_lot::Mutex;

use crate::Error;
use crate::context::StoreContext;
use crate::state::manifest::{RenameDurability, SegmentRecord};
use crate::state::{BucketSegment, StoreState};

/// Segments that no manifest lists yet. Dropping it deletes their files, so that failed work releases its
/// space, unless a manifest may list them by then.
pub(crate) struct NewSegments<'a> {
    shared: &'a StoreContext,
    numbers: Mutex<Vec<u64>>,
}

impl<'a> NewSegments<'a> {
    pub fn new(shared: &'a StoreContext) -> Self {
        NewSegments { shared, numbers: Mutex::default() }
    }

    /// Finishes a segment, whose file is named after `number`, and opens it. Drops up to the time `applied`
    /// are applied in it.
    pub fn finish(
        &self,
        number: u64,
        writer: SegmentWriter<'_>,
        applied: u64,
    ) -> Result<BucketSegment, Error> {
        let summary = writer.finish()?;
        self.numbers.lock().push(number);
        let record = SegmentRecord { number, bytes: summary.bytes, documents: summary.documents, applied };
        Ok(BucketSegment { record, opened: Ok(self.shared.open_segment(number)?) })
    }

    /// Publishes a state that includes them.
    pub fn publish(
        mut self,
        change: impl FnOnce(&StoreState) -> Result<StoreState, Error>,
    ) -> Result<(), Error> {
        let published = self.shared.try_publish(change);
        if !matches!(&published, Err(unwritten) if unwritten.in_place == RenameDurability::No) {
            self.numbers.get_mut().clear();
        }
        Ok(published?)
    }
}

impl Drop for NewSegments<'_> {
    fn drop(&mut self) {
        for number in self.numbers.get_mut() {
            // The caller that dropped them has a more informative error to report; the next start tries
            // again.
            let _ = self.shared.options.disk.unlink(&self.shared.segment_path(*number));
        }
    }
}
