//! The owner's side of buckets: orders the writes of a document, brings each to all replicas, knows where
//! replicas are, and has them made, filled, compared and deleted until every bucket is where it should be.
//!
//! [`Distributor`] is a state machine without I/O, threads or a clock. A shell drives it so:
//!
//! ```
//! # use std::collections::VecDeque;
//! # use std::time::Duration;
//! use millrace_replication::distributor::{Distributor, DistributorEffect, DistributorEvent, Settings};
//! use millrace_cluster::{Incarnation, MachineTime, NodeKey};
//!
//! # fn now() -> MachineTime { MachineTime { monotonic: Duration::ZERO, wall_us: 0 } }
//! # fn drain(_: Option<Duration>) -> Vec<DistributorEvent> { Vec::new() }
//! let incarnation = Incarnation::new(1); // as registered with coordination for this run of the process
//! let mut distributor = Distributor::new(NodeKey(0), incarnation, Settings::default());
//! let mut effects = Vec::new();
//! # for _ in 0..2 {
//! // One endless task: wait for events or the wake time, and pass all collected events in one turn.
//! let events = drain(distributor.next_wake());
//! distributor.handle(now(), events, &mut effects);
//! for effect in effects.drain(..) {
//!     match effect {
//!         // Over the network, or to the keeper of this node if `to` is this node. The reply, or its loss,
//!         // is reported as DistributorEvent::Reply or DistributorEvent::Lost.
//!         DistributorEffect::Send { to, fence, request } => {}
//!         // To the client, except RequestError::Moved: send the operation to the owner in it, `unfinished`
//!         // first.
//!         DistributorEffect::Written { ticket, outcome } => {}
//!         DistributorEffect::Found { ticket, outcome } => {}
//!         // On a pool of threads; reported as DistributorEvent::Decided.
//!         DistributorEffect::Decide { decision, modify, current } => {}
//!         // From coordination; reported as DistributorEvent::State.
//!         DistributorEffect::FetchState { newer_than } => {}
//!     }
//! }
//! # }
//! ```
//!
//! Besides, the shell reports [`DistributorEvent::Confirmed`] each time coordination says that the state is
//! the newest (a watch that is alive, asked at least once a second), and gives each new state as
//! [`DistributorEvent::State`] to the distributor and to the keeper of the node. Queries ask
//! [`Distributor::route`] where to go, and [`Distributor::confirms`] after they were answered.
//!
//! # What holds
//! - A write is acknowledged when every replica on a serving node has it durable, and the state was confirmed
//!   at that moment.
//! - An owner acts only while its state is confirmed, and after every serving node has reported its replicas.
//!   The report also implies that the node will refuse the previous owner.
//! - A read through the owner sees every acknowledged write that any serving node has.
//! - A replica is marked complete, or deleted, only at the word of an owner that has compared all replicas of
//!   the bucket while no write was on its way.

mod batches;
mod buckets;
mod claims;
mod event;
mod handover;
mod lanes;
mod machine;
mod metrics;
mod operation;
mod peers;
mod reading;
mod requests;
mod settings;
mod upkeep;
mod writing;

pub use event::{
    BoxedModify, ClientRead, ClientWrite, DecidedModification, DecisionId, DistributorEffect,
    DistributorEvent, DocumentChange, DurableWrite, Modify, RequestError, RequestTicket,
};
pub use machine::Distributor;
pub use metrics::{DistributorMetrics, EndedOperations, OperationProgress, OperationView};
pub use reading::{NoRoute, ReadRoute};
pub use settings::Settings;
