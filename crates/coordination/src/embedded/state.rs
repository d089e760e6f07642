use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::{
    Error, KeyChange, KeyCondition, KeyEntry, KeyOperation, LeaseId, StoreRevision, Transaction,
    TransactionOutcome,
};

/// Number of transactions whose changes are remembered for watches.
const HISTORY_MAX: usize = 1024;

/// All keys, the leases, and recent changes.
#[derive(Default)]
pub(super) struct EmbeddedState {
    keys: KeySnapshot,
    leases: BTreeMap<LeaseId, LeaseTerm>,
    leases_granted: i64,
    history: VecDeque<Vec<KeyChange>>,
    /// Last revision whose changes are not in the history.
    forgotten: StoreRevision,
}

/// All keys, as of one revision.
#[derive(Default, Clone)]
pub(super) struct KeySnapshot {
    pub(super) entries: BTreeMap<String, KeyEntry>,
    pub(super) revision: StoreRevision,
}

struct LeaseTerm {
    ttl: Duration,
    until: Instant,
}

impl KeySnapshot {
    pub(super) fn revision(&self) -> StoreRevision {
        self.revision
    }

    fn prefixed<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a KeyEntry> {
        let from =
            self.entries.range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        from.map(|(_, entry)| entry).take_while(move |entry| entry.key.starts_with(prefix))
    }

    fn holds(&self, condition: &KeyCondition) -> bool {
        match condition {
            KeyCondition::Absent(key) => !self.entries.contains_key(key),
            KeyCondition::Changed(key, at) => self.entries.get(key).is_some_and(|entry| entry.changed == *at),
            KeyCondition::Created(key, at) => self.entries.get(key).is_some_and(|entry| entry.created == *at),
        }
    }

    fn apply(&mut self, change: &KeyChange) {
        self.revision = change.at();
        match change {
            KeyChange::Put(entry) => self.entries.insert(entry.key.clone(), entry.clone()),
            KeyChange::Deleted { key, .. } => self.entries.remove(key),
        };
    }

    /// Returns the entries that one operation finds, and its changes at revision `at`.
    fn operate(&self, operation: &KeyOperation, at: StoreRevision) -> (Vec<KeyEntry>, Vec<KeyChange>) {
        let deleted = |entry: &KeyEntry| KeyChange::Deleted { key: entry.key.clone(), at };
        match operation {
            KeyOperation::Get(key) => (self.entries.get(key).cloned().into_iter().collect(), Vec::new()),
            KeyOperation::List(prefix) => (self.prefixed(prefix).cloned().collect(), Vec::new()),
            KeyOperation::Keys(prefix) => {
                let entries = self.prefixed(prefix).cloned();
                (entries.map(|entry| KeyEntry { value: [].into(), ..entry }).collect(), Vec::new())
            }
            KeyOperation::Put { key, value, lease } => {
                let created = self.entries.get(key).map_or(at, |entry| entry.created);
                let (key, value, lease) = (key.clone(), value.clone(), *lease);
                (Vec::new(), vec![KeyChange::Put(KeyEntry { key, value, created, changed: at, lease })])
            }
            KeyOperation::Delete(key) => {
                (Vec::new(), self.entries.get(key).map(deleted).into_iter().collect())
            }
            KeyOperation::DeletePrefix(prefix) => (Vec::new(), self.prefixed(prefix).map(deleted).collect()),
        }
    }
}

impl EmbeddedState {
    /// Creates a state that begins with these keys, without their history.
    pub(super) fn of(keys: KeySnapshot) -> Self {
        let forgotten = keys.revision;
        EmbeddedState { keys, forgotten, ..EmbeddedState::default() }
    }

    pub(super) fn revision(&self) -> StoreRevision {
        self.keys.revision
    }

