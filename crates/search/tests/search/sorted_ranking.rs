//! Ranking of hits in another order than by relevance, and features of phases that are shown with hits:
//! on one node, and on several.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_column::{MemoryView, View};
use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{ChunkSubset, Fields, field, plan, schema};
use millrace_plan::{Plan, PlanNode, SortBy, SortColumn, groupings};
use millrace_ranking::CompiledProfile;
use millrace_result::FieldValue;
use millrace_schema::{RankPhase, RankProfile, Schema, SourcePosition, SourcedText};
use millrace_search::{
    GatheringNext, MergedOutcome, PassOutcome, PreparedSearch, SearchDeadline, SearchGathering, ShareReply,
    ShareSession,
};

/// Folder, date and price of documents `d0`, `d1`, …; in chunks of two.
const ITEMS: [(&str, i64, f64); 6] =
    [("a", 30, 1.5), ("b", 10, -2.0), ("a", 50, 0.0), ("b", 20, 9.0), ("c", 10, 3.0), ("a", 40, 2.0)];

fn sourced(text: &str) -> SourcedText<String> {
    let position = SourcePosition { file: "schemas/test.sd".to_owned(), line: 1, column: 1 };
    SourcedText { value: text.to_owned(), position }
}

fn phase(expression: &str) -> RankPhase {
    RankPhase { expression: Some(sourced(expression)), ..RankPhase::default() }
}

fn priced(profile: RankProfile) -> Arc<Schema> {
    let fields = vec![
        field("folder", DataType::String, false),
        field("date", DataType::Long, false),
        field("price", DataType::Double, false),
    ];
    let profile = RankProfile {
        name: "default".to_owned(),
        first_phase: RankPhase {
            expression: Some(sourced("attribute(price)")),
            ..profile.first_phase.clone()
        },
        ..profile
    };
    let rank_profiles = [(profile.name.clone(), profile)].into();
    Arc::new(Schema { rank_profiles, ..schema("test", fields) })
}

fn view(schema: &Schema) -> MemoryView {
    let document = |(folder, date, price): &(&str, i64, f64)| {
        let fields = Fields::from([
            ("folder", DocumentValue::String((*folder).to_owned())),
            ("date", DocumentValue::Long(*date)),
            ("price", DocumentValue::Double(*price)),
        ]);
        (fields, true)
    };
    let documents: Vec<(Fields, bool)> = ITEMS.iter().map(document).collect();
    millrace_fixtures::view(schema, &documents, 2)
}

fn everything(schema: &Arc<Schema>, sorted: bool) -> Plan {
    let mut plan = plan(schema, PlanNode::True, Vec::new());
    let by_date = || SortColumn { by: SortBy::Number("date".into()), descending: false, missing: None };
    plan.sorting = sorted.then(by_date).into_iter().collect();
    plan
}

/// The outcome on one node and on a node for each chunk.
fn outcomes(plan: Plan) -> [MergedOutcome; 2] {
    let profile = Arc::new(CompiledProfile::compile(&plan.schema, "default").unwrap());
    let view = view(&plan.schema);
    let search = Arc::new(PreparedSearch::new(Arc::new(plan), profile, "items".into()));
    let deadline = SearchDeadline::at(Instant::now() + Duration::from_secs(60));
    let alone = search.run(&view, &deadline).unwrap();
    let together = spread(&search, &view, &deadline);
    [alone, together].map(|outcome| MergedOutcome::of(vec![outcome], search.plan()))
}

fn spread(search: &Arc<PreparedSearch>, view: &MemoryView, deadline: &SearchDeadline) -> PassOutcome {
    let session = |chunk| {
        let part: Arc<dyn View> = Arc::new(ChunkSubset(view.clone(), chunk..chunk + 1));
        ShareSession::new(vec![(Arc::clone(search), part)], deadline).unwrap()
    };
    let mut sessions: Vec<ShareSession> = (0..view.chunks().len()).map(session).collect();
    let mut gathering = SearchGathering::new(vec![Arc::clone(search)], sessions.len());
    let mut replies: Vec<ShareReply> = Vec::new();
    loop {
        let asks = match gathering.next(replies).unwrap() {
            GatheringNext::Found(mut outcomes) => return outcomes.remove(0),
            GatheringNext::Ask(asks) => asks,
        };
        replies = sessions
            .iter_mut()
            .zip(asks)
            .map(|(session, ask)| session.answer(ask, deadline).unwrap())
            .collect();
    }
}

/// Name, relevance and shown match features of each hit, and the number of all hits.
fn shown(outcome: &MergedOutcome) -> String {
    let hits = outcome.result.hits.iter().map(|hit| {
        let features = hit.fields.iter().find_map(|(name, value)| match value {
            FieldValue::Features(features) if &**name == "matchfeatures" => Some(features),
            _ => None,
        });
        let features = features.map(|features| format!(" {features:?}")).unwrap_or_default();
        format!("{}={}{features}", hit.id.name(), hit.relevance)
    });
    format!("{} of {}", hits.collect::<Vec<_>>().join(" "), outcome.result.total_count)
}

#[track_caller]
fn check(plan: Plan, expected: &str) {
    for outcome in outcomes(plan) {
        assert_eq!(shown(&outcome), expected);
    }
}

#[test]
fn sorted_hits_show_their_relevance() {
    check(everything(&priced(RankProfile::default()), true), "d1=-2 d4=3 d3=9 d0=1.5 d5=2 d2=0 of 6");
}

#[test]
fn score_limits_hold_in_every_order() {
    let limited = RankProfile {
        first_phase: RankPhase { score_drop_limit: Some(1.6), ..RankPhase::default() },
        ..RankProfile::default()
    };
    let schema = priced(limited);
    check(everything(&schema, true), "d4=3 d3=9 d5=2 of 3");
    check(everything(&schema, false), "d3=9 d4=3 d5=2 of 3");
    // The request's own limit replaces that of the profile.
    let mut plan = everything(&schema, true);
    Arc::get_mut(&mut plan.query).unwrap().ranking.score_drop_limit = Some(2.5);
    check(plan, "d4=3 d3=9 of 2");
    // Groups have the documents that are hits.
    for sorted in [true, false] {
        let mut plan = everything(&schema, sorted);
        Arc::get_mut(&mut plan.query).unwrap().grouping =
            vec!["all(group(folder) each(output(count())))".to_owned()];
        plan.groupings = groupings(&plan.query, &plan.schema, plan.now).unwrap();
        for outcome in outcomes(plan) {
            let groups = format!("{:?}", outcome.result.groupings);
            assert_eq!(groups.matches("Long(1)").count(), 3, "{groups}");
            assert_eq!(outcome.result.total_count, 3);
        }
    }
}

#[test]
fn later_phases_show_the_first_and_count_what_they_leave() {
    let shows = |second_phase: RankPhase| RankProfile {
        second_phase,
        match_features: vec![sourced("firstPhaseRank"), sourced("firstPhaseMax")],
        ..RankProfile::default()
    };
    let features =
        |rank: u32| format!("[(\"firstPhaseRank\", Number({rank}.0)), (\"firstPhaseMax\", Number(9.0))]");
    let limited = RankPhase { score_drop_limit: Some(-2.5), ..phase("0 - attribute(price)") };
    check(
        everything(&priced(shows(limited)), false),
        &format!(
            "d1=2 {} d2=0 {} d0=-1.5 {} d5=-2 {} of 4",
            features(6),
            features(5),
            features(4),
            features(3)
        ),
    );
}
