//! A small group of documents, a query over it, and profiles given as text.

#![allow(dead_code, reason = "each test and benchmark uses a part of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_column::MemoryView;
use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{Fields, field};
use millrace_matching::{MatchedDocuments, match_plan};
use millrace_plan::{FeatureInput, LeafId, Plan, PlanNode, Predicate, WordPattern};
use millrace_ranking::CompiledProfile;
use millrace_schema::{
    DistanceMetric, FunctionDef, InputDef, InputType, RankPhase, RankProfile, Schema, SchemaConstant,
    SourcePosition, SourcedText,
};
use millrace_tensor::{Tensor, TensorType};

pub fn sourced(text: &str) -> SourcedText<String> {
    SourcedText {
        value: text.to_owned(),
        position: SourcePosition { file: "schemas/test.sd".to_owned(), line: 10, column: 5 },
    }
}

pub fn tensor_type(spec: &str) -> TensorType {
    TensorType::parse(spec).expect("the types here are right")
}

pub fn tensor(text: &str) -> Tensor {
    Tensor::parse(text, None).expect("the tensors here are right")
}

/// A schema with these profiles.
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
        field("place", DataType::Position, false),
        field("route", DataType::Array(Box::new(DataType::Position)), false),
    ];
    Schema {
        rank_profiles: profiles.into_iter().map(|profile| (profile.name.clone(), profile)).collect(),
        constants: BTreeMap::from([
            ("seven".to_owned(), constant("tensor()", "7")),
            ("weights".to_owned(), constant("tensor<float>(x[2])", "[10, 1]")),
        ]),
        ..millrace_fixtures::schema("test", fields)
    }
}

fn constant(spec: &str, text: &str) -> SchemaConstant {
    SchemaConstant { constant_type: InputType::Tensor(tensor_type(spec)), value: sourced(text) }
}

/// A profile with a first phase, and the functions and inputs that tests use.
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
        first_phase: RankPhase { expression: Some(sourced(first_phase)), ..RankPhase::default() },
        properties: [
            ("freshness(sent).maxAge", "100"),
            ("test_cfgvalue(b).value", "15"),
            ("test_cfgvalue(b).value", "25"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        position: SourcePosition { file: "schemas/test.sd".to_owned(), line: 8, column: 3 },
        ..RankProfile::default()
    }
}

/// The documents: title, price, and further fields as needed.
pub fn documents() -> Vec<Fields> {
    let text = |text: &str| DocumentValue::String(text.to_owned());
    let position = |latitude: i32, longitude: i32| DocumentValue::Position {
        latitude: latitude * 1_000_000,
        longitude: longitude * 1_000_000,
    };
    let texts = |texts: &[&str]| {
        DocumentValue::Array(texts.iter().map(|t| DocumentValue::String((*t).to_owned())).collect())
    };
    let tags = |tags: &[(&str, i32)]| {
        DocumentValue::WeightedSet(
            tags.iter().map(|(tag, weight)| (DocumentValue::String((*tag).to_owned()), *weight)).collect(),
        )
    };
    vec![
        Fields::from([
            ("title", text("red fox jumps")),
            ("notes", texts(&["a red note", "fox"])),
            ("price", DocumentValue::Float(2.5)),
            ("sent", DocumentValue::Long(990)),
            ("color", text("blue")),
            ("flag", DocumentValue::Bool(true)),
            ("numbers", DocumentValue::Array(vec![DocumentValue::Int(4), DocumentValue::Int(5)])),
            ("tags", tags(&[("new", 30), ("hot", 10)])),
            ("vector", DocumentValue::Tensor(tensor("tensor<float>(x[2]):[3,4]"))),
            ("parts", DocumentValue::Tensor(tensor("tensor<float>(p{},x[2]):{a:[1,0],b:[0,2]}"))),
            ("place", position(1, 2)),
            ("route", DocumentValue::Array(vec![position(3, 4), position(1, 2)])),
        ]),
        Fields::from([
            ("title", text("blue fox")),
            ("price", DocumentValue::Float(10.0)),
            ("sent", DocumentValue::Long(950)),
            ("tags", tags(&[("hot", 5)])),
            ("vector", DocumentValue::Tensor(tensor("tensor<float>(x[2]):[0,1]"))),
        ]),
        Fields::from([("title", text("fox and fox met red dog"))]),
        Fields::from([("title", text("a green dog")), ("price", DocumentValue::Float(1.0))]),
    ]
}

/// A view of documents, two per chunk.
pub fn view(schema: &Schema, documents: &[Fields]) -> MemoryView {
    let living: Vec<(Fields, bool)> = documents.iter().map(|fields| (fields.clone(), true)).collect();
    millrace_fixtures::view(schema, &living, 2)
}

fn word(word: &str) -> Predicate {
    Predicate::Words(vec![WordPattern::Exact(word.to_owned())])
}

/// A query for any of: title "red" (weight 200), title "fox", notes "fox", tags "hot"; ranked with the vector
/// nearest to [0,0], which has the label "near". Its inputs are boost 3 and user [1,2]; its time is 1000.
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
    let root = PlanNode::Rank(
        Box::new(PlanNode::Or((0..4).map(|leaf| PlanNode::Leaf(LeafId(leaf))).collect())),
        vec![PlanNode::Leaf(LeafId(4))],
    );
    let mut plan = millrace_fixtures::plan(&Arc::new(schema), root, leaves);
    plan.terms[0].annotations.weight = 200;
    plan.terms[4].annotations.label = Some("near".to_owned());
    plan.inputs = BTreeMap::from([
        ("boost".to_owned(), FeatureInput::Tensor(Arc::new(Tensor::scalar(3.0)))),
        ("user".to_owned(), FeatureInput::Tensor(Arc::new(tensor("tensor<float>(x[2]):[1,2]")))),
    ]);
    plan.now = 1000;
    let mut query = millrace_fixtures::query();
    query.ranking.properties = [
        ("dotProduct.v", "{hot:2,new:1,0:1,1:10}"),
        ("euclideanDistance.v", "[1 1 7]"),
        ("labels", "[a b]"),
        ("cells", "{a:2,b:3}"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    plan.query = Arc::new(query);
    plan
}

/// The matches of a plan's query, with the data that a profile needs.
pub fn matches(plan: &Plan, view: &MemoryView, profile: &CompiledProfile) -> MatchedDocuments {
    match_plan(plan, view, profile.demands(plan), &|| false).expect("columns in memory can be read")
}
