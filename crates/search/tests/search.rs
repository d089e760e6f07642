//! Searches over a handful of documents, from plan to result.

#[path = "../../matching/tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_column::{BytesBuilder, Chunk, Column, ColumnKey, MemoryView};
use millrace_document::{DataType, DocumentType, Field, Value};
use millrace_plan::{
    LeafId, Missing, Node, NumberRange, Plan, Predicate, Scope, SortBy, SortColumn, TextOrder, WordPattern,
};
use millrace_ranking::Profile;
use millrace_result::{FieldValue, GroupId, GroupList, GroupValue};
use millrace_schema::{DocumentSummary, RankProfile, Schema, SummaryField, SummaryMode};
use millrace_search::{Deadline, Error, Outcome, Search};
use support::{Fields, columns, field, plan, schema};

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
    let mut schema = Arc::unwrap_or_clone(schema(vec![
        field("title", DataType::String, true),
        field("folder", DataType::String, false),
        field("date", DataType::Long, false),
        field("price", DataType::Double, false),
    ]));
    schema
        .rank_profiles
        .insert("default".into(), RankProfile { name: "default".into(), ..RankProfile::default() });
    Arc::new(schema)
}

fn view(schema: &Schema) -> MemoryView {
    let mut view = MemoryView::new();
    for (number, mails) in MAILS.chunks(2).enumerate() {
        let document = |(title, folder, date, price): &(&str, &str, Option<i64>, f64)| {
            let mut fields = Fields::from([
                ("title", Value::String((*title).to_owned())),
                ("folder", Value::String((*folder).to_owned())),
                ("price", Value::Double(*price)),
            ]);
            fields.extend(date.map(|date| ("date", Value::Long(date))));
            fields
        };
        let documents: Vec<Fields> = mails.iter().map(document).collect();
        let mut ids = BytesBuilder::new();
        for place in 0..mails.len() {
            ids.push(Some(format!("id:mail:test:g=me:d{}", number * 2 + place).as_bytes()));
        }
        let mut columns = columns(schema, &documents);
        columns.push((ColumnKey::id(), Column::Bytes(ids.finish())));
        view.push(Chunk { documents: documents.len(), live: None }, columns);
    }
    view
}

fn quick(schema: &Arc<Schema>) -> Plan {
    let words = Predicate::Words(vec![WordPattern::Exact("quick".into())]);
    plan(schema, Node::Leaf(LeafId(0)), vec![("title", words)])
}

fn everything(schema: &Arc<Schema>) -> Plan {
    plan(schema, Node::True, Vec::new())
}

fn by(by: SortBy, descending: bool) -> SortColumn {
    SortColumn { by, descending, missing: None }
}

fn run(plan: Plan) -> Result<Outcome, Error> {
    let profile = Arc::new(Profile::compile(&plan.schema, "default").unwrap());
    let view = view(&plan.schema);
    let search = Search::new(Arc::new(plan), profile, "mails".into())?;
    search.run(&view, &Deadline::at(Instant::now() + Duration::from_secs(60)))
}

fn names(outcome: &Outcome) -> String {
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
    let collated = |locale: &str| TextOrder::Collated { locale: locale.into(), strength: "PRIMARY".into() };
    check(vec![by(date(), false)], "d2 d1 d4 d3 d0 d5");
    check(vec![by(date(), true)], "d5 d0 d3 d1 d4 d2");
    check(vec![by(date(), false), by(SortBy::DocumentId, true)], "d2 d4 d1 d3 d0 d5");
    check(vec![by(SortBy::Number("price".into()), false)], "d1 d2 d0 d5 d4 d3");
    check(vec![SortColumn { missing: Some(Missing::Last), ..by(date(), false) }], "d1 d4 d3 d0 d5 d2");
    check(vec![SortColumn { missing: Some(Missing::First), ..by(date(), true) }], "d2 d5 d0 d3 d1 d4");
    check(
        vec![SortColumn { missing: Some(Missing::As("25".into())), ..by(date(), true) }],
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
fn hits_are_filled_with_the_summary() {
    let mut plan = quick(&test_schema());
    plan.sorting = vec![by(SortBy::Number("date".into()), true)];
    plan.summary = DocumentSummary {
        name: "short".into(),
        fields: vec![SummaryField {
            name: "subject".into(),
            source: "title".into(),
            fallbacks: Vec::new(),
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
    assert_eq!(subject(0), Some(FieldValue::Value(Value::String("<hi>quick</hi>".into()))));
    assert_eq!(
        subject(2),
        Some(FieldValue::Value(Value::String("zebra <hi>quick</hi> <hi>quick</hi>".into())))
    );
    assert_eq!(&*outcome.result.hits[0].source, "mails");
}

#[test]
fn groups_are_those_of_what_matched() {
    let mut plan = quick(&test_schema());
    let mut query = (*plan.query).clone();
    query.grouping = vec!["all(group(folder) order(-count()) each(output(count())))".into()];
    plan.query = Arc::new(query);
    let outcome = run(plan).unwrap();
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
fn a_selection_decides_what_there_is() {
    let mut plan = everything(&test_schema());
    plan.sorting = vec![by(SortBy::DocumentId, false)];
    plan.scope = Scope::All { selection: Some("test.date > 15".into()) };
    let outcome = run(plan).unwrap();
    assert_eq!(names(&outcome), "d0 d3 d5");
    assert_eq!(outcome.result.coverage.documents, 6);
}

#[test]
fn what_is_wrong_is_known_before_a_document_is_read() {
    let schema = test_schema();
    let with_grouping = |text: &str| {
        let mut plan = everything(&schema);
        let mut query = (*plan.query).clone();
        query.grouping = vec![text.to_owned()];
        plan.query = Arc::new(query);
        run(plan).unwrap_err().to_string()
    };
    assert!(with_grouping("all(group(folder)").contains("expected"));
    assert!(with_grouping("all(group(nothing) each(output(count())))").contains("nothing"));
    let mut plan = everything(&schema);
    plan.scope = Scope::All { selection: Some("test.weight > 15".into()) };
    assert!(run(plan).unwrap_err().to_string().contains("weight"));
    let mut plan = everything(&schema);
    plan.sorting = vec![by(
        SortBy::Text("title".into(), TextOrder::Collated { locale: "en".into(), strength: "STRONG".into() }),
        false,
    )];
    assert!(run(plan).unwrap_err().to_string().contains("PRIMARY"));
}

#[test]
fn a_deadline_that_has_passed_is_told() {
    let mut plan = everything(&test_schema());
    plan.sorting = vec![by(SortBy::DocumentId, false)];
    let profile = Arc::new(Profile::compile(&plan.schema, "default").unwrap());
    let view = view(&plan.schema);
    let search = Search::new(Arc::new(plan), profile, "mails".into()).unwrap();
    let outcome = search.run(&view, &Deadline::at(Instant::now())).unwrap();
    assert!(outcome.result.hits.is_empty());
    let coverage = outcome.result.coverage;
    assert!(coverage.timed_out && coverage.documents == 0 && coverage.target == 6);
}

#[test]
fn a_range_of_numbers() {
    let schema = test_schema();
    let range = Predicate::Number(NumberRange::Integer { low: 10, high: 20 });
    let mut plan = plan(&schema, Node::Leaf(LeafId(0)), vec![("date", range)]);
    plan.sorting = vec![by(SortBy::DocumentId, false)];
    assert_eq!(names(&run(plan).unwrap()), "d1 d3 d4");
}
