//! The documents of the service in the store: one document type of its own, a group for each index, and for
//! each partition of an index in `logs` mode.
//!
//! The type has a name that no schema can have, so that no deployment adds or removes it. The catalog and the
//! documents of other indexes share the low bits of their locations, so that one node of a cluster owns them.
//! Partitions are in several areas, each with low bits of its own, and so on several nodes; they differ in
//! the bits above, so that each has files of its own.
//!
//! In a cluster, documents are read where all of them are, by one cluster state before and after. Documents
//! of partitions are written by their owners only for a node that acts by the same state: another one may
//! have taken the catalog over, and dropped the partition.
//!
//! Groups of the service ([`StorageGroup`]) are read and written with the permit of the server: the service
//! has checked that the caller may use all groups. Where any group can be named, the caller's permit is
//! taken.

mod areas;
mod chunks;
mod drops;
mod scans;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use millrace_access::{Permit, WantedGroups};
use millrace_bucket::BucketId;
use millrace_cluster::ClusterVersion;
use millrace_document::{Document, DocumentGroup, DocumentId, DocumentValue, Location, Timestamp};
use millrace_node::Node;
use millrace_node::cluster::{
    BatchedWrite, ChangeLimits, ClusterError, ClusterScan, ConditionalChange, DocumentsAnswer,
    DocumentsQuestion, HeldBucket, SentDocument, SentVersion, SettledChange,
};
use millrace_node::cluster::{
    ask_owners, change_documents, documents_away, read_bucket, stored_version, wait_for,
};
use millrace_store::{
    CommittedWrite, DocumentWrite, StoreChange, StoreModification, WriteDurability, WriterId,
};

use self::areas::area_bits;
pub(crate) use self::areas::{
    PartitionAddress, keep_partitions_apart, newest_write, nodes_of, nodes_of_area, spread_areas,
    store_status,
};
pub(crate) use self::chunks::{ChunkRow, GroupChunks};
pub(crate) use self::drops::{drop_group, drop_groups, drop_waits, newest_version};
pub(crate) use self::scans::{DocumentScan, place_of, scan, scan_after};
use crate::Error;
use crate::source_text::SourceText;

/// Document type of the service. A name with a dot is not valid in a schema.
pub(crate) const ELASTIC_TYPE: &str = "elastic.document";

/// Namespace of the ids.
const NAMESPACE: &str = "elastic";

/// Low 32 bits of the locations of all documents of the service but those of partitions.
const HOME: u32 = 0x00e1_a571;

/// Low bits of the locations of all documents of the service: as many as the buckets of a cluster can have.
const HOME_BITS: u8 = 20;

/// Places of partitions in an area, each with locations of its own.
pub(crate) const PLACES: u16 = 1 << (32 - HOME_BITS);

/// Place that has the documents of other indexes.
const PLACE_OF_INDEXES: u16 = (HOME >> HOME_BITS) as u16;

/// Time limit of a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit of a read, while the nodes of a cluster agree on who has the documents.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// Time beyond that limit after which no outcome will come.
const GRACE: Duration = Duration::from_secs(5);

/// Number of a group of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StorageGroup(u64);

impl StorageGroup {
    /// Group of the catalog.
    pub(crate) const CATALOG: StorageGroup = StorageGroup::of_index(0);

    /// Group of an index, by a number that is unique among the indexes; 0 is the catalog.
    pub(crate) const fn of_index(number: u32) -> Self {
        StorageGroup((number as u64) << 32 | HOME as u64)
    }

    /// Group of a partition, by a number that is unique among the partitions.
    pub(crate) const fn of_partition(number: u32, place: PartitionAddress) -> Self {
        let low = area_bits(place.area) | (place.place as u32) << HOME_BITS;
        StorageGroup((number as u64) << 32 | low as u64)
    }

    fn low_bits(self) -> u32 {
        self.0 as u32
    }

    /// Group in the store.
    pub(crate) fn group(self) -> DocumentGroup {
        DocumentGroup::Number(self.0)
    }

    /// Id of a document. Control characters and `%` in the name are percent-encoded.
    ///
    /// # Errors
    /// The name is empty or too long.
    pub(crate) fn id(self, name: &str) -> Result<DocumentId, Error> {
        let is_escaped = |letter: char| letter.is_control() || letter == '%';
        if !name.contains(is_escaped) {
            return Ok(DocumentId::new(NAMESPACE, ELASTIC_TYPE, &self.group(), name)?);
        }
        let mut escaped = String::with_capacity(name.len());
        for letter in name.chars() {
            if is_escaped(letter) {
                let mut bytes = [0; 4];
                for byte in letter.encode_utf8(&mut bytes).bytes() {
                    escaped.push_str(&format!("%{byte:02x}"));
                }
            } else {
                escaped.push(letter);
            }
        }
        Ok(DocumentId::new(NAMESPACE, ELASTIC_TYPE, &self.group(), &escaped)?)
    }
}

