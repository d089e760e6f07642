//! The codec of messages, with the errors of this crate.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;

/// Encodes a message; `expected` is its approximate size, in bytes.
pub(crate) fn encode(message: &impl Serialize, expected: usize) -> Vec<u8> {
    append(Vec::with_capacity(expected), message)
}

/// Encodes a message after others.
pub(crate) fn append(out: Vec<u8>, message: &impl Serialize) -> Vec<u8> {
    // All messages of this crate are sent.
    millrace_codec::append(out, message).expect("a message of plain data can be encoded")
}

/// Decodes a message.
///
/// # Errors
/// [`Error::Message`] if it breaks off; [`Error::Unknown`] if it contains, or is followed by, more than this
/// program knows.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    Ok(millrace_codec::decode(bytes)?)
}

/// Decodes the first of several messages; also returns the bytes of the others.
///
/// # Errors
/// Those of [`decode`].
pub(crate) fn decode_first<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), Error> {
    Ok(millrace_codec::decode_first(bytes)?)
}

#[cfg(test)]
mod tests {
    use millrace_cluster::{NodeReply, NodeRequest};

    use super::*;

    #[test]
    fn a_length_that_a_message_does_not_have_is_refused_before_memory_is_allocated() {
        // Kind 3, and 4,294,967,295 rows; kind 2, and as many replicas.
        let length = [0xff, 0xff, 0xff, 0xff, 0x0f];
        let row = [10, 77, 0, 0x7f, b'i', b'd', b':'];
        let rows = [&[3][..], &length, &row].concat();
        assert!(matches!(decode::<NodeRequest>(&rows), Err(Error::Message(_))));
        let replicas = [&[7, 2][..], &length, &[0; 13]].concat();
        assert!(matches!(decode::<NodeReply>(&replicas), Err(Error::Message(_))));
        assert!(matches!(decode::<NodeRequest>(&[200, 1]), Err(Error::Unknown(_))));
    }
}
