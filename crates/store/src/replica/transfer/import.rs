//! Import of segments from another store.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_env::AppendFile;
use millrace_segment::{FileChecksums, SegmentFile};

use super::ParcelBucket;
use crate::context::StoreContext;
use crate::replica::isolated;
use crate::state::manifest::{RenameDurability, SegmentRecord};
use crate::state::{BucketSegment, StoreState, StoredBucket, is_part};
use crate::upkeep::shares::FileShares;
use crate::write::commit_rows::TIMESTAMP_LIMIT;
use crate::{Error, Store};

impl Store {
    /// Begins the import of a segment from another store, for these buckets. Nothing of it is visible before
    /// [`ArrivedSegment::install`]. `outline` is that of the parcel: it lists the ranges of bytes that can be
    /// checked as they arrive. If it is empty or wrong, the bytes are read again.
    ///
    /// # Errors
    /// The disk has no room for it; a file cannot be made.
    pub fn import(&self, shares: &[ParcelBucket], outline: Vec<u32>) -> Result<SegmentImport, Error> {
        let shared = self.shared();
        shared.check_open()?;
        shared.health.check_writable()?;
        let bytes: u64 = shares.iter().map(|share| share.bytes).sum();
        let options = &shared.options;
        let free = options.disk.free_space(&options.data_dir);
        let free = free.map_err(|error| Error::io("look for free space", &error))?;
        let reserve = shared.disk_reserve();
        if free < reserve.saturating_add(bytes) {
            return Err(Error::DiskFull { path: options.data_dir.clone(), free, reserve });
        }
        let number = shared.next_number();
        let temporary = shared.segment_path(number).with_extension("writing");
        let file = options.disk.create(&temporary).map_err(|error| Error::io("begin an import", &error))?;
        Ok(SegmentImport {
            shared: Arc::clone(shared),
            number,
            temporary,
            file: Some(file),
            bytes: 0,
            shares: shares.to_vec(),
            checksums: FileChecksums::new(outline),
        })
    }
}

/// A segment that is on its way here. Dropped before it is finished, it leaves nothing.
pub struct SegmentImport {
    shared: Arc<StoreContext>,
    number: u64,
    temporary: PathBuf,
    /// `None`: it is finished.
    file: Option<Box<dyn AppendFile>>,
    bytes: u64,
    shares: Vec<ParcelBucket>,
    checksums: FileChecksums,
}

/// Reason why an import has a file to write to.
const UNFINISHED: &str = "an import has its file until all bytes have arrived, which takes the import away";

impl SegmentImport {
    /// Adds the next bytes.
    ///
    /// # Errors
    /// The bytes cannot be written.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let file = self.file.as_mut().expect(UNFINISHED);
        self.checksums.add(bytes);
        file.set_alone(!self.shared.is_in_use());
        file.append(bytes).map_err(|error| Error::io("write an import", &error))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Number of bytes received: the position to resume from after a broken connection.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the transfer after the last byte: makes the file durable and checks it. The buckets do not have
    /// it yet.
    ///
    /// # Errors
    /// The file cannot be made durable, or is not a whole segment. It is deleted then.
    pub fn arrive(mut self) -> Result<ArrivedSegment, Error> {
        let mut file = self.file.take().expect(UNFINISHED);
        let shared = Arc::clone(&self.shared);
        let mut unchecked = TemporarySegmentFile {
            shared: Arc::clone(&shared),
            number: self.number,
            path: self.temporary.clone(),
            kept: AtomicBool::new(false),
        };
        shared.begin_arrival(self.number);
        let failed = |error: std::io::Error| Error::io("finish an import", &error);
        file.sync().map_err(failed)?;
        let path = shared.segment_path(self.number);
        shared.options.disk.rename(&self.temporary, &path).map_err(failed)?;
        unchecked.path.clone_from(&path);
        let segment = shared.open_segment(self.number)?;
        segment.verify_with(&self.checksums)?;
        if segment.newest() >= TIMESTAMP_LIMIT {
            let reason = format!("a version is of {}, which is not a time", segment.newest());
            return Err(Error::Corrupt { path, offset: 0, reason });
        }
        shared.timestamps.check(Timestamp(segment.newest()))?;
        Ok(ArrivedSegment {
            file: unchecked,
            number: self.number,
            shares: std::mem::take(&mut self.shares),
            segment,
        })
    }
}

impl Drop for SegmentImport {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // What stays behind is deleted by the next start.
            let _ = self.shared.options.disk.unlink(&self.temporary);
        }
    }
}

/// A file that is deleted with its owner, unless a bucket has it by then, or it is kept.
struct TemporarySegmentFile {
    shared: Arc<StoreContext>,
    number: u64,
    path: PathBuf,
    /// The next start may find a manifest that names it, which could not be confirmed.
    kept: AtomicBool,
}

impl Drop for TemporarySegmentFile {
    fn drop(&mut self) {
        let has_no_bucket = self.shared.end_arrival(self.number);
        if has_no_bucket && !self.kept.load(Ordering::SeqCst) {
            // What stays behind is deleted by the next start.
            let _ = self.shared.options.disk.unlink(&self.path);
        }
    }
}

