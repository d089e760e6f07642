//! Copies that come as files.
//!
//! The directory has a *plan* first: the header of the copy, and the number of the file of each run. Parcels
//! are checked by the checksums of the header, of which the source has checked every byte, and appended to a
//! part, a file that becomes the run by rename once it has all and is durable. When all runs are there, the
//! manifest names them, by rename as well: before, nothing of the import counts, and a copy that was in the
//! directory stays as it is.
//!
//! After a crash the parts are read again, and checked by the same checksums: the import goes on after the
//! last parcel that is whole. If the source has merged runs meanwhile, so that the header is another one,
//! runs that are in both are kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_env::{AppendFile, Disk, read_file, replace_file, sync_name};
use xxhash_rust::xxh3::xxh3_64;

use crate::copy::{IndexCopy, IndexOptions};
use crate::export::check_offer;
use crate::files::{self, PLAN, next_path, part_path, remove_others, run_path};
use crate::manifest::CopyManifest;
use crate::merging::{self, MergeDisposal};
use crate::parcel::{CopyHeader, CopyParcel, ParcelPosition, checked};
use crate::record::{read_bytes, read_number, write_bytes, write_number};
use crate::run::IndexRun;
use crate::{Error, SliceRange};

/// First bytes of a plan.
const MAGIC: &[u8; 8] = b"MRINDEXI";

/// Parcels after which a part is made durable.
const SYNC_PARCELS: u64 = 64;

/// Bytes of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImportProgress {
    /// Bytes of all runs.
    pub bytes: u64,
    /// Bytes that are here: of the runs up to the one that is being received.
    pub received: u64,
    /// Bytes that have come since the import was opened.
    pub moved: u64,
}

/// A copy that is received.
pub struct CopyImport {
    options: IndexOptions,
    plan: ImportPlan,
    /// Place of the next parcel; `None` once all are here.
    next: Option<ParcelPosition>,
    /// The part that is being written.
    part: Option<Box<dyn AppendFile>>,
    /// True if an import before this one has written some of the part.
    is_resumed: bool,
    /// Parcels of the part that may not be durable.
    unsynced: u64,
    /// True if no request waits for the disk.
    is_disk_free: bool,
    moved: u64,
}

/// Content of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImportPlan {
    header: CopyHeader,
    /// Documents that are taken in.
    slice: SliceRange,
    /// Number of the next run.
    next_run: u64,
    /// Numbers of the runs, in the order of the header.
    numbers: Vec<u64>,
}

impl CopyImport {
    /// The header of the import that a directory waits for, if any.
    ///
    /// # Errors
    /// The plan cannot be read. One that is damaged is as none.
    pub fn pending(disk: &dyn Disk, directory: &Path) -> Result<Option<CopyHeader>, Error> {
        Ok(ImportPlan::read(disk, directory)?.map(|plan| plan.header))
    }

    /// Begins to receive a copy, or goes on with what has come of it before. The directory is not to be open
    /// as a copy that writes ([`IndexCopy::discard`]). Of a copy that has more documents than those of the
    /// slice in `options`, only these are kept.
    ///
    /// # Errors
    /// The copy is of another definition, or may lack documents of the slice; it does not fit on the disk;
    /// the system refuses.
    pub fn open(options: IndexOptions, header: CopyHeader) -> Result<Self, Error> {
        check_offer(&header, options.definition, &options.slice)?;
        let (disk, directory) = (&*options.disk, &options.directory);
        disk.create_directory(directory).map_err(|error| Error::io("create", directory, &error))?;
        let replaced = CopyManifest::read_sound(disk, directory)?;
        let before = ImportPlan::read(disk, directory)?;
        let before = before.filter(|before| {
            before.slice == options.slice
                && before.header.definition == header.definition
                && before.header.parcel_bytes == header.parcel_bytes
        });
        let plan = ImportPlan::new(header, options.slice.clone(), before.as_ref(), replaced.next_run);
        let known = |number: &&u64| before.as_ref().is_some_and(|before| before.numbers.contains(number));
        let mut kept: Vec<PathBuf> = replaced.runs.iter().map(|run| run_path(directory, *run)).collect();
        for number in plan.numbers.iter().filter(known) {
            kept.extend([run_path(directory, *number), part_path(directory, *number)]);
        }
        if before.is_some() {
            kept.push(directory.join(PLAN));
        }
        if remove_others(disk, directory, &kept)? {
            // An earlier file must not come back under a number of the plan.
            disk.sync_directory(directory).map_err(|error| Error::io("sync", directory, &error))?;
        }
        if before.as_ref() != Some(&plan) {
            plan.write(disk, directory)?;
        }
        let next = plan.header.first_position();
        let mut import = CopyImport {
            options,
            plan,
            next,
            part: None,
            is_resumed: false,
            unsynced: 0,
            is_disk_free: false,
            moved: 0,
        };
        import.enter_run()?;
        import.check_space()?;
        Ok(import)
    }

