//! `_bulk`: many writes in one request, each with its own result.
//!
//! Nothing is done before all action lines are read: a malformed one refuses the whole. Then the operations
//! are read again and written in shares, each of which is one batch of the store; no more than a share is in
//! memory as values.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use millrace_node::work::{JsonCounts, OPERATION_BYTES_TOGETHER, OPERATIONS_TOGETHER};
use serde_json::{Map, Value};

use crate::action_line::{ActionLine, action_line};
use crate::bulk_answer::BulkAnswer;
use crate::bulk_stream::{BulkBatching, BulkSplitter};
use crate::catalog::NamedKind;
use crate::names::NameDemand;
use crate::placing::WritePlacer;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, check_tree};
use crate::service::ElasticService;
use crate::slot_picking::SlotChoices;
use crate::source::SourceFilter;
use crate::update::{UpdateBody, UpdateOptions};
use crate::writing::{self, SingleWrite, WriteAction};
use crate::{Error, unread};

/// Operations of a bulk, at most: each has its result in one answer.
const OPERATIONS_MAX: usize = 100_000;

/// Longest path and parameters of a bulk in bytes: they are part of each operation.
const DEFAULTS_BYTES_MAX: usize = 2 << 10;

/// A parsed item.
struct BulkItem {
    action: WriteAction,
    index: Option<String>,
    id: Option<String>,
    demand: NameDemand,
    pipeline: Option<String>,
    /// The write, or the reason for which this item alone is refused.
    write: Result<SingleWrite, Error>,
}

/// Defaults of all items, from the parameters of the request.
struct BulkDefaults {
    index: Option<String>,
    routing: Option<String>,
    demand: NameDemand,
    pipeline: Option<String>,
    shown: Option<SourceFilter>,
    /// Maximum memory of the values of an update.
    tree_bytes_max: usize,
}

/// `POST` and `PUT` of `_bulk`.
pub(crate) fn bulk(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    index: Option<&str>,
) -> Result<ReplyContent, Error> {
    let began_ms = crate::catalog::now_ms();
    if request.path.len().max(request.query.len()) > DEFAULTS_BYTES_MAX {
        return Err(Error::IllegalArgument(format!(
            "the path or the parameters of a bulk have more than {DEFAULTS_BYTES_MAX} bytes; give long values in the action lines"
        )));
    }
    let defaults = BulkDefaults {
        index: index.map(str::to_owned),
        routing: parameters.get("routing").map(str::to_owned),
        demand: NameDemand::of(parameters)?,
        pipeline: parameters.get("pipeline").map(str::to_owned),
        shown: SourceFilter::of_parameters(parameters),
        tree_bytes_max: service.caller.tree_bytes_max(),
    };
    let refresh = RefreshPolicy::of(parameters)?;
    let mut lines = BulkLines::of(&request.body)?;
    let mut share = lines.share(&defaults)?;
    lines.clone().check(&defaults)?;
    let mut writer = BulkWriter {
        service,
        refresh,
        placer: WritePlacer::new(service),
        slots: SlotChoices::default(),
        touched: Vec::new(),
        answer: BulkAnswer::new(parameters),
    };
    loop {
        writer.write(share);
        share = lines.share(&defaults)?;
        if share.is_empty() {
            break;
        }
        if service.gone.load(Ordering::Relaxed) {
            return Err(Error::Timeout("the client left before the bulk was written".to_owned()));
        }
    }
    for name in &writer.touched {
        if let Some(index) = service.catalog.read()?.indexes.get(name) {
            index.live.refresh();
        }
    }
    Ok(writer.answer.finish(crate::catalog::now_ms().saturating_sub(began_ms)))
}

/// Writer of the operations of a bulk.
struct BulkWriter<'d> {
    service: &'d ElasticService,
    refresh: RefreshPolicy,
    placer: WritePlacer<'d>,
    slots: SlotChoices,
    /// Indexes that are refreshed at the end.
    touched: Vec<String>,
    answer: BulkAnswer,
}

