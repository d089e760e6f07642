//! Move of buckets as files from one store into an empty one over loopback, compared with a plain transfer of
//! the same bytes with an fsync per file.
//!
//! The measurement covers everything that nodes of a cluster do when they move whole replicas: taking a
//! snapshot, the protocol, writing, syncing, checking, and listing files in the manifest. The plain method
//! sends file after file over a bare connection, and syncs each. The source's files are not in the page cache
//! when a round begins.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_content::{StoreSource, TransferThrottle, take_over};
use millrace_peer::serve_bulk;
use millrace_store::{Store, StoreTuning};

use super::{Benchmark, Settings};
use crate::application::DocumentMaker;
use crate::engine::SearchEngine;
use crate::limit::drop_page_cache;
use crate::load::load_unmerged;
use crate::measure::{process_time, thread_time};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "move",
    about: "4 GB in buckets from one store to another over loopback, beside sending the same bytes plainly",
    run,
};

pub(super) const BYTES: u64 = 4 << 30;
pub(super) const TEXT_BYTES: usize = 2000;
pub(super) const GROUPS: u64 = 4096;
/// Number of documents that are written before they are sealed: the limit of the tail for this size.
const LOADED: u64 = 16 * 1024;
/// Number of rounds; the first one warms up and does not count.
const ROUNDS: usize = 4;
/// Minimum share of the speed of the plain copy.
const SHARE_MIN: f64 = 0.8;
/// Bytes that go through a connection or a file at a time.
const PIECE: usize = 1 << 20;

/// Layout of the buckets in files, and the selection that moves.
struct MoveCase {
    name: &'static str,
    /// Bits of each bucket.
    bits: u8,
    /// Distance between two buckets that move.
    every: usize,
}

const CASES: [MoveCase; 2] = [
    MoveCase { name: "files of whole buckets", bits: 4, every: 1 },
    MoveCase { name: "ranges of shared files", bits: 10, every: 2 },
];

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    for case in &CASES {
        measure(case, settings, &mut report)?;
    }
    report.note("seconds of a processor count what the threads of either side took, in the system too");
    Ok(report)
}

fn measure(case: &MoveCase, settings: &Settings, report: &mut BenchReport) -> Result<(), Error> {
    let directory = settings.workplace()?;
    let source_directory = directory.path().join("source");
    let source = SearchEngine::open(&source_directory, None)?;
    let source = source.store();
    let documents = settings.sized(BYTES / TEXT_BYTES as u64);
    fill(source, case.bits, documents)?;
    let mut buckets: Vec<BucketId> = (0..1 << case.bits).map(|bits| BucketId::new(case.bits, bits)).collect();
    // In the order of keys, so that moving buckets are between staying ones.
    buckets.sort_by_key(|bucket| bucket.reversed_range());
    let moving: Vec<BucketId> = buckets.into_iter().step_by(case.every).collect();

    let (mut moved, mut copied) = (MoveRounds::default(), MoveRounds::default());
    for round in 0..ROUNDS {
        forget_pages(&source_directory)?;
        let target_directory = directory.path().join(format!("target{round}"));
        let target = SearchEngine::open(&target_directory, None)?;
        let of_move = move_buckets(source, target.store(), &moving)?;
        check(source, target.store(), &moving)?;
        let files = segments(&target_directory)?;
        for file in &files {
            drop_page_cache(file)?;
        }
        let copies = directory.path().join(format!("copy{round}"));
        let of_copy = copy_files(&files, &copies)?;
        drop(target);
        std::fs::remove_dir_all(&target_directory).map_err(Error::file(&target_directory))?;
        std::fs::remove_dir_all(&copies).map_err(Error::file(&copies))?;
        if round > 0 {
            moved.add(&of_move);
            copied.add(&of_copy);
        }
    }
    let name = format!("{}, {} documents", case.name, documents / case.every as u64);
    report.push(
        Figure::new(name.clone(), "moved", moved.speed(), FigureUnit::BytesPerSecond)
            .beside("plain copy with fsync", copied.speed())
            .at_least(SHARE_MIN),
    );
    let cpu =
        |of: &MoveRounds, side: fn(&MoveRounds) -> Duration| side(of).as_secs_f64() / (of.bytes as f64 / 1e9);
    for (side, of) in [
        ("source, processor for a GB", (|of| of.sending) as fn(&MoveRounds) -> Duration),
        ("target, processor for a GB", |of| of.receiving),
    ] {
        report.push(
            Figure::new(name.clone(), side, cpu(&moved, of), FigureUnit::Seconds)
                .beside("of the plain copy", cpu(&copied, of)),
        );
    }
    Ok(())
}

