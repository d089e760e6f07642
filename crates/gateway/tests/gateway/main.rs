//! The gateway from outside: one node, and several over a cluster that the test controls.
//!
//! Executables of their own: `cluster`, whose many nodes run until the process ends, and `feed` and
//! `feed_panics`, since places of streams are counted for the process.

mod all_groups;
mod dropped_types;
mod full_disk;
mod groups;
mod http2;
mod logs;
mod lost_answers;
mod placed_indexes;
mod prompt_threads;
mod reindexing;
mod slices;
mod spread;
#[path = "../support/mod.rs"]
mod support;
mod types;
