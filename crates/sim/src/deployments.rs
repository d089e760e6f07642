//! Deployments: a document type is removed, and comes back, on nodes that receive the change at different
//! times.
//!
//! An operator deploys at a node, which checks the new package against its own and publishes it through
//! coordination. Every node receives only the newest package, and activates it some time later: nodes pass
//! through different generations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::reindexing::{ReindexEvent, ReindexNotes};
use millrace_cluster::{DroppedTypes, Incarnation, NodeKey};
use millrace_document::{DocumentId, Timestamp};

use crate::Sabotage;
use crate::message::SimMessage;
use crate::network::SimAddress;
use crate::reindexing::reindexed;
use crate::world::SimWorld;

/// The document type that is removed and comes back; all others stay.
pub(crate) const CHANGING_TYPE: &str = "memo";

/// An application package, reduced to the parts used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SimPackage {
    pub generation: u64,
    pub types: BTreeSet<&'static str>,
    pub dropped: DroppedTypes,
    /// Generation that last changed the indexing statements of each type.
    pub rules: BTreeMap<&'static str, u64>,
}

impl Default for SimPackage {
    fn default() -> Self {
        let types = BTreeSet::from(["note", CHANGING_TYPE]);
        let rules = types.iter().map(|name| (*name, 1)).collect();
        SimPackage { generation: 1, types, dropped: DroppedTypes::default(), rules }
    }
}

impl SimPackage {
    /// The next package, in which the type is removed, or back.
    fn followed(&self, now: Timestamp) -> SimPackage {
        let mut next = SimPackage { generation: self.generation + 1, ..self.clone() };
        if next.types.remove(CHANGING_TYPE) {
            next.dropped.add(CHANGING_TYPE, now);
        } else {
            next.types.insert(CHANGING_TYPE);
        }
        next
    }
}

impl SimPackage {
    /// Rule by which the documents of a type are indexed.
    pub fn rule(&self, document_type: &str) -> u64 {
        self.rules.get(document_type).copied().unwrap_or_default()
    }

    /// The next package, in which the indexing statements of all types are changed if `changes` is set.
    pub fn with_changed_rules(&self, changes: bool) -> SimPackage {
        let mut next = SimPackage { generation: self.generation + 1, ..self.clone() };
        let changed = next.rules.values_mut().filter(|_| changes);
        changed.for_each(|rule| *rule = next.generation);
        next
    }
}

/// A removal of a type that a node has begun to deploy: reindexing of the type is being halted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartedRemoval {
    /// Generation of the node's package.
    generation: u64,
    /// Last change of the record when it began.
    changed: Option<u64>,
}

impl SimWorld {
    /// Deploys, at a node, a package that differs from the node's by one type. Before a type is removed, its
    /// reindexing is halted.
    pub fn deploy(&mut self, key: NodeKey) {
        let halts = self.options.reindexing && self.options.sabotage != Some(Sabotage::RemovedWhileReindexed);
        let Some(node) = self.nodes.get_mut(&key).filter(|node| node.alive && !node.frozen) else { return };
        if !halts || !node.package.types.contains(CHANGING_TYPE) {
            return self.deploy_as_of(key, Timestamp::default());
        }
        let (Some(notes), Some(application)) = (node.notes.clone(), node.application.clone()) else { return };
        let mut record = notes.record.following(&application).unwrap_or_else(|| notes.record.clone());
        if record.generation < application.generation {
            // It is not known how the package differs from the one that was taken into account last.
            return;
        }
        record.types.halt(&BTreeSet::from([Arc::from(CHANGING_TYPE)]));
        node.removal = Some(StartedRemoval { generation: application.generation, changed: notes.changed });
        let (incarnation, guard) = (node.incarnation, notes.changed);
        self.note(|| format!("n{key} halts the reindexing of {CHANGING_TYPE}"));
        let notes = vec![record.note()];
        let message = SimMessage::WriteNotes { from: key, incarnation, job: None, guard, notes };
        self.send(SimAddress::Node(key), SimAddress::Coordination, message);
    }

