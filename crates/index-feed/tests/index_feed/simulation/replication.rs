//! Owners and replicas: writes, merges, and nodes that leave and come back.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::{BucketId, NodeKey};
use millrace_document::Timestamp;
use millrace_index_feed::{AdoptedState, IndexFeedSource, MARGIN_US, OwnerReport, SourceRun};

use super::FeedSabotage;
use super::documents::{BUCKET_BITS, DocumentNode, SimChange, SimDocument, SimReplica, SimWrite};
use super::millis;
use super::world::{FeedWorld, WorldEvent};

/// Time after which a write is given up.
const GIVEN_UP_US: u64 = 6_000_000;

/// The same where the client waits for long: longer than closings are behind the clock.
const GIVEN_UP_LATE_US: u64 = 90_000_000;

/// A write on its way to replicas.
#[derive(Debug, Clone)]
pub struct OpenWrite {
    write: SimWrite,
    owner: NodeKey,
    needed: BTreeSet<NodeKey>,
    landed: BTreeSet<NodeKey>,
    /// False once it was given up.
    is_open: bool,
}

impl OpenWrite {
    /// Time of the versions that it concerns; 0 for those of any time.
    fn time(&self) -> Timestamp {
        if self.write.change == SimChange::Drop { Timestamp(0) } else { self.write.timestamp }
    }
}

/// Step of making the replicas of a bucket equal.
#[derive(Debug, Clone)]
pub enum MergeStep {
    Compare,
    /// Rows arrive under their times, as those that an owner finishes for the one before it.
    Finish {
        node: NodeKey,
        writes: Vec<SimWrite>,
    },
    /// Segments arrive at a node, in the run in which it began to get them.
    Arrive {
        node: NodeKey,
        run: SourceRun,
        writes: Vec<SimWrite>,
    },
}

impl FeedWorld {
    /// Bucket of a document by the cluster state.
    pub fn bucket_of(&self, document: SimDocument) -> BucketId {
        match self.placed.contains_key(&document.cell()) {
            true => document.cell(),
            false => BucketId::new(BUCKET_BITS, document.bucket.into()),
        }
    }

    /// A bucket is divided, if all of its nodes serve and nothing is in flight.
    pub fn divide(&mut self) {
        let bits = self.random.below(4);
        let (bucket, part) =
            (BucketId::new(BUCKET_BITS, bits), BucketId::new(BUCKET_BITS + 1, bits | 1 << BUCKET_BITS));
        let mut nodes = self.placed[&bucket].clone();
        let replica = self.documents[&nodes[0]].replica(bucket);
        let is_equal = |node: &NodeKey| {
            let node = &self.documents[node];
            node.serves && node.complete.contains(&bucket) && node.replica(bucket) == replica
        };
        let is_quiet =
            nodes.iter().all(is_equal) && !self.writes.values().any(|open| open.write.bucket == bucket);
        if self.placed.contains_key(&part) || !is_quiet {
            return;
        }
        self.count("divided");
        if self.random.percent(50) {
            self.delay_learning();
        }
        self.note(|| format!("{part} is divided off {bucket}"));
        nodes.iter().for_each(|node| self.document_node(*node).divide(bucket, part));
        let first = self.random.below(nodes.len() as u64) as usize;
        nodes.rotate_left(first);
        self.placed.insert(part, nodes);
        self.change_state();
    }

    /// Nodes of a bucket that serve.
    fn holders(&self, bucket: BucketId) -> Vec<NodeKey> {
        let serves = |node: &&NodeKey| self.documents[node].serves;
        self.placed[&bucket].iter().filter(serves).copied().collect()
    }

    /// A client writes a document, or drops a group.
    pub fn write(&mut self) {
        let (bucket, group) = (self.random.below(4) as u8, self.random.below(2) as u8);
        let document = SimDocument { bucket, group, number: self.random.below(5) as u8 };
        let bucket = self.bucket_of(document);
        let change = match self.random.below(100) {
            0..=2 => SimChange::Drop,
            3..=14 => SimChange::Put(None),
            _ => SimChange::Put(Some(self.random.below(1_000))),
        };
        // Buckets are written for a while, and not for a while.
        if self.random.percent(2) && !self.idle.remove(&bucket) {
            self.idle.insert(bucket);
        }
        let Some(owner) = self.owners.get(&bucket).copied() else { return };
        if self.idle.contains(&bucket) {
            return;
        }
        let now = self.now;
        let node = self.document_node(owner);
        let timestamp = node.next_timestamp(now);
        let needed: BTreeSet<NodeKey> = self.holders(bucket).into_iter().collect();
        let write = SimWrite { bucket, document, timestamp, change };
        let open = OpenWrite { write, owner, needed: needed.clone(), landed: BTreeSet::new(), is_open: true };
        self.next_write += 1;
        let number = self.next_write;
        self.writes.insert(number, open);
        self.note(|| format!("{owner} writes {write:?}"));
        let is_bad = self.random.percent(if change == SimChange::Drop { 40 } else { 3 });
        for node in needed {
            let delay = match self.random.below(100) {
                0..=39 if is_bad => continue,
                40..=79 if is_bad => millis(&mut self.random, 1_000, 90_000),
                _ => millis(&mut self.random, 1, 60),
            };
            self.at(delay, WorldEvent::Land { write: number, node, version: self.version });
        }
        let patience = match is_bad && self.random.percent(10) {
            true => GIVEN_UP_LATE_US,
            false => GIVEN_UP_US,
        };
        self.at(patience, WorldEvent::GiveUp { write: number });
    }

