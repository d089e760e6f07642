//! The documents of the door in the store: one document type of its own, a group for each index, and for each
//! partition of an index in `logs` mode.
//!
//! The type has a name that no schema can have, so that no deployment adds or removes it. All groups share
//! the low bits of their locations, so that one node of a cluster owns them. Partitions differ in the bits
//! above, so that each has files of its own.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_document::{Document, DocumentGroup, DocumentId, DocumentValue};
use millrace_node::Node;
use millrace_node::cluster::{BatchedWrite, ClusterError, GroupDropRequest};
use millrace_store::{
    CommittedWrite, DocumentWrite, StoreChange, StoreVisit, ViewScope, VisitedVersion, WriteDurability,
    WriterId,
};

use crate::Error;

/// Document type of the door. A name with a dot is not valid in a schema.
pub(crate) const DOOR_TYPE: &str = "elastic.document";

/// Namespace of the ids.
const NAMESPACE: &str = "elastic";

/// Low 32 bits of the locations of all documents of the door but those of partitions.
const HOME: u32 = 0x00e1_a571;

/// Low bits of the locations of all documents of the door: as many as the buckets of a cluster can have.
const HOME_BITS: u8 = 20;

/// Places of partitions, each with locations of its own.
pub(crate) const PLACES: u16 = 1 << (32 - HOME_BITS);

/// Place that has the documents of other indexes.
const PLACE_OF_INDEXES: u16 = (HOME >> HOME_BITS) as u16;

/// Bytes above which a bucket of several places is split, so that they get files of their own.
const APART_BYTES: u64 = 16 << 20;

/// Time limit of a write.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time beyond that limit after which no outcome will come.
const GRACE: Duration = Duration::from_secs(5);

/// Documents read in one step of a scan.
pub(crate) const PAGE: usize = 1024;

/// Number of a group of the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShelfGroup(u64);

impl ShelfGroup {
    /// Group of the catalog.
    pub(crate) const CATALOG: ShelfGroup = ShelfGroup::of_index(0);

    /// Group of an index, by a number that is unique among the indexes; 0 is the catalog.
    pub(crate) const fn of_index(number: u32) -> Self {
        ShelfGroup((number as u64) << 32 | HOME as u64)
    }

    /// Group of a partition, by a number that is unique among the partitions, at a place below [`PLACES`].
    pub(crate) const fn of_partition(number: u32, place: u16) -> Self {
        let low = HOME & ((1 << HOME_BITS) - 1) | (place as u32) << HOME_BITS;
        ShelfGroup((number as u64) << 32 | low as u64)
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
        let mut escaped = String::with_capacity(name.len());
        for letter in name.chars() {
            if letter.is_control() || letter == '%' {
                let mut bytes = [0; 4];
                for byte in letter.encode_utf8(&mut bytes).bytes() {
                    escaped.push_str(&format!("%{byte:02x}"));
                }
            } else {
                escaped.push(letter);
            }
        }
        Ok(DocumentId::new(NAMESPACE, DOOR_TYPE, &self.group(), &escaped)?)
    }
}

/// True if partitions may be at a place.
pub(crate) fn is_free_place(place: u16) -> bool {
    place < PLACES && place != PLACE_OF_INDEXES
}

/// Has the store keep partitions in files of their own, so that their drop is the removal of files.
pub(crate) fn keep_partitions_apart(node: &Node) {
    node.store().keep_apart(BucketId::new(HOME_BITS, u64::from(HOME)), APART_BYTES);
}

/// Group of any document of the door, for routing in a cluster.
pub(crate) fn home() -> DocumentGroup {
    ShelfGroup::CATALOG.group()
}

/// Name that an id of [`ShelfGroup::id`] was made from.
fn name_of(id: &DocumentId) -> String {
    percent_encoding::percent_decode_str(id.name()).decode_utf8_lossy().into_owned()
}

/// A stored document with its version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredSource {
    pub(crate) id: String,
    /// JSON text of the document.
    pub(crate) source: Arc<str>,
    pub(crate) version: i64,
    pub(crate) seq_no: i64,
    pub(crate) routing: Option<String>,
}

