//! Writes in `logs` mode: documents are added to partitions, all of a request to one slot.
//!
//! The owner of a partition that does not take documents on makes them try another slot, before anything of
//! them is written anywhere.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Instant;

use crate::catalog::{OpenIndex, now_ms};
use crate::log_settings::RoutingSlots;
use crate::partitions::{
    self, ExplicitIds, PartitionHold, PartitionLoad, PartitionWrite, SlotNodes, TimeSpan,
};
use crate::placing::PlacedWrite;
use crate::service::ElasticService;
use crate::slot_picking::SlotChoices;
use crate::storage::{self, AddOutcome, AddedDocuments, StoredSource};
use crate::writing::{HeldIndexes, RETRY_PAUSES, RETRY_TIME_MAX, WriteResult};
use crate::{Error, unread};

/// Target of a document in `logs` mode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogTarget {
    /// Times of the document.
    pub(crate) times: Option<TimeSpan>,
}

/// Documents of one partition, by their positions in the request.
struct PartitionShare {
    hold: PartitionHold,
    /// Positions, and the ids that the documents get.
    documents: Vec<(usize, String)>,
}

/// Writes documents, and waits until all are durable or refused; the results have their order.
pub(crate) fn write_all(
    service: &ElasticService,
    placed: &[&PlacedWrite],
    slots: &mut SlotChoices,
) -> Vec<Result<WriteResult, Error>> {
    let mut results: Vec<Option<Result<WriteResult, Error>>> = placed.iter().map(|_| None).collect();
    let (mut deadline, mut pause) = (Instant::now() + RETRY_TIME_MAX, RETRY_PAUSES[0]);
    let mut renewed: Vec<Cow<'_, PlacedWrite>> = placed.iter().copied().map(Cow::Borrowed).collect();
    let mut is_first = true;
    loop {
        if !std::mem::take(&mut is_first) {
            // Without the catalog, the writes are refused below.
            let _ = renew(service, &mut renewed);
        }
        let placed: Vec<&PlacedWrite> = renewed.iter().map(|placed| &**placed).collect();
        let waiting: Vec<usize> = (0..placed.len()).filter(|at| results[*at].is_none()).collect();
        if waiting.is_empty() {
            return results.into_iter().flatten().collect();
        }
        let tried = waiting.len();
        let is_over = Instant::now() >= deadline;
        let mut refused: BTreeMap<u32, &OpenIndex> = BTreeMap::new();
        let (mut left, mut is_stuck) = (0, false);
        for (at, result) in write_once(service, &placed, waiting, slots) {
            match result {
                Err(Error::Rejected(_) | Error::NotBegun(_)) if !is_over => {
                    let PlacedWrite { index, write, .. } = placed[at];
                    is_stuck |= !RoutingSlots::can_move(write.id.as_deref());
                    refused.insert(index.entry.number, index);
                    left += 1;
                }
                result => results[at] = Some(result),
            }
        }
        if left < tried {
            (deadline, pause) = (Instant::now() + RETRY_TIME_MAX, RETRY_PAUSES[0]);
        }
        let mut has_others = true;
        for (number, index) in refused {
            has_others &= slots.refuse(number, RoutingSlots::of_index(index).slots());
        }
        if left > 0 && (is_stuck || !has_others) {
            std::thread::sleep(pause);
            pause = (pause * 2).min(RETRY_PAUSES[1]);
        }
    }
}

