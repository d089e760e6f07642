//! Faults, and what takes their place.

use millrace_bucket::NodeKey;
use millrace_document::Timestamp;
use millrace_index_feed::CopyNumber;

use super::copies::SimCopy;
use super::millis;
use super::world::{FeedWorld, INDEX_NODES, WorldEvent};

impl FeedWorld {
    /// A node or a message fails.
    pub fn fault(&mut self) {
        match self.random.below(100) {
            0..=39 => self.leave_any(),
            40..=52 => self.move_owner(),
            53..=63 => self.divide(),
            64..=84 => {
                let at = self.random.below(INDEX_NODES.len() as u64) as usize;
                let node = NodeKey(INDEX_NODES[at]);
                if std::mem::replace(&mut self.index_node(node).is_running, false) {
                    self.count("index crash");
                    self.note(|| format!("index node {node} crashes"));
                    let delay = match self.random.percent(30) {
                        true => millis(&mut self.random, 20_000, 120_000),
                        false => millis(&mut self.random, 500, 10_000),
                    };
                    self.at(delay, WorldEvent::IndexReturn { node });
                }
            }
            85..=94 => self.import(),
            _ => self.delay_learning(),
        }
    }

    /// An index node does not learn of cluster states for a while.
    pub fn delay_learning(&mut self) {
        let at = self.random.below(INDEX_NODES.len() as u64) as usize;
        let until = self.now + millis(&mut self.random, 20_000, 150_000);
        self.index_node(NodeKey(INDEX_NODES[at])).learns_after = until;
    }

    /// A copy is replaced by the files of another one.
    fn import(&mut self) {
        let (from, to) = match self.random.percent(50) {
            true => (NodeKey(INDEX_NODES[0]), NodeKey(INDEX_NODES[1])),
            false => (NodeKey(INDEX_NODES[1]), NodeKey(INDEX_NODES[0])),
        };
        if !self.indexes[&to].is_running {
            return;
        }
        let is_same = |one: &SimCopy, other: &SimCopy| one.definition == other.definition;
        let pairs = self.indexes[&from].copies.values().find_map(|source| {
            let of_other = self.indexes[&to].copies.iter().find(|(_, copy)| is_same(source, copy));
            of_other.map(|(number, _)| (source, *number))
        });
        let Some((source, old)) = pairs else { return };
        let copy = SimCopy {
            definition: source.definition.clone(),
            records: source.flushed.0.clone(),
            flushed: source.flushed.clone(),
        };
        self.count("imported");
        self.next_copy += 1;
        let number = CopyNumber(self.next_copy);
        self.note(|| format!("index node {to} imports copy {number:?} for {old:?}"));
        let now = Timestamp(self.now);
        let node = self.index_node(to);
        node.copies.remove(&old);
        let effects = node.follower.remove_copy(old, now);
        self.effects(to, effects);
        self.add_copy(to, number, copy);
    }

    /// All faults end.
    pub fn heal(&mut self) {
        for key in INDEX_NODES.map(NodeKey) {
            self.at(0, WorldEvent::IndexReturn { node: key });
        }
        let keys: Vec<NodeKey> = self.documents.keys().copied().collect();
        for node in keys {
            self.at(0, WorldEvent::Return { node });
        }
    }
}
