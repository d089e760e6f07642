//! The other side of a server: clients that ask as fast as they are answered, or at a steady rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millrace_client::{Answer, Client, Protocol, Request};
use millrace_env::ThreadClass;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::Error;
use crate::measure::Samples;
use crate::node::cores;

/// Clients of one server, with threads of their own.
pub(crate) struct Clients {
    runtime: Runtime,
    client: Client,
}

/// What clients saw.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Times of the requests that went well.
    pub times: Samples,
    /// Requests that were refused because there was too much load (429), each tried again.
    pub refused: u64,
    /// From the first request to the last answer.
    pub lasted: Duration,
}

/// What a query was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Documents that match.
    pub matches: u64,
    /// Hits and groups that came with the answer.
    pub hits: usize,
}

/// The time of one request that went well, and how often it was refused before.
type Outcome = Result<(Duration, u64), Error>;

/// Makes the request of a number.
pub(crate) type Requests = Arc<dyn Fn(u64) -> Request + Send + Sync>;

const TOO_MANY: u16 = 429;
/// How long a client stays away after a 429.
const PAUSE: Duration = Duration::from_millis(20);

impl Clients {
    /// Clients of the server at `url`, each with a connection of its own.
    pub fn new(url: &str) -> Result<Self, Error> {
        let client = Client::new(url, Protocol::Http1).map_err(Error::failed)?;
        // The same threads as the server's, under a name of their own, so that a profile tells them apart.
        let runtime = millrace_gateway::runtime(cores(), "clients").map_err(Error::failed)?;
        Ok(Clients { runtime, client })
    }

    /// Asks once.
    pub fn ask(&self, request: Request) -> Result<Answer, Error> {
        self.runtime
            .block_on(self.client.send(request))
            .map_err(Error::failed)?
            .checked()
            .map_err(Error::failed)
    }

    /// Asks a query once.
    pub fn query(&self, request: Request) -> Result<Found, Error> {
        let answer = self.ask(request)?.json();
        let matches = answer.pointer("/root/fields/totalCount").and_then(serde_json::Value::as_u64);
        let hits = answer.pointer("/root/children").and_then(|hits| hits.as_array()).map_or(0, Vec::len);
        match matches {
            Some(matches) => Ok(Found { matches, hits }),
            None => Err(Error::failed(format!("a query was answered with {answer}"))),
        }
    }

    /// `count` clients ask, each as soon as its last answer has come, for so long; requests are numbered from `first` on.
    /// Returns also the number of the next request.
    pub fn at_once(
        &self,
        count: usize,
        how_long: Duration,
        first: u64,
        requests: &Requests,
    ) -> Result<(Seen, u64), Error> {
        let next = Arc::new(AtomicU64::new(first));
        let began = Instant::now();
        let seen = self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for _ in 0..count {
                let (client, next, requests) = (self.client.clone(), Arc::clone(&next), Arc::clone(requests));
                tasks.spawn(async move {
                    let mut seen = Seen::default();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let (time, refused) = until_taken(&client, &|| requests(number)).await?;
                        seen.times.add(time);
                        seen.refused += refused;
                        if began.elapsed() >= how_long {
                            return Ok::<Seen, Error>(seen);
                        }
                    }
                });
            }
            let mut all = Seen::default();
            while let Some(seen) = tasks.join_next().await {
                all.merge(&seen.map_err(Error::failed)??);
            }
            Ok::<Seen, Error>(all)
        })?;
        Ok((Seen { lasted: began.elapsed(), ..seen }, next.load(Ordering::Relaxed)))
    }

    /// Requests go out at a rate, whether those before are answered or not; a request's time counts from when it was due.
    pub fn at_rate(
        &self,
        per_second: f64,
        how_long: Duration,
        first: u64,
        requests: &Requests,
    ) -> Result<Paced, Error> {
        let count = (per_second * how_long.as_secs_f64()).ceil() as u64;
        let sending = || {
            ThreadClass::Prompt.enter();
            self.send_when_due(per_second, count, first, requests)
        };
        std::thread::scope(|scope| {
            let failed = |_| Err(Error::failed("the thread that sends ended before its time"));
            scope.spawn(sending).join().unwrap_or_else(failed)
        })
    }

    fn send_when_due(
        &self,
        per_second: f64,
        count: u64,
        first: u64,
        requests: &Requests,
    ) -> Result<Paced, Error> {
        let mut tasks: JoinSet<Result<Answered, Error>> = JoinSet::new();
        let mut paced = Paced::default();
        let began = Instant::now();
        for number in 0..count {
            let due = began + Duration::from_secs_f64(number as f64 / per_second);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let (client, requests) = (self.client.clone(), Arc::clone(requests));
            let put = async move {
                let late = due.elapsed();
                let (_, refused) = until_taken(&client, &|| requests(first + number)).await?;
                Ok(Answered { late, time: due.elapsed(), refused })
            };
            tasks.spawn_on(put, self.runtime.handle());
            while let Some(ended) = tasks.try_join_next() {
                paced.add(&ended.map_err(Error::failed)??);
            }
        }
        while let Some(ended) = self.runtime.block_on(tasks.join_next()) {
            paced.add(&ended.map_err(Error::failed)??);
        }
        paced.seen.lasted = began.elapsed();
        Ok(paced)
    }
}

/// What clients saw that send at a rate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paced {
    /// Times count from when a request was due.
    pub seen: Seen,
    /// How long after they were due requests were begun: what the clients themselves waited for a core.
    pub late: Samples,
}

struct Answered {
    late: Duration,
    time: Duration,
    refused: u64,
}

impl Paced {
    fn add(&mut self, answered: &Answered) {
        self.late.add(answered.late);
        self.seen.times.add(answered.time);
        self.seen.refused += answered.refused;
    }
}

impl Seen {
    /// Requests answered well in a second.
    pub fn rate(&self) -> f64 {
        self.times.len() as f64 / self.lasted.as_secs_f64()
    }

    /// Adds what others saw, before or after.
    pub fn merge(&mut self, other: &Seen) {
        self.times.merge(&other.times);
        self.refused += other.refused;
        self.lasted += other.lasted;
    }
}

/// Asks until the server takes the request; the time is that of the whole.
async fn until_taken(client: &Client, request: &(dyn Fn() -> Request + Send + Sync)) -> Outcome {
    let began = Instant::now();
    let mut refused = 0;
    loop {
        let answer = client.send(request()).await.map_err(Error::failed)?;
        if answer.status.as_u16() != TOO_MANY {
            answer.checked().map_err(Error::failed)?;
            return Ok((began.elapsed(), refused));
        }
        refused += 1;
        tokio::time::sleep(PAUSE).await;
    }
}
