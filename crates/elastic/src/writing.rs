//! Writes of single documents: index, create, update and delete, with their conditions and results.

mod conditions;
mod updates;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_access::WantedGroups;
use millrace_cluster::ClusterVersion;
use millrace_document::{Document, DocumentGroup};
use millrace_node::work::{OPERATION_BYTES_TOGETHER, OPERATIONS_TOGETHER};
use millrace_plan::QueryMemory;
use millrace_store::{CommittedWrite, DocumentWrite, StoreChange, StoreModification};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use self::conditions::check_conditions;
pub(crate) use self::conditions::{VersionRule, WriteConditions, check};
pub(crate) use self::updates::{ShownUpdate, UpdateCharge};
use crate::Error;
use crate::caller::AdmittedSize;
use crate::catalog::{CatalogEntries, OpenIndex, random_text};
use crate::log_writes;
use crate::mapping;
use crate::placing::{PlacedWrite, WritePlacer};
use crate::service::ElasticService;
use crate::slot_picking::SlotChoices;
use crate::source::SourceFilter;
use crate::storage::{self, StoredSource};
use crate::typed;
use crate::unflushed::{UnflushedState, WriteHold};
use crate::update::{self, UpdateBody, UpdateEffect};

/// Longest time for which writes that the store has no room for are tried again, from the last write of their
/// request that was done.
pub(crate) const RETRY_TIME_MAX: Duration = Duration::from_secs(10);

/// Pauses between the tries of such writes: the first, and the longest.
pub(crate) const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// Scripts of the updates in a batch: each can make a document of many megabytes from a short one.
const SCRIPTS_TOGETHER: usize = 32;

/// Times that a script is executed for a document, each time with fields that the mapping lacked before.
const FIELD_ROUNDS_MAX: usize = 8;

/// Kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum WriteAction {
    Index,
    Create,
    Update,
    Delete,
}

impl WriteAction {
    /// Name in bulks.
    pub(crate) fn name(self) -> &'static str {
        match self {
            WriteAction::Index => "index",
            WriteAction::Create => "create",
            WriteAction::Update => "update",
            WriteAction::Delete => "delete",
        }
    }

    /// The action with the `op_type` of its request, which can make a `create` of an `index`.
    ///
    /// # Errors
    /// It is neither `create` nor `index`.
    pub(crate) fn with_op_type(self, op_type: Option<&str>) -> Result<Self, Error> {
        match op_type {
            Some("create") if self == WriteAction::Index => Ok(WriteAction::Create),
            None | Some("index" | "create") => Ok(self),
            Some(other) => {
                Err(Error::IllegalArgument(format!("opType must be 'create' or 'index', found: [{other}]")))
            }
        }
    }
}

/// A write of one document.
#[derive(Debug, Clone)]
pub(crate) struct SingleWrite {
    pub(crate) action: WriteAction,
    pub(crate) id: Option<String>,
    pub(crate) routing: Option<String>,
    pub(crate) conditions: WriteConditions,
    /// Text of the document; of an update, none.
    pub(crate) source: Arc<str>,
    pub(crate) update: Option<UpdateBody>,
    /// Part of the document that the answer of an update has.
    pub(crate) shown: Option<SourceFilter>,
    /// Memory of the answer, for that part.
    pub(crate) answer: Option<Arc<QueryMemory>>,
    /// Share of the size of its group, once it has its place.
    pub(crate) size: Option<AdmittedSize>,
}

impl SingleWrite {
    /// Bytes of the document that it brings.
    pub(crate) fn bytes(&self) -> usize {
        let parts = self.update.iter().flat_map(|update| [&update.doc, &update.upsert]).flatten();
        let text = |part: &Map<String, Value>| serde_json::to_string(part).map_or(0, |text| text.len());
        let script = self.update.as_ref().and_then(|update| update.script.as_ref());
        self.source.len() + parts.map(text).sum::<usize>() + script.map_or(0, |script| script.bytes())
    }
}

