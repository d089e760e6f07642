//! Building an index over documents that are there, beside reading the same columns and sorting them.

use std::time::{Duration, Instant};

use millrace_column::{Column, ColumnKey, View, value};
use millrace_document::{DataType, DocumentValue};
use millrace_node::Node;
use millrace_node::indexes::IndexState;
use millrace_store::ViewScope;

use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker, IndexesOfMail, TYPE};
use crate::load::load;
use crate::measure::{TimeSamples, bytes_read, process_time};
use crate::{BenchReport, Error, Figure, FigureUnit, node};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "index-build",
    about: "an index over a million mails that are there, beside reading the same columns and sorting them",
    run,
};

const DOCUMENTS: u64 = 1_000_000;
const DOCUMENTS_OF_GROUP: u64 = 100;
const TEXT_BYTES: usize = 1000;
const RATIO_MIN: f64 = 0.4;
/// Share of the documents' bytes that a build reads.
const READ_SHARE_MAX: f64 = 0.08;
/// Measured builds.
const BUILDS: usize = 3;
/// Interval between looks at the state of the index.
const TICK: Duration = Duration::from_millis(2);

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let node = Node::open(node::settings(directory.path()).node).map_err(Error::failed)?;
    let indexes = IndexesOfMail { count: 1, deferred: true };
    node.deploy(application::indexed(indexes)?).map_err(Error::failed)?;
    let (documents, mut maker) = (settings.sized(DOCUMENTS), DocumentMaker::new()?);
    let mut bytes = 0;
    let mails = (0..documents).map(|name| {
        let mail = maker.mail(name / DOCUMENTS_OF_GROUP, name, TEXT_BYTES)?;
        bytes +=
            mail.id.to_string().len() + mail.fields.iter().map(|(_, value)| length(value)).sum::<usize>();
        Ok(mail)
    });
    load(node.store(), mails)?;
    let (mut built, mut sorted, mut used) = (TimeSamples::new(), TimeSamples::new(), Duration::ZERO);
    let mut read = u64::MAX;
    for round in 0..BUILDS {
        let began = Instant::now();
        let found = sort(&node)?;
        sorted.add(began.elapsed());
        if found as u64 != documents {
            return Err(Error::Failed(format!("{found} documents have a date instead of {documents}")));
        }
        let (began, before, read_before) = (Instant::now(), process_time(), bytes_read()?);
        match round {
            0 => drop(node.indexes().build(&name()).map_err(Error::failed)?),
            _ => node.indexes().rebuild(&name()).map_err(Error::failed)?,
        }
        wait(&node, documents)?;
        built.add(began.elapsed());
        used += process_time().saturating_sub(before);
        read = read.min(bytes_read()? - read_before);
    }
    node.close();
    let case = format!("{documents} mails");
    let rate = |times: &TimeSamples| documents as f64 / times.median();
    let unit = FigureUnit::PerSecond("documents");
    let mut report = BenchReport::new(BENCH.name);
    report.push(
        Figure::new(&case, "built", rate(&built), unit)
            .beside("columns read and sorted", rate(&sorted))
            .at_least(RATIO_MIN),
    );
    let used = used.as_secs_f64() / BUILDS as f64;
    report.push(Figure::new(&case, "built for a processor second", documents as f64 / used, unit));
    report.push(
        Figure::new(&case, "read", read as f64, FigureUnit::Bytes)
            .beside("bytes of the documents", bytes as f64)
            .at_most(READ_SHARE_MAX),
    );
    Ok(report)
}

/// Name of the only index.
fn name() -> String {
    application::index_name(0)
}

fn length(value: &DocumentValue) -> usize {
    match value {
        DocumentValue::String(text) => text.len(),
        _ => size_of::<i64>(),
    }
}

/// Waits until the index is ready, and checks that it has an entry for each document.
fn wait(node: &Node, documents: u64) -> Result<(), Error> {
    loop {
        let status = node.indexes().statuses().pop().ok_or_else(|| Error::failed("there is no index"))?;
        match status.state {
            IndexState::Ready if status.entries == documents => return Ok(()),
            IndexState::Ready => {
                return Err(Error::Failed(format!("the index has {} entries", status.entries)));
            }
            IndexState::Failed => return Err(Error::failed(status.reason.unwrap_or_default())),
            IndexState::Deferred | IndexState::Building => std::thread::sleep(TICK),
        }
    }
}

/// Reads the dates and ids of all documents and sorts them by date; returns their number.
fn sort(node: &Node) -> Result<usize, Error> {
    let view = node.store().view(TYPE, &ViewScope::All).map_err(Error::failed)?;
    let mut entries: Vec<(i64, Vec<u8>)> = Vec::new();
    for chunk in 0..view.chunks().len() {
        let column = |key: &ColumnKey| -> Result<Option<Column>, Error> {
            Ok(view.columns(key, chunk..chunk + 1).map_err(Error::failed)?.pop().flatten())
        };
        let dates = column(&ColumnKey::value("date"))?;
        let (Some(dates), Some(Column::Bytes(ids))) = (dates, column(&ColumnKey::id())?) else { continue };
        for row in 0..ids.len() {
            if let (Some(DocumentValue::Long(date)), Some(id)) =
                (value(&dates, &DataType::Long, row), ids.get(row))
            {
                entries.push((date, id.to_vec()));
            }
        }
    }
    entries.sort_unstable();
    Ok(entries.len())
}
