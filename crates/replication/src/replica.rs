//! Rules by which a node keeps its replicas: actions on requests of bucket owners, and reasons to refuse
//! them.
//!
//! - Requests by an older cluster state are refused; with a newer one, the state is fetched first. So once a
//!   node has answered the new owner of a bucket, it accepts no more rows of the previous owner.
//! - Only the owner of a bucket may send requests for its replica, and only while the node takes part in the
//!   state: in this run of the process, and not marked down.
//! - A question about contents waits until all rows accepted before are done, so that the answer omits
//!   nothing that may still appear.
//! - A row for a bucket without a replica is accepted only if it gives the initial state of the replica. A
//!   replica is deleted only while its contents are as the owner expects.
//! - While coordination is silent, nodes confirm their state to each other. Such a vote is a promise not to
//!   answer a new owner before it has lapsed.
//!
//! [`ReplicaKeeper`] is a state machine: events in, effects out. The shell passes in requests and states,
//! runs the requested [`StorageWork`] on threads ([`StorageWork::run`] over a [`ReplicaStorage`]), fetches
//! the contents of other replicas, and sends the replies.

mod keeper;
mod storage;
mod votes;
mod work;

pub use keeper::{FetchOutcome, KeeperCall, KeeperEffect, KeeperEvent, KeeperJob, ReplicaKeeper};
pub use storage::ReplicaStorage;
pub use work::StorageWork;
