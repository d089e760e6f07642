//! The leader plans the copies of indexes, and writes the table.
//!
//! It plans when the nodes, their reports, the declared indexes or the requests have changed, at most ten
//! times a second, and for a tenth of the time. It writes only under its leadership, and only if the table is
//! as it was read. So of several leaders in succession each goes on with the table of the one before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_cluster::PLACED_INDEXES;
use millrace_coordination::{
    KeyCondition, KeyOperation, Leadership, StoreRevision, Transaction, VALUE_BYTES_MAX,
};
use millrace_env::{SystemClock, WallClock};
use millrace_index_placement::{
    IndexNode, PlacementAnswer, PlacementPlan, PlacementRequest, PlacementSituation, PlacementStep,
    PlacementTable, RefusalKind, WantedIndex, plan, rebalance_left,
};

use super::reports::{self, NodeReports};
use super::requests::RequestRecord;
use super::{DeclaredIndexes, INTERVALS, interval_after, situation};
use crate::membership::MembershipShared;
use crate::{CoordinationSnapshot, Error};

/// Time for which an answer stays, if the node that has asked does not take it.
const ANSWER_KEPT: Duration = Duration::from_secs(60);

/// Requests that are answered at a time.
const REQUESTS_MAX: usize = 32;

/// Keys that are deleted at a time.
const DELETIONS_MAX: usize = 32;

/// Steps of a plan that are logged individually.
const LOGGED_MAX: usize = 20;

/// Publishes plans, until another node leads.
pub(crate) async fn lead(shared: &MembershipShared, leadership: &Leadership) {
    let mut snapshots = shared.snapshots();
    let mut declared = shared.placement.declared.subscribe();
    let mut leader = PlacementLeader::default();
    loop {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let wanted = Arc::clone(&declared.borrow_and_update());
        let began = Instant::now();
        let interval = match leader.turn(shared, leadership, &snapshot, &wanted).await {
            Ok(TurnOutcome::Deposed) => return,
            Ok(TurnOutcome::Settled) => interval_after(began.elapsed()),
            Err(error) => {
                tracing::debug!(%error, "publishing the table of copies of indexes");
                snapshots.mark_changed();
                INTERVALS.1
            }
        };
        if leader.has_answers() {
            // Answers that nobody takes are deleted.
            tokio::select! {
                () = tokio::time::sleep(ANSWER_KEPT) => {}
                changed = snapshots.changed() => if changed.is_err() { return },
                changed = declared.changed() => if changed.is_err() { return },
            }
        } else {
            tokio::select! {
                changed = snapshots.changed() => if changed.is_err() { return },
                changed = declared.changed() => if changed.is_err() { return },
            }
        }
        tokio::time::sleep(interval.saturating_sub(began.elapsed())).await;
    }
}

/// Memory of a leader about its plans.
#[derive(Default)]
struct PlacementLeader {
    /// History and revision of the last publication: a plan must not be older.
    published: (u64, StoreRevision),
    /// Answered requests, and the times since which they are.
    answered: BTreeMap<String, Instant>,
    /// Reason, as logged, for which it does not plan.
    held_up: Option<String>,
    /// Indexes that the table has no room for, as logged.
    without_room: Vec<String>,
}

/// Outcome of a turn.
enum TurnOutcome {
    /// All that was to be written is written, or others have written first.
    Settled,
    /// Another node leads.
    Deposed,
}

/// A request that is to be answered.
struct OpenRequest {
    id: String,
    changed: StoreRevision,
    request: Option<PlacementRequest>,
}

/// All that a plan is made from.
pub(super) struct PlanInputs {
    pub table: Arc<PlacementTable>,
    pub nodes: Vec<IndexNode>,
    pub wanted: Vec<WantedIndex>,
    pub requests: Vec<Option<PlacementRequest>>,
}

/// A plan with the answers to requests.
pub(super) struct AnsweredPlan {
    pub plan: PlacementPlan,
    pub answers: Vec<PlacementAnswer>,
}

impl PlacementLeader {
    fn has_answers(&self) -> bool {
        !self.answered.is_empty()
    }

