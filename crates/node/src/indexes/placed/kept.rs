//! One copy of a slice on its node: its files, and the changes that it takes in.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_bucket::{BucketId, group_prefix};
use millrace_document::{DropScope, Timestamp};
use millrace_env::{Disk, read_file, replace_file};
use millrace_index::{CopyStatus, Error as CopyError, FlushMark, IndexChange, IndexCopy, IndexOptions};
use millrace_index_feed::{CopyMarks, FeedRow, ReplicaMark};
use millrace_index_placement::CopyId;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::super::opened::{IndexDirectory, remove_directory};
use super::super::service::{group_key, is_in};
use super::message::{RecordedDocuments, VersionKeys};
use super::pages::slice_range;
use super::verifying::CopyVerification;

/// Records that are read together.
const PAGE: usize = 1024;

/// Documents of a copy, and the definition of its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct StoredDefinition {
    /// Hash of the definition.
    pub definition: u64,
    /// Type of the documents.
    pub document_type: String,
    /// The slice, as the bucket of its locations.
    pub slice: BucketId,
}

/// File beside the directory of a copy, written after each flush.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct WrittenMarks {
    copy: StoredDefinition,
    /// Times up to which the files have everything, by bucket.
    marks: Vec<(BucketId, Timestamp)>,
    /// Marks of the replicas that the copy followed last, by bucket.
    #[serde(default)]
    replicas: Vec<(BucketId, ReplicaMark)>,
    #[serde(default)]
    verification: CopyVerification,
}

/// A copy that is open.
pub(super) struct StoredCopy {
    pub definition: StoredDefinition,
    pub copy: IndexCopy,
    pub verification: Mutex<CopyVerification>,
    /// Time until which no file has anything of dropped documents.
    erased: AtomicU64,
    marks_path: PathBuf,
    disk: Arc<dyn Disk>,
    /// True once it is discarded; held while the marks are written.
    is_discarded: Mutex<bool>,
}

/// Part of a bucket, as a page covers it.
pub(super) struct BucketPart<'a> {
    pub bucket: BucketId,
    /// Buckets inside of it, whose documents are not of it.
    pub excluded: &'a [BucketId],
    /// It begins after this sort key.
    pub after: Option<&'a [u8]>,
    /// It ends with this sort key.
    pub until: Option<&'a [u8]>,
}

/// A row lacks the keys of the copy: the node that sent it does not know the definition.
#[derive(Debug)]
pub(super) struct NoKeys;

/// Failure of a copy to take changes in.
#[derive(Debug)]
pub(super) enum TakeError {
    /// Rows lack the keys of the copy.
    NoKeys,
    /// Its files.
    Files(CopyError),
}

impl From<NoKeys> for TakeError {
    fn from(NoKeys: NoKeys) -> Self {
        TakeError::NoKeys
    }
}

impl From<CopyError> for TakeError {
    fn from(error: CopyError) -> Self {
        TakeError::Files(error)
    }
}

/// Files of the copies of a node.
impl IndexDirectory {
    pub(super) fn directory(&self, copy: CopyId) -> PathBuf {
        self.root.join(format!("copy-{}", copy.0))
    }

    fn marks_path(&self, copy: CopyId) -> PathBuf {
        self.root.join(format!("copy-{}.json", copy.0))
    }

    /// Options of a copy.
    pub(super) fn options(&self, copy: CopyId, definition: &StoredDefinition) -> IndexOptions {
        IndexOptions {
            directory: self.directory(copy),
            definition: definition.definition,
            slice: slice_range(definition.slice),
            disk: Arc::clone(&self.disk),
            cache: Arc::clone(&self.cache),
        }
    }

