//! Transition of the tail from one generation to the next.
//!
//! A spare generation is made before it is needed: when the newest one is half full, while writes go on. The
//! manifest names the spare before it takes over, so taking over is a change in memory, done by the thread
//! that has just filled a generation. Only if there is no spare yet does sealing make one first.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::Error;
use crate::context::{StoreContext, sync_generation, tail_path};
use crate::state::TailGeneration;
use crate::state::manifest::RenameDurability;

/// Makes spares, and lets them take over where that can wait.
pub(crate) struct TailRoller {
    shared: Arc<StoreContext>,
    /// Held while a spare is made.
    making: Mutex<()>,
}

/// Maximum number of generations, however small they are: each has a log and other files, and on a full disk
/// each takes only a few rows.
const GENERATIONS_MAX: usize = 8;

/// Number of logs that must fit into the free space before a log is preallocated.
const FREE_LOGS_MIN: u64 = 16;

/// Divisor of the size of a log's rows that gives the space that must be free for a new generation: one that
/// could take only a few rows would count to the maximum like any other.
const ROOM_MIN: u64 = 32;

/// Divisor of the size of a log's rows that gives its margin, for data other than rows.
const LOG_MARGIN: u64 = 8;

impl TailRoller {
    pub fn new(shared: Arc<StoreContext>) -> Self {
        TailRoller { shared, making: Mutex::default() }
    }

    /// Makes the spare when it will be needed soon.
    pub fn prepare_spare(&self) -> Result<(), Error> {
        let filled = self.shared.state().generations[0].bytes.load(Ordering::Relaxed);
        if filled >= self.shared.options.tail_bytes / 2 { self.ensure_spare() } else { Ok(()) }
    }

    /// Lets the next generation take over the writes.
    pub fn roll(&self) -> Result<(), Error> {
        self.ensure_spare()?;
        // If there is none now, it has just taken over, which is equally good.
        self.shared.roll();
        Ok(())
    }

    fn ensure_spare(&self) -> Result<(), Error> {
        let _one_at_a_time = self.making.lock();
        let shared = &self.shared;
        let state = shared.state();
        if state.spare.is_some() {
            return Ok(());
        }
        if state.generations.len() >= GENERATIONS_MAX {
            return Err(shared.health.no_space().unwrap_or(Error::Overloaded));
        }
        shared.check_space("begin a generation of the tail", shared.options.tail_bytes / ROOM_MIN)?;
        let number = shared.next_number();
        let directory = tail_path(&shared.options, number);
        let tail = shared.tails.create(&directory)?;
        // Before the manifest names it: otherwise a loss of power can leave a manifest that names missing
        // files.
        sync_generation(&shared.options, &directory)?;
        let log = shared.options.tail_bytes;
        let free = shared.options.disk.free_space(&shared.options.data_dir).unwrap_or(0);
        if free / FREE_LOGS_MIN > log {
            // Before the first write to it. Where writes fill a generation faster than this goes, they are
            // large, and their syncs hardly notice; but the full generation could not be sealed meanwhile.
            let is_wanted = || shared.state().generations[0].bytes.load(Ordering::Relaxed) >= log;
            shared.tails.lay_out(&directory, log + log / LOG_MARGIN, &is_wanted);
        }
        let spare = Arc::new(TailGeneration::new(number, directory.clone(), tail));
        let published = shared.try_publish(|state| {
            let mut state = state.clone();
            state.spare = Some(spare);
            Ok(state)
        });
        if let Err(unwritten) = &published
            && unwritten.in_place == RenameDurability::No
        {
            // No manifest names it, so nothing is lost where it stays until the next start.
            let _ = shared.tails.delete(&directory);
        }
        Ok(published?)
    }
}
