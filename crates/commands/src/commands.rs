//! Commands, one module for each.

pub mod cluster;
pub mod compare;
pub mod completions;
pub mod corpus;
pub mod demo;
pub mod deploy;
pub mod doctor;
pub mod document;
pub mod feed;
pub mod fields;
pub mod group;
pub mod import;
pub mod index;
pub mod query;
pub mod snapshot;
pub mod status;
pub mod token;
pub mod visit;
