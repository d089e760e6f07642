use std::time::Duration;

/// The time, as whoever drives a state machine tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Since some moment before the process began; never steps back. Deadlines and intervals are measured by it.
    pub monotonic: Duration,
    /// Microseconds since 1970 by the machine's clock, which may jump. Only timestamps are made of it.
    pub wall_us: u64,
}
