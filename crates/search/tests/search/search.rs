//! Searches over a handful of documents, from plan to result.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_column::{Column, ColumnKey, MemoryView, ReadError, View, ViewChunk};
use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{ChunkSubset, Fields, field, plan, schema};
use millrace_plan::{
    LeafId, LocaleCollation, MissingOrder, NumberRange, Plan, PlanNode, PlannedCollapse, Predicate, SortBy,
    SortColumn, StreamedScope, TextOrder, WordPattern, groupings,
};
use millrace_query::CollapseOptions;
use millrace_ranking::CompiledProfile;
use millrace_result::{FeatureValue, FieldValue, GroupId, GroupList, GroupValue};
use millrace_schema::{
    DocumentSummary, RankPhase, RankProfile, Schema, SourcePosition, SourcedText, SummaryField, SummaryMode,
};
use millrace_search::{
    Error, GatheringNext, MergedOutcome, PassOutcome, PreparedSearch, SearchDeadline, SearchGathering,
    ShareReply, ShareRequest, ShareSession, run_all,
};
use millrace_selection::DocumentSelection;

/// Title, folder, date and price of documents `d0`, `d1`, …; in chunks of two.
const MAILS: [(&str, &str, Option<i64>, f64); 6] = [
    ("the Quick fox", "inbox", Some(30), 1.5),
    ("Äpfel and quick pears", "work", Some(10), -2.0),
    ("apples", "inbox", None, 0.0),
    ("zebra quick quick", "Work", Some(20), 9.0),
    ("apple", "inbox", Some(10), 3.0),
    ("quick", "archive", Some(40), 2.0),
];

fn test_schema() -> Arc<Schema> {
    let fields = vec![
        field("title", DataType::String, true),
        field("folder", DataType::String, false),
        field("date", DataType::Long, false),
        field("price", DataType::Double, false),
    ];
    let default = RankProfile { name: "default".into(), ..RankProfile::default() };
    let rank_profiles = [(default.name.clone(), default)].into();
    Arc::new(Schema { rank_profiles, ..schema("test", fields) })
}

fn view(schema: &Schema) -> MemoryView {
    let document = |(title, folder, date, price): &(&str, &str, Option<i64>, f64)| {
        let mut fields = Fields::from([
            ("title", DocumentValue::String((*title).to_owned())),
            ("folder", DocumentValue::String((*folder).to_owned())),
            ("price", DocumentValue::Double(*price)),
        ]);
        fields.extend(date.map(|date| ("date", DocumentValue::Long(date))));
        (fields, true)
    };
    let documents: Vec<(Fields, bool)> = MAILS.iter().map(document).collect();
    millrace_fixtures::view(schema, &documents, 2)
}

fn quick(schema: &Arc<Schema>) -> Plan {
    let words = Predicate::Words(vec![WordPattern::Exact("quick".into())]);
    plan(schema, PlanNode::Leaf(LeafId(0)), vec![("title", words)])
}

fn everything(schema: &Arc<Schema>) -> Plan {
    plan(schema, PlanNode::True, Vec::new())
}

/// Adds a grouping request to a plan.
fn grouped(mut plan: Plan, request: &str) -> Plan {
    Arc::get_mut(&mut plan.query).unwrap().grouping = vec![request.to_owned()];
    plan.groupings = groupings(&plan.query, &plan.schema, plan.now).unwrap();
    plan
}

fn by(by: SortBy, descending: bool) -> SortColumn {
    SortColumn { by, descending, missing: None }
}

fn run(plan: Plan) -> Result<PassOutcome, Error> {
    let profile = Arc::new(CompiledProfile::compile(&plan.schema, "default").unwrap());
    let view = view(&plan.schema);
    let search = Arc::new(PreparedSearch::new(Arc::new(plan), profile, "mails".into()));
    let deadline = SearchDeadline::at(Instant::now() + Duration::from_secs(60));
    let outcome = search.run(&view, &deadline)?;
    let together = spread(&search, &view, &deadline);
    let merged = |outcome: &PassOutcome| shown(&MergedOutcome::of(vec![outcome.clone()], search.plan()));
    assert_eq!(merged(&together), merged(&outcome));
    Ok(outcome)
}

