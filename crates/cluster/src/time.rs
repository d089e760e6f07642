use std::time::Duration;

/// Current time, as the driver of a state machine passes it in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineTime {
    /// Time since some moment before the process began; never decreases. Deadlines and intervals are measured
    /// by it.
    pub monotonic: Duration,
    /// Microseconds since 1970 by the machine's clock, which may jump. Used only to make timestamps.
    pub wall_us: u64,
}
