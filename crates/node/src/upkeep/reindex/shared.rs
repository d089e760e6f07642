//! Reindexing in a cluster: drives [`millrace_cluster::reindexing`], which decides what this node does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_cluster::reindexing::{
    ReindexEffect, ReindexEvent, ReindexObstacle, ReindexWalk, Reindexer, WalkedPage,
};
use millrace_cluster::{ClusterVersion, MachineTime};
use millrace_store::ViewScope;

use super::{pace_of, page};
use crate::cluster::{ClusterMember, ClusterView, SharedNote, check_held};
use crate::error::ErrorKind;
use crate::reindexing;
use crate::upkeep::IDLE;
use crate::{CompiledApplication, Error, Node};

/// The membership of a node, and its part.
type JoinedCluster<'a> = (&'a dyn ClusterMember, &'a dyn ClusterView);

/// A node's part in the reindexing of its cluster.
pub(super) struct ClusterReindexing {
    /// Origin of the machine's monotonic clock.
    began: Instant,
    machine: Option<Reindexer>,
    /// Generation of the application that the machine knows.
    generation: u64,
    /// Version of the cluster state that the machine knows.
    version: ClusterVersion,
    /// Notes that the machine knows, as they were received.
    notes: Option<BTreeMap<String, SharedNote>>,
    /// Answer to the last effect, if the machine has not received it.
    answer: Option<ReindexEvent>,
}

impl Default for ClusterReindexing {
    fn default() -> Self {
        ClusterReindexing {
            began: Instant::now(),
            machine: None,
            generation: 0,
            version: ClusterVersion::NONE,
            notes: None,
            answer: None,
        }
    }
}

impl ClusterReindexing {
    /// Does a small step; returns the pause after it.
    pub(super) fn step(&mut self, node: &Node, cluster: JoinedCluster<'_>) -> Duration {
        match self.attempt(node, cluster) {
            Ok(pause) => pause,
            Err(error) => {
                tracing::debug!(%error, "reindexing waits");
                IDLE
            }
        }
    }

    /// Carries out the effects of the machine up to the next page, or until there are none.
    fn attempt(&mut self, node: &Node, cluster: JoinedCluster<'_>) -> Result<Duration, Error> {
        let (member, view) = cluster;
        let Ok(deployment) = node.deployments().current() else { return Ok(IDLE) };
        let me = view.own().key;
        let is_running = self.machine.as_ref().is_some_and(|machine| machine.next_wake().is_none());
        if is_running && self.answer.is_none() {
            // The last effect has panicked: continue as after a restart.
            *self = ClusterReindexing::default();
        }
        loop {
            let changes = self.changes(cluster, &deployment)?;
            let machine = self.machine.get_or_insert_with(|| Reindexer::new(me));
            let wall_us = millrace_env::unix_time().as_micros() as u64;
            let now = MachineTime { monotonic: self.began.elapsed(), wall_us };
            let mut effects = Vec::new();
            machine.handle(now, self.answer.take().into_iter().chain(changes), &mut effects);
            let wake = machine.next_wake();
            let Some(effect) = effects.pop() else {
                return Ok(wake.map_or(IDLE, |wake| wake.saturating_sub(now.monotonic)));
            };
            match effect {
                ReindexEffect::Write { job, guard, notes } => {
                    let outcome = reindexing::write(member, guard, notes);
                    let outcome = outcome.map_err(|_| ReindexObstacle::Passing);
                    self.answer = Some(ReindexEvent::Written { job, outcome });
                }
                ReindexEffect::Inspect { job, bucket } => {
                    let outcome = view.holders(bucket).map_err(|_| ReindexObstacle::Passing);
                    self.answer = Some(ReindexEvent::Inspected { job, outcome });
                }
                ReindexEffect::Walk { job, walk } => {
                    let began = Instant::now();
                    let (outcome, seen) = match walk_page(node, view, &deployment, &walk) {
                        Ok((page, seen)) => (Ok(page), seen),
                        Err(error) => (Err(failed(&walk, &error)), 0),
                    };
                    self.answer = Some(ReindexEvent::Walked { job, outcome });
                    return Ok(pace_of(node, began, seen, &walk.task));
                }
            }
        }
    }

    /// Events for the machine: what has changed since it was called last.
    fn changes(
        &mut self,
        (member, view): JoinedCluster<'_>,
        deployment: &CompiledApplication,
    ) -> Result<Vec<ReindexEvent>, Error> {
        let mut changes = Vec::with_capacity(3);
        if self.generation != deployment.generation {
            self.generation = deployment.generation;
            changes.push(ReindexEvent::Application(Arc::new(reindexing::reindexed(deployment))));
        }
        let state = view.state()?;
        if self.version != state.version() {
            self.version = state.version();
            if let Some(machine) = &self.machine
                && !state.all_serve()
            {
                machine.types().for_each(|document_type| {
                    tracing::info!(
                        document_type,
                        "nodes are away: reindexing goes on when they are back, or removed"
                    );
                });
            }
            changes.push(ReindexEvent::State(state));
        }
        let notes = member.notes();
        if self.notes.as_ref() != Some(&notes) {
            changes.push(ReindexEvent::Notes(Arc::new(reindexing::read(&notes)?)));
            self.notes = Some(notes);
        }
        Ok(changes)
    }
}

/// Processes a page; returns also the number of its documents.
fn walk_page(
    node: &Node,
    cluster: &dyn ClusterView,
    deployment: &CompiledApplication,
    walk: &ReindexWalk,
) -> Result<(WalkedPage, u64), Error> {
    let kind = deployment.kind(&walk.task.document_type)?;
    let scope = ViewScope::Buckets(vec![walk.bucket]);
    let swept = page(node, kind, scope, walk.until, walk.position.clone())?;
    let holds = check_held(cluster, &[walk.bucket]).is_ok();
    let confirmed = cluster.confirms(walk.version);
    Ok((WalkedPage { position: swept.continuation, holds, confirmed }, swept.seen))
}

/// Obstacle of a page; logs it if it is not expected to pass.
fn failed(walk: &ReindexWalk, error: &Error) -> ReindexObstacle {
    let obstacle = obstacle(error);
    match &obstacle {
        ReindexObstacle::Passing => tracing::debug!(%error, "reindexing is tried again"),
        ReindexObstacle::Lasting(_) => {
            let document_type = &*walk.task.document_type;
            tracing::warn!(%error, document_type, "reindexing has failed; it goes on in some minutes");
        }
    }
    obstacle
}

fn obstacle(error: &Error) -> ReindexObstacle {
    match error {
        Error::Unsettled(_) | Error::Unknown(_) | Error::PartlyFull(_) => ReindexObstacle::Passing,
        error if error.kind() == ErrorKind::Overloaded => ReindexObstacle::Passing,
        error => ReindexObstacle::Lasting(error.to_string()),
    }
}
