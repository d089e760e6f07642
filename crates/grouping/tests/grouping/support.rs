//! Purchases: a schema with a field of every kind, documents in memory, and groups as text.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;

use millrace_column::{BytesBuilder, Column, ColumnKey, MemoryView, ValueBuilder, View, ViewChunk};
use millrace_document::DocumentValue;
use millrace_fixtures::{PlainView, grouping_schema};
use millrace_grouping::{GroupingExecution, GroupingRequest, HitRef, Settings};
use millrace_query::GroupingDefaults;
use millrace_result::{GroupId, GroupList, GroupValue, GroupingResult, ResultGroup, ResultHit};
use millrace_schema::{Application, Schema};

const SCHEMA: &str = "
schema purchase {
    document purchase {
        struct size { field width type double {} field heavy type bool {} }
        struct part { field name type string {} field count type int {} field size type size {} }
        field customer type string { indexing: summary | attribute }
        field item type string { indexing: summary | attribute }
        field subject type string { indexing: summary | index }
        field price type int { indexing: summary | attribute }
        field tax type double { indexing: summary | attribute }
        field rating type float { indexing: summary | attribute }
        field date type long { indexing: summary | attribute }
        field level type byte { indexing: summary | attribute }
        field paid type bool { indexing: summary | attribute }
        field digest type raw { indexing: summary | attribute }
        field tags type array<string> { indexing: summary | attribute }
        field sizes type array<int> { indexing: summary | attribute }
        field curve type array<double> { indexing: summary | attribute }
        field votes type weightedset<string> { indexing: summary | attribute }
        field attributes type map<string, string> {
            indexing: summary
            struct-field key { indexing: attribute }
            struct-field value { indexing: attribute }
        }
        field stock type map<int, long> { indexing: summary }
        field parts type array<part> { indexing: summary }
        field place type position { indexing: summary | attribute }
        field route type array<position> { indexing: summary | attribute }
        field marks type weightedset<int> { indexing: summary | attribute }
        field case type part { indexing: summary }
        field shelves type map<string, part> { indexing: summary }
        field vector type tensor<float>(x[2]) { indexing: summary | attribute }
    }
    document-summary short { summary item {} }
}";

const SERVICES: &str = "<services version='1.0'><container id='default' version='1.0'><search/></container>
<content id='shop' version='1.0'><min-redundancy>1</min-redundancy>
<documents><document type='purchase' mode='streaming'/></documents></content></services>";

