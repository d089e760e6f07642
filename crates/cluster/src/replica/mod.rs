//! The rules by which a node keeps its replicas: what it does with what the owners of buckets ask, and what it refuses.
//!
//! - Requests by an older cluster state are refused; with a newer one, the state is fetched first. So once a node has answered the new
//!   owner of a bucket, no row of the owner before is taken any more.
//! - Only the owner of a bucket may ask anything of its replica, and only while the node takes part in the state: in this run of the
//!   process, and not named down.
//! - A question about contents waits until what was taken on before is done, so that the answer leaves nothing out that may still appear.
//! - A row for a bucket without a replica is taken only where it says how the replica begins. A replica is deleted only while it is what
//!   the owner takes it for.
//!
//! [`Keeper`] is a state machine: events in, effects out. The shell gives it requests and states, runs the [`Work`] that it asks for on
//! threads ([`Work::run`] over a [`Storage`]), fetches what other replicas have, and sends its replies.

mod keeper;
mod storage;
mod work;

pub use keeper::{Call, Effect, Event, Fetched, Job, Keeper};
pub use storage::Storage;
pub use work::Work;
