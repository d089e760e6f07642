//! How many files the process may have open: a server has one for each segment and each connection.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Fewer are worth a warning.
const FILES_MIN: u64 = 16_384;

/// Raises the limit to the most that the system allows without asking anyone.
pub fn raise() {
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
}
