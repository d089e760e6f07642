//! Writes of documents of types in a cluster: the owner of a document decides on each, in its turn among the
//! writes of the document.
//!
//! A put and a removal are one change at the owner, on the condition that the write has. An update depends on
//! the stored document, which this node does not have. It begins as the insertion that it asks for, or as no
//! change, on the condition that nothing is stored. Where something is, that is refused and shows it, and the
//! update becomes a put on the condition that this version is still stored. If a write of another request has
//! come between, the put is refused in the same way, and the update goes on from the version that is stored
//! now.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use millrace_access::WantedGroups;
use millrace_document::{Document, DocumentId, Timestamp};
use millrace_node::cluster::{
    ConditionalChange, ConditionalEffect, ConflictingState, SettledChange, StoredCondition,
};
use millrace_store::StoreModification;

use super::writing::{TypedEffect, TypedReader, stamped};
use super::{TypeBinding, version_of};
use crate::Error;
use crate::caller::AdmittedSize;
use crate::placing::PlacedWrite;
use crate::service::ElasticService;
use crate::storage;
use crate::writing::{
    RETRY_PAUSES, RETRY_TIME_MAX, ShownUpdate, SingleWrite, UpdateCharge, WriteAction, WriteConditions,
    WriteResult,
};

/// Writes documents, and waits until all are durable or refused; the results have their order. The writes of
/// one document are done in their order. What an owner does not accept is tried again for a while.
pub(crate) fn write_at_owners(
    service: &ElasticService,
    placed: &[&PlacedWrite],
) -> Vec<Result<WriteResult, Error>> {
    let mut results: Vec<Option<Result<WriteResult, Error>>> = placed.iter().map(|_| None).collect();
    let mut waiting = Vec::with_capacity(placed.len());
    for (at, placed) in placed.iter().enumerate() {
        let binding = placed.index.typed.as_ref().expect("only writes to document types come here");
        match OwnedWrite::read(service, binding, at, &placed.write) {
            Ok(write) => waiting.push(write),
            Err(error) => results[at] = Some(Err(error)),
        }
    }
    let (mut deadline, mut pause) = (Instant::now() + RETRY_TIME_MAX, RETRY_PAUSES[0]);
    while !waiting.is_empty() {
        let mut in_turn: HashSet<DocumentId> = HashSet::new();
        let (turns, later): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|write: &OwnedWrite<'_>| in_turn.insert(write.reader.id.clone()));
        let WriteRound { left, tried, refused } = WriteRound::of(service, turns, deadline, &mut results);
        if refused < tried {
            (deadline, pause) = (Instant::now() + RETRY_TIME_MAX, RETRY_PAUSES[0]);
        }
        if refused > 0 {
            std::thread::sleep(pause);
            pause = (pause * 2).min(RETRY_PAUSES[1]);
        }
        // Before later writes of the same documents.
        waiting = left;
        waiting.extend(later);
    }
    results.into_iter().flatten().collect()
}

/// An attempt to have the owners of different documents write them.
struct WriteRound<'a> {
    /// Writes that are to be tried again.
    left: Vec<OwnedWrite<'a>>,
    /// Number of the writes that owners were asked for.
    tried: usize,
    /// Number of these that owners have not accepted.
    refused: usize,
}

impl<'a> WriteRound<'a> {
    /// Asks the owners, and notes the results of writes that are not to be tried again. After the deadline
    /// those that owners do not accept are not, either.
    fn of(
        service: &ElasticService,
        writes: Vec<OwnedWrite<'a>>,
        deadline: Instant,
        results: &mut [Option<Result<WriteResult, Error>>],
    ) -> Self {
        let (mut changes, mut requested) = (Vec::new(), Vec::new());
        for write in writes {
            match write.attempt() {
                WriteAttempt::Settled(result) => results[write.at] = Some(result),
                WriteAttempt::Change(change, planned) => {
                    changes.push(change);
                    requested.push((write, planned));
                }
            }
        }
        let tried = requested.len();
        let groups: Vec<_> = changes.iter().map(|change| change.id.group().clone()).collect();
        let outcomes = match service.caller.permit_wanted(WantedGroups::These(&groups)) {
            Ok(permit) => storage::change_all(&service.node, &permit, changes, service.caller.size_limits()),
            Err(error) => vec![Err(error); tried],
        };
        let is_over = Instant::now() >= deadline;
        let mut round = WriteRound { left: Vec::new(), tried, refused: 0 };
        for ((mut write, planned), outcome) in requested.into_iter().zip(outcomes) {
            let result = match outcome {
                Err(Error::Rejected(_) | Error::NotBegun(_)) if !is_over => {
                    round.refused += 1;
                    // The owner may have changed, to this node.
                    write.admit(service).err().map(Err)
                }
                Err(error) => Some(Err(error)),
                Ok(SettledChange::Done { timestamp, existed }) => {
                    Some(write.done(planned, timestamp, existed))
                }
                Ok(SettledChange::Conflict(state)) => write.refused(state),
            };
            match result {
                Some(result) => results[write.at] = Some(result),
                None => round.left.push(write),
            }
        }
        round
    }
}

