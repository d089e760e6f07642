//! One more node for copies of placed indexes, under writes and scans at half of the rate that the machine
//! sustains: copies that are built from the documents, in batches of several sizes, beside copies that move
//! as files.
//!
//! The node takes part from the beginning, and is retired between the turns: its copies move back. So each
//! turn moves as many copies over the same documents. A turn is measured beside the same load just before it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Benchmark, Settings};
use crate::clients::{ClientLatencies, PacedLatencies, PacedRequests, Requests};
use crate::cluster::NO_ETCD;
use crate::placed::{
    MESSAGE_ID_WORDS, PLACEMENT_TIMEOUT, PlacedIndexBench, PlacedLayout, is_balanced, is_refused, mixed,
    puts, scans,
};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "index-scale-out",
    about: "three nodes with 100 placed indexes become four under load: files beside builds by 1, 3 and 20, and the load beside that without",
    run,
};

const DATA_NODES: usize = 3;
const COPY_NODES: usize = 4;
/// The node that comes.
const NEW: usize = DATA_NODES + COPY_NODES - 1;
const INDEXES: u64 = 100;
/// Number of documents, all of which are in each index; an acceptance takes 100,000.
const DOCUMENTS: u64 = 10_000;
/// Copies that a node sends or receives at once: the default in the turns, and more on their way back.
const TRANSFERS: u16 = 2;
const TRANSFERS_BACK: u16 = 16;
/// Number of requests of which one is a scan.
const SCAN_EVERY: u64 = 5;
/// Number of clients that determine the rate that the machine sustains.
const CLIENTS: usize = 16;
/// Share of that rate.
const LOAD: f64 = 0.5;
/// Times before and for the rate, and of the load without a rebalance, in multiples of a case's time.
const WARM_UP: u32 = 2;
const SUSTAINED: u32 = 6;
const WITHOUT: u32 = 15;
/// Interval between looks at the rebalance.
const TICK: Duration = Duration::from_millis(50);
/// Shortest processor time that the system tells apart.
const SHORTEST: f64 = 0.01;
const BY_3_MIN: f64 = 5.0;
const BY_20_MIN: f64 = 3.0;
const PROCESSOR_MAX: f64 = 0.1;
const P95_MAX: f64 = 1.2;
const P99_MAX: f64 = 1.5;
const WRITE_P99_MAX: f64 = 1.2;

/// Origin of the copies of a turn.
struct ScaleOutTurn {
    case: &'static str,
    method: &'static str,
    batch: u16,
}

const TURNS: [ScaleOutTurn; 4] = [
    ScaleOutTurn { case: "built by 1", method: "rebuild", batch: 1 },
    ScaleOutTurn { case: "built by 3", method: "rebuild", batch: 3 },
    ScaleOutTurn { case: "built by 20", method: "rebuild", batch: 20 },
    ScaleOutTurn { case: "files", method: "file", batch: 3 },
];
const BY_3: usize = 1;
const BY_20: usize = 2;
const FILES: usize = 3;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    let directory = settings.workplace()?;
    let indexes = settings.counts.indexes.unwrap_or(INDEXES);
    let documents = settings.counts.documents.unwrap_or_else(|| settings.sized(DOCUMENTS));
    let layout = PlacedLayout {
        data_nodes: DATA_NODES,
        copy_nodes: COPY_NODES,
        indexes,
        key: "date",
        id_words: MESSAGE_ID_WORDS,
    };
    let Some(cluster) = PlacedIndexBench::start(settings.program()?, directory.path(), layout)? else {
        report.note(NO_ETCD);
        return Ok(report);
    };
    cluster.change_state(NEW, "retired")?;
    cluster.until_state(NEW, "retired")?;
    cluster.feed(documents)?;
    let began = Instant::now();
    cluster.declare_indexes()?;
    (settings.progress.step)(&format!(
        "{indexes} indexes over {documents} documents were built in {:.0} s",
        began.elapsed().as_secs_f64()
    ));
    let mut load = ScaleOutLoad::new(&cluster, settings, documents, indexes)?;
    let mut turns = Vec::new();
    for turn in &TURNS {
        let seen = load.turn(turn, settings.time_per_case * WITHOUT)?;
        (settings.progress.step)(&format!("{}: {:.1} s", turn.case, seen.took.as_secs_f64()));
        seen.report(turn, &mut report);
        report.publish(settings.progress);
        turns.push(seen);
    }
    compare(&turns, &mut report);
    report.note(format!(
        "{indexes} indexes of {documents} documents; {DATA_NODES} nodes with documents, {} and then {COPY_NODES} with copies",
        COPY_NODES - 1
    ));
    report.note(format!(
        "the load is {:.0} writes and {:.0} scans a second, half of what {CLIENTS} clients reach whose scans wait for their writes",
        load.writes_per_second(),
        load.scans_per_second()
    ));
    report
        .note("etcd, nodes and clients share the cores; times of the load count from when a request was due");
    Ok(report)
}