impl StoredSource {
    /// Creates the document for the store.
    pub(crate) fn document(&self, id: DocumentId) -> Document {
        let mut fields = vec![
            ("source".into(), DocumentValue::String(self.source.to_string())),
            ("version".into(), DocumentValue::Long(self.version)),
            ("seq_no".into(), DocumentValue::Long(self.seq_no)),
        ];
        if let Some(routing) = &self.routing {
            fields.push(("routing".into(), DocumentValue::String(routing.clone())));
        }
        Document { id, fields }
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

/// Time after which a write that waits for models is given up.
pub(crate) fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// Write under way.
type CommitReceiver = Receiver<Result<CommittedWrite, ClusterError>>;

/// Writes documents together, and waits until all are durable or refused; the outcomes have their order. The
/// writes of one document are done in their order. The store of a node that runs alone takes all of them on,
/// or none.
pub(crate) fn write_all(node: &Node, writes: Vec<DocumentWrite>) -> Vec<Result<CommittedWrite, Error>> {
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
        let told = move |outcomes| {
            // The caller may have left; the writes stand all the same.
            let _ = sender.send(outcomes);
        };
        return match node.store().write_batch(writes, WriterId::default(), WriteDurability::Synced, told) {
            Err(refused) => vec![Err(refused.error.into()); count],
            Ok(wait) => {
                let until = Instant::now() + wait;
                let outcomes = receiver.recv_timeout(PATIENCE + GRACE);
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
        BatchedWrite { write, done }
    };
    let batch = writes.into_iter().map(batched).collect();
    cluster.write(batch, Instant::now() + PATIENCE);
    receivers.iter().map(finish).collect()
}

/// Begins a write. Writes of one document are done in the order in which they begin; many share a sync.
fn begin(node: &Node, write: DocumentWrite) -> CommitReceiver {
    let (sender, receiver) = channel();
    match node.cluster().view() {
        // The receiver is below.
        Err(error) => drop(sender.send(Err(error))),
        Ok(None) => node.store().write(write, move |outcome| {
            // The caller may have left; the write stands all the same.
            let _ = sender.send(outcome.map_err(ClusterError::Store));
        }),
        Ok(Some(cluster)) => {
            let done = Box::new(move |outcome| {
                // As above.
                let _ = sender.send(outcome);
            });
            cluster.write(vec![BatchedWrite { write, done }], Instant::now() + PATIENCE);
        }
    }
    receiver
}

/// Waits for a write.
fn finish(receiver: &CommitReceiver) -> Result<CommittedWrite, Error> {
    match receiver.recv_timeout(PATIENCE + GRACE) {
        Ok(outcome) => Ok(outcome?),
        Err(_) => Err(unconfirmed()),
    }
}

fn unconfirmed() -> Error {
    Error::Unavailable(
        "the write was not confirmed in time; whether it was done is not known: repeat it".to_owned(),
    )
}

/// Writes a document, or removes it, and waits until this is durable.
pub(crate) fn put(node: &Node, group: ShelfGroup, name: &str, source: Option<&str>) -> Result<(), Error> {
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
            StoreChange::Put(stored.document(id.clone()))
        }
    };
    finish(&begin(node, DocumentWrite { id, change })).map(drop)
}

/// Reads a document.
pub(crate) fn get(node: &Node, group: ShelfGroup, name: &str) -> Result<Option<StoredSource>, Error> {
    let found = node.store().get(&group.id(name)?)?;
    Ok(found.map(|(document, _)| StoredSource::of(&document)))
}

/// Calls `visit` with each document of a group, until it breaks off or returns an error.
pub(crate) fn scan(
    node: &Node,
    group: ShelfGroup,
    mut visit: impl FnMut(StoredSource) -> Result<ControlFlow<()>, Error>,
) -> Result<(), Error> {
    let mut pass = StoreVisit {
        scope: ViewScope::Groups(vec![group.group()]),
        wanted: PAGE,
        ..StoreVisit::all(&[DOOR_TYPE])
    };
    loop {
        let page = node.store().visit(&pass)?;
        for visited in page.visited {
            if let VisitedVersion::Document(document, _) = visited
                && visit(StoredSource::of(&document))?.is_break()
            {
                return Ok(());
            }
        }
        match page.continuation {
            Some(continuation) => pass.continuation = Some(continuation),
            None => return Ok(()),
        }
    }
}

/// Drops all documents of a group, at a cost that does not depend on their number.
pub(crate) fn drop_group(node: &Node, group: ShelfGroup) -> Result<(), Error> {
    let Some(cluster) = node.cluster().view()? else {
        return Ok(node.store().drop_group(Some(DOOR_TYPE), &group.group())?);
    };
    let (group, part) = (group.group(), None);
    let horizon = cluster.drop_horizon(&group, part)?;
    let (sender, receiver) = channel();
    let document_type = Some(DOOR_TYPE.to_owned());
    let dropped = GroupDropRequest { document_type, group, part, horizon: Some(horizon) };
    let done = Box::new(move |outcome| {
        // The caller may have left.
        let _ = sender.send(outcome);
    });
    cluster.drop_group(dropped, Instant::now() + PATIENCE, done);
    finish(&receiver).map(drop)
}

#[cfg(test)]
mod tests {
    use millrace_bucket::ClusterConfiguration;

    use super::*;

    #[test]
    fn names_of_all_kinds_are_kept() {
        for name in ["a", "a/b", "%2F", "a\u{0}b", "line\nbreak", "ä€𐍈", "x:y", "."] {
            let id = ShelfGroup::of_index(7).id(name).expect("every name makes an id");
            assert_eq!(name_of(&id), name);
        }
        assert!(ShelfGroup::of_index(7).id("").is_err(), "an empty name is refused");
    }

    #[test]
    fn groups_share_the_owner_and_nothing_else() {
        let bits = |group: ShelfGroup| group.group().location_bits();
        assert_eq!(bits(ShelfGroup::of_index(1)), bits(ShelfGroup::of_index(2)));
        assert_ne!(ShelfGroup::of_index(1).group(), ShelfGroup::of_index(2).group());
        let owner = |group| bits(group).map(|bits| bits & ((1 << HOME_BITS) - 1));
        for place in (0..PLACES).filter(|place| is_free_place(*place)) {
            let partition = ShelfGroup::of_partition(1, place);
            assert_eq!(owner(partition), owner(ShelfGroup::CATALOG));
            assert_ne!(bits(partition), bits(ShelfGroup::CATALOG), "place {place}");
        }
        // A bucket of a cluster has all of the door.
        const { assert!(ClusterConfiguration::BITS_MAX <= HOME_BITS) };
    }
}
