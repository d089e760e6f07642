//! Keeping of the counts of the uses of fields.

use std::time::Duration;

use super::BackgroundJob;
use crate::Node;

/// Interval at which changed counts are written.
const EVERY: Duration = Duration::from_secs(60);

/// Writes the counts of the uses of fields to the disk.
pub(super) struct FieldUseKeeping;

impl BackgroundJob for FieldUseKeeping {
    fn step(&mut self, node: &Node) -> Duration {
        node.field_uses().keep();
        EVERY
    }
}
