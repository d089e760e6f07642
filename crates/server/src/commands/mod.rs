//! One module a command.

pub mod completions;
pub mod deploy;
pub mod doctor;
pub mod document;
pub mod feed;
pub mod query;
pub mod serve;
pub mod status;
pub mod visit;
