//! Models that nobody uses leave memory.

use std::time::Duration;

use super::Job;
use crate::Node;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(30);

/// Lets models go that were idle for as long as the settings say.
pub(super) struct IdleModels;

impl Job for IdleModels {
    fn step(&mut self, node: &Node) -> Duration {
        node.models().unload_idle(node.settings().model_idle);
        EVERY
    }
}
