//! The group that ids in answers leave out: that of a person's endpoint. Clients that know nothing of groups
//! see ids as they would write them.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use millrace_access::RequestCaller;
use millrace_document::DocumentGroup;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::http::percent_decode;

/// Header by which a client asks for complete ids, and a node of the cluster says which group they leave out.
const IDS: HeaderName = HeaderName::from_static("millrace-ids");

/// Value of a client that asks for complete ids.
const COMPLETE: &str = "complete";

/// Beginning of the value between nodes, before the key of the group.
const WITHIN: &str = "within=";

/// Group that ids in the answer to a client leave out, at the endpoint of a group.
pub(super) fn of_client(headers: &HeaderMap, endpoint: Option<&DocumentGroup>) -> Option<DocumentGroup> {
    let wants_complete = headers.get(IDS).is_some_and(|value| value == COMPLETE);
    endpoint.filter(|_| !wants_complete).cloned()
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
        for (header, endpoint, expected) in [
            (None, None, None),
            (None, Some(&ann), Some(ann.clone())),
            (Some("complete"), Some(&ann), None),
            (Some("within=gbob"), Some(&ann), Some(ann.clone())),
            (Some("within=gbob"), None, None),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(header.map(|text| (IDS, HeaderValue::from_static(text))));
            assert_eq!(of_client(&headers, endpoint), expected, "{header:?} {endpoint:?}");
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
