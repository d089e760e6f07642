//! Binary encoding of values. Numbers are little-endian; texts and lists begin with a count of 4 bytes.

use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::{
    DocumentGroup, DocumentId, DocumentVersion, DropScope, DroppedScope, Location, Timestamp,
};

use crate::Error;

pub(crate) fn number(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

pub(crate) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // A message is smaller than that.
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    bytes(out, text.as_bytes());
}

pub(crate) fn count(out: &mut Vec<u8>, count: usize) {
    out.extend((count as u32).to_le_bytes());
}

pub(crate) fn bucket(out: &mut Vec<u8>, bucket: BucketId) {
    out.push(bucket.used_bits());
    number(out, bucket.bits());
}

pub(crate) fn version(out: &mut Vec<u8>, version: &DocumentVersion) {
    text(out, version.id.as_str());
    number(out, version.timestamp.0);
    out.push(u8::from(version.body.is_some()));
    if let Some(body) = &version.body {
        bytes(out, body);
    }
}

pub(crate) fn drop(out: &mut Vec<u8>, drop: &DroppedScope) {
    number(out, drop.timestamp.0);
    match &drop.scope {
        DropScope::Group { document_type, group } => {
            out.push(u8::from(document_type.is_some()));
            text(out, document_type.as_deref().unwrap_or_default());
            text(out, &group.key());
        }
        DropScope::Type(name) => {
            out.push(2);
            text(out, name);
        }
    }
}

/// Reads values from the front of bytes.
pub(crate) struct MessageReader<'b>(&'b [u8]);

impl<'b> MessageReader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        MessageReader(bytes)
    }

    /// Checks that all bytes were read.
    pub(crate) fn end(self) -> Result<(), Error> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::Unknown("bytes are left after a message")) }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Error::Message("a message breaks off"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.take::<1>()?[0])
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Error> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::Message("a truth value is neither 0 nor 1")),
        }
    }

    pub(crate) fn number(&mut self) -> Result<u64, Error> {
        self.take().map(u64::from_le_bytes)
    }

    /// Reads a number of items, each of at least `least` bytes; it is bounded by the remaining bytes.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, Error> {
        let count = u32::from_le_bytes(self.take()?) as usize;
        match count.checked_mul(least.max(1)).is_some_and(|bytes| bytes <= self.0.len()) {
            true => Ok(count),
            false => Err(Error::Message("a list is longer than its message")),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<&'b [u8], Error> {
        let length = self.count(1)?;
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn text(&mut self) -> Result<&'b str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Error::Message("a text is not UTF-8"))
    }

    pub(crate) fn list<T>(
        &mut self,
        least: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let count = self.count(least)?;
        (0..count).map(|_| item(self)).collect()
    }

    pub(crate) fn bucket(&mut self) -> Result<BucketId, Error> {
        let used_bits = self.byte()?;
        if u32::from(used_bits) > Location::BITS {
            return Err(Error::Message("a bucket uses more bits than a location has"));
        }
        Ok(BucketId::new(used_bits, self.number()?))
    }

    pub(crate) fn timestamp(&mut self) -> Result<Timestamp, Error> {
        self.number().map(Timestamp)
    }

    pub(crate) fn id(&mut self) -> Result<DocumentId, Error> {
        DocumentId::parse(self.text()?).map_err(|_| Error::Message("an id is none"))
    }

    pub(crate) fn version(&mut self) -> Result<DocumentVersion, Error> {
        let (id, timestamp) = (self.id()?, self.timestamp()?);
        let body = self.flag()?.then(|| self.bytes().map(Arc::from)).transpose()?;
        Ok(DocumentVersion { id, timestamp, body })
    }

    pub(crate) fn drop(&mut self) -> Result<DroppedScope, Error> {
        let timestamp = self.timestamp()?;
        let kind = self.byte()?;
        let document_type = self.text()?.to_owned();
        let scope = match kind {
            2 => DropScope::Type(document_type),
            0 | 1 => {
                let group = DocumentGroup::from_key(self.text()?).ok_or(Error::Message("a group is none"))?;
                DropScope::Group { document_type: (kind == 1).then_some(document_type), group }
            }
            _ => return Err(Error::Unknown("a drop is of no known kind")),
        };
        Ok(DroppedScope { scope, timestamp })
    }
}

/// Parses bytes as every kind of message; for fuzzing.
pub fn fuzz(bytes: &[u8]) {
    // The result does not matter: parsing must end.
    let mut request = MessageReader::new(bytes);
    let _ = crate::message::read_fence(&mut request);
    let _ = crate::message::read_request(request);
    let _ = crate::message::read_reply(bytes);
    let _ = crate::bulk::fuzz(bytes);
}