impl BulkWriter<'_> {
    /// Writes operations, and waits until they are durable or refused.
    fn write(&mut self, items: Vec<BulkItem>) {
        let mut heads = Vec::with_capacity(items.len());
        let mut placed = Vec::with_capacity(items.len());
        for item in items {
            let BulkItem { action, index, id, demand, pipeline, write } = item;
            let name = index.unwrap_or_default();
            let place = write.and_then(|write| {
                check_pipeline(self.service, pipeline.as_deref())?;
                self.placer.place(&name, write, demand)
            });
            let refused = match place {
                Ok(place) => {
                    let index = &place.index.entry.name;
                    if self.refresh != RefreshPolicy::None && !self.touched.contains(index) {
                        self.touched.push(index.clone());
                    }
                    placed.push(place);
                    None
                }
                Err(error) => Some(error),
            };
            heads.push((action, name, id, refused));
        }
        let mut written = writing::write_share(self.service, &placed, &mut self.slots).into_iter();
        for (action, index, id, refused) in heads {
            let outcome = match refused {
                None => written.next().expect("each write that has a place has a result"),
                Some(error) => Err(error),
            };
            match outcome {
                Ok(result) => {
                    self.answer.add_result(action, result, self.refresh == RefreshPolicy::Now);
                }
                Err(error) => self.answer.refuse(action, index, id, &error),
            }
        }
    }
}

/// Refuses a pipeline that does not exist. Those that exist have no processors.
pub(crate) fn check_pipeline(service: &ElasticService, pipeline: Option<&str>) -> Result<(), Error> {
    match pipeline.filter(|name| !name.is_empty() && *name != "_none") {
        Some(name) if service.catalog.read()?.named(NamedKind::Pipeline, name).is_none() => {
            Err(Error::IllegalArgument(format!("pipeline with id [{name}] does not exist")))
        }
        _ => Ok(()),
    }
}

/// Time at which writes are shown to searches that an index hides them from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefreshPolicy {
    None,
    Now,
    Wait,
}

impl RefreshPolicy {
    /// Reads the parameter `refresh`.
    pub(crate) fn of(parameters: &ElasticParameters) -> Result<Self, Error> {
        match parameters.get("refresh") {
            None | Some("false") => Ok(RefreshPolicy::None),
            Some("true" | "") => Ok(RefreshPolicy::Now),
            Some("wait_for") => Ok(RefreshPolicy::Wait),
            Some(other) => Err(Error::IllegalArgument(format!("Unknown value for refresh: [{other}]."))),
        }
    }
}

/// Lines with their numbers, from 1 on. The last one is what follows the last newline.
#[derive(Clone)]
struct NumberedLines<'b> {
    rest: Option<&'b [u8]>,
    number: usize,
}

impl<'b> Iterator for NumberedLines<'b> {
    type Item = (usize, &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest?;
        self.number += 1;
        let (line, after) = match memchr::memchr(b'\n', rest) {
            Some(end) => (&rest[..end], Some(&rest[end + 1..])),
            None => (rest, None),
        };
        self.rest = after;
        Some((self.number, line))
    }
}

/// The operations of a body, read one after another.
#[derive(Clone)]
struct BulkLines<'b> {
    lines: NumberedLines<'b>,
    /// Number of operations read, and of those that name no index.
    count: usize,
    nameless: usize,
}

/// An operation as it is written.
struct BulkLine<'b> {
    action: WriteAction,
    meta: ActionLine,
    document: Option<&'b [u8]>,
    /// Bytes of its lines.
    bytes: usize,
}