/// True if partitions may be at a place.
pub(crate) fn is_free_place(place: u16) -> bool {
    place < PLACES && place != PLACE_OF_INDEXES
}

/// Group of any document of the service, for routing in a cluster.
pub(crate) fn home() -> DocumentGroup {
    StorageGroup::CATALOG.group()
}

/// Name that an id of [`StorageGroup::id`] was made from.
fn name_of(id: &DocumentId) -> String {
    percent_encoding::percent_decode_str(id.name()).decode_utf8_lossy().into_owned()
}

/// A stored document with its version.
#[derive(Debug, Clone)]
pub(crate) struct StoredSource {
    pub(crate) id: String,
    pub(crate) source: SourceText,
    pub(crate) version: i64,
    pub(crate) seq_no: i64,
    pub(crate) routing: Option<String>,
}

impl StoredSource {
    /// Creates the document for the store.
    ///
    /// # Errors
    /// Its text cannot be written.
    pub(crate) fn document(&self, id: DocumentId) -> Result<Document, Error> {
        let mut fields = vec![
            ("source".into(), DocumentValue::String(self.source.text()?.to_string())),
            ("version".into(), DocumentValue::Long(self.version)),
            ("seq_no".into(), DocumentValue::Long(self.seq_no)),
        ];
        if let Some(routing) = &self.routing {
            fields.push(("routing".into(), DocumentValue::String(routing.clone())));
        }
        Ok(Document { id, fields })
    }

    /// Reads a document of the store.
    pub(crate) fn of(document: &Document) -> Self {
        let text = |name| match document.get(name) {
            Some(DocumentValue::String(text)) => Some(text.as_str()),
            _ => None,
        };
        let number = |name| match document.get(name) {
            Some(DocumentValue::Long(number)) => *number,
            _ => 0,
        };
        StoredSource {
            id: name_of(&document.id),
            source: text("source").unwrap_or("{}").into(),
            version: number("version"),
            seq_no: number("seq_no"),
            routing: text("routing").map(str::to_owned),
        }
    }
}

/// Time after which a write that waits for models is given up, and drops are left to a later pass.
pub(crate) fn deadline() -> Instant {
    Instant::now() + WRITE_TIMEOUT
}

/// Returns true after a deadline; never without one.
fn is_over(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() >= until)
}

/// Time after which a read is given up, while the nodes of a cluster agree on who has the documents.
pub(crate) fn read_deadline() -> Instant {
    Instant::now() + READ_TIMEOUT
}

/// Write in flight.
type CommitReceiver = Receiver<Result<CommittedWrite, ClusterError>>;

/// Writes documents of a client together, and waits until all are durable or refused; the outcomes have
/// their order. The writes of one document are done in their order. The store of a node that runs alone takes
/// all of them on, or none; while it is behind, clients wait for their shares of it.
pub(crate) fn write_all(
    node: &Node,
    permit: &Permit,
    client: WriterId,
    writes: Vec<DocumentWrite>,
) -> Vec<Result<CommittedWrite, Error>> {
    if writes.is_empty() {
        return Vec::new();
    }
    let count = writes.len();
    let cluster = match node.cluster().view() {
        Ok(cluster) => cluster,
        Err(error) => {
            let reason = error.to_string();
            return (0..count).map(|_| Err(Error::from(ClusterError::unavailable(&reason)))).collect();
        }
    };
    let Some(cluster) = cluster else {
        let (sender, receiver) = channel();
        let done = move |outcomes| {
            // The caller may have left; the writes stand all the same.
            let _ = sender.send(outcomes);
        };
        let groups: Vec<DocumentGroup> = writes.iter().map(|write| write.id.group().clone()).collect();
        let store = node.permitted_store(permit, WantedGroups::These(&groups));
        return match store.write_batch(writes, client, WriteDurability::Synced, done) {
            Err(refused) => vec![Err(refused.error.into()); count],
            Ok(wait) => {
                let until = Instant::now() + wait;
                let outcomes = receiver.recv_timeout(WRITE_TIMEOUT + GRACE);
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
                match outcomes {
                    Ok(outcomes) => outcomes.into_iter().map(|outcome| Ok(outcome?)).collect(),
                    Err(_) => vec![Err(unconfirmed()); count],
                }
            }
        };
    };
    let mut receivers = Vec::with_capacity(count);
    let batched = |write| {
        let (sender, receiver) = channel();
        receivers.push(receiver);
        let done = Box::new(move |outcome| {
            // As above.
            let _ = sender.send(outcome);
        });
        BatchedWrite::new(permit, write, done)
    };
    let batch = writes.into_iter().map(batched).collect();
    cluster.write(batch, Instant::now() + WRITE_TIMEOUT);
    receivers.iter().map(finish).collect()
}

