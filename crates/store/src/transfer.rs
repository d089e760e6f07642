//! Buckets as files, from one store to another.
//!
//! 1. [`Store::export`] seals what the tail has of the buckets, and takes the segments that they have then: open files, which can be read
//!    even when they lose their names. They become [`Parcel`]s: a file that is mostly the buckets' own as it is, and of the others only
//!    the ranges that are asked for, merged into one file on the way.
//! 2. [`Store::import`] begins a file for a parcel, [`Import`] takes its bytes, and [`Import::arrive`] makes it durable, reads all of it
//!    and compares checksums. [`Arrived::install`] lets the buckets have it: with one manifest, so that it is there as a whole or not
//!    at all.
//!
//! What is written meanwhile does not matter: of two versions of a document the newer counts, whichever came first.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_env::AppendFile;
use millrace_segment::{MergeInput, Segment, Writer};

use crate::commit_rows::TIMESTAMP_LIMIT;
use crate::manifest::{InPlace, SegmentRecord};
use crate::merging::{Policy, last_mark};
use crate::replica::{check_bits, isolated, parts, seal_buckets};
use crate::sealing::add;
use crate::shared::Shared;
use crate::state::BucketSegment;
use crate::{Error, Store};

/// Ranges of files are gathered until a parcel has so many bytes.
const PARCEL_BYTES: u64 = 64 << 20;
/// A file is sent as it is when the buckets have so many hundredths of it: sending some bytes too many costs less than choosing.
const OWN_PERCENT: u64 = 80;
/// Files are read so many bytes at a time.
const READ_BYTES: usize = 1 << 20;

/// What a parcel has of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The bucket.
    pub bucket: BucketId,
    /// Bytes, about.
    pub bytes: u64,
    /// Versions of documents, about.
    pub documents: u64,
}

/// A part of what a store has of some buckets: becomes one segment of another store.
pub struct Parcel {
    shared: Arc<Shared>,
    shares: Vec<Share>,
    content: Content,
}

enum Content {
    File(Arc<Segment>),
    Ranges(Vec<MergeInput>),
}

impl Store {
    /// What there is of these buckets now, in parcels. Holds the files open as long as the parcels live.
    ///
    /// # Errors
    /// The tail cannot be sealed; a segment cannot be opened; a bucket uses more than 32 bits.
    pub fn export(&self, buckets: &[BucketId]) -> Result<Vec<Parcel>, Error> {
        let shared = self.shared();
        shared.check_open()?;
        buckets.iter().try_for_each(|bucket| check_bits(*bucket))?;
        seal_buckets(shared, self.sealer(), buckets)?;
        plan(shared, buckets)
    }

    /// Begins a segment that comes from another store, for these buckets. Nothing of it can be seen before [`Arrived::install`].
    ///
    /// # Errors
    /// The disk has no room for it; a file cannot be made; a bucket uses more than 32 bits.
    pub fn import(&self, shares: &[Share]) -> Result<Import, Error> {
        let shared = self.shared();
        shared.check_open()?;
        shared.health.check_writable()?;
        shares.iter().try_for_each(|share| check_bits(share.bucket))?;
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
        let shares = shares.to_vec();
        Ok(Import { shared: Arc::clone(shared), number, temporary, file: Some(file), bytes: 0, shares })
    }
}

/// What the wanted buckets have of a segment.
struct Wanted {
    segment: Arc<Segment>,
    /// All drops that reach the buckets are applied in it.
    clean: bool,
    /// How much each bucket has, and which locations.
    pieces: Vec<(Share, (u32, u32))>,
}

fn plan(shared: &Arc<Shared>, buckets: &[BucketId]) -> Result<Vec<Parcel>, Error> {
    let state = shared.state();
    let mut wanted: BTreeMap<u64, Wanted> = BTreeMap::new();
    let mut in_order = buckets.to_vec();
    in_order.sort_by_key(|bucket| bucket.reversed_range());
    in_order.dedup();
    let marks = state.marks.list();
    for bucket in &in_order {
        for part in parts(&state, *bucket) {
            // What was dropped is still in the file: another store would not know.
            let dropped = last_mark(&marks, &part);
            for segment in &part.segments {
                let opened = segment.opened.as_ref().map_err(Clone::clone)?;
                let SegmentRecord { number, bytes, documents, applied } = segment.record;
                let of = wanted.entry(number).or_insert_with(|| Wanted {
                    segment: Arc::clone(opened),
                    clean: true,
                    pieces: Vec::new(),
                });
                of.clean &= applied >= dropped;
                of.pieces.push((Share { bucket: *bucket, bytes, documents }, part.locations()));
            }
        }
    }
    let mut parcels = Vec::new();
    let mut ranges = Vec::new();
    for wanted in wanted.into_values() {
        let Wanted { segment, clean, pieces } = wanted;
        let own: u64 = pieces.iter().map(|(share, _)| share.bytes).sum();
        if clean && own.saturating_mul(100) >= segment.bytes().saturating_mul(OWN_PERCENT) {
            let shares = joined(pieces.into_iter().map(|(share, _)| share));
            parcels.push(Parcel { shared: Arc::clone(shared), shares, content: Content::File(segment) });
        } else {
            ranges.push(Wanted { segment, clean, pieces });
        }
    }
    parcels.extend(gathered(shared, &in_order, &ranges));
    Ok(parcels)
}

