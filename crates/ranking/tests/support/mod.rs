//! A small group of documents, a query over it, and profiles made of text.

#![allow(dead_code, reason = "each test and benchmark uses a part of it")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_column::{Chunk, Column, ColumnKey, Form, MemoryView, TokensBuilder, ValueBuilder};
use millrace_document::{DataType, DocumentType, Value};
use millrace_matching::{Matches, match_plan};
use millrace_plan::{Input, Leaf, LeafId, Node, Plan, Predicate, Scope, Term, TermId, WordPattern};
use millrace_query::{Annotations, GroupingDefaults, Item, Presentation, Query, Ranking, Sources, Streaming};
use millrace_ranking::Profile;
use millrace_schema::{
    Attribute, Constant, DefaultTerm, DistanceMetric, DocumentSummary, FunctionDef, IndexSettings, InputDef,
    InputType, MatchMode, Matching, Phase, Place, RankProfile, Schema, SchemaField, Sourced, Stemming,
    SummaryMode,
};
use millrace_tensor::{Tensor, TensorType};

pub fn sourced(text: &str) -> Sourced<String> {
    Sourced {
        value: text.to_owned(),
        place: Place { file: "schemas/test.sd".to_owned(), line: 10, column: 5 },
    }
}

fn field(name: &str, data_type: DataType, text: bool) -> SchemaField {
    SchemaField {
        name: name.into(),
        data_type,
        synthetic: false,
        indexing: None,
        index: text.then(IndexSettings::default),
        attribute: (!text).then(Attribute::default),
        in_summary: true,
        bolding: false,
        summary: SummaryMode::Full,
        matching: Matching {
            mode: if text { MatchMode::Text } else { MatchMode::Word },
            cased: false,
            default_term: DefaultTerm::Word,
            exact_terminator: None,
            max_length: None,
            max_occurrences: None,
            max_token_length: None,
            stemming: Stemming::None,
            normalizing: true,
        },
        rank_filter: false,
        rank_type: None,
        weight: 100,
        linguistics: None,
        query_commands: Vec::new(),
        aliases: Vec::new(),
        struct_fields: Vec::new(),
        place: Place::default(),
    }
}

pub fn tensor_type(spec: &str) -> TensorType {
    TensorType::parse(spec).expect("the types here are right")
}

pub fn tensor(text: &str) -> Tensor {
    Tensor::parse(text, None).expect("the tensors here are right")
}

/// A schema whose profiles are these.
pub fn schema(profiles: impl IntoIterator<Item = RankProfile>) -> Schema {
    let string = || Box::new(DataType::String);
    let fields = vec![
        field("title", DataType::String, true),
        field("notes", DataType::Array(string()), true),
        field("price", DataType::Float, false),
        field("sent", DataType::Long, false),
        field("color", DataType::String, false),
        field("flag", DataType::Bool, false),
        field("numbers", DataType::Array(Box::new(DataType::Int)), false),
        field(
            "tags",
            DataType::WeightedSet { element: string(), create_if_nonexistent: false, remove_if_zero: false },
            false,
        ),
        field("vector", DataType::Tensor(tensor_type("tensor<float>(x[2])")), false),
        field("parts", DataType::Tensor(tensor_type("tensor<float>(p{},x[2])")), false),
    ];
    Schema {
        name: "test".into(),
        document_type: Arc::new(DocumentType::new("test", Vec::new())),
        fields: fields.into_iter().map(|field| (Arc::clone(&field.name), field)).collect(),
        fieldsets: BTreeMap::new(),
        summaries: BTreeMap::new(),
        rank_profiles: profiles.into_iter().map(|profile| (profile.name.clone(), profile)).collect(),
        constants: BTreeMap::from([
            ("seven".to_owned(), constant("tensor()", "7")),
            ("weights".to_owned(), constant("tensor<float>(x[2])", "[10, 1]")),
        ]),
        onnx_models: BTreeMap::new(),
        models: Arc::default(),
        ancestors: Vec::new(),
        raw_as_base64: true,
        stemming: Stemming::None,
        place: Place::default(),
    }
}

