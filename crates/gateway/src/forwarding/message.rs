//! Bytes of messages between nodes over HTTP: questions, answers, and shares of queries.

use hyper::HeaderMap;
use millrace_cluster::SERIALIZED_MESSAGES;
use millrace_codec::{self as codec, Error, protocol_1};
use millrace_node::cluster::RemoteNode;
use millrace_search::{FirstShareReply, ShareReply};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::is_of_protocol_1;

/// Protocol of a request, and of its answer.
///
/// The node that asks chooses it by its cluster state. The one that answers follows, whatever its own state
/// says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageProtocol {
    First,
    Second,
}

impl MessageProtocol {
    /// Protocol of requests to a node.
    pub(super) fn for_node(remote: &RemoteNode) -> Self {
        match remote.protocol < SERIALIZED_MESSAGES {
            true => MessageProtocol::First,
            false => MessageProtocol::Second,
        }
    }

    /// Protocol of a request with these headers: the form of the one between nodes tells it.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        if is_of_protocol_1(headers) { MessageProtocol::First } else { MessageProtocol::Second }
    }

    /// Type of the media of an answer.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            MessageProtocol::First => "application/cbor",
            MessageProtocol::Second => "application/octet-stream",
        }
    }

    /// Encodes a message after other bytes.
    ///
    /// # Errors
    /// The message is not one that is sent.
    pub(super) fn append(self, out: Vec<u8>, message: &impl Serialize) -> Result<Vec<u8>, Error> {
        match self {
            MessageProtocol::First => protocol_1::append(out, message),
            MessageProtocol::Second => codec::append(out, message),
        }
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// The bytes are not this message, or one of a newer protocol.
    pub(super) fn decode<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T, Error> {
        match self {
            MessageProtocol::First => protocol_1::decode(bytes),
            MessageProtocol::Second => codec::decode(bytes),
        }
    }

    /// Encodes a reply about a share of a query after other bytes.
    ///
    /// # Errors
    /// Those of [`MessageProtocol::append`].
    pub(super) fn append_reply(self, out: Vec<u8>, reply: ShareReply) -> Result<Vec<u8>, Error> {
        match self {
            MessageProtocol::First => protocol_1::append(out, &FirstShareReply(reply)),
            MessageProtocol::Second => codec::append(out, &reply),
        }
    }

    /// Decodes a reply about a share of a query.
    ///
    /// # Errors
    /// Those of [`MessageProtocol::decode`].
    pub(super) fn decode_reply(self, bytes: &[u8]) -> Result<ShareReply, Error> {
        match self {
            MessageProtocol::First => Ok(protocol_1::decode::<FirstShareReply>(bytes)?.0),
            MessageProtocol::Second => codec::decode(bytes),
        }
    }
}

/// Checks that a message is written as these bytes of each protocol, in hexadecimal digits, and read from
/// them.
#[cfg(test)]
pub(super) fn check_kept<T: Serialize + DeserializeOwned>(message: &T, [first, second]: [&str; 2]) {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for (protocol, kept) in [(MessageProtocol::First, first), (MessageProtocol::Second, second)] {
        let bytes = protocol.append(Vec::new(), message).expect("a message of plain data is written");
        assert_eq!(hex(&bytes), kept, "{protocol:?}");
        let read: T = protocol.decode(&bytes).expect("what was written is read");
        let again = protocol.append(Vec::new(), &read).expect("a message of plain data is written");
        assert_eq!(hex(&again), kept, "{protocol:?}");
    }
}
