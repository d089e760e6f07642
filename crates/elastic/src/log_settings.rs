//! Settings of an index in `logs` mode: the bounds of its partitions, and the shards of its documents.

use std::collections::{BTreeMap, BTreeSet};

use millrace_node::Node;
use serde_json::{Map, Value};

use crate::Error;
use crate::catalog::OpenIndex;
use crate::scan_limit::duration_of;
use crate::slot_picking::ChosenSlot;
use crate::storage;

/// Setting that names the mode of an index.
pub(crate) const MODE: &str = "index.mode";

const SHARDS: &str = "index.number_of_shards";
const ROUTING_SIZE: &str = "index.number_of_routing_size";
const DOCUMENTS: &str = "index.partition.documents";
const BYTES: &str = "index.partition.bytes";
const WINDOW: &str = "index.partition.window";

/// Settings that stay as they are when the index is made.
pub(crate) const FINAL: [&str; 3] = [SHARDS, ROUTING_SIZE, MODE];

/// Documents and bytes that a partition may have: fewer than a group may have before it is divided.
const DOCUMENTS_MAX: u64 = 400_000;
const BYTES_MAX: u64 = 192 << 20;

/// Time for which a partition with these bytes is written to.
const WINDOW_MS: u64 = 3_600_000;
const WINDOW_BYTES: u64 = 1 << 20;

/// Time for which a smaller one is.
const LONG_WINDOW_MS: u64 = 24 * 3_600_000;

/// Most shards of an index that names none.
const SHARDS_BY_DEFAULT: u32 = 12;

/// Shards of an index in `logs` mode that names none: as many as there are sets of nodes, so that each bulk
/// has a choice.
pub(crate) fn default_shards(node: &Node) -> Result<u32, Error> {
    Ok((storage::spread_areas(node)?.len() as u32).min(SHARDS_BY_DEFAULT))
}

/// True if settings ask for the `logs` mode.
///
/// # Errors
/// They name a mode that there is not.
pub(crate) fn is_logs_mode(settings: &BTreeMap<String, Value>) -> Result<bool, Error> {
    match settings.get(MODE).and_then(Value::as_str) {
        // The last two are of Elasticsearch, and as the first here.
        None | Some("standard" | "time_series" | "lookup") => Ok(false),
        Some("logsdb" | "logs") => Ok(true),
        Some(other) => {
            Err(Error::IllegalArgument(format!("[{MODE}] is [{other}]; it may be [standard] or [logsdb]")))
        }
    }
}

/// Gives settings with full names the `logs` mode if they name none.
pub(crate) fn default_to_logs(settings: &mut Map<String, Value>) {
    settings.entry(MODE).or_insert_with(|| "logsdb".into());
}

/// Checks the settings of partitions and shards.
///
/// # Errors
/// A value is malformed, or the shards cannot be divided among the slots.
pub(crate) fn check(settings: &BTreeMap<String, Value>) -> Result<(), Error> {
    let of = |name: &str| settings.get(name).and_then(Value::as_str);
    is_logs_mode(settings)?;
    for (name, max) in [(DOCUMENTS, DOCUMENTS_MAX), (BYTES, BYTES_MAX), (ROUTING_SIZE, 1024)] {
        let Some(text) = of(name) else { continue };
        if !text.parse().is_ok_and(|number: u64| (1..=max).contains(&number)) {
            return Err(Error::IllegalArgument(format!(
                "Failed to parse value [{text}] for setting [{name}] must be >= 1 and <= {max}"
            )));
        }
    }
    if let Some(text) = of(WINDOW) {
        duration_of(text)?.ok_or_else(|| {
            Error::IllegalArgument(format!("setting [{WINDOW}] is [{text}]; name a time, such as 1h"))
        })?;
    }
    let slots = RoutingSlots::of(|name| of(name));
    if !slots.shards.is_multiple_of(slots.routing_size) {
        return Err(Error::IllegalArgument(format!(
            "[{SHARDS}] is [{}], and must be a multiple of [{ROUTING_SIZE}], which is [{}]",
            slots.shards, slots.routing_size
        )));
    }
    Ok(())
}

