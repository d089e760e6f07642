//! Queues of work for threads that wait for it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Maximum bytes of single items that are taken at once, plus one more item.
const SINGLE_BYTES: usize = 8 << 20;

/// The same for items of batches, and the rest of the batch that ends there.
const BATCH_BYTES: usize = 2 << 20;

/// Takes the place of [`BATCH_BYTES`] while there are single items: one that comes waits for the sync of the
/// batches that were taken before it. Below the bytes of a batch of a stream, so that one is taken at a time.
const BATCH_BYTES_BESIDE: usize = 256 << 10;

/// Number of times that no single item is taken, after which it is assumed that none will come.
const LULL: u32 = 64;

/// Result of waiting for work.
pub(super) enum TakenWork<T> {
    /// Items, at least one.
    Items(VecDeque<T>),
    /// No work until the given time.
    Due,
    /// The queue was closed, and is empty.
    Closed,
}

/// Duration of a sync from which on a commit waits briefly for writers that were answered just now: most
/// write again at once, and otherwise would wait for two syncs.
const SLOW_SYNC: Duration = Duration::from_millis(1);

/// Work for threads that wait for it. Single items overtake batches.
pub(super) struct WorkQueue<T> {
    queue: Mutex<CommitterQueues<T>>,
    ready: Condvar,
}

struct CommitterQueues<T> {
    single: VecDeque<T>,
    /// Items of batches; nothing comes between those of one.
    batches: VecDeque<T>,
    is_closed: bool,
    /// True if batches waited when single items were taken last, without them.
    is_batch_due: bool,
    /// Number of times until there has been a [`LULL`] of single items.
    until_lull: u32,
    /// Number of single items that were taken last, without batches.
    taken_alone: usize,
}

impl<T> CommitterQueues<T> {
    fn len(&self) -> usize {
        self.single.len() + self.batches.len()
    }

    /// True if there is nothing yet, and something may come.
    fn is_awaited(&mut self) -> bool {
        self.len() == 0 && !self.is_closed
    }

    /// Takes the next items: those of the first queue that is due, or of both.
    fn take_next(&mut self, bytes: impl Fn(&T) -> usize, is_joined: impl Fn(&T) -> bool) -> VecDeque<T> {
        let mut taken = take_bytes(&mut self.single, SINGLE_BYTES, &bytes, |_| false);
        self.until_lull = if taken.is_empty() { self.until_lull.saturating_sub(1) } else { LULL };
        let is_alone = self.batches.is_empty() || !(taken.is_empty() || self.is_batch_due);
        self.is_batch_due = is_alone && !self.batches.is_empty();
        self.taken_alone = if is_alone { taken.len() } else { 0 };
        if !is_alone {
            let bytes_max = if self.until_lull > 0 { BATCH_BYTES_BESIDE } else { BATCH_BYTES };
            taken.append(&mut take_bytes(&mut self.batches, bytes_max, &bytes, is_joined));
        }
        taken
    }
}

/// Takes items from the front until they have more than this many bytes, and after them those for which
/// `continues` is true.
fn take_bytes<T>(
    items: &mut VecDeque<T>,
    bytes_max: usize,
    bytes: impl Fn(&T) -> usize,
    continues: impl Fn(&T) -> bool,
) -> VecDeque<T> {
    let mut total = 0;
    let end = items.iter().position(|item| {
        total += bytes(item);
        total > bytes_max
    });
    let mut end = end.map_or(items.len(), |end| end.max(1));
    while items.get(end).is_some_and(&continues) {
        end += 1;
    }
    let rest = items.split_off(end);
    std::mem::replace(items, rest)
}

impl<T> Default for WorkQueue<T> {
    fn default() -> Self {
        let work = CommitterQueues {
            single: VecDeque::new(),
            batches: VecDeque::new(),
            is_closed: false,
            is_batch_due: false,
            until_lull: 0,
            taken_alone: 0,
        };
        WorkQueue { queue: Mutex::new(work), ready: Condvar::new() }
    }
}

impl<T> WorkQueue<T> {
    pub fn push(&self, item: T) {
        self.queue.lock().single.push_back(item);
        self.ready.notify_one();
    }

    /// Pushes single items together: the threads that wait are woken once.
    pub fn push_several(&self, items: Vec<T>) {
        if !items.is_empty() {
            self.queue.lock().single.extend(items);
            self.ready.notify_all();
        }
    }

    /// Pushes the items of a batch, that nothing comes between.
    pub fn push_all(&self, items: Vec<T>) {
        if !items.is_empty() {
            self.queue.lock().batches.extend(items);
            self.ready.notify_one();
        }
    }

    /// Takes queued items: single ones, up to [`SINGLE_BYTES`], or, where there are none, those of batches,
    /// up to [`BATCH_BYTES`] and the rest of the batch that ends there. Both are taken together where batches
    /// had to wait for single items the last time. Blocks until there are some, or the time that is given has
    /// come. `last_took`: duration of the commit of those that were taken before.
    pub fn take(
        &self,
        bytes: impl Fn(&T) -> usize,
        is_joined: impl Fn(&T) -> bool,
        last_took: Duration,
        due: Option<Instant>,
    ) -> TakenWork<T> {
        let mut queue = self.queue.lock();
        let expected = queue.single.len() + queue.taken_alone;
        match due {
            None => self.ready.wait_while(&mut queue, CommitterQueues::is_awaited),
            Some(due) => {
                let waited = self.ready.wait_while_until(&mut queue, CommitterQueues::is_awaited, due);
                if waited.timed_out() && queue.len() == 0 {
                    return TakenWork::Due;
                }
            }
        }
        if last_took >= SLOW_SYNC {
            self.gather(&mut queue, expected, last_took);
        }
        let taken = queue.take_next(bytes, is_joined);
        if taken.is_empty() { TakenWork::Closed } else { TakenWork::Items(taken) }
    }

