//! All documents of a cluster, bucket after bucket: where a request stands, and who is asked next.

use std::fmt;
use std::time::Instant;

use axum::body::to_bytes;
use hyper::StatusCode;
use hyper::body::Bytes;
use millrace_bucket::BucketId;
use millrace_document::Location;
use serde_json::Value;

use crate::cluster::{self, Access, Forwarded, Hop, Vouch, Way};
use crate::http::{Parameters, form_encode};
use crate::{Error, Node};

/// The most bytes of a node's answer for one bucket.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The buckets of a cluster, in the order in which documents are stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buckets {
    bits: u8,
}

/// A place in that order. As text it is a continuation: `BUCKET.PLACE-IN-IT`, the bucket's number in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    bits: u8,
    number: u32,
    /// Where in the bucket, as the node with it says; `None` for its beginning.
    inner: Option<String>,
}

/// Who answers for a bucket.
pub(super) enum Answered {
    /// This node; what it reads counts if this holds afterwards.
    Here(Vouch),
    /// Another node has answered so.
    There(StatusCode, Bytes),
}

impl Buckets {
    /// Those of the cluster that the node is one of.
    pub(super) fn of(node: &Node) -> Result<Self, Error> {
        match node.cluster() {
            Some(cluster) => {
                let first = cluster.bucket(Location::new(0)).map_err(Error::Unsettled)?;
                Ok(Buckets { bits: first.used_bits().min(31) })
            }
            None => Err(Error::Internal("only a node of a cluster looks at other nodes' buckets".to_owned())),
        }
    }

    /// The place that a continuation names; the beginning where there is none.
    pub(super) fn resume(self, continuation: Option<String>) -> Result<Place, Error> {
        let Buckets { bits } = self;
        let Some(text) = continuation else { return Ok(Place { bits, number: 0, inner: None }) };
        let place = || {
            let (number, inner) = text.split_once('.')?;
            let number = u32::from_str_radix(number, 16).ok().filter(|number| *number < 1 << bits)?;
            Some(Place { bits, number, inner: Some(inner.to_owned()).filter(|inner| !inner.is_empty()) })
        };
        place().ok_or_else(|| {
            Error::parameter("continuation", format!("'{text}' is not one that this cluster has given"))
        })
    }
}

impl Place {
    pub(super) fn bucket(&self) -> BucketId {
        // In the order of documents, the lowest bit of a location counts most.
        let bits = if self.bits == 0 { 0 } else { self.number.reverse_bits() >> (32 - u32::from(self.bits)) };
        BucketId::new(self.bits, u64::from(bits))
    }

    pub(super) fn inner(&self) -> Option<String> {
        self.inner.clone()
    }

    /// The next place, when the bucket goes on `inner`, or is at its end; `None` after the last.
    pub(super) fn after(&self, inner: Option<String>) -> Option<Place> {
        match inner {
            Some(inner) => Some(Place { inner: Some(inner), ..*self }),
            None if self.number + 1 < 1 << self.bits => {
                Some(Place { number: self.number + 1, inner: None, ..*self })
            }
            None => None,
        }
    }

    /// The request for what comes in this bucket, with other parameters (`None` takes one away).
    pub(super) fn request(&self, request: &Forwarded, parameters: &[(&str, Option<&str>)]) -> Forwarded {
        let (path, given) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let given = Parameters::parse(given);
        let is_given =
            |name: &str| name == "continuation" || parameters.iter().any(|(other, _)| *other == name);
        let kept = given.iter().filter(|(name, _)| !is_given(name));
        let set = parameters.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        let place = self.inner.as_deref().map(|inner| ("continuation", inner));
        let target = format!("{path}?{}", form_encode(kept.chain(set).chain(place)));
        Forwarded { target, ..request.clone() }
    }

    /// Has the node answer that is to answer for the bucket.
    pub(super) async fn hand_on(
        &self,
        node: &Node,
        access: Access,
        request: &Forwarded,
        deadline: Instant,
    ) -> Result<Answered, Error> {
        let bucket = self.bucket();
        let location = Location::new(bucket.bits());
        let hop = Hop::Client;
        let answer =
            match cluster::hand_on(node, location, access, &hop, Some(bucket), request, deadline).await? {
                Way::Here(vouch) => return Ok(Answered::Here(vouch)),
                Way::There(answer) => answer,
            };
        let status = answer.status();
        let body = to_bytes(answer.into_body(), ANSWER_BYTES_MAX)
            .await
            .map_err(|error| Error::Internal(format!("the answer of another node broke off: {error}")))?;
        Ok(Answered::There(status, body))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}", self.number, self.inner.as_deref().unwrap_or_default())
    }
}

/// What another node has refused, in its own words.
pub(super) fn refused(status: StatusCode, body: &[u8]) -> Error {
    let told = serde_json::from_slice::<Value>(body).ok();
    let told = told.as_ref().and_then(|told| told.get("message")).and_then(Value::as_str);
    let message = told.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    Error::Remote { status, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_go_through_all_buckets_in_the_order_of_documents() {
        let buckets = Buckets { bits: 3 };
        let mut place = buckets.resume(None).unwrap();
        let mut order = vec![place.bucket()];
        while let Some(next) = place.after(None) {
            assert_eq!(buckets.resume(Some(next.to_string())).unwrap(), next);
            place = next;
            order.push(place.bucket());
        }
        assert_eq!(order.len(), 8);
        assert!(order.is_sorted_by_key(|bucket| bucket.reversed_range()));
        let inside = place.after(Some("g0.00ff".to_owned())).unwrap();
        assert_eq!(inside.to_string(), "7.g0.00ff");
        assert_eq!(buckets.resume(Some(inside.to_string())).unwrap(), inside);
        for wrong in ["", "8.", "x.", "7"] {
            assert!(buckets.resume(Some(wrong.to_owned())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_request_for_a_bucket_keeps_what_was_asked() {
        let request = Forwarded {
            method: hyper::Method::GET,
            target: "/document/v1/?cluster=mail&stream=true&continuation=3.x&selection=a%20%26%20b"
                .to_owned(),
            headers: hyper::HeaderMap::new(),
            body: Bytes::new(),
        };
        let place = Buckets { bits: 3 }.resume(Some("2.g0.00".to_owned())).unwrap();
        let asked = place.request(&request, &[("stream", None), ("wantedDocumentCount", Some("5"))]);
        assert_eq!(
            asked.target,
            "/document/v1/?cluster=mail&selection=a%20%26%20b&wantedDocumentCount=5&continuation=g0.00"
        );
    }
}