/// The same search, each chunk on a node of its own; what the nodes say has travelled.
fn spread(search: &Arc<PreparedSearch>, view: &MemoryView, deadline: &SearchDeadline) -> PassOutcome {
    let session = |chunk| {
        let part: Arc<dyn View> = Arc::new(ChunkSubset(view.clone(), chunk..chunk + 1));
        ShareSession::new(vec![(Arc::clone(search), part)], deadline).unwrap()
    };
    let mut sessions: Vec<ShareSession> = (0..view.chunks().len()).map(session).collect();
    let mut gathering = SearchGathering::new(vec![Arc::clone(search)], sessions.len());
    let mut replies = Vec::new();
    loop {
        let asks = match gathering.next(replies).unwrap() {
            GatheringNext::Found(mut outcomes) => return outcomes.remove(0),
            GatheringNext::Ask(asks) => asks,
        };
        let answer = |(session, ask): (&mut ShareSession, &ShareRequest)| {
            travelled::<ShareReply>(&session.answer(travelled(ask), deadline).unwrap())
        };
        replies = sessions.iter_mut().zip(&asks).map(answer).collect();
    }
}

fn travelled<T: serde::de::DeserializeOwned>(value: &impl serde::Serialize) -> T {
    millrace_codec::decode(&millrace_codec::encode(value, 0).unwrap()).unwrap()
}

/// All of an outcome but what it took.
fn shown(outcome: &MergedOutcome) -> String {
    let mut result = outcome.result.clone();
    result.coverage.nodes = 1;
    format!("{result:?} {:?} {}", outcome.page, outcome.traces[0].matched)
}