/// Fills buckets of this number of bits with documents, and leaves them sealed and merged.
pub(super) fn fill(store: &Store, bits: u8, documents: u64) -> Result<(), Error> {
    store.set_tuning(StoreTuning { split_bits: bits, ..StoreTuning::default() });
    store.maintain().map_err(Error::failed)?;
    let mut maker = DocumentMaker::new()?;
    for first in (0..documents).step_by(LOADED as usize) {
        let names = first..documents.min(first + LOADED);
        load_unmerged(store, names.map(|name| maker.mail(name % GROUPS, name, TEXT_BYTES)))?;
    }
    store.maintain().map_err(Error::failed)
}

/// Measurements of one method or several.
#[derive(Default)]
pub(super) struct MoveRounds {
    pub(super) bytes: u64,
    time: Duration,
    /// Processor time.
    sending: Duration,
    receiving: Duration,
}

impl MoveRounds {
    fn add(&mut self, other: &MoveRounds) {
        self.bytes += other.bytes;
        self.time += other.time;
        self.sending += other.sending;
        self.receiving += other.receiving;
    }

    fn speed(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64()
    }
}

/// Checks that both sides have the same documents.
fn check(source: &Store, target: &Store, buckets: &[BucketId]) -> Result<(), Error> {
    let infos = |store: &Store| -> Result<Vec<_>, Error> {
        let infos = store.replica_infos(buckets, Default::default()).map_err(Error::failed)?;
        Ok(infos.into_iter().map(|info| info.map(|info| (info.documents, info.checksum))).collect())
    };
    let (there, here) = (infos(source)?, infos(target)?);
    if there == here && there.iter().any(Option::is_some) {
        return Ok(());
    }
    Err(Error::failed("the target does not hold what the source does"))
}

/// Moves buckets by the method of nodes, unlimited.
fn move_buckets(source: &Store, target: &Store, buckets: &[BucketId]) -> Result<MoveRounds, Error> {
    move_as_fast_as(&Arc::new(TransferThrottle::new(None)), source, target, buckets)
}

/// Moves buckets by the method of nodes, at the rate that the source permits.
pub(super) fn move_as_fast_as(
    throttle: &Arc<TransferThrottle>,
    source: &Store,
    target: &Store,
    buckets: &[BucketId],
) -> Result<MoveRounds, Error> {
    let source = StoreSource::of(source, Arc::clone(throttle));
    transfer(
        |listener| {
            let (connection, _) = listener.accept().map_err(Error::failed)?;
            // It ends with the other side's end.
            let _ = serve_bulk(connection, &source);
            Ok(())
        },
        |address| take_over(target, &TransferThrottle::new(None), address, buckets).map_err(Error::failed),
    )
}

