//! Nodes of a cluster in one process, over the embedded coordination and over a real etcd.

#[path = "../../../coordination/tests/coordination/etcd_process.rs"]
#[allow(dead_code, reason = "it is shared with tests that use other parts of it")]
mod etcd_process;

mod absence;
mod nodes;
mod outage;
mod packages;
mod panics;
mod placement;
mod protocol;
mod rest;
mod support;
