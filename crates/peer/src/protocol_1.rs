//! Protocol 1: the messages of version 0.1.0, by hand. Numbers are little-endian; texts and lists begin with
//! a count of 4 bytes.
//!
//! Spoken where the cluster state names this protocol, and understood always. Nothing else depends on this
//! module but the choice in `protocol`: it goes when protocol 1 does.

mod transfers;

use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_cluster::{
    ClusterVersion, FenceRefusal, NodeFailure, NodeKey, NodeReply, NodeRequest, NodeResponse, PullMode,
    ReplicaContent, ReplicaOrigin, ReplicatedRow, ReportedReplica, RequestFence, RowContent, UnfinishedRow,
};
use millrace_document::{DocumentGroup, DocumentId, DocumentVersion, DropScope, DroppedScope, Timestamp};

use crate::Error;
use crate::greeting::PeerChannel;

pub(crate) use self::transfers::{read_answer, read_question, write_answer, write_question};

/// First bytes of a connection.
pub(crate) fn write_greeting(channel: PeerChannel) -> &'static [u8; 8] {
    match channel {
        PeerChannel::Requests => b"MILLREQ\x01",
        PeerChannel::Bulk => b"MILLBLK\x02",
    }
}

/// Kind of a connection that begins with these bytes; `None` if it is not one of this protocol.
pub(crate) fn read_greeting(word: &[u8; 8]) -> Option<PeerChannel> {
    [PeerChannel::Requests, PeerChannel::Bulk].into_iter().find(|channel| write_greeting(*channel) == word)
}

/// Encodes a request of approximately this size, in bytes.
pub(crate) fn write_request(fence: &RequestFence, request: &NodeRequest, expected: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(expected);
    out.extend(fence.from.0.to_le_bytes());
    number(&mut out, fence.version.number());
    number(&mut out, fence.number);
    number(&mut out, fence.void_below);
    match request {
        NodeRequest::Ping => out.push(0),
        NodeRequest::Owned { removals_since } => {
            out.push(1);
            number(&mut out, removals_since.0);
        }
        NodeRequest::Info { bucket: of, removals_since } => {
            out.push(2);
            bucket(&mut out, *of);
            number(&mut out, removals_since.0);
        }
        NodeRequest::Apply(rows) => {
            out.push(3);
            count(&mut out, rows.len());
            rows.iter().for_each(|row| write_row(&mut out, row));
        }
        NodeRequest::Finish(unfinished) => {
            out.push(if unfinished.base.is_some() { 10 } else { 9 });
            bucket(&mut out, unfinished.bucket);
            unfinished.base.iter().for_each(|base| number(&mut out, base.0));
            write_row_content(&mut out, &unfinished.content);
        }
        NodeRequest::Read { bucket: of, id } => {
            out.push(4);
            bucket(&mut out, *of);
            text(&mut out, id.as_str());
        }
        NodeRequest::Create(of) => {
            out.push(5);
            bucket(&mut out, *of);
        }
        NodeRequest::Pull { bucket: of, from, pull } => {
            out.push(6);
            bucket(&mut out, *of);
            out.extend(from.0.to_le_bytes());
            out.push(match pull {
                PullMode::Whole => 0,
                PullMode::Missing => 1,
            });
        }
        NodeRequest::Complete { bucket: of, expected } => {
            out.push(7);
            bucket(&mut out, *of);
            write_content(&mut out, expected);
        }
        NodeRequest::Delete { bucket: of, expected } => {
            out.push(8);
            bucket(&mut out, *of);
            write_content(&mut out, expected);
        }
    }
    out
}

/// Reads the fence, which begins every request.
pub(crate) fn read_fence(bytes: &[u8]) -> Result<(RequestFence, &[u8]), Error> {
    let mut reader = MessageReader::new(bytes);
    let from = node(&mut reader)?;
    let version = ClusterVersion::new(reader.number()?);
    let (number, void_below) = (reader.number()?, reader.number()?);
    Ok((RequestFence { from, version, number, void_below }, reader.0))
}