    /// A write arrives at a replica.
    pub fn land(&mut self, number: u64, node: NodeKey, version: u64) {
        let is_there = self.documents[&node].is_running && self.documents[&node].serves;
        let Some(open) = self.writes.get_mut(&number).filter(|_| version == self.version && is_there) else {
            return;
        };
        open.landed.insert(node);
        let open = open.clone();
        self.dispatch(open.write, node);
        if open.is_open && open.landed.is_superset(&open.needed) {
            self.writes.remove(&number);
            self.count(if open.write.change == SimChange::Drop { "dropped" } else { "acknowledged" });
            let known = self.acknowledged.entry(open.write.document).or_default();
            if open.write.change != SimChange::Drop && known.1 < open.write.timestamp {
                *known = (self.now, open.write.timestamp);
            }
        }
        self.pump(node);
    }

    /// A node reports on the buckets that it owns.
    pub fn report(&mut self, key: NodeKey) {
        let (version, now) = (self.version, self.now);
        let mut oldest: BTreeMap<BucketId, Timestamp> = BTreeMap::new();
        for open in self.writes.values().filter(|open| open.is_open && open.owner == key) {
            let known = oldest.entry(open.write.bucket).or_insert(open.time());
            *known = open.time().min(*known);
        }
        let is_eager = self.sabotage == Some(FeedSabotage::IncompleteFollowed);
        let node = &self.documents[&key];
        let has_all =
            |bucket: &BucketId| is_eager || (self.settled.contains(bucket) && node.complete.contains(bucket));
        let owned = self.owners.iter().filter(|(_, owner)| **owner == key);
        let owned: Vec<_> = owned.map(|(bucket, _)| (*bucket, Some(has_all(bucket)))).collect();
        let clock = node.clock(now);
        if oldest.values().any(|oldest| oldest.0 > 0 && oldest.0 + MARGIN_US < clock.0) {
            self.count("held");
        }
        let source = &mut self.document_node(key).source;
        let report = OwnerReport::new(source.begin_report(clock), &oldest, owned);
        let report = report.expect("it is known of each bucket if it has everything");
        source.adopt(AdoptedState { version, serves: true }, &report, clock);
    }

    /// The time of a write is over.
    pub fn give_up(&mut self, number: u64) {
        let Some(open) = self.writes.get_mut(&number).filter(|open| open.is_open) else { return };
        open.is_open = false;
        let open = open.clone();
        self.count("given up");
        self.note(|| format!("{} gives up {:?}", open.owner, open.write));
        if self.sabotage != Some(FeedSabotage::GivenUpIgnored) {
            self.settled.remove(&open.write.bucket);
        }
        self.merge_later(open.write.bucket);
        if self.is_faulty && self.random.percent(50) {
            self.idle.insert(open.write.bucket);
            let needed: Vec<NodeKey> = open.needed.into_iter().collect();
            let node = match self.random.percent(50) {
                true => open.owner,
                false => needed[self.random.below(needed.len() as u64) as usize],
            };
            let delay = match self.random.percent(50) {
                true => millis(&mut self.random, 0, 3_000),
                false => millis(&mut self.random, 0, 100_000),
            };
            self.at(delay, WorldEvent::Leave { node });
        }
    }

    fn merge_later(&mut self, bucket: BucketId) {
        let delay = match self.random.percent(60) {
            true => millis(&mut self.random, 100, 5_000),
            false => millis(&mut self.random, 5_000, 120_000),
        };
        let version = self.version;
        self.at(delay, WorldEvent::Merge { bucket, version, step: MergeStep::Compare });
    }