fn names(outcome: &PassOutcome) -> String {
    outcome.result.hits.iter().map(|hit| hit.id.name()).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(sorting: Vec<SortColumn>, expected: &str) {
    let mut plan = everything(&test_schema());
    plan.sorting = sorting;
    assert_eq!(names(&run(plan).unwrap()), expected);
}

#[test]
fn hits_come_in_the_order_asked_for() {
    let date = || SortBy::Number("date".into());
    let title = |order| SortBy::Text("title".into(), order);
    let collated = |locale: &str| TextOrder::Collated(LocaleCollation::new(locale, "PRIMARY").unwrap());
    check(vec![by(date(), false)], "d2 d1 d4 d3 d0 d5");
    check(vec![by(date(), true)], "d5 d0 d3 d1 d4 d2");
    check(vec![by(date(), false), by(SortBy::DocumentId, true)], "d2 d4 d1 d3 d0 d5");
    check(vec![by(SortBy::Number("price".into()), false)], "d1 d2 d0 d5 d4 d3");
    check(vec![SortColumn { missing: Some(MissingOrder::Last), ..by(date(), false) }], "d1 d4 d3 d0 d5 d2");
    check(vec![SortColumn { missing: Some(MissingOrder::First), ..by(date(), true) }], "d2 d5 d0 d3 d1 d4");
    check(
        vec![SortColumn { missing: Some(MissingOrder::As("25".into())), ..by(date(), true) }],
        "d5 d0 d2 d3 d1 d4",
    );
    check(vec![by(title(TextOrder::Raw), false)], "d4 d2 d5 d0 d3 d1");
    check(vec![by(title(TextOrder::Raw), true)], "d1 d3 d0 d5 d2 d4");
    check(vec![by(title(collated("en_US")), false)], "d1 d4 d2 d5 d0 d3");
    check(vec![by(title(collated("sv")), false)], "d4 d2 d5 d0 d3 d1");
    let folder = SortBy::Text("folder".into(), TextOrder::Lowercase);
    check(vec![by(folder, true), by(date(), false)], "d1 d3 d2 d4 d0 d5");
    check(vec![by(SortBy::Source, false), by(SortBy::DocumentId, false)], "d0 d1 d2 d3 d4 d5");
}

/// Positions are ordered by their numbers on a z-curve; of several, the first in the order counts.
#[test]
fn positions_are_ordered_by_their_numbers() {
    let place = |degrees| DocumentValue::Position { latitude: degrees, longitude: degrees };
    let route = DataType::Array(Box::new(DataType::Position));
    let fields = vec![field("place", DataType::Position, false), field("route", route, false)];
    let default = RankProfile { name: "default".into(), ..RankProfile::default() };
    let rank_profiles = [(default.name.clone(), default)].into();
    let schema = Arc::new(Schema { rank_profiles, ..schema("test", fields) });
    let documents = [
        Fields::from([("place", place(3)), ("route", DocumentValue::Array(vec![place(2), place(9)]))]),
        Fields::from([("place", place(1)), ("route", DocumentValue::Array(vec![place(3)]))]),
        Fields::from([]),
    ];
    let view = millrace_fixtures::view(&schema, &documents.map(|fields| (fields, true)), 2);
    for (name, descending, expected) in [
        ("place_zcurve", false, "d2 d1 d0"),
        ("place_zcurve", true, "d0 d1 d2"),
        ("route_zcurve", false, "d0 d1 d2"),
        ("route_zcurve", true, "d0 d1 d2"),
    ] {
        let mut plan = everything(&schema);
        plan.sorting = vec![by(SortBy::Number(name.into()), descending)];
        let profile = Arc::new(CompiledProfile::compile(&schema, "default").unwrap());
        let search = Arc::new(PreparedSearch::new(Arc::new(plan), profile, "mails".into()));
        let deadline = SearchDeadline::at(Instant::now() + Duration::from_secs(60));
        assert_eq!(names(&search.run(&view, &deadline).unwrap()), expected, "{name} {descending}");
    }
}

#[test]
fn a_page_is_the_beginning_of_the_whole_order() {
    for (offset, hits, expected) in
        [(0, 2, "d5 d0"), (1, 3, "d5 d0 d3 d1"), (0, 0, ""), (9, 9, "d5 d0 d3 d1")]
    {
        let mut plan = quick(&test_schema());
        plan.sorting = vec![by(SortBy::Number("date".into()), true)];
        (plan.offset, plan.hits) = (offset, hits);
        let outcome = run(plan).unwrap();
        assert_eq!(names(&outcome), expected);
        assert_eq!(outcome.result.total_count, 4);
        assert_eq!((outcome.trace.documents, outcome.trace.matched), (6, 4));
        assert_eq!((outcome.result.coverage.documents, outcome.result.coverage.target), (6, 6));
    }
}

#[test]
fn hits_without_an_order_come_by_score() {
    let by_score = |expression: &str, plan: fn(&Arc<Schema>) -> Plan| {
        let mut schema = Arc::unwrap_or_clone(test_schema());
        let sourced =
            |text: &str| SourcedText { value: text.to_owned(), position: SourcePosition::default() };
        let profile = schema.rank_profiles.get_mut("default").unwrap();
        profile.first_phase = RankPhase { expression: Some(sourced(expression)), ..RankPhase::default() };
        profile.match_features = vec![sourced("attribute(price)")];
        run(plan(&Arc::new(schema))).unwrap()
    };
    assert_eq!(names(&by_score("attribute(price)", everything)), "d3 d4 d5 d0 d2 d1");
    assert_eq!(names(&by_score("-attribute(price)", quick)), "d1 d0 d5 d3");
    let outcome = by_score("bm25(title)", quick);
    // The shortest first, but two of three words beat one of three and one of four.
    assert_eq!(names(&outcome), "d5 d3 d0 d1");
    let scores: Vec<f64> = outcome.result.hits.iter().map(|hit| hit.relevance).collect();
    assert!(scores.is_sorted_by(|a, b| a > b) && scores[3] > 0.0, "{scores:?}");
    let features = outcome.result.hits[0].fields.iter().find(|(name, _)| &**name == "matchfeatures");
    let expected = FieldValue::Features(vec![("attribute(price)".into(), FeatureValue::Number(2.0))]);
    assert_eq!(features.map(|(_, value)| value), Some(&expected));
}

#[test]
fn hits_are_filled_with_the_summary() {
    let mut plan = quick(&test_schema());
    plan.sorting = vec![by(SortBy::Number("date".into()), true)];
    plan.summary = DocumentSummary {
        name: "short".into(),
        fields: vec![SummaryField {
            name: "subject".into(),
            source: "title".into(),
            more_sources: Vec::new(),
            mode: SummaryMode::Full,
            bolding: true,
        }],
        omit_summary_features: false,
    };
    let outcome = run(plan).unwrap();
    let subject = |hit: usize| {
        let fields = &outcome.result.hits[hit].fields;
        fields.iter().find(|(name, _)| &**name == "subject").map(|(_, value)| value.clone())
    };
    assert_eq!(subject(0), Some(FieldValue::Value(DocumentValue::String("<hi>quick</hi>".into()))));
    assert_eq!(
        subject(2),
        Some(FieldValue::Value(DocumentValue::String("zebra <hi>quick</hi> <hi>quick</hi>".into())))
    );
    assert_eq!(&*outcome.result.hits[0].source, "mails");
}

#[test]
fn groups_are_those_of_what_matched() {
    let request = "all(group(folder) order(-count()) each(output(count())))";
    let outcome = run(grouped(quick(&test_schema()), request)).unwrap();
    let [grouping] = outcome.result.groupings.as_slice() else { panic!("one request, one result") };
    let [GroupList::Groups { groups, .. }] = grouping.root.lists.as_slice() else {
        panic!("one list of groups")
    };
    let counts: Vec<(GroupId, GroupValue)> =
        groups.iter().map(|group| (group.id.clone(), group.outputs[0].1.clone())).collect();
    assert_eq!(counts.len(), 4, "{counts:?}");
    assert!(counts.iter().all(|(_, count)| *count == GroupValue::Long(1)), "{counts:?}");
}

#[test]
fn groups_of_several_nodes_are_one() {
    let request = "all(group(folder) max(2) order(-count(), -max(price)) \
         each(output(count(), sum(price), avg(price), min(date), max(date), stddev(price), xor(date), quantiles([0.5], price)) \
         each(output(summary()))) each(group(predefined(price, bucket(-10, 1), bucket(1, 10))) max(1) each(max(1) output(count()) each(output(summary())))))";
    let mut plan = grouped(everything(&test_schema()), request);
    plan.hits = 0;
    // That the nodes' groups together are these is looked at in `run`.
    let outcome = run(plan).unwrap();
    let GroupList::Groups { groups, .. } = &outcome.result.groupings[0].root.lists[0] else {
        panic!("no groups")
    };
    assert_eq!(groups[0].id, GroupId::String("inbox".into()));
    assert_eq!(groups[0].outputs[0], ("count()".to_owned(), GroupValue::Long(3)));
}

#[test]
fn what_another_request_has_collected_is_refused() {
    let with = |request: &str| {
        let plan = grouped(everything(&test_schema()), request);
        let profile = Arc::new(CompiledProfile::compile(&plan.schema, "default").unwrap());
        PreparedSearch::new(Arc::new(plan), profile, "mails".into())
    };
    let deadline = SearchDeadline::at(Instant::now() + Duration::from_secs(60));
    let asked = Arc::new(with("all(group(folder) each(output(count())))"));
    for other in [
        "all(group(folder) each(output(sum(price))))",
        "all(output(count()))",
        "all(group(folder) each(group(date) each(output(count()))))",
    ] {
        let other = with(other);
        let documents: Arc<dyn View> = Arc::new(view(&test_schema()));
        let mut session = ShareSession::new(vec![(Arc::new(other), documents)], &deadline).unwrap();
        let found = session.answer(ShareRequest::Share(None), &deadline).unwrap();
        let mut gathering = SearchGathering::new(vec![Arc::clone(&asked)], 1);
        gathering.next(Vec::new()).unwrap();
        let error = gathering.next(vec![found]).unwrap_err().to_string();
        assert!(error.contains("do all nodes run the same version"), "{error}");
    }
}

#[test]
fn a_selection_decides_what_there_is() {
    let mut plan = everything(&test_schema());
    plan.sorting = vec![by(SortBy::DocumentId, false)];
    let selection = DocumentSelection::parse("test.date > 15").unwrap();
    plan.scope = StreamedScope::All { selection: Some(Arc::new(selection)) };
    let outcome = run(plan).unwrap();
    assert_eq!(names(&outcome), "d0 d3 d5");
    assert_eq!(outcome.result.coverage.documents, 6);
}

/// Causes of the errors of a search. A new variant needs a line here: an error that a client has caused
/// belongs to the plan.
fn cause(error: &Error) -> &'static str {
    use millrace_grouping::GroupingFailure as Grouping;
    use millrace_matching::Error as Matching;
    use millrace_ranking::Error as Ranking;
    use millrace_search::SummaryError as Summary;
    let of_matching = |error: &Matching| match error {
        Matching::Read(_) | Matching::Chunk { .. } => "store",
        // Planning has compiled the expression, by the same limits, and has resolved the field.
        Matching::Pattern { .. } | Matching::Field { .. } => "plan",
        Matching::Memory(_) => "memory",
    };
    match error {
        Error::Read(_) | Error::Id { .. } | Error::Grouping(Grouping::Read(_)) => "store",
        Error::Matching(error) | Error::Summary(Summary::Match(error)) => of_matching(error),
        Error::Summary(Summary::Read(_)) | Error::Ranking(Ranking::Read(_)) => "store",
        // Planning refuses requests for summaries that the schema does not have.
        Error::Summary(Summary::UnknownSummary { .. }) => "plan",
        Error::Grouping(Grouping::TooManyGroups { .. }) => "number of documents",
        Error::Share | Error::Grouping(Grouping::OtherRequest) => "other node",
        Error::Ranking(
            Ranking::Profile { .. }
            | Ranking::Setup(_)
            | Ranking::Constant { .. }
            | Ranking::UnknownProfile { .. },
        ) => "deployment",
        Error::Ranking(Ranking::Overloaded(_) | Ranking::Model(_)) => "model",
        Error::Memory(_) | Error::Ranking(Ranking::Memory(_)) | Error::Summary(Summary::Memory(_)) => {
            "memory"
        }
    }
}

