//! Announcements of the blocks of a pass to the disk, so that it fetches them while others are looked at.

use std::sync::Arc;

use crate::Error;
use crate::block::RunBytes;
use crate::run::{BlockCaching, IndexRun, RunSection};

/// Maximum number of blocks that are announced before one of them is read.
const MOST_AHEAD: usize = 64;

/// Number of blocks of one announcement. The disk gives all of one together, and the first ones are looked at
/// while the next ones come.
const TOGETHER: usize = 8;

/// Blocks of a pass over a section of a run that are announced to the disk.
pub(crate) struct BlocksAhead<'a> {
    run: &'a IndexRun,
    section: RunSection,
    /// Key before which the pass ends, if it is known.
    until: Option<&'a [u8]>,
    /// Number of records that the pass takes, about.
    wanted: usize,
    /// Number of the block after the last one that was announced.
    announced: usize,
    /// Number of blocks that were announced last. Passes often end before their range does, so it grows with
    /// what was read.
    number: usize,
    /// Number of announced blocks that are not read yet at which the next ones are announced. The disk is at
    /// work on these while those that are there are looked at, also where the pass goes on as another one.
    early: usize,
}

impl<'a> BlocksAhead<'a> {
    /// Begins a pass at a block, which takes about `wanted` records, and ends before `until` if that is
    /// known.
    pub fn new(
        run: &'a IndexRun,
        section: RunSection,
        first: usize,
        until: Option<&'a [u8]>,
        wanted: usize,
    ) -> Self {
        BlocksAhead { run, section, until, wanted, announced: first, number: 0, early: 0 }
    }

    /// Announces blocks that were not, from a number on: at first as many as the pass should need.
    pub fn announce(&mut self, from: usize) {
        let parts = self.run.parts(self.section);
        let end =
            self.until.map_or(parts.len(), |until| parts.partition_point(|part| &part.first[..] < until));
        (self.number, self.early) = match self.number {
            0 => {
                let per_block = (self.run.records(self.section) / parts.len().max(1)).max(1);
                // The pass may begin at the end of a block.
                let number = self.wanted.div_ceil(per_block).saturating_add(1).min(MOST_AHEAD);
                (number, number / 2)
            }
            before => (MOST_AHEAD.min(2 * before), before),
        };
        let mut first = self.announced.max(from);
        self.announced = end.max(from + 1).min(first + self.number).max(first);
        while first < self.announced {
            let next = self.announced.min(first + TOGETHER);
            self.run.will_read(self.section, first..next);
            first = next;
        }
    }

    /// Reads a block of the pass, and announces those after it unless it is in the cache.
    pub fn read(&mut self, number: usize, caching: BlockCaching) -> Result<Arc<RunBytes>, Error> {
        if let Some(block) = self.run.cached_block(self.section, number) {
            return Ok(block);
        }
        if number + self.early >= self.announced {
            self.announce(number);
        }
        self.run.block(self.section, number, caching)
    }
}
