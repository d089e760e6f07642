//! The memory that the results of a query take, by what takes it: each kind has a bound, and is refused
//! beyond it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_column::{MemoryView, View};
use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{Fields, field, plan, schema};
use millrace_plan::{
    LeafId, Plan, PlanNode, PlannedCollapse, Predicate, QueryMemory, QueryMemoryError, QueryMemoryLedger,
    SortBy, SortColumn, WordPattern, groupings,
};
use millrace_query::CollapseOptions;
use millrace_ranking::CompiledProfile;
use millrace_schema::{
    DocumentSummary, RankPhase, RankProfile, Schema, SourcePosition, SourcedText, SummaryField, SummaryMode,
};
use millrace_search::{Error, GatheringNext, PreparedSearch, SearchDeadline, SearchGathering, ShareSession};
use millrace_tensor::{Tensor, TensorType};

/// Documents, in chunks of two.
const DOCUMENTS: usize = 4;

fn sourced(text: &str) -> SourcedText<String> {
    SourcedText { value: text.to_owned(), position: SourcePosition::default() }
}

/// A schema whose only profile has this first phase, if any, and whose summary is empty.
fn test_schema(first_phase: &str, change: impl FnOnce(&mut RankProfile)) -> Arc<Schema> {
    let tensor = |spec: &str| DataType::Tensor(TensorType::parse(spec).expect("a type"));
    let fields = vec![
        field("title", DataType::String, true),
        field("body", DataType::String, false),
        field("tags", DataType::Array(Box::new(DataType::String)), false),
        field("dense", tensor("tensor<float>(x[2048])"), false),
        field("mapped", tensor("tensor<float>(l{})"), false),
    ];
    let mut profile = RankProfile { name: "default".into(), ..RankProfile::default() };
    if !first_phase.is_empty() {
        profile.first_phase = RankPhase { expression: Some(sourced(first_phase)), ..RankPhase::default() };
    }
    change(&mut profile);
    let rank_profiles = [(profile.name.clone(), profile)].into();
    Arc::new(Schema { rank_profiles, ..schema("test", fields) })
}

/// Documents with 200 times the same word, 8 KB of text, 200 tags, and tensors of 8 KB and more.
fn view(schema: &Schema) -> MemoryView {
    let cells: Vec<String> = (0..400).map(|label| format!("l{label}:1")).collect();
    let mapped =
        Tensor::parse(&format!("tensor<float>(l{{}}):{{{}}}", cells.join(",")), None).expect("a tensor");
    let dense = Tensor::parse(&format!("tensor<float>(x[2048]):[{}]", vec!["1"; 2048].join(",")), None);
    let dense = dense.expect("a tensor");
    let document = |number: usize| {
        let tags = (0..200).map(|tag| DocumentValue::String(format!("tag {tag}"))).collect();
        let fields = Fields::from([
            ("title", DocumentValue::String("quick ".repeat(200))),
            ("body", DocumentValue::String(format!("{number}{}", "x".repeat(8 << 10)))),
            ("tags", DocumentValue::Array(tags)),
            ("dense", DocumentValue::Tensor(dense.clone())),
            ("mapped", DocumentValue::Tensor(mapped.clone())),
        ]);
        (fields, true)
    };
    let documents: Vec<(Fields, bool)> = (0..DOCUMENTS).map(document).collect();
    millrace_fixtures::view(schema, &documents, 2)
}

fn everything(schema: Arc<Schema>) -> Plan {
    plan(&schema, PlanNode::True, Vec::new())
}

fn plain() -> Plan {
    everything(test_schema("", |_| ()))
}

/// A query that returns these fields.
fn showing(mut plan: Plan, fields: &[&str]) -> Plan {
    let shown = |name: &&str| SummaryField {
        name: (*name).into(),
        source: (*name).into(),
        more_sources: Vec::new(),
        mode: SummaryMode::Full,
        bolding: false,
    };
    let fields = fields.iter().map(shown).collect();
    plan.summary = DocumentSummary { name: "default".into(), fields, omit_summary_features: false };
    plan
}

fn sorted(mut plan: Plan) -> Plan {
    let by = SortBy::Text("body".into(), millrace_plan::TextOrder::Raw);
    plan.sorting = vec![SortColumn { by, descending: false, missing: None }];
    plan
}

fn collapsed(mut plan: Plan) -> Plan {
    let collapse = CollapseOptions { fields: vec![("body".into(), 1)], summary: None };
    plan.collapse = Some(PlannedCollapse::of(&collapse, &plan.schema));
    plan
}

fn grouped(mut plan: Plan, request: &str) -> Plan {
    Arc::get_mut(&mut plan.query).expect("one owner").grouping = vec![request.to_owned()];
    plan.groupings = groupings(&plan.query, &plan.schema, plan.now).expect("the request is valid");
    Plan { hits: 0, ..plan }
}

/// A query for any of many words, all the same.
fn words(count: usize, first_phase: &str) -> Plan {
    let word = || Predicate::Words(vec![WordPattern::Exact("quick".into())]);
    let leaves = (0..count).map(|leaf| PlanNode::Leaf(LeafId(leaf))).collect();
    let schema = test_schema(first_phase, |_| ());
    Plan { hits: 1, ..plan(&schema, PlanNode::Or(leaves), (0..count).map(|_| ("title", word())).collect()) }
}

