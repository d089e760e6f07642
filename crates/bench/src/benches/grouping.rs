//! Numbers of documents of a group with each value of a field: every document matches, and only the counts of
//! the largest groups are requested.
//!
//! The peer counts the same column with a hash table, chunk by chunk as it is in the store's cache, without
//! requests, hits or absent values: the table of the standard library, and one with a faster hash.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use hashbrown::DefaultHashBuilder;
use millrace_column::Column;
use millrace_document::{Document, DocumentValue};
use millrace_result::{GroupList, GroupValue, PartialResult};

use super::{Benchmark, Settings};
use crate::application;
use crate::engine::SearchEngine;
use crate::load::load;
use crate::random::BenchRandom;
use crate::{BenchReport, Error, Figure, FigureUnit, measure};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "grouping",
    about: "counts by a field over 100k documents, beside a plain hash count of the same column",
    run,
};

const SCHEMA: &str = "schema mail {
    document mail {
        field folder type string { indexing: attribute | summary }
        field sender type long { indexing: attribute | summary }
    }
}";

const DOCUMENTS: u64 = 100_000;
/// Number of different values of each field.
const FOLDERS: u64 = 40;
const SENDERS: u64 = 1_000;
/// Number of groups in the result.
const SHOWN: usize = 10;
const SHARE_MIN: f64 = 0.5;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let engine = SearchEngine::with_schema(SCHEMA, directory.path())?;
    let documents = settings.sized(DOCUMENTS);
    let mut random = BenchRandom::new(42);
    load(engine.store(), (0..documents).map(|name| document(&mut random, name)))?;
    let group = application::group_name(0);
    let mut report = BenchReport::new(BENCH.name);
    for (field, kind, values) in [("folder", "text", FOLDERS), ("sender", "numbers", SENDERS)] {
        let yql = format!(
            "select * from mail where true limit 0 | all(group({field}) max({SHOWN}) order(-count()) each(output(count())))"
        );
        let query = engine.prepare(&[("yql", &*yql), ("streaming.groupname", &*group)])?;
        let columns = engine.columns(0, field)?;
        let counted = count::<RandomState>(&columns);
        let found = largest(&engine.run(&query)?.result);
        if found != Some(counted) {
            return Err(Error::failed(format!("the largest group has {counted} documents, not {found:?}")));
        }
        let (search, peer) = measure::alternately(
            settings.time_per_case,
            20,
            || engine.run(&query),
            || count::<RandomState>(&columns),
        );
        let fast = measure::repeatedly(settings.time_per_case, 20, || count::<DefaultHashBuilder>(&columns));
        let case = format!("{documents} documents, {values} values, {kind}");
        let rate = |seconds: f64| documents as f64 / seconds;
        report.push(
            Figure::new(&case, "rate", rate(search.median()), FigureUnit::PerSecond("documents"))
                .beside("hash count", rate(peer.median()))
                .at_least(SHARE_MIN),
        );
        report.push(
            Figure::new(&case, "rate", rate(search.median()), FigureUnit::PerSecond("documents"))
                .beside("hash count, fast hash", rate(fast.median())),
        );
    }
    Ok(report)
}

fn document(random: &mut BenchRandom, name: u64) -> Result<Document, Error> {
    let folder = application::word(random.word(FOLDERS));
    let sender = random.word(SENDERS) as i64 * 7_919;
    let fields = vec![
        ("folder".into(), DocumentValue::String(folder)),
        ("sender".into(), DocumentValue::Long(sender)),
    ];
    Ok(Document { id: application::id(0, name)?, fields })
}

/// Number of documents in the first group.
fn largest(result: &PartialResult) -> Option<u64> {
    let GroupList::Groups { groups, .. } = result.groupings.first()?.root.lists.first()? else { return None };
    match groups.first()?.outputs.first()? {
        (_, GroupValue::Long(count)) => u64::try_from(*count).ok(),
        _ => None,
    }
}

/// Counts the values of the columns; returns the largest count.
fn count<S: BuildHasher + Default>(columns: &[Column]) -> u64 {
    let mut numbers: HashMap<i64, u64, S> = HashMap::default();
    let mut texts: HashMap<&[u8], u64, S> = HashMap::default();
    for column in columns {
        match column {
            Column::Fixed(column) => {
                column.cells::<i64>().iter().for_each(|value| *numbers.entry(*value).or_default() += 1);
            }
            Column::Bytes(column) => {
                let values = (0..column.len()).filter_map(|document| column.get(document));
                values.for_each(|value| *texts.entry(value).or_default() += 1);
            }
            Column::Tokens(_) => {}
        }
    }
    numbers.into_values().chain(texts.into_values()).max().unwrap_or(0)
}
