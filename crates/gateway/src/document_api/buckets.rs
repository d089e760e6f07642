//! All documents of a cluster, bucket after bucket: the position of a request, and the node to ask next.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use axum::body::to_bytes;
use axum::response::Response;
use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, Location};
use millrace_env::text_with_causes;
use millrace_node::Error;
use millrace_node::cluster::{AccessKind, ForwardKind, ReadFence, RouteBackoff, RouteSubject};

use crate::GatewayState;
use crate::forwarding::{self, ForwardedRequest, RoutingOutcome};
use crate::http::{RequestParameters, form_encode};

/// Maximum size of a node's answer for one bucket, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Buckets that a request reaches: all of a cluster's, in the order in which documents are stored, then those
/// of divided groups; or those of one divided group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VisitedBuckets {
    /// Number of bits of the buckets outside of divided groups; `None`: none of them is reached.
    bits: Option<u8>,
    divided: Arc<[BucketId]>,
}

/// Position in that order. As text it is a continuation: `BUCKET.PLACE-IN-IT`. The bucket is its number in
/// hexadecimal digits, or, for a divided group, the number of its bits, a dash, and its bits in hexadecimal
/// digits. A visit of a group that was divided since it began continues in each part after the place that it
/// had reached in the whole: `BUCKET.PLACE-IN-IT_PLACE-IN-THE-WHOLE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VisitPosition {
    buckets: VisitedBuckets,
    number: usize,
    /// Position in the bucket, as returned by the node with it; `None` for its beginning.
    inner: Option<String>,
    /// Position that the visit had reached in a group before it was divided: each of the parts begins after
    /// it. The order of a store is by document types first, so that every part can have documents after it.
    reached: Option<String>,
}

/// Answer for a bucket.
pub(super) enum BucketAnswer {
    /// This node answers; its reads count if this holds afterwards.
    Local(ReadFence),
    /// Answer of another node.
    Forwarded(WholeAnswer),
}

/// Answer of another node with its whole body.
#[derive(Debug)]
pub(super) struct WholeAnswer {
    /// Name of the node.
    node: String,
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl WholeAnswer {
    /// Receives the body of an answer.
    ///
    /// # Errors
    /// [`Error::Unreachable`]: it breaks off, or is too long.
    pub(super) async fn receive(answer: Response) -> Result<Self, Error> {
        let (node, status) = (forwarding::name_of_sender(&answer), answer.status());
        let body = to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await;
        let body = body.map_err(|error| forwarding::broken_answer(&node, &text_with_causes(&error)))?;
        Ok(WholeAnswer { node, status, body })
    }

    /// Error for an answer that is no success.
    pub(super) fn refusal(&self) -> Error {
        forwarding::refused_part(&self.node, self.status, &self.body)
    }
}

impl VisitedBuckets {
    /// Buckets of the cluster of the node; those of one group, if there is one.
    pub(super) fn new(node: &GatewayState, group: Option<&DocumentGroup>) -> Result<Self, Error> {
        let Some(cluster) = node.cluster().view()? else {
            return Err(Error::Internal("only a node of a cluster looks at other nodes' buckets".to_owned()));
        };
        let of_group =
            group.filter(|group| **group != DocumentGroup::None).map(|group| cluster.buckets_of(group));
        let (bits, divided) = match of_group.transpose()? {
            Some(buckets) if buckets.len() > 1 => (None, buckets),
            _ => {
                let (bits, divided) = cluster.buckets()?;
                (Some(bits.min(31)), divided)
            }
        };
        Ok(VisitedBuckets { bits, divided: divided.into() })
    }

    /// Number of buckets outside of divided groups.
    fn undivided_count(&self) -> usize {
        self.bits.map_or(0, |bits| 1 << bits)
    }

    fn count(&self) -> usize {
        self.undivided_count() + self.divided.len()
    }

    /// Position named by a continuation; the beginning if there is none.
    pub(super) fn resume(self, continuation: Option<String>) -> Result<VisitPosition, Error> {
        let Some(text) = continuation else {
            return Ok(VisitPosition { buckets: self, number: 0, inner: None, reached: None });
        };
        if self.bits.is_none() && is_of_store(&text) {
            return Ok(VisitPosition { buckets: self, number: 0, inner: None, reached: Some(text) });
        }
        let place = || {
            let (bucket, place) = text.split_once('.')?;
            let number = self.number(bucket)?;
            let (inner, reached) = match place.split_once('_') {
                Some((inner, reached)) => (inner, Some(reached.to_owned())),
                None => (place, None),
            };
            let inner = Some(inner.to_owned()).filter(|inner| !inner.is_empty());
            Some(VisitPosition { buckets: self.clone(), number, inner, reached })
        };
        place().ok_or_else(|| {
            Error::parameter("continuation", format!("'{text}' is not one that this cluster has given"))
        })
    }