/// Comparisons of the turns.
fn compare(turns: &[SeenTurn], report: &mut BenchReport) {
    let [_, by_3, by_20, files] = turns else { return };
    let case = TURNS[FILES].case;
    for (of, turn, goal) in [(by_3, BY_3, BY_3_MIN), (by_20, BY_20, BY_20_MIN)] {
        report.push(
            Figure::new(case, "rebalance", files.rate(), FigureUnit::PerSecond("copies"))
                .beside(TURNS[turn].case, of.rate())
                .at_least(goal),
        );
    }
    report.push(
        Figure::new(case, "data nodes, more processor time", files.more(), FigureUnit::Seconds)
            .beside(TURNS[BY_20].case, by_20.more())
            .at_most(PROCESSOR_MAX),
    );
}

/// Writes and scans at half of the rate that the machine sustains.
struct ScaleOutLoad<'a> {
    cluster: &'a PlacedIndexBench,
    puts: Requests,
    scans: Requests,
    /// Requests per second.
    rate: f64,
    next_put: u64,
    next_scan: u64,
}

/// A time of load.
struct LoadSpan {
    writes: PacedLatencies,
    scans: PacedLatencies,
    lasted: Duration,
    /// Processor time of the nodes with documents.
    used: Duration,
}

impl LoadSpan {
    /// Processors that the nodes with documents use.
    fn processors(&self) -> f64 {
        self.used.as_secs_f64() / self.lasted.as_secs_f64().max(1e-9)
    }
}

impl<'a> ScaleOutLoad<'a> {
    /// Measures the rate that the machine sustains: clients whose scans wait until the indexes have their
    /// writes.
    fn new(
        cluster: &'a PlacedIndexBench,
        settings: &Settings,
        documents: u64,
        indexes: u64,
    ) -> Result<Self, Error> {
        let (puts, scans) = (puts(documents)?, scans(documents, indexes));
        let both = mixed(&puts, &scans, SCAN_EVERY);
        let clients = cluster.nodes().clients(0);
        let ask = |turns: u32, first: u64| -> Result<(ClientLatencies, u64), Error> {
            let time = settings.time_per_case * turns;
            clients.at_once_until_taken(CLIENTS, time, first, &both, is_refused)
        };
        let (_, next) = ask(WARM_UP, 0)?;
        let (full, next) = ask(SUSTAINED, next)?;
        let rate = full.rate() * LOAD;
        Ok(ScaleOutLoad { cluster, puts, scans, rate, next_put: next, next_scan: next })
    }

    fn scans_per_second(&self) -> f64 {
        self.rate / SCAN_EVERY as f64
    }

    fn writes_per_second(&self) -> f64 {
        self.rate - self.scans_per_second()
    }

    /// Writes and scans until `watch` returns.
    fn until<T>(&mut self, watch: impl FnOnce() -> Result<T, Error>) -> Result<(LoadSpan, T), Error> {
        let cluster = self.cluster;
        let paced = |per_second, first, requests| PacedRequests { per_second, first, requests, is_refused };
        let puts = paced(self.writes_per_second(), self.next_put, &self.puts);
        let scans = paced(self.scans_per_second(), self.next_scan, &self.scans);
        let over = AtomicBool::new(false);
        let (before, began) = (cluster.used(0..DATA_NODES)?, Instant::now());
        let (watched, writes, scans) = std::thread::scope(|scope| {
            let writes = scope.spawn(|| cluster.nodes().clients(0).at_rate_until(&over, &puts));
            let scans = scope.spawn(|| cluster.nodes().clients(1).at_rate_until(&over, &scans));
            let watched = watch().and_then(|found| {
                let used = cluster.used(0..DATA_NODES)?.saturating_sub(before);
                Ok((found, used, began.elapsed()))
            });
            over.store(true, Ordering::Relaxed);
            let ended = |_| Err(Error::failed("a thread that sends ended before its time"));
            (watched, writes.join().unwrap_or_else(ended), scans.join().unwrap_or_else(ended))
        });
        let (found, used, lasted) = watched?;
        let ((writes, next_put), (scans, next_scan)) = (writes?, scans?);
        (self.next_put, self.next_scan) = (next_put, next_scan);
        Ok((LoadSpan { writes, scans, lasted, used }, found))
    }

