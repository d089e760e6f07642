//! The state machines of a cluster from outside: events in, states and effects out.

mod controller;
mod reindexer;