/// A document: name in its id, score, and fields.
#[derive(Debug)]
pub struct TestPurchase {
    pub name: String,
    pub score: f64,
    pub fields: Vec<(&'static str, DocumentValue)>,
}

pub fn schema() -> Arc<Schema> {
    let files = BTreeMap::from([
        ("services.xml".to_owned(), SERVICES.as_bytes().to_vec()),
        ("schemas/purchase.sd".to_owned(), SCHEMA.as_bytes().to_vec()),
    ]);
    let application = Application::from_files(files).expect("the test's application is right");
    Arc::clone(&application.schemas["purchase"])
}

/// A view of documents with `chunk` documents per chunk.
pub fn view(schema: &Schema, purchases: &[TestPurchase], chunk: usize) -> MemoryView {
    let mut view = MemoryView::new();
    for documents in purchases.chunks(chunk) {
        let mut columns: Vec<(ColumnKey, Column)> = schema
            .fields
            .values()
            .map(|field| {
                let mut builder = ValueBuilder::new(&field.data_type);
                for document in documents {
                    let value = document.fields.iter().find(|(name, _)| **name == *field.name);
                    builder.push(value.map(|(_, value)| value));
                }
                (ColumnKey::value(&field.name), builder.finish())
            })
            .collect();
        let mut ids = BytesBuilder::new();
        for document in documents {
            ids.push(Some(format!("id:shop:purchase:g=me:{}", document.name).as_bytes()));
        }
        columns.push((ColumnKey::id(), Column::Bytes(ids.finish())));
        view.push(ViewChunk { documents: documents.len(), live: None }, columns);
    }
    view
}

/// Settings of a query at this instant, with groups and hits unlimited by default.
pub fn settings(zone: &str) -> Settings {
    let defaults = GroupingDefaults {
        max_groups: None,
        max_hits: None,
        global_max_groups: None,
        timezone: zone.to_owned(),
        ..GroupingDefaults::default()
    };
    Settings::new(&defaults, 1_157_760_000).expect("the test's zone")
}

/// Executes a request over parts that are collected separately and merged.
pub fn execute(
    request: &GroupingRequest,
    schema: &Schema,
    settings: &Settings,
    parts: &[&[TestPurchase]],
) -> Result<GroupingResult, Box<dyn Error>> {
    execute_over(request, schema, settings, parts, |purchases| view(schema, purchases, 5))
}

/// Memory that the groups of a request take on their pages, in bytes.
pub fn page_bytes(text: &str, purchases: &[TestPurchase]) -> usize {
    let request = &GroupingRequest::parse(text).expect("the test's requests are right")[0];
    let (schema, settings) = (schema(), settings("utc"));
    let grouping = request.check(&grouping_schema(&schema), &settings).expect("the schema has the fields");
    let view = view(&schema, purchases, purchases.len());
    let mut execution = GroupingExecution::new(Arc::new(grouping), 0);
    let rows: Vec<u16> = (0..purchases.len() as u16).collect();
    let scores: Vec<f64> = purchases.iter().map(|purchase| purchase.score).collect();
    execution.collect(&view, 0, &rows, &scores).expect("the columns can be read");
    execution.complete(&view).expect("the columns can be read");
    let mut taken = 0_usize;
    let mut take = |bytes: usize| {
        taken += bytes;
        Ok::<_, Infallible>(())
    };
    assert!(execution.paged(0, &mut take).is_ok_and(|paged| !paged.has_hits()));
    taken
}

/// [`execute`] on the plain paths.
fn execute_plain(
    request: &GroupingRequest,
    schema: &Schema,
    settings: &Settings,
    parts: &[&[TestPurchase]],
) -> Result<GroupingResult, Box<dyn Error>> {
    execute_over(request, schema, settings, parts, |purchases| PlainView(view(schema, purchases, 5)))
}

/// Asserts that a request has the same groups on the fast and on the plain paths; returns them.
pub fn compare(text: &str, purchases: &[TestPurchase]) -> String {
    let request = &GroupingRequest::parse(text).expect("the test's requests are right")[0];
    let (schema, settings) = (schema(), settings("utc"));
    let groups = |result| show(&result);
    let found = execute(request, &schema, &settings, &[purchases]).map(groups).map_err(|e| e.to_string());
    let plain =
        execute_plain(request, &schema, &settings, &[purchases]).map(groups).map_err(|e| e.to_string());
    assert_eq!(found, plain, "{text}");
    found.unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn execute_over<V: View>(
    request: &GroupingRequest,
    schema: &Schema,
    settings: &Settings,
    parts: &[&[TestPurchase]],
    view: impl Fn(&[TestPurchase]) -> V,
) -> Result<GroupingResult, Box<dyn Error>> {
    let grouping = Arc::new(request.check(&grouping_schema(schema), settings)?);
    let mut whole: Option<GroupingExecution> = None;
    for (number, purchases) in parts.iter().enumerate() {
        let view = view(purchases);
        let mut execution = GroupingExecution::new(Arc::clone(&grouping), number as u32);
        for (chunk, documents) in purchases.chunks(5).enumerate() {
            let rows: Vec<u16> = (0..documents.len() as u16).collect();
            let scores: Vec<f64> = documents.iter().map(|document| document.score).collect();
            execution.collect(&view, chunk, &rows, &scores)?;
        }
        execution.complete(&view)?;
        match &mut whole {
            None => whole = Some(execution),
            Some(whole) => whole.merge(execution),
        }
    }
    let whole = whole.expect("a test has at least one part");
    let paged = whole.paged(0, &mut |_| Ok::<_, Box<dyn Error>>(()))?;
    paged.fill(&mut |summary, references| Ok(fill(summary, references, parts)))
}

fn fill(summary: Option<&str>, references: &[HitRef], parts: &[&[TestPurchase]]) -> Vec<ResultHit> {
    let hit = |reference: &HitRef| {
        let purchase = &parts[reference.part as usize][reference.chunk * 5 + usize::from(reference.document)];
        assert_eq!(purchase.score, reference.score, "the score is the document's");
        ResultHit {
            id: format!("id:shop:purchase:g=me:{}", purchase.name).parse_id(),
            document_type: "purchase".into(),
            relevance: reference.score,
            sort_values: Vec::new(),
            fields: Vec::new(),
            source: summary.unwrap_or("shop").into(),
        }
    };
    references.iter().map(hit).collect()
}

trait ParseId {
    fn parse_id(&self) -> millrace_document::DocumentId;
}

impl ParseId for String {
    fn parse_id(&self) -> millrace_document::DocumentId {
        millrace_document::DocumentId::parse(self).expect("the test's ids are right")
    }
}

/// A result on one line: `{outputs} label[group{outputs} …] hits(names)`.
pub fn show(result: &GroupingResult) -> String {
    let mut out = String::new();
    inside(&result.root, &mut out);
    out.trim().to_owned()
}

fn inside(group: &ResultGroup, out: &mut String) {
    if !group.outputs.is_empty() {
        let outputs: Vec<String> =
            group.outputs.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
        let _ = write!(out, "{{{}}}", outputs.join(" "));
    }
    for list in &group.lists {
        match list {
            GroupList::Groups { label, groups, continuation } => {
                let _ = write!(out, " {label}[");
                for (index, group) in groups.iter().enumerate() {
                    let _ = write!(out, "{}{}", if index > 0 { "  " } else { "" }, id(&group.id));
                    inside(group, out);
                }
                let _ = write!(out, "]{}", pages(continuation));
            }
            GroupList::Hits { label, hits, continuation } => {
                let names: Vec<&str> = hits.iter().map(|hit| hit.id.name()).collect();
                let class =
                    hits.first().filter(|hit| &*hit.source != "shop").map(|hit| format!("{}: ", hit.source));
                let _ = write!(
                    out,
                    " {label}({}{}){}",
                    class.unwrap_or_default(),
                    names.join(" "),
                    pages(continuation)
                );
            }
        }
    }
}

fn pages((next, previous): &(Option<String>, Option<String>)) -> String {
    format!("{}{}", if previous.is_some() { "<" } else { "" }, if next.is_some() { ">" } else { "" })
}

fn id(id: &GroupId) -> String {
    match id {
        GroupId::Root => "root".to_owned(),
        GroupId::Null => "null".to_owned(),
        GroupId::Long(value) => value.to_string(),
        GroupId::Double(value) => format!("{value:?}"),
        GroupId::Bool(value) => value.to_string(),
        GroupId::String(text) => format!("'{text}'"),
        GroupId::Raw(bytes) => format!("{bytes:?}"),
        GroupId::LongBucket(from, to) => format!("{from}..{to}"),
        GroupId::DoubleBucket(from, to) => format!("{from:?}..{to:?}"),
        GroupId::StringBucket(from, to) => format!("'{from}'..'{to}'"),
        GroupId::RawBucket(from, to) => format!("{from:?}..{to:?}"),
    }
}

fn text(value: &GroupValue) -> String {
    match value {
        GroupValue::Long(value) => value.to_string(),
        GroupValue::Double(value) => format!("{value:?}"),
        GroupValue::Bool(value) => value.to_string(),
        GroupValue::String(text) => format!("'{text}'"),
        GroupValue::Raw(bytes) => format!("{bytes:?}"),
        GroupValue::Quantiles(quantiles) => format!("{quantiles:?}"),
    }
}
