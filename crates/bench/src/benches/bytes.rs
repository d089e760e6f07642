//! Bytes on the disk, by field and form, beside Zstandard over the same documents as JSON lines.

use millrace_document::{Document, DocumentValue};
use millrace_store::StoredColumn;

use super::{Benchmark, Settings};
use crate::application::{DocumentMaker, VECTOR_BYTES, vector_json};
use crate::engine::SearchEngine;
use crate::load::load;
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "bytes",
    about: "bytes on the disk by field and form, of mails of 2 KB in groups of 1 to 400, and of vectors, beside zstd of their JSON lines",
    run: bytes,
};

/// Mails in all groups together.
const MAILS: u64 = 30_000;
const TEXT_BYTES: usize = 2000;
/// Group sizes: of ten groups, the last is the largest.
const GROUP_SIZES: [u64; 10] = [1, 1, 2, 2, 3, 4, 8, 20, 60, 400];
/// Vectors in one group.
const VECTORS: u64 = 50_000;
/// Level of the compression of JSON lines.
const LEVEL: i32 = 3;
/// Bytes on the disk for a byte of a vector. Text has no goal here: its words are drawn at random, without
/// the quotations and phrases that compression finds in mail.
const PER_VECTOR_BYTE_MAX: f64 = 1.05;

fn bytes(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    let mut maker = DocumentMaker::new()?;
    let mut mails = Vec::new();
    let mut sizes = GROUP_SIZES.iter().cycle();
    for group in 0.. {
        let missing = settings.sized(MAILS).saturating_sub(mails.len() as u64);
        if missing == 0 {
            break;
        }
        for name in 0..missing.min(*sizes.next().unwrap_or(&1)) {
            mails.push(maker.mail(group, name, TEXT_BYTES)?);
        }
    }
    let text = mails.iter().map(|_| TEXT_BYTES as f64).sum();
    measure(settings, "mails", mails, ("text", text, None), &mut report)?;
    let vectors = (0..settings.sized(VECTORS)).map(|name| maker.embedded(0, name));
    let vectors = vectors.collect::<Result<Vec<_>, _>>()?;
    let raw = (vectors.len() * VECTOR_BYTES) as f64;
    measure(settings, "vectors", vectors, ("raw vectors", raw, Some(PER_VECTOR_BYTE_MAX)), &mut report)?;
    Ok(report)
}

/// Stores the documents and reports their bytes, for a limit by name and the goal's ratio to it.
fn measure(
    settings: &Settings,
    case: &str,
    documents: Vec<Document>,
    (what, limit, goal): (&str, f64, Option<f64>),
    report: &mut BenchReport,
) -> Result<(), Error> {
    let directory = settings.workplace()?;
    let engine = SearchEngine::open(directory.path(), None)?;
    let mut lines = zstd::bulk::Compressor::new(LEVEL).map_err(Error::failed)?;
    let json: String = documents.iter().map(json_line).collect();
    let zstd = lines.compress(json.as_bytes()).map_err(Error::failed)?.len() as f64;
    let count = documents.len() as f64;
    load(engine.store(), documents.into_iter().map(Ok))?;
    let all = engine.store().status().segment_bytes as f64;
    let figure = |measure: &str, bytes: f64| Figure::new(case, measure, bytes, FigureUnit::Bytes);
    let beside_limit = figure("segments", all).beside(what, limit);
    report.push(match goal {
        Some(goal) => beside_limit.at_most(goal),
        None => beside_limit,
    });
    report.push(figure("segments", all).beside("zstd of JSON lines", zstd));
    for StoredColumn { key, bytes, .. } in engine.store().stored_columns().map_err(Error::failed)? {
        let each = bytes as f64 / count;
        report.push(Figure::new(case, key.to_string(), each, FigureUnit::BytesPer("document")));
    }
    let filters = engine.store().filter_bytes() as f64 / count;
    report.push(Figure::new(case, "filters", filters, FigureUnit::BytesPer("document")));
    Ok(())
}

/// The feed operation of a document.
fn json_line(document: &Document) -> String {
    let value = |value: &DocumentValue| match value {
        DocumentValue::String(text) => format!("\"{text}\""),
        DocumentValue::Long(number) => number.to_string(),
        DocumentValue::Tensor(tensor) => {
            let cells: Vec<f32> =
                (0..tensor.cells().len()).map(|cell| tensor.cells().get(cell) as f32).collect();
            vector_json(&cells)
        }
        other => unreachable!("the benchmark's documents have no {other:?}"),
    };
    let fields: Vec<String> =
        document.fields.iter().map(|(field, of)| format!("\"{field}\":{}", value(of))).collect();
    format!("{{\"put\":\"{}\",\"fields\":{{{}}}}}\n", document.id, fields.join(","))
}
