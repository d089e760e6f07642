//! Reading of stale buckets: their documents are read in the store, and records without a document go.

use std::collections::HashSet;

use millrace_bucket::{BucketId, DocumentSortKey};
use millrace_store::{StoreVisit, ViewScope};
use xxhash_rust::xxh3::xxh3_64;

use super::opened::OpenedIndex;
use super::service::{IndexesInner, is_in};
use crate::Error;

/// Buckets that are read before other work goes on.
const BUCKETS: usize = 8;

/// Documents of a step, during which queries wait.
const PAGE: usize = 1024;

/// Maximum number of documents of a bucket that are remembered as read; others are looked up.
const READ_MAX: usize = 1 << 22;

impl IndexesInner {
    /// Reads some stale buckets again for all indexes; `false` if there are none.
    ///
    /// # Errors
    /// The first error of buckets that cannot be read, if none could: they stay stale.
    pub fn reread_stale(&self) -> Result<bool, Error> {
        let _one_at_a_time = self.rereading.lock();
        let (mut reread, mut failure) = (0, None);
        for stale in self.feed.stale.idle() {
            if reread == BUCKETS || self.feed.is_stopped() {
                break;
            }
            match self.reread_bucket(stale.bucket) {
                Ok(()) => {
                    self.feed.stale.mark_read(stale);
                    reread += 1;
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(error) if reread == 0 => Err(error),
            _ => Ok(reread > 0),
        }
    }

    /// Reads a bucket for all indexes.
    ///
    /// # Errors
    /// The bucket cannot be read, or the first error of an index, which it notes; others read it all the
    /// same.
    fn reread_bucket(&self, bucket: BucketId) -> Result<(), Error> {
        let mut reread = Ok(());
        // A deferred index reads everything once it is wanted.
        for index in self.all().iter().filter(|index| !index.is_deferred()) {
            let read = self.read_bucket(index, bucket);
            match read.and_then(|read| self.take_out_of_bucket(index, bucket, &read)) {
                Err(error @ Error::Index(_)) => {
                    index.fail(&error);
                    reread = reread.and(Err(error));
                }
                read => read?,
            }
        }
        reread
    }

    /// Gives all documents of a bucket the records that they should have. Returns hashes of their keys.
    fn read_bucket(&self, index: &OpenedIndex, bucket: BucketId) -> Result<HashSet<u64>, Error> {
        let mut read = HashSet::new();
        let mut visit = StoreVisit {
            tombstones: true,
            wanted: PAGE,
            fields: Some(index.definition.fields()),
            ..StoreVisit::all(&[&index.definition.config.document_type])
        };
        loop {
            let mut taken = self.taking.lock();
            self.settle_held(&mut taken)?;
            visit.scope = ViewScope::Buckets(self.with_divided(bucket));
            let page = self.store.visit(&visit)?;
            let changes = page.visited.iter().map(|version| index.definition.change(version)).collect();
            index.copy.replace(changes)?;
            drop(taken);
            let keys = page.visited.iter().map(|version| DocumentSortKey::new(version.id()));
            read.extend(keys.take(READ_MAX - read.len()).map(|key| xxh3_64(key.as_bytes())));
            if self.has_much(index, 1) {
                self.flush_early(index)?;
            }
            if page.continuation.is_none() {
                return Ok(read);
            }
            visit.continuation = page.continuation;
        }
    }

    /// The bucket, and the buckets of groups that were divided off it: what it had may be there by now.
    fn with_divided(&self, bucket: BucketId) -> Vec<BucketId> {
        let is_divided_off = |other: &BucketId| {
            *other != bucket && other.used_bits() > BucketId::GROUP_BITS && bucket.covers(*other)
        };
        let is_whole = bucket.used_bits() <= BucketId::GROUP_BITS;
        let parts = self.store.buckets().into_iter().filter(|other| is_whole && is_divided_off(other));
        std::iter::once(bucket).chain(parts).collect()
    }

    /// Looks up the documents of a bucket that have a record and were not read.
    fn take_out_of_bucket(
        &self,
        index: &OpenedIndex,
        bucket: BucketId,
        read: &HashSet<u64>,
    ) -> Result<(), Error> {
        let range = bucket.reversed_range();
        let (first, last) = (range.first.high().to_be_bytes(), range.last.high().to_be_bytes());
        let mut from = first.to_vec();
        loop {
            let page = index.copy.documents(&from, PAGE)?;
            let of_bucket = page.documents.iter().map(|indexed| &indexed.document[..]);
            let unread: Vec<&[u8]> = of_bucket
                .filter(|document| is_in(document, bucket) && !read.contains(&xxh3_64(document)))
                .collect();
            if !unread.is_empty() {
                let mut taken = self.taking.lock();
                self.settle_held(&mut taken)?;
                unread.iter().try_for_each(|document| self.look_up(index, document))?;
            }
            if self.has_much(index, 1) {
                self.flush_early(index)?;
            }
            let last_read = page.documents.last().filter(|_| !page.is_last);
            let Some(next) = last_read.filter(|indexed| indexed.document[..] <= *upper(&last)) else {
                return Ok(());
            };
            from = [&next.document[..], &[0]].concat();
        }
    }
}

/// Key above those of all documents whose keys begin with these bytes.
fn upper(prefix: &[u8; 4]) -> Vec<u8> {
    [&prefix[..], &[u8::MAX]].concat()
}
