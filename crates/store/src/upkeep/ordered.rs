//! Work on several threads whose results keep their order.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, sync_channel};

use parking_lot::Mutex;

use crate::Error;

/// Items per thread that may be begun before the first result is taken.
const AHEAD: usize = 2;

/// Threads that map items.
pub(crate) struct OrderedThreads<'a> {
    /// Name of the threads.
    pub name: &'a str,
    /// Number of threads; with one or none, the calling thread maps the items itself.
    pub count: usize,
    /// Called in each thread before its first item.
    pub begin: &'a (dyn Fn() + Sync),
}

impl OrderedThreads<'_> {
    /// Maps each item that `produce` passes on, and passes the results to `consume` in the order of the
    /// items. `produce` and `consume` run in the calling thread; a bounded number of items is in flight.
    ///
    /// # Errors
    /// The first error of `produce` or `consume`; a thread cannot be created.
    ///
    /// # Panics
    /// `map` panicked in a thread.
    pub fn map<T: Send, R: Send>(
        &self,
        map: &(dyn Fn(T) -> R + Sync),
        produce: impl FnOnce(&mut dyn FnMut(T) -> Result<(), Error>) -> Result<(), Error>,
        mut consume: impl FnMut(R) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.count < 2 {
            return produce(&mut |item| consume(map(item)));
        }
        let (items, waiting) = sync_channel(self.count * AHEAD);
        // The threads end when no more items can come, so it must not outlive this call's sender.
        let waiting: Mutex<Receiver<(T, _)>> = Mutex::new(waiting);
        std::thread::scope(|scope| {
            for _ in 0..self.count {
                let work = || {
                    (self.begin)();
                    loop {
                        let next = waiting.lock().recv();
                        let Ok((item, result)) = next else { return };
                        let result: std::sync::mpsc::SyncSender<R> = result;
                        // Where the caller has failed, it takes no more results.
                        let _ = result.send(map(item));
                    }
                };
                let spawned =
                    std::thread::Builder::new().name(self.name.to_owned()).spawn_scoped(scope, work);
                spawned.map_err(|error| Error::io("start a thread", &error))?;
            }
            // Moved in, so that it is dropped before the scope waits for the threads.
            let items = items;
            let mut results: VecDeque<Receiver<R>> = VecDeque::new();
            let take = |result: Receiver<R>| result.recv().expect("a thread gives a result, or has panicked");
            produce(&mut |item| {
                if results.len() >= self.count * AHEAD {
                    results.pop_front().map(take).map_or(Ok(()), &mut consume)?;
                }
                let (done, result) = sync_channel(1);
                results.push_back(result);
                items.send((item, done)).expect("the threads wait for items");
                Ok(())
            })?;
            results.into_iter().map(take).try_for_each(&mut consume)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;

    fn squares(count: usize, items: u64, fails_at: Option<u64>) -> (Vec<u64>, Result<(), Error>) {
        let mut seen = Vec::new();
        let threads = OrderedThreads { name: "squares", count, begin: &|| {} };
        let square = |item: u64| {
            // Later items are ready before earlier ones.
            std::thread::sleep(Duration::from_micros(500 * (3 - item % 4)));
            item * item
        };
        let outcome = threads.map(
            &square,
            |next| (0..items).try_for_each(next),
            |square| {
                if fails_at == Some(square) {
                    return Err(Error::Closed);
                }
                seen.push(square);
                Ok(())
            },
        );
        (seen, outcome)
    }

    #[test]
    fn results_keep_the_order_of_items() {
        for count in [0, 1, 2, 5] {
            for items in [0, 1, 7, 40] {
                let (seen, outcome) = squares(count, items, None);
                let expected: Vec<u64> = (0..items).map(|item| item * item).collect();
                assert!(outcome.is_ok() && seen == expected, "{count} threads: {seen:?}");
            }
            let (seen, outcome) = squares(count, 40, Some(49));
            assert!(matches!(outcome, Err(Error::Closed)), "{count} threads");
            assert_eq!(seen, [0, 1, 4, 9, 16, 25, 36], "{count} threads");
        }
    }

    #[test]
    fn a_panic_of_a_thread_is_one_of_the_caller() {
        let threads = OrderedThreads { name: "fails", count: 3, begin: &|| {} };
        let fail = |item: u32| assert!(item < 5, "the sixth item fails");
        let run = || threads.map(&fail, |next| (0..50).try_for_each(next), |()| Ok(()));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    }
}