/// A write on its way to the owner of its document.
struct OwnedWrite<'a> {
    /// Position among the results.
    at: usize,
    write: &'a SingleWrite,
    reader: TypedReader,
    effect: TypedEffect,
    /// Stored document that the owner has shown, for an update.
    seen: Option<(Document, Timestamp)>,
    /// Share of the size of its group, if this node counts it.
    size: Option<AdmittedSize>,
    charge: Option<UpdateCharge>,
    conflicts: VersionConflicts,
}

/// Versions of other requests that have come between the reading and the writing of an update.
#[derive(Default)]
struct VersionConflicts {
    count: u32,
    /// Time after which another one is the last. It begins with the first: an update can wait for long until
    /// it is its turn.
    until: Option<Instant>,
}

impl VersionConflicts {
    /// Counts another one. Returns true if the update is tried again: as often as it says, or as it likes if
    /// it does not say, for some time.
    fn is_passed(&mut self, retries: Option<u32>, now: Instant) -> bool {
        self.count = self.count.saturating_add(1);
        let until = *self.until.get_or_insert(now + RETRY_TIME_MAX);
        self.count <= retries.unwrap_or(u32::MAX) && now < until
    }
}

/// Next step of a write.
enum WriteAttempt {
    /// Finished with its result: nothing is to be changed.
    Settled(Result<WriteResult, Error>),
    Change(ConditionalChange, PlannedResult),
}

/// Result of a write if the condition of its change holds.
enum PlannedResult {
    /// Dependent on whether the document was stored before.
    OfPutOrRemoval,
    Known(Result<WriteResult, Error>),
}

impl<'a> OwnedWrite<'a> {
    fn read(
        service: &ElasticService,
        binding: &Arc<TypeBinding>,
        at: usize,
        write: &'a SingleWrite,
    ) -> Result<Self, Error> {
        let (reader, effect) = TypedReader::read(service, binding, write)?;
        let conflicts = VersionConflicts::default();
        let charge = UpdateCharge::of(service, write, Some(reader.id.group()));
        let size = write.size.clone();
        Ok(OwnedWrite { at, write, reader, effect, seen: None, size, charge, conflicts })
    }

    /// Admits the write by the size of its group, if this node owns the document since.
    fn admit(&mut self, service: &ElasticService) -> Result<(), Error> {
        let bytes = self.sent_bytes();
        if self.size.is_none() && bytes > 0 {
            let id = &self.reader.id;
            let permit = service.caller.permit(id.group())?;
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            self.size = service.caller.admit_size(&permit, id, bytes)?;
        }
        Ok(())
    }

    fn attempt(&self) -> WriteAttempt {
        match &self.effect {
            TypedEffect::Put(document) => self.change_once(ConditionalEffect::put(document)),
            TypedEffect::Remove => self.change_once(ConditionalEffect::Remove),
            TypedEffect::Update { .. } => self.update(),
        }
    }

    /// The change of a put or of a removal, with the conditions of the write.
    fn change_once(&self, effect: ConditionalEffect) -> WriteAttempt {
        let WriteConditions { if_seq_no, if_primary_term, .. } = self.write.conditions;
        let condition = match (self.write.action, if_seq_no, if_primary_term) {
            (WriteAction::Create, None, _) => StoredCondition::Absent,
            (WriteAction::Index | WriteAction::Delete, Some(seq_no), Some(1)) => {
                // Negative numbers were refused; no version has this time.
                StoredCondition::WrittenAt(Timestamp(u64::try_from(seq_no).unwrap_or(u64::MAX)))
            }
            // No document has another primary term, or a number before it is created. The error names what is
            // stored.
            (_, Some(_), _) => {
                let look = ConditionalChange { shows_stored: false, ..self.look() };
                return WriteAttempt::Change(look, PlannedResult::Known(Err(self.misfit(None))));
            }
            (_, None, _) => StoredCondition::Any,
        };
        let id = self.reader.id.clone();
        let (sent_bytes, is_admitted) = (self.sent_bytes(), self.size.is_some());
        let change =
            ConditionalChange { id, condition, effect, shows_stored: false, sent_bytes, is_admitted };
        WriteAttempt::Change(change, PlannedResult::OfPutOrRemoval)
    }

