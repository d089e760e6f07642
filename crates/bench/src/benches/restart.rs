//! Fresh process over 2 million documents in 20,000 groups: its memory, and the time to its first answer.
//!
//! The peer is the same program over an empty data directory with the same application: the difference is due
//! to the documents.

use std::path::Path;
use std::time::Duration;

use hyper::Method;
use millrace_client::OutgoingRequest;
use millrace_node::Node;
use millrace_node::indexes::IndexState;

use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker, IndexesOfMail};
use crate::load::load;
use crate::measure::TimeSamples;
use crate::node;
use crate::process::ServerProcess;
use crate::{BenchReport, Error, Figure, FigureGoal, FigureUnit};

pub(super) const MEMORY: Benchmark = Benchmark {
    name: "memory",
    about: "resident memory after a restart with 2 M documents in 20,000 groups, beside an empty server",
    run: memory,
};

pub(super) const START: Benchmark = Benchmark {
    name: "start",
    about: "start to first answer with 2 M documents in 20,000 groups, beside an empty server",
    run: start,
};

pub(super) const MEMORY_INDEX: Benchmark = Benchmark {
    name: "memory --index",
    about: "resident memory after a restart with an index over 2 M documents, and with 100 empty indexes",
    run: memory_of_indexes,
};

pub(super) const START_INDEX: Benchmark = Benchmark {
    name: "start --index",
    about: "start to first answer with an index over 2 M documents, beside the same server without documents",
    run: start_with_index,
};

const DOCUMENTS: u64 = 2_000_000;
const DOCUMENTS_OF_GROUP: u64 = 100;
const TEXT_BYTES: usize = 60;
const BYTES_PER_DOCUMENT_MAX: f64 = 1.0;
const IDLE_BYTES_MAX: f64 = 60e6;
const SECONDS_MAX: f64 = 1.0;
/// Number of measured starts over each directory.
const STARTS: usize = 5;
/// Time for a server to settle before its memory is measured.
const SETTLE: Duration = Duration::from_secs(3);
/// Number of empty indexes whose memory is measured.
const INDEXES: usize = 100;
/// Interval between looks at the state of an index.
const TICK: Duration = Duration::from_millis(10);

fn memory(settings: &Settings) -> Result<BenchReport, Error> {
    let restart = RestartDirectories::prepare(settings, 0)?;
    memory_of(&restart, MEMORY.name)
}

fn memory_of_indexes(settings: &Settings) -> Result<BenchReport, Error> {
    let restart = RestartDirectories::prepare(settings, 1)?;
    let mut report = memory_of(&restart, MEMORY_INDEX.name)?;
    let indexes = restart.directory.path().join("indexes");
    fill(&indexes, INDEXES, std::iter::empty())?;
    let resident = restart.resident_bytes(&indexes)?;
    report.push(
        Figure::new(format!("{INDEXES} empty indexes"), "resident", resident as f64, FigureUnit::Bytes)
            .at_most(IDLE_BYTES_MAX),
    );
    Ok(report)
}

fn memory_of(restart: &RestartDirectories<'_>, name: &'static str) -> Result<BenchReport, Error> {
    let case = format!("{} documents", restart.documents);
    let idle = restart.resident_bytes(&restart.empty)?;
    let filled = restart.resident_bytes(&restart.filled)?;
    let mut report = BenchReport::new(name);
    report.push(
        Figure::new("no documents", "resident", idle as f64, FigureUnit::Bytes).at_most(IDLE_BYTES_MAX),
    );
    report.push(
        Figure::new(&case, "resident", filled as f64, FigureUnit::Bytes).beside("no documents", idle as f64),
    );
    let each = filled.saturating_sub(idle) as f64 / restart.documents as f64;
    report.push(
        Figure::new(&case, "each", each, FigureUnit::BytesPer("document")).at_most(BYTES_PER_DOCUMENT_MAX),
    );
    Ok(report)
}

fn start(settings: &Settings) -> Result<BenchReport, Error> {
    start_of(&RestartDirectories::prepare(settings, 0)?, START.name)
}

fn start_with_index(settings: &Settings) -> Result<BenchReport, Error> {
    start_of(&RestartDirectories::prepare(settings, 1)?, START_INDEX.name)
}

fn start_of(restart: &RestartDirectories<'_>, name: &'static str) -> Result<BenchReport, Error> {
    let (mut empty, mut filled) = (TimeSamples::new(), TimeSamples::new());
    for _ in 0..STARTS {
        empty.add(ServerProcess::start(restart.program, &restart.empty)?.ready_after());
        filled.add(ServerProcess::start(restart.program, &restart.filled)?.ready_after());
    }
    let case = format!("{} documents", restart.documents);
    let mut report = BenchReport::new(name);
    let median = Figure::new(&case, "median", filled.median(), FigureUnit::Seconds);
    report.push(median.beside("no documents", empty.median()).with_goal(FigureGoal::AtMost(SECONDS_MAX)));
    report.push(Figure::new(&case, "slowest", filled.slowest(), FigureUnit::Seconds));
    Ok(report)
}

/// Two data directories with one application: one empty, one with documents.
struct RestartDirectories<'s> {
    program: &'s Path,
    directory: tempfile::TempDir,
    empty: std::path::PathBuf,
    filled: std::path::PathBuf,
    documents: u64,
}

impl<'s> RestartDirectories<'s> {
    fn prepare(settings: &'s Settings, indexes: usize) -> Result<Self, Error> {
        let program = settings.program()?;
        let directory = settings.workplace()?;
        let (empty, filled) = (directory.path().join("empty"), directory.path().join("filled"));
        let documents = settings.sized(DOCUMENTS);
        let mut maker = DocumentMaker::new()?;
        let mails = (0..documents).map(|name| maker.mail(name / DOCUMENTS_OF_GROUP, name, TEXT_BYTES));
        fill(&empty, indexes, std::iter::empty())?;
        fill(&filled, indexes, mails)?;
        Ok(RestartDirectories { program, directory, empty, filled, documents })
    }

    /// Memory of a server over a directory, once it has settled and answered a query.
    fn resident_bytes(&self, data: &Path) -> Result<u64, Error> {
        let process = ServerProcess::start(self.program, data)?;
        let last = self.documents.saturating_sub(1) / DOCUMENTS_OF_GROUP;
        let query = OutgoingRequest::new(Method::GET, "/search/")
            .parameter("yql", "select * from mail where true")
            .parameter("streaming.groupname", &application::group_name(last));
        process.ask(query)?;
        std::thread::sleep(SETTLE);
        process.resident_bytes()
    }
}

/// Creates a data directory with the application, this number of indexes, and these documents.
fn fill(
    directory: &Path,
    indexes: usize,
    documents: impl Iterator<Item = Result<millrace_document::Document, Error>>,
) -> Result<(), Error> {
    let node = Node::open(node::settings(directory).node).map_err(Error::failed)?;
    let application = match indexes {
        0 => application::application()?,
        count => application::indexed(IndexesOfMail { count, deferred: false })?,
    };
    node.deploy(application).map_err(Error::failed)?;
    load(node.store(), documents)?;
    while node.indexes().statuses().iter().any(|index| index.state == IndexState::Building) {
        std::thread::sleep(TICK);
    }
    node.close();
    Ok(())
}
