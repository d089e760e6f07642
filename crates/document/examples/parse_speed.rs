//! Speed of reading a put with a vector of 384 floats, compared with a tree of values and a plain list of
//! floats by the same parser.
//!
//! `cargo run --release -p millrace-document --example parse_speed`

use std::hint::black_box;
use std::time::{Duration, Instant};

use millrace_document::json::{ParseOptions, parse};
use millrace_document::{DataType, DocumentField, DocumentId, DocumentType, OperationKind};
use millrace_tensor::TensorType;
use millrace_tensor::json::TensorSeed;
use serde::de::DeserializeSeed;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let floats: Vec<f32> = (0..384).map(|i| ((i * 7919 % 1000) as f32 - 500.0) / 997.0).collect();
    let list = serde_json::to_string(&floats)?;
    let body = format!(r#"{{"fields":{{"title":"Best of Bob Dylan","year":1967,"vector":{list}}}}}"#);
    println!("body of {} bytes", body.len());
    for cell in ["float", "bfloat16"] {
        let document_type = DocumentType::new(
            "music",
            vec![
                DocumentField { name: "title".into(), data_type: DataType::String },
                DocumentField { name: "year".into(), data_type: DataType::Int },
                DocumentField {
                    name: "vector".into(),
                    data_type: DataType::Tensor(TensorType::parse(&format!("tensor<{cell}>(x[384])"))?),
                },
            ],
        );
        let id = DocumentId::parse("id:mine:music:g=me:1")?;
        measure(&format!("put into {cell} cells"), || {
            parse(body.as_bytes(), OperationKind::Put, id.clone(), &document_type, ParseOptions::default())
                .is_ok()
        });
    }
    let tensor_type = TensorType::parse("tensor<float>(x[384])")?;
    measure("vector alone, sonic-rs", || {
        TensorSeed(&tensor_type).deserialize(&mut sonic_rs::Deserializer::from_str(&list)).is_ok()
    });
    measure("vector alone, serde_json", || {
        TensorSeed(&tensor_type).deserialize(&mut serde_json::Deserializer::from_str(&list)).is_ok()
    });
    measure("floor: sonic-rs, Vec<f32>", || sonic_rs::from_str::<Vec<f32>>(&list).is_ok());
    measure("sonic-rs, tree of values", || sonic_rs::from_str::<sonic_rs::Value>(&body).is_ok());
    measure("serde_json, Vec<f32>", || serde_json::from_str::<Vec<f32>>(&list).is_ok());
    measure("serde_json, tree of values", || serde_json::from_str::<serde_json::Value>(&body).is_ok());
    Ok(())
}

/// Prints the best of many rounds, the one least disturbed by other work.
fn measure(what: &str, work: impl Fn() -> bool) {
    const CALLS: u32 = 200;
    let round = |_| {
        let begin = Instant::now();
        (0..CALLS).for_each(|_| assert!(black_box(work())));
        begin.elapsed() / CALLS
    };
    let best = (0..50).map(round).min().unwrap_or(Duration::ZERO);
    println!("{what:30} {:8.2} µs", best.as_secs_f64() * 1e6);
}