fn constant(spec: &str, text: &str) -> Constant {
    Constant { constant_type: InputType::Tensor(tensor_type(spec)), value: sourced(text) }
}

/// A profile with a first phase, the functions and inputs that tests use, and nothing else.
pub fn profile(first_phase: &str) -> RankProfile {
    let function = |parameters: &[&str], body: &str| FunctionDef {
        parameters: parameters.iter().map(|name| (*name).to_owned()).collect(),
        body: sourced(body),
        inline: false,
    };
    let input = |spec: &str| InputDef { input_type: InputType::Tensor(tensor_type(spec)), default: None };
    RankProfile {
        name: "default".to_owned(),
        functions: BTreeMap::from([
            ("twice".to_owned(), function(&["x"], "2 * x")),
            ("score_of".to_owned(), function(&["field"], "bm25(field) + 1")),
        ]),
        inputs: BTreeMap::from([
            ("boost".to_owned(), input("tensor()")),
            ("user".to_owned(), input("tensor<float>(x[2])")),
        ]),
        first_phase: Phase { expression: Some(sourced(first_phase)), ..Phase::default() },
        properties: vec![("freshness(sent).maxAge".to_owned(), "100".to_owned())],
        place: Place { file: "schemas/test.sd".to_owned(), line: 8, column: 3 },
        ..RankProfile::default()
    }
}

pub type Fields = BTreeMap<&'static str, Value>;

/// The documents: title, price, and the rest where there is something to see.
pub fn documents() -> Vec<Fields> {
    let text = |text: &str| Value::String(text.to_owned());
    let texts = |texts: &[&str]| Value::Array(texts.iter().map(|t| Value::String((*t).to_owned())).collect());
    let tags = |tags: &[(&str, i32)]| {
        Value::WeightedSet(
            tags.iter().map(|(tag, weight)| (Value::String((*tag).to_owned()), *weight)).collect(),
        )
    };
    vec![
        Fields::from([
            ("title", text("red fox jumps")),
            ("notes", texts(&["a red note", "fox"])),
            ("price", Value::Float(2.5)),
            ("sent", Value::Long(990)),
            ("color", text("blue")),
            ("flag", Value::Bool(true)),
            ("numbers", Value::Array(vec![Value::Int(4), Value::Int(5)])),
            ("tags", tags(&[("new", 30), ("hot", 10)])),
            ("vector", Value::Tensor(tensor("tensor<float>(x[2]):[3,4]"))),
            ("parts", Value::Tensor(tensor("tensor<float>(p{},x[2]):{a:[1,0],b:[0,2]}"))),
        ]),
        Fields::from([
            ("title", text("blue fox")),
            ("price", Value::Float(10.0)),
            ("sent", Value::Long(950)),
            ("tags", tags(&[("hot", 5)])),
            ("vector", Value::Tensor(tensor("tensor<float>(x[2]):[0,1]"))),
        ]),
        Fields::from([("title", text("fox and fox met red dog"))]),
        Fields::from([("title", text("a green dog")), ("price", Value::Float(1.0))]),
    ]
}

/// A view of documents, two in a chunk.
pub fn view(schema: &Schema, documents: &[Fields]) -> MemoryView {
    let mut view = MemoryView::new();
    for documents in documents.chunks(2) {
        view.push(Chunk { documents: documents.len(), live: None }, columns(schema, documents));
    }
    view
}

pub fn columns(schema: &Schema, documents: &[Fields]) -> Vec<(ColumnKey, Column)> {
    let column = |key: ColumnKey| {
        let field = &schema.fields[key.field.as_str()];
        let values = documents.iter().map(|document| document.get(key.field.as_str()));
        let column = if key.form == Form::Value {
            let mut builder = ValueBuilder::new(&field.data_type);
            values.for_each(|value| builder.push(value));
            builder.finish()
        } else {
            let mut builder = TokensBuilder::new();
            for value in values {
                let elements = match value {
                    Some(Value::Array(elements)) => elements.clone(),
                    Some(single) => vec![single.clone()],
                    None => Vec::new(),
                };
                for (number, element) in elements.iter().enumerate() {
                    if number > 0 {
                        builder.boundary();
                    }
                    if let Value::String(text) = element {
                        text.split(' ').for_each(|word| builder.word(word.as_bytes()));
                    }
                }
                builder.end_document();
            }
            Column::Tokens(builder.finish())
        };
        (key, column)
    };
    schema.columns().into_iter().map(column).collect()
}

