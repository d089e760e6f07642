//! A table of vectors through `/feed/v1`, beside a plain copy of its bytes with fsync, and beside the same
//! vectors as JSON lines with hexadecimal digits.

use std::io::{self, Cursor};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, StringArray, UInt16Array};
use arrow_ipc::writer::StreamEncoder;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use half::bf16;
use millrace_client::feed::{FeedOptions, TableInput, TablePart, feed, feed_table};

use super::{Benchmark, Settings};
use crate::application::{self, DIMENSIONS, DocumentMaker, TYPE};
use crate::limit::append_durably;
use crate::measure::FeedMeasurement;
use crate::node::{LocalNode, cores};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "feed --arrow",
    about: "a table of vectors, beside a plain copy of its bytes with fsync, and beside JSON lines",
    run,
};

/// Rows of a record batch.
const ROWS: u64 = 1000;
/// Number of different vectors; more would not change the result.
const VECTORS: usize = 1000;
/// Bytes that are copied at a time, with an fsync after each.
const COPIED_BYTES: usize = 8 << 20;
const ROUNDS: u64 = 3;
const SHARE_MIN: f64 = 0.6;
/// Number of groups where there are many.
const GROUPS: u64 = 1000;

/// Numbers of the column with vectors.
#[derive(Clone, Copy)]
enum VectorColumn {
    /// The bits of the stored numbers, as uint16.
    Bits,
    /// The usual column of embedders, rounded when it is read.
    Floats,
}

/// Tables of vectors of a fixed form.
struct VectorTables {
    schema: SchemaRef,
    vectors: ArrayRef,
    /// Number of groups, in turns.
    groups: u64,
}

impl VectorTables {
    fn new(column: VectorColumn, groups: u64) -> Result<Self, Error> {
        let mut maker = DocumentMaker::new()?;
        let numbers: Vec<f32> = (0..VECTORS).flat_map(|_| maker.vector()).collect();
        let numbers: ArrayRef = match column {
            VectorColumn::Floats => Arc::new(Float32Array::from(numbers)),
            VectorColumn::Bits => {
                let bits = numbers.iter().map(|number| bf16::from_f32(*number).to_bits());
                Arc::new(UInt16Array::from_iter_values(bits))
            }
        };
        let item = Arc::new(Field::new("item", numbers.data_type().clone(), false));
        let size = i32::try_from(DIMENSIONS).map_err(Error::failed)?;
        let vectors = FixedSizeListArray::try_new(item, size, numbers, None).map_err(Error::failed)?;
        let vectors: ArrayRef = Arc::new(vectors);
        let text = |name: &str| Field::new(name, DataType::Utf8, false);
        let embedding = Field::new("embedding", vectors.data_type().clone(), false);
        let schema = Arc::new(Schema::new(vec![text("id"), text("user"), embedding]));
        Ok(VectorTables { schema, vectors, groups })
    }

    fn columns(&self) -> Result<Vec<u8>, Error> {
        let mut encoder = StreamEncoder::try_new(&self.schema).map_err(Error::failed)?;
        let empty = RecordBatch::new_empty(Arc::clone(&self.schema));
        let columns = encoder.encode(&empty).map_err(Error::failed)?;
        Ok(columns.iter().flat_map(|buffer| buffer.as_slice()).copied().collect())
    }

    /// The rows `first..first + ROWS`, as a message behind the columns.
    fn part(&self, first: u64) -> io::Result<TablePart> {
        let ids = StringArray::from_iter_values((first..first + ROWS).map(|number| number.to_string()));
        let users = (first..first + ROWS).map(|number| application::group_name(number % self.groups));
        let columns: Vec<ArrayRef> =
            vec![Arc::new(ids), Arc::new(StringArray::from_iter_values(users)), Arc::clone(&self.vectors)];
        let encode = || {
            let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
            let mut encoder = StreamEncoder::try_new(&self.schema)?;
            // The columns are sent once for each stream.
            let mut buffers = encoder.encode(&RecordBatch::new_empty(Arc::clone(&self.schema)))?;
            buffers.clear();
            buffers.extend(encoder.encode(&batch)?);
            Ok(buffers.iter().flat_map(|buffer| buffer.as_slice()).copied().collect::<Vec<u8>>())
        };
        let bytes = encode().map_err(|error: arrow_schema::ArrowError| io::Error::other(error))?;
        Ok(TablePart { rows: ROWS, bytes: bytes.into(), read_bytes: 0 })
    }
}

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    let cases = [
        ("numbers of 16 bits, one group", VectorColumn::Bits, 1, 1_000_000),
        ("floats, one group", VectorColumn::Floats, 1, 500_000),
        ("floats, 1,000 groups", VectorColumn::Floats, GROUPS, 500_000),
    ];
    for (case, column, groups, documents) in cases {
        let count = (settings.sized(documents) / ROUNDS / ROWS).max(1) * ROWS;
        compare(settings, &mut report, case, &VectorTables::new(column, groups)?, count)?;
        report.publish(settings.progress);
    }
    Ok(report)
}

