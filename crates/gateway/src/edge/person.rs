//! `/person/NAME/…` and `/person-number/NUMBER/…`: the endpoints of the data port, for the documents of
//! one group.

use hyper::http::uri::PathAndQuery;
use hyper::{Request, Uri};
use millrace_document::DocumentGroup;

use crate::http::decode_path;

/// First part of the paths for a group by its name.
const BY_NAME: &str = "/person/";

/// First part of the paths for a group by its number. It differs, since any text can be a name.
const BY_NUMBER: &str = "/person-number/";

/// Group to which the path restricts a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PersonGroup(pub(super) DocumentGroup);

/// Takes the person out of the path of a request, and attaches it to the request. A path without one, or with
/// a malformed one, stays: nothing is there.
pub(super) fn take_out<B>(request: &mut Request<B>) {
    let Some((group, rest)) = request.uri().path_and_query().and_then(|path| split(path.as_str())) else {
        return;
    };
    let mut parts = request.uri().clone().into_parts();
    let Ok(path) = PathAndQuery::try_from(rest) else { return };
    parts.path_and_query = Some(path);
    let Ok(uri) = Uri::from_parts(parts) else { return };
    *request.uri_mut() = uri;
    request.extensions_mut().insert(PersonGroup(group));
}

/// Splits a path into group and rest; `None` if it does not begin with a person.
fn split(path: &str) -> Option<(DocumentGroup, String)> {
    if let Some(numbered) = path.strip_prefix(BY_NUMBER) {
        let (number, rest) = numbered.split_once('/')?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|_| is_number)?;
        return Some((DocumentGroup::Number(number), format!("/{rest}")));
    }
    let (name, rest) = path.strip_prefix(BY_NAME)?.split_once('/')?;
    let name = decode_path(name).ok()?;
    let is_name = !name.is_empty() && !name.chars().any(char::is_control);
    is_name.then(|| (DocumentGroup::Name(name.into_owned()), format!("/{rest}")))
}

/// Prefix of a path that restricts it to a group; `None` for no group.
pub(crate) fn prefix(group: &DocumentGroup) -> Option<String> {
    match group {
        DocumentGroup::None => None,
        DocumentGroup::Number(number) => Some(format!("{BY_NUMBER}{number}")),
        DocumentGroup::Name(name) => {
            let escaped = name.bytes().map(|byte| match byte {
                byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            });
            Some(format!("{BY_NAME}{}", escaped.collect::<String>()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_persons() {
        let group = |name: &str| DocumentGroup::Name(name.to_owned());
        for (path, expected) in [
            ("/person/ann/search/?a=b", Some((group("ann"), "/search/?a=b"))),
            ("/person/a%2Fb%20c/mcp/", Some((group("a/b c"), "/mcp/"))),
            ("/person/ann/person/bob/x", Some((group("ann"), "/person/bob/x"))),
            ("/person/ann/", Some((group("ann"), "/"))),
            ("/person/ann", None),
            ("/person//search/", None),
            ("/person/a%00/search/", None),
            ("/person/%ff/search/", None),
            ("/persons/ann/search/", None),
            ("/person/7/search/", Some((group("7"), "/search/"))),
            ("/person/n=7/search/", Some((group("n=7"), "/search/"))),
            ("/person-number/7/search/", Some((DocumentGroup::Number(7), "/search/"))),
            ("/person-number/18446744073709551615/", Some((DocumentGroup::Number(u64::MAX), "/"))),
            ("/person-number/18446744073709551616/", None),
            ("/person-number/-7/search/", None),
            ("/person-number/+7/search/", None),
            ("/person-number/ann/search/", None),
            ("/person-number//search/", None),
            ("/person-number/7", None),
        ] {
            assert_eq!(split(path), expected.map(|(group, rest)| (group, rest.to_owned())), "{path}");
        }
        let named = ["ann", "a/b c", "é", "%", "a%2Fb", "n=7", "7"].map(group);
        for group in named.into_iter().chain([DocumentGroup::Number(0), DocumentGroup::Number(u64::MAX)]) {
            let path = format!("{}/search/", prefix(&group).expect("a group"));
            assert_eq!(split(&path), Some((group, "/search/".to_owned())), "{path}");
        }
        assert_eq!(prefix(&DocumentGroup::None), None);
    }
}
