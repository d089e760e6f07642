//! Late interaction: for each of 32 tokens of a query the most similar of a document's 100 chunks, summed up.
//!
//! The peer multiplies two matrices of the same sizes, of `float` cells, with a specialized library
//! (`matrixmultiply`), all documents at once, without maximum and sum.

use std::hint::black_box;

use millrace_document::{Document, DocumentValue};
use millrace_tensor::{CellType, Tensor, TensorCells, TensorType};

use super::{Benchmark, Settings};
use crate::application;
use crate::engine::SearchEngine;
use crate::load::load;
use crate::random::BenchRandom;
use crate::{BenchReport, Error, Figure, FigureUnit, measure};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "maxsim",
    about: "32 query tokens of 128 cells with 100 chunks a document, beside a plain matrix product",
    run,
};

const DOCUMENTS: u64 = 200;
const TOKENS: usize = 32;
const CHUNKS: usize = 100;
const CELLS: usize = 128;
const HITS: usize = 10;
const SHARE_MIN: f64 = 0.6;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    for cell in [CellType::Float, CellType::BFloat16, CellType::Int8] {
        let directory = settings.workplace()?;
        let engine = SearchEngine::with_schema(&schema(cell), directory.path())?;
        let documents = settings.sized(DOCUMENTS).max(HITS as u64);
        let mut random = BenchRandom::new(42);
        load(engine.store(), (0..documents).map(|name| document(&mut random, name, cell)))?;
        let tokens = vectors(&mut random, TOKENS);
        let query = query_tensor(&tokens);
        let group = application::group_name(0);
        let query = engine.prepare(&[
            ("yql", "select * from mail where true"),
            ("ranking", "late"),
            ("input.query(q)", &*query),
            ("presentation.summary", "short"),
            ("streaming.groupname", &*group),
        ])?;
        engine.check(&query, HITS)?;
        let chunks = vectors(&mut BenchRandom::new(7), CHUNKS * documents as usize);
        let (search, peer) = measure::alternately(
            settings.time_per_case,
            20,
            || engine.run(&query),
            || black_box(product(&tokens, &chunks)),
        );
        let case = format!("{documents} documents, {}", cell.name());
        let pairs = documents as f64 * (TOKENS * CHUNKS * CELLS) as f64;
        let rate = |seconds: f64| pairs / seconds;
        report.push(
            Figure::new(&case, "rate", rate(search.median()), FigureUnit::PerSecond("products"))
                .beside("matrix product", rate(peer.median()))
                .at_least(SHARE_MIN),
        );
        report.push(Figure::new(
            &case,
            "rate",
            documents as f64 / search.median(),
            FigureUnit::PerSecond("documents"),
        ));
    }
    Ok(report)
}

fn schema(cell: CellType) -> String {
    format!(
        "schema mail {{ document mail {{
            field date type long {{ indexing: attribute | summary }}
            field chunks type tensor<{}>(chunk{{}},x[{CELLS}]) {{ indexing: attribute }}
        }}
        document-summary short {{ summary date {{}} }}
        rank-profile late {{
            inputs {{ query(q) tensor<float>(token{{}},x[{CELLS}]) }}
            first-phase {{ expression: sum(reduce(sum(query(q) * attribute(chunks), x), max, chunk), token) }}
        }} }}",
        cell.name()
    )
}

/// Generates `count` consecutive vectors.
fn vectors(random: &mut BenchRandom, count: usize) -> Vec<f32> {
    (0..count).flat_map(|_| random.direction(CELLS)).collect()
}

fn document(random: &mut BenchRandom, name: u64, cell: CellType) -> Result<Document, Error> {
    let text = format!("tensor<{}>(chunk{{}},x[{CELLS}])", cell.name());
    let tensor_type = TensorType::parse(&text).map_err(Error::failed)?;
    let scale = if cell == CellType::Int8 { 100.0 } else { 1.0 };
    let mut cells = TensorCells::with_capacity(cell, CHUNKS * CELLS);
    vectors(random, CHUNKS).into_iter().for_each(|number| cells.push(f64::from(number) * scale));
    let labels = (0..CHUNKS).map(|chunk| chunk.to_string()).collect();
    let tensor = Tensor::new(tensor_type, labels, cells).map_err(Error::failed)?;
    let fields = vec![
        ("date".into(), DocumentValue::Long(name as i64)),
        ("chunks".into(), DocumentValue::Tensor(tensor)),
    ];
    Ok(Document { id: application::id(0, name)?, fields })
}

/// Tokens as a tensor of the request.
fn query_tensor(tokens: &[f32]) -> String {
    let blocks = tokens.chunks(CELLS).enumerate();
    let blocks: Vec<String> =
        blocks.map(|(token, vector)| format!("t{token}:{}", application::vector_json(vector))).collect();
    format!("{{{}}}", blocks.join(","))
}

/// Product of the tokens, a row each, with the chunks, a column each.
fn product(tokens: &[f32], chunks: &[f32]) -> Vec<f32> {
    let (rows, columns) = (tokens.len() / CELLS, chunks.len() / CELLS);
    let mut products = vec![0.0f32; rows * columns];
    let (cells, one) = (CELLS as isize, 1);
    // SAFETY: the strides cover all of `rows × CELLS`, `CELLS × columns` and `rows × columns` numbers of the
    // three, and no more.
    unsafe {
        matrixmultiply::sgemm(
            rows,
            CELLS,
            columns,
            1.0,
            tokens.as_ptr(),
            cells,
            one,
            chunks.as_ptr(),
            one,
            cells,
            0.0,
            products.as_mut_ptr(),
            columns as isize,
            one,
        );
    }
    products
}