/// Feeds and copies in turns.
fn compare(
    settings: &Settings,
    report: &mut BenchReport,
    case: &str,
    tables: &VectorTables,
    count: u64,
) -> Result<(), Error> {
    let directory = settings.workplace()?;
    let local = LocalNode::start(directory.path())?;
    let runtime = millrace_gateway::runtime(cores(), "feed").map_err(Error::failed)?;
    let (mut fed, mut lined) = (FeedMeasurement::default(), FeedMeasurement::default());
    let (mut bytes, mut copied) = (0, Duration::ZERO);
    let part_bytes = tables.part(0).map_err(Error::failed)?.bytes.len();
    for round in 0..ROUNDS {
        let first = 2 * round * count;
        // Both forms are made before the clock runs.
        let parts: Vec<io::Result<TablePart>> =
            (0..count / ROWS).map(|part| tables.part(first + part * ROWS)).collect();
        let input = TableInput {
            name: "table".to_owned(),
            parameters: vec![
                ("type", TYPE.to_owned()),
                ("namespace", "bench".to_owned()),
                ("group", "user".to_owned()),
            ],
            columns: tables.columns()?.into(),
            first_row: 0,
            parts: parts.into_iter(),
        };
        let options = FeedOptions::default();
        let feeding = feed_table(local.url(), input, &options, None, |_| {});
        fed.add(count, || runtime.block_on(feeding))?;
        let sent = part_bytes * (count / ROWS) as usize;
        let began = Instant::now();
        append_durably(
            directory.path(),
            (0..sent).step_by(COPIED_BYTES).map(|at| COPIED_BYTES.min(sent - at)),
        )?;
        bytes += sent;
        copied += began.elapsed();
        let lines = hexadecimal_lines(tables.groups, first + count, count)?;
        let feeding = feed(local.url(), "lines", Cursor::new(lines), &options, None, |_| {});
        lined.add(count, || runtime.block_on(feeding))?;
    }
    let volume = bytes as f64 / fed.took().as_secs_f64().max(1e-9);
    report.push(
        Figure::new(case, "volume", volume, FigureUnit::BytesPerSecond)
            .beside("a copy with fsync", bytes as f64 / copied.as_secs_f64().max(1e-9))
            .at_least(SHARE_MIN),
    );
    report.push(
        Figure::new(case, "rate", fed.rate(), FigureUnit::PerSecond("documents"))
            .beside("hexadecimal JSON lines of 16 bits", lined.rate()),
    );
    report.push(
        Figure::new(
            case,
            "for a processor second",
            fed.per_processor_second(),
            FigureUnit::Count("documents"),
        )
        .beside("hexadecimal JSON lines of 16 bits", lined.per_processor_second()),
    );
    Ok(())
}

/// Puts with the same vectors, as lines with the bits of their numbers.
fn hexadecimal_lines(groups: u64, first: u64, count: u64) -> Result<Vec<u8>, Error> {
    use std::io::Write as _;
    let mut maker = DocumentMaker::new()?;
    let digits: Vec<String> = (0..VECTORS)
        .map(|_| {
            let vector = maker.vector();
            vector.iter().map(|number| format!("{:04X}", bf16::from_f32(*number).to_bits())).collect()
        })
        .collect();
    let mut lines = Vec::new();
    for number in first..first + count {
        let id = application::id(number % groups, number)?;
        let digits = &digits[number as usize % VECTORS];
        writeln!(lines, "{{\"put\":\"{id}\",\"fields\":{{\"embedding\":\"{digits}\"}}}}")
            .map_err(Error::failed)?;
    }
    Ok(lines)
}
