//! Whether a node can take documents.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use millrace_store::StoreStatus;

use crate::Node;

/// A disk with less than this is full, whatever the reserve.
const SPACE_MIN: u64 = 1 << 20;

/// The reason why a node should not be counted on for documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnfitReason {
    /// A sync failed. Nothing can be promised until the process starts again and reads what the disk has.
    #[error("documents cannot be made durable: {0}; nothing is written until the server is started again")]
    CannotSync(String),
    /// The disk has had no space for a while. Reads and removals go on.
    #[error(
        "the disk has been full for {seconds} s ({free} bytes are free, {reserve} are reserved by disk-reserve): no documents are \
         written until there is room"
    )]
    OutOfSpace {
        /// For how long, in seconds.
        seconds: u64,
        /// What is free, in bytes.
        free: u64,
        /// What must be free, in bytes.
        reserve: u64,
    },
}

/// Since when the disk is full, as far as anybody has looked.
#[derive(Debug, Default)]
pub(crate) struct SpaceWatch(Mutex<Option<Instant>>);

impl SpaceWatch {
    /// How long the disk has been full; zero if it is not.
    fn look(&self, is_full: bool) -> Duration {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
    /// The reason why this node cannot take documents, if it cannot for good or has not for
    /// [`Settings::space_patience`](crate::Settings::space_patience). A full disk is noticed from the first
    /// call on.
    ///
    /// Costs a look at the store's figures.
    pub fn unfit(&self) -> Option<UnfitReason> {
        let StoreStatus { refusing, disk_free: free, .. } = self.store().status();
        if let Some(reason) = refusing {
            return Some(UnfitReason::CannotSync(reason));
        }
        let reserve = self.settings().disk_reserve;
        let full_for = self.space_watch().look(free < reserve.max(SPACE_MIN));
        let is_long = full_for > self.settings().space_patience;
        is_long.then_some(UnfitReason::OutOfSpace { seconds: full_for.as_secs(), free, reserve })
    }
}
