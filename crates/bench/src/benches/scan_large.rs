//! Large group that is whole on one node, or divided over two and over four, each of which has a store of its
//! own and searches its part of the group on one thread. Their messages are encoded and decoded, but not
//! transmitted. The group is divided into parts as in a cluster, and placement assigns the parts to nodes:
//! the unevenness of the distribution is included in the figure.
//!
//! The peer is one node that has all of the group: its rate times the number of nodes is the limit. If the
//! machine has fewer cores than there are nodes, the nodes run one after another, and of each step the
//! slowest counts: the case says so.

use std::collections::HashSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use millrace_bucket::{BucketId, DividedGroup};
use millrace_cluster::{
    ClusterState, ClusterVersion, DividedGroups, Incarnation, NodeEntry, NodeHierarchy, NodeKey, NodeState,
    ReplicaDistribution,
};
use millrace_document::{DocumentGroup, DocumentId};
use millrace_result::PartialResult;
use millrace_search::{
    GatheringNext, MergedOutcome, SearchGathering, ShareReply, ShareRequest, ShareSession,
};
use millrace_store::ViewScope;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Benchmark, Settings};
use crate::application::{self, DocumentMaker};
use crate::engine::{RepeatableQuery, SearchEngine};
use crate::load::load;
use crate::node::cores;
use crate::{BenchReport, Error, Figure, FigureUnit, measure};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "scan-large",
    about: "a group of 1M mails on one, two and four nodes of one core each, beside a single node times their number",
    run,
};

const MAILS: u64 = 1_000_000;
const MAIL_BYTES: usize = 128;
const GROUP: u64 = 0;
/// Bits of the buckets of the divided group: 512 of them, as in a cluster.
const PART_BITS: u8 = BucketId::GROUP_BITS + 9;
/// Bits of undivided buckets, of which there are none here.
const BITS: u8 = 10;
const SHARE_MIN: f64 = 0.85;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let directory = settings.workplace()?;
    let mails = settings.sized(MAILS).max(1);
    let whole = LargeNode::with(&directory.path().join("whole"), Vec::new(), mails)?;
    let (usual, rare) = (application::word(30), application::word(300));
    let words = format!("select * from mail where text contains \"{usual}\" or text contains \"{rare}\"");
    let counted = "select * from mail where date > 1500000000 limit 0 | all(group(date / 100000000) each(output(count())))";
    let mut cases = Vec::new();
    for (name, yql) in [("two words, bm25", words.as_str()), ("a range of dates, grouped", counted)] {
        let query = whole.engine.prepare(&[
            ("yql", yql),
            ("streaming.groupname", &application::group_name(GROUP)),
            ("presentation.summary", "short"),
            ("timeout", "60s"),
        ])?;
        let expected = whole.engine.run(&query)?.result;
        let one = gathered(std::slice::from_ref(&whole), &query, settings.time_per_case, &expected)?;
        cases.push(ScanCase { name, query, expected, one });
    }
    drop(whole);
    let mut report = BenchReport::new(BENCH.name);
    for count in [2, 4] {
        let parts = dealt_out(count)?;
        let node = |(number, parts)| {
            LargeNode::with(&directory.path().join(format!("{number} of {count}")), parts, mails)
        };
        let nodes = parts.into_iter().enumerate().map(node).collect::<Result<Vec<LargeNode>, Error>>()?;
        for ScanCase { name, query, expected, one } in &cases {
            let several = gathered(&nodes, query, settings.time_per_case, expected)?;
            let how = if nodes.len() > cores() { ", one after another: computed" } else { "" };
            let case = format!("{mails} mails, {name}, {count} nodes{how}");
            let rate = |seconds: f64| mails as f64 / seconds;
            report.push(
                Figure::new(&case, "rate", rate(several), FigureUnit::PerSecond("documents"))
                    .beside(format!("{count} times one node"), rate(*one) * f64::from(count))
                    .at_least(SHARE_MIN),
            );
        }
    }
    for ScanCase { name, one, .. } in &cases {
        report.push(Figure::new(
            format!("{mails} mails, {name}, 1 node"),
            "median",
            *one,
            FigureUnit::Seconds,
        ));
    }
    report.note(format!("{} cores; no network between the nodes", cores()));
    Ok(report)
}

/// A query, with its result on one node.
struct ScanCase {
    name: &'static str,
    query: RepeatableQuery,
    expected: PartialResult,
    /// Median of its times, in seconds.
    one: f64,
}

/// A node with a store of its own.
struct LargeNode {
    engine: SearchEngine,
    scope: ViewScope,
}