    /// Number of a bucket, by its text. A bucket that was divided since continues with the first of its
    /// parts.
    fn number(&self, text: &str) -> Option<usize> {
        let Some((used_bits, bits)) = text.split_once('-') else {
            return usize::from_str_radix(text, 16).ok().filter(|number| *number < self.undivided_count());
        };
        let parts = (used_bits.parse().ok()?, u64::from_str_radix(bits, 16).ok()?);
        let bucket = BucketId::try_from(parts).ok()?;
        let place = self.divided.iter().position(|divided| bucket.covers(*divided))?;
        Some(self.undivided_count() + place)
    }
}

impl VisitPosition {
    pub(super) fn bucket(&self) -> BucketId {
        let others = self.buckets.undivided_count();
        match self.buckets.bits {
            Some(bits) if self.number < others => {
                // In the order of documents, the lowest bit of a location counts most.
                let number = self.number as u32;
                let reversed = if bits == 0 { 0 } else { number.reverse_bits() >> (32 - u32::from(bits)) };
                BucketId::new(bits, u64::from(reversed))
            }
            _ => self.buckets.divided[self.number - others],
        }
    }

    /// Start in the bucket; `None` for its beginning.
    pub(super) fn inner(&self) -> Option<String> {
        self.inner.as_ref().or(self.reached.as_ref()).cloned()
    }

    /// Next position, when the bucket continues at `inner`, or is at its end; `None` after the last.
    pub(super) fn after(&self, inner: Option<String>) -> Option<VisitPosition> {
        match inner {
            Some(inner) => Some(VisitPosition { inner: Some(inner), ..self.clone() }),
            None if self.number + 1 < self.buckets.count() => {
                Some(VisitPosition { number: self.number + 1, inner: None, ..self.clone() })
            }
            None => None,
        }
    }

    /// Like [`VisitPosition::after`], but after the last bucket outside of divided groups, and after the last
    /// one of all, it checks if a group was divided since the buckets were listed. The rest of such a group
    /// is in its parts alone, and not in the bucket that it was in. They come from their beginning.
    pub(super) fn following(
        &self,
        node: &GatewayState,
        group: Option<&DocumentGroup>,
        inner: Option<String>,
    ) -> Result<Option<VisitPosition>, Error> {
        match self.after(inner) {
            Some(next) if next.is_in_divided() == self.is_in_divided() => Ok(Some(next)),
            _ => Ok(self.next_among(VisitedBuckets::new(node, group)?)),
        }
    }

    /// True if its bucket is one of a divided group.
    fn is_in_divided(&self) -> bool {
        self.number >= self.buckets.undivided_count()
    }

    /// First bucket of a divided group that is not visited, where these are the buckets now. The visit is at
    /// the end of its buckets, or of those outside of divided groups.
    fn next_among(&self, buckets: VisitedBuckets) -> Option<VisitPosition> {
        let visited: &[BucketId] = if self.is_in_divided() { &self.buckets.divided } else { &[] };
        let is_new = |bucket: &BucketId| !visited.iter().any(|visited| visited.covers(*bucket));
        let new = buckets.divided.iter().position(is_new)?;
        let reached = self.reached.clone();
        Some(VisitPosition { number: buckets.undivided_count() + new, inner: None, reached, buckets })
    }

    /// Request for the rest of this bucket, with other parameters (`None` removes one).
    pub(super) fn request(
        &self,
        request: &ForwardedRequest,
        parameters: &[(&str, Option<&str>)],
    ) -> ForwardedRequest {
        request_from(request, self.inner().as_deref(), parameters)
    }

