//! Clients of a server: in a closed loop, or at a steady rate.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millrace_client::{ClientAnswer, HttpProtocol, NodeClient, OutgoingRequest};
use millrace_env::ThreadClass;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::Error;
use crate::measure::TimeSamples;
use crate::node::cores;

/// Clients of one server, with threads of their own.
pub(crate) struct HttpClients {
    runtime: Runtime,
    /// Clients, each of an address of its own.
    clients: Vec<NodeClient>,
}

/// Observations of clients.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientLatencies {
    /// Times of successful requests.
    pub times: TimeSamples,
    /// Number of requests that were refused because of too much load (429), each tried again.
    pub refused: u64,
    /// Time from the first request to the last answer.
    pub lasted: Duration,
}

/// Answer to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueryReply {
    /// Number of matching documents.
    pub matches: u64,
    /// Number of hits and groups in the answer.
    pub hits: usize,
}

/// Time of one successful request, and the number of its refusals.
type Outcome = Result<(Duration, u64), Error>;

/// Function that creates the request with a number.
pub(crate) type Requests = Arc<dyn Fn(u64) -> OutgoingRequest + Send + Sync>;

/// Function that says whether the server refused a request because of too much load: it is tried again. An
/// error ends the benchmark.
pub(crate) type IsRefused = fn(&ClientAnswer) -> Result<bool, Error>;

const TOO_MANY: u16 = 429;
/// Pause of a client after a 429 that does not say how long to wait.
const PAUSE: Duration = Duration::from_millis(20);

impl HttpClients {
    /// Creates clients of the server at `url`, each with a connection of its own.
    pub fn new(url: &str) -> Result<Self, Error> {
        let client = NodeClient::new(url, HttpProtocol::Http1).map_err(Error::failed)?;
        HttpClients::of(vec![client])
    }

    /// The same from these loopback addresses, in turns: the server takes them for different clients.
    pub fn from_addresses(url: &str, from: &[Ipv4Addr]) -> Result<Self, Error> {
        let client = |from: &Ipv4Addr| NodeClient::from_address(url, HttpProtocol::Http1, (*from).into());
        HttpClients::of(from.iter().map(client).collect::<Result<_, _>>().map_err(Error::failed)?)
    }

    fn of(clients: Vec<NodeClient>) -> Result<Self, Error> {
        // The same threads as the server's, with their own name, so that a profile distinguishes them.
        let runtime = millrace_gateway::runtime(cores(), "clients").map_err(Error::failed)?;
        Ok(HttpClients { runtime, clients })
    }

    /// Sends one request.
    pub fn ask(&self, request: OutgoingRequest) -> Result<ClientAnswer, Error> {
        self.runtime
            .block_on(self.clients[0].send(request))
            .map_err(Error::failed)?
            .checked()
            .map_err(Error::failed)
    }

    /// Sends one query.
    pub fn query(&self, request: OutgoingRequest) -> Result<QueryReply, Error> {
        let answer = self.ask(request)?.json();
        let matches = answer.pointer("/root/fields/totalCount").and_then(serde_json::Value::as_u64);
        let hits = answer.pointer("/root/children").and_then(|hits| hits.as_array()).map_or(0, Vec::len);
        match matches {
            Some(matches) => Ok(QueryReply { matches, hits }),
            None => Err(Error::failed(format!("a query was answered with {answer}"))),
        }
    }

    /// Runs `count` clients in a closed loop for this time; requests are numbered from `first` on. Returns
    /// also the number of the next request.
    pub fn at_once(
        &self,
        count: usize,
        how_long: Duration,
        first: u64,
        requests: &Requests,
    ) -> Result<(ClientLatencies, u64), Error> {
        self.at_once_until_taken(count, how_long, first, requests, is_too_many)
    }