    /// Numbers of the copies that have files.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn list(&self) -> Result<BTreeSet<CopyId>, CopyError> {
        let failed = |action, error: std::io::Error| CopyError::Io {
            action,
            path: self.root.clone(),
            reason: error.to_string(),
        };
        if !self.root.exists() {
            return Ok(BTreeSet::new());
        }
        let names = self.disk.list(&self.root).map_err(|error| failed("list", error))?;
        let number = |name: &PathBuf| {
            let name = name.file_name()?.to_str()?.strip_prefix("copy-")?;
            name.strip_suffix(".json").unwrap_or(name).parse().ok().map(CopyId)
        };
        Ok(names.iter().filter_map(number).collect())
    }

    /// The definition that the files of a copy were written by; `None` if none were.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn read_definition(&self, copy: CopyId) -> Result<Option<StoredDefinition>, CopyError> {
        Ok(self.read_marks(copy)?.map(|written| written.copy))
    }

    fn read_marks(&self, copy: CopyId) -> Result<Option<WrittenMarks>, CopyError> {
        let path = self.marks_path(copy);
        let bytes = read_file(&*self.disk, &path);
        let bytes = bytes.map_err(|error| CopyError::Io {
            action: "read",
            path: path.clone(),
            reason: error.to_string(),
        })?;
        // Damaged marks are as none: the copy is read again.
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Opens a copy with the times up to which it has everything, or makes an empty one.
    ///
    /// # Errors
    /// The system refuses; a file is damaged.
    pub(super) fn open(
        &self,
        copy: CopyId,
        definition: &StoredDefinition,
    ) -> Result<(StoredCopy, CopyMarks), CopyError> {
        let written = self.read_marks(copy)?.filter(|written| written.copy == *definition);
        let opened = IndexCopy::open(self.options(copy, definition))?;
        // Marks of files that are gone do not count.
        let written = written.filter(|_| opened.status().built);
        let kept = self.received_copy(copy, definition, opened);
        let Some(WrittenMarks { marks, replicas, verification, .. }) = written else {
            return Ok((kept, CopyMarks::default()));
        };
        *kept.verification.lock() = verification;
        let (until, replicas) = (marks.into_iter().collect(), replicas.into_iter().collect());
        Ok((kept, CopyMarks { until, replicas }))
    }

    /// A copy whose files were received.
    pub(super) fn received_copy(
        &self,
        copy: CopyId,
        definition: &StoredDefinition,
        opened: IndexCopy,
    ) -> StoredCopy {
        StoredCopy {
            definition: definition.clone(),
            copy: opened,
            verification: Mutex::new(CopyVerification::of_new()),
            erased: AtomicU64::new(0),
            marks_path: self.marks_path(copy),
            disk: Arc::clone(&self.disk),
            is_discarded: Mutex::new(false),
        }
    }

    /// Removes the files of a copy that is not open.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn remove(&self, copy: CopyId) -> Result<(), CopyError> {
        let path = self.marks_path(copy);
        // Without marks the rest counts as nothing.
        match self.disk.unlink(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(CopyError::Io { action: "remove", path, reason: error.to_string() });
            }
            _ => {}
        }
        remove_directory(&self.directory(copy))
    }
}

impl StoredCopy {
    /// Ends the writing of files.
    pub fn discard(&self) {
        self.copy.discard();
        *self.is_discarded.lock() = true;
    }

    pub fn status(&self) -> CopyStatus {
        self.copy.status()
    }

    /// Takes new versions in, in their order.
    ///
    /// # Errors
    /// A row lacks the keys; a file cannot be read or is damaged.
    pub fn apply(&self, rows: &[FeedRow<VersionKeys>]) -> Result<(), TakeError> {
        self.copy.apply(self.changes(rows)?)?;
        Ok(())
    }

    fn changes(&self, rows: &[FeedRow<VersionKeys>]) -> Result<Vec<IndexChange>, NoKeys> {
        let change = |row: &FeedRow<VersionKeys>| {
            let keys = row.body.by_definition(self.definition.definition).ok_or(NoKeys)?;
            Ok(IndexChange {
                document: row.document.clone(),
                timestamp: row.timestamp.0,
                keys: keys.to_vec(),
            })
        };
        rows.iter().map(change).collect()
    }

