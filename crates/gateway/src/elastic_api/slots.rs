//! Slots of requests of the service, each of which one has while it runs, or waits for its turn among other
//! work of the node.
//!
//! Requests of one client, or of one group, leave slots to others ([`SharedSlots`]).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use millrace_document::DocumentGroup;
use millrace_store::{ViewScope, WriterId};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Requests of the service that run at a time, but for searches. Each has a thread, which waits for the disk
/// most of the time.
const RUNNING_MAX: usize = 64;

/// Searches of named groups, and by credentials of one, that run, or wait for their turn, at a time. A group
/// has as many as it leaves free.
const SEARCHES_MAX: usize = 64;

/// The same for searches that can read the documents of all groups. They have slots of their own: however
/// many there are, those of named groups begin.
const SCANS_MAX: usize = 64;

/// Part of the slots, as a divisor, that a client leaves to others however few of those there are.
const LEFT_PART: usize = 8;

/// The slots of a node.
pub(super) struct RequestSlots {
    running: Arc<SharedSlots<WriterId>>,
    searching: Arc<SharedSlots<DocumentGroup>>,
    scanning: Arc<SharedSlots<WriterId>>,
}

/// Slot of a request, until it is dropped.
pub(super) struct RequestSlot {
    _held: Box<dyn Send + Sync>,
}

impl RequestSlots {
    pub(super) fn new() -> Self {
        let of_clients = |capacity| SharedSlots::new(capacity, |capacity, _| capacity - capacity / LEFT_PART);
        RequestSlots {
            running: of_clients(RUNNING_MAX),
            searching: SharedSlots::new(SEARCHES_MAX, |_, free| free),
            scanning: of_clients(SCANS_MAX),
        }
    }

    /// Waits for a slot of a request of a client, with the scope of a search.
    pub(super) async fn take(&self, client: WriterId, scope: Option<&ViewScope>) -> RequestSlot {
        let slots = match scope {
            None => &self.running,
            Some(ViewScope::All | ViewScope::Buckets(_)) => &self.scanning,
            Some(ViewScope::Groups(groups) | ViewScope::GroupsIn(groups, _)) => {
                return RequestSlot { _held: Box::new(self.searching.take(groups).await) };
            }
        };
        RequestSlot { _held: Box::new(slots.take(&[client]).await) }
    }
}

/// Slots that several owners share: clients, or groups. A free one goes to the request whose owner has the
/// fewest, and to the first of several such. Requests of an owner that has as many as it may are passed over.
struct SharedSlots<K: Clone + Ord> {
    capacity: usize,
    /// Number of slots below which an owner gets another one, by the number of all and of free ones.
    below: fn(usize, usize) -> usize,
    state: Mutex<SharedSlotsState<K>>,
}

struct SharedSlotsState<K: Clone + Ord> {
    taken: usize,
    /// Slots of the requests of each owner: one of several owners counts for each.
    owners: BTreeMap<K, usize>,
    waiting: VecDeque<WaitingRequest<K>>,
}

/// A request that waits for a slot.
struct WaitingRequest<K: Clone + Ord> {
    owners: Arc<[K]>,
    sender: oneshot::Sender<SharedSlot<K>>,
}

/// One of the slots that owners share, until it is dropped.
struct SharedSlot<K: Clone + Ord> {
    slots: Arc<SharedSlots<K>>,
    owners: Arc<[K]>,
}

impl<K: Clone + Ord> SharedSlots<K> {
    fn new(capacity: usize, below: fn(usize, usize) -> usize) -> Arc<Self> {
        let state = SharedSlotsState { taken: 0, owners: BTreeMap::new(), waiting: VecDeque::new() };
        Arc::new(SharedSlots { capacity, below, state: Mutex::new(state) })
    }

    /// Waits for a slot.
    async fn take(self: &Arc<Self>, owners: &[K]) -> SharedSlot<K> {
        self.ask(owners).await.expect("a request that waits stays in the queue until it is sent a slot")
    }

    /// Asks for a slot, which is sent when there is one.
    fn ask(self: &Arc<Self>, owners: &[K]) -> oneshot::Receiver<SharedSlot<K>> {
        let mut owners = owners.to_vec();
        owners.sort_unstable();
        owners.dedup();
        let (sender, receiver) = oneshot::channel();
        self.state.lock().waiting.push_back(WaitingRequest { owners: owners.into(), sender });
        self.grant_waiting();
        receiver
    }

    /// Gives slots to requests that wait.
    fn grant_waiting(self: &Arc<Self>) {
        loop {
            let next = self.state.lock().admit_next(self.capacity, self.below);
            let Some(WaitingRequest { owners, sender }) = next else { return };
            let slot = SharedSlot { slots: Arc::clone(self), owners };
            // A request that was given up meanwhile gives its slot back.
            drop(sender.send(slot));
        }
    }
}

