use millrace_document::Timestamp;

/// A time up to which all rows of a group in a bucket are on its replicas, and a claim on the group. While it
/// is held, rows of clients are later, and no document of the group is rewritten.
///
/// A client that decides on a drop from the contents of a replica takes the horizon first, examines the
/// replica, and drops up to the horizon: rows that arrive meanwhile are not affected. The distributor refuses
/// the drop once the claim has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropHorizon {
    /// Time of the horizon.
    pub until: Timestamp,
    /// Identifies the claim at its distributor.
    pub claim: u64,
}