    /// Description of the copy.
    pub fn header(&self) -> &CopyHeader {
        &self.plan.header
    }

    /// Place of the parcel that has to come next; `None` once all are here.
    pub fn next(&self) -> Option<ParcelPosition> {
        self.next
    }

    /// Bytes that are here, and that have come.
    pub fn progress(&self) -> ImportProgress {
        let runs = &self.plan.header.runs;
        let whole = self.next.map_or(runs.len(), |next| next.run as usize);
        let before: u64 = runs[..whole].iter().map(|run| run.length).sum();
        let received = before + self.next.map_or(0, |next| next.offset);
        ImportProgress { bytes: self.plan.header.bytes(), received, moved: self.moved }
    }

    /// Sets if no request waits for the disk: then parcels are written faster. Initially false.
    pub fn set_disk_free(&mut self, is_free: bool) {
        self.is_disk_free = is_free;
    }

    /// Takes the next parcel. The last one of a run that was resumed takes as long as reading the run, since
    /// every byte is checked again.
    ///
    /// # Errors
    /// The parcel is another one or damaged: [`CopyImport::next`] stays. The run was damaged where it came
    /// from, or here, or the system refuses: the run has to come again from its start.
    pub fn accept(&mut self, parcel: &CopyParcel) -> Result<(), Error> {
        let other = Error::OtherParcel { found: parcel.position, wanted: self.next };
        if self.next != Some(parcel.position) {
            return Err(other);
        }
        let (length, checksum) = self.plan.header.parcel_at(parcel.position).ok_or(other)?;
        if parcel.bytes.len() as u64 != length || xxh3_64(&parcel.bytes) != checksum {
            return Err(Error::DamagedTransfer { part: "parcel" });
        }
        let run = parcel.position.run;
        let next = self.plan.header.position_after(parcel.position);
        let is_last = next.is_none_or(|next| next.run != run);
        self.moved += length;
        let taken = self.append(parcel).and_then(|()| if is_last { self.complete_run(run) } else { Ok(()) });
        if let Err(error) = taken {
            self.restart_run(run);
            return Err(error);
        }
        self.next = next;
        if is_last { self.enter_run() } else { Ok(()) }
    }

    /// Publishes the copy, and opens it.
    ///
    /// # Errors
    /// Parcels are missing; the system refuses. The import can be opened again.
    pub fn finish(self) -> Result<IndexCopy, Error> {
        let CopyImport { options, plan, next, .. } = self;
        if let Some(position) = next {
            return Err(Error::Unfinished { directory: options.directory, next: position });
        }
        let manifest = CopyManifest {
            definition: options.definition,
            complete_until: plan.header.complete_until,
            built: plan.header.built,
            next_run: plan.next_run,
            runs: plan.numbers,
            slice: plan.slice,
        };
        manifest.write(&*options.disk, &options.directory)?;
        // It removes the plan, and the runs of a copy that was there before.
        IndexCopy::open(options)
    }

    /// Removes all that has come. A copy that was in the directory stays.
    ///
    /// # Errors
    /// The system refuses. What stays is removed when the directory is opened as a copy, or by the next
    /// import.
    pub fn abandon(self) -> Result<(), Error> {
        let (disk, directory) = (&*self.options.disk, &self.options.directory);
        drop(self.part);
        let replaced = CopyManifest::read_sound(disk, directory)?;
        let kept: Vec<_> = replaced.runs.iter().map(|run| run_path(directory, *run)).collect();
        remove_others(disk, directory, &kept).map(drop)
    }