    async fn turn(
        &mut self,
        shared: &MembershipShared,
        leadership: &Leadership,
        snapshot: &CoordinationSnapshot,
        declared: &DeclaredIndexes,
    ) -> Result<TurnOutcome, Error> {
        let now = Instant::now();
        self.note_answers(snapshot, now);
        // The snapshot may be older than the own publication.
        if (snapshot.history, snapshot.revision) < self.published {
            return Ok(TurnOutcome::Settled);
        }
        let requests = open_requests(snapshot);
        let known = shared.placement.known();
        let is_used = known.is_some() || snapshot.placement.changed.is_some() || !declared.indexes.is_empty();
        if !is_used && requests.is_empty() && self.answered.is_empty() {
            return Ok(TurnOutcome::Settled);
        }
        let reports = shared.placement.reports.lock().reports_by_node(snapshot);
        let mut write = Transaction::new().when(leadership.guard());
        let stale = self.stale_answers(now);
        let mut deletions: Vec<String> = stale.map(|id| shared.keys.placement_request(id)).collect();
        let mut steps = Vec::new();
        if let Some(reason) = hindrance(snapshot, declared, &shared.settings.name) {
            let refused = refusal(&reason);
            write = answered(shared, write, &requests, &vec![refused; requests.len()]);
            self.hold_up(reason, is_used);
        } else {
            self.held_up = None;
            let base = newest(snapshot.placement.table(), known);
            let nodes = situation::nodes(snapshot, &reports, Some(&base));
            let gone = notes_of_gone_nodes(snapshot, &nodes);
            deletions.extend(gone.iter().map(|name| shared.keys.note(name)));
            let inputs = PlanInputs {
                table: Arc::clone(&base),
                nodes,
                wanted: declared.indexes.clone(),
                requests: requests.iter().map(|open| open.request.clone()).collect(),
            };
            let Some(planned) = planned_in_background(inputs).await else { return Ok(TurnOutcome::Deposed) };
            self.warn_without_room(&planned.plan.without_room);
            write = answered(shared, write, &requests, &planned.answers);
            let there = snapshot.placement.table();
            let version = next_version(there.map(|table| &**table), &base, &planned.plan.table, &reports);
            if let Some(version) = version {
                let Some(value) = value_of(planned.plan.table, version) else {
                    return Ok(TurnOutcome::Settled);
                };
                write = write.then(KeyOperation::put(shared.keys.placement(), value));
                steps = planned.plan.steps;
            }
        }
        for key in deletions.into_iter().take(DELETIONS_MAX) {
            write = write.then(KeyOperation::Delete(key));
        }
        if write.then.is_empty() {
            return Ok(TurnOutcome::Settled);
        }
        self.publish(shared, leadership, snapshot, write, &steps).await
    }

    /// Writes, provided that the table is as it was read.
    async fn publish(
        &mut self,
        shared: &MembershipShared,
        leadership: &Leadership,
        snapshot: &CoordinationSnapshot,
        write: Transaction,
        steps: &[PlacementStep],
    ) -> Result<TurnOutcome, Error> {
        let unchanged = match snapshot.placement.changed {
            Some(at) => KeyCondition::Changed(shared.keys.placement(), at),
            None => KeyCondition::Absent(shared.keys.placement()),
        };
        let write = write.when(unchanged).otherwise(KeyOperation::get(shared.keys.leader()));
        let outcome = shared.coordination.transact(write).await?;
        if outcome.held {
            self.published = (snapshot.history, outcome.revision);
            log(steps);
            return Ok(TurnOutcome::Settled);
        }
        // If this node still leads, its plan was not based on the newest values, which are about to arrive.
        let guarded =
            |key: &str, created| leadership.guard() == KeyCondition::Created(key.to_owned(), created);
        match outcome.entries(0).first() {
            Some(leader) if guarded(&leader.key, leader.created) => Ok(TurnOutcome::Settled),
            _ => Ok(TurnOutcome::Deposed),
        }
    }

    /// Remembers since when requests are answered.
    fn note_answers(&mut self, snapshot: &CoordinationSnapshot, now: Instant) {
        self.answered.retain(|id, _| snapshot.placement_requests.contains_key(id));
        for (id, entry) in &snapshot.placement_requests {
            if entry.answer.is_some() {
                self.answered.entry(id.clone()).or_insert(now);
            }
        }
    }

