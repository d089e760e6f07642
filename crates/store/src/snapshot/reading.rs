//! Reading of one group of a snapshot, without a restoration: a store is opened in a directory for temporary
//! files, whose manifest has nothing but the buckets of the group.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_document::DocumentGroup;
use millrace_env::{Disk as _, RealDisk};

use crate::context::segment_path;
use crate::state::locations;
use crate::state::manifest::Manifest;
use crate::{Error, Store, StoreLayout, StoreOptions, StoreVisit, ViewScope, VisitPage};

/// Bytes of its cache.
const CACHE_BYTES: u64 = 16 << 20;

/// One group of a snapshot.
pub struct SnapshotReader {
    group: DocumentGroup,
    /// Directory of the snapshot.
    path: PathBuf,
    // Closed before its directory is deleted.
    store: Store,
    scratch: tempfile::TempDir,
}

impl SnapshotReader {
    /// Opens a group of the snapshot in a directory. Costs a link for each of its files.
    ///
    /// # Errors
    /// The manifest is damaged; the directory for temporary files cannot be written.
    pub fn open(snapshot: &Path, group: &DocumentGroup, layout: Arc<dyn StoreLayout>) -> Result<Self, Error> {
        let failed =
            |error: std::io::Error| Error::io("open a snapshot in the directory for temporary files", &error);
        let missing = || Error::DataDirectory {
            path: snapshot.to_owned(),
            reason: "it has no manifest, so it is not a whole snapshot; make another one".to_owned(),
        };
        let mut manifest = Manifest::read(&RealDisk, snapshot)?.ok_or_else(missing)?;
        let location = group.location_bits().unwrap_or(0).reverse_bits();
        for (bucket, segments) in &mut manifest.buckets {
            let (first, last) = locations(*bucket);
            if !(first..=last).contains(&location) {
                segments.clear();
            }
        }
        let scratch = tempfile::tempdir().map_err(failed)?;
        let there = StoreOptions::new(std::path::absolute(snapshot).map_err(failed)?);
        let here = StoreOptions {
            cache_bytes: CACHE_BYTES,
            maintenance: false,
            columns_ahead: false,
            ..StoreOptions::new(scratch.path())
        };
        RealDisk.create_directory(&scratch.path().join("segments")).map_err(failed)?;
        manifest.write(&RealDisk, scratch.path())?;
        let segments = manifest.buckets.iter().flat_map(|(_, segments)| segments);
        let numbers: BTreeSet<u64> = segments.map(|segment| segment.number).collect();
        for number in numbers {
            symlink(segment_path(&there, number), segment_path(&here, number)).map_err(failed)?;
        }
        Ok(SnapshotReader {
            group: group.clone(),
            path: there.data_dir,
            store: Store::open(here, layout)?,
            scratch,
        })
    }

    /// A visit of the group, without document types.
    pub fn visit_of_group(&self) -> StoreVisit {
        StoreVisit { scope: ViewScope::Groups(vec![self.group.clone()]), ..StoreVisit::all(&[]) }
    }

    /// Returns the next page of a visit.
    ///
    /// # Errors
    /// A file cannot be read or is damaged; the continuation is invalid.
    pub fn visit(&self, visit: &StoreVisit) -> Result<VisitPage, Error> {
        self.store.visit(visit).map_err(|error| self.at_home(error))
    }

    /// The error with the path of the file in the snapshot, which is a link in the directory for temporary
    /// files.
    fn at_home(&self, error: Error) -> Error {
        match error {
            Error::Corrupt { path, offset, reason } => {
                let path = match path.strip_prefix(self.scratch.path()) {
                    Ok(below) => self.path.join(below),
                    Err(_) => path,
                };
                Error::Corrupt { path, offset, reason }
            }
            other => other,
        }
    }
}