/// Bounds of the partitions of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionLimits {
    pub(crate) documents_max: u64,
    pub(crate) bytes_max: u64,
    /// Time in milliseconds for which a partition is written to, if it is set.
    window_ms: Option<u64>,
}

impl PartitionLimits {
    /// Those of an index.
    pub(crate) fn of(index: &OpenIndex) -> Self {
        let number =
            |name, otherwise| index.setting(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
        let window = index.setting(WINDOW).and_then(|text| duration_of(text).ok().flatten());
        PartitionLimits {
            documents_max: number(DOCUMENTS, DOCUMENTS_MAX),
            bytes_max: number(BYTES, BYTES_MAX),
            window_ms: window.map(|window| window.as_millis() as u64),
        }
    }

    /// Time in milliseconds for which a partition with `bytes` is written to.
    pub(crate) fn window_ms(&self, bytes: u64) -> u64 {
        self.window_ms.unwrap_or(if bytes >= WINDOW_BYTES { WINDOW_MS } else { LONG_WINDOW_MS })
    }
}

/// Shards of an index, in slots: a routing value has one shard in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoutingSlots {
    shards: u32,
    /// Shards of a slot.
    routing_size: u32,
}

impl RoutingSlots {
    fn of<'s>(setting: impl Fn(&str) -> Option<&'s str>) -> Self {
        let number = |name| setting(name).and_then(|text| text.parse().ok()).unwrap_or(1).max(1);
        RoutingSlots { shards: number(SHARDS), routing_size: number(ROUTING_SIZE) }
    }

    /// Those of an index.
    pub(crate) fn of_index(index: &OpenIndex) -> Self {
        RoutingSlots::of(|name| index.setting(name))
    }

    /// Number of slots.
    pub(crate) fn slots(self) -> u32 {
        (self.shards / self.routing_size).max(1)
    }

    /// Slot of a shard.
    pub(crate) fn slot_of(self, shard: u32) -> u32 {
        shard / self.routing_size
    }

    /// Shards of a slot.
    pub(crate) fn shards_of(self, slot: u32) -> std::ops::Range<u32> {
        self.routing_size * slot..self.routing_size * (slot + 1)
    }

    /// Shard of a document, in the slot of its request. A document with an id of its client has the same one
    /// for good, so that a request that is repeated finds it there.
    pub(crate) fn shard(self, chosen: ChosenSlot, routing: Option<&str>, id: Option<&str>) -> u32 {
        let ChosenSlot { slot, drawn } = chosen;
        let turn = drawn / u64::from(self.slots()) % u64::from(self.routing_size);
        match (routing, id) {
            (Some(routing), Some(id)) => {
                self.within(routing) + self.routing_size * self.slot_of(self.of_id(id))
            }
            (Some(routing), None) => self.within(routing) + self.routing_size * slot,
            (None, Some(id)) => self.of_id(id),
            (None, None) => turn as u32 + self.routing_size * slot,
        }
    }

    /// True if a document can go to another slot than the one that was chosen.
    pub(crate) fn can_move(id: Option<&str>) -> bool {
        id.is_none()
    }

    fn within(self, routing: &str) -> u32 {
        (digest(routing) % u64::from(self.routing_size)) as u32
    }

    fn of_id(self, id: &str) -> u32 {
        (digest(id) % u64::from(self.shards)) as u32
    }

    /// Shards that may have documents of routing values.
    pub(crate) fn of_routing<'r>(self, routing: impl IntoIterator<Item = &'r str>) -> ShardSet {
        let each =
            |routing| (0..self.slots()).map(move |slot| self.within(routing) + self.routing_size * slot);
        ShardSet(Some(routing.into_iter().flat_map(each).collect()))
    }

    /// Shards that may have a document with an id of its client.
    pub(crate) fn of_document(self, id: &str, routing: Option<&str>) -> ShardSet {
        match routing {
            Some(routing) => self.of_routing([routing]),
            None => ShardSet(Some([self.of_id(id)].into())),
        }
    }
}

