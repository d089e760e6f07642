//! Serialization of values and tensors: as `serde` bytes, which binary formats store unchanged.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

/// Bytes as a byte string, not as a list of numbers.
pub(crate) mod bytes {
    use super::{Deserializer, Serializer, WireBytes};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        deserializer.deserialize_byte_buf(WireBytes)
    }
}

pub(crate) mod value {
    use millrace_document::{DocumentValue, wire};

    use super::{Deserializer, Error, Serializer, WireBytes};

    pub fn serialize<S: Serializer>(value: &DocumentValue, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&wire::encode_value(value))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DocumentValue, D::Error> {
        let bytes = deserializer.deserialize_byte_buf(WireBytes)?;
        wire::decode_value(&bytes).map_err(D::Error::custom)
    }
}

pub(crate) mod tensor {
    use millrace_document::DocumentValue;
    use millrace_tensor::Tensor;

    use super::{Deserializer, Error, Serializer, value};

    pub fn serialize<S: Serializer>(tensor: &Tensor, serializer: S) -> Result<S::Ok, S::Error> {
        value::serialize(&DocumentValue::Tensor(tensor.clone()), serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Tensor, D::Error> {
        match value::deserialize(deserializer)? {
            DocumentValue::Tensor(tensor) => Ok(tensor),
            _ => Err(D::Error::custom("a value stands where a tensor should")),
        }
    }
}

struct WireBytes;

impl Visitor<'_> for WireBytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }
}