    /// Evaluates a transaction: its outcome, and the changes that it would make.
    pub(super) fn evaluate(
        &self,
        transaction: &Transaction,
    ) -> Result<(TransactionOutcome, Vec<KeyChange>), Error> {
        let held = transaction.conditions.iter().all(|condition| self.keys.holds(condition));
        let operations = if held { &transaction.then } else { &transaction.otherwise };
        let at = StoreRevision(self.keys.revision.0 + 1);
        let mut found = Vec::with_capacity(operations.len());
        let mut changes = Vec::new();
        for operation in operations {
            if let KeyOperation::Put { lease: Some(lease), .. } = operation
                && !self.leases.contains_key(lease)
            {
                return Err(Error::LeaseLost);
            }
            let (entries, changed) = self.keys.operate(operation, at);
            found.push(entries);
            changes.extend(changed);
        }
        let revision = if changes.is_empty() { self.keys.revision } else { at };
        Ok((TransactionOutcome { held, revision, found }, changes))
    }

    /// Returns the keys with changes applied.
    pub(super) fn with(&self, changes: &[KeyChange]) -> KeySnapshot {
        let mut keys = self.keys.clone();
        changes.iter().for_each(|change| keys.apply(change));
        keys
    }

    /// Installs the next keys, which differ by `changes`.
    pub(super) fn replace(&mut self, keys: KeySnapshot, changes: Vec<KeyChange>) {
        self.keys = keys;
        self.history.push_back(changes);
        if self.history.len() > HISTORY_MAX
            && let Some(change) = self.history.pop_front().and_then(|mut changes| changes.pop())
        {
            self.forgotten = change.at();
        }
    }

    /// Changes of keys after a revision, and the revision that they lead to.
    pub(super) fn changes(
        &self,
        prefix: &str,
        after: StoreRevision,
    ) -> Result<(StoreRevision, Vec<KeyChange>), Error> {
        if after < self.forgotten {
            return Err(Error::Compacted { oldest: self.forgotten });
        }
        let changes = self.history.iter().flatten();
        let changes = changes.filter(|change| change.at() > after && change.key().starts_with(prefix));
        Ok((self.keys.revision.max(after), changes.cloned().collect()))
    }

    pub(super) fn grant(&mut self, ttl: Duration) -> LeaseId {
        self.leases_granted += 1;
        let lease = LeaseId(self.leases_granted);
        self.leases.insert(lease, LeaseTerm { ttl, until: Instant::now() + ttl });
        lease
    }

    pub(super) fn keep_alive(&mut self, lease: LeaseId) -> Result<(), Error> {
        let now = Instant::now();
        match self.leases.get_mut(&lease) {
            Some(term) if now < term.until => {
                term.until = now + term.ttl;
                Ok(())
            }
            _ => Err(Error::LeaseLost),
        }
    }

    pub(super) fn lease_until(&self, lease: LeaseId) -> Option<Instant> {
        self.leases.get(&lease).map(|term| term.until)
    }

    /// Ends a lease, if `due` returns true for its end time: it cannot be kept alive any more. Returns the
    /// deletions of its keys; the lease exists until [`EmbeddedState::forget`].
    pub(super) fn end_lease(&mut self, lease: LeaseId, due: impl FnOnce(Instant) -> bool) -> Vec<KeyChange> {
        let Some(term) = self.leases.get_mut(&lease).filter(|term| due(term.until)) else {
            return Vec::new();
        };
        term.until = term.until.min(Instant::now());
        let at = StoreRevision(self.keys.revision.0 + 1);
        let bound = self.keys.entries.values().filter(|entry| entry.lease == Some(lease));
        bound.map(|entry| KeyChange::Deleted { key: entry.key.clone(), at }).collect()
    }

    /// Removes a lease whose keys are deleted.
    pub(super) fn forget(&mut self, lease: LeaseId) {
        if self.leases.get(&lease).is_some_and(|term| term.until <= Instant::now()) {
            self.leases.remove(&lease);
        }
    }
}