#[test]
fn no_error_of_a_search_is_a_clients() {
    assert_eq!(cause(&Error::Share), "other node");
    let unreadable = ReadError("a column".to_owned());
    assert_eq!(cause(&Error::from(unreadable)), "store");
}

#[test]
fn a_passed_deadline_is_reported() {
    let mut plan = everything(&test_schema());
    plan.sorting = vec![by(SortBy::DocumentId, false)];
    let profile = Arc::new(CompiledProfile::compile(&plan.schema, "default").unwrap());
    let view = view(&plan.schema);
    let search = PreparedSearch::new(Arc::new(plan), profile, "mails".into());
    let deadline = SearchDeadline::at(Instant::now()).with_output_time(Duration::ZERO);
    let outcome = search.run(&view, &deadline).unwrap();
    assert!(outcome.result.hits.is_empty());
    let coverage = outcome.result.coverage;
    assert!(coverage.timed_out && coverage.documents == 0 && coverage.target == 6);
}

thread_local! {
    static PAUSES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Every step that reads the documents can be interrupted between chunks: a thread that waits for the core
/// waits for one chunk at most.
#[test]
fn every_step_pauses_between_chunks() {
    #[track_caller]
    fn check(step: &str, plan: Plan, seen: Option<&str>, least: usize) {
        let schema = Arc::clone(&plan.schema);
        let profile = Arc::new(CompiledProfile::compile(&schema, "default").unwrap());
        let mut search = PreparedSearch::new(Arc::new(plan), profile, "mails".into());
        if let Some(text) = seen {
            search = search.within(vec![Arc::new(DocumentSelection::parse(text).unwrap())]);
        }
        let counting = |_| {
            PAUSES.set(PAUSES.get() + 1);
            false
        };
        let deadline = SearchDeadline::at(Instant::now() + Duration::from_secs(60)).pausing_with(counting);
        PAUSES.set(0);
        search.run(&view(&schema), &deadline).unwrap();
        assert!(PAUSES.get() >= least, "{step}: {} pauses", PAUSES.get());
        PAUSES.set(0);
        spread(&Arc::new(search), &view(&schema), &deadline);
        assert!(PAUSES.get() >= least, "{step}, for another node: {} pauses", PAUSES.get());
    }
    let schema = test_schema();
    // There are three chunks.
    let unranked = Plan { hits: 0, ..everything(&schema) };
    check("matching", unranked, None, 3);
    check("ranking", quick(&schema), None, 6);
    let sorted = Plan { sorting: vec![by(SortBy::DocumentId, false)], ..everything(&schema) };
    check("sorting", sorted.clone(), None, 4);
    check("a selection", sorted, Some("test.date > 0"), 7);
}

#[test]
fn a_deadline_that_passes_during_a_pause_is_noticed() {
    let plan = everything(&test_schema());
    let schema = Arc::clone(&plan.schema);
    let profile = Arc::new(CompiledProfile::compile(&schema, "default").unwrap());
    let search = PreparedSearch::new(Arc::new(plan), profile, "mails".into());
    let sleeping = |_| {
        std::thread::sleep(Duration::from_millis(60));
        true
    };
    let looking = Instant::now() + Duration::from_millis(50);
    let outcome = search.run(&view(&schema), &SearchDeadline::at(looking).pausing_with(sleeping)).unwrap();
    let coverage = outcome.result.coverage;
    assert!(coverage.timed_out && coverage.documents == 0, "{coverage:?}");
}

/// A view whose first column comes as soon as there is no more time to look at documents.
struct SlowView {
    view: MemoryView,
    looking: Instant,
}

impl View for SlowView {
    fn chunks(&self) -> &[ViewChunk] {
        self.view.chunks()
    }

    fn columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        while Instant::now() < self.looking {
            std::thread::yield_now();
        }
        self.view.columns(key, range)
    }
}

