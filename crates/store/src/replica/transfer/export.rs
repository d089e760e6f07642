//! Export of buckets from a store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use millrace_bucket::{BucketId, LocationRange};
use millrace_env::{AppendFile, pace};
use millrace_segment::{MergeInput, SegmentCut, SegmentFile, SegmentWriter};
use xxhash_rust::xxh3::Xxh3Default;

use super::ParcelBucket;
use crate::context::StoreContext;
use crate::replica::{parts, seal_buckets};
use crate::state::manifest::SegmentRecord;
use crate::upkeep::merging::{StoreMergePolicy, last_mark};
use crate::upkeep::pace::{of_merging, of_sealing};
use crate::{Error, Store};

/// Size in bytes up to which merged contents are collected into one parcel.
const PARCEL_BYTES: u64 = 64 << 20;
/// Minimum percentage of a file that the buckets must have for it to be sent as it is: sending some bytes too
/// many costs less than selecting.
const OWN_PERCENT: u64 = 80;
/// Minimum bytes of the buckets in a file for a cut: to sync and name one more file takes as long as merging
/// this much.
const CUT_BYTES: u64 = 512 << 10;

/// A part of a store's contents of some buckets: becomes one segment of another store.
pub struct ExportParcel {
    shared: Arc<StoreContext>,
    shares: Vec<ParcelBucket>,
    content: ParcelContent,
}

enum ParcelContent {
    Cut { cut: SegmentCut, number: u64 },
    Merged(Vec<MergeInput>),
}

impl Store {
    /// Exports the current contents of these buckets as parcels. Holds the files open as long as the parcels
    /// live.
    ///
    /// # Errors
    /// The tail cannot be sealed; a segment cannot be opened, or its directory is damaged.
    pub fn export(&self, buckets: &[BucketId]) -> Result<Vec<ExportParcel>, Error> {
        let shared = self.shared();
        shared.check_open()?;
        // Writes have precedence: sealed at once, the tail would keep a core from them for tenths of a
        // second.
        pace::during(of_sealing(shared, 1), || seal_buckets(shared, self.sealer(), buckets))?;
        plan(shared, buckets)
    }
}

/// Share of the wanted buckets in a segment.
struct WantedRanges {
    segment: Arc<SegmentFile>,
    /// True if all drops that affect the buckets are applied in it.
    clean: bool,
    /// Approximate amount of each bucket, with its range of locations.
    pieces: Vec<(ParcelBucket, LocationRange)>,
}

fn plan(shared: &Arc<StoreContext>, buckets: &[BucketId]) -> Result<Vec<ExportParcel>, Error> {
    let state = shared.state();
    let mut wanted: BTreeMap<u64, WantedRanges> = BTreeMap::new();
    let mut in_order = buckets.to_vec();
    in_order.sort_by_key(|bucket| bucket.reversed_range());
    in_order.dedup();
    let marks = state.marks.list();
    for bucket in &in_order {
        for part in parts(&state, *bucket) {
            // Dropped documents are still in the file: another store would not know of the drop.
            let dropped = last_mark(&marks, &part);
            for segment in &part.segments {
                let opened = segment.opened.as_ref().map_err(Clone::clone)?;
                let SegmentRecord { number, bytes, documents, applied } = segment.record;
                let of = wanted.entry(number).or_insert_with(|| WantedRanges {
                    segment: Arc::clone(opened),
                    clean: true,
                    pieces: Vec::new(),
                });
                of.clean &= applied >= dropped;
                of.pieces.push((ParcelBucket { bucket: *bucket, bytes, documents }, part.reversed_range()));
            }
        }
    }
    let mut parcels = Vec::new();
    let mut merged = Vec::new();
    for (number, mut wanted) in wanted {
        // The parts of a divided group are located between those of the bucket that it was in.
        wanted.pieces.sort_by_key(|(_, range)| *range);
        let own: u64 = wanted.pieces.iter().map(|(share, _)| share.bytes).sum();
        if wanted.clean && own >= CUT_BYTES.min(wanted.segment.bytes() / 100 * OWN_PERCENT) {
            parcels.extend(wanted.cut(shared, number)?);
        } else {
            merged.push(wanted);
        }
    }
    parcels.extend(gathered(shared, &in_order, &merged));
    Ok(parcels)
}

impl WantedRanges {
    /// A parcel of columns as they are; `None` if the buckets turn out to have nothing of the segment.
    fn cut(&self, shared: &Arc<StoreContext>, number: u64) -> Result<Option<ExportParcel>, Error> {
        let locations: Vec<LocationRange> = self.pieces.iter().map(|(_, locations)| *locations).collect();
        let own: u64 = self.pieces.iter().map(|(share, _)| share.bytes).sum();
        let mostly_own = own.saturating_mul(100) >= self.segment.bytes().saturating_mul(OWN_PERCENT);
        let cut = if mostly_own {
            Some(SegmentCut::whole(&self.segment, &locations)?)
        } else {
            SegmentCut::of(&self.segment, &locations)?
        };
        let Some(cut) = cut else { return Ok(None) };
        assert!(
            cut.shares().len() == self.pieces.len(),
            "a cut says for each of its ranges what it has: a bucket without would be received as empty"
        );
        let counted = self.pieces.iter().zip(cut.shares());
        let shares = joined(counted.filter(|(_, own)| own.bytes > 0).map(|((share, _), own)| ParcelBucket {
            bucket: share.bucket,
            bytes: own.bytes,
            documents: own.documents,
        }));
        let some = !shares.is_empty();
        Ok(some.then(|| ExportParcel {
            shared: Arc::clone(shared),
            shares,
            content: ParcelContent::Cut { cut, number },
        }))
    }
}

