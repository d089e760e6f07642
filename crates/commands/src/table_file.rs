//! Tables in files: Arrow, as file (Feather) or stream, and Parquet.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::writer::{StreamEncoder, StreamWriter};
use arrow_schema::{ArrowError, SchemaRef};
use millrace_client::feed::TablePart;
use millrace_env::panic_message;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::WriterProperties;

use crate::error::Error;

/// Bytes of rows that are sent at a time, about.
const PART_BYTES: usize = 2 << 20;

/// Rows of Parquet that are read at a time.
const PARQUET_ROWS: usize = 4096;

/// Rows of Parquet that are written as one group.
const GROUP_ROWS: usize = 64 << 10;

type RowReader = Box<dyn RecordBatchReader + Send>;

/// A table that is read from a file.
pub struct TableFile {
    rows: RowReader,
    schema: SchemaRef,
    read_bytes: Arc<AtomicU64>,
    /// Number of bytes to read, unless they are read out of order.
    pub size: Option<u64>,
}

impl TableFile {
    /// Opens a file, if its first bytes are those of a table.
    ///
    /// # Errors
    /// It cannot be read, or is damaged.
    pub fn open(path: &Path) -> Result<Option<Self>, Error> {
        if path.as_os_str() == "-" {
            return Ok(None);
        }
        let fail = |source| Error::File { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(fail)?;
        let size = file.metadata().map_err(fail)?.len();
        let mut first = Vec::new();
        // A directory is refused where it is opened as text.
        if Read::take(&mut file, 6).read_to_end(&mut first).is_err() {
            return Ok(None);
        }
        if &*first != b"ARROW1" && !first.starts_with(&[0xFF; 4]) && !first.starts_with(b"PAR1") {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(0)).map_err(fail)?;
        let read_bytes = Arc::new(AtomicU64::new(0));
        let counted = ReadCountingFile { file, read_bytes: Arc::clone(&read_bytes) };
        // Batches of Parquet have the columns without what the file says about them.
        let (mut parquet_schema, mut packing) = (None, None);
        let rows = guarded(|| match &*first {
            b"ARROW1" => {
                FileReader::try_new(BufReader::new(counted), None).map(|rows| Box::new(rows) as RowReader)
            }
            [b'P', b'A', b'R', b'1', ..] => ParquetRecordBatchReaderBuilder::try_new(counted.file)
                .and_then(|rows| {
                    parquet_schema = Some(Arc::clone(rows.schema()));
                    packing = unknown_packing(rows.metadata());
                    rows.with_batch_size(PARQUET_ROWS).build()
                })
                .map(|rows| Box::new(rows) as RowReader)
                .map_err(ArrowError::from),
            _ => StreamReader::try_new(BufReader::new(counted), None).map(|rows| Box::new(rows) as RowReader),
        });
        let rows = rows.map_err(|error| Error::Argument(format!("{}: {error}", path.display())))?;
        if let Some(packing) = packing {
            let reason = format!(
                "{}: its columns are packed by {packing}, which is not read here; write it with zstd, as by \
                 pyarrow.parquet.write_table(table, file, compression=\"zstd\")",
                path.display()
            );
            return Err(Error::Argument(reason));
        }
        let size = (&*first != b"ARROW1" && !first.starts_with(b"PAR1")).then_some(size);
        let schema = parquet_schema.unwrap_or_else(|| rows.schema());
        Ok(Some(TableFile { rows, schema, read_bytes, size }))
    }

    /// The message with the columns, for the start of each stream.
    ///
    /// # Errors
    /// The columns cannot be sent.
    pub fn columns(&self) -> Result<Vec<u8>, Error> {
        encoded(&self.schema, None).map_err(|error| Error::Argument(error.to_string()))
    }

    /// The rows behind the first `skip`, in parts to be sent.
    pub fn parts(self, skip: u64) -> impl Iterator<Item = io::Result<TablePart>> + Send + 'static {
        let TableFile { rows, schema, read_bytes, .. } = self;
        let mut skip = skip;
        let mut rows = Some(rows);
        let batches = std::iter::from_fn(move || {
            let next = guarded(|| rows.as_mut().and_then(Iterator::next).transpose()).transpose();
            if !matches!(next, Some(Ok(_))) {
                rows = None;
            }
            next
        });
        batches.flat_map(move |batch| {
            let read = read_bytes.load(Ordering::Relaxed);
            let parts = batch.map(|batch| {
                let skipped = usize::try_from(skip).unwrap_or(usize::MAX).min(batch.num_rows());
                skip -= skipped as u64;
                batch.slice(skipped, batch.num_rows() - skipped)
            });
            let parts = parts.and_then(|batch| {
                let pieces = pieces(&batch).map(|piece| {
                    let bytes = encoded(&schema, Some(&piece))?;
                    Ok(TablePart { rows: piece.num_rows() as u64, bytes: bytes.into(), read_bytes: read })
                });
                pieces.collect::<Result<Vec<_>, ArrowError>>()
            });
            match parts {
                Ok(parts) => parts.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(io::Error::other(message_of(&error)))],
            }
        })
    }
}

