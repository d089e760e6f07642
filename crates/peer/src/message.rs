//! Binary form of requests and replies.

use std::sync::Arc;

use crate::Error;
use crate::codec::{self, Reader, bucket, count, number, text};
use millrace_cluster::distributor::Unfinished;
use millrace_cluster::{
    Birth, Content, Failure, Fence, NodeKey, Pull, Refused, ReplicaInfo, Reply, Request, Response, Row,
    RowContent,
};

/// Encodes a request.
pub(crate) fn write_request(fence: &Fence, request: &Request) -> Vec<u8> {
    let mut out = Vec::with_capacity(match request {
        Request::Apply(rows) => 64 + rows.iter().map(|row| row.content.bytes() + 16).sum::<usize>(),
        _ => 128,
    });
    out.extend(fence.from.0.to_le_bytes());
    number(&mut out, fence.version);
    number(&mut out, fence.number);
    number(&mut out, fence.void_below);
    match request {
        Request::Ping => out.push(0),
        Request::Owned { removals_since } => {
            out.push(1);
            number(&mut out, removals_since.0);
        }
        Request::Info { bucket: of, removals_since } => {
            out.push(2);
            bucket(&mut out, *of);
            number(&mut out, removals_since.0);
        }
        Request::Apply(rows) => {
            out.push(3);
            count(&mut out, rows.len());
            rows.iter().for_each(|row| write_row(&mut out, row));
        }
        Request::Finish(unfinished) => {
            out.push(if unfinished.base.is_some() { 10 } else { 9 });
            bucket(&mut out, unfinished.bucket);
            unfinished.base.iter().for_each(|base| number(&mut out, base.0));
            write_row_content(&mut out, &unfinished.content);
        }
        Request::Read { bucket: of, id } => {
            out.push(4);
            bucket(&mut out, *of);
            text(&mut out, id.as_str());
        }
        Request::Create(of) => {
            out.push(5);
            bucket(&mut out, *of);
        }
        Request::Pull { bucket: of, from, pull } => {
            out.push(6);
            bucket(&mut out, *of);
            out.extend(from.0.to_le_bytes());
            out.push(match pull {
                Pull::Whole => 0,
                Pull::Missing => 1,
            });
        }
        Request::Complete { bucket: of, expected } => {
            out.push(7);
            bucket(&mut out, *of);
            write_content(&mut out, expected);
        }
        Request::Delete { bucket: of, expected } => {
            out.push(8);
            bucket(&mut out, *of);
            write_content(&mut out, expected);
        }
    }
    out
}

/// Reads the fence, which begins every request.
pub(crate) fn read_fence(reader: &mut Reader<'_>) -> Result<Fence, Error> {
    let from = node(reader)?;
    let (version, number, void_below) = (reader.number()?, reader.number()?, reader.number()?);
    Ok(Fence { from, version, number, void_below })
}

