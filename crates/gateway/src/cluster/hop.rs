use std::fmt::Write as _;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use millrace_bucket::BucketId;

use crate::Error;

/// The header that says what a request was handed on for. One from outside does not have it.
pub(crate) const HOP: HeaderName = HeaderName::from_static("millrace-hop");

/// Its value in an answer that says: the cluster is about to agree who answers this; look again.
const UNSETTLED: HeaderValue = HeaderValue::from_static("unsettled");

/// Whether a node has answered only that the cluster has not agreed yet.
pub(crate) fn is_unsettled(headers: &HeaderMap) -> bool {
    headers.get(HOP) == Some(&UNSETTLED)
}

/// Makes an answer say that.
pub(crate) fn unsettled(headers: &mut HeaderMap) {
    headers.insert(HOP, UNSETTLED);
}

/// How far a request has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hop {
    /// It came from a client.
    Client,
    /// It was handed on to the owner.
    Owner,
    /// It was handed on by the owner, to be answered with what this node has.
    Reader,
    /// A part of it is asked: what there is in the buckets that this node owns in this version of the cluster state.
    Owned(u64),
    /// A part of it is asked by their owner: what there is in these buckets.
    Buckets(Vec<BucketId>),
}

impl Hop {
    /// What the headers of a request say.
    ///
    /// # Errors
    /// They say it in words that are not known here.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Error> {
        let Some(value) = headers.get(HOP) else { return Ok(Hop::Client) };
        let text = value.to_str().unwrap_or_default();
        Hop::parse(text).ok_or_else(|| {
            Error::BadRequest(format!(
                "header {HOP}: '{text}' is not known here; it is for nodes of one cluster, which should run one version"
            ))
        })
    }

    fn parse(text: &str) -> Option<Self> {
        Some(match text.split_once(' ') {
            None if text == "owner" => Hop::Owner,
            None if text == "reader" => Hop::Reader,
            Some(("owned", version)) => Hop::Owned(version.parse().ok()?),
            Some(("buckets", list)) => Hop::Buckets(list.split(' ').map(bucket).collect::<Option<_>>()?),
            _ => return None,
        })
    }

    /// As a header's value; `None` for what needs none.
    pub(crate) fn value(&self) -> Option<HeaderValue> {
        let text = match self {
            Hop::Client => return None,
            Hop::Owner => "owner".to_owned(),
            Hop::Reader => "reader".to_owned(),
            Hop::Owned(version) => format!("owned {version}"),
            Hop::Buckets(buckets) => {
                let mut text = "buckets".to_owned();
                for bucket in buckets {
                    // Writing to a text cannot fail.
                    let _ = write!(text, " {}.{:x}", bucket.used_bits(), bucket.bits());
                }
                text
            }
        };
        HeaderValue::from_str(&text).ok()
    }
}

fn bucket(text: &str) -> Option<BucketId> {
    let (used_bits, bits) = text.split_once('.')?;
    let used_bits = used_bits.parse().ok().filter(|bits| *bits <= 32)?;
    Some(BucketId::new(used_bits, u64::from_str_radix(bits, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_is_what_its_header_says() {
        let buckets = vec![BucketId::new(10, 0x3ff), BucketId::new(10, 0)];
        for hop in [Hop::Owner, Hop::Reader, Hop::Owned(7), Hop::Buckets(buckets)] {
            let mut headers = HeaderMap::new();
            headers.extend(hop.value().map(|value| (HOP, value)));
            assert_eq!(Hop::of(&headers).unwrap(), hop);
        }
        assert_eq!(Hop::of(&HeaderMap::new()).unwrap(), Hop::Client);
        for wrong in ["", "elsewhere", "owned", "owned x", "buckets 99.1", "buckets 10"] {
            let headers = HeaderMap::from_iter([(HOP, HeaderValue::from_static(wrong))]);
            assert!(Hop::of(&headers).is_err(), "{wrong}");
        }
    }
}
