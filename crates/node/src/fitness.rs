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

/// Fullness of the disk, as of the last check.
#[derive(Debug, Default)]
pub struct DiskSpaceMonitor(Mutex<DiskFullness>);

#[derive(Debug, Default)]
struct DiskFullness {
    /// Time since which the disk is full.
    since: Option<Instant>,
    /// The log says that it is.
    is_logged: bool,
}

impl DiskSpaceMonitor {
    /// Time for which the disk has been full; zero if it is not.
    fn time_full(&self, is_full: bool) -> Duration {
        let mut disk = self.0.lock();
        match is_full {
            true => disk.since.get_or_insert_with(Instant::now).elapsed(),
            false => {
                disk.since = None;
                Duration::ZERO
            }
        }
    }

    /// Logs that the disk is full for this reason, or that it has room again, once each.
    fn log(&self, reason: Option<&UnhealthyReason>) {
        let mut disk = self.0.lock();
        match reason {
            Some(reason) if !disk.is_logged => {
                tracing::error!(
                    "{reason}; free space, or take a larger disk; a cluster retires the node until it is started again"
                );
            }
            None if disk.is_logged && disk.since.is_none() => tracing::warn!("the disk has room again"),
            _ => return,
        }
        disk.is_logged = reason.is_some();
    }
}

impl Node {
    /// Returns the reason why this node cannot take documents: permanently, or for
    /// [`Settings::space_wait`](crate::Settings::space_wait). A full disk is noticed from the first
    /// call on, and is logged.
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
        let reason =
            is_long.then_some(UnhealthyReason::OutOfSpace { seconds: full_for.as_secs(), free, reserve });
        self.space_watch().log(reason.as_ref());
        reason
    }
}
