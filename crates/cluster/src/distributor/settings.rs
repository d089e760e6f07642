use std::time::Duration;

/// Limits and intervals of a [`Distributor`](super::Distributor).
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a node may own after its state was confirmed. Must be shorter than the lease of a node.
    pub confirm: Duration,
    /// How often other nodes are asked whether they have the same state.
    pub ping: Duration,
    /// After so long without an answer a short request is given up and sent again.
    pub request_timeout: Duration,
    /// The same for one that can take long; it joins the one that runs.
    pub long_request_timeout: Duration,
    /// What was refused or lost is sent again after so long.
    pub retry: Duration,
    /// How long writes of a bucket may be held up while its replicas are compared.
    pub hold: Duration,
    /// After a new state, those who read a bucket whose replicas differ are told for so long that these may soon be equal.
    pub compare: Duration,
    /// Where replicas are compared, removals and drops count that are younger than this, or than twice as much: well within the time for which
    /// every node remembers them.
    pub removals: Duration,
    /// An operation that failed is tried again after so long.
    pub operation_retry: Duration,
    /// The most operations of clients at a time.
    pub requests_max: usize,
    /// The most bytes that they may take.
    pub request_bytes_max: usize,
    /// One message carries at most so many bytes of rows, and one more row.
    pub batch_bytes: usize,
    /// Messages with rows on their way to one node. What comes meanwhile waits, and goes together.
    pub batches_in_flight: usize,
    /// Operations that a node takes part in at a time.
    pub operations_per_node: usize,
    /// Operations at a time.
    pub operations_max: usize,
}

impl Settings {
    /// Every node has to remember removals and drops for at least so long: twice [`Settings::removals`], and as long again for clocks that
    /// differ and for a node that prunes before another does.
    pub fn remembered_min(&self) -> Duration {
        self.removals * 3
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            confirm: Duration::from_secs(4),
            ping: Duration::from_secs(1),
            request_timeout: Duration::from_secs(3),
            long_request_timeout: Duration::from_secs(30),
            retry: Duration::from_millis(50),
            hold: Duration::from_secs(2),
            compare: Duration::from_secs(4),
            removals: Duration::from_secs(24 * 3600),
            operation_retry: Duration::from_secs(1),
            requests_max: 65_536,
            request_bytes_max: 256 << 20,
            batch_bytes: 1 << 20,
            batches_in_flight: 2,
            operations_per_node: 8,
            operations_max: 64,
        }
    }
}
