//! Feeding: operations are read from a stream and sent, as many at a time as the node takes well.
//!
//! Operations on one document are sent one after another, in the order of the feed; others in any order. What fails for a reason
//! that may pass (too much load, a broken connection) is sent again.

mod engine;
mod operations;
mod report;
mod resume;
mod throttle;

pub use engine::{Options, feed, reach};
pub use report::{Failure, Progress, Report, Stop};
pub use resume::Resume;
