//! The compact, self-describing form of values and documents in rows and columns.
//!
//! Every value starts with a tag byte; lengths and counts are LEB128 numbers; other numbers are
//! little-endian. Field names are stored as text, so that a row can be read without the schema it was written
//! under. `docs/format.md` has the table of tags.

use std::sync::Arc;

use millrace_tensor::{Tensor, TensorCells, TensorType};

use crate::{Document, DocumentId, DocumentValue, Error};

pub(crate) const BOOL: u8 = 1;
pub(crate) const BYTE: u8 = 2;
pub(crate) const INT: u8 = 3;
pub(crate) const LONG: u8 = 4;
pub(crate) const FLOAT: u8 = 5;
pub(crate) const DOUBLE: u8 = 6;
pub(crate) const STRING: u8 = 7;
pub(crate) const RAW: u8 = 8;
pub(crate) const POSITION: u8 = 9;
pub(crate) const TENSOR: u8 = 10;
pub(crate) const ARRAY: u8 = 11;
pub(crate) const WEIGHTED_SET: u8 = 12;
pub(crate) const MAP: u8 = 13;
pub(crate) const STRUCT: u8 = 14;

/// Maximum nesting of values; deeper ones are rejected.
pub(crate) const DEPTH: usize = 64;

/// Encodes a value.
pub fn encode_value(value: &DocumentValue) -> Vec<u8> {
    let mut out = Vec::new();
    write_value(&mut out, value);
    out
}

/// Decodes a value, which must use all of the bytes.
///
/// # Errors
/// [`Error::Row`] if the bytes are not a value.
pub fn decode_value(bytes: &[u8]) -> Result<DocumentValue, Error> {
    let mut reader = WireReader { bytes };
    let value = reader.value(0)?;
    if reader.bytes.is_empty() { Ok(value) } else { Err(Error::Row("bytes are left after the value")) }
}

/// Encodes the fields of a document. The id is not included: it is the row's key.
pub fn encode_fields(document: &Document) -> Vec<u8> {
    encode_named(&document.fields)
}

/// Encodes named values: the same bytes as [`encode_fields`] for a document with these.
pub fn encode_named(fields: &[(Arc<str>, DocumentValue)]) -> Vec<u8> {
    let mut out = Vec::new();
    write_named(&mut out, fields);
    out
}

/// [`encode_fields`] appended to `out`.
pub fn write_fields(out: &mut Vec<u8>, document: &Document) {
    write_named(out, &document.fields);
}

fn write_named(out: &mut Vec<u8>, fields: &[(Arc<str>, DocumentValue)]) {
    write_number(out, fields.len() as u64);
    for (name, value) in fields {
        write_bytes(out, name.as_bytes());
        write_value(out, value);
    }
}

/// Decodes the document with this id.
///
/// # Errors
/// [`Error::Row`] if the bytes are not fields.
pub fn decode_fields(id: DocumentId, bytes: &[u8]) -> Result<Document, Error> {
    Ok(Document { id, fields: decode_named(bytes)? })
}

/// Decodes named values: the same as [`decode_fields`] for a document.
///
/// # Errors
/// [`Error::Row`] if the bytes are not fields.
pub fn decode_named(bytes: &[u8]) -> Result<Vec<(Arc<str>, DocumentValue)>, Error> {
    let mut reader = WireReader { bytes };
    let fields = reader.fields(0)?;
    if reader.bytes.is_empty() { Ok(fields) } else { Err(Error::Row("bytes are left after the fields")) }
}

fn write_value(out: &mut Vec<u8>, value: &DocumentValue) {
    match value {
        DocumentValue::Bool(value) => out.extend([BOOL, u8::from(*value)]),
        DocumentValue::Byte(value) => out.extend([BYTE, *value as u8]),
        DocumentValue::Int(value) => tagged(out, INT, &value.to_le_bytes()),
        DocumentValue::Long(value) => tagged(out, LONG, &value.to_le_bytes()),
        DocumentValue::Float(value) => tagged(out, FLOAT, &value.to_le_bytes()),
        DocumentValue::Double(value) => tagged(out, DOUBLE, &value.to_le_bytes()),
        DocumentValue::String(text) => {
            out.push(STRING);
            write_bytes(out, text.as_bytes());
        }
        DocumentValue::Raw(bytes) => {
            out.push(RAW);
            write_bytes(out, bytes);
        }
        DocumentValue::Position { latitude, longitude } => {
            tagged(out, POSITION, &latitude.to_le_bytes());
            out.extend(longitude.to_le_bytes());
        }
        DocumentValue::Tensor(tensor) => {
            out.push(TENSOR);
            write_bytes(out, tensor.tensor_type().to_string().as_bytes());
            let mapped = tensor.tensor_type().mapped().count();
            write_number(out, if mapped == 0 { 0 } else { tensor.subspaces() as u64 });
            if mapped > 0 {
                (0..tensor.subspaces())
                    .flat_map(|i| tensor.labels(i))
                    .for_each(|label| write_bytes(out, label.as_bytes()));
            }
            write_bytes(out, tensor.cells().as_bytes());
        }
        DocumentValue::Array(values) => {
            out.push(ARRAY);
            write_number(out, values.len() as u64);
            values.iter().for_each(|value| write_value(out, value));
        }
        DocumentValue::WeightedSet(values) => {
            out.push(WEIGHTED_SET);
            write_number(out, values.len() as u64);
            for (value, weight) in values {
                write_value(out, value);
                out.extend(weight.to_le_bytes());
            }
        }
        DocumentValue::Map(entries) => {
            out.push(MAP);
            write_number(out, entries.len() as u64);
            for (key, value) in entries {
                write_value(out, key);
                write_value(out, value);
            }
        }
        DocumentValue::Struct(fields) => {
            out.push(STRUCT);
            write_named(out, fields);
        }
    }
}

