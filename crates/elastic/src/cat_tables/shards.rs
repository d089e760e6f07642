//! Tables of shards, and of the disks of nodes.

use millrace_store::StoreStatus;

use super::CatTable;
use crate::Error;
use crate::cluster_admin::documents_of;
use crate::cluster_health::KnownNodes;
use crate::index_admin::shards_of;
use crate::names::{self, NameOptions};
use crate::request::ElasticParameters;
use crate::service::ElasticService;
use crate::storage;

/// Units of sizes by their short names, each 1,024 times the one before.
const UNITS: [&str; 6] = ["b", "kb", "mb", "gb", "tb", "pb"];

/// Shards of indexes. The documents of one are known where the index has no other, and its node where there
/// is one alone.
pub(super) fn cat_shards(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<CatTable, Error> {
    let options = NameOptions { forbid_closed: false, closed: true, ..NameOptions::LENIENT };
    let indexes = names::resolve(&*service.catalog.read()?, expression, options.with(parameters)?)?;
    let nodes = KnownNodes::of(service, "").rows();
    let (ip, node) = match nodes.as_slice() {
        [only] => (only[0].clone(), only[3].clone()),
        _ => (String::new(), String::new()),
    };
    let mut rows = Vec::new();
    for index in indexes {
        let shards = shards_of(&index);
        let is_counted = shards == 1 && !index.entry.is_closed && index.typed.is_none();
        let documents = if is_counted { documents_of(service, &index)?.to_string() } else { String::new() };
        for shard in 0..shards {
            rows.push(vec![
                index.entry.name.clone(),
                shard.to_string(),
                "p".to_owned(),
                "STARTED".to_owned(),
                documents.clone(),
                String::new(),
                ip.clone(),
                node.clone(),
            ]);
        }
    }
    let columns = &["index", "shard", "prirep", "state", "docs", "store", "ip", "node"];
    Ok(CatTable { columns, rows })
}

/// Disks of the nodes. A node knows its own one, and the shards where there is no other node.
pub(super) fn cat_allocation(
    service: &ElasticService,
    parameters: &ElasticParameters,
) -> Result<CatTable, Error> {
    let unit = match parameters.get("bytes") {
        None => None,
        Some(named) => Some(unit_of(named)?),
    };
    let options = NameOptions { forbid_closed: false, closed: true, hidden: true, ..NameOptions::LENIENT };
    let indexes = names::resolve(&*service.catalog.read()?, "", options)?;
    let shards: u64 = indexes.iter().map(shards_of).sum();
    let known = KnownNodes::of(service, "");
    let status = storage::store_status(&service.node);
    let nodes = known.rows();
    let row = |(row, is_own): (&Vec<String>, bool)| {
        let shards = if nodes.len() == 1 { shards.to_string() } else { String::new() };
        let [indices, used, free, total, percent] = match is_own {
            true => disk_of(&status, unit),
            false => [const { String::new() }; 5],
        };
        vec![shards, indices, used, free, total, percent, row[0].clone(), row[0].clone(), row[3].clone()]
    };
    let rows = nodes.iter().zip(known.are_own()).map(row).collect();
    let columns = &[
        "shards",
        "disk.indices",
        "disk.used",
        "disk.avail",
        "disk.total",
        "disk.percent",
        "host",
        "ip",
        "node",
    ];
    Ok(CatTable { columns, rows })
}

/// Bytes of the store, used ones, free ones and all of its disk, and the used part in percent.
fn disk_of(status: &StoreStatus, unit: Option<usize>) -> [String; 5] {
    let StoreStatus { disk_free, disk_total, .. } = *status;
    let used = disk_total.saturating_sub(disk_free);
    let percent = (used as f64 * 100.0 / disk_total.max(1) as f64).floor();
    let bytes = |bytes: u64| shown_bytes(bytes, unit);
    let own = status.segment_bytes + status.tail_bytes;
    [bytes(own), bytes(used), bytes(disk_free), bytes(disk_total), percent.to_string()]
}

/// Number of a unit of sizes.
///
/// # Errors
/// There is no such unit.
fn unit_of(name: &str) -> Result<usize, Error> {
    let found = UNITS.iter().position(|unit| *unit == name || unit.len() == 2 && unit[..1] == *name);
    found.ok_or_else(|| {
        Error::IllegalArgument(format!("[bytes] is [{name}]; there are the units [{}]", UNITS.join(", ")))
    })
}

/// A size in a unit, as a number; without one, in that which makes it short.
fn shown_bytes(bytes: u64, unit: Option<usize>) -> String {
    if let Some(unit) = unit {
        return (bytes >> (10 * unit)).to_string();
    }
    let unit = (bytes.max(1).ilog2() as usize / 10).min(UNITS.len() - 1);
    let tenths = (u128::from(bytes) * 10) >> (10 * unit);
    match tenths % 10 {
        0 => format!("{}{}", tenths / 10, UNITS[unit]),
        rest => format!("{}.{rest}{}", tenths / 10, UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short_or_in_a_unit() {
        for (bytes, unit, expected) in [
            (0, None, "0b"),
            (1_023, None, "1023b"),
            (1_024, None, "1kb"),
            (1_536, None, "1.5kb"),
            (5 << 30, None, "5gb"),
            (u64::MAX, None, "16383.9pb"),
            (1_536, Some("b"), "1536"),
            (1_536, Some("k"), "1"),
            (5 << 30, Some("mb"), "5120"),
        ] {
            let unit = unit.map(|name| unit_of(name).expect("a unit"));
            assert_eq!(shown_bytes(bytes, unit), expected, "{bytes} {unit:?}");
        }
        assert!(unit_of("eb").is_err());
    }
}