/// Reads the rest of a request.
pub(crate) fn read_request(bytes: &[u8]) -> Result<NodeRequest, Error> {
    let mut reader = MessageReader::new(bytes);
    let request = match reader.byte()? {
        0 => NodeRequest::Ping,
        1 => NodeRequest::Owned { removals_since: reader.timestamp()? },
        2 => NodeRequest::Info { bucket: reader.bucket()?, removals_since: reader.timestamp()? },
        3 => NodeRequest::Apply(reader.list(11, read_row)?),
        4 => NodeRequest::Read { bucket: reader.bucket()?, id: reader.id()? },
        5 => NodeRequest::Create(reader.bucket()?),
        6 => NodeRequest::Pull {
            bucket: reader.bucket()?,
            from: node(&mut reader)?,
            pull: match reader.byte()? {
                0 => PullMode::Whole,
                1 => PullMode::Missing,
                _ => return Err(Error::Unknown("a pull is of no known kind")),
            },
        },
        7 => NodeRequest::Complete { bucket: reader.bucket()?, expected: read_content(&mut reader)? },
        8 => NodeRequest::Delete { bucket: reader.bucket()?, expected: read_content(&mut reader)? },
        kind @ (9 | 10) => NodeRequest::Finish(UnfinishedRow {
            bucket: reader.bucket()?,
            base: (kind == 10).then(|| reader.timestamp()).transpose()?,
            content: Arc::new(read_row_content(&mut reader)?),
        }),
        _ => return Err(Error::Unknown("a request is of no known kind")),
    };
    reader.end()?;
    Ok(request)
}

/// Encodes a reply.
pub(crate) fn write_reply(reply: &NodeReply) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    number(&mut out, reply.version.number());
    match &reply.response {
        NodeResponse::Refused(refused) => out.extend([
            0,
            match refused {
                FenceRefusal::Stale => 0,
                FenceRefusal::Void => 1,
                FenceRefusal::NotOwner => 2,
                FenceRefusal::Absent => 3,
                FenceRefusal::Busy => 4,
                FenceRefusal::Unknown => 5,
            },
        ]),
        NodeResponse::Pong { votes } => out.extend([1, u8::from(*votes)]),
        NodeResponse::Replicas { replicas, newest } => {
            out.push(2);
            number(&mut out, newest.0);
            count(&mut out, replicas.len());
            for (of, info) in replicas {
                bucket(&mut out, *of);
                write_content(&mut out, &info.content);
                out.push(u8::from(info.complete));
                number(&mut out, info.newest.0);
            }
        }
        NodeResponse::Applied(failures) => {
            out.push(3);
            count(&mut out, failures.len());
            for (place, failure) in failures {
                number(&mut out, *place as u64);
                write_failure(&mut out, failure);
            }
        }
        NodeResponse::Document(found) => {
            out.extend([4, u8::from(found.is_some())]);
            if let Some(found) = found {
                version(&mut out, found);
            }
        }
        NodeResponse::Done => out.push(5),
        NodeResponse::Finished(replicas) => {
            out.push(7);
            out.extend(replicas.to_le_bytes());
        }
        NodeResponse::Failed(failure) => {
            out.push(6);
            write_failure(&mut out, failure);
        }
    }
    out
}