fn word(word: &str) -> Predicate {
    Predicate::Words(vec![WordPattern::Exact(word.to_owned())])
}

/// A query for any of: title "red" (weight 200), title "fox", notes "fox", tags "hot"; ranked with the vector nearest to [0,0], which has
/// the label "near". Its inputs are boost 3 and user [1,2]; it is asked at 1000.
pub fn plan(schema: Schema) -> Plan {
    let vector = Arc::new(tensor("tensor<float>(x[2]):[0,0]"));
    let nearest = Predicate::Nearest {
        target: vector,
        metric: DistanceMetric::Euclidean,
        target_hits: 10,
        threshold: None,
    };
    let leaves = vec![
        ("title", word("red")),
        ("title", word("fox")),
        ("notes", word("fox")),
        ("tags", Predicate::Value { pattern: WordPattern::Exact("hot".to_owned()), cased: false }),
        ("vector", nearest),
    ];
    let terms = (0..leaves.len())
        .map(|leaf| Term {
            text: String::new(),
            annotations: Annotations {
                weight: if leaf == 0 { 200 } else { 100 },
                label: (leaf == 4).then(|| "near".to_owned()),
                ..Annotations::default()
            },
            leaves: vec![LeafId(leaf)],
        })
        .collect();
    let query = Query {
        root: Item::True,
        sources: Sources::All,
        streaming: Streaming::default(),
        hits: 10,
        offset: 0,
        sorting: Vec::new(),
        grouping: Vec::new(),
        grouping_defaults: GroupingDefaults::default(),
        recall: None,
        collapse: None,
        ranking: Ranking {
            properties: BTreeMap::from([("dotProduct.v".to_owned(), "{hot:2,new:1,0:1,1:10}".to_owned())]),
            ..Ranking::default()
        },
        presentation: Presentation {
            summary: None,
            fields: Vec::new(),
            bolding: true,
            format: None,
            tensors: None,
            timing: false,
        },
        timeout: Duration::from_secs(1),
        trace_level: 0,
        language: None,
        linguistics_profile: None,
        parameters: BTreeMap::new(),
    };
    Plan {
        schema: Arc::new(schema),
        scope: Scope::All { selection: None },
        root: Node::Rank(
            Box::new(Node::Or((0..4).map(|leaf| Node::Leaf(LeafId(leaf))).collect())),
            vec![Node::Leaf(LeafId(4))],
        ),
        terms,
        leaves: leaves
            .into_iter()
            .enumerate()
            .map(|(number, (field, predicate))| Leaf {
                field: field.into(),
                predicate,
                term: Some(TermId(number)),
                dot_product_above: None,
            })
            .collect(),
        profile: "default".to_owned(),
        inputs: BTreeMap::from([
            ("boost".to_owned(), Input::Tensor(Arc::new(Tensor::scalar(3.0)))),
            ("user".to_owned(), Input::Tensor(Arc::new(tensor("tensor<float>(x[2]):[1,2]")))),
        ]),
        feature_values: BTreeMap::new(),
        sorting: Vec::new(),
        hits: 10,
        offset: 0,
        summary: DocumentSummary {
            name: "default".to_owned(),
            fields: Vec::new(),
            omit_summary_features: false,
        },
        fields: Vec::new(),
        now: 1000,
        timeout: Duration::from_secs(1),
        query: Arc::new(query),
    }
}

/// What the query of a plan matches, with what a profile demands.
pub fn matches(plan: &Plan, view: &MemoryView, profile: &Profile) -> Matches {
    match_plan(plan, view, profile.demands(plan), &|| false).expect("columns in memory can be read")
}
