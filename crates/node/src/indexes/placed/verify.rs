//! Comparison of copies of a placed index with the documents of the buckets that a node owns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_bucket::{BucketId, reversed_location};
use millrace_cluster::{ClusterState, NodeKey};
use millrace_document::Timestamp;
use millrace_index_feed::{FeedRead, FeedReadScope, FollowSession, OwnedReplicaState};
use millrace_index_placement::{PlacedCopy, SliceId};

use super::super::service::document_id;
use super::super::{IndexDefinition, IndexDifferences};
use super::PlacedIndexes;
use super::cluster::OwnedReplicas;
use super::kept::BucketPart;
use super::message::{CopyRecords, OwnedDocuments, PlacedAnswer, PlacedQuestion};
use super::pages::{self, slice_bucket};
use super::service::PlacedService;
use super::source::QueuedContent;
use crate::Error;

/// Records that an answer has at most. A page of documents has far fewer.
const RECORDS_MAX: usize = 65_536;

/// Time in which a copy is to have what the documents have.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(30);

/// Looks at a document that differs: it may be written between two of them.
const LOOKS: usize = 3;

/// Keys of documents, by their sort keys; those without keys are left out.
type DocumentKeys = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// A slice of the index that is compared, with its copies.
pub(super) struct ComparedSlice {
    pub id: SliceId,
    pub bucket: BucketId,
    pub copies: Vec<PlacedCopy>,
}

/// Documents of a bucket between two sort keys.
#[derive(Clone)]
pub(super) struct ComparedPart {
    pub bucket: BucketId,
    /// Buckets inside of it, whose documents are not of it.
    pub excluded: Vec<BucketId>,
    pub after: Option<Vec<u8>>,
    pub until: Option<Vec<u8>>,
}

/// Node whose documents a copy is compared with.
pub(super) enum DocumentSource {
    /// This one.
    Own { definition: Arc<IndexDefinition>, state: Arc<ClusterState> },
    /// The owner of their bucket, which is asked; the definition is given by its hash.
    Owner { node: NodeKey, definition: u64 },
}

impl PlacedIndexes {
    /// Compares the copies of an index that are ready with the documents of the buckets that this node owns.
    /// Documents that are written meanwhile are looked at again.
    ///
    /// # Errors
    /// The application places no such index; it is not ready; a copy does not answer; a file cannot be read.
    pub(crate) async fn verify(&self, content: &str, name: &str) -> Result<IndexDifferences, Error> {
        let starts = || Error::Unsettled("this node does not keep placed indexes yet".to_owned());
        self.service.get().ok_or_else(starts)?.verify(content, name).await
    }

    /// True if the application places an index of this content cluster and name.
    pub(crate) fn declares(&self, content: &str, name: &str) -> bool {
        let all = self.definitions.all();
        all.iter().any(|definition| definition.name() == name && *definition.content == *content)
    }
}

impl PlacedService {
    /// Compares the copies of an index with the documents, see [`PlacedIndexes::verify`].
    ///
    /// # Errors
    /// Those of [`PlacedIndexes::verify`].
    pub async fn verify(self: &Arc<Self>, content: &str, name: &str) -> Result<IndexDifferences, Error> {
        let starts = || Error::Unsettled("this node does not keep placed indexes yet".to_owned());
        let table = self.table.borrow().clone().ok_or_else(starts)?;
        let not_ready = || Error::IndexNotReady(format!("index '{name}' is being built"));
        let number = table.usable(content, name).ok_or_else(not_ready)?;
        let index = table.indexes().get(&number).ok_or_else(not_ready)?;
        let definition = self.definitions.get(index.definition.0).ok_or_else(not_ready)?;
        let slices = index.slices.len();
        let slice = |slice: usize| {
            // At most 64 slices.
            let id = SliceId { index: number, slice: slice as u8 };
            let copies = table.serving(id).cloned().collect();
            ComparedSlice { id, bucket: slice_bucket(slice as u8, slices), copies }
        };
        let slices: Vec<ComparedSlice> = (0..slices).map(slice).collect();
        self.compare(&definition, &slices).await
    }

    async fn compare(
        self: &Arc<Self>,
        definition: &Arc<IndexDefinition>,
        slices: &[ComparedSlice],
    ) -> Result<IndexDifferences, Error> {
        let unknown = || Error::Unsettled("this node does not know yet what it owns".to_owned());
        let OwnedReplicas { state, report } =
            self.source.owned_replicas(&*self.cluster).ok_or_else(unknown)?;
        let source = DocumentSource::Own { definition: Arc::clone(definition), state: Arc::clone(&state) };
        let mut differences = IndexDifferences::default();
        for (bucket, replica) in report.replicas() {
            let bucket = *bucket;
            if *replica == OwnedReplicaState::Incomplete {
                // Its documents are not known here.
                continue;
            }
            let inside = |other: &BucketId| *other != bucket && bucket.covers(*other);
            let excluded: Vec<BucketId> = state.buckets().filter(inside).collect();
            let mut part = ComparedPart { bucket, excluded, after: None, until: None };
            loop {
                let expected = self.documents(&source, &mut part).await?;
                for slice in slices {
                    if slice.bucket.covers(bucket) || bucket.covers(slice.bucket) {
                        self.compare_slice(&source, slice, &part, &expected, &mut differences).await?;
                    }
                }
                differences.documents += expected.len() as u64;
                let Some(until) = part.until.take() else { break };
                part.after = Some(until);
            }
        }
        Ok(differences)
    }

