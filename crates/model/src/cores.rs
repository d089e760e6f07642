//! CPU cores, and their use by work other than models.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

thread_local! {
    /// True if this thread counts as busy.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Counter of cores that are busy with work other than running models. Clones share the count.
#[derive(Clone, Default)]
pub struct BusyCores(Arc<CoresShared>);

#[derive(Default)]
struct CoresShared {
    busy: AtomicUsize,
    /// Number of runs that wait for a core.
    wanted: AtomicUsize,
    free: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl BusyCores {
    /// Runs work on this thread that keeps a core busy.
    pub fn occupy<T>(&self, work: impl FnOnce() -> T) -> T {
        let _busy = CountedThread::busy(&self.0);
        work()
    }

    /// Waits for something on this thread, which keeps no core busy meanwhile.
    pub fn rest<T>(&self, wait: impl FnOnce() -> T) -> T {
        let _resting = CountedThread::resting(&self.0);
        wait()
    }

    /// Number of busy cores.
    pub(crate) fn busy(&self) -> usize {
        self.0.busy.load(Ordering::Relaxed)
    }

    /// Sets the number of runs that wait for a core.
    pub(crate) fn wanted(&self, waiting: usize) {
        self.0.wanted.store(waiting, Ordering::Relaxed);
    }

    /// Sets the callback for a core that becomes free while one is wanted.
    pub(crate) fn call_when_free(&self, call: impl Fn() + Send + Sync + 'static) {
        // Set once, by the scheduler that owns it.
        let _ = self.0.free.set(Box::new(call));
    }
}

/// Guard that makes a thread count as busy, or not; restores the previous state on drop.
struct CountedThread<'c> {
    cores: &'c CoresShared,
    before: bool,
}

impl<'c> CountedThread<'c> {
    fn busy(cores: &'c CoresShared) -> Self {
        CountedThread { cores, before: cores.change(true) }
    }

    fn resting(cores: &'c CoresShared) -> Self {
        CountedThread { cores, before: cores.change(false) }
    }
}

impl Drop for CountedThread<'_> {
    fn drop(&mut self) {
        self.cores.change(self.before);
    }
}

impl CoresShared {
    /// Makes this thread count as busy or not; returns the previous state.
    fn change(&self, busy: bool) -> bool {
        let before = BUSY.replace(busy);
        match (before, busy) {
            (false, true) => {
                self.busy.fetch_add(1, Ordering::Relaxed);
            }
            (true, false) => {
                self.busy.fetch_sub(1, Ordering::Relaxed);
                if self.wanted.load(Ordering::Relaxed) > 0
                    && let Some(free) = self.free.get()
                {
                    free();
                }
            }
            _ => {}
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_while_it_works_and_not_while_it_waits() {
        let cores = BusyCores::default();
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        cores.call_when_free(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        cores.occupy(|| {
            assert_eq!(cores.busy(), 1);
            cores.occupy(|| assert_eq!(cores.busy(), 1, "it is one thread"));
            cores.rest(|| assert_eq!(cores.busy(), 0));
            assert_eq!(cores.busy(), 1);
        });
        assert_eq!((cores.busy(), calls.load(Ordering::Relaxed)), (0, 0));
        cores.wanted(1);
        cores.rest(|| assert_eq!(cores.busy(), 0));
        assert_eq!(calls.load(Ordering::Relaxed), 0, "nothing became free");
        cores.occupy(|| ());
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}