    /// The next change of an update, by the document that was shown last.
    fn update(&self) -> WriteAttempt {
        let timestamp = self.seen.as_ref().map(|(_, timestamp)| *timestamp);
        let checked = self.reader.check(self.write.action, &self.write.conditions, timestamp);
        let shown = ShownUpdate::of(self.write);
        let seen = || self.seen.as_ref().map(|(document, _)| document.clone());
        let decide = |()| self.reader.decide(self.effect.clone(), seen(), timestamp, shown.as_ref());
        // An insertion may not take place, and brings all of its document.
        let charge = self.charge.as_ref().filter(|_| self.seen.is_some());
        let count = |decided: (WriteResult, StoreModification)| match charge {
            Some(charge) => charge.count(&decided.1).map(|()| decided),
            None => Ok(decided),
        };
        match (checked.and_then(decide).and_then(count), timestamp) {
            (Ok((result, StoreModification::Put(document))), timestamp) => {
                let change = ConditionalChange {
                    condition: timestamp.map_or(StoredCondition::Absent, StoredCondition::WrittenAt),
                    effect: ConditionalEffect::put(&document),
                    // Owners count by it how much their groups grow.
                    sent_bytes: self.sent_bytes().max(document.stored_bytes() as u64),
                    is_admitted: self.size.is_some(),
                    ..self.look()
                };
                WriteAttempt::Change(change, PlannedResult::Known(Ok(result)))
            }
            (Ok((result, StoreModification::Remove)), Some(timestamp)) => {
                let change = ConditionalChange {
                    condition: StoredCondition::WrittenAt(timestamp),
                    effect: ConditionalEffect::Remove,
                    ..self.look()
                };
                WriteAttempt::Change(change, PlannedResult::Known(Ok(result)))
            }
            (Ok((result, _)), Some(timestamp)) => WriteAttempt::Settled(Ok(stamped(result, timestamp))),
            (Err(error), Some(_)) => WriteAttempt::Settled(Err(error)),
            // The document may be stored: then the owner shows it.
            (Err(missing), None) => WriteAttempt::Change(self.look(), PlannedResult::Known(Err(missing))),
            // A script inserts nothing. The document may be stored, too.
            (Ok((result, _)), None) => WriteAttempt::Change(self.look(), PlannedResult::Known(Ok(result))),
        }
    }

    fn look(&self) -> ConditionalChange {
        ConditionalChange::look(self.reader.id.clone())
    }

    fn sent_bytes(&self) -> u64 {
        match self.effect {
            TypedEffect::Remove => 0,
            TypedEffect::Put(_) | TypedEffect::Update { .. } => self.write.bytes() as u64,
        }
    }

    /// Result of a write whose change is durable.
    fn done(
        &self,
        planned: PlannedResult,
        timestamp: Timestamp,
        existed: bool,
    ) -> Result<WriteResult, Error> {
        let result = match (planned, &self.effect) {
            (PlannedResult::Known(result), _) => result?,
            (PlannedResult::OfPutOrRemoval, TypedEffect::Remove) => self.reader.removal_result(existed),
            (PlannedResult::OfPutOrRemoval, _) => self.reader.put_result(existed),
        };
        Ok(stamped(result, timestamp))
    }

    /// Result of a write whose change was refused, since this is stored. `None`: it goes on from there.
    fn refused(&mut self, state: ConflictingState) -> Option<Result<WriteResult, Error>> {
        let (current, shown) = match state {
            ConflictingState::Absent => (None, None),
            ConflictingState::Version(timestamp) => (Some(timestamp), None),
            ConflictingState::Document(sent) => match sent.document() {
                Ok((document, timestamp)) => (Some(timestamp), Some((document, timestamp))),
                Err(error) => return Some(Err(error.into())),
            },
        };
        if !matches!(self.effect, TypedEffect::Update { .. }) {
            return Some(Err(self.misfit(current)));
        }
        // The first time, the owner has only shown what is stored.
        let (_, expected) = std::mem::replace(&mut self.seen, shown)?;
        let retries = self.write.update.as_ref().and_then(|update| update.retries);
        if self.conflicts.is_passed(retries, Instant::now()) {
            return None;
        }
        let conditions = WriteConditions {
            if_seq_no: Some(version_of(expected)),
            if_primary_term: Some(1),
            ..WriteConditions::default()
        };
        Some(Err(self.conflict(WriteAction::Index, &conditions, current)))
    }

    /// Error of the conditions of the write, which do not hold.
    fn misfit(&self, current: Option<Timestamp>) -> Error {
        self.conflict(self.write.action, &self.write.conditions, current)
    }

    fn conflict(
        &self,
        action: WriteAction,
        conditions: &WriteConditions,
        current: Option<Timestamp>,
    ) -> Error {
        let held = || Error::Internal("an owner has refused a change whose condition holds".to_owned());
        self.reader.check(action, conditions, current).err().unwrap_or_else(held)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_update_has_its_time_from_its_first_conflict_on() {
        let short = RETRY_TIME_MAX / 2;
        // Retries that the update allows, times between conflicts, and the number of the last one of which it
        // is tried again.
        let table: [(Option<u32>, &[Duration], usize); 6] = [
            (Some(0), &[Duration::ZERO], 0),
            (Some(2), &[Duration::ZERO, short / 4, short / 4], 2),
            (None, &[Duration::ZERO, short, short / 2], 3),
            // It waited for its turn.
            (Some(3), &[RETRY_TIME_MAX * 9, short], 2),
            (None, &[RETRY_TIME_MAX * 9, short, RETRY_TIME_MAX], 2),
            (Some(9), &[Duration::ZERO, RETRY_TIME_MAX], 1),
        ];
        for (retries, pauses, passed) in table {
            let (mut conflicts, mut now) = (VersionConflicts::default(), Instant::now());
            for (number, pause) in pauses.iter().enumerate() {
                now += *pause;
                let is_passed = conflicts.is_passed(retries, now);
                assert_eq!(is_passed, number < passed, "{retries:?}, {pauses:?}: {number}");
            }
        }
    }
}