#[test]
fn what_was_found_before_the_deadline_is_the_result() {
    let schema = test_schema();
    let range = Predicate::Number(NumberRange::Integer { low: 10, high: 40 });
    let ranked = plan(&schema, PlanNode::Leaf(LeafId(0)), vec![("date", range)]);
    let sorted = Plan { sorting: vec![by(SortBy::DocumentId, false)], ..ranked.clone() };
    for plan in [ranked, sorted] {
        let profile = Arc::new(CompiledProfile::compile(&schema, "default").unwrap());
        let search = PreparedSearch::new(Arc::new(plan), profile, "mails".into());
        let looking = Instant::now() + Duration::from_millis(50);
        let deadline = SearchDeadline::at(looking).with_output_time(Duration::from_secs(600));
        let outcome = search.run(&SlowView { view: view(&schema), looking }, &deadline).unwrap();
        assert_eq!(names(&outcome), "d0 d1");
        assert_eq!(outcome.result.total_count, 2);
        let coverage = outcome.result.coverage;
        assert!(coverage.timed_out && coverage.documents == 2 && coverage.target == 6);
    }
}

#[test]
fn a_range_of_numbers() {
    let schema = test_schema();
    let range = Predicate::Number(NumberRange::Integer { low: 10, high: 20 });
    let mut plan = plan(&schema, PlanNode::Leaf(LeafId(0)), vec![("date", range)]);
    plan.sorting = vec![by(SortBy::DocumentId, false)];
    assert_eq!(names(&run(plan).unwrap()), "d1 d3 d4");
}

