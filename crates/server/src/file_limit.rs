//! Limit of open files of the process: a server has one for each segment and each connection.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A lower limit produces a warning.
const FILES_MIN: u64 = 16_384;

/// Maximum number of files that are kept open for segments, if the system allows more than twice as many.
const SEGMENTS_MAX: u64 = 65_536;

/// Raises the limit to the maximum that the system allows without privileges. Returns the number of files for
/// segments; the rest is for connections.
pub fn raise() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let files = if raised { maximum } else { current };
    // A missing number means no limit.
    if let Some(files) = files.filter(|files| *files < FILES_MIN) {
        tracing::warn!(
            files,
            "few files can be open at a time; raise the limit (ulimit -Hn) for many buckets or connections"
        );
    }
    files.map_or(SEGMENTS_MAX, |files| (files / 2).min(SEGMENTS_MAX)) as usize
}