    /// Remembers a reason for which it does not plan; a new one is logged, if indexes are placed at all.
    fn hold_up(&mut self, reason: String, is_used: bool) {
        if self.held_up.as_ref() != Some(&reason) && is_used {
            tracing::warn!(%reason, "copies of indexes stay as they are");
        }
        self.held_up = Some(reason);
    }

    /// Answers that were not taken for long.
    fn stale_answers(&self, now: Instant) -> impl Iterator<Item = &String> {
        let answered = self.answered.iter();
        answered.filter(move |(_, since)| now.duration_since(**since) >= ANSWER_KEPT).map(|(id, _)| id)
    }

    fn warn_without_room(&mut self, names: &[String]) {
        if self.without_room != names && !names.is_empty() {
            tracing::warn!(
                indexes = names.join(", "),
                "the table of copies of indexes has no room for these; declare fewer slices or copies"
            );
        }
        self.without_room = names.to_vec();
    }
}

/// Requests without an answer, the oldest first.
fn open_requests(snapshot: &CoordinationSnapshot) -> Vec<OpenRequest> {
    let open = snapshot.placement_requests.iter().filter(|(_, entry)| entry.answer.is_none());
    let open = open.map(|(id, entry)| OpenRequest {
        id: id.clone(),
        changed: entry.changed,
        request: entry.request.clone(),
    });
    let mut open: Vec<OpenRequest> = open.collect();
    open.sort_by_key(|request| request.changed);
    open.truncate(REQUESTS_MAX);
    open
}

/// Reason for which a leader cannot plan now.
pub(super) fn hindrance(
    snapshot: &CoordinationSnapshot,
    declared: &DeclaredIndexes,
    own: &str,
) -> Option<String> {
    if let Some(unread) = &snapshot.placement.unread {
        return Some(unread.to_string());
    }
    let Some(state) = &snapshot.state else {
        return Some("the cluster has no state yet; deploy an application first".to_owned());
    };
    if state.protocol() < PLACED_INDEXES {
        return Some(
            "a node of an earlier version is in the cluster, which does not know placed indexes; upgrade all nodes"
                .to_owned(),
        );
    }
    let Some(published) = snapshot.package.as_ref().map(|package| package.generation) else {
        return Some("coordination has no application; deploy it again".to_owned());
    };
    if declared.generation != published {
        return Some(format!(
            "the leader, {own}, does not have generation {published} of the application active yet; try again"
        ));
    }
    None
}

/// Answer to all requests while the leader cannot plan.
fn refusal(reason: &str) -> PlacementAnswer {
    PlacementAnswer::Refused {
        kind: RefusalKind::Unavailable,
        reason: format!("copies of indexes cannot be placed now: {reason}"),
    }
}

/// The newer one of the table in coordination and the one that this node knows.
fn newest(there: Option<&Arc<PlacementTable>>, known: Option<Arc<PlacementTable>>) -> Arc<PlacementTable> {
    let tables = there.cloned().into_iter().chain(known);
    tables.max_by_key(|table| table.version()).unwrap_or_default()
}

/// Version under which a planned table is to be published; `None` if coordination has the same.
pub(super) fn next_version(
    there: Option<&PlacementTable>,
    base: &PlacementTable,
    next: &PlacementTable,
    reports: &BTreeMap<String, NodeReports>,
) -> Option<u64> {
    let reported = reports.values().map(|reports| reports.table).max().unwrap_or(0);
    let highest = reported.max(base.version());
    // Coordination has forgotten a table that a node knows: the nodes follow a higher version only.
    let is_behind = there.map_or(0, PlacementTable::version) < highest;
    let is_unneeded = there.is_none() && next.is_unused();
    ((is_behind || next != base) && !(is_unneeded && highest == 0)).then_some(highest + 1)
}

/// Value of a table under a version; `None` if it is too large, which is logged.
fn value_of(table: PlacementTable, version: u64) -> Option<Vec<u8>> {
    let bytes = table.published_as(version).to_json();
    if bytes.len() > VALUE_BYTES_MAX {
        tracing::error!(
            bytes = bytes.len(),
            "the table of copies of indexes is too large for coordination; declare fewer indexes, slices or copies"
        );
        return None;
    }
    Some(bytes)
}

