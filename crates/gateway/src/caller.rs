use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says to the work under way, when it is dropped, that nobody waits any more.
#[derive(Default)]
pub(crate) struct Caller {
    /// Turns true then.
    pub(crate) gone: Arc<AtomicBool>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}
