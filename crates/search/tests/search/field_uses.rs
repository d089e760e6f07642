//! Fields that queries use, by the kind of use.

use std::sync::Arc;

use millrace_document::DataType;
use millrace_fixtures::{field, plan, schema};
use millrace_plan::{
    LeafId, Plan, PlanNode, PlannedCollapse, Predicate, SortBy, SortColumn, StreamedScope, TextOrder,
    WordPattern, groupings,
};
use millrace_query::CollapseOptions;
use millrace_ranking::CompiledProfile;
use millrace_schema::{
    DocumentSummary, RankPhase, RankProfile, Schema, SourcePosition, SourcedText, SummaryField, SummaryMode,
};
use millrace_search::{FieldUseKind, PreparedSearch};
use millrace_selection::DocumentSelection;

fn summary(name: &str, fields: &[(&str, &str)]) -> DocumentSummary {
    let field = |(name, source): &(&str, &str)| SummaryField {
        name: (*name).into(),
        source: (*source).into(),
        more_sources: Vec::new(),
        mode: SummaryMode::Full,
        bolding: false,
    };
    DocumentSummary {
        name: name.to_owned(),
        fields: fields.iter().map(field).collect(),
        omit_summary_features: false,
    }
}

/// A schema with a rank profile by a number and a text, and a summary that shows the text by another name.
fn mails() -> Arc<Schema> {
    mails_by("attribute(price) + fieldMatch(title)")
}

/// The same schema with another first phase.
fn mails_by(score: &str) -> Arc<Schema> {
    let fields = vec![
        field("title", DataType::String, true),
        field("folder", DataType::String, false),
        field("date", DataType::Long, false),
        field("price", DataType::Double, false),
        field("place", DataType::Position, false),
        field("unused", DataType::String, false),
    ];
    let position = SourcePosition { file: "schemas/mail.sd".to_owned(), line: 1, column: 1 };
    let profile = RankProfile {
        name: "default".to_owned(),
        first_phase: RankPhase {
            expression: Some(SourcedText { value: score.to_owned(), position }),
            ..RankPhase::default()
        },
        ..RankProfile::default()
    };
    let summaries = [summary("default", &[("subject", "title")]), summary("dated", &[("date", "date")])];
    Arc::new(Schema {
        rank_profiles: [(profile.name.clone(), profile)].into(),
        summaries: summaries.into_iter().map(|summary| (summary.name.clone(), summary)).collect(),
        ..schema("mail", fields)
    })
}

/// The uses of a plan for all documents after this change, as `field: kind kind`, beside those that a plan
/// without conditions has: by ranking, and the text that is shown.
fn uses(change: impl FnOnce(&mut Plan)) -> String {
    let schema = mails();
    let mut plan = plan(&schema, PlanNode::True, Vec::new());
    plan.summary = schema.summaries["default"].clone();
    change(&mut plan);
    let profile = Arc::new(CompiledProfile::compile(&schema, "default").unwrap());
    let search = PreparedSearch::new(Arc::new(plan), profile, "mails".into());
    let search = search.within(vec![Arc::new(DocumentSelection::parse("mail.date > 0").unwrap())]);
    let uses = search.field_uses();
    let of_all = [
        ("date", FieldUseKind::Matched),
        ("price", FieldUseKind::Ranked),
        ("title", FieldUseKind::Ranked),
        ("title", FieldUseKind::Shown),
    ];
    let others = uses.iter().filter(|used| !of_all.contains(used));
    let missing = of_all.iter().filter(|used| !uses.contains(*used));
    let texts = others.map(|(field, kind)| format!("{field} {}", kind.name()));
    let missing = missing.map(|(field, kind)| format!("{field} not {}", kind.name()));
    texts.chain(missing).collect::<Vec<_>>().join(", ")
}

