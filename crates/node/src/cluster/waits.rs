//! Threads that wait for other nodes, until the node is being stopped.

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::{Error, Node};

/// Waits of threads for other nodes. They end before the runtime does, whose timers panic from then on.
pub(crate) struct BlockingWaits {
    have_ended: watch::Sender<bool>,
}

impl Default for BlockingWaits {
    fn default() -> Self {
        BlockingWaits { have_ended: watch::channel(false).0 }
    }
}

impl BlockingWaits {
    /// Waits for a future, which is not even begun after the end.
    fn wait<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        let mut have_ended = self.have_ended.subscribe();
        Handle::current().block_on(async move {
            tokio::select! {
                biased;
                _ = have_ended.wait_for(|have_ended| *have_ended) => {
                    Err(Error::Unsettled("this node is being stopped".to_owned()))
                }
                output = future => Ok(output),
            }
        })
    }

    fn end(&self) {
        self.have_ended.send_replace(true);
    }
}

impl Node {
    /// Ends the waits of all threads for other nodes: no request needs them any more, and the runtime is
    /// about to end.
    pub fn end_waits(&self) {
        self.waits().end();
    }

    /// True once the waits have ended: work that no request needs ends as well.
    pub fn is_stopping(&self) -> bool {
        *self.waits().have_ended.borrow()
    }
}

/// Waits for a future on a thread of the runtime that may block.
///
/// # Errors
/// [`Error::Unsettled`]: the node is being stopped. The future may have been begun.
pub fn wait_for<F: Future>(node: &Node, future: F) -> Result<F::Output, Error> {
    node.waits().wait(future)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn waits_end_before_the_runtime() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let waits = Arc::new(BlockingWaits::default());
        let entered = runtime.enter();
        assert_eq!(waits.wait(async { 7 }).expect("the node runs"), 7);
        drop(entered);
        let waiting = Arc::clone(&waits);
        let waiting = runtime.spawn_blocking(move || waiting.wait(std::future::pending::<()>()));
        waits.end();
        let outcome = runtime.block_on(waiting).expect("it does not panic");
        assert!(matches!(outcome, Err(Error::Unsettled(_))), "{outcome:?}");
        // A timer panics in a runtime that has ended.
        let handle = runtime.handle().clone();
        drop(runtime);
        let _entered = handle.enter();
        let outcome = waits.wait(async {
            tokio::time::sleep(Duration::ZERO).await;
        });
        assert!(matches!(outcome, Err(Error::Unsettled(_))), "{outcome:?}");
    }
}
