//! Serialization by `serde` of ids, groups and encoded documents.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{DocumentGroup, DocumentId};

/// Serialized as its text.
impl Serialize for DocumentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for DocumentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor(PhantomData))
    }
}

/// Serialized as its [key](DocumentGroup::key).
impl Serialize for DocumentGroup {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.key())
    }
}

impl<'de> Deserialize<'de> for DocumentGroup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor(PhantomData))
    }
}

/// A value that is parsed from its text, without a copy of the text.
trait ParsedText: Sized {
    const NAME: &'static str;

    fn parsed(text: &str) -> Option<Self>;
}

impl ParsedText for DocumentId {
    const NAME: &'static str = "a document id";

    fn parsed(text: &str) -> Option<Self> {
        DocumentId::parse(text).ok()
    }
}

impl ParsedText for DocumentGroup {
    const NAME: &'static str = "the key of a group";

    fn parsed(text: &str) -> Option<Self> {
        DocumentGroup::from_key(text)
    }
}

struct TextVisitor<T>(PhantomData<T>);

impl<T: ParsedText> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::NAME)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::parsed(text).ok_or_else(|| E::custom(format_args!("'{text}' is not {}", T::NAME)))
    }
}

/// Bytes of a document as a byte string, not as a list of numbers.
pub(crate) mod body {
    use std::fmt;
    use std::sync::Arc;

    use serde::de::{Error, Visitor};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    struct WrittenBody<'a>(&'a [u8]);

    impl Serialize for WrittenBody<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(self.0)
        }
    }

    struct BodyOfVersion(Arc<[u8]>);

    impl<'de> Deserialize<'de> for BodyOfVersion {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_bytes(BodyVisitor)
        }
    }

    struct BodyVisitor;

    impl Visitor<'_> for BodyVisitor {
        type Value = BodyOfVersion;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<BodyOfVersion, E> {
            Ok(BodyOfVersion(bytes.into()))
        }
    }

    pub fn serialize<S: Serializer>(body: &Option<Arc<[u8]>>, serializer: S) -> Result<S::Ok, S::Error> {
        body.as_deref().map(WrittenBody).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<[u8]>>, D::Error> {
        Ok(Option::<BodyOfVersion>::deserialize(deserializer)?.map(|body| body.0))
    }
}
