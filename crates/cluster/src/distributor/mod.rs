//! The owner's side of buckets: orders the writes of a document, brings each to all replicas, knows where
//! replicas are, and has them made, filled, compared and deleted until every bucket is where it should be.
//!
//! [`Distributor`] is a state machine without I/O, threads or a clock. A shell drives it so:
//!
//! ```
//! # use std::collections::VecDeque;
//! # use std::time::Duration;
//! use millrace_cluster::distributor::{Distributor, Effect, Event, Settings};
//! use millrace_cluster::{NodeKey, Now};
//!
//! # fn now() -> Now { Now { monotonic: Duration::ZERO, wall_us: 0 } }
//! # fn drain(_: Option<Duration>) -> Vec<Event> { Vec::new() }
//! let incarnation = 1; // as this run of the process is registered with coordination
//! let mut distributor = Distributor::new(NodeKey(0), incarnation, Settings::default());
//! let mut effects = Vec::new();
//! # for _ in 0..2 {
//! // One task, for ever: wait until something happens or it is time, hand over all that has gathered in one turn.
//! let events = drain(distributor.next_wake());
//! distributor.handle(now(), events, &mut effects);
//! for effect in effects.drain(..) {
//!     match effect {
//!         // Over the network, or to the keeper of this node where `to` is this node. The reply, or that none will come,
//!         // comes back as Event::Reply or Event::Lost.
//!         Effect::Send { to, fence, request } => {}
//!         // To the client. RequestError::Moved is not for it: send the operation to the owner that is named, `unfinished` first.
//!         Effect::Written { ticket, outcome } => {}
//!         Effect::Found { ticket, outcome } => {}
//!         // On a pool of threads; comes back as Event::Decided.
//!         Effect::Decide { decision, modify, current } => {}
//!         // From coordination; comes back as Event::State.
//!         Effect::FetchState { newer_than } => {}
//!     }
//! }
//! # }
//! ```
//!
//! Besides, the shell reports [`DistributorEvent::Confirmed`] each time coordination says that the state is
//! the newest (a watch that is alive, asked at least once a second), and gives each new state as
//! [`DistributorEvent::State`] to the distributor and to the keeper of the node. Queries ask
//! [`Distributor::route`] where to go, and [`Distributor::vouches`] after they were answered.
//!
//! # What holds
//! - A write is acknowledged when every replica on a serving node has it durable, and the state was confirmed
//!   at that moment.
//! - An owner acts only while its state is confirmed, and after every serving node has told it what it has:
//!   which also means that each of them will refuse the owner before.
//! - A read through the owner sees every acknowledged write that any serving node has.
//! - A replica is marked complete, or deleted, only at the word of an owner that has compared all replicas of
//!   the bucket while no write was on its way.

mod buckets;
mod event;
mod figures;
mod handover;
mod lanes;
mod machine;
mod operation;
mod peers;
mod reading;
mod requests;
mod settings;
mod upkeep;
mod writing;

pub use event::{
    BoxedModify, ClientRead, ClientWrite, DecidedModification, DecisionId, DistributorEffect,
    DistributorEvent, DocumentChange, DropHorizon, DurableWrite, Modify, RequestError, RequestTicket,
    UnfinishedRow,
};
pub use figures::{DistributorFigures, EndedOperations, OperationProgress, OperationView};
pub use machine::Distributor;
pub use reading::{NoRoute, ReadRoute};
pub use settings::Settings;
