//! Feeding: operations are read from a stream and sent, as fast as the node can handle them.
//!
//! A node that serves `/feed/v1` gets one stream (`stream`; `table` for the rows of a table), others, such as
//! a Vespa container, a request for each operation (`engine`), as many at a time as they can handle.
//! Operations on one document are executed in feed order; others in any order. After a temporary failure
//! (overload, a closed connection) an operation is sent again.

mod engine;
mod operations;
mod report;
mod resume;
mod stream;
mod table;
mod throttle;

pub use engine::{FeedOptions, check_start, feed, reach};
pub use report::{FeedFailure, FeedProgress, FeedReport, FeedStop};
pub use resume::ResumeFile;
pub use table::{TableInput, TablePart, feed_table};
