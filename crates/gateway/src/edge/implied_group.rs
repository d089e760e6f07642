//! The group that ids in answers leave out: that of a person's endpoint, or of a credential. Clients that
//! know nothing of groups see ids as they would write them.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use millrace_access::RequestCaller;
use millrace_document::DocumentGroup;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::http::percent_decode;

/// Header by which a client asks for complete ids, or for those without the group of its credential, and a
/// node of the cluster says which group they leave out.
const IDS: HeaderName = HeaderName::from_static("millrace-ids");

/// Value of a client that asks for complete ids.
const COMPLETE: &str = "complete";

/// Value of a client that asks for ids without the group of its credential.
const SHORT: &str = "short";

/// Beginning of the value between nodes, before the key of the group.
const WITHIN: &str = "within=";

/// Group that ids in the answer to a client leave out: that of the endpoint, or the only one of the caller,
/// if the client asks for that.
pub(super) fn of_client(
    headers: &HeaderMap,
    endpoint: Option<&DocumentGroup>,
    caller: &RequestCaller,
) -> Option<DocumentGroup> {
    let asks_for = |form: &str| headers.get(IDS).is_some_and(|value| value == form);
    let of_caller = || caller.only_group().filter(|_| asks_for(SHORT));
    let group = endpoint.or_else(of_caller).filter(|group| **group != DocumentGroup::None);
    group.filter(|_| !asks_for(COMPLETE)).cloned()
}

/// Group that ids in the answer to another node leave out. Ids for nodes of earlier versions, which do not
/// send the header, are complete.
pub(super) fn of_node(headers: &HeaderMap) -> Option<DocumentGroup> {
    let key = headers.get(IDS)?.to_str().ok()?.strip_prefix(WITHIN)?;
    DocumentGroup::from_key(&percent_decode(key)).filter(|group| *group != DocumentGroup::None)
}

/// Replaces the header of a request that is forwarded by the group of its caller.
pub(super) fn attach(headers: &mut HeaderMap, caller: &RequestCaller) {
    headers.remove(IDS);
    let Some(group) = &caller.implied_group else { return };
    let text = format!("{WITHIN}{}", utf8_percent_encode(&group.key(), NON_ALPHANUMERIC));
    let value = HeaderValue::try_from(text).expect("percent-encoded text has letters, digits and %");
    headers.insert(IDS, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_sees_short_ids_at_an_endpoint_unless_it_asks_for_complete_ones() {
        let ann = DocumentGroup::Name("ann".to_owned());
        let all = RequestCaller::unrestricted("any");
        let of_ann = all.within(ann.clone()).expect("a group of all");
        for (header, endpoint, caller, is_short) in [
            (None, false, &all, false),
            (None, true, &of_ann, true),
            (Some("short"), true, &of_ann, true),
            (Some("complete"), true, &of_ann, false),
            (Some("within=gbob"), true, &of_ann, true),
            (Some("within=gbob"), false, &of_ann, false),
            (None, false, &of_ann, false),
            (Some("short"), false, &of_ann, true),
            (Some("complete"), false, &of_ann, false),
            (Some("short"), false, &all, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(header.map(|text| (IDS, HeaderValue::from_static(text))));
            let implied = of_client(&headers, Some(&ann).filter(|_| endpoint), caller);
            assert_eq!(implied, is_short.then(|| ann.clone()), "{header:?} {endpoint:?}");
        }
    }

    #[test]
    fn the_group_travels_unchanged() {
        let caller = RequestCaller::unrestricted("any");
        let name = |name: &str| Some(DocumentGroup::Name(name.to_owned()));
        for group in [None, name("ann"), name("a,b/ c%2C=é\u{1F600}"), Some(DocumentGroup::Number(7))] {
            let mut headers = HeaderMap::new();
            // A client cannot say it for another node.
            headers.insert(IDS, HeaderValue::from_static("within=gbob"));
            attach(&mut headers, &caller.implying(group.clone()));
            assert_eq!(of_node(&headers), group);
        }
        for unreadable in ["complete", "within=", "within=x", "gann"] {
            let headers = HeaderMap::from_iter([(IDS, HeaderValue::from_static(unreadable))]);
            assert_eq!(of_node(&headers), None, "{unreadable}");
        }
    }
}
