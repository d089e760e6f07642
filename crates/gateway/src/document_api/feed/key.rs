//! The key of a stream: an `Idempotency-Key`, or the digest of the body (`dedupe=body`).

use hyper::HeaderMap;
use hyper::header::CONTENT_ENCODING;
use millrace_access::RequestCaller;
use millrace_document::DocumentGroup;
use millrace_node::Error;
use ring::digest::{Context, SHA256};

use super::table::TABLE_PARAMETERS;
use crate::http::RequestParameters;

/// Digest by SHA-256.
pub(super) type Sha256Digest = [u8; 32];

/// Name of the header with the key.
const HEADER: &str = "idempotency-key";

/// Longest key in bytes.
const KEY_BYTES_MAX: usize = 255;

/// Parameters that change the effect of a body.
const PARAMETERS: [&str; 2] = ["route", "cluster"];

/// Kind of key that a request has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestedKey {
    None,
    /// The text of the header.
    Header(String),
    /// The digest of the body.
    Body,
}

impl RequestedKey {
    /// Reads the header and the parameter.
    ///
    /// # Errors
    /// The key is not one, there are several, or the parameter is unknown.
    pub(super) fn read(headers: &HeaderMap, parameters: &RequestParameters) -> Result<Self, Error> {
        let is_of_body = match parameters.get("dedupe") {
            None => false,
            Some("body") => true,
            Some(other) => {
                let reason = format!("'{other}' is not supported; leave it out, or say body");
                return Err(Error::parameter("dedupe", reason));
            }
        };
        let bad = |reason: &str| Err(Error::BadRequest(format!("header Idempotency-Key: {reason}")));
        let mut keys = headers.get_all(HEADER).iter();
        match (keys.next(), keys.next(), is_of_body) {
            (None, _, true) => Ok(RequestedKey::Body),
            (None, _, false) => Ok(RequestedKey::None),
            (_, Some(_), _) => bad("it is there more than once; send one"),
            (Some(_), _, true) => bad("dedupe=body makes a key of the body; leave out one of the two"),
            (Some(key), ..) => match key.to_str() {
                Ok(text) if !text.is_empty() && text.len() <= KEY_BYTES_MAX => {
                    Ok(RequestedKey::Header(text.to_owned()))
                }
                _ => bad("it is not a text of 1 to 255 ASCII characters; send a UUID, for example"),
            },
        }
    }
}

/// A digest of several parts, each with its length before it.
#[derive(Clone)]
struct PartsDigest(Context);

impl PartsDigest {
    fn new() -> Self {
        PartsDigest(Context::new(&SHA256))
    }

    fn part(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn finish(self) -> Sha256Digest {
        let mut digest = Sha256Digest::default();
        digest.copy_from_slice(self.0.finish().as_ref());
        digest
    }
}

/// The digest of a body as it is sent, and of what else decides on its effect.
#[derive(Clone)]
pub(super) struct BodyDigest(PartsDigest);

impl BodyDigest {
    /// Begins a digest. The form of the body belongs to it: the same bytes, packed in another way, are
    /// another stream.
    pub(super) fn new(headers: &HeaderMap, parameters: &RequestParameters) -> Self {
        let mut digest = PartsDigest::new();
        digest.part(headers.get(CONTENT_ENCODING).map_or(&b""[..], |value| value.as_bytes()));
        for name in PARAMETERS {
            digest.part(parameters.get(name).unwrap_or_default().as_bytes());
        }
        // Only those that are there: the digests of other streams stay what they were.
        for name in TABLE_PARAMETERS {
            if let Some(value) = parameters.get(name) {
                digest.part(name.as_bytes());
                digest.part(value.as_bytes());
            }
        }
        BodyDigest(digest)
    }

    /// Adds bytes of the body.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.0.update(bytes);
    }

    pub(super) fn finish(self) -> Sha256Digest {
        self.0.finish()
    }
}

/// Key of a caller's stream: another caller's key of the same text is another key.
pub(super) fn header_key(caller: &RequestCaller, text: &str) -> Sha256Digest {
    caller_key(caller, "header", text.as_bytes())
}

