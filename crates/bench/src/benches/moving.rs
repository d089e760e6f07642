//! Buckets moved as files from one store into an empty one over loopback, beside a plain sender and receiver of the same bytes with an fsync a
//! file.
//!
//! What is measured is the store's part: taking a snapshot, sending parcels, writing, syncing, checking and naming them in the manifest. The
//! wire between is a bare connection, the same for both sides of the comparison, and a file is finished before the next is begun. The
//! source's files are not in the page cache when a round begins.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_env::AppendFile;
use millrace_store::{Parcel, Store, Tuning};

use super::{Bench, Settings};
use crate::application::Maker;
use crate::engine::Engine;
use crate::limit::drop_page_cache;
use crate::load::load;
use crate::{Error, Figure, Report, Unit};

pub(super) const BENCH: Bench = Bench {
    name: "move",
    about: "4 GB in buckets from one store to another over loopback, beside sending the same bytes plainly",
    run,
};

const BYTES: u64 = 4 << 30;
const TEXT_BYTES: usize = 2000;
const GROUPS: u64 = 4096;
/// Documents that are written before they are sealed: the tail holds no more of this size.
const LOADED: u64 = 16 * 1024;
/// The first round warms up and does not count.
const ROUNDS: usize = 4;
/// Of the speed of the plain copy.
const SHARE_MIN: f64 = 0.8;
/// Bytes that go through a connection or a file at a time.
const PIECE: usize = 1 << 20;

/// How the buckets lie in files, and which of them move.
struct Case {
    name: &'static str,
    /// Of each bucket.
    bits: u8,
    /// Every so many buckets, one moves.
    every: usize,
}

const CASES: [Case; 2] = [
    Case { name: "files of whole buckets", bits: 4, every: 1 },
    Case { name: "ranges of shared files", bits: 10, every: 2 },
];

fn run(settings: &Settings) -> Result<Report, Error> {
    let mut report = Report::new(BENCH.name);
    for case in &CASES {
        measure(case, settings, &mut report)?;
    }
    report.note(
        "seconds of a processor count what the sending and the receiving thread took, in the system too",
    );
    Ok(report)
}

fn measure(case: &Case, settings: &Settings, report: &mut Report) -> Result<(), Error> {
    let directory = settings.workplace()?;
    let source_directory = directory.path().join("source");
    let source = Engine::open(&source_directory, None)?;
    let source = source.store();
    source.set_tuning(Tuning { split_bits: case.bits, ..Tuning::default() });
    source.maintain().map_err(Error::failed)?;
    let mut maker = Maker::new()?;
    let documents = settings.sized(BYTES / TEXT_BYTES as u64);
    for first in (0..documents).step_by(LOADED as usize) {
        let names = first..documents.min(first + LOADED);
        load(source, names.map(|name| maker.mail(name % GROUPS, name, TEXT_BYTES)))?;
    }
    let mut buckets: Vec<BucketId> = (0..1 << case.bits).map(|bits| BucketId::new(case.bits, bits)).collect();
    // In the order of keys, so that those that move lie between those that stay.
    buckets.sort_by_key(|bucket| bucket.reversed_range());
    let moving: Vec<BucketId> = buckets.into_iter().step_by(case.every).collect();

    let (mut moved, mut copied) = (Rounds::default(), Rounds::default());
    for round in 0..ROUNDS {
        forget_pages(&source_directory)?;
        let target_directory = directory.path().join(format!("target{round}"));
        let target = Engine::open(&target_directory, None)?;
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
        Figure::new(name.clone(), "moved", moved.speed(), Unit::BytesPerSecond)
            .beside("plain copy with fsync", copied.speed())
            .at_least(SHARE_MIN),
    );
    let cpu = |of: &Rounds, side: fn(&Rounds) -> Duration| side(of).as_secs_f64() / (of.bytes as f64 / 1e9);
    for (side, of) in [
        ("source, processor for a GB", (|of| of.sending) as fn(&Rounds) -> Duration),
        ("target, processor for a GB", |of| of.receiving),
    ] {
        report.push(
            Figure::new(name.clone(), side, cpu(&moved, of), Unit::Seconds)
                .beside("of the plain copy", cpu(&copied, of)),
        );
    }
    Ok(())
}

/// What one way or several took.
#[derive(Default)]
struct Rounds {
    bytes: u64,
    time: Duration,
    /// Of a processor.
    sending: Duration,
    receiving: Duration,
}

impl Rounds {
    fn add(&mut self, other: &Rounds) {
        self.bytes += other.bytes;
        self.time += other.time;
        self.sending += other.sending;
        self.receiving += other.receiving;
    }

    fn speed(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64()
    }
}

/// The same documents on both sides, or it was no move.
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