/// Copies files by the plain method: each file's length and its bytes; written, synced, and the next.
fn copy_files(files: &[PathBuf], to: &Path) -> Result<MoveRounds, Error> {
    std::fs::create_dir_all(to).map_err(Error::file(to))?;
    transfer(
        |listener| {
            let (mut connection, _) = listener.accept().map_err(Error::failed)?;
            let mut buffer = vec![0; PIECE];
            for path in files {
                let mut file = File::open(path).map_err(Error::file(path))?;
                let mut left = file.metadata().map_err(Error::file(path))?.len();
                connection.write_all(&left.to_le_bytes()).map_err(Error::failed)?;
                while left > 0 {
                    let piece = &mut buffer[..left.min(PIECE as u64) as usize];
                    file.read_exact(piece).map_err(Error::file(path))?;
                    connection.write_all(piece).map_err(Error::failed)?;
                    left -= piece.len() as u64;
                }
            }
            Ok(())
        },
        |address| {
            let mut connection = TcpStream::connect(address).map_err(Error::failed)?;
            let mut buffer = vec![0; PIECE];
            let mut bytes = 0;
            for number in 0..files.len() {
                let path = to.join(number.to_string());
                let mut file = File::create(&path).map_err(Error::file(&path))?;
                let mut left = read_number(&mut connection)?;
                bytes += left;
                while left > 0 {
                    let piece = &mut buffer[..left.min(PIECE as u64) as usize];
                    connection.read_exact(piece).map_err(Error::failed)?;
                    file.write_all(piece).map_err(Error::file(&path))?;
                    left -= piece.len() as u64;
                }
                file.sync_all().map_err(Error::file(&path))?;
            }
            Ok(bytes)
        },
    )
}

/// Bytes per second of a plain transfer of this many bytes, in files, with an fsync each.
pub(super) fn plain_speed(directory: &Path, bytes: u64) -> Result<f64, Error> {
    const FILES: u64 = 8;
    let content = vec![0x5a; usize::try_from(bytes / FILES).map_err(Error::failed)?];
    let mut files = Vec::new();
    for number in 0..FILES {
        let path = directory.join(format!("plain{number}"));
        std::fs::write(&path, &content).map_err(Error::file(&path))?;
        drop_page_cache(&path)?;
        files.push(path);
    }
    let copies = directory.join("plain-copies");
    let copied = copy_files(&files, &copies)?;
    std::fs::remove_dir_all(&copies).map_err(Error::file(&copies))?;
    files.iter().try_for_each(|path| std::fs::remove_file(path).map_err(Error::file(path)))?;
    Ok(copied.speed())
}

/// Runs both ends; the receiver returns the number of bytes.
fn transfer(
    send: impl FnOnce(&TcpListener) -> Result<(), Error> + Send,
    receive: impl FnOnce(&str) -> Result<u64, Error>,
) -> Result<MoveRounds, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Error::failed)?;
    let address = listener.local_addr().map_err(Error::failed)?.to_string();
    let (began, processor) = (Instant::now(), process_time());
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || -> Result<Duration, Error> {
            send(&listener)?;
            Ok(thread_time())
        });
        let received = receive(&address);
        if received.is_err() {
            // The other side may wait for a connection.
            drop(TcpStream::connect(&address));
        }
        let time = began.elapsed();
        let ended = |_| Error::failed("the thread that sends ended before its time");
        let sending = sender.join().map_err(ended)??;
        let all = process_time().saturating_sub(processor);
        Ok(MoveRounds { bytes: received?, time, sending, receiving: all.saturating_sub(sending) })
    })
}

fn read_number(connection: &mut TcpStream) -> Result<u64, Error> {
    let mut bytes = [0; 8];
    connection.read_exact(&mut bytes).map_err(Error::failed)?;
    Ok(u64::from_le_bytes(bytes))
}

fn segments(data: &Path) -> Result<Vec<PathBuf>, Error> {
    let directory = data.join("segments");
    let entries = std::fs::read_dir(&directory).map_err(Error::file(&directory))?;
    entries.map(|entry| Ok(entry.map_err(Error::file(&directory))?.path())).collect()
}

fn forget_pages(data: &Path) -> Result<(), Error> {
    segments(data)?.iter().try_for_each(|path| drop_page_cache(path))
}