/// Begins a write of a document of the service. Writes of one document are done in the order in which they
/// begin; many share a sync.
fn begin(node: &Node, write: DocumentWrite) -> CommitReceiver {
    let (sender, receiver) = channel();
    let permit = Permit::of_server();
    match node.cluster().view() {
        // The receiver is below.
        Err(error) => drop(sender.send(Err(error))),
        Ok(None) => node.permitted_store(&permit, WantedGroups::All).write(write, move |outcome| {
            // The caller may have left; the write stands all the same.
            let _ = sender.send(outcome.map_err(ClusterError::Store));
        }),
        Ok(Some(cluster)) => {
            let done = Box::new(move |outcome| {
                // As above.
                let _ = sender.send(outcome);
            });
            let write = BatchedWrite::new(&permit, write, done);
            cluster.write(vec![write], Instant::now() + WRITE_TIMEOUT);
        }
    }
    receiver
}

/// Waits for a write.
fn finish(receiver: &CommitReceiver) -> Result<CommittedWrite, Error> {
    match receiver.recv_timeout(WRITE_TIMEOUT + GRACE) {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Err(unconfirmed()),
    }
}

fn unconfirmed() -> Error {
    Error::Unavailable(
        "the write was not confirmed in time; whether it was done is not known: repeat it".to_owned(),
    )
}

/// Write of a document with a text, or its removal.
fn write_of(group: StorageGroup, name: &str, source: Option<&str>) -> Result<DocumentWrite, Error> {
    let id = group.id(name)?;
    let change = match source {
        None => StoreChange::Remove,
        Some(source) => {
            let stored = StoredSource {
                id: name.to_owned(),
                source: source.into(),
                version: 1,
                seq_no: 0,
                routing: None,
            };
            StoreChange::Put(stored.document(id.clone())?)
        }
    };
    Ok(DocumentWrite { id, change })
}

/// Writes a document, or removes it, and waits until this is durable.
pub(crate) fn put(node: &Node, group: StorageGroup, name: &str, source: Option<&str>) -> Result<(), Error> {
    finish(&begin(node, write_of(group, name, source)?)).map(drop)
}

/// Writes documents, each with its name and text, or removes them, and waits until this is durable. A node
/// that runs alone does this for all of them or for none, also when it is killed meanwhile.
///
/// # Errors
/// The first of them: some may have been written, in a cluster.
pub(crate) fn put_all(
    node: &Node,
    group: StorageGroup,
    documents: &[(String, Option<String>)],
) -> Result<(), Error> {
    let writes = documents.iter().map(|(name, source)| write_of(group, name, source.as_deref()));
    let writes: Vec<DocumentWrite> = writes.collect::<Result<_, _>>()?;
    let outcomes = write_all(node, &Permit::of_server(), WriterId::default(), writes);
    outcomes.into_iter().try_for_each(|outcome| outcome.map(drop))
}

/// Reads a document.
///
/// # Errors
/// No node has all of the group now; the store cannot be read.
pub(crate) fn get(node: &Arc<Node>, group: StorageGroup, name: &str) -> Result<Option<StoredSource>, Error> {
    let found = get_document(node, &Permit::of_server(), &group.id(name)?)?;
    Ok(found.map(|(document, _)| StoredSource::of(&document)))
}

/// Reads a document of any type, with the time of its write.
///
/// # Errors
/// Those of [`get`].
pub(crate) fn get_document(
    node: &Arc<Node>,
    permit: &Permit,
    id: &DocumentId,
) -> Result<Option<(Document, Timestamp)>, Error> {
    let store = node.permitted_store(permit, WantedGroups::These(std::slice::from_ref(id.group())));
    let Some(cluster) = node.cluster().view()? else { return Ok(store.get(id)?) };
    if *id.group() == DocumentGroup::None {
        return Ok(wait_for(node, stored_version(node, permit, id, read_deadline()))??);
    }
    let bucket = cluster.bucket(id.location())?;
    match read(node, id.group(), bucket, |held| DocumentsQuestion::Get { held, id: id.clone() })? {
        None | Some(DocumentsAnswer::Document(None)) => Ok(None),
        Some(DocumentsAnswer::Document(Some(sent))) => Ok(Some(sent.document()?)),
        Some(other) => Err(misunderstood(&other)),
    }
}