/// Some of the shards of an index, or all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShardSet(Option<BTreeSet<u32>>);

impl ShardSet {
    /// True if a shard is in it.
    pub(crate) fn has(&self, shard: u32) -> bool {
        self.0.as_ref().is_none_or(|shards| shards.contains(&shard))
    }
}

/// Digest of a text. It decides where documents are, and never changes.
fn digest(text: &str) -> u64 {
    let sum = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    // The low bits of the sum are those of the bytes; the high ones depend on all.
    (sum ^ sum >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_with_a_routing_value_have_one_shard_in_each_slot() {
        let slots = RoutingSlots { shards: 12, routing_size: 3 };
        let mut used = BTreeSet::new();
        for value in ["ann", "bob", "eve", "tim", ""] {
            let set = slots.of_routing([value]);
            let own: Vec<u32> = (0..12).filter(|shard| set.has(*shard)).collect();
            assert_eq!(own, [0, 1, 2, 3].map(|slot| own[0] + 3 * slot), "{value}");
            for drawn in 0..40 {
                let chosen = ChosenSlot { slot: (drawn % 4) as u32, drawn };
                let shard = slots.shard(chosen, Some(value), None);
                assert_eq!(slots.slot_of(shard), chosen.slot);
                assert_eq!(u64::from(shard / 3), drawn % 4, "all of a request are in one slot");
                assert!(set.has(shard), "{value}: {shard}");
            }
            used.insert(own[0]);
        }
        assert!(used.len() > 1, "routing values differ in their shards");
    }

    #[test]
    fn documents_without_a_routing_value_are_spread() {
        let slots = RoutingSlots { shards: 6, routing_size: 2 };
        let chosen = |drawn: u64| ChosenSlot { slot: (drawn % 3) as u32, drawn };
        let used: BTreeSet<u32> = (0..6).map(|drawn| slots.shard(chosen(drawn), None, None)).collect();
        assert_eq!(used, (0..6).collect(), "each shard has its turn");
        assert_eq!(slots.shards_of(2), 4..6);
    }

    #[test]
    fn a_document_with_an_id_has_one_shard_for_good() {
        let slots = RoutingSlots { shards: 6, routing_size: 2 };
        let chosen = |drawn: u64| ChosenSlot { slot: (drawn % 3) as u32, drawn };
        let mut used = BTreeSet::new();
        for routing in [None, Some("ann"), Some("bob")] {
            for id in (0..40).map(|number| format!("id-{number}")) {
                let shard = slots.shard(chosen(0), routing, Some(&id));
                let again = (1..9).map(|drawn| slots.shard(chosen(drawn), routing, Some(&id)));
                assert!(again.into_iter().all(|other| other == shard), "{id} {routing:?}");
                assert!(slots.of_document(&id, routing).has(shard), "{id} {routing:?}");
                used.insert(shard);
            }
        }
        assert_eq!(used, (0..6).collect(), "ids are spread");
    }

    #[test]
    fn wrong_settings_are_refused() {
        for (name, value, expected) in [
            (MODE, "frozen", "[index.mode] is [frozen]; it may be [standard] or [logsdb]"),
            (
                DOCUMENTS,
                "0",
                "Failed to parse value [0] for setting [index.partition.documents] must be >= 1 and <= 400000",
            ),
            (
                BYTES,
                "x",
                "Failed to parse value [x] for setting [index.partition.bytes] must be >= 1 and <= 201326592",
            ),
            (WINDOW, "-1", "setting [index.partition.window] is [-1]; name a time, such as 1h"),
            (
                ROUTING_SIZE,
                "2",
                "[index.number_of_shards] is [1], and must be a multiple of [index.number_of_routing_size], which is [2]",
            ),
        ] {
            let settings = BTreeMap::from([(name.to_owned(), value.into())]);
            assert_eq!(check(&settings).expect_err(name).to_string(), expected);
        }
        assert!(check(&BTreeMap::from([(MODE.to_owned(), "logs".into())])).is_ok());
    }
}
