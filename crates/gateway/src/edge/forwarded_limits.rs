//! Limits of a caller on the way to the node that owns the documents, which counts what is stored of a group.
//! All other limits are those of the node that the client asks.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use millrace_access::{CallerLimits, RequestCaller};

/// Header with the limits on the stored documents and bytes of a group: `DOCUMENTS,BYTES`, of which one may
/// be empty. It can only lower the limits of a request, so that it does not matter who sends it.
const LIMITS: HeaderName = HeaderName::from_static("millrace-group-limits");

/// Replaces the header of a request that is forwarded by the limits of its caller.
pub(super) fn attach(headers: &mut HeaderMap, caller: &RequestCaller) {
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
        let headers = HeaderMap::from_iter([(LIMITS, HeaderValue::from_static("many,"))]);
        assert_eq!(lowered(limits(Some(2), None), &headers), limits(Some(2), None));
    }
}
