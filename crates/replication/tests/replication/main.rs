//! The state machines of replication from outside: events in, effects out.

mod batches;
mod distributor;
mod keeper;
mod states;
