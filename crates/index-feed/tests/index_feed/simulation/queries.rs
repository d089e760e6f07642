//! Queries, and checks of copies against documents.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::{BucketId, NodeKey};
use millrace_index_feed::{CopyFreshness, CopyNumber, FollowEffect, MARGIN_US, OwnerPosition};

use super::FeedSabotage;
use super::documents::SimDocument;
use super::millis;
use super::world::{FeedWorld, INDEX_NODES, START, WorldEvent};

/// Time that a query waits for a copy.
const QUERY_US: u64 = 5_000_000;

/// A query that asks for everything acknowledged, or a copy that asks whether it is ready.
pub struct OpenQuery {
    node: NodeKey,
    copy: CopyNumber,
    version: u64,
    begun: u64,
    positions: BTreeMap<NodeKey, OwnerPosition>,
    /// Time at which each owner was asked.
    asked: BTreeMap<NodeKey, u64>,
    is_for_ready: bool,
}

impl FeedWorld {
    pub fn query(&mut self) {
        let at = self.random.below(INDEX_NODES.len() as u64) as usize;
        let node = NodeKey(INDEX_NODES[at]);
        let copies: Vec<CopyNumber> = self.indexes[&node].copies.keys().copied().collect();
        let copy = copies[self.random.below(copies.len() as u64) as usize];
        self.ask(node, copy, false);
    }

    /// Asks the owners for their positions.
    pub fn ask(&mut self, node: NodeKey, copy: CopyNumber, is_for_ready: bool) {
        let known = &self.indexes[&node];
        let version = if is_for_ready { known.state.0 } else { self.version };
        let Some(slice) = known.copies.get(&copy).map(|copy| copy.definition.slice) else { return };
        self.next_query += 1;
        let query = self.next_query;
        let (positions, asked) = (BTreeMap::new(), BTreeMap::new());
        let begun = self.now;
        let open = OpenQuery { node, copy, version, begun, positions, asked, is_for_ready };
        self.queries.insert(query, open);
        let owners = self.owners.iter().filter(|(bucket, _)| slice.covers(**bucket));
        let owners: BTreeSet<NodeKey> = owners.map(|(_, owner)| *owner).collect();
        for owner in owners {
            let delay = millis(&mut self.random, 0, 50);
            self.at(delay, WorldEvent::Position { query, owner });
        }
        self.at(60_000, WorldEvent::Poll { query });
    }

    pub fn position(&mut self, query: u64, owner: NodeKey) {
        let now = self.now;
        if !self.is_reachable(owner) {
            return;
        }
        self.report(owner);
        let Some(open) = self.queries.get_mut(&query) else { return };
        let position = self.documents[&owner].source.position(open.node);
        open.positions.insert(owner, position);
        open.asked.insert(owner, now);
    }

    /// Compares the copy of a query with the positions, and its records with the documents.
    pub fn poll(&mut self, query: u64) {
        let Some(open) = self.queries.remove(&query) else { return };
        let node = &self.indexes[&open.node];
        // A state that is not the last one is not confirmed.
        let is_confirmed = open.version == self.version;
        if !node.is_running || !is_confirmed || !node.copies.contains_key(&open.copy) {
            return;
        }
        if open.is_for_ready {
            let mut effects = self.index_node(open.node).follower.catch_up(open.copy, &open.positions);
            let is_early = self.sabotage == Some(FeedSabotage::ReadyTooEarly);
            if is_early || effects.iter().any(|effect| matches!(effect, FollowEffect::Ready { .. })) {
                self.check_copy(&open, &BTreeSet::new());
            }
            self.effects(open.node, std::mem::take(&mut effects));
            return;
        }
        let freshness = match self.sabotage {
            // The copy follows, and reads.
            Some(FeedSabotage::ReadyTooEarly) => CopyFreshness::Fresh,
            _ => node.follower.freshness(open.copy, open.version, &open.positions),
        };
        match freshness {
            CopyFreshness::Fresh => {
                self.count("fresh");
                self.check_copy(&open, &BTreeSet::new());
            }
            CopyFreshness::Missing(missing) if self.now > open.begun + QUERY_US => {
                self.count("missing");
                self.check_copy(&open, &missing);
            }
            CopyFreshness::NotReady if self.now > open.begun + QUERY_US => {}
            CopyFreshness::Missing(_) | CopyFreshness::NotReady => {
                self.queries.insert(query, open);
                self.at(100_000, WorldEvent::Poll { query });
            }
        }
    }

    /// A copy has, of documents that did not change since the owner was asked, what the owner has.
    fn check_copy(&mut self, open: &OpenQuery, missing: &BTreeSet<BucketId>) {
        let copy = &self.indexes[&open.node].copies[&open.copy];
        for document in SimDocument::all().filter(|document| copy.has(*document)) {
            let bucket = self.bucket_of(document);
            let owner = &self.documents[&self.owners[&bucket]];
            let Some(asked) = open.asked.get(&owner.key) else { continue };
            let has_changed = owner.changed.get(&document).is_some_and(|changed| changed >= asked);
            if missing.contains(&bucket) || has_changed {
                continue;
            }
            let newest = owner.replica(bucket).versions.get(&document).map(|(time, _)| *time);
            let dropped = owner.replica(bucket).drops.get(&document.group).copied();
            let acknowledged = self.acknowledged.get(&document).filter(|(time, _)| time < asked);
            if acknowledged.is_some_and(|(_, time)| newest.max(dropped) < Some(*time)) {
                self.wrong = Some(format!("the owner {} lacks {document:?}, and answers for it", owner.key));
                return;
            }
            let (expected, found) = (owner.replica(bucket).value(document), copy.value(document));
            if expected != found {
                self.wrong = Some(format!(
                    "node {} copy {:?} has {:?} of {document:?}, and the owner {} has {:?} (asked at {})",
                    open.node,
                    open.copy,
                    copy.records.get(&document.key()),
                    owner.key,
                    owner.replica(bucket).visible(document),
                    (asked - START) / 1000,
                ));
                return;
            }
        }
    }

    /// At rest all replicas are equal, and each copy has exactly what they have.
    pub fn check_rest(&self) -> Result<(), String> {
        for node in self.indexes.values() {
            for (number, copy) in &node.copies {
                if !node.follower.is_ready(*number) {
                    return Err(format!(
                        "node {}: copy {number:?} is not ready at rest {:#?}",
                        node.key, node.follower
                    ));
                }
                let marks = node.follower.marks(*number);
                if marks.until.values().any(|until| until.0 + 2 * MARGIN_US < self.now) {
                    return Err(format!("node {}: W of copy {number:?} stands still: {marks:?}", node.key));
                }
                for document in SimDocument::all().filter(|document| copy.has(*document)) {
                    for holder in &self.placed[&self.bucket_of(document)] {
                        let replica = self.documents[holder].replica(self.bucket_of(document));
                        if replica.value(document) != copy.value(document) {
                            return Err(format!(
                                "at rest node {} copy {number:?} has {:?} of {document:?}, and node {holder} has {:?}",
                                node.key,
                                copy.records.get(&document.key()),
                                replica.visible(document)
                            ));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