    /// Compares the replicas of a bucket, and makes them equal.
    pub fn merge(&mut self, bucket: BucketId, version: u64, step: MergeStep) {
        match step {
            MergeStep::Compare if version == self.version => self.compare(bucket),
            MergeStep::Compare => {}
            MergeStep::Finish { node, writes } => {
                if version == self.version && self.is_reachable(node) {
                    writes.into_iter().for_each(|write| self.dispatch(write, node));
                    self.pump(node);
                }
            }
            MergeStep::Arrive { node, run, writes } => {
                let (now, is_current) = (self.now, version == self.version);
                let is_unnoticed = self.sabotage == Some(FeedSabotage::MergeUnnoticed);
                let known = self.document_node(node);
                if !known.is_running || known.source.run() != run {
                    return;
                }
                if is_current && known.serves {
                    writes.iter().for_each(|write| known.store(*write, now));
                }
                if !is_unnoticed {
                    let clock = known.clock(now);
                    known.source.changed(&[bucket], clock);
                }
                self.note(|| format!("{node} has merged {bucket}"));
                self.pump(node);
            }
        }
    }

    fn compare(&mut self, bucket: BucketId) {
        let version = self.version;
        let of_bucket = |open: &OpenWrite| open.write.bucket == bucket;
        if self.writes.values().any(|open| of_bucket(open) && open.is_open) {
            let again = WorldEvent::Merge { bucket, version, step: MergeStep::Compare };
            return self.at(300_000, again);
        }
        // Messages of writes that were given up do not arrive any more.
        self.writes.retain(|_, open| !of_bucket(open));
        let holders = self.holders(bucket);
        let mut union = SimReplica::default();
        for node in &holders {
            let lacking = self.documents[node].replica(bucket).lacking(bucket, &union);
            lacking.into_iter().for_each(|write| union.apply(write));
        }
        let Some(owner) = self.owners.get(&bucket).copied() else { return };
        let lacking =
            holders.iter().map(|node| (*node, union.lacking(bucket, self.documents[node].replica(bucket))));
        let lacking: Vec<_> = lacking.filter(|(_, writes)| !writes.is_empty()).collect();
        if lacking.is_empty() {
            for node in holders {
                self.document_node(node).complete.insert(bucket);
            }
            self.settled.insert(bucket);
            self.note(|| format!("{owner} has settled {bucket}"));
            self.report(owner);
            return self.pump(owner);
        }
        self.count("merged");
        if self.is_faulty && self.random.percent(20) {
            // A node leaves while the others have not everything that it has.
            let node = holders[self.random.below(holders.len() as u64) as usize];
            let delay = millis(&mut self.random, 0, 3_000);
            self.at(delay, WorldEvent::Leave { node });
        }
        let is_unnoticed = self.sabotage == Some(FeedSabotage::MergeUnnoticed);
        for (node, writes) in lacking {
            self.note(|| format!("{node} lacks {writes:?}"));
            if self.random.percent(30) {
                let delay = millis(&mut self.random, 0, 2_000);
                let step = MergeStep::Finish { node, writes };
                self.at(delay, WorldEvent::Merge { bucket, version, step });
                continue;
            }
            let now = self.now;
            let known = self.document_node(node);
            let (run, clock) = (known.source.run(), known.clock(now));
            if !is_unnoticed {
                known.source.changing(&[bucket], clock);
            }
            let delay = millis(&mut self.random, 0, 2_000);
            let step = MergeStep::Arrive { node, run, writes };
            self.at(delay, WorldEvent::Merge { bucket, version, step });
        }
        let delay = millis(&mut self.random, 2_100, 4_000);
        self.at(delay, WorldEvent::Merge { bucket, version, step: MergeStep::Compare });
    }

    /// The cluster state changes: owners are those of the nodes that serve now.
    pub fn change_state(&mut self) {
        self.version += 1;
        self.writes.clear();
        let buckets: Vec<BucketId> = self.placed.keys().copied().collect();
        self.owners.clear();
        for bucket in &buckets {
            let first = self.holders(*bucket).first().copied();
            self.owners.extend(first.map(|owner| (*bucket, owner)));
        }
        self.settled = buckets.iter().copied().filter(|bucket| self.is_equal(*bucket)).collect();
        let (version, owners) = (self.version, self.owners.clone());
        // A node that does not notice that it is away learns of each state, and seems to serve by it.
        let is_unnoticed = self.sabotage == Some(FeedSabotage::ReturnUnnoticed);
        let adopts = |node: &&DocumentNode| node.serves || (is_unnoticed && node.is_running);
        let adopting: Vec<NodeKey> = self.documents.values().filter(adopts).map(|node| node.key).collect();
        adopting.into_iter().for_each(|node| self.report(node));
        self.note(|| format!("state {version}: {owners:?}"));
        let keys: Vec<NodeKey> = self.documents.keys().copied().collect();
        keys.into_iter().for_each(|node| self.pump(node));
        buckets.into_iter().for_each(|bucket| self.merge_later(bucket));
        self.publish();
    }

