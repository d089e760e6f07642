//! Writing of copies to the disk: when they have much in memory, or after some time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{CopyStage, DueFlush, NodeCopies, OpenCopy, number};

/// Bytes in memory after which a copy is written.
const FLUSH_BYTES: usize = 16 << 20;

/// Bytes in memory of all copies after which those are written that have the most.
const ALL_FLUSH_BYTES: usize = 128 << 20;

/// Bytes in memory of a copy from which nothing is taken in: it cannot be written.
const MEMORY_MAX: usize = 128 << 20;

/// The same of all copies together.
const ALL_MEMORY_MAX: usize = 512 << 20;

/// Time after which a copy is written.
const FLUSH_INTERVAL: Duration = Duration::from_secs(30);

impl NodeCopies {
    /// True if copies cannot be written, so that nothing is to be taken in.
    pub(super) fn is_full(&self) -> bool {
        let memory = self.memory();
        let largest = memory.iter().copied().max().unwrap_or(0);
        largest > MEMORY_MAX || memory.iter().sum::<usize>() > ALL_MEMORY_MAX
    }

    /// Bytes in memory of each open copy.
    fn memory(&self) -> Vec<usize> {
        let open = self.copies.values().filter_map(|copy| match &copy.stage {
            CopyStage::Open(open) => Some(open.kept.status().memory_bytes),
            _ => None,
        });
        open.collect()
    }

    /// Copies to be written now.
    pub fn due_flushes(&mut self) -> Vec<DueFlush> {
        let now = Instant::now();
        let due_from = flushed_from(&self.memory());
        self.flushes(now, |open| {
            open.kept.status().memory_bytes >= due_from
                || open.flushed.is_none_or(|last| now.saturating_duration_since(last) >= FLUSH_INTERVAL)
        })
    }

    /// All copies, to be written before the node stops.
    pub fn all_flushes(&mut self) -> Vec<DueFlush> {
        self.flushes(Instant::now(), |_| true)
    }

    fn flushes(&mut self, now: Instant, is_due: impl Fn(&OpenCopy) -> bool) -> Vec<DueFlush> {
        let mut due = Vec::new();
        for (id, copy) in &mut self.copies {
            let CopyStage::Open(open) = &mut copy.stage else { continue };
            if open.suspended.is_none() && is_due(open) {
                open.flushed = Some(now);
                let marks = self.follower.marks(number(*id));
                due.push(DueFlush { copy: *id, kept: Arc::clone(&open.kept), marks });
            }
        }
        due
    }
}

/// Bytes in memory from which a copy is written: fewer where all together have many.
fn flushed_from(memory: &[usize]) -> usize {
    let all: usize = memory.iter().sum();
    match all >= ALL_FLUSH_BYTES {
        true => FLUSH_BYTES.min(all / memory.len().max(1)),
        false => FLUSH_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL_FLUSH_BYTES, FLUSH_BYTES, flushed_from};

    #[test]
    fn many_small_copies_are_written_before_they_fill_the_memory() {
        assert_eq!(flushed_from(&[]), FLUSH_BYTES);
        assert_eq!(flushed_from(&[1, FLUSH_BYTES - 1]), FLUSH_BYTES);
        let mean = ALL_FLUSH_BYTES / 100;
        let mut many = vec![mean; 99];
        many.push(ALL_FLUSH_BYTES);
        assert!(
            (mean..FLUSH_BYTES).contains(&flushed_from(&many)),
            "the large one is written, and no small one"
        );
        assert_eq!(flushed_from(&[ALL_FLUSH_BYTES; 2]), FLUSH_BYTES);
    }
}