/// A segment from another store, durable and checked. Its file is deleted with it, unless a bucket has it by
/// then. Until then it can be given to its buckets one after another, also if an earlier one has given it up.
pub struct ArrivedSegment {
    file: TemporarySegmentFile,
    number: u64,
    shares: Vec<ParcelBucket>,
    segment: Arc<SegmentFile>,
}

impl ArrivedSegment {
    /// Contents of the segment, by bucket.
    pub fn shares(&self) -> &[ParcelBucket] {
        &self.shares
    }

    /// Gives it to those of its buckets that are named, or to all, at once and durably. Those that have it
    /// already stay as they are.
    ///
    /// # Errors
    /// The manifest cannot be written.
    pub fn install(&self, only: Option<&[BucketId]>) -> Result<(), Error> {
        let all: Vec<BucketId> = self.shares.iter().map(|share| share.bucket).collect();
        ArrivedSegment::install_all(&[(self, only.unwrap_or(&all))])
    }

    /// Gives segments of one store to those of their buckets that are named beside them, with one manifest
    /// for all.
    ///
    /// # Errors
    /// The manifest cannot be written.
    pub fn install_all(arrived: &[(&ArrivedSegment, &[BucketId])]) -> Result<(), Error> {
        let Some((first, _)) = arrived.first() else { return Ok(()) };
        let shared = &first.file.shared;
        assert!(
            arrived.iter().all(|(of, _)| Arc::ptr_eq(&of.file.shared, shared)),
            "segments that are installed together lie in the directory of one store"
        );
        let mut added: HashMap<BucketId, Vec<BucketSegment>> = HashMap::new();
        for (arrival, buckets) in arrived {
            shared.timestamps.see(Timestamp(arrival.segment.newest()))?;
            assert!(
                buckets.iter().all(|bucket| arrival.shares.iter().any(|share| share.bucket == *bucket)),
                "a segment is given to buckets that have a share of it: another would miss its documents"
            );
            for share in arrival.shares.iter().filter(|share| buckets.contains(&share.bucket)) {
                // Drops that this store knows of are not applied in it.
                let record = SegmentRecord {
                    number: arrival.number,
                    bytes: share.bytes,
                    documents: share.documents,
                    applied: 0,
                };
                let segment = BucketSegment { record, opened: Ok(Arc::clone(&arrival.segment)) };
                added.entry(share.bucket).or_default().push(segment);
            }
        }
        if added.is_empty() {
            return Ok(());
        }
        let options = &shared.options;
        let synced = options.disk.sync_directory(&options.data_dir.join("segments"));
        synced.map_err(|error| Error::io("finish an import", &error))?;
        let state = shared.state();
        let planned = with_segments(&state, &added, &FileShares::default());
        let mut shares = FileShares::of_split(&state.buckets, &planned.buckets);
        drop(state);
        for (arrival, _) in arrived {
            let has = |bucket: &&Arc<StoredBucket>| bucket.has_segment(arrival.number);
            shares.measure(&arrival.segment, planned.buckets.iter().filter(has))?;
        }
        let buckets: Vec<BucketId> = added.keys().copied().collect();
        let published =
            shared.try_publish_arrivals(&buckets, |state| Ok(with_segments(state, &added, &shares)));
        if matches!(&published, Err(unwritten) if unwritten.in_place != RenameDurability::No) {
            arrived.iter().for_each(|(arrival, _)| arrival.file.kept.store(true, Ordering::SeqCst));
        }
        Ok(published?)
    }
}

/// The state with more segments in these buckets. Where it has parts of one that were not measured, each is
/// taken to have its even share.
fn with_segments(
    state: &StoreState,
    added: &HashMap<BucketId, Vec<BucketSegment>>,
    shares: &FileShares,
) -> StoreState {
    let mut state = state.clone();
    for bucket in added.keys() {
        if state.buckets.binary_search_by_key(&bucket.reversed_range(), |of| of.id.reversed_range()).is_err()
        {
            state.buckets = isolated(&state.buckets, *bucket);
        }
    }
    shares.set_in(&mut state.buckets);
    for bucket in &mut state.buckets {
        let id = bucket.id;
        let around = (0..=id.used_bits()).map(|bits| BucketId::new(bits, id.bits()));
        let around = around.filter(|of| is_part(id, *of));
        let mut segments = Vec::new();
        for (of, more) in around.filter_map(|of| Some((of, added.get(&of)?))) {
            let halved = u32::from(id.used_bits() - of.used_bits());
            let new = more.iter().filter(|segment| !bucket.has_segment(segment.record.number));
            segments.extend(new.map(|segment| shares.with_share(id, &segment.halved(halved))));
        }
        if !segments.is_empty() {
            segments.splice(0..0, bucket.segments.iter().cloned());
            *bucket = Arc::new(StoredBucket { id, segments });
        }
    }
    state
}