    /// Deploys the removal that a node has begun, once it receives that reindexing is halted.
    pub fn continue_removal(&mut self, key: NodeKey, notes: &ReindexNotes) {
        let Some(node) = self.nodes.get_mut(&key) else { return };
        let Some(begun) = node.removal.filter(|begun| begun.changed != notes.changed) else { return };
        node.removal = None;
        let mut runs = notes.record.types.runs();
        let halted = runs.all(|(_, name, run)| **name != *CHANGING_TYPE || !run.is_active());
        if halted && node.package.generation == begun.generation {
            self.deploy_as_of(key, notes.rewritten_until(&BTreeSet::from([Arc::from(CHANGING_TYPE)])));
        }
    }

    /// Deploys a package that differs from the node's by one type; a removal is not as of an earlier time
    /// than this.
    fn deploy_as_of(&mut self, key: NodeKey, until: Timestamp) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&key).filter(|node| node.alive && !node.frozen) else { return };
        // A hybrid clock: above all timestamps that the node has seen.
        let at = Timestamp(node.now(now).wall_us.max(node.storage.newest_seen().0 + 1)).max(until);
        let based_on = node.package.generation;
        let next = Arc::new(node.package.followed(at));
        self.note(|| format!("n{key} deploys {next:?}"));
        let message = SimMessage::Publish { based_on, package: next };
        self.send(SimAddress::Node(key), SimAddress::Coordination, message);
    }

    /// Asks coordination to make a package the active one.
    pub fn publish_package(&mut self, based_on: u64, package: Arc<SimPackage>) {
        if based_on != self.coordination.package().generation {
            return;
        }
        for (document_type, at) in package.dropped.iter() {
            self.history.type_removed(document_type, at);
        }
        let mut all = SimPackage::clone(&package);
        all.dropped.merge(&self.coordination.package().dropped);
        self.rules_published(&all);
        self.coordination.publish_package(Arc::new(all));
    }

    /// Processes the newest package at a node. The node drops removed types at once, and activates the
    /// package later.
    pub fn package_arrived(&mut self, key: NodeKey, package: Arc<SimPackage>) {
        let sabotaged = self.options.sabotage == Some(Sabotage::TypesDroppedLocally);
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if node.activating || node.package.generation >= package.generation {
            return;
        }
        if !sabotaged {
            node.storage.drop_types(&package.dropped, true);
            node.distributor.observe(package.dropped.newest());
        }
        node.activating = true;
        let incarnation = node.incarnation;
        self.feed_changes(key);
        // Models may have to be fetched first.
        let takes = if self.random.permille(200) { 20_000_000 } else { 2_000_000 };
        let takes = self.random.micros(50_000, takes);
        self.activate_after(takes, (key, incarnation), package);
    }

    /// Activates a package on a node.
    pub fn package_active(&mut self, (key, incarnation): (NodeKey, Incarnation), package: Arc<SimPackage>) {
        let sabotaged = self.options.sabotage == Some(Sabotage::TypesDroppedLocally);
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&key) else { return };
        if node.incarnation != incarnation || !node.alive {
            return;
        }
        if node.frozen {
            return self.activate_after(Duration::from_millis(100), (key, incarnation), package);
        }
        if sabotaged {
            let at = Timestamp(node.now(now).wall_us.max(node.storage.newest_seen().0 + 1));
            let mut gone = DroppedTypes::default();
            let removed = node.package.types.difference(&package.types);
            removed.for_each(|document_type| gone.add(document_type, at));
            node.storage.drop_types(&gone, false);
        }
        node.activating = false;
        let application = Arc::new(reindexed(Some(&node.package), &package));
        node.package = Arc::clone(&package);
        node.application = Some(Arc::clone(&application));
        self.reindex(key, vec![ReindexEvent::Application(application)]);
        self.note(|| format!("n{key} has generation {} active", package.generation));
    }

    /// True if a node knows the type of a document, so that it takes requests for it.
    pub fn knows_type(&self, key: NodeKey, id: &DocumentId) -> bool {
        self.nodes.get(&key).is_some_and(|node| node.package.types.contains(id.document_type()))
    }
}
