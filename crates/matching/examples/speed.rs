//! Speed of matching, compared with the limits of the machine:
//! `cargo run --release -p millrace-matching --example speed`.
//!
//! 1. The ten nearest of 10,000 and 100,000 vectors of 384 bfloat16, and the time to read the same bytes.
//! 2. Both of two words in 10,000 texts of 1 KB, with counts and document frequencies, and the time of two
//!    plain substring searches over the same folded text.
//! 3. Texts of 1 KB to tokens.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use memchr::memmem;
use millrace_column::{Column, ColumnKey, FixedBuilder, MemoryView, View, ViewChunk};
use millrace_document::{DataType, DocumentValue};
use millrace_fixtures::{Fields, field, plan, schema, view};
use millrace_linguistics::{FieldAnalyzer, TextLanguage};
use millrace_matching::{RankingDemands, match_plan};
use millrace_plan::{LeafId, PlanNode, Predicate, WordPattern};
use millrace_schema::{DistanceMetric, Schema};
use millrace_tensor::{Tensor, TensorCells, TensorType};

fn main() {
    for documents in [10_000, 100_000] {
        nearest(documents);
    }
    text(10_000);
}

/// Time of the fastest run, in nanoseconds; slower runs were disturbed by other work of the machine.
fn fastest(runs: usize, mut run: impl FnMut()) -> f64 {
    let times = (0..runs).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_nanos() as f64
    });
    times.fold(f64::INFINITY, f64::min)
}

/// A reproducible pseudo-random generator.
struct SpeedRandom(u64);

impl SpeedRandom {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn cell(&mut self) -> f32 {
        (self.next() % 2001) as f32 / 1000.0 - 1.0
    }
}

const WIDTH: usize = 384;

fn nearest(documents: usize) {
    let tensor_type = TensorType::parse("tensor<bfloat16>(x[384])").expect("the type is well written");
    let schema = Arc::new(schema("test", vec![field("vector", DataType::Tensor(tensor_type), false)]));
    let mut random = SpeedRandom(1);
    let mut view = MemoryView::new();
    let mut left = documents;
    while left > 0 {
        let here = left.min(millrace_column::CHUNK_DOCS);
        let mut builder = FixedBuilder::new(millrace_column::CellKind::BF16, WIDTH);
        for _ in 0..here {
            let cells: Vec<u8> =
                (0..WIDTH).flat_map(|_| half::bf16::from_f32(random.cell()).to_le_bytes()).collect();
            builder.push(&cells);
        }
        let column = Column::Fixed(builder.finish());
        view.push(ViewChunk { documents: here, live: None }, [(ColumnKey::value("vector"), column)]);
        left -= here;
    }
    let query = (0..WIDTH).map(|_| random.cell()).collect();
    let query_type = TensorType::parse("tensor<float>(x[384])").expect("the type is well written");
    let target = Tensor::new(query_type, Vec::new(), TensorCells::Float(query))
        .expect("it has as many cells as its type");
    let runs = 4_000_000 / documents;
    for metric in [DistanceMetric::PrenormalizedAngular, DistanceMetric::Euclidean] {
        let nearest =
            Predicate::Nearest { target: Arc::new(target.clone()), metric, target_hits: 10, threshold: None };
        let plan = plan(&schema, PlanNode::Leaf(LeafId(0)), vec![("vector", nearest)]);
        let scan = fastest(runs, || {
            let matches = match_plan(&plan, &view, RankingDemands::default(), &|| false)
                .expect("columns in memory can be read");
            assert_eq!(matches.chunks.iter().map(|chunk| chunk.documents.len()).sum::<usize>(), 10);
        });
        let read = fastest(runs, || {
            black_box(read_all(&view));
        });
        println!(
            "nearest {metric:?} {documents} x 384 bfloat16: {:.3} ms, {:.1} ns/document, {:.1} GB/s; \
             reading the bytes: {:.1} ns/document, {:.1} GB/s; {:.0} % of the read rate",
            scan / 1e6,
            scan / documents as f64,
            (documents * WIDTH * 2) as f64 / scan,
            read / documents as f64,
            (documents * WIDTH * 2) as f64 / read,
            read / scan * 100.0,
        );
    }
}