    /// The load alone, the load while the node comes, and the way back of the copies.
    fn turn(&mut self, turn: &ScaleOutTurn, without: Duration) -> Result<SeenTurn, Error> {
        let cluster = self.cluster;
        cluster.change_settings(&json!({
            "method": turn.method, "batch": turn.batch, "empty-node-batch": turn.batch,
            "transfers-per-node": TRANSFERS,
        }))?;
        let before = cluster.places()?;
        let wanted = wanted_moves(&before);
        if wanted == 0 {
            let reason = format!(
                "{} indexes are even on {COPY_NODES} nodes as they are; give another number of them, such as {INDEXES}",
                before.len()
            );
            return Err(Error::Failed(reason));
        }
        let (without, ()) = self.until(|| {
            let began = Instant::now();
            while began.elapsed() < without {
                // The rebalance is looked at as often.
                cluster.rebalance();
                std::thread::sleep(TICK);
            }
            Ok(())
        })?;
        let (during, (moves, took)) = self.until(|| watch(cluster))?;
        let came = cluster.places()?.into_iter().filter(|node| *node == NEW).count();
        if came != wanted {
            return Err(Error::Failed(format!("{came} of {wanted} copies have come to the new node")));
        }
        cluster.change_settings(&json!({ "method": "auto", "transfers-per-node": TRANSFERS_BACK }))?;
        cluster.change_state(NEW, "retired")?;
        cluster.until(PLACEMENT_TIMEOUT, "empty the node that is retired", |cluster| {
            cluster.gauge(NEW, "copies") == Some(0)
        })?;
        cluster.until_settled()?;
        let new = format!("n{NEW}");
        let between = moves.iter().filter(|(_, to)| *to != new).count();
        Ok(SeenTurn { took, moves: moves.len(), between, wanted, without, during })
    }
}

/// The moves, by index and target.
type SeenMoves = BTreeSet<(String, String)>;

/// Has the new node come, and watches until it has its copies. Returns the moves, and the time from the
/// beginning of the rebalance to its end.
fn watch(cluster: &PlacedIndexBench) -> Result<(SeenMoves, Duration), Error> {
    let (asked, mut moves) = (Instant::now(), SeenMoves::new());
    let mut began: Option<Instant> = None;
    cluster.change_state(NEW, "up")?;
    while asked.elapsed() < PLACEMENT_TIMEOUT {
        if let Some(value) = cluster.rebalance() {
            add_moves(&value, &mut moves);
            match began {
                None if value["running"] == true => began = Some(Instant::now()),
                Some(began) if is_balanced(&value) => return Ok((moves, began.elapsed())),
                _ => {}
            }
        }
        std::thread::sleep(TICK);
    }
    Err(Error::Failed(format!("the rebalance did not end within {} seconds", PLACEMENT_TIMEOUT.as_secs())))
}

/// Adds the moves in progress. A copy takes longer than the interval between two looks: the leader
/// plans at most ten times a second.
fn add_moves(rebalance: &Value, moves: &mut SeenMoves) {
    for copy in rebalance["copies"].as_array().into_iter().flatten() {
        if let (Some(index), Some(to), Some(_)) =
            (copy["index"].as_str(), copy["name"].as_str(), copy["replaces"].as_str())
        {
            moves.insert((index.to_owned(), to.to_owned()));
        }
    }
}

/// The least number of moves after which no node has more copies than ⌈mean⌉, from the nodes of the copies
/// before the new node comes.
fn wanted_moves(places: &[usize]) -> usize {
    let mut loads: BTreeMap<usize, usize> = BTreeMap::new();
    places.iter().for_each(|node| *loads.entry(*node).or_default() += 1);
    let copies_max = places.len().div_ceil(COPY_NODES);
    loads.values().map(|load| load.saturating_sub(copies_max)).sum()
}

/// Observations of a turn.
struct SeenTurn {
    took: Duration,
    moves: usize,
    /// Number of them to other nodes than the new one.
    between: usize,
    wanted: usize,
    without: LoadSpan,
    during: LoadSpan,
}

/// Latencies of the writes or of the scans.
type LatenciesOf = fn(&LoadSpan) -> &PacedLatencies;

