//! Lives of a simulated cluster from outside: seeds in, findings out.

mod disjoint_replicas;
mod indexes;
mod joining;
mod logs;
mod majority;
mod reindexing_under_faults;
mod sabotage;
mod seeds;