/// Names of a group that documents have, of those that are asked for.
///
/// # Errors
/// Those of [`get`].
pub(crate) fn existing(
    node: &Arc<Node>,
    group: StorageGroup,
    names: Vec<String>,
) -> Result<HashSet<String>, Error> {
    let ids = names.iter().map(|name| group.id(name)).collect::<Result<Vec<_>, _>>()?;
    let exist = match node.cluster().view()? {
        None => {
            let store = node.permitted_store(&Permit::of_server(), WantedGroups::All);
            let exists = |id| Ok(store.get(id)?.is_some());
            ids.iter().map(exists).collect::<Result<Vec<bool>, Error>>()?
        }
        Some(cluster) => {
            let bucket = cluster.bucket(Location::new(u64::from(group.low_bits())))?;
            let group = group.group();
            match read(node, &group, bucket, |held| DocumentsQuestion::Exist { held, ids: ids.clone() })? {
                None => Vec::new(),
                Some(DocumentsAnswer::Exist(exist)) => exist,
                Some(other) => return Err(misunderstood(&other)),
            }
        }
    };
    Ok(names.into_iter().zip(exist).filter_map(|(name, exists)| exists.then_some(name)).collect())
}

/// Reads documents of a group in a bucket of a cluster. `None`: there are none.
fn read(
    node: &Arc<Node>,
    group: &DocumentGroup,
    bucket: BucketId,
    question: impl Fn(HeldBucket) -> DocumentsQuestion,
) -> Result<Option<DocumentsAnswer>, Error> {
    let answer = wait_for(node, read_bucket(node, group, bucket, question, read_deadline()))??;
    if answer.is_none() {
        check_all_there(node)?;
    }
    Ok(answer)
}

/// Reads the next documents of a scan of a cluster; none after the last.
fn next_page(node: &Arc<Node>, scan: &mut ClusterScan) -> Result<Vec<SentVersion>, Error> {
    Ok(wait_for(node, scan.next(node, read_deadline()))??)
}

/// Checks that nothing can be on nodes that are away: as long as fewer are than there are replicas, another
/// one has it.
///
/// # Errors
/// At least as many nodes are away as there are replicas.
pub(crate) fn check_all_there(node: &Node) -> Result<(), Error> {
    let Some(cluster) = node.cluster().view()? else { return Ok(()) };
    let state = cluster.state()?;
    documents_away(&state).map_or(Ok(()), |reason| Err(Error::NotBegun(reason)))
}

fn misunderstood(answer: &DocumentsAnswer) -> Error {
    let kind = match answer {
        DocumentsAnswer::Written(_) => "outcomes of writes",
        DocumentsAnswer::Dropped => "the end of a drop",
        DocumentsAnswer::Document(_) => "a document",
        DocumentsAnswer::Exist(_) => "names",
        DocumentsAnswer::Page(..) => "a page",
        DocumentsAnswer::Changed(_) => "outcomes of changes",
    };
    Error::Internal(format!("another node answers a question for documents with {kind}"))
}

/// Has the owners of documents in a cluster change them, all at the same time, and waits until the changes
/// are durable or refused; the outcomes have the order of the changes, which are of different documents.
pub(crate) fn change_all(
    node: &Arc<Node>,
    permit: &Permit,
    changes: Vec<ConditionalChange>,
    limits: ChangeLimits,
) -> Vec<Result<SettledChange, Error>> {
    let count = changes.len();
    let changes = change_documents(node, permit, changes, limits, Instant::now() + WRITE_TIMEOUT);
    match wait_for_changes(node, changes) {
        Ok(outcomes) => outcomes.into_iter().map(|outcome| outcome.map_err(Error::from)).collect(),
        Err(error) => vec![Err(error); count],
    }
}

/// Waits for changes on other nodes.
///
/// # Errors
/// The node is being stopped: the changes may have been made.
fn wait_for_changes<F: Future>(node: &Node, changes: F) -> Result<F::Output, Error> {
    wait_for(node, changes).map_err(|error| millrace_node::Error::Unknown(error.message()).into())
}

/// Documents that are added to a group.
pub(crate) struct AddedDocuments {
    pub(crate) group: StorageGroup,
    /// The documents, with true for those that are written only if there are none of their ids.
    pub(crate) documents: Vec<(Document, bool)>,
}

/// Outcome of the addition of a document: false if there is one of its id.
pub(crate) type AddOutcome = Result<bool, Error>;