/// Merged parcels, each of as many buckets as fill one.
fn gathered(shared: &Arc<StoreContext>, buckets: &[BucketId], merged: &[WantedRanges]) -> Vec<ExportParcel> {
    let mut bytes_of: HashMap<BucketId, u64> = HashMap::new();
    for (share, _) in merged.iter().flat_map(|wanted| &wanted.pieces) {
        *bytes_of.entry(share.bucket).or_default() += share.bytes;
    }
    let mut groups: Vec<(u64, HashSet<BucketId>)> = Vec::new();
    for bucket in buckets {
        let Some(bytes) = bytes_of.get(bucket) else { continue };
        match groups.last_mut().filter(|(gathered, _)| *gathered < PARCEL_BYTES) {
            Some((gathered, group)) => {
                *gathered += bytes;
                group.insert(*bucket);
            }
            None => groups.push((*bytes, HashSet::from([*bucket]))),
        }
    }
    let parcel = |(_, group): (u64, HashSet<BucketId>)| {
        let mut inputs = Vec::new();
        let mut shares = Vec::new();
        for WantedRanges { segment, pieces, .. } in merged {
            let inside: Vec<_> = pieces.iter().filter(|(share, _)| group.contains(&share.bucket)).collect();
            if !inside.is_empty() {
                let locations = inside.iter().map(|(_, locations)| *locations).collect();
                inputs.push(MergeInput { segment: Arc::clone(segment), locations });
                shares.extend(inside.iter().map(|(share, _)| *share));
            }
        }
        let shares = joined(shares.into_iter());
        ExportParcel { shared: Arc::clone(shared), shares, content: ParcelContent::Merged(inputs) }
    };
    groups.into_iter().map(parcel).collect()
}

/// Combines shares into one for each bucket.
fn joined(shares: impl Iterator<Item = ParcelBucket>) -> Vec<ParcelBucket> {
    let mut in_order: Vec<ParcelBucket> = shares.collect();
    in_order.sort_by_key(|share| share.bucket.reversed_range());
    let mut all: Vec<ParcelBucket> = Vec::new();
    for share in in_order {
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

impl ExportParcel {
    /// Its shares of buckets.
    pub fn shares(&self) -> &[ParcelBucket] {
        &self.shares
    }

    /// Number of bytes that [`ExportParcel::write_to`] writes in total, if it is known in advance.
    pub fn file_bytes(&self) -> Option<u64> {
        match &self.content {
            ParcelContent::Cut { cut, .. } => Some(cut.bytes()),
            ParcelContent::Merged(_) => None,
        }
    }

    /// Lengths of the consecutive parts of its file, for [`Store::import`]; empty if they are not known in
    /// advance.
    pub fn outline(&self) -> Vec<u32> {
        match &self.content {
            ParcelContent::Cut { cut, .. } => cut.outline(),
            ParcelContent::Merged(_) => Vec::new(),
        }
    }

    /// Equal for parcels of this store with the same bytes, after a restart too: bytes received of one are
    /// the beginning of the other. `None` if such a parcel cannot be identified.
    pub fn identity(&self) -> Option<u64> {
        let ParcelContent::Cut { cut, number } = &self.content else { return None };
        let mut hash = Xxh3Default::new();
        hash.update(&number.to_le_bytes());
        cut.outline().iter().for_each(|length| hash.update(&length.to_le_bytes()));
        for share in &self.shares {
            hash.update(&share.bucket.bits().to_le_bytes());
            hash.update(&[share.bucket.used_bits()]);
            hash.update(&share.bytes.to_le_bytes());
        }
        Some(hash.digest())
    }

    /// Writes the parcel from a byte offset on. A cut always yields the same bytes; merged contents only
    /// while nothing is dropped or deployed, and a mismatch is detected on arrival. The output is not synced.
    ///
    /// # Errors
    /// A segment cannot be read or is damaged; `out` cannot be written.
    pub fn write_to(&self, from: u64, out: &mut dyn AppendFile) -> Result<(), Error> {
        match &self.content {
            ParcelContent::Cut { cut, .. } => Ok(cut.write_to(from, out)?),
            ParcelContent::Merged(inputs) => {
                let (state, _) = self.shared.settled_state();
                let layout = self.shared.layout().0;
                // Removals are kept like documents: the other store may have the documents that they remove.
                let policy = StoreMergePolicy { shared: &self.shared, state: &state, layout, forget: 0 };
                let mut writer = SegmentWriter::stream(
                    Box::new(SentFile { out, skip: from }),
                    self.shared.segment_format(),
                )?;
                let merge = || millrace_segment::merge(inputs, &mut writer, &policy);
                if !pace::during(of_merging(&self.shared), merge)? {
                    return Err(Error::Closed);
                }
                writer.finish()?;
                Ok(())
            }
        }
    }
}

/// Output of a parcel; the receiver syncs it.
struct SentFile<'a> {
    out: &'a mut dyn AppendFile,
    /// Number of bytes that the receiver has already.
    skip: u64,
}

impl AppendFile for SentFile<'_> {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let skipped = self.skip.min(bytes.len() as u64);
        self.skip -= skipped;
        match &bytes[skipped as usize..] {
            [] => Ok(()),
            rest => self.out.append(rest),
        }
    }

    fn sync(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
