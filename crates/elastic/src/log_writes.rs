//! Writes in `logs` mode on their way to a partition.

use std::collections::HashMap;

use crate::Error;
use crate::door::ElasticDoor;
use crate::partitions::{self, PartitionHold, PartitionLoad, TimeSpan};
use crate::placing::PlacedWrite;

/// Place of a document in `logs` mode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogPlace {
    pub(crate) shard: u32,
    /// Times of the document.
    pub(crate) times: Option<TimeSpan>,
}

/// Partitions of writes that are done together, one for each shard.
pub(crate) struct PartitionHolds(HashMap<(u32, u32), Result<PartitionHold, Error>>);

impl PartitionHolds {
    /// Finds the partitions of writes, and has their drop wait.
    pub(crate) fn begin(door: &ElasticDoor, placed: &[PlacedWrite]) -> Self {
        let mut loads: HashMap<(u32, u32), (&PlacedWrite, PartitionLoad)> = HashMap::new();
        for placed in placed {
            let Some(place) = placed.log else { continue };
            let load =
                PartitionLoad { documents: 1, bytes: placed.write.source.len() as u64, times: place.times };
            let known = loads.entry((placed.index.entry.number, place.shard));
            known.and_modify(|(_, sum)| *sum = sum.with(load)).or_insert((placed, load));
        }
        let begun = |((number, shard), (placed, load)): (_, (&PlacedWrite, _))| {
            ((number, shard), partitions::begin_write(door, &placed.index, shard, load))
        };
        PartitionHolds(loads.into_iter().map(begun).collect())
    }

    /// Partition of a write; `None` if its index has none.
    ///
    /// # Errors
    /// The partition could not be found or made.
    pub(crate) fn of(&self, placed: &PlacedWrite) -> Result<Option<&PartitionHold>, Error> {
        let Some(place) = placed.log else { return Ok(None) };
        let found = self.0.get(&(placed.index.entry.number, place.shard));
        match found.expect("each shard of the writes has a partition") {
            Ok(hold) => Ok(Some(hold)),
            Err(error) => Err(error.clone()),
        }
    }
}