/// Result of a write.
#[derive(Debug, Clone)]
pub(crate) struct WriteResult {
    pub(crate) index: String,
    pub(crate) id: String,
    pub(crate) version: i64,
    pub(crate) seq_no: i64,
    pub(crate) result: &'static str,
    pub(crate) status: u16,
    /// Document after an update, if it was asked for.
    pub(crate) get: Option<Value>,
    /// Document that a script would make, if the mapping lacks fields of it: nothing was written.
    pub(crate) unmapped: Option<Map<String, Value>>,
}

impl WriteResult {
    /// Number of shards that were written to.
    pub(crate) fn shards_written(&self) -> u8 {
        u8::from(self.result != "noop")
    }

    /// The result as an object.
    pub(crate) fn object(self, forced_refresh: bool) -> Map<String, Value> {
        let written = self.shards_written();
        let mut object = Map::new();
        object.insert("_index".to_owned(), self.index.into());
        object.insert("_id".to_owned(), self.id.into());
        object.insert("_version".to_owned(), self.version.into());
        object.insert("result".to_owned(), self.result.into());
        if forced_refresh {
            object.insert("forced_refresh".to_owned(), true.into());
        }
        object.insert("_shards".to_owned(), json!({ "total": written, "successful": written, "failed": 0 }));
        object.insert("_seq_no".to_owned(), self.seq_no.into());
        object.insert("_primary_term".to_owned(), 1.into());
        if let Some(get) = self.get {
            object.insert("get".to_owned(), get);
        }
        object
    }
}

/// A write for the store, and the decision about it that is taken in its turn.
pub(crate) struct DecidedWrite {
    pub(crate) write: DocumentWrite,
    pub(crate) slot: DecisionSlot,
}

/// Place of a decision.
pub(crate) type DecisionSlot = Arc<Mutex<Option<Result<WriteResult, Error>>>>;

/// Writes documents, many at a time, and waits until all are durable or refused; the results have their
/// order. The writes of one document are done in their order. Writes that the store has no room for are tried
/// again for a while.
pub(crate) fn write_all(service: &ElasticService, placed: &[PlacedWrite]) -> Vec<Result<WriteResult, Error>> {
    write_share(service, placed, &mut SlotChoices::default())
}

/// Like [`write_all`], for a share of the writes of a request, whose slots are chosen together.
pub(crate) fn write_share(
    service: &ElasticService,
    placed: &[PlacedWrite],
    slots: &mut SlotChoices,
) -> Vec<Result<WriteResult, Error>> {
    let mut results = Vec::with_capacity(placed.len());
    while results.len() < placed.len() {
        let rest = &placed[results.len()..];
        let (mut bytes, mut together) = (0, 0);
        let mut scripted = HashSet::new();
        for placed in rest.iter().take(OPERATIONS_TOGETHER) {
            bytes += placed.write.source.len();
            // A script that makes new fields is executed once more, before the next write of its document.
            let document = (placed.index.entry.number, placed.write.id.as_deref());
            let is_full = bytes > OPERATION_BYTES_TOGETHER || scripted.len() == SCRIPTS_TOGETHER;
            if together > 0 && (is_full || scripted.contains(&document)) {
                break;
            }
            if placed.write.update.as_ref().is_some_and(|update| update.script.is_some()) {
                scripted.insert(document);
            }
            together += 1;
        }
        let written = write_together(service, &rest[..together], slots);
        let written = rest.iter().zip(written);
        results.extend(written.map(|(placed, result)| with_new_fields(service, placed, result, slots)));
    }
    results
}