impl SeenTurn {
    /// Copies a second.
    fn rate(&self) -> f64 {
        self.wanted as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// Seconds of processor time that the nodes with documents used beyond those of the load alone.
    fn more(&self) -> f64 {
        let of_load = self.without.processors() * self.during.lasted.as_secs_f64();
        (self.during.used.as_secs_f64() - of_load).max(SHORTEST)
    }

    fn report(&self, turn: &ScaleOutTurn, report: &mut BenchReport) {
        let (case, peer) = (turn.case, "without a rebalance");
        let count = |measure: &str, count: usize| {
            Figure::new(case, measure, count as f64, FigureUnit::Count("copies"))
        };
        report.push(count("moved", self.moves).beside("the least possible", self.wanted as f64).at_most(1.0));
        report.push(count("moved between old nodes", self.between).at_most(0.0));
        report.push(Figure::new(case, "rebalance", self.took.as_secs_f64(), FigureUnit::Seconds));
        report.push(
            Figure::new(case, "data nodes", self.during.processors(), FigureUnit::Count("processors"))
                .beside(peer, self.without.processors()),
        );
        report.push(Figure::new(case, "data nodes, more processor time", self.more(), FigureUnit::Seconds));
        let is_of_files = turn.method == "file";
        let scans: LatenciesOf = |span| &span.scans;
        let writes: LatenciesOf = |span| &span.writes;
        for (measure, of, share, goal) in [
            ("scans, p50", scans, 0.5, None),
            ("scans, p95", scans, 0.95, Some(P95_MAX)),
            ("scans, p99", scans, 0.99, Some(P99_MAX)),
            ("writes, p50", writes, 0.5, None),
            ("writes, p99", writes, 0.99, Some(WRITE_P99_MAX)),
        ] {
            let seconds = |span: &LoadSpan| of(span).seen.times.quantile(share);
            let figure = Figure::new(case, measure, seconds(&self.during), FigureUnit::Seconds)
                .beside(peer, seconds(&self.without));
            report.push(match goal.filter(|_| is_of_files) {
                Some(goal) => figure.at_most(goal),
                None => figure,
            });
        }
        let refused = |span: &LoadSpan| (span.writes.seen.refused, span.scans.seen.refused);
        let ((writes, scans), without) = (refused(&self.during), refused(&self.without));
        if (writes, scans) != (0, 0) || without != (0, 0) {
            report.note(format!(
                "{case}: {writes} writes and {scans} scans were sent again after a refusal or a partial answer, {} and {} {peer}",
                without.0, without.1
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_moves_fill_the_new_node() {
        let places = |loads: &[usize]| -> Vec<usize> {
            loads.iter().enumerate().flat_map(|(node, load)| vec![node; *load]).collect()
        };
        for (loads, expected) in [
            (&[34, 33, 33][..], 25),
            (&[2, 1, 1][..], 1),
            (&[100][..], 75),
            (&[1, 1, 1][..], 0),
            (&[][..], 0),
        ] {
            assert_eq!(wanted_moves(&places(loads)), expected, "{loads:?}");
        }
    }

    #[test]
    fn a_move_is_counted_once_and_other_copies_are_not() {
        let mut moves = SeenMoves::new();
        let value = json!({ "running": true, "balanced": false, "copies": [
            { "index": "a", "slice": 0, "name": "n6", "replaces": "n3" },
            { "index": "b", "slice": 0, "name": "n4", "replaces": "n3" },
            { "index": "c", "slice": 0, "name": "n4", "replaces": null },
        ] });
        add_moves(&value, &mut moves);
        add_moves(&value, &mut moves);
        let expected = [("a", "n6"), ("b", "n4")].map(|(index, to)| (index.to_owned(), to.to_owned()));
        assert_eq!(moves, BTreeSet::from(expected));
    }

    #[test]
    fn the_load_alone_is_subtracted() {
        let span = |lasted, used| LoadSpan {
            writes: PacedLatencies::default(),
            scans: PacedLatencies::default(),
            lasted: Duration::from_secs(lasted),
            used: Duration::from_secs(used),
        };
        let turn = |used| SeenTurn {
            took: Duration::from_secs(5),
            moves: 25,
            between: 0,
            wanted: 25,
            without: span(10, 5),
            during: span(20, used),
        };
        assert_eq!((turn(17).more(), turn(17).rate()), (7.0, 5.0));
        assert_eq!(turn(9).more(), SHORTEST, "less than alone");
    }
}
