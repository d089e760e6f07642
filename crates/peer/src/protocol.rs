//! Choice of the protocol of a connection, and the bytes of each message in it.

use millrace_cluster::{NodeReply, NodeRequest, RequestFence, SERIALIZED_MESSAGES};

use crate::transfer::{TransferAnswer, TransferKind, TransferQuestion};
use crate::{Error, codec, protocol_1};

/// Protocol of a connection, which its first bytes name: all its messages are of it, in both directions.
///
/// The connecting node chooses it by its cluster state. When a state names a newer protocol, connections of
/// the older one are closed, and the requests that wait for answers there are lost once, as when a node
/// starts again. The accepting node follows, whatever its own state says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionProtocol {
    First,
    Second,
}

impl ConnectionProtocol {
    /// Protocol of connections by a cluster state with this number.
    pub(crate) fn of(number: u16) -> Self {
        match number < SERIALIZED_MESSAGES {
            true => ConnectionProtocol::First,
            false => ConnectionProtocol::Second,
        }
    }

    pub(crate) fn write_request(self, fence: &RequestFence, request: &NodeRequest) -> Vec<u8> {
        let expected = match request {
            NodeRequest::Apply(rows) => 64 + rows.iter().map(|row| row.content.bytes() + 16).sum::<usize>(),
            _ => 128,
        };
        match self {
            ConnectionProtocol::First => protocol_1::write_request(fence, request, expected),
            ConnectionProtocol::Second => codec::append(codec::encode(fence, expected), request),
        }
    }

    /// Reads the fence, which begins every request; also returns the rest.
    pub(crate) fn read_fence(self, bytes: &[u8]) -> Result<(RequestFence, &[u8]), Error> {
        match self {
            ConnectionProtocol::First => protocol_1::read_fence(bytes),
            ConnectionProtocol::Second => codec::decode_first(bytes),
        }
    }

    /// Reads the rest of a request.
    pub(crate) fn read_request(self, bytes: &[u8]) -> Result<NodeRequest, Error> {
        match self {
            ConnectionProtocol::First => protocol_1::read_request(bytes),
            ConnectionProtocol::Second => codec::decode(bytes),
        }
    }

    pub(crate) fn write_reply(self, reply: &NodeReply) -> Vec<u8> {
        match self {
            ConnectionProtocol::First => protocol_1::write_reply(reply),
            ConnectionProtocol::Second => codec::encode(reply, 64),
        }
    }

    pub(crate) fn read_reply(self, bytes: &[u8]) -> Result<NodeReply, Error> {
        match self {
            ConnectionProtocol::First => protocol_1::read_reply(bytes),
            ConnectionProtocol::Second => codec::decode(bytes),
        }
    }

    pub(crate) fn write_question(self, question: &TransferQuestion) -> Vec<u8> {
        match self {
            ConnectionProtocol::First => protocol_1::write_question(question),
            ConnectionProtocol::Second => codec::encode(question, 64),
        }
    }

    pub(crate) fn read_question(self, bytes: &[u8]) -> Result<TransferQuestion, Error> {
        match self {
            ConnectionProtocol::First => protocol_1::read_question(bytes),
            ConnectionProtocol::Second => codec::decode(bytes),
        }
    }

    pub(crate) fn write_answer(self, answer: &TransferAnswer) -> Vec<u8> {
        match self {
            ConnectionProtocol::First => protocol_1::write_answer(answer),
            ConnectionProtocol::Second => codec::encode(answer, 64),
        }
    }

    /// Reads the answer to a question of this kind.
    pub(crate) fn read_answer(self, kind: TransferKind, bytes: &[u8]) -> Result<TransferAnswer, Error> {
        match self {
            ConnectionProtocol::First => protocol_1::read_answer(kind, bytes),
            ConnectionProtocol::Second => codec::decode(bytes),
        }
    }
}

/// Parses bytes as every kind of message of every protocol; for fuzzing.
pub fn fuzz(bytes: &[u8]) {
    crate::greeting::fuzz(bytes);
    for protocol in [ConnectionProtocol::First, ConnectionProtocol::Second] {
        // The results do not matter: parsing must end.
        if let Ok((_, request)) = protocol.read_fence(bytes) {
            let _ = protocol.read_request(request);
        }
        let _ = protocol.read_request(bytes);
        let _ = protocol.read_reply(bytes);
        let _ = protocol.read_question(bytes);
        use TransferKind::{Bodies, Drops, Export, Parcel, Versions};
        for kind in [Export, Parcel, Versions, Drops, Bodies] {
            let _ = protocol.read_answer(kind, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(protocol: ConnectionProtocol, bytes: &[u8]) -> Result<NodeRequest, Error> {
        protocol.read_request(protocol.read_fence(bytes)?.1)
    }

    /// Decodes a line of hexadecimal digits.
    fn bytes(hex: &str) -> Vec<u8> {
        let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        hex.as_bytes().chunks(2).map(digits).collect()
    }

    #[test]
    fn requests_that_break_off_are_none_and_those_that_go_on_are_of_a_newer_protocol() {
        for (protocol, lines) in [
            (ConnectionProtocol::First, include_str!("../tests/protocol-1.txt")),
            (ConnectionProtocol::Second, include_str!("../tests/protocol-2.txt")),
        ] {
            let requests = lines.lines().filter_map(|line| line.strip_prefix("request ")?.split_once(' '));
            let mut count = 0;
            for (name, hex) in requests {
                let mut bytes = bytes(hex);
                assert!(read(protocol, &bytes).is_ok(), "{name}");
                for end in 0..bytes.len() {
                    let broken = read(protocol, &bytes[..end]);
                    assert!(matches!(broken, Err(Error::Message(_))), "{protocol:?}: {name} to {end}");
                }
                bytes.push(0);
                assert!(matches!(read(protocol, &bytes), Err(Error::Unknown(_))), "{protocol:?}: {name}");
                count += 1;
            }
            assert!(count > 10, "{count} requests are kept");
        }
    }
}
