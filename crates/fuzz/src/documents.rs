//! Documents, operations on them, stored rows, and document selections.

use std::io::{self, Read};

use millrace_document::json::{self, FeedReader, ParseOptions};
use millrace_document::{
    Document, DocumentId, DocumentOperation, DocumentType, EncodedDocument, FieldSet, OperationAction,
    OperationKind, wire,
};
use millrace_env::ZstdReader;
use millrace_selection::DocumentSelection;
use millrace_table::{RowMapping, TableBounds, TableReader};

use crate::world::schema;
use crate::{tells, text};

fn id() -> DocumentId {
    DocumentId::parse("id:n:thing:g=ann:1").expect("it is the id of the corpora")
}

/// The body of an operation at `/document/v1/`.
pub(crate) fn document(input: &[u8]) {
    for kind in [OperationKind::Put, OperationKind::Update, OperationKind::Remove] {
        parse(input, kind, id());
    }
    match DocumentId::parse(text(input)) {
        Ok(id) => assert_eq!(DocumentId::parse(id.as_str()).as_ref(), Ok(&id)),
        Err(error) => tells(&error),
    }
}

/// A file of operations.
pub(crate) fn feed(input: &[u8]) {
    for operation in FeedReader::with_limit(input, 1 << 20) {
        match operation {
            Ok(operation) => parse(&operation.json, operation.kind, operation.id),
            Err(error) => tells(&error),
        }
    }
}

/// A stream of Arrow: a row is a put, or tells why it is none.
pub(crate) fn table(input: &[u8]) {
    let bounds = TableBounds { message_bytes: 1 << 20, row_bytes: 1 << 20 };
    let mapping = RowMapping { ignores_unknown_columns: true, ..RowMapping::default() };
    let document_type: &DocumentType = &schema().document_type;
    let type_of = |_: &_| Ok::<_, millrace_table::Error>(document_type);
    let rows = match TableReader::new(input, &mapping, bounds, type_of) {
        Ok(rows) => rows,
        Err(error) => return tells(&error),
    };
    for row in rows.take(ROWS) {
        match row.map(|row| row.row) {
            Ok(Ok((id, row))) => match row.put_json(&id) {
                Ok(json) => parse(&json, OperationKind::Put, id),
                Err(reason) => tells(&reason),
            },
            Ok(Err(reason)) => tells(&reason),
            Err(error) => tells(&error),
        }
    }
}

/// Rows of a table that are read.
const ROWS: usize = 1000;

/// Bytes of an unpacked stream that are read.
const UNPACKED_BYTES: u64 = 1 << 20;

/// A stream that is packed by Zstandard: it unpacks to the same, however its bytes arrive.
pub(crate) fn zstd(input: &[u8]) {
    let unpack = |source: &mut dyn Read| {
        let mut bytes = Vec::new();
        let mut stream = ZstdReader::new(source, "the stream is damaged").take(UNPACKED_BYTES);
        let error = stream.read_to_end(&mut bytes).err();
        error.iter().for_each(tells);
        (bytes, error.is_some())
    };
    let mut whole = input;
    assert!(unpack(&mut whole) == unpack(&mut SingleBytes(input)), "it depends on how the bytes arrive");
}

/// A source that gives one byte at a time.
struct SingleBytes<'a>(&'a [u8]);

impl Read for SingleBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(1);
        self.0.read(&mut buffer[..count])
    }
}

/// A document in its stored form.
pub(crate) fn row(input: &[u8]) {
    let id = id();
    let in_place =
        |bytes: &[u8]| EncodedDocument::parse(id.as_str(), bytes).and_then(|document| document.decode());
    if let Err(error) = in_place(input) {
        tells(&error);
    }
    match wire::decode_fields(id.clone(), input) {
        Ok(document) => {
            let bytes = wire::encode_fields(&document);
            let again = in_place(&bytes).expect("what was encoded is read in place");
            assert_eq!(wire::encode_fields(&again), bytes);
            kept(&document);
        }
        Err(error) => tells(&error),
    }
    match wire::decode_value(input) {
        Ok(value) => {
            let bytes = wire::encode_value(&value);
            let again = wire::decode_value(&bytes).expect("what was encoded is decoded");
            assert_eq!(wire::encode_value(&again), bytes);
        }
        Err(error) => tells(&error),
    }
}

/// A document selection, over a document with all fields and one with none.
pub(crate) fn selection(input: &[u8]) {
    let schema = schema();
    let selection = match DocumentSelection::parse(text(input)) {
        Ok(selection) => selection,
        Err(error) => return tells(&error),
    };
    let document_type = &*schema.document_type;
    if let Err(error) = selection.check(|name| (name == &*schema.name).then_some(document_type)) {
        tells(&error);
    }
    selection.groups();
    selection.fields("thing");
    let empty = Document { id: id(), fields: Vec::new() };
    selection.matches(&empty, 1_700_000_000);
    selection.matches(&full(), 1_700_000_000);
}

/// A document with all fields.
fn full() -> Document {
    let body = include_bytes!("world.json");
    let options = ParseOptions::default();
    match json::parse(body, OperationKind::Put, id(), &schema().document_type, options) {
        Ok(DocumentOperation { action: OperationAction::Put(document), .. }) => document,
        other => panic!("the document beside this file is one: {other:?}"),
    }
}

fn parse(body: &[u8], kind: OperationKind, id: DocumentId) {
    let document_type = &schema().document_type;
    for ignore_undefined_fields in [false, true] {
        let options = ParseOptions { ignore_undefined_fields, ..ParseOptions::default() };
        match json::parse(body, kind, id.clone(), document_type, options) {
            Ok(DocumentOperation { action: OperationAction::Put(document), .. }) => kept(&document),
            Ok(DocumentOperation { action: OperationAction::Update(update), .. }) => {
                for document in [None, Some(full())] {
                    match update.apply(document, document_type) {
                        Ok(document) => kept(&document),
                        Err(error) => tells(&error),
                    }
                }
            }
            Ok(DocumentOperation { action: OperationAction::Remove(_), .. }) => {}
            Err(error) => tells(&error),
        }
    }
}

/// An accepted document can be stored and read, and written as JSON.
fn kept(document: &Document) {
    let bytes = wire::encode_fields(document);
    let again = wire::decode_fields(document.id.clone(), &bytes).expect("what was encoded is decoded");
    // NaN is not equal to itself, but its bytes are.
    assert_eq!(wire::encode_fields(&again), bytes);
    let format = millrace_tensor::json::TensorFormat::default();
    let shown = json::fields(document, Some(&schema().document_type), &FieldSet::All, format);
    let shown = serde_json::to_string(&shown).expect("a document is written as JSON");
    serde_json::from_str::<serde_json::Value>(&shown).expect("what was written is JSON");
}
