use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How much later than the deadline sorting and grouping what was found ends.
const PUT_TOGETHER: Duration = Duration::from_millis(100);

/// When to stop.
#[derive(Debug, Clone)]
pub struct Deadline {
    at: Instant,
    lost: Option<Arc<AtomicBool>>,
}

impl Deadline {
    /// At an instant.
    pub fn at(at: Instant) -> Self {
        Deadline { at, lost: None }
    }

    /// Also as soon as `lost` is set, because nobody waits for the answer any more.
    pub fn or_when(self, lost: Arc<AtomicBool>) -> Self {
        Deadline { lost: Some(lost), ..self }
    }

    /// Whether putting together what was found takes too long as well: it may take a little longer than finding it was allowed to.
    pub fn overdue(&self) -> bool {
        self.passed() && self.at.elapsed() >= PUT_TOGETHER
    }

    /// Whether it is time to stop.
    pub fn passed(&self) -> bool {
        self.lost.as_ref().is_some_and(|lost| lost.load(Ordering::Relaxed)) || Instant::now() >= self.at
    }
}