/// Parcels of ranges, of as many buckets each as make one.
fn gathered(shared: &Arc<Shared>, buckets: &[BucketId], ranges: &[Wanted]) -> Vec<Parcel> {
    let bytes_of = |bucket: &BucketId| -> u64 {
        let pieces = ranges.iter().flat_map(|wanted| &wanted.pieces);
        pieces.filter(|(share, _)| share.bucket == *bucket).map(|(share, _)| share.bytes).sum()
    };
    let mut groups: Vec<(u64, Vec<BucketId>)> = Vec::new();
    for (bucket, bytes) in
        buckets.iter().map(|bucket| (bucket, bytes_of(bucket))).filter(|(_, bytes)| *bytes > 0)
    {
        match groups.last_mut().filter(|(gathered, _)| *gathered < PARCEL_BYTES) {
            Some((gathered, group)) => {
                *gathered += bytes;
                group.push(*bucket);
            }
            None => groups.push((bytes, vec![*bucket])),
        }
    }
    let parcel = |(_, group): (u64, Vec<BucketId>)| {
        let mut inputs = Vec::new();
        let mut shares = Vec::new();
        for Wanted { segment, pieces, .. } in ranges {
            let inside: Vec<_> = pieces.iter().filter(|(share, _)| group.contains(&share.bucket)).collect();
            if !inside.is_empty() {
                let locations = inside.iter().map(|(_, locations)| *locations).collect();
                inputs.push(MergeInput { segment: Arc::clone(segment), locations });
                shares.extend(inside.iter().map(|(share, _)| *share));
            }
        }
        shares.sort_by_key(|share| share.bucket.reversed_range());
        Parcel {
            shared: Arc::clone(shared),
            shares: joined(shares.into_iter()),
            content: Content::Ranges(inputs),
        }
    };
    groups.into_iter().map(parcel).collect()
}

/// One share for each bucket; those of one bucket follow each other.
fn joined(shares: impl Iterator<Item = Share>) -> Vec<Share> {
    let mut all: Vec<Share> = Vec::new();
    for share in shares {
        match all.last_mut().filter(|last| last.bucket == share.bucket) {
            Some(last) => {
                last.bytes += share.bytes;
                last.documents += share.documents;
            }
            None => all.push(share),
        }
    }
    all
}

impl Parcel {
    /// What it has of which buckets.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// How many bytes [`Parcel::write_to`] writes, where that is known before.
    pub fn file_bytes(&self) -> Option<u64> {
        match &self.content {
            Content::File(segment) => Some(segment.bytes()),
            Content::Ranges(_) => None,
        }
    }

    /// Writes the parcel, each time the same bytes. It is not synced.
    ///
    /// # Errors
    /// A segment cannot be read or is damaged; `out` cannot be written.
    pub fn write_to(&self, out: &mut dyn AppendFile) -> Result<(), Error> {
        match &self.content {
            Content::File(segment) => copy(segment, out),
            Content::Ranges(inputs) => {
                let (state, _) = self.shared.settled_state();
                let layout = self.shared.layout().0;
                // Removals are as good as documents: the other store may have what they remove.
                let policy = Policy { shared: &self.shared, state: &state, layout, forget: 0 };
                let mut writer = Writer::stream(Box::new(Unsynced(out)))?;
                if !millrace_segment::merge(inputs, &mut writer, &policy)? {
                    return Err(Error::Closed);
                }
                writer.finish()?;
                Ok(())
            }
        }
    }
}

fn copy(segment: &Segment, out: &mut dyn AppendFile) -> Result<(), Error> {
    let mut buffer = vec![0; READ_BYTES];
    let mut offset = 0;
    while offset < segment.bytes() {
        let length = (segment.bytes() - offset).min(READ_BYTES as u64) as usize;
        segment.read_raw(offset, &mut buffer[..length])?;
        out.append(&buffer[..length]).map_err(|error| Error::io("send a segment", &error))?;
        offset += length as u64;
    }
    Ok(())
}