/// Decodes a reply.
pub(crate) fn read_reply(bytes: &[u8]) -> Result<NodeReply, Error> {
    let mut reader = MessageReader::new(bytes);
    let version = ClusterVersion::new(reader.number()?);
    let response = match reader.byte()? {
        0 => NodeResponse::Refused(match reader.byte()? {
            0 => FenceRefusal::Stale,
            1 => FenceRefusal::Void,
            2 => FenceRefusal::NotOwner,
            3 => FenceRefusal::Absent,
            4 => FenceRefusal::Busy,
            5 => FenceRefusal::Unknown,
            _ => return Err(Error::Unknown("a refusal is of no known kind")),
        }),
        1 => NodeResponse::Pong { votes: reader.flag()? },
        2 => {
            let newest = reader.timestamp()?;
            let replica = |reader: &mut MessageReader<'_>| {
                let of = reader.bucket()?;
                let content = read_content(reader)?;
                let complete = reader.flag()?;
                Ok((of, ReportedReplica { content, complete, newest: reader.timestamp()? }))
            };
            NodeResponse::Replicas { replicas: reader.list(42, replica)?, newest }
        }
        3 => {
            let failure = |reader: &mut MessageReader<'_>| {
                let place = reader.number()?;
                let place = usize::try_from(place).map_err(|_| Error::Message("a place is out of reach"))?;
                Ok((place, read_failure(reader)?))
            };
            NodeResponse::Applied(reader.list(9, failure)?)
        }
        4 => NodeResponse::Document(reader.flag()?.then(|| reader.version()).transpose()?),
        5 => NodeResponse::Done,
        6 => NodeResponse::Failed(read_failure(&mut reader)?),
        7 => NodeResponse::Finished(u16::from_le_bytes([reader.byte()?, reader.byte()?])),
        _ => return Err(Error::Unknown("a reply is of no known kind")),
    };
    reader.end()?;
    Ok(NodeReply { version, response })
}

fn node(reader: &mut MessageReader<'_>) -> Result<NodeKey, Error> {
    Ok(NodeKey(u16::from_le_bytes([reader.byte()?, reader.byte()?])))
}

fn write_row(out: &mut Vec<u8>, row: &ReplicatedRow) {
    bucket(out, row.bucket);
    out.push(match row.origin {
        None => 0,
        Some(ReplicaOrigin::Complete) => 1,
        Some(ReplicaOrigin::Incomplete) => 2,
    });
    write_row_content(out, &row.content);
}

fn write_row_content(out: &mut Vec<u8>, content: &RowContent) {
    match content {
        RowContent::Version(of) => {
            out.push(0);
            version(out, of);
        }
        RowContent::Drop(of) => {
            out.push(1);
            drop(out, of);
        }
    }
}

fn read_row(reader: &mut MessageReader<'_>) -> Result<ReplicatedRow, Error> {
    let bucket = reader.bucket()?;
    let origin = match reader.byte()? {
        0 => None,
        1 => Some(ReplicaOrigin::Complete),
        2 => Some(ReplicaOrigin::Incomplete),
        _ => return Err(Error::Unknown("the origin of a replica is of no known kind")),
    };
    Ok(ReplicatedRow { bucket, content: Arc::new(read_row_content(reader)?), origin })
}

fn read_row_content(reader: &mut MessageReader<'_>) -> Result<RowContent, Error> {
    Ok(match reader.byte()? {
        0 => RowContent::Version(reader.version()?),
        1 => RowContent::Drop(reader.drop()?),
        _ => return Err(Error::Unknown("a row is of no known kind")),
    })
}

fn write_content(out: &mut Vec<u8>, content: &ReplicaContent) {
    number(out, content.documents);
    number(out, content.checksum);
    number(out, content.removals_since.0);
}

fn read_content(reader: &mut MessageReader<'_>) -> Result<ReplicaContent, Error> {
    Ok(ReplicaContent {
        documents: reader.number()?,
        checksum: reader.number()?,
        removals_since: reader.timestamp()?,
    })
}

fn write_failure(out: &mut Vec<u8>, failure: &NodeFailure) {
    let (kind, reason) = match failure {
        NodeFailure::NoReplica => (0, ""),
        NodeFailure::Differs => (1, ""),
        NodeFailure::DiskFull { reason } => (2, reason.as_str()),
        NodeFailure::Overloaded => (3, ""),
        NodeFailure::Interrupted => (4, ""),
        NodeFailure::Storage { reason } => (5, reason.as_str()),
    };
    out.push(kind);
    if matches!(kind, 2 | 5) {
        text(out, reason);
    }
}