/// Key of a caller's stream with this body.
pub(super) fn body_key(caller: &RequestCaller, body: &Sha256Digest) -> Sha256Digest {
    caller_key(caller, "body", body)
}

fn caller_key(caller: &RequestCaller, kind: &str, key: &[u8]) -> Sha256Digest {
    let mut digest = PartsDigest::new();
    digest.part(caller.name.as_bytes());
    // Documents without a group are those of the only group of a caller.
    let group = caller.only_group().map(group_text);
    digest.part(group.unwrap_or_default().as_bytes());
    digest.part(kind.as_bytes());
    digest.part(key);
    digest.finish()
}

/// Text of a group in keys. These are kept on the disk: it stays where a variant gets another name.
fn group_text(group: &DocumentGroup) -> String {
    match group {
        DocumentGroup::None => "None".to_owned(),
        DocumentGroup::Number(number) => format!("Number({number})"),
        DocumentGroup::Name(name) => format!("Name({name:?})"),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_request_has_one_key_or_none() {
        let check = |keys: &[&str], query: &str, expected: &str| {
            let mut headers = HeaderMap::new();
            for key in keys {
                headers.append(HEADER, HeaderValue::from_bytes(key.as_bytes()).expect("a value"));
            }
            let parameters = RequestParameters::parse(query, 100).expect("parameters");
            let shown = match RequestedKey::read(&headers, &parameters) {
                Ok(key) => format!("{key:?}"),
                Err(error) => error.message(),
            };
            assert!(shown.starts_with(expected), "{keys:?} {query}: {shown} is not {expected}");
        };
        check(&[], "", "None");
        check(&[], "dedupe=body", "Body");
        check(&["a b"], "", "Header(\"a b\")");
        check(&[&"x".repeat(255)], "", "Header(");
        check(&[&"x".repeat(256)], "", "header Idempotency-Key: it is not a text of 1 to 255");
        check(&[""], "", "header Idempotency-Key: it is not a text");
        check(&["ü"], "", "header Idempotency-Key: it is not a text");
        check(&["a", "a"], "", "header Idempotency-Key: it is there more than once");
        check(&["a"], "dedupe=body", "header Idempotency-Key: dedupe=body makes a key");
        check(&[], "dedupe=yes", "parameter 'dedupe': 'yes' is not supported");
    }

    #[test]
    fn what_changes_the_effect_of_a_stream_changes_its_digest() {
        let digest = |encoding: &'static str, query: &str, body: &[&str]| {
            let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(encoding))]);
            let parameters = RequestParameters::parse(query, 100).expect("parameters");
            let mut digest = BodyDigest::new(&headers, &parameters);
            body.iter().for_each(|part| digest.add(part.as_bytes()));
            digest.finish()
        };
        let first = digest("", "", &["ab", "c"]);
        assert_eq!(first, digest("", "timeout=1s&durability=sync", &["a", "bc"]));
        let others = [
            digest("", "", &["ab"]),
            digest("gzip", "", &["abc"]),
            digest("", "route=a", &["abc"]),
            digest("", "cluster=a", &["abc"]),
        ];
        assert!(others.iter().all(|other| *other != first));
        let [ada, bob] = ["ada", "bob"].map(RequestCaller::unrestricted);
        assert_eq!(header_key(&ada, "k"), header_key(&ada, "k"));
        assert_ne!(header_key(&ada, "k"), header_key(&bob, "k"));
        let text = String::from_utf8_lossy(&[b'x'; 32]).into_owned();
        assert_ne!(header_key(&ada, &text), body_key(&ada, &[b'x'; 32]));
    }

    #[test]
    fn keys_of_streams_stay_what_they_were() {
        for (group, expected) in [
            (DocumentGroup::None, "None"),
            (DocumentGroup::Number(7), "Number(7)"),
            (DocumentGroup::Name("a \"b\"".to_owned()), "Name(\"a \\\"b\\\"\")"),
        ] {
            assert_eq!(group_text(&group), expected);
        }
        let hex = |key: Sha256Digest| key.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(
            hex(header_key(&RequestCaller::unrestricted("ada"), "k")),
            "9e31f9f52e5b5be20b2677c090bae9ad1c33bdd105c611e5a170e4a2b0d3031f"
        );
    }
}
