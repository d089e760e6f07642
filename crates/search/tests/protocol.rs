//! Messages of nodes of other versions about a shared query: the bytes of each protocol are kept.
//!
//! Protocol 2 has the bytes of protocol 1.
//!
//! A message that another version cannot read is not a change of `protocol-1.txt` but a line of the next
//! protocol's file, and is sent only where that protocol is spoken; see `millrace_cluster::PROTOCOL`.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_column::View;
use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{ChunkSubset, Fields, field, plan, schema, view};
use millrace_plan::{
    LeafId, Plan, PlanNode, PlannedCollapse, Predicate, SortBy, SortColumn, WordPattern, groupings,
};
use millrace_query::CollapseOptions;
use millrace_ranking::CompiledProfile;
use millrace_schema::{RankPhase, RankProfile, Schema, SourcePosition, SourcedText};
use millrace_search::{
    GatheringNext, PreparedSearch, SearchDeadline, SearchGathering, ShareReply, ShareRequest, ShareSession,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

const KEPT: &str = include_str!("protocol-1.txt");

/// Folder, date and price.
const MAILS: [(&str, Option<i64>, f64); 4] =
    [("inbox", Some(30), 1.5), ("work", Some(10), -2.0), ("inbox", None, 0.0), ("archive", Some(20), 9.0)];

fn sourced(text: &str) -> SourcedText<String> {
    SourcedText { value: text.to_owned(), place: SourcePosition::default() }
}

fn phase(expression: &str) -> RankPhase {
    RankPhase { expression: Some(sourced(expression)), ..RankPhase::default() }
}

/// A search for all mails, ranked by their price.
fn everything(change: impl FnOnce(&mut RankProfile)) -> Plan {
    let fields = vec![
        field("title", DataType::String, true),
        field("folder", DataType::String, false),
        field("date", DataType::Long, false),
        field("price", DataType::Double, false),
    ];
    let mut profile = RankProfile { name: "default".into(), ..RankProfile::default() };
    profile.first_phase = phase("attribute(price)");
    profile.match_features = vec![sourced("attribute(date)")];
    change(&mut profile);
    let rank_profiles = [(profile.name.clone(), profile)].into();
    plan(&Arc::new(Schema { rank_profiles, ..schema("test", fields) }), PlanNode::True, Vec::new())
}

fn groups() -> Plan {
    let request = "all(group(folder) max(2) order(-count(), -max(price)) \
         each(output(count(), sum(price), sum(date), avg(price), avg(date), min(date), max(folder), stddev(price), xor(date), \
         quantiles([0.5], price)) each(output(summary())))) \
         all(group(predefined(price, bucket(-10, 1), bucket(1, 10))) each(output(count()))) \
         all(group(predefined(folder, bucket(\"a\", \"i\"), bucket(\"i\", \"z\"))) each(output(count()))) \
         all(group(date) each(output(count()))) all(group(price) each(output(count())))";
    let mut plan = everything(|_| ());
    let query = Arc::get_mut(&mut plan.query).expect("nobody else has it");
    query.grouping = vec![request.to_owned()];
    plan.groupings = groupings(&plan.query, &plan.schema, plan.now).expect("the request is valid");
    plan.hits = 0;
    plan
}

fn phases() -> Plan {
    everything(|profile| {
        profile.second_phase = phase("firstPhase + 1");
        profile.global_phase = phase("normalize_linear(attribute(price)) + secondPhase");
    })
}

fn words() -> Plan {
    let schema =
        everything(|profile| profile.first_phase = phase("attribute(price) + 0 * bm25(title)")).schema;
    let words = Predicate::Words(vec![WordPattern::Exact("mail".into())]);
    plan(&schema, PlanNode::Leaf(LeafId(0)), vec![("title", words)])
}

fn order() -> Plan {
    let mut plan = everything(|_| ());
    let collapse = CollapseOptions { fields: vec![("folder".into(), 1)], summary: None };
    plan.collapse = Some(PlannedCollapse::of(&collapse, &plan.schema));
    let by = |by, descending| SortColumn { by, descending, missing: None };
    plan.sorting = vec![by(SortBy::Number("date".into()), true), by(SortBy::DocumentId, false)];
    plan
}

/// Appends a message to the record, and returns it as received.
fn said<T: Serialize + DeserializeOwned>(lines: &mut String, what: &str, message: &T) -> T {
    let mut bytes = Vec::new();
    ciborium::into_writer(message, &mut bytes).expect("it can be written");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let _ = writeln!(lines, "{what} {hex}");
    ciborium::from_reader(&bytes[..]).expect("it can be read")
}

/// Runs a search over two nodes, and records the messages.
fn run(lines: &mut String, name: &str, plan: Plan) {
    let document = |(folder, date, price): &(&str, Option<i64>, f64)| {
        let mut fields = Fields::from([
            ("title", DocumentValue::String("a mail".to_owned())),
            ("folder", DocumentValue::String((*folder).to_owned())),
            ("price", DocumentValue::Double(*price)),
        ]);
        fields.extend(date.map(|date| ("date", DocumentValue::Long(date))));
        (fields, true)
    };
    let documents: Vec<(Fields, bool)> = MAILS.iter().map(document).collect();
    let view = view(&plan.schema, &documents, 2);
    let profile = Arc::new(CompiledProfile::compile(&plan.schema, "default").expect("it compiles"));
    let search = Arc::new(PreparedSearch::new(Arc::new(plan), profile, "mails".into()));
    let deadline = SearchDeadline::at(Instant::now() + Duration::from_secs(600));
    let session = |chunk| {
        let part: Arc<dyn View> = Arc::new(ChunkSubset(view.clone(), chunk..chunk + 1));
        ShareSession::new(vec![(Arc::clone(&search), part)], &deadline).expect("it can be searched")
    };
    let mut sessions = [session(0), session(1)];
    let mut gathering = SearchGathering::new(vec![Arc::clone(&search)], sessions.len());
    let mut replies = Vec::new();
    loop {
        let asks = match gathering.next(replies).expect("the answers fit") {
            GatheringNext::Found(_) => return,
            GatheringNext::Ask(asks) => asks,
        };
        replies = Vec::new();
        for ((node, session), ask) in sessions.iter_mut().enumerate().zip(&asks) {
            // A new variant needs a line in the file of the protocol that introduces it.
            let step = match ask {
                ShareRequest::Statistics => "statistics",
                ShareRequest::Share(_) => "share",
                ShareRequest::Second(_) => "second",
                ShareRequest::ToNormalize(_) => "to-normalize",
                ShareRequest::Global(_) => "global",
                ShareRequest::Fill(_) => "fill",
                ShareRequest::LocalShare(_) | ShareRequest::FillGroups(_) => {
                    panic!("a gathering over several nodes asks only what can be sent")
                }
            };
            let ask = said(lines, &format!("ask {name} {step} {node}"), ask);
            let reply: ShareReply = session.answer(ask, &deadline).expect("it can be answered");
            replies.push(said(lines, &format!("reply {name} {step} {node}"), &reply));
        }
    }
}

#[test]
fn shares_are_asked_for_and_given_as_ever() {
    let mut lines = String::new();
    run(&mut lines, "groups", groups());
    run(&mut lines, "phases", phases());
    run(&mut lines, "order", order());
    run(&mut lines, "words", words());
    let all = ["statistics", "share", "second", "to-normalize", "global", "fill"];
    assert!(all.iter().all(|step| lines.contains(&format!(" {step} "))), "not all is said:\n{lines}");
    assert!(lines == KEPT, "other versions know this:\n{KEPT}and are told this:\n{lines}");
}
