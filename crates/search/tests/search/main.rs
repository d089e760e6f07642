//! Searches from outside: plans over views of documents, to hits, summaries and groups.

mod costs;
mod field_uses;
mod memory;
mod passages;
mod protocol;
mod reference;
mod search;
mod sorted_ranking;
mod sorting;
mod summaries;