/// Plans on a thread that may block; `None` if the process ends.
async fn planned_in_background(inputs: PlanInputs) -> Option<AnsweredPlan> {
    let now_ms = SystemClock.now_us() / 1_000;
    match tokio::task::spawn_blocking(move || planned(&inputs, now_ms)).await {
        Ok(planned) => Some(planned),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => None,
    }
}

/// Plans with the requests of operators.
pub(super) fn planned(inputs: &PlanInputs, now_ms: u64) -> AnsweredPlan {
    let (nodes, wanted) = (&inputs.nodes, &inputs.wanted);
    let mut answers = Vec::with_capacity(inputs.requests.len());
    let mut commands = Vec::new();
    for request in &inputs.requests {
        let has_indexes = !wanted.is_empty() || !inputs.table.indexes().is_empty();
        let is_about_indexes =
            matches!(request, Some(PlacementRequest::Rebalance { .. } | PlacementRequest::Stop));
        answers.push(match request {
            None => Some(PlacementAnswer::Refused {
                kind: RefusalKind::Unavailable,
                reason:
                    "the leader runs an earlier version, which does not know this request; upgrade all nodes"
                        .to_owned(),
            }),
            Some(_) if is_about_indexes && !has_indexes => Some(PlacementAnswer::Refused {
                kind: RefusalKind::Conflict,
                reason: "no index is placed: declare some in <index-service placed=\"true\">".to_owned(),
            }),
            Some(request) => match request.command(nodes) {
                Ok(command) => {
                    commands.push(command);
                    None
                }
                Err(error) => Some(PlacementAnswer::from(&error)),
            },
        });
    }
    let mut plan = plan(&inputs.table, &PlacementSituation { nodes, wanted, commands: &commands });
    let mut of_commands = plan.answers.iter();
    let answers = answers.into_iter().map(|refused| {
        refused.unwrap_or_else(|| match of_commands.next() {
            Some(Err(error)) => PlacementAnswer::from(error),
            _ => PlacementAnswer::Done,
        })
    });
    let answers = answers.collect();
    if let Some(run) = plan.table.rebalance()
        && run.extent.is_none_or(|extent| extent.moves < run.moves_left)
    {
        let left = rebalance_left(&plan.table, &PlacementSituation { nodes, wanted, commands: &[] });
        plan.table = plan.table.measured(now_ms, left);
    }
    plan.table = plan.table.paced(now_ms, &inputs.table);
    AnsweredPlan { plan, answers }
}

/// Adds the answers to requests, which must be as they were read.
fn answered(
    shared: &MembershipShared,
    write: Transaction,
    requests: &[OpenRequest],
    answers: &[PlacementAnswer],
) -> Transaction {
    requests.iter().zip(answers).fold(write, |write, (open, answer)| {
        let key = shared.keys.placement_request(&open.id);
        let record = RequestRecord { request: open.request.clone(), answer: Some(answer.clone()) };
        write
            .when(KeyCondition::Changed(key.clone(), open.changed))
            .then(KeyOperation::put(key, record.to_json()))
    })
}

/// Notes with reports of nodes that are not in the cluster any more.
fn notes_of_gone_nodes(snapshot: &CoordinationSnapshot, nodes: &[IndexNode]) -> Vec<String> {
    let names: BTreeSet<&str> = nodes.iter().map(|node| &*node.name).collect();
    let is_gone = |name: &&String| {
        let node = reports::node_of(name);
        node.is_some_and(|node| !names.contains(node) && !snapshot.members.contains_key(node))
    };
    snapshot.notes.keys().filter(is_gone).cloned().collect()
}

/// Logs the steps of a plan.
fn log(steps: &[PlacementStep]) {
    for step in steps.iter().take(LOGGED_MAX) {
        tracing::info!("{step}");
    }
    if steps.len() > LOGGED_MAX {
        tracing::info!("and {} more changes of copies of indexes", steps.len() - LOGGED_MAX);
    }
}

#[cfg(test)]
mod tests;
