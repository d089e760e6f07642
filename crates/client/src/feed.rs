//! Feeding: operations are read from a stream and sent, as many at a time as the node can handle.
//!
//! Operations on one document are sent one after another, in feed order; others in any order. After a
//! temporary failure (overload, a closed connection) an operation is sent again.

mod engine;
mod operations;
mod report;
mod resume;
mod throttle;

pub use engine::{FeedOptions, feed, reach};
pub use report::{FeedFailure, FeedProgress, FeedReport, FeedStop};
pub use resume::ResumeFile;