fn move_buckets(source: &Store, target: &Store, buckets: &[BucketId]) -> Result<Rounds, Error> {
    transfer(
        |connection| {
            let parcels = source.export(buckets).map_err(Error::failed)?;
            connection.write_all(&(parcels.len() as u64).to_le_bytes()).map_err(Error::failed)?;
            parcels.iter().try_for_each(|parcel| send_parcel(parcel, connection))
        },
        |connection| {
            let parcels = read_number(connection)?;
            (0..parcels).try_fold(0, |bytes, _| Ok(bytes + receive_parcel(target, connection)?))
        },
    )
}

/// What a parcel has of which buckets, then its bytes in pieces behind their lengths, then an empty piece.
fn send_parcel(parcel: &Parcel, connection: &mut TcpStream) -> Result<(), Error> {
    let mut head = (parcel.shares().len() as u64).to_le_bytes().to_vec();
    for share in parcel.shares() {
        let bucket = share.bucket;
        for number in [u64::from(bucket.used_bits()), bucket.bits(), share.bytes, share.documents] {
            head.extend(number.to_le_bytes());
        }
    }
    connection.write_all(&head).map_err(Error::failed)?;
    let mut pieces = Pieces { connection, gathered: Vec::with_capacity(PIECE) };
    parcel.write_to(&mut pieces).map_err(Error::failed)?;
    pieces.end().map_err(Error::failed)
}

/// Bytes on their way into a connection, gathered into large pieces.
struct Pieces<'a> {
    connection: &'a mut TcpStream,
    gathered: Vec<u8>,
}

impl Pieces<'_> {
    /// What is left, and an empty piece.
    fn end(mut self) -> io::Result<()> {
        if !self.gathered.is_empty() {
            self.flush()?;
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.connection.write_all(&(self.gathered.len() as u64).to_le_bytes())?;
        self.connection.write_all(&self.gathered)?;
        self.gathered.clear();
        Ok(())
    }
}

impl AppendFile for Pieces<'_> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.gathered.len() + bytes.len() > PIECE && !self.gathered.is_empty() {
            self.flush()?;
        }
        if bytes.len() >= PIECE {
            self.connection.write_all(&(bytes.len() as u64).to_le_bytes())?;
            return self.connection.write_all(bytes);
        }
        self.gathered.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn receive_parcel(target: &Store, connection: &mut TcpStream) -> Result<u64, Error> {
    let shares = (0..read_number(connection)?)
        .map(|_| {
            let used_bits = read_number(connection)? as u8;
            Ok(millrace_store::Share {
                bucket: BucketId::new(used_bits, read_number(connection)?),
                bytes: read_number(connection)?,
                documents: read_number(connection)?,
            })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let mut import = target.import(&shares).map_err(Error::failed)?;
    let mut buffer = vec![0; PIECE];
    loop {
        let mut left = read_number(connection)? as usize;
        if left == 0 {
            break;
        }
        while left > 0 {
            let piece = &mut buffer[..left.min(PIECE)];
            connection.read_exact(piece).map_err(Error::failed)?;
            import.append(piece).map_err(Error::failed)?;
            left -= piece.len();
        }
    }
    let bytes = import.bytes();
    import.finish().map_err(Error::failed)?;
    Ok(bytes)
}

/// The plain way: each file's length and its bytes; written, synced, and the next.
fn copy_files(files: &[PathBuf], to: &Path) -> Result<Rounds, Error> {
    std::fs::create_dir_all(to).map_err(Error::file(to))?;
    transfer(
        |connection| {
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
        |connection| {
            let mut buffer = vec![0; PIECE];
            let mut bytes = 0;
            for number in 0..files.len() {
                let path = to.join(number.to_string());
                let mut file = File::create(&path).map_err(Error::file(&path))?;
                let mut left = read_number(connection)?;
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

/// Runs both ends of a connection, each on a thread; the receiver says how many bytes came.
fn transfer(
    send: impl FnOnce(&mut TcpStream) -> Result<(), Error> + Send,
    receive: impl FnOnce(&mut TcpStream) -> Result<u64, Error> + Send,
) -> Result<Rounds, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Error::failed)?;
    let address = listener.local_addr().map_err(Error::failed)?;
    let began = Instant::now();
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || -> Result<Duration, Error> {
            let mut connection = TcpStream::connect(address).map_err(Error::failed)?;
            send(&mut connection)?;
            processor_time()
        });
        let (mut connection, _) = listener.accept().map_err(Error::failed)?;
        let receiver = scope.spawn(move || -> Result<(u64, Duration), Error> {
            let bytes = receive(&mut connection)?;
            Ok((bytes, processor_time()?))
        });
        let ended = |_| Error::failed("a thread of the transfer ended before its time");
        let received = receiver.join().map_err(ended)?;
        let sending = sender.join().map_err(ended)??;
        let (bytes, receiving) = received?;
        Ok(Rounds { bytes, time: began.elapsed(), sending, receiving })
    })
}

/// What this thread has taken of a processor since it began, in the system too.
fn processor_time() -> Result<Duration, Error> {
    let path = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
    let nanoseconds = text.split_whitespace().next().and_then(|number| number.parse().ok());
    nanoseconds.map(Duration::from_nanos).ok_or_else(|| Error::failed(format!("{path} has no number")))
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