/// Runs a query with this much memory, in one pass, or step by step as nodes do.
fn run(plan: &Plan, bytes: usize, is_gathered: bool) -> Result<(), Error> {
    let memory = QueryMemory::new(bytes, QueryMemoryLedger::new(usize::MAX));
    let plan = Plan { memory, ..plan.clone() };
    let profile = Arc::new(CompiledProfile::compile(&plan.schema, "default").expect("the profile is right"));
    let view = view(&plan.schema);
    let search = Arc::new(PreparedSearch::new(Arc::new(plan), profile, "mails".into()));
    let deadline = SearchDeadline::at(Instant::now() + Duration::from_secs(60));
    match is_gathered {
        false => search.run(&view, &deadline).map(drop),
        true => gathered(&search, view, &deadline),
    }
}

/// Runs a search as a node does for another one.
fn gathered(
    search: &Arc<PreparedSearch>,
    view: impl View + 'static,
    deadline: &SearchDeadline,
) -> Result<(), Error> {
    let view: Arc<dyn View> = Arc::new(view);
    let mut session = ShareSession::new(vec![(Arc::clone(search), view)], deadline)?;
    let mut gathering = SearchGathering::new(vec![Arc::clone(search)], 1);
    let mut replies = Vec::new();
    while let GatheringNext::Ask(asks) = gathering.next(replies)? {
        let answers = asks.into_iter().map(|ask| session.answer(ask, deadline));
        replies = answers.collect::<Result<_, _>>()?;
    }
    Ok(())
}

/// Returns the least memory with which a query runs, in bytes; with less it is refused.
fn needed(what: &str, plan: &Plan, is_gathered: bool) -> usize {
    let (mut refused, mut enough) = (0, 16 << 20);
    run(plan, enough, is_gathered).unwrap_or_else(|error| panic!("{what}: {error}"));
    while refused + 1 < enough {
        let limit = refused.midpoint(enough);
        match run(plan, limit, is_gathered).map_err(|error| error.memory()) {
            Ok(()) => enough = limit,
            outcome => {
                assert_eq!(outcome, Err(Some(QueryMemoryError::OfQuery { limit })), "{what}");
                refused = limit;
            }
        }
    }
    enough
}

#[test]
fn what_grows_with_documents_is_counted() {
    let kb = 1 << 10;
    let features = |change: fn(&mut RankProfile)| everything(test_schema("", change));
    let tags = |each: &str| grouped(plain(), &format!("all(group(tags) max(1) each({each}))"));
    let count = || tags("output(count())");
    let no_hits = || Plan { hits: 0, ..plain() };
    // A query, another without what is counted, and the bytes that are counted at least.
    let rows = [
        ("fields of hits", showing(plain(), &["body"]), plain(), 32 * kb),
        ("elements of fields", showing(plain(), &["tags"]), plain(), 4 * 200 * 32),
        (
            "dense match-features",
            features(|profile| profile.match_features = vec![sourced("attribute(dense)")]),
            plain(),
            32 * kb,
        ),
        (
            "mapped match-features",
            features(|profile| profile.match_features = vec![sourced("attribute(mapped)")]),
            plain(),
            4 * 400 * 28,
        ),
        (
            "summary-features",
            features(|profile| profile.summary_features = vec![sourced("attribute(dense)")]),
            plain(),
            32 * kb,
        ),
        // In the order, and in the hits.
        ("sort values", sorted(plain()), plain(), 64 * kb),
        ("values of collapsed hits", collapsed(plain()), plain(), 32 * kb),
        ("number of groups", count(), no_hits(), 200 * 100),
        ("names of groups", grouped(plain(), "all(group(body) each(output(count())))"), no_hits(), 32 * kb),
        ("values of groups", tags("output(max(body))"), count(), 200 * 8 * kb),
        ("quantiles of groups", tags("output(quantiles([0.5], relevance()))"), count(), 4 * 200 * 8),
        ("references to hits", tags("max(4) each(output(summary()))"), count(), 4 * 200 * 24),
        (
            "hits of groups",
            grouped(
                showing(plain(), &["body"]),
                "all(group(tags) max(200) each(max(1) each(output(summary()))))",
            ),
            tags("max(1) each(output(summary()))"),
            199 * 8 * kb,
        ),
        // Each chunk has 400 occurrences, and four bytes for each word and occurrence.
        ("positions, word by word", words(7, "matches(title)"), words(1, "matches(title)"), 6 * 400 * 4),
        (
            "positions, all words together",
            words(40, "matches(title)"),
            words(12, "matches(title)"),
            28 * 400 * 4,
        ),
        ("positions that are kept", words(40, "fieldMatch(title)"), words(40, "bm25(title)"), 40 * 400 * 4),
    ];
    for (what, plan, without, bytes) in rows {
        for is_gathered in [false, true] {
            let what = format!("{what}, gathered: {is_gathered}");
            let (needed, before) = (needed(&what, &plan, is_gathered), needed(&what, &without, is_gathered));
            assert!(
                needed >= before + bytes,
                "{what}: {needed} bytes, and {before} without; {bytes} expected"
            );
        }
    }
}

#[test]
fn a_hit_is_counted_for_each_group_that_shows_it() {
    let request =
        |groups: usize| format!("all(group(tags) max({groups}) each(max(1) each(output(summary()))))");
    let of = |groups: usize| grouped(showing(plain(), &["body"]), &request(groups));
    let needed = |groups: usize| needed("hits", &of(groups), true);
    // A node fills the hits of all groups, since it does not know those of others. The gathering puts them
    // into the groups that are shown.
    assert!(needed(200) >= needed(1) + 199 * (8 << 10), "{} and {}", needed(200), needed(1));
}

#[test]
fn a_query_with_small_results_needs_little_memory() {
    for (what, plan) in [
        ("hits", plain()),
        ("words", words(3, "bm25(title)")),
        ("groups", grouped(plain(), "all(group(md5(body, 64)) each(output(count())))")),
    ] {
        for is_gathered in [false, true] {
            run(&plan, 12 << 10, is_gathered).unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }
}
