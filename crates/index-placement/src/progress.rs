use crate::{PlacementOverview, RemainingRebalance, rebalance_left};

/// Part of a rebalance from which on the time that is left is estimated.
const ESTIMATED_FROM: f64 = 0.01;

/// Largest part that is done while moves are left.
const DONE_MAX: f64 = 0.99;

/// Progress of the running rebalance.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RebalanceProgress {
    /// Work that is left.
    pub left: RemainingRebalance,
    /// Largest number of moves that were left.
    pub moves: u64,
    /// Share that is done, from 0 to 1: of the bytes, or of the moves where sizes are not known.
    pub done: f64,
    /// Time since its beginning in seconds, by the clock of the node that led then.
    pub seconds: f64,
    /// Seconds that it should still take, at its speed so far; `None` while too little is done.
    pub seconds_left: Option<f64>,
}

impl RebalanceProgress {
    /// Progress at a time in milliseconds since 1970; `None` without a rebalance.
    pub fn of(overview: &PlacementOverview, now_ms: u64) -> Option<Self> {
        let run = overview.table.rebalance()?;
        let left = rebalance_left(&overview.table, &overview.situation());
        let Some(extent) = run.extent else {
            return Some(RebalanceProgress { left, moves: left.moves, ..RebalanceProgress::default() });
        };
        let moves = extent.moves.max(left.moves);
        let share = |left: u64, of: u64| if of == 0 { 0.0 } else { 1.0 - left.min(of) as f64 / of as f64 };
        let done = match extent.bytes {
            0 => share(left.moves, moves),
            bytes => share(left.bytes, bytes.max(left.bytes)),
        };
        // Copies that have arrived may wait for others before they are scanned.
        let done = if left.moves > 0 { done.min(DONE_MAX) } else { done };
        let seconds = now_ms.saturating_sub(extent.began_ms) as f64 / 1_000.0;
        let seconds_left = (done >= ESTIMATED_FROM).then(|| seconds * (1.0 - done) / done);
        Some(RebalanceProgress { left, moves, done, seconds, seconds_left })
    }
}