impl<'b> BulkLines<'b> {
    fn of(body: &'b [u8]) -> Result<Self, Error> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(Error::Validation(vec!["no requests added".to_owned()]));
        }
        if body.last() != Some(&b'\n') {
            return Err(unterminated());
        }
        Ok(BulkLines { lines: NumberedLines { rest: Some(body), number: 0 }, count: 0, nameless: 0 })
    }

    /// Next operation; `None` at the end.
    fn read(&mut self, defaults: &BulkDefaults) -> Result<Option<BulkLine<'b>>, Error> {
        let is_blank = |line: &[u8]| line.iter().all(u8::is_ascii_whitespace);
        let Some((number, line)) = self.lines.find(|(_, line)| !is_blank(line)) else { return Ok(None) };
        let (action, meta) = action_line(number, line)?;
        let document = match action {
            WriteAction::Delete => None,
            // The last split is the empty rest after the last newline.
            _ => match self.lines.next().filter(|(_, line)| !line.is_empty()) {
                Some((_, line)) => Some(line),
                None => return Err(unterminated()),
            },
        };
        let action = action.with_op_type(meta.op_type.as_deref())?;
        self.count += 1;
        if self.count > OPERATIONS_MAX {
            return Err(Error::TooLarge(format!(
                "the bulk has more than {OPERATIONS_MAX} operations; divide it into several, none of it is done"
            )));
        }
        let index = meta.index.as_deref().or(defaults.index.as_deref());
        self.nameless += usize::from(index.is_none_or(str::is_empty));
        let bytes = line.len() + document.map_or(0, <[u8]>::len);
        Ok(Some(BulkLine { action, meta, document, bytes }))
    }

    /// Reads the rest, and checks it together with what was read before.
    ///
    /// # Errors
    /// An operation is malformed, or names no index.
    fn check(mut self, defaults: &BulkDefaults) -> Result<(), Error> {
        while self.read(defaults)?.is_some() {}
        match self.nameless {
            0 => Ok(()),
            count => Err(Error::Validation(vec!["index is missing".to_owned(); count])),
        }
    }

    /// Next operations that are written together; none at the end.
    fn share(&mut self, defaults: &BulkDefaults) -> Result<Vec<BulkItem>, Error> {
        let (mut items, mut bytes) = (Vec::new(), 0_usize);
        while items.len() < OPERATIONS_TOGETHER {
            let before = self.clone();
            let Some(line) = self.read(defaults)? else { break };
            bytes = bytes.saturating_add(line.memory_bytes());
            if bytes > OPERATION_BYTES_TOGETHER && !items.is_empty() {
                *self = before;
                break;
            }
            items.push(line.item(defaults));
        }
        Ok(items)
    }
}

impl BulkLine<'_> {
    /// Bytes of its texts, with the values of an update, which are read before their share is written.
    fn memory_bytes(&self) -> usize {
        match (self.action, self.document) {
            (WriteAction::Update, Some(body)) => {
                self.bytes.saturating_add(JsonCounts::upper_bound(body).tree_bytes())
            }
            _ => self.bytes,
        }
    }

    /// The operation with the defaults of all.
    fn item(self, defaults: &BulkDefaults) -> BulkItem {
        let BulkLine { action, meta, document, .. } = self;
        let write = write_of(action, &meta, document, defaults);
        BulkItem {
            action,
            index: meta.index.or_else(|| defaults.index.clone()),
            id: meta.id,
            demand: NameDemand {
                alias: meta.require_alias.unwrap_or(defaults.demand.alias),
                data_stream: meta.require_data_stream.unwrap_or(defaults.demand.data_stream),
            },
            pipeline: meta.pipeline.or_else(|| defaults.pipeline.clone()),
            write,
        }
    }
}

fn unterminated() -> Error {
    Error::IllegalArgument("The bulk request must be terminated by a newline [\\n]".to_owned())
}

/// Parses all items.
fn parse(body: &[u8], defaults: &BulkDefaults) -> Result<Vec<BulkItem>, Error> {
    let mut lines = BulkLines::of(body)?;
    lines.clone().check(defaults)?;
    let mut items = Vec::new();
    loop {
        let share = lines.share(defaults)?;
        if share.is_empty() {
            return Ok(items);
        }
        items.extend(share);
    }
}

