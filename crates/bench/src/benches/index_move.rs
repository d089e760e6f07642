//! Move of one large copy of a placed index between two nodes of a cluster: as a file, beside a plain
//! transfer of the same bytes with an fsync per file, and beside building it from the documents.
//!
//! The keys are as long as most that a key has whole, so that few documents have a copy of a gigabyte: what a
//! move does once, such as catching up, is to be little beside its bytes.
//!
//! The time is that of the node that gets the copy: from when it begins until the copy can be read. The
//! leader's plans before and after are not in it. The files of the source are not in the page cache when a
//! move begins. The index was declared and the documents written more than a minute before, or copies would
//! read documents again that they have in their files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use super::moving::plain_speed;
use super::{Benchmark, Settings};
use crate::cluster::NO_ETCD;
use crate::limit::drop_page_cache;
use crate::placed::{PLACEMENT_TIMEOUT, PlacedIndexBench, PlacedLayout};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "index-move",
    about: "a large copy of a placed index moved as a file, beside a plain copy with fsync and beside building it",
    run,
};

const DATA_NODES: usize = 1;
const COPY_NODES: usize = 2;
/// The nodes between which the copy moves.
const ONE: usize = DATA_NODES;
const OTHER: usize = DATA_NODES + 1;
/// Number of documents; they have a copy of about 800 MB.
const DOCUMENTS: u64 = 400_000;
/// Number of words of 16 digits in the key of each.
const KEY_WORDS: usize = 60;
const ROUNDS: usize = 2;
/// Time after which copies know that they have everything from before the index was declared.
const DECLARED: Duration = Duration::from_secs(80);
/// Time after which a copy that was just made knows up to which time it has everything.
const CLOSED: Duration = Duration::from_secs(10);
/// Interval between looks at the node that gets the copy.
const TICK: Duration = Duration::from_millis(20);
/// Directory of copies below that of a node's data.
const COPIES: &str = "placed-indexes";
/// Shortest processor time that the system tells apart.
const SHORTEST: Duration = Duration::from_millis(10);
const SHARE_MIN: f64 = 0.8;
const FASTER_MAX: f64 = 0.2;
const PROCESSOR_MAX: f64 = 0.1;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    let directory = settings.workplace()?;
    let documents = settings.counts.documents.unwrap_or_else(|| settings.sized(DOCUMENTS));
    let layout = PlacedLayout {
        data_nodes: DATA_NODES,
        copy_nodes: COPY_NODES,
        indexes: 1,
        key: "message_id",
        id_words: KEY_WORDS,
    };
    let Some(cluster) = PlacedIndexBench::start(settings.program()?, directory.path(), layout)? else {
        report.note(NO_ETCD);
        return Ok(report);
    };
    cluster.feed(documents)?;
    cluster.declare_indexes()?;
    std::thread::sleep(DECLARED);
    let (mut moved, mut built) = (CopyRounds::default(), CopyRounds::default());
    let mut copied = Duration::ZERO;
    for _ in 0..ROUNDS {
        let bytes = moved.add(&cluster, "file")?;
        copied += Duration::from_secs_f64(bytes as f64 / plain_speed(directory.path(), bytes)?);
        built.add(&cluster, "rebuild")?;
    }
    let case = format!("a copy of {documents} documents");
    let speed = |time: Duration| moved.bytes as f64 / time.as_secs_f64().max(1e-9);
    report.push(
        Figure::new(&case, "moved", speed(moved.took), FigureUnit::BytesPerSecond)
            .beside("plain copy with fsync", speed(copied))
            .at_least(SHARE_MIN),
    );
    let each = |time: Duration| time.as_secs_f64() / ROUNDS as f64;
    report.push(
        Figure::new(&case, "time", each(moved.took), FigureUnit::Seconds)
            .beside("building it", each(built.took))
            .at_most(FASTER_MAX),
    );
    let used = |rounds: &CopyRounds| each(rounds.used.max(SHORTEST));
    report.push(
        Figure::new(&case, "processor time of the source", used(&moved), FigureUnit::Seconds)
            .beside("building it", used(&built))
            .at_most(PROCESSOR_MAX),
    );
    report.push(Figure::new(&case, "bytes", moved.bytes as f64 / ROUNDS as f64, FigureUnit::Bytes));
    report.push(Figure::new(
        &case,
        "from the request until it is ready",
        each(moved.asked),
        FigureUnit::Seconds,
    ));
    report.note("the source of a build is the node with the documents; etcd and nodes share the cores");
    Ok(report)
}

