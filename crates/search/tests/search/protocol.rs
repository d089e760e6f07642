//! Messages of nodes of other versions about a shared query: the bytes of each protocol are kept.
//!
//! A message that another version cannot read is not a change of a released protocol's file but a line of the
//! next one's, and is sent only where that protocol is spoken; see `millrace_cluster::PROTOCOL`.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_codec::{self as codec, protocol_1};
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
    FirstShareReply, GatheringNext, PreparedSearch, SearchDeadline, SearchGathering, ShareReply,
    ShareRequest, ShareSession,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A protocol, as the gateway chooses it.
#[derive(Debug, Clone, Copy)]
enum ShareProtocol {
    First,
    Second,
}

impl ShareProtocol {
    /// Its bytes.
    fn kept(self) -> &'static str {
        match self {
            ShareProtocol::First => include_str!("../protocol-1.txt"),
            ShareProtocol::Second => include_str!("../protocol-2.txt"),
        }
    }

    /// Bytes of a message, and the message as received.
    fn said<T: Serialize + DeserializeOwned>(self, message: &T) -> (Vec<u8>, T) {
        match self {
            ShareProtocol::First => {
                let bytes = protocol_1::append(Vec::new(), message).expect("it can be written");
                let read = protocol_1::decode(&bytes).expect("it can be read");
                (bytes, read)
            }
            ShareProtocol::Second => {
                let bytes = codec::encode(message, 0).expect("it can be written");
                let read = codec::decode(&bytes).expect("it can be read");
                (bytes, read)
            }
        }
    }

    /// Bytes of a reply, and the reply as received.
    fn replied(self, reply: ShareReply) -> (Vec<u8>, ShareReply) {
        match self {
            ShareProtocol::First => {
                let (bytes, FirstShareReply(reply)) = self.said(&FirstShareReply(reply));
                (bytes, reply)
            }
            ShareProtocol::Second => self.said(&reply),
        }
    }
}

/// Messages of a protocol, as they were sent.
struct RecordedMessages {
    protocol: ShareProtocol,
    lines: String,
}

impl RecordedMessages {
    fn add(&mut self, what: &str, bytes: &[u8]) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(self.lines, "{what} {hex}");
    }

    /// Adds a question, and returns it as received.
    fn ask(&mut self, what: &str, ask: &ShareRequest) -> ShareRequest {
        let (bytes, read) = self.protocol.said(ask);
        self.add(&format!("ask {what}"), &bytes);
        read
    }

    /// Adds a reply, and returns it as received.
    fn reply(&mut self, what: &str, reply: ShareReply) -> ShareReply {
        let (bytes, read) = self.protocol.replied(reply);
        self.add(&format!("reply {what}"), &bytes);
        read
    }
}

/// Folder, date and price.
const MAILS: [(&str, Option<i64>, f64); 4] =
    [("inbox", Some(30), 1.5), ("work", Some(10), -2.0), ("inbox", None, 0.0), ("archive", Some(20), 9.0)];

fn sourced(text: &str) -> SourcedText<String> {
    SourcedText { value: text.to_owned(), position: SourcePosition::default() }
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

/// Runs a search over two nodes, and records the messages.
fn run(messages: &mut RecordedMessages, name: &str, plan: Plan) {
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
            let what = format!("{name} {step} {node}");
            let ask = messages.ask(&what, ask);
            let reply = session.answer(ask, &deadline).expect("it can be answered");
            replies.push(messages.reply(&what, reply));
        }
    }
}

#[test]
fn requests_and_replies_of_shares_keep_their_bytes() {
    for protocol in [ShareProtocol::First, ShareProtocol::Second] {
        let mut messages = RecordedMessages { protocol, lines: String::new() };
        run(&mut messages, "groups", groups());
        run(&mut messages, "phases", phases());
        run(&mut messages, "order", order());
        run(&mut messages, "words", words());
        let lines = messages.lines;
        let all = ["statistics", "share", "second", "to-normalize", "global", "fill"];
        assert!(all.iter().all(|step| lines.contains(&format!(" {step} "))), "not all is said:\n{lines}");
        let kept = protocol.kept();
        assert!(lines == kept, "{protocol:?}: other versions know this:\n{kept}and are told this:\n{lines}");
    }
}

/// Notes are left out in protocol 1 if there are none, and travel otherwise; a refusal is a reply.
#[test]
fn notes_and_refusals_travel() {
    for protocol in [ShareProtocol::First, ShareProtocol::Second] {
        let empty =
            || ShareReply::without_documents(&ShareRequest::Share(None), 1).expect("a share without hits");
        let (without, _) = protocol.replied(empty());
        let mut reply = empty();
        let ShareReply::Share(share) = &mut reply else { panic!("it is a share") };
        share.trace = vec!["by an index".to_owned()];
        let (with, mut read) = protocol.replied(reply);
        assert_eq!(read.take_trace(), ["by an index"], "{protocol:?}");
        let name = b"trace";
        let named = |bytes: &[u8]| bytes.windows(name.len()).any(|window| window == name);
        assert_eq!((named(&without), named(&with)), (false, matches!(protocol, ShareProtocol::First)));
        let refused = ShareReply::Refused { is_overload: true, message: "later".to_owned() };
        let (bytes, read) = protocol.replied(refused);
        assert!(matches!(read, ShareReply::Refused { is_overload: true, message } if message == "later"));
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            text,
            match protocol {
                ShareProtocol::First =>
                    "a16752656675736564a26b69735f6f7665726c6f6164f5676d657373616765656c61746572",
                ShareProtocol::Second => "0501056c61746572",
            }
        );
    }
}