fn write_of(
    action: WriteAction,
    meta: &ActionLine,
    source: Option<&[u8]>,
    defaults: &BulkDefaults,
) -> Result<SingleWrite, Error> {
    if meta.id.is_none() && matches!(action, WriteAction::Update | WriteAction::Delete) {
        return Err(Error::Validation(vec!["id is missing".to_owned()]));
    }
    if meta.has_dynamic_templates {
        return Err(Error::unsupported("[dynamic_templates] with fields in an item"));
    }
    let text = std::str::from_utf8(source.unwrap_or(b"{}")).map_err(Error::not_json)?;
    let (mut update, mut kept) = (None, Arc::from(""));
    let conditions = meta.conditions.clone();
    let mut options = UpdateOptions { conditions, shown: None, retries: meta.retries };
    if action == WriteAction::Update {
        check_tree(text.as_bytes(), defaults.tree_bytes_max)?;
        let body: Map<String, Value> = serde_json::from_str(text).map_err(Error::not_json)?;
        options.shown = meta.shown.as_ref().or(defaults.shown.as_ref()).cloned();
        update = Some(UpdateBody::parse(body, &mut options)?);
    } else {
        kept = Arc::from(text.trim());
    }
    let UpdateOptions { conditions, shown, .. } = options;
    Ok(SingleWrite {
        action,
        id: meta.id.clone(),
        routing: meta.routing.clone().or_else(|| defaults.routing.clone()),
        conditions,
        source: kept,
        update,
        shown,
        answer: None,
        size: None,
    })
}

/// Reads an input as the body of a bulk, and as a stream of operations, which has the same items however its
/// bytes arrive; documents are written and read again. For fuzzers.
pub fn fuzz(input: &[u8]) {
    let defaults = BulkDefaults {
        index: Some("a".to_owned()),
        routing: None,
        demand: NameDemand::default(),
        pipeline: None,
        shown: None,
        tree_bytes_max: usize::MAX,
    };
    let check = |error: &Error| {
        assert!(error.to_string().len() >= 8, "an error that says nothing: '{error}'");
        assert_eq!(error.status(), 400, "what is malformed is not sent again: {error}");
    };
    let whole = parse(input, &defaults);
    match &whole {
        Ok(items) => items.iter().for_each(|item| match &item.write {
            Ok(write) => fuzz_document(&write.source),
            Err(error) => check(error),
        }),
        Err(error) => check(error),
    }
    let batches_of = |piece: usize| {
        let batching = BulkBatching { operations: 2, interval: None };
        let mut splitter = BulkSplitter::new(batching, usize::MAX);
        let mut batches = Vec::new();
        for piece in input.chunks(piece) {
            batches.extend(splitter.add(piece).expect("no operation is too long"));
        }
        batches.extend(splitter.rest());
        batches
    };
    let batches = batches_of(input.len().max(1));
    assert!(batches == batches_of(1), "the batches depend on how the bytes arrive");
    if let Ok(items) = &whole {
        let count = |batch: &Vec<u8>| parse(batch, &defaults).map_or(0, |items| items.len());
        assert_eq!(batches.iter().map(count).sum::<usize>(), items.len(), "a stream has other items");
    }
}

