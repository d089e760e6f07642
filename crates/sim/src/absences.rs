//! Nodes that are away for longer than removals are remembered: the others have forgotten what they removed,
//! so the old documents of such a node must not come back.

use std::sync::Arc;
use std::time::Duration;

use millrace_cluster::NodeKey;
use millrace_document::Timestamp;

use crate::history::ClientIntent;
use crate::world::SimWorld;
use crate::{Sabotage, any_document, checks, faults};

const HOUR_US: u64 = 3_600_000_000;

/// Time for which nodes remember removals and drops: well above the jumps of clocks, and above twice the age
/// up to which replicas are compared.
const REMEMBERED_US: u64 = 14 * 24 * HOUR_US;

/// Time for which removals must still be remembered when a node is back, so that it can receive them. Clocks
/// differ by less.
const MARGIN_US: u64 = 24 * HOUR_US;

/// Time that passes while a node is away.
const ABSENCE_US: u64 = 15 * 24 * HOUR_US;

/// Maximum time until a cluster without faults has come to rest.
pub(crate) const REST_MAX: Duration = Duration::from_secs(240);

impl SimWorld {
    /// Starts a node again. If it took part so long ago that others may have forgotten removals since, it is
    /// refused, and its operator empties it.
    pub fn come_back(&mut self, key: NodeKey) {
        let (now, is_admitted) = (self.now, self.options.sabotage == Some(Sabotage::AbsentAreAdmitted));
        let Some(node) = self.nodes.get_mut(&key) else { return };
        node.restart(now);
        let away_us = node.now(now).wall_us.saturating_sub(node.took_part);
        if away_us > REMEMBERED_US - MARGIN_US && !is_admitted {
            node.storage.empty();
            node.package = Arc::default();
            node.empty_indexes(now);
            self.note(|| format!("n{key} was away for {} hours, and comes back empty", away_us / HOUR_US));
        }
    }

    /// A node ends when all replicas are complete. Others remove documents that it has, and forget the
    /// removals before it starts again. Does nothing where that node could be the only one with a document.
    pub fn stay_away(&mut self, key: NodeKey) {
        let redundancy = self.coordination.redundancy();
        if self.nodes.len() < 3 || redundancy < 2 {
            return;
        }
        faults::heal(self);
        if self.come_to_rest(None).is_none() {
            return;
        }
        self.note(|| format!("n{key} ends, for long"));
        self.crash(key);
        let others: Vec<NodeKey> = self.nodes.keys().copied().filter(|other| *other != key).collect();
        for _ in 0..20 {
            let other = self.random.pick(&others).expect("there are at least two others");
            let id = any_document(self);
            let intent =
                if self.random.permille(700) { ClientIntent::Remove(id) } else { ClientIntent::Put(id) };
            self.ask(other, intent);
            let pause = self.random.micros(0, 400_000);
            self.pass(pause);
        }
        if self.come_to_rest(Some(key)).is_some() {
            self.forget_removals();
        }
    }

    /// Time passes, in which nothing happens but that removals get old and are forgotten.
    fn forget_removals(&mut self) {
        self.note(|| "two weeks pass".to_owned());
        self.skipped_us += ABSENCE_US as i64;
        let mut forgotten = Timestamp(u64::MAX);
        for node in self.nodes.values_mut() {
            node.clock_off += ABSENCE_US as i64;
            if node.alive {
                node.storage.forget_removals();
                let wall_us = node.now(self.now).wall_us;
                forgotten = forgotten.min(Timestamp(wall_us.saturating_sub(REMEMBERED_US)));
            }
        }
        self.history.forget(forgotten);
    }

    /// Waits until the cluster without faults has come to rest; `away` has ended and does not count. Returns
    /// the time that it took, or `None` with a violation recorded.
    pub fn come_to_rest(&mut self, away: Option<NodeKey>) -> Option<Duration> {
        let began = self.now;
        while self.wrong.is_none() {
            self.pass(Duration::from_secs(1));
            // Some time, so that late messages have arrived, and clients have given up.
            if self.now - began < Duration::from_secs(20) {
                continue;
            }
            match checks::at_rest(self, away) {
                Ok(()) => return Some(self.now - began),
                Err(reason) if self.now - began > REST_MAX => {
                    self.wrong = Some(format!("it does not come to rest: {reason}"));
                }
                Err(_) => {}
            }
        }
        None
    }
}