    /// Replaces the records of documents by these rows, and forgets those of the others.
    ///
    /// # Errors
    /// Those of [`StoredCopy::apply`].
    pub fn replace_documents(
        &self,
        documents: &BTreeSet<Vec<u8>>,
        rows: &[FeedRow<VersionKeys>],
    ) -> Result<(), TakeError> {
        let changes = self.changes(rows)?;
        let found: BTreeSet<&[u8]> = rows.iter().map(|row| &row.document[..]).collect();
        let missing = documents.iter().filter(|document| !found.contains(&document[..]));
        self.copy.forget(&missing.cloned().collect::<Vec<_>>())?;
        self.copy.replace(changes)?;
        Ok(())
    }

    /// Replaces the records of a part of a bucket by the rows of a page. Returns the documents that the page
    /// does not have although they have a version of `from` or later; with 0, those that it does not have are
    /// forgotten.
    ///
    /// # Errors
    /// Those of [`StoredCopy::apply`].
    pub fn replace(
        &self,
        part: &BucketPart<'_>,
        from: Timestamp,
        rows: &[FeedRow<VersionKeys>],
    ) -> Result<Vec<Vec<u8>>, TakeError> {
        let changes = self.changes(rows)?;
        let found: BTreeSet<&[u8]> = rows.iter().map(|row| &row.document[..]).collect();
        let mut unmatched = Vec::new();
        self.each(part, &mut |document, timestamp| {
            if !found.contains(document) && (from.0 == 0 || timestamp >= from.0) {
                unmatched.push(document.to_vec());
            }
        })?;
        if from.0 == 0 {
            self.copy.forget(&std::mem::take(&mut unmatched))?;
        }
        self.copy.replace(changes)?;
        Ok(unmatched)
    }