impl<K: Clone + Ord> SharedSlotsState<K> {
    /// The request that gets a slot now, which it has from here on.
    fn admit_next(&mut self, capacity: usize, below: fn(usize, usize) -> usize) -> Option<WaitingRequest<K>> {
        self.waiting.retain(|request| !request.sender.is_closed());
        let free = capacity.saturating_sub(self.taken);
        if free == 0 {
            return None;
        }
        let own_max = below(capacity, free);
        let slots = |owner: &K| self.owners.get(owner).copied().unwrap_or(0);
        let own = |request: &WaitingRequest<K>| request.owners.iter().map(slots).max().unwrap_or(0);
        let waiting = self.waiting.iter().map(own).enumerate().filter(|(_, own)| *own < own_max);
        let (at, _) = waiting.min_by_key(|(_, own)| *own)?;
        let request = self.waiting.remove(at)?;
        self.taken += 1;
        for owner in request.owners.iter() {
            *self.owners.entry(owner.clone()).or_default() += 1;
        }
        Some(request)
    }

    /// Takes a slot back.
    fn end(&mut self, owners: &[K]) {
        self.taken -= 1;
        for owner in owners {
            if let Some(own) = self.owners.get_mut(owner) {
                *own -= 1;
                if *own == 0 {
                    self.owners.remove(owner);
                }
            }
        }
    }
}

impl<K: Clone + Ord> Drop for SharedSlot<K> {
    fn drop(&mut self) {
        self.slots.state.lock().end(&self.owners);
        self.slots.grant_waiting();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(names: &[&str]) -> Vec<DocumentGroup> {
        names.iter().map(|name| DocumentGroup::Name((*name).to_owned())).collect()
    }

    /// Requests that asked for slots, in their order.
    struct QueuedRequests<K: Clone + Ord>(Vec<oneshot::Receiver<SharedSlot<K>>>);

    impl QueuedRequests<DocumentGroup> {
        fn ask(slots: &Arc<SharedSlots<DocumentGroup>>, names: &[&str], number: usize) -> Self {
            QueuedRequests((0..number).map(|_| slots.ask(&groups(names))).collect())
        }
    }

    impl<K: Clone + Ord> QueuedRequests<K> {
        /// Slots that were sent since the last call.
        fn sent(&mut self) -> Vec<SharedSlot<K>> {
            self.0.iter_mut().filter_map(|receiver| receiver.try_recv().ok()).collect()
        }
    }

    #[test]
    fn a_group_leaves_slots_to_others() {
        let slots = SharedSlots::new(64, |_, free| free);
        let mut ann = QueuedRequests::ask(&slots, &["ann"], 100);
        let anns = ann.sent();
        assert_eq!(anns.len(), 32);
        let mut bob = QueuedRequests::ask(&slots, &["bob"], 1);
        let bobs = bob.sent();
        assert_eq!(bobs.len(), 1, "it does not wait behind those of another group");
        let mut both = QueuedRequests::ask(&slots, &["bob", "ann", "bob"], 1);
        assert_eq!(both.sent().len(), 0, "a search of several groups is one of each");
        drop(bobs);
        assert_eq!(ann.sent().len(), 0);
        drop(anns);
        let anns = ann.sent();
        assert_eq!(anns.len(), 32, "they come in their order");
        drop(anns);
        while !ann.sent().is_empty() {}
        assert_eq!(both.sent().len(), 1);
    }

    #[test]
    fn slots_of_searches_that_were_given_up_go_to_others() {
        let slots = SharedSlots::new(2, |_, free| free);
        let mut first = QueuedRequests::ask(&slots, &["ann"], 1);
        let ann = first.sent();
        assert_eq!(ann.len(), 1);
        let waiting = QueuedRequests::ask(&slots, &["ann"], 3);
        let sent = QueuedRequests::ask(&slots, &["bob"], 1);
        let mut last = QueuedRequests::ask(&slots, &["cleo"], 1);
        assert_eq!(last.sent().len(), 0, "both slots are taken");
        // One that gave up has its slot already, the others wait.
        drop((sent, waiting));
        let cleo = last.sent();
        assert_eq!(cleo.len(), 1);
        drop((ann, cleo));
        let state = slots.state.lock();
        assert!(state.taken == 0 && state.owners.is_empty() && state.waiting.is_empty());
    }

    #[test]
    fn a_client_has_most_slots_until_another_comes() {
        let slots = RequestSlots::new().running;
        let ask = |client: u64, number: usize| {
            QueuedRequests((0..number).map(|_| slots.ask(&[WriterId(client)])).collect())
        };
        let mut first = ask(1, 100);
        let mut firsts = first.sent();
        assert_eq!(firsts.len(), 56, "the rest waits, and there are slots for others");
        let mut second = ask(2, 100);
        let seconds = second.sent();
        assert_eq!(seconds.len(), 8);
        drop(firsts.split_off(20));
        // Slots that come free go to the one that has fewer, until both have as many.
        let (more_firsts, more_seconds) = (first.sent(), second.sent());
        assert_eq!((more_firsts.len(), more_seconds.len()), (12, 24));
        drop((firsts, seconds, more_firsts, more_seconds));
    }
}