/// Reads a document of a bulk, writes it as answers have it, and reads it again: it has the same values. One
/// with the name of unread parts, which no client knows, is written; what can be read of that stays the same.
fn fuzz_document(text: &str) {
    let read = |text: &str| unread::read_document(text).ok().map(Value::Object);
    let again = |document: &Value| read(&unread::sent_json(document));
    if let Some(document) = read(text) {
        assert!(again(&document).as_ref() == Some(&document), "it has other values: {document:?}");
    }
    let named = read(&text.replace("unread", &unread::escaped_name()));
    if let Some(document) = named.and_then(|document| again(&document)) {
        assert!(again(&document).as_ref() == Some(&document), "it has other values: {document:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> BulkDefaults {
        BulkDefaults {
            index: None,
            routing: None,
            demand: NameDemand::default(),
            pipeline: None,
            shown: None,
            tree_bytes_max: usize::MAX,
        }
    }

    #[test]
    fn a_malformed_line_refuses_the_whole() {
        let good = "{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{}\n";
        for (line, expected) in [
            ("{}\n", "Malformed action/metadata line [3], expected FIELD_NAME but found [END_OBJECT]"),
            ("[]\n", "Malformed action/metadata line [3], expected START_OBJECT but found [START_ARRAY]"),
            ("1\n", "Malformed action/metadata line [3], expected START_OBJECT but found [VALUE_NUMBER]"),
            (
                "{\"nothing\":{}}\n{}\n",
                "Malformed action/metadata line [3], expected field [create], [delete], [index] or [update] but found [nothing]",
            ),
            (
                "{\"index\":1}\n{}\n",
                "Malformed action/metadata line [3], expected START_OBJECT but found [VALUE_NUMBER]",
            ),
            (
                "{\"index\":{},\"delete\":{}}\n{}\n",
                "Malformed action/metadata line [3], expected END_OBJECT but found [FIELD_NAME]",
            ),
            (
                "{\"index\":{\"_index\":\"a\",\"what\":1}}\n{}\n",
                "Action/metadata line [3] contains an unknown parameter [what]",
            ),
            (
                "{\"index\":{\"_index\":[]}}\n{}\n",
                "Malformed action/metadata line [3], expected a simple value for field [_index] but found [START_ARRAY]",
            ),
            (
                "{\"delete\":{\"_index\":\"a\",\"_id\":\"1\"}}",
                "The bulk request must be terminated by a newline [\\n]",
            ),
            ("{\"index\":{\"_index\":\"a\"}}\n", "The bulk request must be terminated by a newline [\\n]"),
            (
                "{\"update\":{\"retry_on_conflict\":\"x\"}}\n{}\n",
                "action/metadata line [3]: field [retry_on_conflict] is not a whole number: [x]",
            ),
            ("{\"index\":{\"op_type\":\"put\"}}\n{}\n", "opType must be 'create' or 'index', found: [put]"),
            ("{\"index\":{}}\n{}\n", "Validation Failed: 1: index is missing;"),
        ] {
            let body = format!("{good}{line}");
            let error =
                parse(body.as_bytes(), &defaults()).err().unwrap_or_else(|| panic!("{line} is taken"));
            assert_eq!(error.to_string(), expected, "{line}");
            assert_eq!(error.status(), 400, "{line}");
        }
        let error = parse(format!("{good}{{\"index\":\n{{}}\n").as_bytes(), &defaults()).err();
        assert_eq!(error.map(|error| error.kind()), Some("json_parse_exception"));
        let error = parse(b"\n", &defaults()).err().expect("an empty body is refused");
        assert_eq!(error.to_string(), "Validation Failed: 1: no requests added;");
    }

    #[test]
    fn items_have_their_metadata_and_defaults() {
        let body = b"{\"index\":{\"_id\":7,\"op_type\":\"create\"}}\r\n{\"a\":1}\r\n{\"delete\":{\"_index\":\"b\",\"_id\":\"x\",\"routing\":\"r\"}}\n";
        let defaults =
            BulkDefaults { index: Some("a".to_owned()), routing: Some("q".to_owned()), ..defaults() };
        let items = parse(body, &defaults).expect("the body is valid");
        let shown: Vec<_> = items
            .iter()
            .map(|item| {
                let write = item.write.as_ref().expect("each item is valid");
                (
                    item.action.name(),
                    item.index.as_deref(),
                    item.id.as_deref(),
                    write.routing.as_deref(),
                    &*write.source,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("create", Some("a"), Some("7"), Some("q"), "{\"a\":1}"),
                ("delete", Some("b"), Some("x"), Some("r"), "{}"),
            ]
        );
    }

    #[test]
    fn documents_are_read_as_they_were_written() {
        for text in [
            r#"{"a":-0.0,"b":[1e999,18446744073709551616,0.1],"a":1}"#,
            r#"{"a":"\ud800","b":{"\udc00":[1,{"c":null}]}}"#,
            r#"{"unread":"{broken"}"#,
            r#"{"unread":"1e999"}"#,
            r#"{"a":{"unread":""}}"#,
            r#"{"a":[{"unread":"[ 1, 1e999 ]"}]}"#,
            r#"{"a":{"unread":" 1 "},"b":1e999}"#,
            r#"{"a":{"unread":1},"b":{"unread":"1","c":2}}"#,
        ] {
            assert!(unread::read_document(text).is_ok(), "{text}");
            fuzz_document(text);
        }
    }
}