/// What is sent is synced where it arrives.
struct Unsynced<'a>(&'a mut dyn AppendFile);

impl AppendFile for Unsynced<'_> {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.append(bytes)
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A segment that is on its way here. Dropped before it is finished, it leaves nothing.
pub struct Import {
    shared: Arc<Shared>,
    number: u64,
    temporary: PathBuf,
    /// `None`: it is finished.
    file: Option<Box<dyn AppendFile>>,
    bytes: u64,
    shares: Vec<Share>,
}

impl Import {
    /// Adds the next bytes.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let file = self.file.as_mut().ok_or(Error::Closed)?;
        file.append(bytes).map_err(|error| Error::io("write an import", &error))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// How many bytes have come: where to go on after a connection broke.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All bytes have come: makes them durable and checks them. The buckets do not have them yet.
    ///
    /// # Errors
    /// It cannot be made durable; it is not a whole segment. Then nothing is left of it.
    pub fn arrive(mut self) -> Result<Arrived, Error> {
        let Some(mut file) = self.file.take() else { return Err(Error::Closed) };
        let arrived = Arrived {
            shared: Arc::clone(&self.shared),
            number: self.number,
            path: self.temporary.clone(),
            shares: std::mem::take(&mut self.shares),
            opened: None,
            named: AtomicBool::new(false),
        };
        arrived.check(&mut *file)
    }

    /// The same, and then the buckets have it.
    ///
    /// # Errors
    /// Those of [`Import::arrive`] and [`Arrived::install`].
    pub fn finish(self) -> Result<(), Error> {
        self.arrive()?.install(None)
    }
}

/// A segment from another store, durable and checked. Its file goes with it, unless a bucket has it by then.
pub struct Arrived {
    shared: Arc<Shared>,
    number: u64,
    path: PathBuf,
    shares: Vec<Share>,
    opened: Option<Arc<Segment>>,
    /// A manifest may name it.
    named: AtomicBool,
}

impl Arrived {
    fn check(mut self, file: &mut dyn AppendFile) -> Result<Self, Error> {
        let shared = Arc::clone(&self.shared);
        let failed = |error: std::io::Error| Error::io("finish an import", &error);
        file.sync().map_err(failed)?;
        let path = shared.segment_path(self.number);
        let disk = &*shared.options.disk;
        disk.rename(&self.path, &path).map_err(failed)?;
        self.path.clone_from(&path);
        disk.sync_directory(&shared.options.data_dir.join("segments")).map_err(failed)?;
        let opened = shared.open_segment(self.number)?;
        opened.verify()?;
        if opened.newest() >= TIMESTAMP_LIMIT {
            let reason = format!("a version is of {}, which is no time", opened.newest());
            return Err(Error::Corrupt { path, offset: 0, reason });
        }
        self.opened = Some(opened);
        Ok(self)
    }

    /// What it has of which buckets.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// Gives it to those of its buckets that are named, or to all, at once and durably. Each is to be named once.
    ///
    /// # Errors
    /// The manifest cannot be written.
    pub fn install(&self, only: Option<&[BucketId]>) -> Result<(), Error> {
        let Some(opened) = &self.opened else { return Err(Error::Closed) };
        self.shared.timestamps.see(Timestamp(opened.newest()));
        let wanted = |share: &&Share| only.is_none_or(|only| only.contains(&share.bucket));
        let published = self.shared.try_publish(|state| {
            let mut state = state.clone();
            for share in self.shares.iter().filter(wanted) {
                state.buckets = isolated(&state.buckets, share.bucket);
                // Drops that this store knows of are not applied in it.
                let record = SegmentRecord {
                    number: self.number,
                    bytes: share.bytes,
                    documents: share.documents,
                    applied: 0,
                };
                add(
                    &mut state.buckets,
                    share.bucket,
                    &BucketSegment { record, opened: Ok(Arc::clone(opened)) },
                );
            }
            Ok(state)
        });
        if !matches!(&published, Err(unwritten) if unwritten.in_place == InPlace::No) {
            self.named.store(true, Ordering::SeqCst);
        }
        Ok(published?)
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        if !self.named.load(Ordering::SeqCst) {
            // What stays behind is deleted by the next start.
            let _ = self.shared.options.disk.unlink(&self.path);
        }
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // What stays behind is deleted by the next start.
            let _ = self.shared.options.disk.unlink(&self.temporary);
        }
    }
}
