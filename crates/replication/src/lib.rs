//! Replication of buckets: both sides of the requests between the owner of a bucket and the nodes that have
//! its replicas.
//!
//! A [`distributor::Distributor`] is the owner's side: it orders writes, sends each to all replicas, and has
//! replicas created, filled and deleted as the [`checkers`] propose and the [`scheduler`] decides. A
//! [`replica::ReplicaKeeper`] is the other side: the rules by which a node executes, or refuses, owners'
//! requests. The messages between the two, and the cluster state that both act by, are those of
//! [`millrace_cluster`].
//!
//! Everything here is values and functions of them: no I/O, no threads, no clock. Outgoing and incoming
//! messages are values, and the time is an argument. So the same code runs in a node and in a simulation.

pub mod checkers;
mod clock;
mod confirmation;
pub mod distributor;
mod owners;
pub mod replica;
pub mod scheduler;
#[cfg(test)]
mod test_state;
