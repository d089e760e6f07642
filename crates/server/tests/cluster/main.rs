//! Clusters of processes, with a real etcd. Skipped if etcd is not installed.

#[path = "../../../trust/tests/support/mod.rs"]
mod certificates;
mod clients;
mod damage;
mod elastic_types;
mod erasure;
mod full_disk;
mod groups;
mod indexes;
mod keys;
mod large_group;
mod lives;
mod load;
mod logs;
mod mixed_versions;
mod moving_visits;
mod nodes;
mod placed_indexes;
mod placed_moves;
mod reindexing;
mod snapshots;
mod starting;
mod stopping;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod tls;
mod traces;