    /// [`at_once`](Self::at_once), for servers that refuse requests also by other answers than 429.
    pub fn at_once_until_taken(
        &self,
        count: usize,
        how_long: Duration,
        first: u64,
        requests: &Requests,
        is_refused: IsRefused,
    ) -> Result<(ClientLatencies, u64), Error> {
        let next = Arc::new(AtomicU64::new(first));
        let began = Instant::now();
        let seen = self.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for client in self.clients.iter().cycle().take(count) {
                let (client, next, requests) = (client.clone(), Arc::clone(&next), Arc::clone(requests));
                tasks.spawn(async move {
                    let mut seen = ClientLatencies::default();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let (time, refused) = until_taken(&client, &|| requests(number), is_refused).await?;
                        seen.times.add(time);
                        seen.refused += refused;
                        if began.elapsed() >= how_long {
                            return Ok::<ClientLatencies, Error>(seen);
                        }
                    }
                });
            }
            let mut all = ClientLatencies::default();
            while let Some(seen) = tasks.join_next().await {
                all.merge(&seen.map_err(Error::failed)??);
            }
            Ok::<ClientLatencies, Error>(all)
        })?;
        Ok((ClientLatencies { lasted: began.elapsed(), ..seen }, next.load(Ordering::Relaxed)))
    }

    /// Sends requests at a rate, independent of the answers; a request's time counts from when it was due.
    pub fn at_rate(
        &self,
        per_second: f64,
        how_long: Duration,
        first: u64,
        requests: &Requests,
    ) -> Result<PacedLatencies, Error> {
        let count = (per_second * how_long.as_secs_f64()).ceil() as u64;
        let paced = PacedRequests { per_second, first, requests, is_refused: is_too_many };
        self.promptly(&paced, |number| number < count)
    }

    /// [`at_rate`](Self::at_rate) until it is over, for servers that refuse requests also by other answers
    /// than 429. Returns also the number of the next request.
    pub fn at_rate_until(
        &self,
        over: &AtomicBool,
        paced: &PacedRequests<'_>,
    ) -> Result<(PacedLatencies, u64), Error> {
        let seen = self.promptly(paced, |_| !over.load(Ordering::Relaxed))?;
        let next = paced.first + seen.seen.times.len();
        Ok((seen, next))
    }

    /// Sends requests on a thread that is not late, for as long as `is_more` holds for the next one.
    fn promptly(
        &self,
        paced: &PacedRequests<'_>,
        is_more: impl Fn(u64) -> bool + Send,
    ) -> Result<PacedLatencies, Error> {
        let sending = || {
            ThreadClass::Prompt.enter();
            self.send_when_due(paced, is_more)
        };
        std::thread::scope(|scope| {
            let failed = |_| Err(Error::failed("the thread that sends ended before its time"));
            scope.spawn(sending).join().unwrap_or_else(failed)
        })
    }

    fn send_when_due(
        &self,
        &PacedRequests { per_second, first, requests, is_refused }: &PacedRequests<'_>,
        is_more: impl Fn(u64) -> bool,
    ) -> Result<PacedLatencies, Error> {
        let mut tasks: JoinSet<Result<ClientReply, Error>> = JoinSet::new();
        let mut paced = PacedLatencies::default();
        let began = Instant::now();
        for (number, client) in (0_u64..).zip(self.clients.iter().cycle()) {
            if !is_more(number) {
                break;
            }
            let due = began + Duration::from_secs_f64(number as f64 / per_second);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let (client, requests) = (client.clone(), Arc::clone(requests));
            let put = async move {
                let late = due.elapsed();
                let (_, refused) = until_taken(&client, &|| requests(first + number), is_refused).await?;
                Ok(ClientReply { late, time: due.elapsed(), refused })
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

/// Requests that are sent at a rate.
pub(crate) struct PacedRequests<'a> {
    /// Requests per second.
    pub per_second: f64,
    /// Number of the first one.
    pub first: u64,
    /// The requests.
    pub requests: &'a Requests,
    /// True for answers after which a request is sent again.
    pub is_refused: IsRefused,
}

/// Observations of clients that send at a rate.
#[derive(Debug, Clone, Default)]
pub(crate) struct PacedLatencies {
    /// Times count from when a request was due.
    pub seen: ClientLatencies,
    /// Delays of requests after they were due: the clients' own waits for a core.
    pub late: TimeSamples,
}

struct ClientReply {
    late: Duration,
    time: Duration,
    refused: u64,
}

impl PacedLatencies {
    fn add(&mut self, answered: &ClientReply) {
        self.late.add(answered.late);
        self.seen.times.add(answered.time);
        self.seen.refused += answered.refused;
    }
}

impl ClientLatencies {
    /// Successful requests per second.
    pub fn rate(&self) -> f64 {
        self.times.len() as f64 / self.lasted.as_secs_f64()
    }

    /// Adds other observations, before or after.
    pub fn merge(&mut self, other: &ClientLatencies) {
        self.times.merge(&other.times);
        self.refused += other.refused;
        self.lasted += other.lasted;
    }
}

fn is_too_many(answer: &ClientAnswer) -> Result<bool, Error> {
    Ok(answer.status.as_u16() == TOO_MANY)
}

/// Repeats a request until the server accepts it; returns the total time.
async fn until_taken(
    client: &NodeClient,
    request: &(dyn Fn() -> OutgoingRequest + Send + Sync),
    is_refused: IsRefused,
) -> Outcome {
    let began = Instant::now();
    let mut refused = 0;
    loop {
        let answer = client.send(request()).await.map_err(Error::failed)?;
        if !is_refused(&answer)? {
            answer.checked().map_err(Error::failed)?;
            return Ok((began.elapsed(), refused));
        }
        refused += 1;
        let after = answer.headers.get("retry-after").and_then(|after| after.to_str().ok()?.parse().ok());
        tokio::time::sleep(after.map_or(PAUSE, Duration::from_secs)).await;
    }
}
