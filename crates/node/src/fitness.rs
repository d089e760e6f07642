//! Fitness of a node to take documents.

use std::time::{Duration, Instant};

use millrace_store::StoreStatus;
use parking_lot::Mutex;

use crate::Node;

/// Minimum free space of a disk in bytes; with less it is full, regardless of the reserve.
const SPACE_MIN: u64 = 1 << 20;

/// The reason why a node should not be counted on for documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnhealthyReason {
    /// A sync failed. No write can be promised until the process starts again and reads the state of the
    /// disk.
    #[error("documents cannot be made durable: {0}; nothing is written until the server is started again")]
    CannotSync(String),
    /// The disk has had no space for a while. Reads and removals go on.
    #[error(
        "the disk has been full for {seconds} s ({free} bytes are free, {reserve} are reserved by disk-reserve): no documents are \
         written until there is room"
    )]
    OutOfSpace {
        /// Time without space, in seconds.
        seconds: u64,
        /// Free space, in bytes.
        free: u64,
        /// Required free space, in bytes.
        reserve: u64,
    },
}

/// Time since which the disk is full, as of the last check.
#[derive(Debug, Default)]
pub struct DiskSpaceMonitor(Mutex<Option<Instant>>);

impl DiskSpaceMonitor {
    /// Time for which the disk has been full; zero if it is not.
    fn time_full(&self, is_full: bool) -> Duration {
        let mut since = self.0.lock();
        match is_full {
            true => since.get_or_insert_with(Instant::now).elapsed(),
            false => {
                *since = None;
                Duration::ZERO
            }
        }
    }
}

impl Node {
    /// Returns the reason why this node cannot take documents: permanently, or for
    /// [`Settings::space_wait`](crate::Settings::space_wait). A full disk is noticed from the first
    /// call on.
    ///
    /// Reads the store's figures.
    pub fn unfit(&self) -> Option<UnhealthyReason> {
        let StoreStatus { refusing, disk_free: free, .. } = self.store().status();
        if let Some(reason) = refusing {
            return Some(UnhealthyReason::CannotSync(reason));
        }
        let reserve = self.settings().disk_reserve;
        let full_for = self.space_watch().time_full(free < reserve.max(SPACE_MIN));
        let is_long = full_for > self.settings().space_wait;
        is_long.then_some(UnhealthyReason::OutOfSpace { seconds: full_for.as_secs(), free, reserve })
    }
}