    fn append(&mut self, parcel: &CopyParcel) -> Result<(), Error> {
        let disk = &*self.options.disk;
        let path = part_path(&self.options.directory, self.number(parcel.position.run));
        let failed = |error: std::io::Error| Error::io("write", &path, &error);
        let part = match self.part.take() {
            Some(part) => part,
            None => {
                self.is_resumed = parcel.position.offset > 0;
                let opened = match self.is_resumed {
                    true => disk.reopen(&path, parcel.position.offset),
                    false => disk.create(&path),
                };
                opened.map_err(failed)?
            }
        };
        let part = self.part.insert(part);
        part.set_alone(self.is_disk_free);
        part.append(&parcel.bytes).map_err(failed)?;
        self.unsynced += 1;
        if self.unsynced == SYNC_PARCELS {
            part.sync().map_err(failed)?;
            sync_name(disk, &path).map_err(failed)?;
            self.unsynced = 0;
        }
        Ok(())
    }

    /// Makes a run of a part that has all parcels.
    fn complete_run(&mut self, run: u32) -> Result<(), Error> {
        let (disk, directory, number) = (&*self.options.disk, &self.options.directory, self.number(run));
        let (part, path) = (part_path(directory, number), run_path(directory, number));
        let failed = |error: std::io::Error| Error::io("write", &path, &error);
        let mut file = match self.part.take() {
            Some(file) => file,
            // An import before this one has written all of it, and may not have made it durable.
            None => {
                self.is_resumed = true;
                disk.reopen(&part, self.plan.header.runs[run as usize].length).map_err(failed)?
            }
        };
        file.sync().map_err(failed)?;
        drop(file);
        self.unsynced = 0;
        let received = self.check_run(run, &part)?;
        if self.plan.header.slice == self.plan.slice {
            disk.rename(&part, &path).map_err(failed)?;
            return sync_name(disk, &path).map_err(failed);
        }
        let next = next_path(directory, number);
        let disposal = MergeDisposal { is_bottom: false, forget_before: 0, slice: &self.plan.slice };
        merging::merge(disk, &next, self.options.definition, &[Arc::new(received)], disposal)?;
        disk.rename(&next, &path).map_err(failed)?;
        sync_name(disk, &path).map_err(failed)?;
        disk.unlink(&part).map_err(|error| Error::io("remove", &part, &error))
    }

    /// Checks that a part with all parcels is a run. Each parcel was checked before it was written; of a part
    /// that was resumed every byte is read again.
    fn check_run(&self, run: u32, path: &Path) -> Result<IndexRun, Error> {
        let check = || {
            let received = IndexRun::open(&*self.options.disk, path, &self.options.cache)?;
            match self.is_resumed {
                true => received.check()?,
                false => received.places().map(drop)?,
            }
            match received.catalog.definition == self.options.definition {
                true => Ok(received),
                false => Err(Error::damaged(path, "it is of another index")),
            }
        };
        check().map_err(|error| match error {
            // Bytes that are those of the header were damaged before they were sent.
            Error::Damaged { what, .. } if self.has_all_parcels(run) => Error::DamagedSource { run, what },
            other => other,
        })
    }

    /// True if the part of a run is as it was sent.
    fn has_all_parcels(&self, run: u32) -> bool {
        let missing = self.first_missing(ParcelPosition { run, offset: 0 });
        missing.is_ok_and(|missing| missing.is_none_or(|missing| missing.run != run))
    }

    /// Takes a run from its start, since its part cannot be trusted: after a refusal, bytes that are read
    /// back may not be on the disk.
    fn restart_run(&mut self, run: u32) {
        let (disk, directory, number) = (&*self.options.disk, &self.options.directory, self.number(run));
        (self.part, self.unsynced) = (None, 0);
        for path in [part_path(directory, number), run_path(directory, number)] {
            // If it stays, the first parcel takes its place.
            let _ = disk.unlink(&path);
        }
        self.next = Some(ParcelPosition { run, offset: 0 });
    }

    /// Finds the position to go on at: from the start of a run, behind all that is here.
    fn enter_run(&mut self) -> Result<(), Error> {
        while let Some(start) = self.next {
            if self.is_whole(start.run)? {
                self.next = self.plan.header.position_after(self.last_position(start.run));
                continue;
            }
            let missing = self.first_missing(start)?;
            if missing.is_some_and(|missing| missing.run == start.run) {
                self.next = missing;
                return Ok(());
            }
            // The crash came before its check.
            if let Err(error) = self.complete_run(start.run) {
                self.restart_run(start.run);
                return Err(error);
            }
        }
        Ok(())
    }

