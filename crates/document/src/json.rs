//! Operations and documents as JSON, in Vespa's document JSON format.
//!
//! - [`parse`] reads the body of one operation, directly into typed values;
//! - [`FeedReader`] splits a feed (a list or lines of operations) into single operations;
//! - [`read_value`] reads a single value out of other JSON;
//! - [`fields`], [`value`] and [`key`] write documents, values, and the keys of maps.

mod failure;
mod feed;
mod feed_position;
mod nesting;
mod operation;
mod read;
mod update;
mod write;

pub use feed::{FeedOperation, FeedReader};
pub use feed_position::{FeedPosition, split_position};
pub use operation::{ParseOptions, parse};
pub use read::read_value;
pub use write::{FieldsJson, ValueJson, fields, key, value};
