//! Groups of a caller on the way to another node: a node that has shown its certificate is trusted, and yet
//! a request that it forwards is restricted like that of its client.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use millrace_access::{CallerGroups, RequestCaller};
use millrace_document::DocumentGroup;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::http::percent_decode;

/// Header with the groups of the caller. It counts only from nodes with certificates; that of a client is
/// removed.
const GROUPS: HeaderName = HeaderName::from_static("millrace-groups");

/// Replaces the header of a request by the groups of its caller. No header stands for all groups.
pub(super) fn attach(headers: &mut HeaderMap, caller: &RequestCaller) {
    headers.remove(GROUPS);
    let CallerGroups::Only(groups) = &caller.groups else { return };
    let keys = groups.iter().map(|group| utf8_percent_encode(&group.key(), NON_ALPHANUMERIC).to_string());
    let text = keys.collect::<Vec<_>>().join(",");
    let value = HeaderValue::try_from(text).expect("percent-encoded text has letters, digits, % and commas");
    headers.insert(GROUPS, value);
}

/// Caller of a request that another node forwards. A group that cannot be read permits nothing.
pub(super) fn caller_from(headers: &HeaderMap) -> RequestCaller {
    let caller = RequestCaller::unrestricted("node");
    let mut values = headers.get_all(GROUPS).iter();
    let groups: Vec<DocumentGroup> = match (values.next(), values.next()) {
        (None, _) => return caller,
        (Some(value), None) => {
            let keys = value.to_str().unwrap_or_default().split(',').map(percent_decode);
            let named = keys.filter_map(|key| DocumentGroup::from_key(&key));
            named.filter(|group| *group != DocumentGroup::None).collect()
        }
        (Some(_), Some(_)) => Vec::new(),
    };
    RequestCaller { groups: CallerGroups::Only(groups.into()), ..caller }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_travel_unchanged() {
        let name = |name: &str| DocumentGroup::Name(name.to_owned());
        let all = RequestCaller::unrestricted("all");
        for groups in [
            vec![],
            vec![name("ann")],
            vec![DocumentGroup::Number(7), name("7"), name("a,b/ c%2C"), name("é\u{1F600}")],
        ] {
            let caller = RequestCaller { groups: CallerGroups::Only(groups.into()), ..all.clone() };
            let mut headers = HeaderMap::new();
            // A client cannot say what it is.
            headers.append(GROUPS, HeaderValue::from_static("gbob"));
            headers.append(GROUPS, HeaderValue::from_static("gcarl"));
            attach(&mut headers, &caller);
            assert_eq!(caller_from(&headers).groups, caller.groups);
        }
        let mut headers = HeaderMap::new();
        headers.insert(GROUPS, HeaderValue::from_static("gbob"));
        attach(&mut headers, &all);
        assert_eq!(caller_from(&headers).groups, CallerGroups::All);
    }

    #[test]
    fn what_cannot_be_read_permits_nothing() {
        for values in [&["ann"][..], &[""], &["n-1"], &["gann", "gann"]] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(GROUPS, HeaderValue::from_str(value).expect("a value"));
            }
            assert_eq!(caller_from(&headers).groups, CallerGroups::Only([].into()), "{values:?}");
        }
    }
}