fn grouped(plan: &mut Plan, request: &str) {
    Arc::get_mut(&mut plan.query).unwrap().grouping = vec![request.to_owned()];
    plan.groupings = groupings(&plan.query, &plan.schema, plan.now).unwrap();
}

#[test]
fn each_kind_of_use_is_found() {
    let by = |by: SortBy| vec![SortColumn { by, descending: false, missing: None }];
    assert_eq!(uses(|_| {}), "");
    let matched = |change: &mut Plan| {
        let words = Predicate::Words(vec![WordPattern::Exact("quick".into())]);
        let leaves = vec![("title", words.clone()), ("place.lat", words)];
        let found = plan(&change.schema, PlanNode::Leaf(LeafId(0)), leaves);
        (change.root, change.leaves, change.terms) = (found.root, found.leaves, found.terms);
    };
    assert_eq!(uses(matched), "place matched, title matched");
    let selected = |plan: &mut Plan| {
        let selection = DocumentSelection::parse("mail.folder == 'a'").unwrap();
        plan.scope = StreamedScope::All { selection: Some(Arc::new(selection)) };
    };
    assert_eq!(uses(selected), "folder matched");
    assert_eq!(uses(|plan| plan.sorting = by(SortBy::Number("date".into()))), "date sorted");
    assert_eq!(uses(|plan| plan.sorting = by(SortBy::Number("place_zcurve".into()))), "place sorted");
    let by_text = SortBy::Text("folder".into(), TextOrder::Raw);
    assert_eq!(uses(|plan| plan.sorting = by(by_text)), "folder sorted");
    assert_eq!(uses(|plan| plan.sorting = by(SortBy::Elsewhere("date".into()))), "");
    let summed = |plan: &mut Plan| grouped(plan, "all(group(folder) each(output(sum(date))))");
    assert_eq!(uses(summed), "date grouped, folder grouped");
    let collapse = CollapseOptions { fields: vec![("folder".into(), 1)], summary: None };
    assert_eq!(
        uses(|plan| plan.collapse = Some(PlannedCollapse::of(&collapse, &plan.schema))),
        "folder grouped"
    );
}

#[test]
fn a_field_is_shown_by_the_summary_that_hits_have() {
    let fields = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let dated = |plan: &mut Plan| plan.summary = plan.schema.summaries["dated"].clone();
    assert_eq!(uses(dated), "date shown, title not shown");
    assert_eq!(uses(|plan| plan.fields = fields(&["subject"])), "");
    assert_eq!(uses(|plan| plan.fields = fields(&["other"])), "title not shown");
    // A field that the summary lacks is as in the default one.
    let other = |plan: &mut Plan| {
        dated(plan);
        plan.fields = fields(&["subject"]);
    };
    assert_eq!(uses(other), "");
    assert_eq!(uses(|plan| plan.hits = 0), "title not shown");
    // Groups have hits of their own.
    let in_groups = |plan: &mut Plan| {
        plan.hits = 0;
        grouped(plan, "all(group(folder) max(2) each(max(1) each(output(summary(dated)))))");
    };
    assert_eq!(uses(in_groups), "date shown, folder grouped, title not shown");
}

#[test]
fn all_fields_are_known_where_features_read_those_that_they_name() {
    let all = |score: &str| {
        let schema = mails_by(score);
        let mut plan = plan(&schema, PlanNode::True, Vec::new());
        plan.hits = 0;
        plan.sorting =
            vec![SortColumn { by: SortBy::Number("date".into()), descending: false, missing: None }];
        let profile = Arc::new(CompiledProfile::compile(&schema, "default").unwrap());
        let search = PreparedSearch::new(Arc::new(plan), profile, "mails".into());
        let fields = search.all_used_fields();
        fields.map(|fields| fields.into_iter().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(all("1").as_deref(), Some("date"));
    assert_eq!(all("nativeRank + attribute(price)").as_deref(), Some("date price"));
    // It reads the lengths of texts.
    assert_eq!(all("attribute(price) + fieldMatch(title)"), None);
}
