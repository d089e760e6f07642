//! Unloading of unused models from memory, and removal of their files from the disk.

use std::time::Duration;

use super::BackgroundJob;
use crate::Node;

/// Interval of the checks.
const EVERY: Duration = Duration::from_secs(30);

/// Time after which a file that no model uses is removed: a deployment that failed may be tried again soon.
const UNUSED_FILE_AGE: Duration = Duration::from_secs(3600);

/// Unloads models that were idle for the time in the settings.
pub(super) struct IdleModels;

impl BackgroundJob for IdleModels {
    fn step(&mut self, node: &Node) -> Duration {
        node.models().unload_idle(node.settings().model_idle);
        node.models().remove_unused(UNUSED_FILE_AGE);
        EVERY
    }
}