fn read_failure(reader: &mut MessageReader<'_>) -> Result<NodeFailure, Error> {
    Ok(match reader.byte()? {
        0 => NodeFailure::NoReplica,
        1 => NodeFailure::Differs,
        2 => NodeFailure::DiskFull { reason: reader.text()?.to_owned() },
        3 => NodeFailure::Overloaded,
        4 => NodeFailure::Interrupted,
        5 => NodeFailure::Storage { reason: reader.text()?.to_owned() },
        _ => return Err(Error::Unknown("a failure is of no known kind")),
    })
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // A message is smaller than that.
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn text(out: &mut Vec<u8>, text: &str) {
    bytes(out, text.as_bytes());
}

fn count(out: &mut Vec<u8>, count: usize) {
    out.extend((count as u32).to_le_bytes());
}

fn bucket(out: &mut Vec<u8>, bucket: BucketId) {
    out.push(bucket.used_bits());
    number(out, bucket.bits());
}

fn version(out: &mut Vec<u8>, version: &DocumentVersion) {
    text(out, version.id.as_str());
    number(out, version.timestamp.0);
    out.push(u8::from(version.body.is_some()));
    if let Some(body) = &version.body {
        bytes(out, body);
    }
}

fn drop(out: &mut Vec<u8>, drop: &DroppedScope) {
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
struct MessageReader<'b>(&'b [u8]);

impl<'b> MessageReader<'b> {
    fn new(bytes: &'b [u8]) -> Self {
        MessageReader(bytes)
    }

    /// Checks that all bytes were read.
    fn end(self) -> Result<(), Error> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::Unknown("bytes are left after a message")) }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Error::Message("a message breaks off"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.take::<1>()?[0])
    }

    fn flag(&mut self) -> Result<bool, Error> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::Message("a truth value is neither 0 nor 1")),
        }
    }

    fn number(&mut self) -> Result<u64, Error> {
        self.take().map(u64::from_le_bytes)
    }

    /// Reads a number of items, each of at least `least` bytes; it is bounded by the remaining bytes.
    fn count(&mut self, least: usize) -> Result<usize, Error> {
        let count = u32::from_le_bytes(self.take()?) as usize;
        match count.checked_mul(least.max(1)).is_some_and(|bytes| bytes <= self.0.len()) {
            true => Ok(count),
            false => Err(Error::Message("a list is longer than its message")),
        }
    }

    fn bytes(&mut self) -> Result<&'b [u8], Error> {
        let length = self.count(1)?;
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(taken)
    }

    fn text(&mut self) -> Result<&'b str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Error::Message("a text is not UTF-8"))
    }

    fn list<T>(
        &mut self,
        least: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let count = self.count(least)?;
        (0..count).map(|_| item(self)).collect()
    }

    fn bucket(&mut self) -> Result<BucketId, Error> {
        BucketId::try_from((self.byte()?, self.number()?))
            .map_err(|_| Error::Message("a bucket uses more bits than a location has"))
    }

    fn timestamp(&mut self) -> Result<Timestamp, Error> {
        self.number().map(Timestamp)
    }

    fn id(&mut self) -> Result<DocumentId, Error> {
        DocumentId::parse(self.text()?).map_err(|_| Error::Message("an id is none"))
    }

    fn version(&mut self) -> Result<DocumentVersion, Error> {
        let (id, timestamp) = (self.id()?, self.timestamp()?);
        let body = self.flag()?.then(|| self.bytes().map(Arc::from)).transpose()?;
        Ok(DocumentVersion { id, timestamp, body })
    }

    fn drop(&mut self) -> Result<DroppedScope, Error> {
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