#[test]
fn groups_are_made_of_the_documents_of_all_searches() {
    let schema = test_schema();
    let profile = Arc::new(CompiledProfile::compile(&schema, "default").unwrap());
    let deadline = SearchDeadline::at(Instant::now() + Duration::from_secs(60));
    let view = view(&schema);
    let search = |grouping: &str| {
        let plan = grouped(everything(&schema), grouping);
        PreparedSearch::new(Arc::new(plan), Arc::clone(&profile), "mails".into())
    };
    let counts = |outcomes: &[PassOutcome]| -> Vec<(GroupId, usize)> {
        let [result] = outcomes[0].result.groupings.as_slice() else { panic!("one result of groups") };
        let lists = result.root.lists.iter().filter_map(|list| match list {
            GroupList::Groups { groups, .. } => Some(groups),
            GroupList::Hits { .. } => None,
        });
        let hits = |list: &GroupList| match list {
            GroupList::Hits { hits, .. } => hits.len(),
            GroupList::Groups { .. } => 0,
        };
        lists.flatten().map(|group| (group.id.clone(), group.lists.iter().map(hits).sum())).collect()
    };
    let by_folder = search("all(group(folder) order(max(folder)) each(each(output(summary()))))");
    let once = counts(&run_all(&[(&by_folder, &view)], &deadline).unwrap());
    let outcomes = run_all(&[(&by_folder, &view), (&by_folder, &view)], &deadline).unwrap();
    let twice: Vec<(GroupId, usize)> = once.iter().map(|(id, hits)| (id.clone(), hits * 2)).collect();
    assert_eq!(counts(&outcomes), twice);
    assert!(outcomes[1].result.groupings.is_empty());
    // A search whose schema lacks the field has no part in the groups.
    let elsewhere = search("all(group(nothing) each(output(count())))");
    let reasons: Vec<String> =
        elsewhere.ungrouped().map(|(number, error)| format!("{number}: {error}")).collect();
    assert!(
        matches!(reasons.as_slice(), [one] if one.starts_with("0: grouping: schema 'test' has no field 'nothing'")),
        "{reasons:?}"
    );
    assert_eq!(by_folder.ungrouped().count(), 0);
    assert_eq!(counts(&run_all(&[(&by_folder, &view), (&elsewhere, &view)], &deadline).unwrap()), once);
}

