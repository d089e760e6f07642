//! A large group that lies whole on one node, or divided on two and on four, each of which searches what it has of it on one thread; what they
//! say to each other is made into bytes and back, and travels no further. The group is divided into parts as a cluster does it, and placement says
//! which node has which part: how unevenly it deals them out is in the figure.
//!
//! The peer is one node that has all of the group: so many times its rate is the limit. Where the machine has fewer cores than there are
//! nodes, the nodes run one after another, and of each step the slowest counts: the case says so.

use std::thread;
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_document::Group;
use millrace_placement::{Members, Node, Topology};
use millrace_search::{Ask, Gathering, Next, Reply, Session};
use millrace_store::ViewScope;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Bench, Settings};
use crate::application::{self, Maker};
use crate::engine::{Engine, Prepared};
use crate::load::load;
use crate::node::cores;
use crate::{Error, Figure, Report, Unit, measure};

pub(super) const BENCH: Bench = Bench {
    name: "scan-large",
    about: "a group of 1M mails on one, two and four nodes of one core each, beside so many times one node",
    run,
};

const MAILS: u64 = 1_000_000;
const MAIL_BYTES: usize = 128;
/// The buckets of the divided group use so many bits: 128 of them, as in a cluster.
const PART_BITS: u8 = BucketId::GROUP_BITS + 7;
/// Buckets of no divided group, of which there is none here.
const BITS: u8 = 10;
const SHARE_MIN: f64 = 0.85;

fn run(settings: &Settings) -> Result<Report, Error> {
    let directory = settings.workplace()?;
    let engine = Engine::open(directory.path(), None)?;
    let mut maker = Maker::new()?;
    let mails = settings.sized(MAILS).max(1);
    load(engine.store(), (0..mails).map(|name| maker.mail(0, name, MAIL_BYTES)))?;
    let (usual, rare) = (application::word(30), application::word(300));
    let words = format!("select * from mail where text contains \"{usual}\" or text contains \"{rare}\"");
    let counted = "select * from mail where date > 1500000000 limit 0 | all(group(date / 100000000) each(output(count())))";
    let group = application::group_name(0);
    let mut whole = Vec::new();
    for (name, yql) in [("two words, bm25", words.as_str()), ("a range of dates, grouped", counted)] {
        let query = engine.prepare(&[
            ("yql", yql),
            ("streaming.groupname", group.as_str()),
            ("presentation.summary", "short"),
            ("timeout", "60s"),
        ])?;
        let expected = engine.run(&query)?.result;
        let scopes = [ViewScope::Groups(vec![Group::Name(group.clone())])];
        let one = gathered(&engine, &query, &scopes, settings.time_per_case, &expected)?;
        whole.push((name, query, expected, one));
    }
    let low = Group::Name(group).location_bits().unwrap_or_default();
    engine.store().divide(BITS, &[(low, PART_BITS)]).map_err(Error::failed)?;
    let mut report = Report::new(BENCH.name);
    for (name, query, expected, one) in whole {
        for nodes in [2, 4] {
            let scopes = scopes(low, nodes)?;
            let several = gathered(&engine, &query, &scopes, settings.time_per_case, &expected)?;
            let how = if usize::from(nodes) > cores() { ", one after another: computed" } else { "" };
            let case = format!("{mails} mails, {name}, {nodes} nodes{how}");
            let rate = |seconds: f64| mails as f64 / seconds;
            report.push(
                Figure::new(&case, "rate", rate(several), Unit::PerSecond("documents"))
                    .beside(format!("{nodes} times one node"), rate(one) * f64::from(nodes))
                    .at_least(SHARE_MIN),
            );
        }
        report.push(Figure::new(format!("{mails} mails, {name}, 1 node"), "median", one, Unit::Seconds));
    }
    report.note(format!("{} cores; no network between the nodes", cores()));
    Ok(report)
}