/// Adds documents of a client to groups, all at the same time, and waits until they are durable or refused;
/// the outcomes have their order. Each group's owner takes them only if it acts by the cluster state
/// `version`. The guard of a group is dropped when its outcomes are known.
pub(crate) fn add_all<G: Send + 'static>(
    node: &Arc<Node>,
    version: ClusterVersion,
    client: WriterId,
    added: Vec<(AddedDocuments, G)>,
) -> Vec<Vec<AddOutcome>> {
    if node.cluster().is_alone() {
        let (added, _guards): (_, Vec<G>) = added.into_iter().unzip();
        return add_here(node, client, added);
    }
    let counts: Vec<usize> = added.iter().map(|(added, _)| added.documents.len()).collect();
    let questions = added.into_iter().map(|(AddedDocuments { group, documents }, guard)| {
        let documents = documents.iter().map(|(document, is_new)| SentDocument::new(document, *is_new));
        let question =
            DocumentsQuestion::Write { version, documents: documents.collect(), timeout: WRITE_TIMEOUT };
        (group.group(), question, guard)
    });
    let requested = ask_owners(node, version, questions.collect(), Instant::now() + WRITE_TIMEOUT);
    let answers = match wait_for_changes(node, requested) {
        Ok(answers) => answers,
        Err(error) => return counts.into_iter().map(|count| vec![Err(error.clone()); count]).collect(),
    };
    let outcomes = answers.into_iter().zip(counts).map(|(answer, count)| match answer {
        Ok(DocumentsAnswer::Written(outcomes)) if outcomes.len() == count => {
            outcomes.into_iter().map(|outcome| Ok(outcome.is_written()?)).collect()
        }
        Ok(other) => vec![Err(misunderstood(&other)); count],
        Err(error) => vec![Err(Error::from(error)); count],
    });
    outcomes.collect()
}

/// [`add_all`] to this node's own store.
fn add_here(node: &Arc<Node>, client: WriterId, added: Vec<AddedDocuments>) -> Vec<Vec<AddOutcome>> {
    let counts: Vec<usize> = added.iter().map(|added| added.documents.len()).collect();
    let write = |(document, is_new): (Document, bool)| {
        let id = document.id.clone();
        let change = match is_new {
            false => StoreChange::Put(document),
            true => StoreChange::Modify(Box::new(move |stored| {
                Ok(stored.map_or(StoreModification::Put(document), |_| StoreModification::Nothing))
            })),
        };
        DocumentWrite { id, change }
    };
    let writes = added.into_iter().flat_map(|added| added.documents).map(write).collect();
    let mut outcomes = write_all(node, &Permit::of_server(), client, writes).into_iter();
    let of_group = |count| outcomes.by_ref().take(count).map(|outcome| Ok(outcome?.changed)).collect();
    counts.into_iter().map(of_group).collect()
}

#[cfg(test)]
mod tests {
    use millrace_bucket::ClusterConfiguration;

    use super::areas::AREAS;
    use super::*;

    #[test]
    fn names_of_all_kinds_are_kept() {
        for name in ["a", "a/b", "%2F", "a\u{0}b", "line\nbreak", "ä€𐍈", "x:y", "."] {
            let id = StorageGroup::of_index(7).id(name).expect("every name makes an id");
            assert_eq!(name_of(&id), name);
        }
        assert!(StorageGroup::of_index(7).id("").is_err(), "an empty name is refused");
    }

    #[test]
    fn groups_of_an_area_share_the_owner_and_nothing_else() {
        let bits = |group: StorageGroup| group.group().location_bits();
        assert_eq!(bits(StorageGroup::of_index(1)), bits(StorageGroup::of_index(2)));
        assert_ne!(StorageGroup::of_index(1).group(), StorageGroup::of_index(2).group());
        let owner = |group| bits(group).map(|bits| bits & ((1 << HOME_BITS) - 1));
        for place in (0..PLACES).filter(|place| is_free_place(*place)) {
            let partition = |area| StorageGroup::of_partition(1, PartitionAddress { place, area });
            assert_eq!(owner(partition(0)), owner(StorageGroup::CATALOG));
            assert_ne!(bits(partition(0)), bits(StorageGroup::CATALOG), "place {place}");
            assert_eq!(owner(partition(5)), Some(area_bits(5)));
        }
        // A bucket of a cluster has all of an area.
        const { assert!(ClusterConfiguration::BITS_MAX <= HOME_BITS) };
        let areas: HashSet<u32> = (0..AREAS).map(area_bits).collect();
        assert_eq!(areas.len(), usize::from(AREAS));
        // Where partitions are never changes.
        assert_eq!([0, 1, 2, 23].map(area_bits), [0x1_a571, 0x9_e377, 0x3_c6ef, 0x3_6fbe]);
    }
}