#[test]
fn only_documents_of_the_clusters_asked_are_seen() {
    let schema = test_schema();
    let profile = Arc::new(CompiledProfile::compile(&schema, "default").unwrap());
    let view = view(&schema);
    let deadline = SearchDeadline::at(Instant::now() + Duration::from_secs(60));
    let seen = |selections: &[&str]| {
        let selections =
            selections.iter().map(|text| Arc::new(DocumentSelection::parse(text).unwrap())).collect();
        let search = PreparedSearch::new(Arc::new(everything(&schema)), Arc::clone(&profile), "mails".into());
        names(&search.within(selections).run(&view, &deadline).unwrap())
    };
    assert_eq!(seen(&[]), "d0 d1 d2 d3 d4 d5");
    assert_eq!(seen(&["test.folder == 'inbox'"]), "d0 d2 d4");
    assert_eq!(seen(&["test.folder == 'archive'", "test.date == 20"]), "d3 d5");
}

#[test]
fn hits_of_several_schemas_become_one_page() {
    let schema = test_schema();
    let profile = Arc::new(CompiledProfile::compile(&schema, "default").unwrap());
    let deadline = SearchDeadline::at(Instant::now() + Duration::from_secs(60));
    let mut plan = everything(&schema);
    plan.sorting = vec![by(SortBy::Number("date".into()), true), by(SortBy::DocumentId, false)];
    let collapse = CollapseOptions { fields: vec![("folder".into(), 1)], summary: None };
    plan.collapse = Some(PlannedCollapse::of(&collapse, &schema));
    (plan.offset, plan.hits) = (1, 4);
    let search = PreparedSearch::new(Arc::new(plan), profile, "mails".into());
    let view = view(&schema);
    let (one, other) = (ChunkSubset(view.clone(), 0..1), ChunkSubset(view, 1..3));
    let outcomes = run_all(&[(&search, &one), (&search, &other)], &deadline).unwrap();
    let merged = MergedOutcome::of(outcomes, search.plan());
    // The folder of d4 is that of d0, which another schema has.
    let names: Vec<&str> = merged.result.hits.iter().map(|hit| hit.id.name()).collect();
    assert_eq!(names, ["d5", "d0", "d3", "d1"]);
    assert_eq!((merged.page, merged.result.total_count), (1..4, 6));
}
