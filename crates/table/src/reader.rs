//! The stream form of Arrow IPC as operations of a feed.

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::Schema;
use millrace_document::json::FeedPosition;
use millrace_document::{DocumentId, DocumentType};

use crate::Error;
use crate::row::{RowMapping, TableRow, TableRowReader};

/// First bytes of a message.
const CONTINUATION: [u8; 4] = [0xFF; 4];

/// First bytes of the file form, which has a table of contents at its end.
const FILE_MAGIC: &[u8; 4] = b"ARRO";

/// Iterator over the rows of an Arrow stream, as documents of one type.
///
/// Memory: one record batch of at most the given size, as it lies in the stream, and the dictionaries; a
/// batch stays while one of its rows does. A row that is not a document is an item of its own, and the next
/// call goes on behind it; after an error of the stream there are no more.
pub struct TableReader<R> {
    messages: ArrowMessageReader<R>,
    rows: Arc<TableRowReader>,
    row_memory_max: usize,
    batch: Option<Arc<RecordBatch>>,
    /// Next row of the batch.
    row: usize,
    /// Number of rows that were read, in all batches.
    read: u64,
    /// Offset of the batch in the stream.
    begin: u64,
    is_ended: bool,
}

/// A row of a table.
#[derive(Debug)]
pub struct ReadRow {
    /// Id of the document and the row, or the reason why the row is not a document.
    pub row: Result<(DocumentId, TableRow), Error>,
    /// Place of the row: its number from 1 as the line, column 0, and the offset of its batch.
    pub position: FeedPosition,
    /// Offset in the stream before which all rows are read: that of the row's batch, or its end after the
    /// last one.
    pub end: u64,
    /// True for the last row of a batch, after which its memory is free.
    pub is_last: bool,
}

/// Bounds of what a table may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableBounds {
    /// Size of a message of the stream, in bytes.
    pub message_bytes: usize,
    /// Memory of the values of a row, in bytes.
    pub row_bytes: usize,
}

impl<R: Read> TableReader<R> {
    /// Reads the columns, and compares them with the fields of the document type that `type_of` gives for
    /// them.
    ///
    /// # Errors
    /// [`Error::Stream`], [`Error::Large`], [`Error::Columns`]; those of `type_of`.
    pub fn new<'t, E: From<Error>>(
        source: R,
        mapping: &RowMapping,
        bounds: TableBounds,
        type_of: impl FnOnce(&Schema) -> Result<&'t DocumentType, E>,
    ) -> Result<Self, E> {
        let mut messages = ArrowMessageReader::new(source, bounds.message_bytes);
        if let ArrowMessage::End = messages.next()? {
            return Err(Error::Stream("it is empty".to_owned()).into());
        }
        let schema = messages.schema.as_ref().expect("the first message is the schema");
        let rows = Arc::new(TableRowReader::new(schema, type_of(schema)?, mapping)?);
        let row_memory_max = bounds.row_bytes;
        Ok(TableReader {
            messages,
            rows,
            row_memory_max,
            batch: None,
            row: 0,
            read: 0,
            begin: 0,
            is_ended: false,
        })
    }

    /// Reads messages until there is a batch with rows; false at the end.
    fn fill(&mut self) -> Result<bool, Error> {
        while self.batch.as_ref().is_none_or(|batch| self.row == batch.num_rows()) {
            self.batch = None;
            self.begin = self.messages.offset;
            match self.messages.next()? {
                ArrowMessage::End => return Ok(false),
                ArrowMessage::Other => {}
                ArrowMessage::Batch(batch) => (self.batch, self.row) = (Some(Arc::new(batch)), 0),
            }
        }
        Ok(true)
    }
}

impl<R: Read> Iterator for TableReader<R> {
    type Item = Result<ReadRow, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_ended {
            return None;
        }
        match self.fill() {
            Ok(true) => {}
            Ok(false) => {
                self.is_ended = true;
                return None;
            }
            Err(error) => {
                self.is_ended = true;
                return Some(Err(error));
            }
        }
        let batch = self.batch.as_ref().expect("a batch with a further row was read");
        self.read += 1;
        let position = FeedPosition { offset: self.begin, line: self.read, column: 0 };
        let row = self.rows.row(batch, self.row, self.row_memory_max);
        self.row += 1;
        let is_last = self.row == batch.num_rows();
        let end = if is_last { self.messages.offset } else { self.begin };
        Some(Ok(ReadRow { row, position, end, is_last }))
    }
}

/// A message of a stream.
enum ArrowMessage {
    Batch(RecordBatch),
    /// The schema, or a dictionary.
    Other,
    End,
}

/// Reader of the messages of a stream, one at a time and of a bounded size.
struct ArrowMessageReader<R> {
    source: R,
    decoder: StreamDecoder,
    schema: Option<Schema>,
    bytes_max: usize,
    /// Bytes of the stream that were read.
    offset: u64,
}

impl<R: Read> ArrowMessageReader<R> {
    fn new(source: R, bytes_max: usize) -> Self {
        ArrowMessageReader { source, decoder: StreamDecoder::new(), schema: None, bytes_max, offset: 0 }
    }