impl LargeNode {
    /// Creates a node with these parts of the group, or with the whole group if there are none.
    fn with(directory: &Path, parts: Vec<BucketId>, mails: u64) -> Result<Self, Error> {
        let engine = SearchEngine::open(directory, None)?;
        let group = DocumentGroup::Name(application::group_name(GROUP));
        if !parts.is_empty() {
            let low = group.location_bits().unwrap_or_default();
            engine
                .store()
                .divide(BITS, &[DividedGroup { location: low, bits: PART_BITS }])
                .map_err(Error::failed)?;
        }
        let own: HashSet<BucketId> = parts.iter().copied().collect();
        let is_own =
            |id: &DocumentId| own.is_empty() || own.contains(&BucketId::new(PART_BITS, id.location().bits()));
        let mut maker = DocumentMaker::new()?;
        let all = (0..mails).map(|name| maker.mail(GROUP, name, MAIL_BYTES));
        load(engine.store(), all.filter(|mail| mail.as_ref().map_or(true, |mail| is_own(&mail.id))))?;
        let scope = match parts.is_empty() {
            true => ViewScope::Groups(vec![group]),
            false => ViewScope::GroupsIn(vec![group], parts),
        };
        Ok(LargeNode { engine, scope })
    }
}

/// Parts of the group on each of `nodes` nodes, by the state of a cluster of them.
fn dealt_out(nodes: u16) -> Result<Vec<Vec<BucketId>>, Error> {
    let group = DocumentGroup::Name(application::group_name(GROUP));
    let low = group.location_bits().unwrap_or_default();
    let entry = |key: u16| NodeEntry {
        name: key.to_string(),
        address: String::new(),
        state: NodeState::Up,
        capacity: 1.0,
        incarnation: Incarnation::new(1),
        lease_ended: false,
    };
    let layout = NodeHierarchy::Nodes((0..nodes).map(NodeKey).collect());
    let distribution = ReplicaDistribution { bits: BITS, redundancy: 1, layout };
    let entries = (0..nodes).map(|key| (NodeKey(key), entry(key))).collect();
    let state = ClusterState::new(ClusterVersion::new(1), entries, distribution).map_err(Error::failed)?;
    let state = state.with_divided_groups(
        DividedGroups::default().with([DividedGroup { location: low, bits: PART_BITS }]),
    );
    let mut parts = vec![Vec::new(); usize::from(nodes)];
    for bucket in state.buckets_of(&group) {
        for NodeKey(node) in state.ideal(bucket) {
            parts[usize::from(node)].push(bucket);
        }
    }
    Ok(parts)
}

/// Median time of a query over nodes.
fn gathered(
    nodes: &[LargeNode],
    query: &RepeatableQuery,
    budget: Duration,
    expected: &PartialResult,
) -> Result<f64, Error> {
    let mut samples = measure::TimeSamples::new();
    let mut left = 20_u32;
    let begun = Instant::now();
    while left > 0 || begun.elapsed() < budget {
        left = left.saturating_sub(1);
        let (took, found) = gather(nodes, query)?;
        let same = found.total_count == expected.total_count
            && format!("{:?}", found.groupings) == format!("{:?}", expected.groupings)
            && found.hits.iter().map(|hit| hit.relevance).eq(expected.hits.iter().map(|hit| hit.relevance));
        if !same {
            return Err(Error::failed(format!("{} nodes find something else than one", nodes.len())));
        }
        samples.add(took);
    }
    Ok(samples.median())
}

/// Queries all nodes until there is a result; returns the time as if each node had a core of its own.
fn gather(nodes: &[LargeNode], query: &RepeatableQuery) -> Result<(Duration, PartialResult), Error> {
    let mut sessions: Vec<(&LargeNode, Option<ShareSession>)> =
        nodes.iter().map(|node| (node, None)).collect();
    let side_by_side = nodes.len() <= cores();
    let mut took = Duration::ZERO;
    let mut gathering = SearchGathering::new(vec![query.search()], nodes.len());
    let mut replies = Vec::new();
    loop {
        let begun = Instant::now();
        let next = gathering.next(replies).map_err(Error::failed)?;
        took += begun.elapsed();
        let asks = match next {
            GatheringNext::Found(outcomes) => {
                let begun = Instant::now();
                let merged = MergedOutcome::of(outcomes, query.search().plan());
                return Ok((took + begun.elapsed(), merged.result));
            }
            GatheringNext::Ask(asks) => asks,
        };
        let answer = |((node, session), ask): (&mut (&LargeNode, Option<ShareSession>), ShareRequest)| {
            let begun = Instant::now();
            let mut own = match session.take() {
                Some(session) => session,
                None => node.engine.session(query, &node.scope)?,
            };
            let reply: ShareReply =
                travelled(&own.answer(travelled(&ask)?, &SearchEngine::deadline()).map_err(Error::failed)?)?;
            *session = Some(own);
            Ok::<_, Error>((begun.elapsed(), reply))
        };
        let begun = Instant::now();
        let answers: Vec<(Duration, ShareReply)> = if side_by_side {
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

/// A message as received.
fn travelled<T: DeserializeOwned>(value: &impl Serialize) -> Result<T, Error> {
    let bytes = millrace_codec::encode(value, 0).map_err(Error::failed)?;
    millrace_codec::decode(&bytes).map_err(Error::failed)
}