    /// True if a run is here that was checked.
    fn is_whole(&self, run: u32) -> Result<bool, Error> {
        let path = run_path(&self.options.directory, self.number(run));
        match IndexRun::open(&*self.options.disk, &path, &self.options.cache) {
            Ok(_) => Ok(true),
            Err(error) if error.is_damage() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Place of the first parcel of a run that is not in its part. If all are, it is that of the next run, or
    /// `None` at the end.
    fn first_missing(&self, start: ParcelPosition) -> Result<Option<ParcelPosition>, Error> {
        let path = part_path(&self.options.directory, self.number(start.run));
        let failed = |error: std::io::Error| Error::io("read", &path, &error);
        let file = match self.options.disk.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Some(start)),
            Err(error) => return Err(failed(error)),
        };
        let end = file.len().map_err(failed)?;
        let (mut next, mut bytes) = (Some(start), Vec::new());
        while let Some(position) = next.filter(|position| position.run == start.run) {
            let Some((length, checksum)) = self.plan.header.parcel_at(position) else { break };
            if position.offset + length > end {
                break;
            }
            bytes.clear();
            // A parcel is of some megabytes.
            file.read_onto(position.offset, length as usize, &mut bytes).map_err(failed)?;
            if xxh3_64(&bytes) != checksum {
                break;
            }
            next = self.plan.header.position_after(position);
        }
        Ok(next)
    }

    /// Place of the last parcel of a run.
    fn last_position(&self, run: u32) -> ParcelPosition {
        let header = &self.plan.header;
        // A run has at least a byte.
        let last = (header.runs[run as usize].length - 1) / header.parcel_bytes;
        ParcelPosition { run, offset: last * header.parcel_bytes }
    }

    fn number(&self, run: u32) -> u64 {
        self.plan.numbers[run as usize]
    }

    /// Refuses a copy that cannot fit, before it is sent.
    fn check_space(&self) -> Result<(), Error> {
        let Some(next) = self.next else { return Ok(()) };
        let (header, directory) = (&self.plan.header, &self.options.directory);
        let rest = header.runs[next.run as usize..].iter().map(|run| run.length);
        // Of each run, a restricted import keeps less, which is not known before.
        let all = if header.slice == self.plan.slice { rest.sum() } else { rest.max().unwrap_or_default() };
        files::check_space(&*self.options.disk, directory, all.saturating_sub(next.offset))
    }
}

impl ImportPlan {
    /// Plan for a header. Runs of the plan before keep their numbers.
    fn new(header: CopyHeader, slice: SliceRange, before: Option<&ImportPlan>, next_run: u64) -> Self {
        let mut next_run = before.map_or(0, |before| before.next_run).max(next_run);
        let mut known: Vec<_> = before
            .map(|before| before.header.runs.iter().zip(before.numbers.iter().copied()).collect())
            .unwrap_or_default();
        let mut numbers = Vec::with_capacity(header.runs.len());
        for run in &header.runs {
            let number = match known.iter().position(|(known, _)| *known == run) {
                Some(at) => known.remove(at).1,
                None => {
                    next_run += 1;
                    next_run - 1
                }
            };
            numbers.push(number);
        }
        ImportPlan { header, slice, next_run, numbers }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        write_bytes(&self.header.encode(), &mut bytes);
        self.slice.write(&mut bytes);
        write_number(self.next_run, &mut bytes);
        self.numbers.iter().for_each(|number| write_number(*number, &mut bytes));
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = checked(bytes)?.strip_prefix(MAGIC)?;
        let header = CopyHeader::read(read_bytes(&mut rest)?)?;
        let slice = SliceRange::read(&mut rest)?;
        let next_run = read_number(&mut rest)?;
        let mut numbers = Vec::with_capacity(header.runs.len());
        for _ in &header.runs {
            numbers.push(read_number(&mut rest).filter(|number| *number < next_run)?);
        }
        rest.is_empty().then_some(ImportPlan { header, slice, next_run, numbers })
    }

    /// Reads the plan of a directory; `None` if there is none, or none that is sound.
    fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<Self>, Error> {
        let path = directory.join(PLAN);
        let bytes = read_file(disk, &path).map_err(|error| Error::io("read", &path, &error))?;
        Ok(bytes.and_then(|bytes| ImportPlan::decode(&bytes)))
    }

    fn write(&self, disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        let path = directory.join(PLAN);
        replace_file(disk, &path, &self.encode()).map_err(|error| Error::io("replace", &path, &error))
    }
}