    /// Forwards the request to the node that has to answer for the bucket.
    pub(super) async fn forward_request(
        &self,
        node: &GatewayState,
        access: AccessKind,
        request: &ForwardedRequest,
        deadline: Instant,
    ) -> Result<BucketAnswer, Error> {
        let bucket = self.bucket();
        let subject =
            RouteSubject { location: Location::new(bucket.bits()), group: None, part: Some(bucket) };
        let mut backoff = RouteBackoff::until(deadline);
        loop {
            let (kind, asked) = (ForwardKind::Client, request);
            let answer =
                match forwarding::forward_request(node, subject, access, &kind, asked, deadline).await? {
                    RoutingOutcome::Local(fence) => return Ok(BucketAnswer::Local(fence)),
                    RoutingOutcome::Forwarded(answer) => answer,
                    // Only a whole group can be divided.
                    RoutingOutcome::Divided => {
                        return Err(Error::Unsettled("a group has been divided".to_owned()));
                    }
                };
            match WholeAnswer::receive(answer).await {
                Ok(answer) => return Ok(BucketAnswer::Forwarded(answer)),
                // The other node may have changed documents, and must not be asked twice.
                Err(error) if request.method != Method::GET => return Err(error.of_change()),
                // Reads are asked for again: the node may have been frozen or restarted.
                Err(error) if !backoff.pause().await => return Err(error),
                Err(_) => {}
            }
        }
    }
}

/// Request for the documents from `continuation` on, with other parameters (`None` removes one).
pub(super) fn request_from(
    request: &ForwardedRequest,
    continuation: Option<&str>,
    parameters: &[(&str, Option<&str>)],
) -> ForwardedRequest {
    let (path, given) = request.target.split_once('?').unwrap_or((&request.target, ""));
    // The parameters were counted when the request came.
    let given = RequestParameters::parse(given, usize::MAX).unwrap_or_default();
    let is_given = |name: &str| name == "continuation" || parameters.iter().any(|(other, _)| *other == name);
    let kept = given.iter().filter(|(name, _)| !is_given(name));
    let set = parameters.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    let place = continuation.map(|continuation| ("continuation", continuation));
    let target = format!("{path}?{}", form_encode(kept.chain(set).chain(place)));
    ForwardedRequest { target, ..request.clone() }
}

impl fmt::Display for VisitPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number < self.buckets.undivided_count() {
            true => write!(f, "{:x}", self.number)?,
            // Continuations keep their form from version to version.
            false => {
                let (used_bits, bits) = self.bucket().parts();
                write!(f, "{used_bits}-{bits:x}")?;
            }
        }
        write!(f, ".{}", self.inner.as_deref().unwrap_or_default())?;
        self.reached.as_ref().map_or(Ok(()), |reached| write!(f, "_{reached}"))
    }
}