/// Result of a write after the fields that its script makes were added to the mapping, if it lacks some.
fn with_new_fields(
    service: &ElasticService,
    placed: &PlacedWrite,
    mut result: Result<WriteResult, Error>,
    slots: &mut SlotChoices,
) -> Result<WriteResult, Error> {
    for _ in 0..FIELD_ROUNDS_MAX {
        let Some(document) = result.as_mut().ok().and_then(|result| result.unmapped.take()) else {
            return result;
        };
        let index = WritePlacer::new(service).fit(placed.index.clone(), Some(&document))?;
        let again = PlacedWrite { index, ..placed.clone() };
        result = write_together(service, &[again], slots).pop().expect("a write has a result");
    }
    match result {
        Ok(WriteResult { unmapped: Some(_), .. }) => Err(Error::NotBegun(
            "the document has other new fields each time that its script is executed: send the request again"
                .to_owned(),
        )),
        result => result,
    }
}

/// Node that takes a write, or the nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteTarget {
    /// A partition of logs.
    Partition,
    /// The owner of the document, in a cluster.
    Owner,
    /// The store that has the documents of indexes; that of a node that runs alone has all.
    Home,
}

/// Writes documents: those in `logs` mode to partitions, those of types to their owners, the others in one
/// batch.
fn write_together(
    service: &ElasticService,
    placed: &[PlacedWrite],
    slots: &mut SlotChoices,
) -> Vec<Result<WriteResult, Error>> {
    let is_alone = service.node.cluster().is_alone();
    let destination = |placed: &PlacedWrite| match (&placed.log, &placed.index.typed) {
        (Some(_), _) => WriteTarget::Partition,
        (None, Some(_)) if !is_alone => WriteTarget::Owner,
        (None, _) => WriteTarget::Home,
    };
    let those_to = |wanted: WriteTarget| -> Vec<&PlacedWrite> {
        placed.iter().filter(|placed| destination(placed) == wanted).collect()
    };
    let mut logs = log_writes::write_all(service, &those_to(WriteTarget::Partition), slots).into_iter();
    let mut owned = typed::write_at_owners(service, &those_to(WriteTarget::Owner)).into_iter();
    let mut home = write_at_home(service, &those_to(WriteTarget::Home)).into_iter();
    let result = |placed: &PlacedWrite| {
        let next = match destination(placed) {
            WriteTarget::Partition => logs.next(),
            WriteTarget::Owner => owned.next(),
            WriteTarget::Home => home.next(),
        };
        next.expect("each write has a result")
    };
    placed.iter().map(result).collect()
}

/// Writes documents to this node in one batch, which is tried again with those that were refused.
fn write_at_home(service: &ElasticService, placed: &[&PlacedWrite]) -> Vec<Result<WriteResult, Error>> {
    if placed.is_empty() {
        // The catalog is not waited for.
        return Vec::new();
    }
    let mut results: Vec<Option<Result<WriteResult, Error>>> = placed.iter().map(|_| None).collect();
    let mut pause = RETRY_PAUSES[0];
    let mut deadline = Instant::now() + RETRY_TIME_MAX;
    loop {
        let (mut writes, mut slots) = (Vec::new(), Vec::new());
        let held = HeldIndexes::hold(service, placed);
        let count = results.len();
        for (at, result) in results.iter_mut().enumerate().filter(|(_, result)| result.is_none()) {
            let placed = placed[at];
            let prepared = match &placed.index.typed {
                Some(binding) => typed::prepare(service, binding, placed),
                None => held.check(&placed.index).and_then(|()| prepare(service, placed, count > 1)),
            };
            match prepared {
                Ok(DecidedWrite { write, slot }) => {
                    writes.push(write);
                    slots.push((at, slot));
                }
                Err(error) => *result = Some(Err(error)),
            }
        }
        let tried = slots.len();
        let groups: Vec<DocumentGroup> =
            writes.iter().map(|write: &DocumentWrite| write.id.group().clone()).collect();
        let committed = match service.caller.permit_wanted(WantedGroups::These(&groups)) {
            Ok(permit) => storage::write_all(&service.node, &permit, service.caller.client(), writes),
            Err(error) => vec![Err(error); tried],
        };
        drop(held);
        let refused = committed.iter().filter(|outcome| is_refused(outcome)).count();
        if refused < tried {
            (deadline, pause) = (Instant::now() + RETRY_TIME_MAX, RETRY_PAUSES[0]);
        }
        let is_over = Instant::now() >= deadline;
        for ((at, slot), committed) in slots.into_iter().zip(committed) {
            // Where only some were accepted, a later write of the same document may be done already.
            let can_wait = refused == tried || placed[at].write.id.is_none();
            match committed {
                committed if is_refused(&committed) && can_wait && !is_over => {}
                committed => results[at] = Some(decided(&placed[at].index, &slot, committed)),
            }
        }
        if results.iter().all(Option::is_some) {
            return results.into_iter().flatten().collect();
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(RETRY_PAUSES[1]);
    }
}

/// True if a write was not accepted.
fn is_refused(outcome: &Result<CommittedWrite, Error>) -> bool {
    matches!(outcome, Err(Error::Rejected(_) | Error::NotBegun(_)))
}

/// Indexes whose deletion waits for writes that are in flight. One that is gone has an error in place of the
/// guard.
pub(crate) struct HeldIndexes<'a> {
    /// Guards by the states in memory that they are of: the writes of a request can have several of one
    /// index, if the catalog was read again while their places were found.
    held: Result<HashMap<*const UnflushedState, Result<WriteHold<'a>, Error>>, Error>,
    /// Version of the cluster state that the catalog was read under.
    version: ClusterVersion,
}