/// Reads the rest of a request.
pub(crate) fn read_request(mut reader: Reader<'_>) -> Result<Request, Error> {
    let request = match reader.byte()? {
        0 => Request::Ping,
        1 => Request::Owned { removals_since: reader.timestamp()? },
        2 => Request::Info { bucket: reader.bucket()?, removals_since: reader.timestamp()? },
        3 => Request::Apply(reader.list(11, read_row)?),
        4 => Request::Read { bucket: reader.bucket()?, id: reader.id()? },
        5 => Request::Create(reader.bucket()?),
        6 => Request::Pull {
            bucket: reader.bucket()?,
            from: node(&mut reader)?,
            pull: match reader.byte()? {
                0 => Pull::Whole,
                1 => Pull::Missing,
                _ => return Err(Error::Unknown("a pull is of no known kind")),
            },
        },
        7 => Request::Complete { bucket: reader.bucket()?, expected: read_content(&mut reader)? },
        8 => Request::Delete { bucket: reader.bucket()?, expected: read_content(&mut reader)? },
        kind @ (9 | 10) => Request::Finish(Unfinished {
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
pub(crate) fn write_reply(reply: &Reply) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    number(&mut out, reply.version);
    match &reply.response {
        Response::Refused(refused) => out.extend([
            0,
            match refused {
                Refused::Stale => 0,
                Refused::Void => 1,
                Refused::NotOwner => 2,
                Refused::Absent => 3,
                Refused::Busy => 4,
                Refused::Unknown => 5,
            },
        ]),
        Response::Here { votes } => out.extend([1, u8::from(*votes)]),
        Response::Replicas { replicas, newest } => {
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
        Response::Applied(failures) => {
            out.push(3);
            count(&mut out, failures.len());
            for (place, failure) in failures {
                number(&mut out, *place as u64);
                write_failure(&mut out, failure);
            }
        }
        Response::Document(found) => {
            out.extend([4, u8::from(found.is_some())]);
            if let Some(version) = found {
                codec::version(&mut out, version);
            }
        }
        Response::Done => out.push(5),
        Response::Finished(replicas) => {
            out.push(7);
            out.extend(replicas.to_le_bytes());
        }
        Response::Failed(failure) => {
            out.push(6);
            write_failure(&mut out, failure);
        }
    }
    out
}

/// Decodes a reply.
pub(crate) fn read_reply(bytes: &[u8]) -> Result<Reply, Error> {
    let mut reader = Reader::new(bytes);
    let version = reader.number()?;
    let response = match reader.byte()? {
        0 => Response::Refused(match reader.byte()? {
            0 => Refused::Stale,
            1 => Refused::Void,
            2 => Refused::NotOwner,
            3 => Refused::Absent,
            4 => Refused::Busy,
            5 => Refused::Unknown,
            _ => return Err(Error::Unknown("a refusal is of no known kind")),
        }),
        1 => Response::Here { votes: reader.flag()? },
        2 => {
            let newest = reader.timestamp()?;
            let replica = |reader: &mut Reader<'_>| {
                let of = reader.bucket()?;
                let content = read_content(reader)?;
                let complete = reader.flag()?;
                Ok((of, ReplicaInfo { content, complete, newest: reader.timestamp()? }))
            };
            Response::Replicas { replicas: reader.list(42, replica)?, newest }
        }
        3 => {
            let failure = |reader: &mut Reader<'_>| {
                let place = reader.number()?;
                let place = usize::try_from(place).map_err(|_| Error::Message("a place is out of reach"))?;
                Ok((place, read_failure(reader)?))
            };
            Response::Applied(reader.list(9, failure)?)
        }
        4 => Response::Document(reader.flag()?.then(|| reader.version()).transpose()?),
        5 => Response::Done,
        6 => Response::Failed(read_failure(&mut reader)?),
        7 => Response::Finished(u16::from_le_bytes([reader.byte()?, reader.byte()?])),
        _ => return Err(Error::Unknown("a reply is of no known kind")),
    };
    reader.end()?;
    Ok(Reply { version, response })
}

fn node(reader: &mut Reader<'_>) -> Result<NodeKey, Error> {
    Ok(NodeKey(u16::from_le_bytes([reader.byte()?, reader.byte()?])))
}

fn write_row(out: &mut Vec<u8>, row: &Row) {
    bucket(out, row.bucket);
    out.push(match row.birth {
        None => 0,
        Some(Birth::Complete) => 1,
        Some(Birth::Incomplete) => 2,
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

fn read_row(reader: &mut Reader<'_>) -> Result<Row, Error> {
    let bucket = reader.bucket()?;
    let birth = match reader.byte()? {
        0 => None,
        1 => Some(Birth::Complete),
        2 => Some(Birth::Incomplete),
        _ => return Err(Error::Unknown("a birth is of no known kind")),
    };
    Ok(Row { bucket, content: Arc::new(read_row_content(reader)?), birth })
}

fn read_row_content(reader: &mut Reader<'_>) -> Result<RowContent, Error> {
    Ok(match reader.byte()? {
        0 => RowContent::Version(reader.version()?),
        1 => RowContent::Drop(reader.drop()?),
        _ => return Err(Error::Unknown("a row is of no known kind")),
    })
}

fn write_content(out: &mut Vec<u8>, content: &Content) {
    number(out, content.documents);
    number(out, content.checksum);
    number(out, content.removals_since.0);
}

fn read_content(reader: &mut Reader<'_>) -> Result<Content, Error> {
    Ok(Content {
        documents: reader.number()?,
        checksum: reader.number()?,
        removals_since: reader.timestamp()?,
    })
}

fn write_failure(out: &mut Vec<u8>, failure: &Failure) {
    let (kind, reason) = match failure {
        Failure::NoReplica => (0, ""),
        Failure::Differs => (1, ""),
        Failure::DiskFull { reason } => (2, reason.as_str()),
        Failure::Overloaded => (3, ""),
        Failure::Interrupted => (4, ""),
        Failure::Storage { reason } => (5, reason.as_str()),
    };
    out.push(kind);
    if matches!(kind, 2 | 5) {
        text(out, reason);
    }
}

fn read_failure(reader: &mut Reader<'_>) -> Result<Failure, Error> {
    Ok(match reader.byte()? {
        0 => Failure::NoReplica,
        1 => Failure::Differs,
        2 => Failure::DiskFull { reason: reader.text()?.to_owned() },
        3 => Failure::Overloaded,
        4 => Failure::Interrupted,
        5 => Failure::Storage { reason: reader.text()?.to_owned() },
        _ => return Err(Error::Unknown("a failure is of no known kind")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Request, Error> {
        let mut reader = Reader::new(bytes);
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