/// Reads every byte of the vectors once, with eight independent sums.
fn read_all(view: &MemoryView) -> u64 {
    let columns = view
        .columns(&ColumnKey::value("vector"), 0..view.chunks().len())
        .expect("columns in memory can be read");
    let mut sums = [0u64; 8];
    for column in columns.iter().flatten() {
        let Column::Fixed(column) = column else { continue };
        for block in bytemuck::cast_slice::<u8, [u64; 8]>(column.raw()) {
            for (sum, word) in sums.iter_mut().zip(block) {
                *sum = sum.wrapping_add(*word);
            }
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}

fn text(documents: usize) {
    let schema = Arc::new(schema("test", vec![field("body", DataType::String, true)]));
    let mut random = SpeedRandom(7);
    let vocabulary: Vec<String> = (0..20_000)
        .map(|_| (0..3 + random.next() % 8).map(|_| (b'a' + (random.next() % 26) as u8) as char).collect())
        .collect();
    // The nth word is n times as rare as the first, as in natural text.
    let mut word = || {
        let uniform = (random.next() % (1 << 20)) as f64 / (1 << 20) as f64;
        vocabulary[(vocabulary.len() as f64).powf(uniform) as usize - 1].clone()
    };
    let texts: Vec<String> = (0..documents)
        .map(|_| {
            let mut text = String::new();
            while text.len() < 1024 {
                text.push_str(&word());
                text.push(' ');
            }
            text
        })
        .collect();
    let view = text_view(&schema, &texts);
    let folded = texts.join("\n");
    for (first, second) in [(3, 30), (30, 300), (300, 3_000)] {
        let (first, second) = (&vocabulary[first], &vocabulary[second]);
        let words = |word: &String| ("body", Predicate::Words(vec![WordPattern::Exact(word.clone())]));
        let root = PlanNode::And(vec![PlanNode::Leaf(LeafId(0)), PlanNode::Leaf(LeafId(1))]);
        let plan = plan(&schema, root, vec![words(first), words(second)]);
        let demands = RankingDemands { leaves: true, counts: true, positions: false, statistics: true };
        let mut matched = (0, Vec::new());
        let scan = fastest(200, || {
            let matches =
                match_plan(&plan, &view, demands, &|| false).expect("columns in memory can be read");
            let found = matches.chunks.iter().map(|chunk| chunk.documents.len()).sum::<usize>();
            matched = (found, matches.statistics.document_frequency);
        });
        let bare = fastest(200, || {
            for word in [first, second] {
                black_box(memmem::find_iter(folded.as_bytes(), word.as_bytes()).count());
            }
        });
        println!(
            "two words in {documents} texts of 1 KB: {:.0} µs ({} match, frequencies {:?}); memmem of both: {:.0} µs; {:.1} x as fast",
            scan / 1e3,
            matched.0,
            matched.1,
            bare / 1e3,
            bare / scan,
        );
    }
    for language in [TextLanguage::Unstemmed, TextLanguage::Unknown] {
        let analyzer = FieldAnalyzer::text(language);
        let mut next = 0;
        let time = fastest(10, || {
            for text in &texts[next..next + 1000] {
                analyzer.tokens(text, |token| {
                    black_box(token.text);
                });
            }
            next += 1000;
        });
        println!("1 KB of text to tokens, {language:?}: {:.1} µs", time / 1e6);
    }
}

fn text_view(schema: &Schema, texts: &[String]) -> MemoryView {
    let document = |text: &String| (Fields::from([("body", DocumentValue::String(text.clone()))]), true);
    let documents: Vec<(Fields, bool)> = texts.iter().map(document).collect();
    view(schema, &documents, millrace_column::CHUNK_DOCS)
}
