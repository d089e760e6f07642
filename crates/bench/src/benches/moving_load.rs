//! Buckets moved while the source answers queries and takes writes, at half of what it can: how much slower these get, and how fast data moves
//! meanwhile. Source, target and clients share the cores.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_content::Throttle;
use millrace_env::ThreadClass;
use millrace_store::{Change, Write};

use super::moving::{BYTES, GROUPS, TEXT_BYTES, fill, move_as_fast_as};
use super::{Bench, Settings};
use crate::application::{self, Maker};
use crate::engine::{Engine, Prepared};
use crate::measure::Samples;
use crate::{Error, Figure, Report, Unit};

pub(super) const BENCH: Bench = Bench {
    name: "move --load",
    about: "buckets moved beside queries and writes at half capacity: their p99 beside that without movement",
    run,
};

/// Of each bucket.
const BITS: u8 = 4;
/// Of what `move` has, this part: it moves again and again, slowly where it is in the way.
const SHARE: u64 = 32;
/// Requests at a time: enough that one that waits for the disk keeps no other from being sent.
const CLIENTS: usize = 32;
/// Of so many operations, one is a write.
const WRITES: u64 = 10;
/// Of what the machine can.
const LOAD: f64 = 0.5;
/// Phases without and with movement, in turns: what the source does by itself, sealing and merging, falls on both.
const ROUNDS: u32 = 2;
/// Seconds of each phase without, for each second of a case. One with movement lasts until all buckets have moved.
const PHASE: u32 = 10;
const HARM_MAX: f64 = 1.2;
/// How often transfers are told how slow operations are.
const OBSERVE: Duration = Duration::from_secs(1);
/// Observations before anything moves: what is compared with.
const BASELINE: u32 = 4;

fn run(settings: &Settings) -> Result<Report, Error> {
    let directory = settings.workplace()?;
    let source = Engine::open(&directory.path().join("source"), None)?;
    let documents = settings.sized(BYTES / SHARE / TEXT_BYTES as u64);
    fill(source.store(), BITS, documents)?;
    let buckets: Vec<BucketId> = (0..1 << BITS).map(|bits| BucketId::new(BITS, bits)).collect();
    let operations = Operations::new(&source)?;
    let phase = (settings.time_per_case * PHASE).max(OBSERVE * BASELINE);

    let capacity = operations.during(phase, None, |_| {})?.rate;
    let rate = capacity * LOAD;
    let throttle = Arc::new(Throttle::new(None));
    let told = |slowest: &[Option<Duration>]| throttle.observe(slowest);
    let (mut without, mut with) = (Seen::new(), Seen::new());
    let (mut bytes, mut time) = (0, Duration::ZERO);
    for round in 0..ROUNDS {
        without.add(&operations.during(phase, Some(rate), told)?);
        let place = directory.path().join(format!("target{round}"));
        let target = Engine::open(&place, None)?;
        let over = AtomicBool::new(false);
        let (meanwhile, moved) = std::thread::scope(|scope| {
            let mover = scope.spawn(|| {
                // As a node's threads that move do, and those that they begin.
                ThreadClass::Background.enter();
                let began = Instant::now();
                let moved = move_as_fast_as(&throttle, source.store(), target.store(), &buckets);
                over.store(true, Ordering::Relaxed);
                moved.map(|moved| (moved.bytes, began.elapsed()))
            });
            let meanwhile = operations.until(&over, Some(rate), told);
            let ended = |_| Err(Error::failed("the thread that moves ended before its time"));
            (meanwhile, mover.join().unwrap_or_else(ended))
        });
        with.add(&meanwhile?);
        let (of_round, took) = moved?;
        bytes += of_round;
        time += took;
        drop(target);
        std::fs::remove_dir_all(&place).map_err(Error::file(&place))?;
    }

    let mut report = Report::new(BENCH.name);
    let case = format!("{documents} documents, {rate:.0} operations a second");
    for (measure, of) in [
        ("queries, p99", (|seen| &seen.queries) as fn(&Seen) -> &Samples),
        ("writes, p99", |seen| &seen.writes),
    ] {
        report.push(
            Figure::new(&case, measure, of(&with).quantile(0.99), Unit::Seconds)
                .beside("without movement", of(&without).quantile(0.99))
                .at_most(HARM_MAX),
        );
    }
    report.push(Figure::new(
        &case,
        "moved meanwhile",
        bytes as f64 / time.as_secs_f64(),
        Unit::BytesPerSecond,
    ));
    report.note("the time of an operation counts from when it was due");
    Ok(report)
}

