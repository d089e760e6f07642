//! The store from outside: every write can be read, even after seals, merges, splits, drops, kills and damage
//! in between.

mod apart;
mod arrival;
mod batches;
mod by_id;
mod column_preparer;
mod common;
mod counts;
mod crash;
mod damage;
mod division;
mod erasure;
mod faults;
mod following;
mod forgotten;
mod formats;
mod groups;
mod isolation;
mod late;
mod lookups;
mod model;
mod points;
mod power;
mod replica;
mod rewrites;
mod row_cache;
mod schemas;
mod slices;
mod snapshots;
mod space;
mod syncs;
mod threads;
mod transfer;
mod versions;
mod visited_rows;
mod writes;