impl<'a> HeldIndexes<'a> {
    /// Holds up the deletion of the indexes of writes, for which sequence numbers are reserved. The catalog
    /// stays as it is meanwhile: a deletion waits for these guards while no other request can read the
    /// catalog.
    pub(crate) fn hold(service: &ElasticService, placed: &[&'a PlacedWrite]) -> Self {
        let indexes = placed.iter().map(|placed| &placed.index).filter(|index| index.typed.is_none());
        let indexes: HashMap<*const UnflushedState, &OpenIndex> =
            indexes.map(|index| (Arc::as_ptr(&index.live), index)).collect();
        let entries = match with_seq_nos(service, &indexes) {
            Ok(entries) => entries,
            Err(error) => return HeldIndexes { held: Err(error), version: ClusterVersion::NONE },
        };
        let hold = |index: &'a OpenIndex| -> Result<WriteHold<'a>, Error> {
            entries.written(index)?;
            match index.live.hold_deletion() {
                hold if hold.is_deleted() => Err(Error::no_index(&index.entry.name)),
                hold => Ok(hold),
            }
        };
        let held = indexes.into_iter().map(|(live, index)| (live, hold(index))).collect();
        HeldIndexes { held: Ok(held), version: entries.version() }
    }

    /// Refuses a write to an index that was deleted: its documents are dropped by now.
    ///
    /// # Errors
    /// It is deleted, or was read again ([`CatalogEntries::written`]); the catalog cannot be read, or no
    /// sequence numbers can be reserved.
    pub(crate) fn check(&self, index: &OpenIndex) -> Result<(), Error> {
        match &self.held {
            Ok(held) => match held.get(&Arc::as_ptr(&index.live)) {
                Some(Ok(_)) => Ok(()),
                Some(Err(error)) => Err(error.clone()),
                None => Err(Error::no_index(&index.entry.name)),
            },
            Err(error) => Err(error.clone()),
        }
    }

    /// Version of the cluster state by which this node acts.
    pub(crate) fn version(&self) -> ClusterVersion {
        self.version
    }
}

/// Reads the catalog, once the numbers that writes to these indexes get are reserved. A number that was given
/// without that would be that of a later write when the catalog is read again: scrolls would pass over its
/// document, and another one would get it, too.
///
/// # Errors
/// The catalog cannot be read, or changed.
fn with_seq_nos(
    service: &ElasticService,
    indexes: &HashMap<*const UnflushedState, &OpenIndex>,
) -> Result<Arc<CatalogEntries>, Error> {
    let entries = service.catalog.read()?;
    let lacks = |index: &&&OpenIndex| entries.written(index).is_ok_and(OpenIndex::needs_seq_nos);
    let lacking: Vec<&str> = indexes.values().filter(lacks).map(|index| &*index.entry.name).collect();
    if lacking.is_empty() {
        return Ok(entries);
    }
    let mut change = service.catalog.change()?;
    for name in lacking {
        change.reserve_seq_nos(name)?;
    }
    change.commit()?;
    service.catalog.read()
}

/// Result of a write whose turn has come, or that was not accepted.
fn decided(
    index: &OpenIndex,
    slot: &DecisionSlot,
    committed: Result<CommittedWrite, Error>,
) -> Result<WriteResult, Error> {
    match (slot.lock().take(), committed) {
        // A refusal counts only once the version is durable that it is about.
        (_, Err(error)) => Err(error),
        (Some(Err(refused)), Ok(_)) => Err(refused),
        (Some(Ok(result)), Ok(committed)) if index.typed.is_some() => Ok(typed::settle(result, committed)),
        (Some(Ok(result)), Ok(_)) => Ok(result),
        (None, Ok(_)) => Err(Error::Internal("a write was confirmed, but not decided".to_owned())),
    }
}

/// Prepares a write, which was checked, and whose fields the mapping of the index has. The decision is taken
/// when the write's turn among those of its document comes; at once, if the document gets a new id. The
/// decisions of several writes are taken in any order: each of these has its sequence number beforehand, so
/// that documents of a bulk are in its order.
fn prepare(
    service: &ElasticService,
    placed: &PlacedWrite,
    is_one_of_several: bool,
) -> Result<DecidedWrite, Error> {
    let PlacedWrite { index, write, .. } = placed;
    let name = write.id.clone().unwrap_or_else(|| random_text(20));
    let id = index.group().id(&name)?;
    let seq_no = is_one_of_several.then(|| index.live.next_seq_no());
    if write.id.is_none() && write.action != WriteAction::Update {
        let (result, effect) = decide(index, &name, write, None, seq_no)?;
        if let SourceChange::Written(after) = effect {
            if index.hides_writes() {
                index.live.hide(&name, None);
            }
            let change = StoreChange::Put(after.document(id.clone())?);
            let slot = Arc::new(Mutex::new(Some(Ok(result))));
            return Ok(DecidedWrite { write: DocumentWrite { id, change }, slot });
        }
    }
    let (index, write) = (index.clone(), write.clone());
    let slot = DecisionSlot::default();
    let decided = Arc::clone(&slot);
    let stored_id = id.clone();
    // Documents of indexes belong to no group of a person.
    let charge = UpdateCharge::of(service, &write, None);
    let hides_writes = index.hides_writes();
    let modify = move |stored: Option<Document>| {
        let stored = stored.map(|document| StoredSource::of(&document));
        let decision = decide(&index, &name, &write, stored.as_ref(), seq_no);
        let decision = decision.and_then(|(result, effect)| {
            let modification = match effect {
                SourceChange::Written(after) => StoreModification::Put(after.document(stored_id)?),
                SourceChange::Removed => StoreModification::Remove,
                SourceChange::Unchanged => StoreModification::Nothing,
            };
            charge.map_or(Ok(()), |charge| charge.count(&modification))?;
            Ok((result, modification))
        });
        let (result, modification) = match decision {
            Ok((result, modification)) => (Ok(result), modification),
            Err(error) => (Err(error), StoreModification::Nothing),
        };
        if hides_writes && !matches!(modification, StoreModification::Nothing) {
            index.live.hide(&name, stored);
        }
        *decided.lock() = Some(result);
        Ok(modification)
    };
    let change = match hides_writes {
        // Searches are shown the document that it has seen, which must be durable.
        true => StoreChange::Modify(Box::new(move |stored| modify(stored.map(|(document, _)| document)))),
        false => StoreChange::ModifyContent(Box::new(modify)),
    };
    Ok(DecidedWrite { write: DocumentWrite { id, change }, slot })
}

/// Effect of a write on the stored document.
enum SourceChange {
    Unchanged,
    Removed,
    Written(StoredSource),
}

/// Result of a write, and its effect.
type WriteDecision = (WriteResult, SourceChange);

/// Decides a write. It takes the sequence number `given` if it has one, unless the document has a later one
/// already.
fn decide(
    index: &OpenIndex,
    id: &str,
    write: &SingleWrite,
    stored: Option<&StoredSource>,
    given: Option<i64>,
) -> Result<WriteDecision, Error> {
    let next_seq_no = || match given {
        Some(given) if stored.is_none_or(|stored| stored.seq_no < given) => given,
        _ => index.live.next_seq_no(),
    };
    // Documents with a routing value are found by it alone, as on a shard of their own.
    let stored_here = stored.filter(|stored| {
        write.action != WriteAction::Update || index.finds(stored, write.routing.as_deref())
    });
    let version = check_conditions(index, id, write, stored_here)?;
    let mut result = WriteResult {
        index: index.entry.name.clone(),
        id: id.to_owned(),
        version,
        seq_no: 0,
        result: "created",
        status: 201,
        get: None,
        unmapped: None,
    };
    let source: Arc<str> = match (write.action, stored_here) {
        (WriteAction::Delete, _) => {
            result.seq_no = next_seq_no();
            index.live.removed(id, version);
            (result.result, result.status) =
                if stored_here.is_some() { ("deleted", 200) } else { ("not_found", 404) };
            let effect = if stored_here.is_some() { SourceChange::Removed } else { SourceChange::Unchanged };
            return Ok((result, effect));
        }
        (WriteAction::Update, _) => {
            let body = write.update.as_ref().expect("the parser gives every update a body");
            match update::apply(index, id, body, stored_here)? {
                UpdateEffect::Noop => {
                    (result.result, result.status) = ("noop", 200);
                    // A script that would have inserted the document has not.
                    (result.version, result.seq_no) =
                        stored_here.map_or((-1, -2), |stored| (stored.version, stored.seq_no));
                    if let Some(stored) = stored_here {
                        result.get = shown_after(index, write, stored)?;
                    }
                    return Ok((result, SourceChange::Unchanged));
                }
                UpdateEffect::Remove => {
                    result.seq_no = next_seq_no();
                    index.live.removed(id, version);
                    (result.result, result.status) = ("deleted", 200);
                    return Ok((result, SourceChange::Removed));
                }
                UpdateEffect::Write(document) => {
                    let entry = &index.entry;
                    let is_scripted = body.script.is_some();
                    if is_scripted && mapping::lacks_fields(&entry.mappings, &entry.settings, &document)? {
                        (result.result, result.unmapped) = ("noop", Some(document));
                        return Ok((result, SourceChange::Unchanged));
                    }
                    let text = serde_json::to_string(&document);
                    text.expect("JSON with names for keys has a text").into()
                }
            }
        }
        (WriteAction::Index | WriteAction::Create, _) => Arc::clone(&write.source),
    };
    if stored_here.is_some() {
        (result.result, result.status) = ("updated", 200);
    }
    result.seq_no = next_seq_no();
    let after = StoredSource {
        id: id.to_owned(),
        source: source.into(),
        version: result.version,
        seq_no: result.seq_no,
        routing: write.routing.clone(),
    };
    result.get = shown_after(index, write, &after)?;
    index.live.returned(id);
    Ok((result, SourceChange::Written(after)))
}

/// Member `get` of the answer of an update.
///
/// # Errors
/// Those of [`ShownUpdate::get`].
fn shown_after(index: &OpenIndex, write: &SingleWrite, after: &StoredSource) -> Result<Option<Value>, Error> {
    let Some(shown) = ShownUpdate::of(write) else { return Ok(None) };
    let Ok(document) = serde_json::from_str::<Map<String, Value>>(&after.source.text()?) else {
        return Ok(None);
    };
    shown.get(after.seq_no, &index.entry.mappings, &document).map(Some)
}
