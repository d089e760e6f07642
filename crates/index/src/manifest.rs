//! The manifest of a copy: its runs, and the time up to which they have everything.

use std::io::ErrorKind;
use std::path::Path;

use millrace_env::{Disk, read_file, replace_file};
use xxhash_rust::xxh3::xxh3_64;

use crate::parcel::checked;
use crate::record::{read_number, write_number};
use crate::{Error, SliceRange};

/// First bytes of a manifest.
const MAGIC: &[u8; 8] = b"MRINDEXM";

/// Maximum number of runs: more are never there, since they are merged.
const RUNS_MAX: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CopyManifest {
    /// Hash of the definition of the index.
    pub definition: u64,
    /// Every change up to this time is in the runs.
    pub complete_until: u64,
    /// True once all earlier documents were taken in.
    pub built: bool,
    /// Number of the next run.
    pub next_run: u64,
    /// Numbers of the runs, from the oldest to the newest.
    pub runs: Vec<u64>,
    /// Documents that it may have.
    pub slice: SliceRange,
}

impl CopyManifest {
    /// Adds a run that this many are older than; returns its number.
    pub fn add_run(&mut self, older: usize) -> u64 {
        let number = self.next_run;
        self.next_run += 1;
        self.runs.insert(older, number);
        number
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.definition.to_le_bytes());
        write_number(self.complete_until, &mut bytes);
        write_number(u64::from(self.built), &mut bytes);
        write_number(self.next_run, &mut bytes);
        write_number(self.runs.len() as u64, &mut bytes);
        self.runs.iter().for_each(|run| write_number(*run, &mut bytes));
        if !self.slice.is_all() {
            self.slice.write(&mut bytes);
        }
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (definition, rest) = checked(bytes)?.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
        let mut rest = rest;
        let mut number = || read_number(&mut rest);
        let mut manifest = CopyManifest {
            definition: u64::from_le_bytes(*definition),
            complete_until: number()?,
            built: number()? == 1,
            next_run: number()?,
            runs: Vec::new(),
            slice: SliceRange::default(),
        };
        let count = number()?;
        if count > RUNS_MAX {
            return None;
        }
        for _ in 0..count {
            manifest.runs.push(number()?);
        }
        if !rest.is_empty() {
            manifest.slice = SliceRange::read(&mut rest).filter(|slice| !slice.is_all())?;
        }
        let is_sound = rest.is_empty() && manifest.runs.iter().all(|run| *run < manifest.next_run);
        is_sound.then_some(manifest)
    }

    /// Reads the manifest of a directory; `None` if there is none.
    pub fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<Self>, Error> {
        let path = directory.join(NAME);
        let bytes = read_file(disk, &path).map_err(|error| Error::io("read", &path, &error))?;
        let Some(bytes) = bytes else { return Ok(None) };
        CopyManifest::decode(&bytes).map(Some).ok_or_else(|| Error::damaged(&path, "its checksum"))
    }

    /// Reads the manifest of a directory that is about to be that of another copy: one that is missing or
    /// damaged is as one without runs.
    pub fn read_sound(disk: &dyn Disk, directory: &Path) -> Result<Self, Error> {
        match CopyManifest::read(disk, directory) {
            Ok(manifest) => Ok(manifest.unwrap_or_default()),
            Err(error) if error.is_damage() => Ok(CopyManifest::default()),
            Err(error) => Err(error),
        }
    }

    /// Removes the manifest of a directory durably, if there is one: with it, files that stay would be a copy
    /// again, which has missed changes.
    pub fn remove(disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        let path = directory.join(NAME);
        match disk.unlink(&path) {
            Ok(()) => disk.sync_directory(directory).map_err(|error| Error::io("sync", directory, &error)),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", &path, &error)),
            Err(_) => Ok(()),
        }
    }

    /// Replaces the manifest of a directory, durably.
    pub fn write(&self, disk: &dyn Disk, directory: &Path) -> Result<(), Error> {
        let path = directory.join(NAME);
        replace_file(disk, &path, &self.encode()).map_err(|error| Error::io("replace", &path, &error))
    }
}

/// Name of the file.
const NAME: &str = "manifest";