/// What each of so many nodes has of the group.
fn scopes(low: u32, nodes: u16) -> Result<Vec<ViewScope>, Error> {
    let members = Members::Nodes((0..nodes).map(|key| Node { key, capacity: 1.0 }).collect());
    let root = millrace_placement::Group { key: 0, members };
    let ideal = Topology::new(1, root).map_err(Error::failed)?.ideal(|_| true);
    let mut parts = vec![Vec::new(); usize::from(nodes)];
    for part in 0..1_u64 << (PART_BITS - BucketId::GROUP_BITS) {
        let bucket = BucketId::new(PART_BITS, part << BucketId::GROUP_BITS | u64::from(low));
        for node in ideal.nodes(bucket) {
            parts[usize::from(node)].push(bucket);
        }
    }
    let group = Group::Name(application::group_name(0));
    Ok(parts.into_iter().map(|parts| ViewScope::GroupsIn(vec![group.clone()], parts)).collect())
}

/// The median time of a query over nodes that have these.
fn gathered(
    engine: &Engine,
    query: &Prepared,
    scopes: &[ViewScope],
    budget: Duration,
    expected: &millrace_result::PartialResult,
) -> Result<f64, Error> {
    let mut samples = measure::Samples::new();
    let mut left = 20_u32;
    let begun = Instant::now();
    while left > 0 || begun.elapsed() < budget {
        left = left.saturating_sub(1);
        let (took, found) = gather(engine, query, scopes)?;
        let same = found.total_count == expected.total_count
            && format!("{:?}", found.groupings) == format!("{:?}", expected.groupings)
            && found.hits.iter().map(|hit| hit.relevance).eq(expected.hits.iter().map(|hit| hit.relevance));
        if !same {
            return Err(Error::failed(format!("{} nodes find something else than one", scopes.len())));
        }
        samples.add(took);
    }
    Ok(samples.median())
}

/// Asks all nodes until there is a result; how long that took, as if each node had a core of its own.
fn gather(
    engine: &Engine,
    query: &Prepared,
    scopes: &[ViewScope],
) -> Result<(Duration, millrace_result::PartialResult), Error> {
    let mut sessions: Vec<(&ViewScope, Option<Session>)> = scopes.iter().map(|scope| (scope, None)).collect();
    let side_by_side = scopes.len() <= cores();
    let mut took = Duration::ZERO;
    let mut gathering = Gathering::new(vec![query.search()], scopes.len());
    let mut replies = Vec::new();
    loop {
        let begun = Instant::now();
        let next = gathering.next(replies).map_err(Error::failed)?;
        took += begun.elapsed();
        let asks = match next {
            Next::Found(mut outcomes) => {
                let outcome = outcomes.pop().ok_or_else(|| Error::failed("there is no outcome"))?;
                return Ok((took, outcome.result));
            }
            Next::Ask(asks) => asks,
        };
        let answer = |((scope, session), ask): (&mut (&ViewScope, Option<Session>), Ask)| {
            let begun = Instant::now();
            let mut own = match session.take() {
                Some(session) => session,
                None => engine.session(query, scope)?,
            };
            let reply: Reply =
                travelled(&own.answer(travelled(&ask)?, &Engine::deadline()).map_err(Error::failed)?)?;
            *session = Some(own);
            Ok::<_, Error>((begun.elapsed(), reply))
        };
        let begun = Instant::now();
        let answers: Vec<(Duration, Reply)> = if side_by_side {
            thread::scope(|scope| {
                let asked = sessions.iter_mut().zip(asks).map(|of_node| scope.spawn(move || answer(of_node)));
                let asked: Vec<_> = asked.collect();
                let joined =
                    asked.into_iter().map(|asked| asked.join().map_err(|_| Error::failed("a node broke"))?);
                joined.collect::<Result<_, _>>()
            })?
        } else {
            sessions.iter_mut().zip(asks).map(answer).collect::<Result<_, _>>()?
        };
        let slowest = answers.iter().map(|(took, _)| *took).max().unwrap_or_default();
        took += if side_by_side { begun.elapsed() } else { slowest };
        replies = answers.into_iter().map(|(_, reply)| reply).collect();
    }
}

/// A message as it arrives.
fn travelled<T: DeserializeOwned>(value: &impl Serialize) -> Result<T, Error> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).map_err(Error::failed)?;
    ciborium::from_reader(&bytes[..]).map_err(Error::failed)
}
