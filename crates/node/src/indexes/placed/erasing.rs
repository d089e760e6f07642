//! Erasure of dropped documents in the copies of all nodes: the store of a node with documents waits for it.
//!
//! A copy takes the entries of a dropped group out when the drop comes, and remembers the removals for a
//! while. Once it has everything of after the drop, it need not remember them: its files are written again as
//! one, which has nothing of the group. Each node with documents asks the nodes with copies for this, since
//! its store has the bound.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use millrace_cluster::NodeKey;
use millrace_document::Timestamp;
use millrace_store::ErasurePartner;
use tokio::task::JoinSet;

use super::message::{PlacedAnswer, PlacedQuestion};
use super::service::PlacedService;
use crate::Error;

/// Time until which dropped documents are to be erased in copies, and that until which they are.
#[derive(Default)]
pub(super) struct PlacedErasure {
    wanted: AtomicU64,
    done: AtomicU64,
    /// True while nodes may have copies.
    has_copies: AtomicBool,
    /// Held while nodes are asked.
    asking: Arc<tokio::sync::Mutex<()>>,
}

impl ErasurePartner for PlacedErasure {
    fn has_erased(&self, dropped: Timestamp) -> bool {
        self.done.load(Ordering::SeqCst) >= dropped.0 || !self.has_copies.load(Ordering::SeqCst)
    }

    fn erase(&self, dropped: Timestamp) {
        self.wanted.fetch_max(dropped.0, Ordering::SeqCst);
    }
}

impl PlacedErasure {
    /// Notes that nodes may have copies, or that none has any.
    pub fn note_copies(&self, may_be: bool) {
        self.has_copies.store(may_be, Ordering::SeqCst);
    }

    /// Time until which dropped documents are still to be erased.
    fn due(&self) -> Option<Timestamp> {
        let wanted = self.wanted.load(Ordering::SeqCst);
        (wanted > self.done.load(Ordering::SeqCst)).then_some(Timestamp(wanted))
    }
}

impl PlacedService {
    /// Asks the nodes with copies to erase what was dropped, if there is something, and takes in how far they
    /// have, beside the next looks after the copies.
    pub fn ask_for_erasure(self: &Arc<Self>) {
        let Some(until) = self.erasure.due() else { return };
        let Ok(turn) = Arc::clone(&self.erasure.asking).try_lock_owned() else { return };
        let Some(table) = self.table.borrow().clone() else { return };
        let nodes: BTreeSet<NodeKey> = table.all_copies().map(|(_, copy)| copy.node).collect();
        let service = Arc::clone(self);
        self.runtime.spawn(async move {
            let mut requested = JoinSet::new();
            for node in nodes {
                let service = Arc::clone(&service);
                requested.spawn(async move { service.ask(node, PlacedQuestion::Erase { until }).await });
            }
            let mut erased = None::<Timestamp>;
            while let Some(answer) = requested.join_next().await {
                let of_node = match answer {
                    Ok(Ok(PlacedAnswer::Erased(of_node))) => of_node,
                    // A node that is away erases when it is back, unless its copies are not wanted any more.
                    _ => Timestamp(0),
                };
                erased = Some(erased.map_or(of_node, |erased| erased.min(of_node)));
            }
            service.erasure.done.fetch_max(erased.unwrap_or(until).0, Ordering::SeqCst);
            drop(turn);
        });
    }

    /// Erases what was dropped until a time in the copies of this node. Answers at once, with the time until
    /// which it is done.
    ///
    /// # Errors
    /// The copies cannot be looked at.
    pub async fn erase(self: &Arc<Self>, until: Timestamp) -> Result<PlacedAnswer, Error> {
        if !self.exports.lock().is_empty() {
            // Files that are sent can be from before, and so can the copy that is made of them.
            return Ok(PlacedAnswer::Erased(Timestamp(0)));
        }
        let erased = self.look(move |copies| copies.erased(until)).await?;
        if erased < until {
            self.change(move |copies| {
                copies.erase(until);
                Vec::new()
            })
            .await;
        }
        Ok(PlacedAnswer::Erased(erased))
    }
}