fn tagged(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

pub(crate) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

const TRUNCATED: Error = Error::Row("it ends too early");

/// [`decode_named`] of the values whose names are wanted; the others are passed over.
///
/// # Errors
/// [`Error::Row`] if the bytes are not fields.
pub fn decode_some(
    bytes: &[u8],
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(Arc<str>, DocumentValue)>, Error> {
    let mut reader = WireReader { bytes };
    let mut fields = Vec::new();
    for _ in 0..reader.count()? {
        let name = reader.text()?;
        match is_wanted(name) {
            true => fields.push((Arc::from(name), reader.value(0)?)),
            false => reader.skip_value(0)?,
        }
    }
    if reader.bytes.is_empty() { Ok(fields) } else { Err(Error::Row("bytes are left after the fields")) }
}

fn text_of(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::Row("text is not UTF-8"))
}

/// Takes values off the front of their wire form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WireReader<'a> {
    bytes: &'a [u8],
}

impl<'a> WireReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        WireReader { bytes }
    }

    /// Number of bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let Some((taken, rest)) = self.bytes.split_at_checked(count) else { return Err(TRUNCATED) };
        self.bytes = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let Some((taken, rest)) = self.bytes.split_first_chunk() else { return Err(TRUNCATED) };
        self.bytes = rest;
        Ok(*taken)
    }

    /// A count or a length, nearly always of one byte.
    #[inline]
    fn number(&mut self) -> Result<usize, Error> {
        match self.bytes.split_first() {
            Some((first, rest)) if first & 0x80 == 0 => {
                self.bytes = rest;
                Ok(usize::from(*first))
            }
            _ => self.long_number(),
        }
    }

    #[cold]
    fn long_number(&mut self) -> Result<usize, Error> {
        let mut number = 0u64;
        for shift in (0..).step_by(7).take(9) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(number).map_err(|_| Error::Row("a number is too large"));
            }
        }
        Err(Error::Row("a number is too long"))
    }

    /// Reads a count of items that take at least one byte each. A wrong count therefore cannot request more
    /// memory than there are bytes.
    #[inline]
    pub(crate) fn count(&mut self) -> Result<usize, Error> {
        let count = self.number()?;
        if count > self.bytes.len() {
            Err(Error::Row("a count is larger than what follows"))
        } else {
            Ok(count)
        }
    }

    #[inline]
    pub(crate) fn sized(&mut self) -> Result<&'a [u8], Error> {
        let count = self.number()?;
        self.take(count)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Error> {
        text_of(self.sized()?)
    }

    fn fields(&mut self, depth: usize) -> Result<Vec<(Arc<str>, DocumentValue)>, Error> {
        let count = self.count()?;
        let field = |_| -> Result<(Arc<str>, DocumentValue), Error> {
            Ok((Arc::from(self.text()?), self.value(depth)?))
        };
        (0..count).map(field).collect()
    }

    fn value(&mut self, depth: usize) -> Result<DocumentValue, Error> {
        if depth > DEPTH {
            return Err(Error::Row("values lie too deep"));
        }
        let [tag] = self.array()?;
        Ok(match tag {
            BOOL => DocumentValue::Bool(self.array::<1>()? != [0]),
            BYTE => DocumentValue::Byte(i8::from_le_bytes(self.array()?)),
            INT => DocumentValue::Int(i32::from_le_bytes(self.array()?)),
            LONG => DocumentValue::Long(i64::from_le_bytes(self.array()?)),
            FLOAT => DocumentValue::Float(f32::from_le_bytes(self.array()?)),
            DOUBLE => DocumentValue::Double(f64::from_le_bytes(self.array()?)),
            STRING => DocumentValue::String(self.text()?.to_owned()),
            RAW => DocumentValue::Raw(self.sized()?.to_vec()),
            POSITION => DocumentValue::Position {
                latitude: i32::from_le_bytes(self.array()?),
                longitude: i32::from_le_bytes(self.array()?),
            },
            TENSOR => DocumentValue::Tensor(self.tensor()?),
            ARRAY => {
                let count = self.count()?;
                DocumentValue::Array((0..count).map(|_| self.value(depth + 1)).collect::<Result<_, _>>()?)
            }
            WEIGHTED_SET => {
                let count = self.count()?;
                let element = |_| Ok((self.value(depth + 1)?, i32::from_le_bytes(self.array()?)));
                DocumentValue::WeightedSet((0..count).map(element).collect::<Result<_, Error>>()?)
            }
            MAP => {
                let count = self.count()?;
                let entry = |_| Ok((self.value(depth + 1)?, self.value(depth + 1)?));
                DocumentValue::Map((0..count).map(entry).collect::<Result<_, Error>>()?)
            }
            STRUCT => DocumentValue::Struct(self.fields(depth + 1)?),
            _ => return Err(Error::Row("unknown tag")),
        })
    }

    fn tensor(&mut self) -> Result<Tensor, Error> {
        let tensor_type = TensorType::parse(self.text()?).map_err(|_| Error::Row("not a tensor type"))?;
        let subspaces = self.count()?;
        let labels =
            subspaces.checked_mul(tensor_type.mapped().count()).ok_or(Error::Row("too many labels"))?;
        if labels > self.bytes.len() {
            return Err(Error::Row("a count is larger than what follows"));
        }
        let labels = (0..labels).map(|_| Ok(self.text()?.to_owned())).collect::<Result<_, Error>>()?;
        let cells = TensorCells::from_bytes(tensor_type.cell(), self.sized()?);
        Tensor::new(tensor_type, labels, cells).map_err(|_| Error::Row("a tensor does not fit its type"))
    }
}