    /// True if all complete replicas of a bucket have the same by the reports of their nodes, when nothing is
    /// in flight, and the others nothing else.
    fn is_equal(&self, bucket: BucketId) -> bool {
        let holders = self.holders(bucket);
        let nodes = holders.iter().map(|node| &self.documents[node]);
        let replicas = nodes.map(|node| (node.complete.contains(&bucket), node.replica(bucket)));
        let replicas: Vec<(bool, &SimReplica)> = replicas.collect();
        let complete = replicas.iter().find(|(is_complete, _)| *is_complete);
        complete.is_some_and(|(_, first)| {
            let nothing = SimReplica::default();
            let fits = |(is_complete, replica): &(bool, &SimReplica)| {
                replica == first || (!is_complete && **replica == nothing)
            };
            replicas.iter().all(fits)
        })
    }

    /// True if the others have everything acknowledged of a bucket.
    fn is_spare(&self, node: NodeKey, bucket: BucketId) -> bool {
        let mut others = self.holders(bucket).into_iter().filter(|other| *other != node);
        others.any(|other| self.documents[&other].complete.contains(&bucket))
    }

    /// A node crashes, or is cut off.
    pub fn leave_any(&mut self) {
        let serving: Vec<NodeKey> =
            self.documents.values().filter(|node| node.serves).map(|node| node.key).collect();
        let node = serving[self.random.below(serving.len() as u64) as usize];
        self.leave(node);
    }

    /// This node crashes, or is cut off, if others have everything.
    pub fn leave(&mut self, node: NodeKey) {
        if !self.documents[&node].serves {
            return;
        }
        let held = self.placed.iter().filter(|(_, nodes)| nodes.contains(&node));
        if !held.map(|(bucket, _)| *bucket).all(|bucket| self.is_spare(node, bucket)) {
            return;
        }
        let is_crash = self.random.percent(60);
        self.count(if is_crash { "crash" } else { "away" });
        self.note(|| format!("{node} leaves, crash: {is_crash}"));
        let known = self.document_node(node);
        known.serves = false;
        known.is_running = !is_crash;
        known.complete.clear();
        self.change_state();
        let delay = millis(&mut self.random, 3_000, 150_000);
        self.at(delay, WorldEvent::Return { node });
    }

    pub fn come_back(&mut self, node: NodeKey) {
        let (now, version, sabotage) = (self.now, self.version, self.sabotage);
        let known = self.document_node(node);
        if known.serves {
            return;
        }
        if !known.is_running {
            known.start(now);
            if sabotage == Some(FeedSabotage::ReturnUnnoticed) {
                // It seems to have acted by the states until now, with nothing that others lack.
                known.source = IndexFeedSource::new(known.source.run(), Timestamp(0));
                let start = known.source.begin_report(Timestamp(0));
                let nothing = OwnerReport::new(start, &BTreeMap::new(), []).expect("it owns nothing");
                known.source.adopt(AdoptedState { version, serves: true }, &nothing, Timestamp(0));
            }
        }
        known.serves = true;
        self.note(|| format!("{node} is back"));
        self.change_state();
    }

    /// A bucket gets another owner, or another node gets a replica of it.
    pub fn move_owner(&mut self) {
        let buckets: Vec<BucketId> = self.placed.keys().copied().collect();
        let bucket = buckets[self.random.below(buckets.len() as u64) as usize];
        let mut nodes = self.placed[&bucket].clone();
        let is_relocated = self.random.percent(30);
        if is_relocated {
            let at = self.random.below(nodes.len() as u64) as usize;
            let (gone, now) = (nodes[at], self.now);
            let new = self.documents.values().find(|node| !nodes.contains(&node.key)).map(|node| node.key);
            let Some(new) = new.filter(|new| self.documents[new].serves && self.is_spare(gone, bucket))
            else {
                return;
            };
            nodes[at] = new;
            let known = self.document_node(gone);
            let clock = known.clock(now);
            known.source.changing(&[bucket], clock);
            known.replicas.insert(bucket, SimReplica::default());
            known.complete.remove(&bucket);
            known.source.changed(&[bucket], clock);
            self.document_node(new).replicas.insert(bucket, SimReplica::default());
        }
        let first = self.random.below(nodes.len() as u64) as usize;
        nodes.rotate_left(first);
        self.count("owner moved");
        self.note(|| format!("{bucket} is placed at {nodes:?}"));
        self.placed.insert(bucket, nodes);
        self.change_state();
    }
}
