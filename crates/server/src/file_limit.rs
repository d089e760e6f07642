//! How many files the process may have open: a server has one for each segment and each connection.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Fewer are worth a warning.
const FILES_MIN: u64 = 16_384;

/// So many files at most are kept open for segments, where the system allows more than twice as many.
const SEGMENTS_MAX: u64 = 65_536;

/// Raises the limit to the most that the system allows without asking anyone. Answers how many files may be segments; the others
/// are connections.
pub fn raise() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let files = if raised { maximum } else { current };
    // No number stands for no limit.
    if let Some(files) = files.filter(|files| *files < FILES_MIN) {
        tracing::warn!(
            files,
            "few files can be open at a time; raise the limit (ulimit -Hn) for many buckets or connections"
        );
    }
    files.map_or(SEGMENTS_MAX, |files| (files / 2).min(SEGMENTS_MAX)) as usize
}
