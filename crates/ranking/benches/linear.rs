//! Cost of ranking per document: `cargo bench -p millrace-ranking`.
//!
//! One group of 100,000 documents in memory with vectors of 384 `float` cells, all of which match. Each
//! output line is one first phase, the best of several runs.

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use millrace_column::{CHUNK_DOCS, MemoryView, ViewChunk};
use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{Fields, columns};
use millrace_matching::{ChunkMatches, LeafMatches, MatchedDocuments, WordOccurrences};
use millrace_plan::FeatureInput;
use millrace_ranking::{CompiledProfile, RankedDocuments};
use millrace_schema::{InputDef, InputType, Schema};
use millrace_tensor::{Tensor, TensorCells};
use support::{plan, profile, schema, tensor_type};

const VECTOR: &str = "tensor<float>(x[384])";
const DOCUMENTS: usize = 100_000;
const RUNS: usize = 9;

fn main() {
    let (view, matches) = group(&wide("0"));
    println!("{:>8} {:>10}  first phase", "ns/doc", "total µs");
    for expression in [
        "1",
        "attribute(price)",
        "closeness(field,vector)",
        "0.3 * closeness(field,vector) + 0.2 * attribute(price) + 0.5 * freshness(sent)",
        "if (attribute(price) > 5 && attribute(sent) < 900, log(attribute(price)), query(boost) * 2)",
        "bm25(title)",
        "bm25(title) + 0.3 * closeness(field,vector) + freshness(sent)",
        "nativeRank(title)",
        "fieldMatch(title)",
        "sum(query(user) * attribute(vector))",
        "cosine_similarity(query(user), attribute(vector), x)",
    ] {
        let schema = wide(expression);
        let compiled = CompiledProfile::compile(&schema, "default").expect("the expressions here are right");
        let mut plan = plan(schema);
        plan.inputs.insert("user".to_owned(), FeatureInput::Tensor(Arc::new(vector(7))));
        let run = || {
            let begin = Instant::now();
            let over = RankedDocuments { plan: &plan, view: &view, matches: &matches };
            black_box(compiled.rank(&over, None, 10, &|| false)).expect("columns in memory can be read");
            begin.elapsed().as_secs_f64()
        };
        let best = (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min);
        println!("{:>8.2} {:>10.1}  {expression}", best * 1e9 / DOCUMENTS as f64, best * 1e6);
    }
}

/// The test schema with vectors of a usual width.
fn wide(first_phase: &str) -> Schema {
    let mut profile = profile(first_phase);
    let declared = InputDef { input_type: InputType::Tensor(tensor_type(VECTOR)), default: None };
    profile.inputs.insert("user".to_owned(), declared);
    let mut schema = schema([profile]);
    if let Some(field) = schema.fields.get_mut("vector") {
        field.data_type = DataType::Tensor(tensor_type(VECTOR));
    }
    schema
}

fn vector(number: usize) -> Tensor {
    let cells = (0..384).map(|i| ((number + i) % 17) as f32).collect();
    Tensor::new(tensor_type(VECTOR), Vec::new(), TensorCells::Float(cells))
        .expect("as many cells as the type says")
}

/// Documents of a few words, and a match of each of them.
fn group(schema: &Schema) -> (MemoryView, MatchedDocuments) {
    let mut view = MemoryView::new();
    let mut matches = MatchedDocuments { documents: DOCUMENTS as u64, ..MatchedDocuments::default() };
    matches.statistics.documents = DOCUMENTS as u64;
    matches.statistics.document_frequency = vec![DOCUMENTS as u64 / 3; 5];
    let numbers: Vec<usize> = (0..DOCUMENTS).collect();
    for (chunk, numbers) in numbers.chunks(CHUNK_DOCS).enumerate() {
        let documents: Vec<Fields> = numbers.iter().map(|number| document(*number)).collect();
        view.push(ViewChunk { documents: documents.len(), live: None }, columns(schema, &documents));
        let count = numbers.len();
        let words = |position: u32| {
            LeafMatches::Words(WordOccurrences { counts: vec![1; count], positions: vec![position; count] })
        };
        let distances = numbers.iter().map(|number| (number % 100) as f64 / 10.0).collect();
        matches.chunks.push(ChunkMatches {
            chunk,
            documents: (0..count as u16).collect(),
            leaves: vec![
                words(2),
                words(5),
                LeafMatches::None,
                LeafMatches::None,
                LeafMatches::Distances(distances),
            ],
        });
    }
    (view, matches)
}

fn document(number: usize) -> Fields {
    let words = ["red", "fox", "blue", "dog", "green", "met", "and", "a"];
    let title: Vec<&str> = (0..8).map(|i| words[(number + i * 3) % words.len()]).collect();
    Fields::from([
        ("title", DocumentValue::String(title.join(" "))),
        ("price", DocumentValue::Float((number % 1000) as f32 / 10.0)),
        ("sent", DocumentValue::Long((number % 1000) as i64)),
        ("vector", DocumentValue::Tensor(vector(number))),
    ])
}
