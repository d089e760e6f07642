//! Binary form of requests and replies.

use std::sync::Arc;

use crate::Error;
use crate::codec::{self, MessageReader, bucket, count, number, text};
use millrace_cluster::distributor::UnfinishedRow;
use millrace_cluster::{
    ClusterVersion, FenceRefusal, NodeFailure, NodeKey, NodeReply, NodeRequest, NodeResponse, PullMode,
    ReplicaContent, ReplicaOrigin, ReplicatedRow, ReportedReplica, RequestFence, RowContent,
};

/// Encodes a request.
pub(crate) fn write_request(fence: &RequestFence, request: &NodeRequest) -> Vec<u8> {
    let mut out = Vec::with_capacity(match request {
        NodeRequest::Apply(rows) => 64 + rows.iter().map(|row| row.content.bytes() + 16).sum::<usize>(),
        _ => 128,
    });
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
pub(crate) fn read_fence(reader: &mut MessageReader<'_>) -> Result<RequestFence, Error> {
    let from = node(reader)?;
    let version = ClusterVersion::new(reader.number()?);
    let (number, void_below) = (reader.number()?, reader.number()?);
    Ok(RequestFence { from, version, number, void_below })
}

/// Reads the rest of a request.
pub(crate) fn read_request(mut reader: MessageReader<'_>) -> Result<NodeRequest, Error> {
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
        NodeResponse::Here { votes } => out.extend([1, u8::from(*votes)]),
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
            if let Some(version) = found {
                codec::version(&mut out, version);
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
        1 => NodeResponse::Here { votes: reader.flag()? },
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
    out.push(match row.birth {
        None => 0,
        Some(ReplicaOrigin::Complete) => 1,
        Some(ReplicaOrigin::Incomplete) => 2,
    });
    write_row_content(out, &row.content);
}

fn write_row_content(out: &mut Vec<u8>, content: &RowContent) {
    match content {
        RowContent::Version(version) => {
            out.push(0);
            codec::version(out, version);
        }
        RowContent::Drop(drop) => {
            out.push(1);
            codec::drop(out, drop);
        }
    }
}

fn read_row(reader: &mut MessageReader<'_>) -> Result<ReplicatedRow, Error> {
    let bucket = reader.bucket()?;
    let birth = match reader.byte()? {
        0 => None,
        1 => Some(ReplicaOrigin::Complete),
        2 => Some(ReplicaOrigin::Incomplete),
        _ => return Err(Error::Unknown("a birth is of no known kind")),
    };
    Ok(ReplicatedRow { bucket, content: Arc::new(read_row_content(reader)?), birth })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<NodeRequest, Error> {
        let mut reader = MessageReader::new(bytes);
        read_fence(&mut reader)?;
        read_request(reader)
    }

    /// Decodes a line of hexadecimal digits.
    fn bytes(hex: &str) -> Vec<u8> {
        let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        hex.as_bytes().chunks(2).map(digits).collect()
    }

    #[test]
    fn requests_that_break_off_are_none_and_those_that_go_on_are_of_a_newer_protocol() {
        let lines = include_str!("../tests/protocol-1.txt").lines();
        let requests = lines.filter_map(|line| line.strip_prefix("request ")?.split_once(' '));
        let mut count = 0;
        for (name, hex) in requests {
            let mut bytes = bytes(hex);
            assert!(read(&bytes).is_ok(), "{name}");
            for end in 0..bytes.len() {
                assert!(matches!(read(&bytes[..end]), Err(Error::Message(_))), "{name} to {end}");
            }
            bytes.push(0);
            assert!(matches!(read(&bytes), Err(Error::Unknown(_))), "{name}");
            count += 1;
        }
        assert!(count > 10, "{count} requests are kept");
    }
}