    /// Reads the next message.
    fn next(&mut self) -> Result<ArrowMessage, Error> {
        let Some(mut bytes) = self.prefix()? else { return Ok(ArrowMessage::End) };
        let length: [u8; 4] = bytes[bytes.len() - 4..].try_into().expect("they are four bytes");
        let length = u32::from_le_bytes(length);
        if length == 0 {
            return match self.read(1)?.is_empty() {
                true => Ok(ArrowMessage::End),
                false => Err(Error::Stream("there are bytes after its end".to_owned())),
            };
        }
        let head = bytes.len();
        bytes.append(&mut self.read_whole(u64::from(length))?);
        let body = match arrow_ipc::root_as_message(&bytes[head..]) {
            // What it unpacks to is not bounded.
            Ok(message) if is_packed(&message) => {
                let reason =
                    "its buffers are compressed; write it without, and send it with content-encoding zstd";
                return Err(Error::Stream(reason.to_owned()));
            }
            Ok(message) => body_length(&message).ok_or_else(damaged)?,
            Err(error) => return Err(Error::Stream(format!("a message is damaged: {error}"))),
        };
        if self.schema.is_none() {
            let schema = try_schema_from_ipc_buffer(&bytes);
            let schema = schema.map_err(|error| Error::Stream(format!("it has no schema first: {error}")))?;
            self.schema = Some(schema);
        }
        self.decode(bytes)?;
        let body = self.read_whole(body)?;
        Ok(self.decode(body)?.map_or(ArrowMessage::Other, ArrowMessage::Batch))
    }

    /// The first bytes of a message, the last four of which are its length; `None` at the end.
    fn prefix(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let mut prefix = self.read(4)?;
        if prefix.is_empty() {
            return Ok(None);
        }
        if prefix == FILE_MAGIC {
            let reason = "it is the file form of Arrow (Feather); send the stream form, as pyarrow.ipc.new_stream writes it";
            return Err(Error::Stream(reason.to_owned()));
        }
        if prefix == CONTINUATION {
            prefix.append(&mut self.read(4)?);
        }
        match prefix.len() {
            4 | 8 => Ok(Some(prefix)),
            _ => Err(cut_off()),
        }
    }

    fn read_whole(&mut self, length: u64) -> Result<Vec<u8>, Error> {
        let fitting = usize::try_from(length).ok().filter(|length| *length <= self.bytes_max);
        let length = fitting.ok_or(Error::Large { bytes: length, limit: self.bytes_max })?;
        let bytes = self.read(length)?;
        match bytes.len() == length {
            true => Ok(bytes),
            false => Err(cut_off()),
        }
    }

    /// Reads `length` bytes, or fewer at the end. Memory grows as they arrive.
    fn read(&mut self, length: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let limit = u64::try_from(length).expect("sizes have at most 64 bits");
        let read = self.source.by_ref().take(limit).read_to_end(&mut bytes);
        read.map_err(|error: io::Error| Error::Stream(format!("it cannot be read: {error}")))?;
        self.offset += bytes.len() as u64;
        Ok(bytes)
    }

    /// Decodes bytes of a message.
    fn decode(&mut self, bytes: Vec<u8>) -> Result<Option<RecordBatch>, Error> {
        let (mut bytes, mut batch) = (Buffer::from_vec(bytes), None);
        // A message without a body, which has no rows, is decoded with the next one.
        while !bytes.is_empty() {
            // The decoder asserts some of what it expects of a stream. After a panic it is not used again:
            // there is no reading on after an error.
            let decode = AssertUnwindSafe(|| self.decoder.decode(&mut bytes));
            let decoded = catch_unwind(decode).map_err(|_| damaged())?;
            batch = decoded.map_err(|error| Error::Stream(error.to_string()))?.or(batch);
        }
        Ok(batch)
    }
}

/// The rows of a message, or the values of its dictionary.
fn rows_of<'m>(message: &arrow_ipc::Message<'m>) -> Option<arrow_ipc::RecordBatch<'m>> {
    match message.header_as_dictionary_batch() {
        Some(dictionary) => dictionary.data(),
        None => message.header_as_record_batch(),
    }
}

fn is_packed(message: &arrow_ipc::Message<'_>) -> bool {
    rows_of(message).is_some_and(|rows| rows.compression().is_some())
}

/// Length of the body of a message; `None` if it is negative, or a buffer or a column is not within it.
fn body_length(message: &arrow_ipc::Message<'_>) -> Option<u64> {
    let length = u64::try_from(message.bodyLength()).ok()?;
    let Some(batch) = rows_of(message) else { return Some(length) };
    let rows = u64::try_from(batch.length()).ok()?;
    // The smallest column has a bit for each row.
    let are_rows_there = rows / 8 <= length;
    let are_nodes_there = batch.nodes().is_none_or(|nodes| {
        nodes.iter().all(|node| (0..=i64::from(i32::MAX)).contains(&node.length()) && node.null_count() >= 0)
    });
    let are_buffers_there = batch.buffers().is_none_or(|buffers| {
        buffers.iter().all(|buffer| {
            let parts = (u64::try_from(buffer.offset()), u64::try_from(buffer.length()));
            matches!(parts, (Ok(offset), Ok(bytes)) if offset.checked_add(bytes).is_some_and(|end| end <= length))
        })
    });
    (are_rows_there && are_nodes_there && are_buffers_there).then_some(length)
}

fn damaged() -> Error {
    Error::Stream("a message is damaged".to_owned())
}

fn cut_off() -> Error {
    Error::Stream("it ends inside a message".to_owned())
}
