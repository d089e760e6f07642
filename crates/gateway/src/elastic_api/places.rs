//! Places of requests of the door, each of which one has while it runs, or waits for its turn among other
//! work of the node.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use millrace_document::DocumentGroup;
use millrace_store::ViewScope;
use parking_lot::Mutex;
use tokio::sync::{AcquireError, Semaphore, oneshot};

/// Requests of the door that run at a time, but for searches. Each has a thread, which waits for the disk
/// most of the time.
const RUNNING_MAX: usize = 64;

/// Searches of named groups, and by credentials of one, that run, or wait for their turn, at a time. A group
/// has as many as it leaves free.
const SEARCHES_MAX: usize = 64;

/// The same for searches that can read the documents of all groups. They have places of their own: however
/// many there are, those of named groups begin.
const SCANS_MAX: usize = 64;

/// The places of a node.
pub(super) struct RequestPlaces {
    running: Arc<Semaphore>,
    searching: Arc<GroupPlaces>,
    scanning: Arc<Semaphore>,
}

/// Place of a request, until it is dropped.
pub(super) struct RequestPlace {
    _held: Box<dyn Send + Sync>,
}

impl RequestPlaces {
    pub(super) fn new() -> Self {
        let [running, scanning] = [RUNNING_MAX, SCANS_MAX].map(|most| Arc::new(Semaphore::new(most)));
        RequestPlaces { running, searching: GroupPlaces::new(SEARCHES_MAX), scanning }
    }

    /// Waits for a place of a request, with the scope of a search.
    ///
    /// # Errors
    /// The node is being stopped.
    pub(super) async fn take(&self, scope: Option<&ViewScope>) -> Result<RequestPlace, AcquireError> {
        let places = match scope {
            None => &self.running,
            Some(ViewScope::All | ViewScope::Buckets(_)) => &self.scanning,
            Some(ViewScope::Groups(groups) | ViewScope::GroupsIn(groups, _)) => {
                return Ok(RequestPlace { _held: Box::new(self.searching.take(groups).await) });
            }
        };
        let permit = Arc::clone(places).acquire_owned().await?;
        Ok(RequestPlace { _held: Box::new(permit) })
    }
}

/// Places of searches of named groups. They are given in the order in which searches come; one whose group
/// has as many as it leaves free is passed over.
struct GroupPlaces {
    most: usize,
    state: Mutex<GroupPlacesState>,
}

#[derive(Default)]
struct GroupPlacesState {
    taken: usize,
    /// Places of the searches of each group: one of several groups counts for each.
    groups: HashMap<DocumentGroup, usize>,
    waiting: VecDeque<WaitingSearch>,
}

/// A search that waits for a place.
struct WaitingSearch {
    groups: Arc<[DocumentGroup]>,
    sender: oneshot::Sender<GroupPlace>,
}

/// Place of a search of named groups, until it is dropped.
struct GroupPlace {
    places: Arc<GroupPlaces>,
    groups: Arc<[DocumentGroup]>,
}

impl GroupPlaces {
    fn new(most: usize) -> Arc<Self> {
        Arc::new(GroupPlaces { most, state: Mutex::default() })
    }

    /// Waits for a place.
    async fn take(self: &Arc<Self>, groups: &[DocumentGroup]) -> GroupPlace {
        self.ask(groups).await.expect("a search that waits stays in the queue until it is sent a place")
    }

    /// Asks for a place, which is sent when there is one.
    fn ask(self: &Arc<Self>, groups: &[DocumentGroup]) -> oneshot::Receiver<GroupPlace> {
        let mut groups = groups.to_vec();
        groups.sort_unstable();
        groups.dedup();
        let (sender, receiver) = oneshot::channel();
        self.state.lock().waiting.push_back(WaitingSearch { groups: groups.into(), sender });
        self.hand_out();
        receiver
    }

    /// Gives places to searches that wait.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let next = self.state.lock().admit_next(self.most);
            let Some(WaitingSearch { groups, sender }) = next else { return };
            let place = GroupPlace { places: Arc::clone(self), groups };
            // A search that was given up meanwhile gives its place back.
            drop(sender.send(place));
        }
    }
}

impl GroupPlacesState {
    /// The first search that gets a place now, which it has from here on.
    fn admit_next(&mut self, most: usize) -> Option<WaitingSearch> {
        self.waiting.retain(|search| !search.sender.is_closed());
        let free = most.saturating_sub(self.taken);
        let own = |group: &DocumentGroup| self.groups.get(group).copied().unwrap_or(0);
        let admits = |search: &WaitingSearch| search.groups.iter().map(own).max().unwrap_or(0) < free;
        let at = self.waiting.iter().position(admits)?;
        let search = self.waiting.remove(at)?;
        self.taken += 1;
        for group in search.groups.iter() {
            *self.groups.entry(group.clone()).or_default() += 1;
        }
        Some(search)
    }

    /// Takes a place back.
    fn end(&mut self, groups: &[DocumentGroup]) {
        self.taken -= 1;
        for group in groups {
            if let Some(own) = self.groups.get_mut(group) {
                *own -= 1;
                if *own == 0 {
                    self.groups.remove(group);
                }
            }
        }
    }
}

impl Drop for GroupPlace {
    fn drop(&mut self) {
        self.places.state.lock().end(&self.groups);
        self.places.hand_out();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(names: &[&str]) -> Vec<DocumentGroup> {
        names.iter().map(|name| DocumentGroup::Name((*name).to_owned())).collect()
    }

    /// Searches that asked for places, in their order.
    struct AskingSearches(Vec<oneshot::Receiver<GroupPlace>>);

    impl AskingSearches {
        fn of(places: &Arc<GroupPlaces>, names: &[&str], number: usize) -> Self {
            AskingSearches((0..number).map(|_| places.ask(&groups(names))).collect())
        }

        /// Places that were sent since the last call.
        fn sent(&mut self) -> Vec<GroupPlace> {
            self.0.iter_mut().filter_map(|receiver| receiver.try_recv().ok()).collect()
        }
    }

    #[test]
    fn a_group_leaves_places_to_others() {
        let places = GroupPlaces::new(64);
        let mut ann = AskingSearches::of(&places, &["ann"], 100);
        let anns = ann.sent();
        assert_eq!(anns.len(), 32);
        let mut bob = AskingSearches::of(&places, &["bob"], 1);
        let bobs = bob.sent();
        assert_eq!(bobs.len(), 1, "it does not wait behind those of another group");
        let mut both = AskingSearches::of(&places, &["bob", "ann", "bob"], 1);
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
    fn places_of_searches_that_were_given_up_go_to_others() {
        let places = GroupPlaces::new(2);
        let mut first = AskingSearches::of(&places, &["ann"], 1);
        let ann = first.sent();
        assert_eq!(ann.len(), 1);
        let waiting = AskingSearches::of(&places, &["ann"], 3);
        let sent = AskingSearches::of(&places, &["bob"], 1);
        let mut last = AskingSearches::of(&places, &["cleo"], 1);
        assert_eq!(last.sent().len(), 0, "both places are taken");
        // One that gave up has its place already, the others wait.
        drop((sent, waiting));
        let cleo = last.sent();
        assert_eq!(cleo.len(), 1);
        drop((ann, cleo));
        let state = places.state.lock();
        assert!(state.taken == 0 && state.groups.is_empty() && state.waiting.is_empty());
    }
}