/// True if a continuation is a position of the store, as the visit of a group on one node returns it. The
/// numbers of buckets begin with other characters.
fn is_of_store(continuation: &str) -> bool {
    continuation.starts_with(['g', 'u'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_go_through_all_buckets_in_the_order_of_documents() {
        let buckets = VisitedBuckets { bits: Some(3), divided: Arc::new([]) };
        let mut place = buckets.clone().resume(None).unwrap();
        let mut order = vec![place.bucket()];
        while let Some(next) = place.after(None) {
            assert_eq!(buckets.clone().resume(Some(next.to_string())).unwrap(), next);
            place = next;
            order.push(place.bucket());
        }
        assert_eq!(order.len(), 8);
        assert!(order.is_sorted_by_key(|bucket| bucket.reversed_range()));
        let inside = place.after(Some("g0.00ff".to_owned())).unwrap();
        assert_eq!(inside.to_string(), "7.g0.00ff");
        assert_eq!(buckets.clone().resume(Some(inside.to_string())).unwrap(), inside);
        for wrong in ["", "8.", "x.", "7", "33-5."] {
            assert!(buckets.clone().resume(Some(wrong.to_owned())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn divided_groups_come_last_or_alone() {
        let part = |bits, part: u64| BucketId::new(bits, part << 32 | 5);
        let divided: Arc<[BucketId]> = Arc::new([part(33, 0), part(33, 1)]);
        let all = VisitedBuckets { bits: Some(1), divided: Arc::clone(&divided) };
        let mut place = all.clone().resume(Some("1.".to_owned())).unwrap();
        let mut texts = Vec::new();
        while let Some(next) = place.after(None) {
            assert_eq!(all.clone().resume(Some(next.to_string())).unwrap(), next);
            texts.push(next.to_string());
            place = next;
        }
        assert_eq!(texts, ["33-5.", "33-100000005."]);
        assert_eq!(place.bucket(), part(33, 1));
        let alone = VisitedBuckets { bits: None, divided };
        assert_eq!(alone.clone().resume(None).unwrap().bucket(), part(33, 0));
        assert!(alone.clone().resume(Some("1.".to_owned())).is_err());
        // The bucket was divided further since.
        let further =
            VisitedBuckets { bits: None, divided: Arc::new([part(34, 0), part(34, 2), part(34, 1)]) };
        assert_eq!(further.resume(Some("33-100000005.g0.00".to_owned())).unwrap().bucket(), part(34, 1));
    }

    #[test]
    fn groups_that_are_divided_during_a_visit_come_after_the_others() {
        let part = |low: u64, bits, part: u64| BucketId::new(bits, part << 32 | low);
        let halves = |low| [part(low, 33, 0), part(low, 33, 1)];
        let quarters = |low| [0, 1, 2, 3].map(|number| part(low, 34, number));
        let all = |divided: &[BucketId]| VisitedBuckets { bits: Some(1), divided: divided.into() };
        let (five, three_and_five) = (halves(5), [halves(3), halves(5)].concat());
        // Buckets as they were listed, the position at whose end the visit is, the buckets now, and the next.
        type Row<'r> = (&'r [BucketId], &'r str, &'r [BucketId], Option<&'r str>);
        let table: [Row<'_>; 7] = [
            (&[], "1.", &[], None),
            (&[], "1.", &five, Some("33-5.")),
            (&five, "1.", &five, Some("33-5.")),
            (&five, "1.", &three_and_five, Some("33-3.")),
            (&five, "33-100000005.", &five, None),
            (&five, "33-100000005.", &three_and_five, Some("33-3.")),
            (&five, "33-100000005.", &quarters(5), None),
        ];
        for (listed, at, now, expected) in table {
            let place = all(listed).resume(Some(at.to_owned())).unwrap();
            let next = place.next_among(all(now)).map(|next| next.to_string());
            assert_eq!(next.as_deref(), expected, "{at} of {listed:?}, now {now:?}");
        }
    }

    #[test]
    fn a_visit_goes_on_in_each_part_of_a_group_that_is_divided_meanwhile() {
        let part = |bits, part: u64| BucketId::new(bits, part << 32 | 5);
        let divided: Arc<[BucketId]> = Arc::new([part(33, 0), part(33, 1)]);
        let parts = VisitedBuckets { bits: None, divided: Arc::clone(&divided) };
        // Text of the position, the bucket, and the start in it; each follows the one before at the end of
        // the bucket, or at the place in it.
        let table: [(Option<&str>, &str, BucketId, &str); 4] = [
            (Some("g1.00aa"), "33-5.g1.00aa_g0.0077", part(33, 0), "g1.00aa"),
            (Some("g1.00bb"), "33-5.g1.00bb_g0.0077", part(33, 0), "g1.00bb"),
            (None, "33-100000005._g0.0077", part(33, 1), "g0.0077"),
            (Some("g0.00cc"), "33-100000005.g0.00cc_g0.0077", part(33, 1), "g0.00cc"),
        ];
        let mut place = parts.clone().resume(Some("g0.0077".to_owned())).unwrap();
        assert_eq!((place.bucket(), place.inner().as_deref()), (part(33, 0), Some("g0.0077")));
        for (inner, text, bucket, start) in table {
            place = place.after(inner.map(str::to_owned)).unwrap();
            assert_eq!(place.to_string(), text);
            assert_eq!((place.bucket(), place.inner().as_deref()), (bucket, Some(start)), "{text}");
            assert_eq!(parts.clone().resume(Some(text.to_owned())).unwrap(), place, "{text}");
        }
        assert_eq!(place.after(None), None);
        // Without a place in the whole, a part begins at its beginning.
        let plain = parts.clone().resume(Some("33-5.".to_owned())).unwrap().after(None).unwrap();
        assert_eq!((plain.to_string().as_str(), plain.inner()), ("33-100000005.", None));
        for text in ["u0.00ff", "g12."] {
            assert_eq!(parts.clone().resume(Some(text.to_owned())).unwrap().inner().as_deref(), Some(text));
        }
        // A visit of all buckets has other positions.
        let all = VisitedBuckets { bits: Some(1), divided };
        for (buckets, wrong) in [(&all, "g0.0077"), (&all, "u0."), (&parts, "x0.00"), (&parts, "2.g0.00")] {
            assert!(buckets.clone().resume(Some(wrong.to_owned())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_request_for_a_bucket_keeps_what_was_asked() {
        let request = ForwardedRequest {
            method: hyper::Method::GET,
            target: "/document/v1/?cluster=mail&stream=true&continuation=3.x&selection=a%20%26%20b"
                .to_owned(),
            headers: hyper::HeaderMap::new(),
            body: Bytes::new(),
            room: None,
        };
        let buckets = VisitedBuckets { bits: Some(3), divided: Arc::new([]) };
        let place = buckets.resume(Some("2.g0.00".to_owned())).unwrap();
        let asked = place.request(&request, &[("stream", None), ("wantedDocumentCount", Some("5"))]);
        assert_eq!(
            asked.target,
            "/document/v1/?cluster=mail&selection=a%20%26%20b&wantedDocumentCount=5&continuation=g0.00"
        );
    }
}