    /// Takes out the entries of documents of a scope in a bucket.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn drop_scope(
        &self,
        part: &BucketPart<'_>,
        scope: &DropScope,
        of: Option<BucketId>,
        until: Timestamp,
    ) -> Result<(), TakeError> {
        let group = match scope {
            DropScope::Group { group, .. } => Some(group),
            DropScope::Type(_) => None,
        };
        let key = group.map(|group| group.key());
        let prefix = group.and_then(group_prefix);
        let mut dropped = Vec::new();
        let is_dropped = |document: &[u8]| {
            key.as_ref().is_none_or(|key| group_key(document) == Some(key.as_bytes()))
                && of.is_none_or(|of| is_in(document, of))
        };
        self.each_from(part, prefix, &mut |document, timestamp| {
            if is_dropped(document) && timestamp <= until.0 {
                dropped.push(document.to_vec());
            }
        })?;
        self.copy.remove(&dropped, until.0)?;
        Ok(())
    }

    /// Documents of a part of a bucket that have entries, with their keys; `None` if there are more than the
    /// limit.
    ///
    /// # Errors
    /// A file cannot be read or is damaged.
    pub fn records(
        &self,
        part: &BucketPart<'_>,
        limit: usize,
    ) -> Result<Option<RecordedDocuments>, CopyError> {
        let mut documents = Vec::new();
        self.each(part, &mut |document, _| documents.push(document.to_vec()))?;
        let mut found = Vec::new();
        for document in documents {
            let keys = self.copy.document(&document)?.map(|record| record.keys).unwrap_or_default();
            if !keys.is_empty() {
                found.push((document, keys));
            }
            if found.len() > limit {
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    fn each(&self, part: &BucketPart<'_>, each: &mut dyn FnMut(&[u8], u64)) -> Result<(), CopyError> {
        self.each_from(part, None, each)
    }

    /// Calls `each` with the key and time of each document of a part that has a record, and whose key has the
    /// prefix, if there is one.
    fn each_from(
        &self,
        part: &BucketPart<'_>,
        prefix: Option<Vec<u8>>,
        each: &mut dyn FnMut(&[u8], u64),
    ) -> Result<(), CopyError> {
        let range = part.bucket.reversed_range();
        let mut from = range.first.high().to_be_bytes().to_vec();
        let last = range.last.high().to_be_bytes();
        if let Some(after) = part.after {
            from = from.max([after, &[0]].concat());
        }
        if let Some(prefix) = &prefix {
            from = from.max(prefix.clone());
        }
        let is_of = |document: &[u8]| {
            is_in(document, part.bucket) && !part.excluded.iter().any(|inside| is_in(document, *inside))
        };
        let is_past = |document: &[u8]| {
            document.get(..4).is_some_and(|location| location > &last[..])
                || part.until.is_some_and(|until| document > until)
                || prefix.as_ref().is_some_and(|prefix| !document.starts_with(prefix))
        };
        loop {
            let page = self.copy.documents(&from, PAGE)?;
            let walked = page.documents.iter().try_for_each(|indexed| {
                let document = &indexed.document[..];
                if is_past(document) {
                    return ControlFlow::Break(());
                }
                if is_of(document) {
                    each(document, indexed.record.timestamp);
                }
                ControlFlow::Continue(())
            });
            let next = page.documents.last().filter(|_| !page.is_last && walked.is_continue());
            let Some(last) = next else { return Ok(()) };
            from = [&last.document[..], &[0]].concat();
        }
    }

    /// Writes what is in memory, and the times up to which that has everything, and merges files. `marks` are
    /// from before the call.
    ///
    /// # Errors
    /// The system refuses.
    pub fn flush(&self, marks: &CopyMarks) -> Result<(), CopyError> {
        self.write(marks)?;
        // Later rows from before that time are looked up.
        while self.copy.merge(marks.lowest().0)? {}
        Ok(())
    }

    /// Time until which no file has anything of dropped documents, as far as this process knows.
    pub fn erased(&self) -> Timestamp {
        Timestamp(self.erased.load(Ordering::SeqCst))
    }

    /// Writes what is in memory, and all files as one, which has nothing that was removed before these times.
    ///
    /// # Errors
    /// The system refuses; a file is damaged.
    pub fn erase(&self, marks: &CopyMarks) -> Result<(), CopyError> {
        self.write(marks)?;
        let until = marks.lowest();
        if self.copy.compact(until.0)? {
            self.erased.fetch_max(until.0, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Ends merges, also those of erasures: the node stops.
    pub fn end_merges(&self) {
        self.copy.end_merges();
    }

    /// [`StoredCopy::flush`] without merging.
    ///
    /// # Errors
    /// The system refuses.
    pub fn write(&self, marks: &CopyMarks) -> Result<(), CopyError> {
        self.copy.flush(FlushMark { complete_until: marks.lowest().0, built: true })?;
        self.write_marks(marks)
    }

    /// Notes the times up to which the files have everything.
    ///
    /// # Errors
    /// The system refuses.
    pub fn write_marks(&self, marks: &CopyMarks) -> Result<(), CopyError> {
        let is_discarded = self.is_discarded.lock();
        if *is_discarded {
            // Its files are being removed.
            return Ok(());
        }
        let replicas = marks.replicas.iter().map(|(bucket, mark)| (*bucket, *mark)).collect();
        let marks = marks.until.iter().map(|(bucket, until)| (*bucket, *until)).collect();
        let verification = *self.verification.lock();
        let written = WrittenMarks { copy: self.definition.clone(), marks, replicas, verification };
        let bytes = serde_json::to_vec(&written).expect("texts and numbers always have a JSON form");
        replace_file(&*self.disk, &self.marks_path, &bytes).map_err(|error| CopyError::Io {
            action: "write",
            path: self.marks_path.clone(),
            reason: error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests;
