//! Copies that are offered to others as files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::copy::IndexCopy;
use crate::parcel::{CopyHeader, CopyParcel, ExportedRun, ParcelPosition};
use crate::run::IndexRun;
use crate::{Error, SliceRange};

/// Maximum number of exports of a copy that are open at a time: each may keep the files of runs that were
/// merged since it began.
pub const EXPORTS_MAX: usize = 4;

/// Runs of a copy at one instant, as of its last flush. They can be read while it is open, also after the
/// copy has merged or removed them.
pub struct CopyExport {
    header: CopyHeader,
    runs: Vec<Arc<IndexRun>>,
    _hold: ExportHold,
}

/// One of the exports of a copy.
struct ExportHold(Arc<AtomicUsize>);

impl Drop for ExportHold {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl IndexCopy {
    /// Offers the runs as they are, in parcels of some bytes: [`PARCEL_BYTES`](crate::PARCEL_BYTES) but in
    /// tests. Reads and checks all runs once that were not written since the copy was opened.
    ///
    /// # Errors
    /// [`EXPORTS_MAX`] exports are open; a run cannot be read, or is damaged.
    ///
    /// # Panics
    /// A parcel of no bytes is asked for.
    pub fn export(&self, parcel_bytes: u64) -> Result<CopyExport, Error> {
        assert!(parcel_bytes > 0, "a parcel has at least a byte");
        let hold = self.hold()?;
        let (runs, complete_until, built) = {
            let state = self.state.read();
            (state.runs.clone(), state.complete_until, state.built)
        };
        let exported = runs
            .iter()
            .map(|run| Ok(ExportedRun { length: run.bytes, checksums: run.parcel_sums(parcel_bytes)? }));
        let header = CopyHeader {
            definition: self.options.definition,
            complete_until,
            built,
            slice: self.options.slice.clone(),
            parcel_bytes,
            runs: exported.collect::<Result<_, Error>>()?,
        };
        Ok(CopyExport { header, runs, _hold: hold })
    }

    fn hold(&self) -> Result<ExportHold, Error> {
        let more = |open: usize| (open < EXPORTS_MAX).then_some(open + 1);
        match self.exports.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more) {
            Ok(_) => Ok(ExportHold(Arc::clone(&self.exports))),
            Err(_) => Err(Error::ExportsBusy { path: self.options.directory.clone(), limit: EXPORTS_MAX }),
        }
    }
}

impl CopyExport {
    /// Description of all that there is to read.
    pub fn header(&self) -> &CopyHeader {
        &self.header
    }

    /// Reads the parcel at a position.
    ///
    /// # Errors
    /// No parcel begins there; the run cannot be read, or is damaged.
    pub fn parcel(&self, position: ParcelPosition) -> Result<CopyParcel, Error> {
        let wanted = self.header.first_position();
        let (length, checksum) =
            self.header.parcel_at(position).ok_or(Error::OtherParcel { found: position, wanted })?;
        let run = &self.runs[position.run as usize];
        let bytes = run.read(position.offset, length)?;
        match xxh3_64(&bytes) == checksum {
            true => Ok(CopyParcel { position, bytes }),
            false => Err(Error::damaged(&run.path, "a checksum differs")),
        }
    }
}

/// A copy is of the index that is wanted, and has all documents of a slice.
pub(crate) fn check_offer(header: &CopyHeader, definition: u64, slice: &SliceRange) -> Result<(), Error> {
    if header.definition != definition {
        return Err(Error::OtherDefinition { found: header.definition, wanted: definition });
    }
    match header.slice.includes(slice) {
        true => Ok(()),
        false => Err(Error::OtherSlice),
    }
}

/// Exports that others read, by number. One that is not read for some time is closed. Times are since any
/// instant.
pub struct HeldExports {
    idle_max: Duration,
    next: u64,
    exports: BTreeMap<u64, HeldExport>,
}

struct HeldExport {
    export: Arc<CopyExport>,
    used: Duration,
}

impl HeldExports {
    /// Creates a table whose exports are closed when they were not read for `idle_max`. Numbers begin at
    /// `first`: random, so that those of an earlier process are not taken for others.
    pub fn new(idle_max: Duration, first: u64) -> Self {
        HeldExports { idle_max, next: first, exports: BTreeMap::new() }
    }

    /// Adds an export, and returns its number.
    pub fn add(&mut self, export: CopyExport, now: Duration) -> u64 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.exports.insert(number, HeldExport { export: Arc::new(export), used: now });
        number
    }

    /// An export that is read now; `None` if it was closed.
    pub fn get(&mut self, number: u64, now: Duration) -> Option<Arc<CopyExport>> {
        self.expire(now);
        let held = self.exports.get_mut(&number)?;
        held.used = held.used.max(now);
        Some(Arc::clone(&held.export))
    }

    /// Closes an export that is not needed any more.
    pub fn close(&mut self, number: u64) {
        self.exports.remove(&number);
    }

    /// Closes the exports that were not read for too long.
    pub fn expire(&mut self, now: Duration) {
        let idle_max = self.idle_max;
        self.exports.retain(|_, held| now.saturating_sub(held.used) <= idle_max);
    }

    /// Number of exports that are open.
    pub fn len(&self) -> usize {
        self.exports.len()
    }

    /// True if none is open.
    pub fn is_empty(&self) -> bool {
        self.exports.is_empty()
    }
}
