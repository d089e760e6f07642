//! The one door from waiting to computing: a bounded queue in front of as many threads as there are cores.
//!
//! Whoever waits may leave: work whose caller is gone when its turn comes is dropped unbegun. A full queue refuses at once.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use millrace_model::Cores;
use tokio::sync::oneshot;

use crate::Error;

/// Work that looks by itself whether anybody still waits for it.
type Job = Box<dyn FnOnce() + Send>;

/// Threads for CPU-bound and disk-bound work. They end when the pool is dropped, after the work that is queued.
pub struct Pool {
    queue: Arc<Queue>,
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl Queue {
    /// The state. A thread that panicked cannot have left it half changed: nothing in here panics while holding it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Pool {
    /// Starts `threads` threads, which count among the busy cores while they work; at most `capacity` jobs wait for them.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn new(threads: usize, capacity: usize, cores: &Cores) -> std::io::Result<Self> {
        let queue =
            Arc::new(Queue { state: Mutex::new(State::default()), changed: Condvar::new(), capacity });
        for number in 0..threads.max(1) {
            let (queue, cores) = (Arc::clone(&queue), cores.clone());
            std::thread::Builder::new().name(format!("work-{number}")).spawn(move || {
                while let Some(job) = queue.next() {
                    cores.occupy(job);
                }
            })?;
        }
        Ok(Pool { queue })
    }

    /// How many jobs wait.
    pub fn waiting(&self) -> usize {
        self.queue.lock().jobs.len()
    }

    /// Runs `work` on one of the threads. Dropping the future before the work began means that it never begins.
    ///
    /// # Errors
    /// [`Error::Overloaded`] when the queue is full; [`Error::Internal`] when the work panicked.
    pub async fn run<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move || {
            if sender.is_closed() {
                return;
            }
            // A panic drops the sender, which the receiver sees; the thread lives on.
            if let Ok(value) = catch_unwind(AssertUnwindSafe(work)) {
                // The receiver may have left meanwhile: then nobody wants the value.
                let _ = sender.send(value);
            }
        });
        {
            let mut state = self.queue.lock();
            if state.jobs.len() >= self.queue.capacity {
                return Err(Error::Overloaded);
            }
            state.jobs.push_back(job);
        }
        self.queue.changed.notify_one();
        receiver
            .await
            .map_err(|_| Error::Internal("the request's work ended in a panic; see the log".to_owned()))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime of this thread")
    }

    #[test]
    fn work_whose_caller_left_is_never_begun() {
        let pool = Arc::new(Pool::new(1, 8, &Cores::default()).expect("one thread"));
        let (release, blocked) = mpsc::channel::<()>();
        let begun = Arc::new(AtomicUsize::new(0));
        runtime().block_on(async {
            let first = pool.run(move || blocked.recv().is_ok());
            let counter = Arc::clone(&begun);
            let second = pool.run(move || counter.fetch_add(1, Ordering::SeqCst));
            let mut first = Box::pin(first);
            assert!(tokio::time::timeout(Duration::from_millis(20), &mut first).await.is_err());
            assert!(tokio::time::timeout(Duration::from_millis(20), second).await.is_err(), "it must queue");
            release.send(()).expect("the first job waits for this");
            assert!(first.await.expect("the first job ends"));
            pool.run(|| ()).await.expect("a third job runs");
        });
        assert_eq!(begun.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_full_queue_refuses() {
        let pool = Pool::new(1, 1, &Cores::default()).expect("one thread");
        let (release, blocked) = mpsc::channel::<()>();
        runtime().block_on(async {
            let mut running = Box::pin(pool.run(move || blocked.recv().is_ok()));
            assert!(tokio::time::timeout(Duration::from_millis(50), &mut running).await.is_err());
            let mut queued = Box::pin(pool.run(|| ()));
            assert!(tokio::time::timeout(Duration::from_millis(5), &mut queued).await.is_err());
            assert!(matches!(pool.run(|| ()).await, Err(Error::Overloaded)));
            release.send(()).expect("the first job waits for this");
            queued.await.expect("the queued job runs");
        });
    }

    #[test]
    fn a_panic_is_an_error_and_the_thread_lives() {
        let pool = Pool::new(1, 8, &Cores::default()).expect("one thread");
        runtime().block_on(async {
            assert!(matches!(pool.run(|| -> () { panic!("on purpose") }).await, Err(Error::Internal(_))));
            assert_eq!(pool.run(|| 7).await.expect("the thread goes on"), 7);
        });
    }
}