    /// Waits for more single items while they arrive in close succession: until there are `expected`, or half
    /// a sync has passed. Batches are not waited for: their writers prepare the next one first.
    fn gather(&self, queue: &mut MutexGuard<'_, CommitterQueues<T>>, expected: usize, sync: Duration) {
        let began = Instant::now();
        while queue.single.len() < expected && began.elapsed() < sync / 2 {
            let before = queue.single.len();
            let none_came = |queue: &mut CommitterQueues<T>| queue.single.len() == before && !queue.is_closed;
            self.ready.wait_while_for(queue, none_came, sync / 16);
            if queue.single.len() == before {
                break;
            }
        }
    }

    /// The single items that have waited longest: the share of one of `takers` threads, `count_max` at most.
    /// Blocks until there is one. Without items: the queue was closed, and is empty.
    pub fn take_share(&self, takers: usize, count_max: usize) -> Vec<T> {
        let mut queue = self.queue.lock();
        self.ready.wait_while(&mut queue, CommitterQueues::is_awaited);
        let count = queue.single.len().div_ceil(takers).min(count_max);
        queue.single.drain(..count).collect()
    }

    /// Returns single items that were taken and are not done, in their order: they are taken again next.
    pub fn give_back(&self, items: impl DoubleEndedIterator<Item = T>) {
        let mut queue = self.queue.lock();
        items.rev().for_each(|item| queue.single.push_front(item));
        drop(queue);
        self.ready.notify_all();
    }

    pub fn close(&self) {
        self.queue.lock().is_closed = true;
        self.ready.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items of a queue: bytes, and true for one that continues the batch of the item before it.
    type Item = (usize, bool);

    fn taken(queue: &WorkQueue<Item>) -> Vec<usize> {
        match queue.take(|item| item.0, |item| item.1, Duration::ZERO, None) {
            TakenWork::Items(items) => items.iter().map(|item| item.0).collect(),
            TakenWork::Due | TakenWork::Closed => Vec::new(),
        }
    }

    #[test]
    fn single_items_overtake_batches_which_stay_whole() {
        const MB: usize = 1 << 20;
        let queue: WorkQueue<Item> = WorkQueue::default();
        queue.push_all(vec![(MB, false), (MB, true), (MB + 1, true)]);
        queue.push_all(vec![(1, false), (2, true)]);
        queue.push((7, false));
        queue.push((8, false));
        assert_eq!(taken(&queue), [7, 8], "they do not wait for the sync of a batch");
        assert_eq!(taken(&queue), [MB, MB, MB + 1]);
        queue.push((9, false));
        assert_eq!(taken(&queue), [9]);
        queue.push((10, false));
        assert_eq!(taken(&queue), [10, 1, 2], "batches wait for single items once");
        // A single item of any size is taken.
        queue.push_all(vec![(3 * MB, false)]);
        queue.push((9 * MB, false));
        queue.push((1, false));
        assert_eq!(taken(&queue), [9 * MB]);
        assert_eq!(taken(&queue), [1, 3 * MB]);
        queue.push((2, false));
        queue.close();
        assert_eq!(taken(&queue), [2]);
        assert!(taken(&queue).is_empty());
    }

    #[test]
    fn batches_are_taken_in_small_portions_while_there_are_single_items() {
        const BATCH: usize = 200 << 10;
        let queue: WorkQueue<Item> = WorkQueue::default();
        let fill = || (0..20).for_each(|_| queue.push_all(vec![(BATCH, false)]));
        fill();
        assert_eq!(taken(&queue).len(), BATCH_BYTES / BATCH);
        queue.push((1, false));
        assert_eq!(taken(&queue), [1]);
        for _ in 1..LULL {
            fill();
            assert_eq!(taken(&queue).len(), BATCH_BYTES_BESIDE / BATCH);
        }
        assert_eq!(taken(&queue).len(), BATCH_BYTES / BATCH, "no single item came for long");
    }

    #[test]
    fn each_taker_gets_its_share_of_single_items() {
        let queue: WorkQueue<usize> = WorkQueue::default();
        queue.push_several((0..9).collect());
        queue.push(9);
        assert_eq!(queue.take_share(4, 100), [0, 1, 2]);
        assert_eq!(queue.take_share(1, 2), [3, 4]);
        assert_eq!(queue.take_share(4, 100), [5, 6]);
        queue.give_back([5, 6].into_iter());
        assert_eq!(queue.take_share(1, 3), [5, 6, 7]);
        queue.give_back(std::iter::once(7));
        queue.close();
        assert_eq!(queue.take_share(1, 100), [7, 8, 9], "what is queued is done first");
        assert!(queue.take_share(1, 100).is_empty());
    }
}