    /// Compares all copies of a slice.
    async fn compare_slice(
        self: &Arc<Self>,
        source: &DocumentSource,
        slice: &ComparedSlice,
        part: &ComparedPart,
        expected: &DocumentKeys,
        differences: &mut IndexDifferences,
    ) -> Result<(), Error> {
        for copy in &slice.copies {
            let (documents, entries) = self.differing(source, slice, copy, part, expected).await?;
            differences.entries += entries;
            for document in documents {
                differences.differences += 1;
                if differences.examples.len() < 10 {
                    differences.examples.extend(document_id(&document).map(|id| id.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Documents of a part that differ in a copy, also after further looks, and the number of its entries
    /// there.
    ///
    /// # Errors
    /// The copy or the owner does not answer; a file cannot be read.
    pub async fn differing(
        self: &Arc<Self>,
        source: &DocumentSource,
        slice: &ComparedSlice,
        copy: &PlacedCopy,
        part: &ComparedPart,
        expected: &DocumentKeys,
    ) -> Result<(Vec<Vec<u8>>, u64), Error> {
        let found = self.records(slice, copy, part).await?;
        let entries = found.values().map(|keys| keys.len() as u64).sum::<u64>();
        let mut differing = Vec::new();
        for document in different(slice, expected, &found) {
            if !self.agrees(source, slice, copy, part, &document).await? {
                differing.push(document);
            }
        }
        Ok((differing, entries))
    }

    /// Looks at a document again.
    async fn agrees(
        self: &Arc<Self>,
        source: &DocumentSource,
        slice: &ComparedSlice,
        copy: &PlacedCopy,
        part: &ComparedPart,
        document: &[u8],
    ) -> Result<bool, Error> {
        // The range that has this document alone, and none of another text: no text has these bytes.
        let mut after = document.to_vec();
        if let Some(last @ 1..) = after.pop() {
            after.push(last - 1);
            after.extend([u8::MAX; 8]);
        }
        let part = ComparedPart { after: Some(after), until: Some(document.to_vec()), ..part.clone() };
        for _ in 0..LOOKS {
            let scope = FeedReadScope::Documents(BTreeSet::from([document.to_vec()]));
            let (mut expected, _) = self.keys(source, part.bucket, scope).await?;
            let mut found = self.records(slice, copy, &part).await?;
            if found.remove(document).unwrap_or_default() == expected.remove(document).unwrap_or_default() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Keys that the documents of a page should have, from the start of a part on; the part ends with the
    /// page then.
    ///
    /// # Errors
    /// The owner does not answer; a file cannot be read.
    pub async fn documents(
        &self,
        source: &DocumentSource,
        part: &mut ComparedPart,
    ) -> Result<DocumentKeys, Error> {
        let scope = FeedReadScope::Since { from: Timestamp(0), after: part.after.clone() };
        let (expected, until) = self.keys(source, part.bucket, scope).await?;
        part.until = until;
        Ok(expected)
    }

    /// Keys that documents of a bucket should have, and the end of the page.
    async fn keys(
        &self,
        source: &DocumentSource,
        bucket: BucketId,
        scope: FeedReadScope,
    ) -> Result<(DocumentKeys, Option<Vec<u8>>), Error> {
        match source {
            DocumentSource::Own { definition, state } => self.content(definition, state, bucket, scope).await,
            DocumentSource::Owner { node, definition } => {
                let requested = OwnedDocuments { bucket, definition: *definition, scope };
                match self.ask(*node, PlacedQuestion::Documents(requested)).await? {
                    PlacedAnswer::Documents { documents, until } => {
                        Ok((documents.into_iter().collect(), until))
                    }
                    _ => Err(Error::Internal("another node answers with something else".to_owned())),
                }
            }
        }
    }

    /// Keys that documents of a bucket should have which this node owns.
    ///
    /// # Errors
    /// The node does not have all of the bucket now, or does not know the index; a file cannot be read.
    pub async fn owned_documents(&self, requested: OwnedDocuments) -> Result<PlacedAnswer, Error> {
        let OwnedDocuments { bucket, definition, scope } = requested;
        let lacks = || Error::Unsettled(format!("this node does not have all of bucket {bucket} now"));
        let owned = self.source.owned_replicas(&*self.cluster).ok_or_else(lacks)?;
        let replica = owned.report.replicas().get(&bucket);
        if replica.is_none_or(|replica| *replica == OwnedReplicaState::Incomplete) {
            return Err(lacks());
        }
        let unknown = || Error::Unsettled("this node does not know the index yet".to_owned());
        let definition = self.definitions.get(definition).ok_or_else(unknown)?;
        let (documents, until) = self.content(&definition, &owned.state, bucket, scope).await?;
        Ok(PlacedAnswer::Documents { documents: documents.into_iter().collect(), until })
    }

    async fn content(
        &self,
        definition: &Arc<IndexDefinition>,
        state: &Arc<ClusterState>,
        bucket: BucketId,
        scope: FeedReadScope,
    ) -> Result<(DocumentKeys, Option<Vec<u8>>), Error> {
        let document_type = definition.config.document_type.to_string();
        let session = FollowSession { run: 0, number: 0 };
        let read = FeedRead { session, number: 0, bucket, document_type, scope };
        let (store, definition, state) =
            (self.source.store().clone(), Arc::clone(definition), Arc::clone(state));
        let content =
            tokio::task::spawn_blocking(move || pages::content(&store, &state, &[definition], &read)).await;
        let content = content.map_err(|error| Error::Internal(error.to_string()))??;
        let keys = content.rows.into_iter().filter_map(|row| match row.body {
            QueuedContent::Keys(keys) => {
                let keys = keys.0.first().map(|(_, keys)| keys.clone()).unwrap_or_default();
                (!keys.is_empty()).then_some((row.document, keys))
            }
            QueuedContent::Committed(_) => None,
        });
        Ok((keys.collect(), content.until))
    }

    /// Records of a copy in a part of a bucket.
    async fn records(
        &self,
        slice: &ComparedSlice,
        copy: &PlacedCopy,
        part: &ComparedPart,
    ) -> Result<DocumentKeys, Error> {
        let ComparedPart { bucket, excluded, after, until } = part.clone();
        let timeout_ms = CATCH_UP_TIMEOUT.as_millis() as u64;
        let records =
            CopyRecords { slice: slice.id, copy: copy.id, bucket, excluded, after, until, timeout_ms };
        let requested = self.cluster.ask(copy.node, PlacedQuestion::Records(records));
        let silent = |_| Error::IndexNotReady(format!("node {} has not answered in time", copy.node));
        match tokio::time::timeout(CATCH_UP_TIMEOUT * 2, requested).await.map_err(silent)?? {
            PlacedAnswer::Recorded(Some(records)) => Ok(records.into_iter().collect()),
            PlacedAnswer::Recorded(None) => Err(Error::Conflict(format!(
                "copy {} on node {} has far more documents than there are: rebuild the index",
                copy.id.0, copy.node
            ))),
            _ => Err(Error::Internal("another node answers with something else".to_owned())),
        }
    }

    /// Documents that have entries in a copy, in a part of a bucket.
    ///
    /// # Errors
    /// The node does not have the copy, or it is behind; a file cannot be read.
    pub async fn recorded(self: &Arc<Self>, requested: CopyRecords) -> Result<PlacedAnswer, Error> {
        let missing =
            || Error::Unsettled(format!("copy {} of {} is not here", requested.copy.0, requested.slice));
        let (copy, slice) = (requested.copy, requested.slice);
        let found = self.look(move |copies| copies.readable(copy, slice)).await?.ok_or_else(missing)?;
        let deadline = Instant::now() + Duration::from_millis(requested.timeout_ms);
        let (_, missing) = self.wait_until_fresh(copy, slice, deadline).await?;
        if missing.contains(&requested.bucket) {
            return Err(Error::IndexNotReady(format!("copy {} of an index is behind", requested.copy.0)));
        }
        let service = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || {
            let part = BucketPart {
                bucket: requested.bucket,
                excluded: &requested.excluded,
                after: requested.after.as_deref(),
                until: requested.until.as_deref(),
            };
            found.kept.records(&part, RECORDS_MAX).inspect_err(|error| service.failed(copy, error))
        });
        let read = read.await.map_err(|error| Error::Internal(error.to_string()))?;
        Ok(PlacedAnswer::Recorded(read?))
    }
}

/// Documents of a slice whose keys differ.
fn different(slice: &ComparedSlice, expected: &DocumentKeys, found: &DocumentKeys) -> Vec<Vec<u8>> {
    let is_of_slice = |document: &&Vec<u8>| slice.bucket.contains(reversed_location(document).location());
    let wanted = expected.iter().filter(|(document, _)| is_of_slice(document));
    let lacking = wanted.filter(|(document, keys)| found.get(*document) != Some(*keys));
    let lacking = lacking.map(|(document, _)| document.clone());
    let extra = found.keys().filter(|document| !expected.contains_key(*document));
    lacking.chain(extra.cloned()).collect()
}
