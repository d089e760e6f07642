//! Limits of a caller on the way to the node that owns the documents, which counts what is stored of a group.
//! All other limits are those of the node that the client asks.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use millrace_access::{CallerLimits, RequestCaller};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::http::percent_decode;

/// Header with the limits on the stored documents and bytes of a group: `DOCUMENTS,BYTES`, of which one may
/// be empty. It can only lower the limits of a request, so that it does not matter who sends it.
const LIMITS: HeaderName = HeaderName::from_static("millrace-group-limits");

/// Header with what the node that changes documents counts by the caller: `BYTES,QUERIES,NAME`, of which the
/// first two, bytes and queries a second, may be empty. It counts only from nodes with certificates; without
/// them a request has its credential.
const RATES: HeaderName = HeaderName::from_static("millrace-caller-rates");

/// Replaces the headers of a request that is forwarded by the limits of its caller.
pub(super) fn attach(headers: &mut HeaderMap, caller: &RequestCaller) {
    attach_rates(headers, caller);
    headers.remove(LIMITS);
    let CallerLimits { documents, bytes, .. } = caller.limits;
    if documents.is_none() && bytes.is_none() {
        return;
    }
    let [documents, bytes] =
        [documents, bytes].map(|limit| limit.map_or_else(String::new, |max| max.to_string()));
    let value = HeaderValue::try_from(format!("{documents},{bytes}"))
        .expect("digits and a comma are valid in a header");
    headers.insert(LIMITS, value);
}

fn attach_rates(headers: &mut HeaderMap, caller: &RequestCaller) {
    headers.remove(RATES);
    let CallerLimits { fed_bytes, queries, .. } = caller.limits;
    if fed_bytes.is_none() && queries.is_none() {
        return;
    }
    let fed_bytes = fed_bytes.map_or_else(String::new, |limit| limit.to_string());
    let queries = queries.map_or_else(String::new, |limit| limit.to_string());
    let name = utf8_percent_encode(&caller.name, NON_ALPHANUMERIC);
    let value = HeaderValue::try_from(format!("{fed_bytes},{queries},{name}"))
        .expect("numbers, commas and percent-encoded text are valid in a header");
    headers.insert(RATES, value);
}

/// Caller of a request that another node forwards, with the name and the rates of its client.
pub(super) fn with_rates(caller: RequestCaller, headers: &HeaderMap) -> RequestCaller {
    let text = headers.get(RATES).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = text.splitn(3, ',');
    let (Some(fed_bytes), Some(queries), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return caller;
    };
    let limits =
        CallerLimits { fed_bytes: fed_bytes.parse().ok(), queries: queries.parse().ok(), ..caller.limits };
    RequestCaller { name: percent_decode(name).into(), limits, ..caller }
}

/// Limits of a caller, with those of the header where they are lower.
pub(super) fn lowered(limits: CallerLimits, headers: &HeaderMap) -> CallerLimits {
    let given = headers.get(LIMITS).and_then(|value| value.to_str().ok()?.split_once(','));
    let Some((documents, bytes)) = given else { return limits };
    let lower = |own: Option<u64>, given: &str| own.into_iter().chain(given.parse().ok()).min();
    CallerLimits {
        documents: lower(limits.documents, documents),
        bytes: lower(limits.bytes, bytes),
        ..limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_travel_and_only_become_lower() {
        let limits = |documents, bytes| CallerLimits { documents, bytes, ..CallerLimits::default() };
        for (own, at_node, expected) in [
            (limits(None, None), limits(None, None), limits(None, None)),
            (limits(Some(3), None), limits(None, None), limits(Some(3), None)),
            (limits(None, Some(u64::MAX)), limits(None, None), limits(None, Some(u64::MAX))),
            (limits(Some(3), Some(9)), limits(Some(2), Some(10)), limits(Some(2), Some(9))),
            (limits(None, None), limits(Some(2), None), limits(Some(2), None)),
        ] {
            let caller = RequestCaller { limits: own, ..RequestCaller::unrestricted("any") };
            let mut headers = HeaderMap::new();
            headers.insert(LIMITS, HeaderValue::from_static("1,1"));
            attach(&mut headers, &caller);
            assert_eq!(lowered(at_node, &headers), expected);
        }
        for (fed_bytes, queries) in
            [(None, None), (Some(7), None), (None, Some(0.5)), (Some(u64::MAX), Some(2.0))]
        {
            let limits = CallerLimits { fed_bytes, queries, ..CallerLimits::default() };
            let caller = RequestCaller { limits, ..RequestCaller::unrestricted("a, %b") };
            let mut headers = HeaderMap::new();
            headers.insert(RATES, HeaderValue::from_static("1,1,bob"));
            attach(&mut headers, &caller);
            let node = with_rates(RequestCaller::unrestricted("node"), &headers);
            let name = if limits == CallerLimits::default() { "node" } else { "a, %b" };
            assert_eq!((&*node.name, node.limits), (name, limits));
        }
        let headers = HeaderMap::from_iter([(LIMITS, HeaderValue::from_static("many,"))]);
        assert_eq!(lowered(limits(Some(2), None), &headers), limits(Some(2), None));
    }
}
