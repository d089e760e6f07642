use std::time::Duration;

use millrace_cluster::REMOVALS_COMPARED;

/// Limits and intervals of a [`Distributor`](super::Distributor).
#[derive(Debug, Clone)]
pub struct Settings {
    /// Time for which a node may own buckets after its state was confirmed. Must be shorter than the lease of
    /// a node.
    pub confirm: Duration,
    /// Interval at which other nodes are asked whether they have the same state.
    pub ping: Duration,
    /// Timeout of a short request; afterwards it is abandoned and sent again.
    pub request_timeout: Duration,
    /// Timeout of a long request; a repeated one joins the one that runs.
    pub long_request_timeout: Duration,
    /// Delay before a refused or lost request is sent again.
    pub retry: Duration,
    /// Maximum time for which writes to a bucket wait while its replicas are compared.
    pub hold: Duration,
    /// Time after a new state during which readers of a bucket with differing replicas are informed that
    /// these may soon be equal.
    pub compare: Duration,
    /// Maximum age of removals and drops in comparisons of replicas, up to twice as much: well within the
    /// time for which every node remembers them.
    pub removals: Duration,
    /// Delay before a failed operation is retried.
    pub operation_retry: Duration,
    /// Maximum number of concurrent client operations.
    pub requests_max: usize,
    /// Maximum number of bytes that they may take.
    pub request_bytes_max: usize,
    /// Maximum number of bytes of rows in one message, plus one more row.
    pub batch_bytes: usize,
    /// Maximum number of messages with rows in flight to one node. Rows that arrive meanwhile wait, and are
    /// sent together.
    pub batches_in_flight: usize,
    /// Maximum number of concurrent operations of one node.
    pub operations_per_node: usize,
    /// Maximum number of concurrent operations.
    pub operations_max: usize,
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
            removals: REMOVALS_COMPARED,
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
