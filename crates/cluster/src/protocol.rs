/// The newest protocol that this program speaks. A program speaks all from 1 on.
///
/// A protocol covers everything that nodes read from each other: requests and replies, transfers and the
/// files and rows in them, forwarded requests, and the contents of coordination. Each node registers with its
/// number ([`NodeRegistration::protocol`](crate::controller::NodeRegistration::protocol)); the cluster state
/// has the number that is spoken ([`ClusterState::protocol`](crate::ClusterState::protocol)): the lowest of
/// all nodes', but never lower than before.
///
/// So a node never receives a request that it does not know: requests follow a state that names the node, and
/// the same state names the protocol. Additions of a later protocol are sent and written only if the state
/// has that number or a higher one. A program refuses to read a state of a protocol that it does not speak,
/// and so takes no part in it. Kept bytes of each protocol (`tests/protocol-N.txt` of the crates that write
/// them) show that programs still write and read it.
pub const PROTOCOL: u16 = 4;

/// The first protocol in which segments can have compressed columns.
pub const COMPRESSED_SEGMENTS: u16 = 2;

/// The first protocol in which everything that nodes say to each other is serialized by `serde`, and in
/// which a connection names the run of the process that it is for.
pub const SERIALIZED_MESSAGES: u16 = 2;

/// The first protocol in which nodes write and read documents for each other, so that the partitions of logs
/// can have any owner.
pub const SPREAD_PARTITIONS: u16 = 3;

/// The first protocol in which nodes change documents for each other, on condition of what is stored.
pub const CONDITIONAL_CHANGES: u16 = 3;

/// The first protocol in which nodes read documents of all groups for each other, of many buckets at a time.
pub const BUCKET_PAGES: u16 = 3;

/// The first protocol in which nodes say to each other which group ids leave out.
pub const SHORT_IDS: u16 = 3;

/// The first protocol in which nodes read limits of stored documents and bytes in the keys that they share.
pub const STORED_LIMITS: u16 = 3;

/// The first protocol in which segments can have filters of the ids.
pub const FILTERED_SEGMENTS: u16 = 4;

/// The first protocol in which nodes keep placed copies of indexes for each other.
pub const PLACED_INDEXES: u16 = 4;

/// Protocol of a node that reports none.
pub(crate) fn first() -> u16 {
    1
}
