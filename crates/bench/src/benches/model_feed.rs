//! Feeding with an embedder: mails over HTTP with vectors by MiniLM, compared with the same texts on the
//! model alone; and concurrent queries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::Method;
use millrace_client::OutgoingRequest;
use millrace_embedding::{EmbeddedText, TextEmbedder};
use millrace_model::{ModelCaller, ModelScheduler, SchedulerOptions, SequencePurpose};
use millrace_tensor::TensorType;

use super::{Benchmark, Settings};
use crate::clients::{ClientLatencies, HttpClients, Requests};
use crate::embedders;
use crate::mailbox::{self, BenchMail};
use crate::node::LocalNode;
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "model --feed",
    about: "mails fed with an embedder beside the same texts on the model alone, and queries with a text of their own meanwhile",
    run,
};

/// Number of mails that are fed, repeatedly if time allows.
const MAILS: u64 = 20_000;
/// Number of concurrent puts, and of callers of the model alone.
const FEEDERS: usize = 64;
const TURNS: u32 = 4;
/// Number of mails that queries search, in a group of their own.
const SEARCHED: u64 = 200;
const SEARCHED_GROUP: &str = "asked";
const QUESTIONS: [&str; 4] = [
    "when do we have to be at the station",
    "money that we have not received",
    "draft of the roadmap with last week's edits",
    "who has to cover the costs of the water damage",
];

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    let Some(model) = embedders::model("minilm") else {
        report.note("skipped: MiniLM is not there; scripts/models minilm makes it");
        return Ok(report);
    };
    let mails = Arc::new(mailbox::mails(settings.sized(MAILS) as usize));
    let scheduler = ModelScheduler::new(SchedulerOptions::default()).map_err(Error::failed)?;
    let embedder = embedders::embedder(&model, &scheduler)?;
    let directory = settings.workplace()?;
    let node = LocalNode::start_with(directory.path(), embedders::application(&model)?)?;
    let (feeders, asking) = (HttpClients::new(node.url())?, HttpClients::new(node.url())?);
    let puts = puts(&mails);
    for (number, mail) in (0..SEARCHED).zip(mails.iter()) {
        asking.ask(mailbox::put(mail, SEARCHED_GROUP, number))?;
    }
    let time = settings.time_per_case;
    let mut seen = FeedTurns::default();
    let mut fed = 0;
    for _ in 0..TURNS {
        seen.alone += on_the_model(&embedder, &mails, time)?;
        let (feed, next) = feeders.at_once(FEEDERS, time, fed, &puts)?;
        seen.feed.merge(&feed);
        seen.queries.merge(&asking.at_once(1, time, 0, &queries())?.0);
        let (queries, next) = beside(&feeders, &asking, time, next, &puts)?;
        seen.queries_beside.merge(&queries);
        fed = next;
    }
    let queries = &seen.queries;
    report.push(
        Figure::new("feeding", "throughput", seen.feed.rate(), FigureUnit::PerSecond("texts"))
            .beside("the model saturated", seen.alone / f64::from(TURNS))
            .at_least(0.9),
    );
    report.push(Figure::new("queries alone", "p50", queries.times.median(), FigureUnit::Seconds));
    report.push(
        Figure::new("queries while feeding", "p50", seen.queries_beside.times.median(), FigureUnit::Seconds)
            .beside("alone", queries.times.median()),
    );
    report.push(
        Figure::new(
            "queries while feeding",
            "p95",
            seen.queries_beside.times.quantile(0.95),
            FigureUnit::Seconds,
        )
        .beside("alone", queries.times.quantile(0.95))
        .at_most(1.5),
    );
    report.note(format!(
        "{fed} mails were fed, {FEEDERS} at a time ({} times one was refused and tried again); queries ask for the nearest of {SEARCHED} mails, one at a time",
        seen.feed.refused
    ));
    Ok(report)
}

/// Sums over all turns.
#[derive(Default)]
struct FeedTurns {
    /// Texts per second on the model alone, summed up.
    alone: f64,
    feed: ClientLatencies,
    queries: ClientLatencies,
    queries_beside: ClientLatencies,
}

/// Texts per second of the model, with as many callers as feed.
fn on_the_model(embedder: &TextEmbedder, mails: &[BenchMail], time: Duration) -> Result<f64, Error> {
    let target = TensorType::parse("tensor<bfloat16>(x[384])").map_err(Error::failed)?;
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    let work = || -> Result<u32, Error> {
        let mut count = 0;
        while began.elapsed() < time {
            let mail = &mails[next.fetch_add(1, Ordering::Relaxed) % mails.len()];
            let caller = ModelCaller::without_deadline(SequencePurpose::Feed);
            embedder.embed(EmbeddedText::One(&mail.text), &target, &[], &caller).map_err(Error::failed)?;
            count += 1;
        }
        Ok(count)
    };
    let count: u32 = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..FEEDERS).map(|_| scope.spawn(work)).collect();
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap_or_else(|_| Err(Error::failed("a caller ended in a panic"))))
            .sum::<Result<u32, Error>>()
    })?;
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}

/// Runs queries, one at a time, while mails are fed; returns also the number of the next mail.
fn beside(
    feeders: &HttpClients,
    asking: &HttpClients,
    time: Duration,
    first: u64,
    puts: &Requests,
) -> Result<(ClientLatencies, u64), Error> {
    std::thread::scope(|scope| {
        let feeding = scope.spawn(|| feeders.at_once(FEEDERS, time, first, puts));
        let queries = asking.at_once(1, time, 0, &queries());
        let feeding =
            feeding.join().unwrap_or_else(|_| Err(Error::failed("the thread that feeds ended in a panic")));
        Ok((queries?.0, feeding?.1))
    })
}

/// Puts of the mails, in order and then from the first again.
fn puts(mails: &Arc<Vec<BenchMail>>) -> Requests {
    let mails = Arc::clone(mails);
    Arc::new(move |number| mailbox::put(&mails[number as usize % mails.len()], "fed", number))
}

/// Queries for the mails nearest to a question.
fn queries() -> Requests {
    Arc::new(|number| {
        let yql = "select documentid from mail where {targetHits: 10}nearestNeighbor(embedding, embedding)";
        // A different text each time: a recently embedded one is not embedded again.
        let question = format!("{} {number}", QUESTIONS[number as usize % QUESTIONS.len()]);
        OutgoingRequest::new(Method::GET, "/search/")
            .parameter("yql", yql)
            .parameter("text", &question)
            .parameter("input.query(embedding)", "embed(minilm, @text)")
            .parameter("ranking", "semantic")
            .parameter("streaming.groupname", SEARCHED_GROUP)
            .parameter("timeout", "60s")
    })
}