/// Message of the library, which says of a file that is cut off that it could not fill a buffer.
fn message_of(error: &ArrowError) -> String {
    match error {
        ArrowError::IoError(_, source) if source.kind() == io::ErrorKind::UnexpectedEof => {
            "the file is cut off here".to_owned()
        }
        other => other.to_string(),
    }
}

/// Name of a compression of columns of Parquet that is not read.
fn unknown_packing(file: &ParquetMetaData) -> Option<&'static str> {
    let mut columns = file.row_groups().iter().flat_map(RowGroupMetaData::columns);
    columns.find_map(|column| match column.compression() {
        Compression::BROTLI(_) => Some("brotli"),
        Compression::LZO => Some("LZO"),
        _ => None,
    })
}

/// Reads of a file by a library that panics at some kinds of damage.
fn guarded<T>(read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        Err(ArrowError::ParseError(format!("the file is damaged: {}", panic_message(&*panic))))
    })
}

/// Parts of a batch of at most about [`PART_BYTES`].
fn pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    let row_bytes = batch.get_array_memory_size() / rows.max(1);
    let together = (PART_BYTES / row_bytes.max(1)).max(1);
    (0..rows).step_by(together).map(move |at| batch.slice(at, together.min(rows - at)))
}

/// Bytes of the columns, or of a batch without them: each part has its dictionaries, since a stream may begin
/// with any.
fn encoded(schema: &SchemaRef, batch: Option<&RecordBatch>) -> Result<Vec<u8>, ArrowError> {
    let mut encoder = StreamEncoder::try_new(schema)?;
    let columns = encoder.encode(&RecordBatch::new_empty(Arc::clone(schema)))?;
    let buffers = match batch {
        Some(batch) => encoder.encode(batch)?,
        None => columns,
    };
    Ok(buffers.iter().flat_map(|buffer| buffer.as_slice()).copied().collect())
}

/// A file that counts the bytes that were read.
struct ReadCountingFile {
    file: File,
    read_bytes: Arc<AtomicU64>,
}

impl Read for ReadCountingFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Seek for ReadCountingFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Writer of a table.
pub enum TableOutput<W: Write + Send> {
    /// The stream form of Arrow.
    Arrow(StreamWriter<W>),
    /// Parquet.
    Parquet(Box<ArrowWriter<W>>),
}

impl<W: Write + Send> TableOutput<W> {
    /// Begins an Arrow stream.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn arrow(output: W, schema: &SchemaRef) -> Result<Self, Error> {
        StreamWriter::try_new(output, schema).map(TableOutput::Arrow).map_err(failed)
    }

    /// Begins a Parquet file, packed by zstd.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn parquet(output: W, schema: &SchemaRef) -> Result<Self, Error> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(parquet::basic::ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .build();
        let writer = ArrowWriter::try_new(output, Arc::clone(schema), Some(properties));
        writer.map(|writer| TableOutput::Parquet(Box::new(writer))).map_err(failed)
    }

    /// Writes rows.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        match self {
            TableOutput::Arrow(writer) => writer.write(batch).map_err(failed),
            TableOutput::Parquet(writer) => writer.write(batch).map_err(failed),
        }
    }

    /// Ends the table.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        match self {
            TableOutput::Arrow(mut writer) => writer.finish().map_err(failed),
            TableOutput::Parquet(writer) => writer.close().map(drop).map_err(failed),
        }
    }
}

fn failed(error: impl ToString) -> Error {
    Error::Argument(format!("the table cannot be written: {}", error.to_string()))
}
