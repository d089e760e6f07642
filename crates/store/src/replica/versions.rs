//! Versions in a replica, for the comparison of two replicas that differ.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use millrace_bucket::BucketId;
use millrace_document::{DocumentId, Timestamp};

use super::{has, parts};
use crate::context::StoreContext;
use crate::read::visiting::visit;
use crate::state::{StoreState, locations};
use crate::tail::RowKey;
use crate::{Error, Store, StoreVisit, ViewScope, VisitSlice, VisitedVersion};

/// A version without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionKey {
    /// Id of the document.
    pub id: DocumentId,
    /// Time of the write.
    pub timestamp: Timestamp,
    /// True if it is a removal.
    pub removed: bool,
}

/// Newest versions of a bucket's documents, in the order of keys.
#[derive(Debug, Clone, Default)]
pub struct VersionPage {
    /// The versions.
    pub versions: Vec<VersionKey>,
    /// Start of the next page; `None` at the end. It stays valid across writes, seals and merges.
    pub after: Option<String>,
}

impl Store {
    /// Returns the newest versions of a bucket's documents, with removals only from `removals_since` on: the
    /// next `wanted` after the position that the previous page returned.
    ///
    /// # Errors
    /// A file cannot be read or is damaged; the position is invalid.
    pub fn versions(
        &self,
        bucket: BucketId,
        removals_since: Timestamp,
        after: Option<&str>,
        wanted: usize,
    ) -> Result<VersionPage, Error> {
        self.shared().check_open()?;
        versions(self.shared(), bucket, removals_since, after, wanted)
    }
}

fn versions(
    shared: &StoreContext,
    bucket: BucketId,
    removals_since: Timestamp,
    after: Option<&str>,
    wanted: usize,
) -> Result<VersionPage, Error> {
    // A position is a type and a position in a visit of that type alone.
    let after = match after {
        Some(after) => Some(after.split_once('/').ok_or(Error::Continuation)?),
        None => None,
    };
    let types = types_of(&shared.state(), bucket)?;
    let remaining = types.into_iter().filter(|of| after.is_none_or(|(after, _)| of.as_str() >= after));
    let mut page = VersionPage::default();
    for document_type in remaining {
        let continuation =
            after.filter(|(of, _)| *of == document_type).map(|(_, continuation)| continuation.to_owned());
        let found = visit(
            shared,
            &StoreVisit {
                document_types: vec![document_type.clone()],
                scope: ViewScope::Buckets(vec![bucket]),
                from: Timestamp(0),
                to: Timestamp(u64::MAX),
                slice: VisitSlice::WHOLE,
                continuation: continuation.filter(|continuation| !continuation.is_empty()),
                wanted: wanted - page.versions.len(),
                filter: None,
                tombstones: true,
                fields: Some(Vec::new()),
            },
        )?;
        page.versions.extend(found.visited.into_iter().filter_map(|visited| match visited {
            VisitedVersion::Document(document, timestamp) => {
                Some(VersionKey { id: document.id, timestamp, removed: false })
            }
            VisitedVersion::Removed(id, timestamp) => {
                (timestamp >= removals_since).then_some(VersionKey { id, timestamp, removed: true })
            }
        }));
        if let Some(continuation) = found.continuation {
            page.after = Some(format!("{document_type}/{continuation}"));
            break;
        }
        if page.versions.len() >= wanted {
            // The next type from its beginning: the first name after this one.
            page.after = Some(format!("{document_type}\0/"));
            break;
        }
    }
    Ok(page)
}

/// Document types in a bucket.
fn types_of(state: &StoreState, bucket: BucketId) -> Result<BTreeSet<String>, Error> {
    let mut types = BTreeSet::new();
    for part in parts(state, bucket) {
        for segment in part.open_segments()? {
            types.extend(segment.sections().iter().map(|section| section.document_type.clone()));
        }
    }
    let (first, last) = locations(bucket);
    let to = last.checked_add(1).map(u32::to_be_bytes);
    for generation in &state.generations {
        let snapshot = generation.tail.snapshot();
        snapshot.range(&first.to_be_bytes(), to.as_ref().map(|to| &to[..]), &mut |key, _| {
            let key = RowKey::parse(key)?;
            if has(bucket, key.reversed_location()) && !types.contains(key.document_type()) {
                types.insert(key.document_type().to_owned());
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(types)
}
