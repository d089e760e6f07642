/// The newest protocol that this program speaks. A program speaks all from 1 on.
///
/// A protocol is everything that nodes read of each other: requests and replies, transfers and the files and rows in them, requests that are handed
/// on, and what coordination holds. Each node registers with its number ([`Registration::protocol`](crate::controller::Registration::protocol));
/// the cluster state has the number that is spoken ([`ClusterState::protocol`](crate::ClusterState::protocol)): the lowest of all nodes', and none
/// that is lower than it was.
///
/// So nobody is asked what it does not know: a node is asked by a state that names it, and the same state says by which protocol. What a later protocol
/// brings is sent, and written, where the state says that number or a higher one. A program refuses to read a state of a protocol that it does not
/// speak, and so takes no part in it. Kept bytes of each protocol (`tests/protocol-N.txt` of the crates that write them) show that programs go on
/// writing and reading it.
pub const PROTOCOL: u16 = 1;

/// The protocol of whoever says none.
pub(crate) fn first() -> u16 {
    1
}
