use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals the work in progress, when dropped, that its caller has left.
#[derive(Default)]
pub struct CancelOnDrop {
    /// Set to true on drop.
    pub gone: Arc<AtomicBool>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}