/// What clients ask for: queries of a group, and now and then a write.
struct Operations<'a> {
    engine: &'a Engine,
    queries: Vec<Prepared>,
    next: AtomicU64,
    maker: Mutex<Maker>,
}

/// What clients saw.
struct Seen {
    queries: Samples,
    writes: Samples,
    rate: f64,
}

impl Seen {
    fn new() -> Self {
        Seen { queries: Samples::new(), writes: Samples::new(), rate: 0.0 }
    }

    fn add(&mut self, other: &Seen) {
        self.queries.merge(&other.queries);
        self.writes.merge(&other.writes);
    }
}

/// Times since transfers were told last: of queries, and of writes.
type Recent = Mutex<[Samples; 2]>;

impl<'a> Operations<'a> {
    fn new(engine: &'a Engine) -> Result<Self, Error> {
        let yql = format!("select * from mail where text contains \"{}\"", application::word(30));
        let prepare = |group: u64| {
            engine.prepare(&[("yql", &yql), ("streaming.groupname", &application::group_name(group))])
        };
        let queries =
            (0..GROUPS.min(256)).map(|group| prepare(group * 13 % GROUPS)).collect::<Result<_, _>>()?;
        Ok(Operations { engine, queries, next: AtomicU64::new(0), maker: Mutex::new(Maker::new()?) })
    }

    /// Clients ask for so long, as [`Operations::until`].
    fn during(
        &self,
        how_long: Duration,
        rate: Option<f64>,
        told: impl Fn(&[Option<Duration>]),
    ) -> Result<Seen, Error> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(how_long);
                over.store(true, Ordering::Relaxed);
            });
            self.until(&over, rate, told)
        })
    }

    /// Clients ask, at a rate or as fast as they are answered, until it is over; `told` hears once a second how long the slowest
    /// hundredth took.
    fn until(
        &self,
        over: &AtomicBool,
        rate: Option<f64>,
        told: impl Fn(&[Option<Duration>]),
    ) -> Result<Seen, Error> {
        let recent = Recent::default();
        let sent = AtomicU64::new(0);
        let began = Instant::now();
        std::thread::scope(|scope| {
            let client = || {
                ThreadClass::Prompt.enter();
                self.client(began, rate, &sent, over, &recent)
            };
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(OBSERVE);
                let of_second = std::mem::take(&mut *recent.lock().unwrap_or_else(PoisonError::into_inner));
                let slowest = |samples: &Samples| {
                    (samples.len() >= 50).then(|| Duration::from_secs_f64(samples.quantile(0.99)))
                };
                told(&of_second.each_ref().map(slowest));
            }
            let mut seen = Seen::new();
            for client in clients {
                let ended = |_| Err(Error::failed("a client ended before its time"));
                let [queries, writes] = client.join().unwrap_or_else(ended)?;
                seen.queries.merge(&queries);
                seen.writes.merge(&writes);
            }
            seen.rate = (seen.queries.len() + seen.writes.len()) as f64 / began.elapsed().as_secs_f64();
            Ok(seen)
        })
    }

    fn client(
        &self,
        began: Instant,
        rate: Option<f64>,
        sent: &AtomicU64,
        over: &AtomicBool,
        recent: &Recent,
    ) -> Result<[Samples; 2], Error> {
        let mut seen = [Samples::new(), Samples::new()];
        while !over.load(Ordering::Relaxed) {
            let number = sent.fetch_add(1, Ordering::Relaxed);
            let due =
                rate.map_or_else(Instant::now, |rate| began + Duration::from_secs_f64(number as f64 / rate));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let is_write = number.is_multiple_of(WRITES);
            if is_write {
                self.write()?;
            } else {
                let query = &self.queries[number as usize % self.queries.len()];
                self.engine.run(query)?;
            }
            let time = due.elapsed();
            seen[usize::from(is_write)].add(time);
            recent.lock().unwrap_or_else(PoisonError::into_inner)[usize::from(is_write)].add(time);
        }
        Ok(seen)
    }

    /// A document that was there is written anew.
    fn write(&self) -> Result<(), Error> {
        let name = self.next.fetch_add(1, Ordering::Relaxed);
        let document = {
            let mut maker = self.maker.lock().unwrap_or_else(PoisonError::into_inner);
            maker.mail(name % GROUPS, name, TEXT_BYTES)?
        };
        let (sender, outcome) = mpsc::sync_channel(1);
        let write = Write { id: document.id.clone(), change: Change::Put(document) };
        self.engine.store().write(write, move |outcome| drop(sender.send(outcome)));
        outcome.recv().map_err(Error::failed)?.map(drop).map_err(Error::failed)
    }
}