/// Gives writes their indexes as they are now. After a change of the cluster the catalog is read again; their
/// partitions, and the fields that were noted of them, are of no use then.
///
/// # Errors
/// The catalog cannot be read.
fn renew(service: &ElasticService, placed: &mut [Cow<'_, PlacedWrite>]) -> Result<(), Error> {
    let entries = service.catalog.read()?;
    for placed in placed {
        let OpenIndex { entry, live, .. } = &placed.index;
        let newest = entries.indexes.get(&entry.name).filter(|newest| newest.entry.number == entry.number);
        let Some(newest) = newest.filter(|newest| !Arc::ptr_eq(&newest.live, live)) else { continue };
        // It was read when its place was found.
        if let Ok(document) = unread::read_document(&placed.write.source) {
            newest.live.observed.note(&newest.entry, &document);
        }
        placed.to_mut().index = newest.clone();
    }
    Ok(())
}

/// Writes documents once; an outcome for each.
fn write_once(
    service: &ElasticService,
    placed: &[&PlacedWrite],
    waiting: Vec<usize>,
    slots: &mut SlotChoices,
) -> Vec<(usize, Result<WriteResult, Error>)> {
    let mut outcomes = Vec::with_capacity(waiting.len());
    let mut shares = Vec::new();
    for ((number, shard), positions) in by_shard(service, placed, waiting, slots) {
        let index = &placed[positions[0]].index;
        match PartitionShare::begin(service, index, shard, placed, &positions) {
            Ok(share) => shares.push((number, share)),
            Err(error) => outcomes.extend(positions.into_iter().map(|at| (at, Err(error.clone())))),
        }
    }
    let held = HeldIndexes::hold(service, placed);
    let (mut added, mut sent, mut results, mut unsettled) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (_, share) in shares {
        match held.check(&placed[share.documents[0].0].index).and_then(|()| share.prepare(service, placed)) {
            Ok(prepared) => {
                outcomes.extend(prepared.refused.into_iter().map(|(at, error)| (at, Err(error))));
                let nodes = storage::nodes_of(&service.node, share.hold.group()).unwrap_or_default();
                let bytes = share.load(placed).bytes;
                let (in_flight, outcome) = service.loads.begin(&nodes, bytes);
                added.push((prepared.added, in_flight));
                unsettled.push(outcome);
                results.push(prepared.results);
                sent.push(share);
            }
            Err(error) => {
                share.hold.give_back(share.load(placed));
                outcomes.extend(share.documents.iter().map(|(at, _)| (*at, Err(error.clone()))));
            }
        }
    }
    let written = storage::add_all(&service.node, held.version(), service.caller.client(), added);
    drop(held);
    for (outcome, written) in unsettled.into_iter().zip(&written) {
        outcome.settle(written.iter().any(|result| result.as_ref().is_err_and(Error::is_for_later)));
    }
    for ((mut share, results), written) in sent.into_iter().zip(results).zip(written) {
        let mut unwritten = PartitionLoad::default();
        for ((at, result), outcome) in results.into_iter().zip(written) {
            if !matches!(outcome, Ok(true)) {
                unwritten = unwritten.with(load_of(placed[at]));
            }
            let is_known =
                matches!(outcome, Ok(_) | Err(Error::Rejected(_) | Error::NotBegun(_) | Error::DiskFull(_)));
            if !is_known {
                share.hold.note_unknown();
            }
            outcomes.push((at, settled(result, outcome)));
        }
        share.hold.give_back(unwritten);
    }
    outcomes
}

/// Positions of documents by their index and shard.
fn by_shard(
    service: &ElasticService,
    placed: &[&PlacedWrite],
    waiting: Vec<usize>,
    slots: &mut SlotChoices,
) -> BTreeMap<(u32, u32), Vec<usize>> {
    let mut shards: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    for at in waiting {
        let PlacedWrite { index, write, .. } = placed[at];
        let of_index = RoutingSlots::of_index(index);
        let number = index.entry.number;
        let chosen = slots.chosen(number).unwrap_or_else(|| {
            let nodes = SlotNodes::of(&service.node, index);
            let drawn = index.live.partitions.draw();
            slots.choose(number, of_index.slots(), drawn, |slot| nodes.of_slot(slot), &service.loads)
        });
        let shard = of_index.shard(chosen, write.routing.as_deref(), write.id.as_deref());
        shards.entry((number, shard)).or_default().push(at);
    }
    shards
}

fn load_of(placed: &PlacedWrite) -> PartitionLoad {
    let times = placed.log.and_then(|place| place.times);
    PartitionLoad { documents: 1, bytes: placed.write.source.len() as u64, times }
}

/// Documents of a partition that are ready to be added.
struct PreparedAddition {
    added: AddedDocuments,
    /// Positions and results of these, if they are written.
    results: Vec<(usize, WriteResult)>,
    /// Documents that exist already.
    refused: Vec<(usize, Error)>,
}

impl PartitionShare {
    /// Finds the partition of a shard that takes documents, and has its drop wait.
    fn begin(
        service: &ElasticService,
        index: &OpenIndex,
        shard: u32,
        placed: &[&PlacedWrite],
        positions: &[usize],
    ) -> Result<Self, Error> {
        let loads = positions.iter().map(|at| load_of(placed[*at]));
        let load = loads.fold(PartitionLoad::default(), PartitionLoad::with);
        let given: ExplicitIds = positions.iter().filter_map(|at| placed[*at].write.id.clone()).collect();
        let hold = partitions::begin_write(service, index, &PartitionWrite { shard, load, given: &given })?;
        let name = |at: &usize| (*at, placed[*at].write.id.clone().unwrap_or_else(|| hold.new_id()));
        let documents = positions.iter().map(name).collect();
        Ok(PartitionShare { hold, documents })
    }

    fn load(&self, placed: &[&PlacedWrite]) -> PartitionLoad {
        let loads = self.documents.iter().map(|(at, _)| load_of(placed[*at]));
        loads.fold(PartitionLoad::default(), PartitionLoad::with)
    }

    fn prepare(&self, service: &ElasticService, placed: &[&PlacedWrite]) -> Result<PreparedAddition, Error> {
        let group = self.hold.group();
        let earlier = self.earlier(service, placed)?;
        let mut prepared = PreparedAddition {
            added: AddedDocuments { group, documents: Vec::with_capacity(self.documents.len()) },
            results: Vec::with_capacity(self.documents.len()),
            refused: Vec::new(),
        };
        let mut unwritten = PartitionLoad::default();
        for (at, id) in &self.documents {
            let PlacedWrite { index, write, .. } = placed[*at];
            let refusal = match write.id {
                Some(_) if earlier.taken.contains(id) => Some(exists(&index.entry.name, id)),
                Some(_) if earlier.arriving.contains(id) => Some(Error::NotBegun(format!(
                    "an earlier request may still write the document [{id}]; repeat this one later"
                ))),
                _ => None,
            };
            if let Some(refusal) = refusal {
                prepared.refused.push((*at, refusal));
                unwritten = unwritten.with(load_of(placed[*at]));
                continue;
            }
            let stored = StoredSource {
                id: id.clone(),
                source: Arc::clone(&write.source).into(),
                version: 1,
                seq_no: index.live.next_seq_no(),
                routing: write.routing.clone(),
            };
            prepared.results.push((
                *at,
                WriteResult {
                    index: index.entry.name.clone(),
                    id: id.clone(),
                    version: 1,
                    seq_no: stored.seq_no,
                    result: "created",
                    status: 201,
                    get: None,
                    unmapped: None,
                },
            ));
            prepared.added.documents.push((stored.document(group.id(id)?)?, write.id.is_some()));
        }
        self.hold.give_back(unwritten);
        Ok(prepared)
    }

    /// Ids of documents that earlier partitions have, or that are on their way there: a client that repeats a
    /// request may do so while partitions change.
    fn earlier(&self, service: &ElasticService, placed: &[&PlacedWrite]) -> Result<EarlierIds, Error> {
        let mut earlier = EarlierIds::default();
        let given = self.documents.iter().filter(|(at, _)| placed[*at].write.id.is_some());
        let mut requested: BTreeSet<&String> = given.map(|(_, id)| id).collect();
        if requested.is_empty() {
            return Ok(earlier);
        }
        let index = &placed[self.documents[0].0].index;
        let now = now_ms();
        let partitions = index.live.partitions.earlier(&self.hold, now);
        let numbers: Vec<u32> = partitions.iter().map(|partition| partition.number()).collect();
        // Before the documents are read: a write that is not on its way any more is found there.
        for ids in service.arriving.ids_at(&numbers) {
            earlier.arriving.extend(ids.iter().filter(|id| requested.contains(id)).cloned());
        }
        let may_have_others =
            partitions.iter().any(|partition| partition.may_have_others(&service.arriving, now));
        for partition in partitions {
            if requested.is_empty() {
                break;
            }
            let names = requested.iter().map(|id| (*id).clone()).collect();
            let found = storage::existing(&service.node, partition.group(), names)?;
            requested.retain(|id| !found.contains(*id));
            earlier.taken.extend(found);
        }
        if may_have_others {
            earlier.arriving.extend(requested.into_iter().cloned());
        }
        Ok(earlier)
    }
}

/// Ids of clients in partitions before the one that is written to.
#[derive(Default)]
struct EarlierIds {
    /// Ids that documents have.
    taken: HashSet<String>,
    /// Ids of documents that may still be written there.
    arriving: HashSet<String>,
}

/// Error of the addition of a document whose id is taken.
fn exists(index: &str, id: &str) -> Error {
    Error::VersionConflict {
        id: id.to_owned(),
        reason: "document already exists (current version [1])".to_owned(),
        index: index.to_owned(),
    }
}

/// Result of a document that was to be added.
fn settled(result: WriteResult, outcome: AddOutcome) -> Result<WriteResult, Error> {
    match outcome {
        Ok(true) => Ok(result),
        Ok(false) => Err(exists(&result.index, &result.id)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use millrace_node::{Node, Settings};
    use serde_json::{Value, json};

    use super::*;
    use crate::names::NameDemand;
    use crate::placing::WritePlacer;
    use crate::request::ElasticRequest;
    use crate::writing::{self, SingleWrite, WriteAction, WriteConditions};

    #[track_caller]
    fn ask(service: &ElasticService, request: &str, query: &str, body: &Value) -> Value {
        let (method, path) = request.split_once(' ').expect("a request has a method and a path");
        let answer = service.answer(&ElasticRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            body: body.to_string().into_bytes(),
            ..ElasticRequest::default()
        });
        let text = String::from_utf8(answer.body).expect("the answer is text");
        assert_eq!(answer.status, 200, "{request}: {text}");
        serde_json::from_str(&text).expect("the answer is JSON")
    }

    /// A new document with the place that the catalog of a service has for it.
    fn placed(service: &ElasticService, name: &str) -> PlacedWrite {
        let write = SingleWrite {
            action: WriteAction::Create,
            id: None,
            routing: None,
            conditions: WriteConditions::default(),
            source: r#"{"@timestamp":1700000000000}"#.into(),
            update: None,
            shown: None,
            answer: None,
            size: None,
        };
        WritePlacer::new(service).place(name, write, NameDemand::default()).expect("the write has a place")
    }

    /// Writes a document; returns its sequence number.
    fn write(service: &ElasticService, placed: PlacedWrite) -> i64 {
        let results = writing::write_all(service, &[placed]);
        let written = results.into_iter().next().expect("each write has a result");
        written.expect("the document is written").seq_no
    }

    #[test]
    fn documents_that_are_written_after_a_change_of_the_cluster_are_seen_after_the_next_one() {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        let node = Node::open(Settings::new(directory.path().join("data"))).expect("the node opens");
        // Each service reads the catalog, as that of a node does after a change of the cluster.
        let read_again = || ElasticService::new(Arc::clone(&node));
        let first = read_again();
        let template = json!({
            "index_patterns": ["logs-*"], "data_stream": {},
            "template": { "settings": { "index.mode": "logsdb" } },
        });
        ask(&first, "PUT /_index_template/logs", "", &template);
        for (name, was_placed_before) in
            [("logs-a", true), ("logs-b", false), ("documents-a", true), ("documents-b", false)]
        {
            write(&first, placed(&first, name));
            let second = read_again();
            let mut late = placed(&first, name);
            let newest = |service: &ElasticService, name: &str| {
                service.catalog.read().expect("the catalog is read").indexes[name].clone()
            };
            if !was_placed_before {
                late.index = newest(&second, &late.index.entry.name);
            }
            let index = late.index.entry.name.clone();
            let number = write(&second, late);
            let third = read_again();
            assert!(number < newest(&third, &index).live.seq_no(), "the number is given again in {name}");
            let search = json!({ "sort": ["_doc"] });
            let found = ask(&third, &format!("POST /{name}/_search"), "scroll=1m", &search);
            assert_eq!(found["hits"]["hits"].as_array().map(Vec::len), Some(2), "{name}: {found}");
        }
        node.close();
    }
}