/// Moves of the copy by one method.
#[derive(Default)]
struct CopyRounds {
    /// Bytes of the files that moved.
    bytes: u64,
    /// Time from when the target begins until the copy has everything.
    took: Duration,
    /// Time from the request until the cluster has the copy in its place.
    asked: Duration,
    /// Processor time of all nodes but the target meanwhile.
    used: Duration,
}

impl CopyRounds {
    /// Moves the copy to the other node; returns the bytes of its files.
    fn add(&mut self, cluster: &PlacedIndexBench, method: &str) -> Result<u64, Error> {
        cluster.change_settings(&json!({ "method": method }))?;
        std::thread::sleep(CLOSED);
        let from = cluster.place(0)?;
        let to = if from == ONE { OTHER } else { ONE };
        let others = || (0..DATA_NODES + COPY_NODES).filter(move |node| *node != to);
        for (file, _) in files(&cluster.nodes().data_directory(from).join(COPIES))? {
            present(drop_page_cache(&file))?;
        }
        let asked = Instant::now();
        cluster.begin_move(0, from, to)?;
        until(|| cluster.gauge(to, "copies").is_some_and(|copies| copies > 0))?;
        let (began, before) = (Instant::now(), cluster.used(others())?);
        until(|| cluster.gauge(to, "ready").is_some_and(|ready| ready > 0))?;
        self.took += began.elapsed();
        self.used += cluster.used(others())?.saturating_sub(before);
        until(|| cluster.place(0).is_ok_and(|place| place == to))?;
        self.asked += asked.elapsed();
        cluster.until_settled()?;
        let files = files(&cluster.nodes().data_directory(to).join(COPIES))?;
        let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        if bytes == 0 {
            return Err(Error::Failed(format!("node n{to} has no files of the copy")));
        }
        self.bytes += bytes;
        Ok(bytes)
    }
}

/// Waits for the copy.
fn until(mut holds: impl FnMut() -> bool) -> Result<(), Error> {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > PLACEMENT_TIMEOUT {
            let seconds = PLACEMENT_TIMEOUT.as_secs();
            return Err(Error::Failed(format!("the copy did not move within {seconds} seconds")));
        }
        std::thread::sleep(TICK);
    }
    Ok(())
}

/// All files below a directory, and their sizes.
fn files(directory: &Path) -> Result<Vec<(PathBuf, u64)>, Error> {
    let (mut found, mut left) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).map_err(Error::file(&directory))? {
            let entry = entry.map_err(Error::file(&directory))?;
            let path = entry.path();
            match present(entry.metadata().map_err(Error::file(&path)))? {
                Some(metadata) if metadata.is_dir() => left.push(path),
                Some(metadata) => found.push((path, metadata.len())),
                None => {}
            }
        }
    }
    Ok(found)
}

/// The result of an operation on a file; `None` if the file has gone, as those that were merged do.
fn present<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Err(Error::File { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_at_any_depth() {
        let directory = tempfile::tempdir().expect("there is a place for temporary files");
        let inner = directory.path().join("copy-1/runs");
        std::fs::create_dir_all(&inner).expect("it can be made");
        // In their order: a directory is before a file whose name begins with its own.
        let paths = [inner.join("1"), directory.path().join("copy-1.json")];
        paths.iter().for_each(|path| std::fs::write(path, "xy").expect("it can be written"));
        let mut found = files(directory.path()).expect("it can be read");
        found.sort();
        assert_eq!(found, paths.map(|path| (path, 2)));
        let gone = drop_page_cache(&directory.path().join("gone"));
        assert!(present(gone).is_ok_and(|found| found.is_none()));
    }
}
