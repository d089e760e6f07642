//! Followers of the store: the indexes that lie with its documents, and the feed of placed ones.

use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::Timestamp;
use millrace_store::{
    CommitFollower, CommittedRow, DroppingScope, ErasurePartner, Error as StoreError, Store,
};
use parking_lot::Mutex;

/// Sets the followers of a store, of which the store knows one.
pub struct FollowerSwitch {
    store: Store,
    set: Mutex<SetFollowers>,
}

#[derive(Default)]
struct SetFollowers {
    /// Follower of the indexes that lie with the documents.
    own: Option<Arc<dyn CommitFollower>>,
    /// Follower of the placed indexes.
    placed: Option<Arc<dyn CommitFollower>>,
    /// Those that erase in the indexes.
    erasing: Vec<Arc<dyn ErasurePartner>>,
}

impl FollowerSwitch {
    /// The switch of a store that has no follower.
    pub fn new(store: Store) -> Self {
        FollowerSwitch { store, set: Mutex::default() }
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Sets the follower of the indexes that lie with the documents, as
    /// [`Store::set_follower`](millrace_store::Store::set_follower) does.
    pub(super) fn set_own(&self, follower: Option<Arc<dyn CommitFollower>>) -> Timestamp {
        let mut set = self.set.lock();
        set.own = follower;
        self.follow(&set)
    }

    /// Sets the follower of the placed indexes.
    pub(super) fn set_placed(&self, follower: Option<Arc<dyn CommitFollower>>) -> Timestamp {
        let mut set = self.set.lock();
        set.placed = follower;
        self.follow(&set)
    }

    /// Lets erasures of the store wait for one more owner of files.
    pub(super) fn add_erasure_partner(&self, partner: Arc<dyn ErasurePartner>) {
        let mut set = self.set.lock();
        set.erasing.push(partner);
        self.store.set_erasure_partner(Some(Arc::new(ErasurePartners(set.erasing.clone()))));
    }

    fn follow(&self, set: &SetFollowers) -> Timestamp {
        self.store.set_follower(match (&set.own, &set.placed) {
            (Some(own), Some(placed)) => {
                let both = BothFollowers { own: Arc::clone(own), placed: Arc::clone(placed) };
                Some(Arc::new(both))
            }
            (one, None) | (None, one) => one.clone(),
        })
    }
}

/// Owners of files with content of the documents of one store.
struct ErasurePartners(Vec<Arc<dyn ErasurePartner>>);

impl ErasurePartner for ErasurePartners {
    fn has_erased(&self, dropped: Timestamp) -> bool {
        self.0.iter().all(|partner| partner.has_erased(dropped))
    }

    fn erase(&self, dropped: Timestamp) {
        self.0.iter().for_each(|partner| partner.erase(dropped));
    }
}

/// Two followers of one store. A change that one of them refuses is refused.
struct BothFollowers {
    own: Arc<dyn CommitFollower>,
    placed: Arc<dyn CommitFollower>,
}

impl CommitFollower for BothFollowers {
    fn follows(&self, document_type: &str) -> bool {
        self.own.follows(document_type) || self.placed.follows(document_type)
    }

    fn appending(&self, oldest: Timestamp) -> Result<(), StoreError> {
        self.own.appending(oldest)?;
        self.placed.appending(oldest)
    }

    fn committed(&self, rows: Vec<CommittedRow>) {
        let is_of = |follower: &dyn CommitFollower, row: &CommittedRow| follower.follows(row.document_type());
        let own: Vec<CommittedRow> = rows.iter().filter(|row| is_of(&*self.own, row)).cloned().collect();
        if !own.is_empty() {
            self.own.committed(own);
        }
        let placed: Vec<CommittedRow> = rows.into_iter().filter(|row| is_of(&*self.placed, row)).collect();
        if !placed.is_empty() {
            self.placed.committed(placed);
        }
    }

    fn dropping(&self, scope: &DroppingScope) -> Result<(), StoreError> {
        self.own.dropping(scope)?;
        self.placed.dropping(scope)
    }

    fn dropped(&self, scope: &DroppingScope, until: Timestamp) {
        self.own.dropped(scope, until);
        self.placed.dropped(scope, until);
    }

    fn changing(&self, buckets: &[BucketId]) -> Result<(), StoreError> {
        self.own.changing(buckets)?;
        self.placed.changing(buckets).inspect_err(|_| self.own.changed(buckets))
    }

    fn changed(&self, buckets: &[BucketId]) {
        self.own.changed(buckets);
        self.placed.changed(buckets);
    }
}
