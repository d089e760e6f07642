//! Queues of work for threads that wait for it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Maximum bytes of rows that one sync covers, plus one more row.
const BATCH_BYTES: usize = 8 << 20;

/// State that a commit passes to the next one.
#[derive(Default)]
pub(super) struct LastCommit {
    pub writes: usize,
    pub took: Duration,
}

/// Result of waiting for work.
pub(super) enum TakenWork<T> {
    /// Items, at least one.
    Items(VecDeque<T>),
    /// It is the given time, and there is none.
    Due,
    /// The queue was closed, and is empty.
    Closed,
}

/// Duration of a sync from which on a commit waits briefly for writers that were answered just now: most
/// write again at once, and otherwise would wait for two syncs.
const SLOW_SYNC: Duration = Duration::from_millis(1);

/// Work for threads that wait for it.
pub(super) struct WorkQueue<T> {
    queue: Mutex<(VecDeque<T>, bool)>,
    ready: Condvar,
}

impl<T> Default for WorkQueue<T> {
    fn default() -> Self {
        WorkQueue { queue: Mutex::default(), ready: Condvar::new() }
    }
}

impl<T> WorkQueue<T> {
    pub fn push(&self, item: T) {
        self.queue.lock().0.push_back(item);
        self.ready.notify_one();
    }

    /// Pushes items that nothing comes between.
    pub fn push_all(&self, items: Vec<T>) {
        if !items.is_empty() {
            self.queue.lock().0.extend(items);
            self.ready.notify_one();
        }
    }

    /// Takes the queued items, up to [`BATCH_BYTES`] and the rest of the batch that ends there; blocks until
    /// there are some, or the time that is given has come.
    pub fn take(
        &self,
        bytes: impl Fn(&T) -> usize,
        is_joined: impl Fn(&T) -> bool,
        last: &LastCommit,
        due: Option<Instant>,
    ) -> TakenWork<T> {
        let mut queue = self.queue.lock();
        let expected = queue.0.len() + last.writes;
        let is_waiting = |(items, closed): &mut (VecDeque<T>, bool)| items.is_empty() && !*closed;
        match due {
            None => self.ready.wait_while(&mut queue, is_waiting),
            Some(due) => {
                if self.ready.wait_while_until(&mut queue, is_waiting, due).timed_out() && queue.0.is_empty()
                {
                    return TakenWork::Due;
                }
            }
        }
        if last.took >= SLOW_SYNC {
            self.gather(&mut queue, expected, last.took);
        }
        let mut total = 0;
        let end = queue.0.iter().position(|item| {
            total += bytes(item);
            total > BATCH_BYTES
        });
        let mut end = end.map_or(queue.0.len(), |end| end.max(1));
        while queue.0.get(end).is_some_and(&is_joined) {
            end += 1;
        }
        let rest = queue.0.split_off(end);
        let taken = std::mem::replace(&mut queue.0, rest);
        if taken.is_empty() { TakenWork::Closed } else { TakenWork::Items(taken) }
    }

    /// Waits for more items while they arrive in close succession: until there are `expected`, or half a sync
    /// has passed.
    fn gather(&self, queue: &mut MutexGuard<'_, (VecDeque<T>, bool)>, expected: usize, sync: Duration) {
        let began = Instant::now();
        while queue.0.len() < expected && began.elapsed() < sync / 2 {
            let before = queue.0.len();
            let none_came = |(items, closed): &mut (VecDeque<T>, bool)| items.len() == before && !*closed;
            self.ready.wait_while_for(queue, none_came, sync / 16);
            if queue.0.len() == before {
                break;
            }
        }
    }

    /// The item that has waited longest; blocks until there is one. `None`: the queue was closed, and is
    /// empty.
    pub fn take_one(&self) -> Option<T> {
        let mut queue = self.queue.lock();
        self.ready.wait_while(&mut queue, |(items, closed)| items.is_empty() && !*closed);
        queue.0.pop_front()
    }

    pub fn close(&self) {
        self.queue.lock().1 = true;
        self.ready.notify_all();
    }
}
