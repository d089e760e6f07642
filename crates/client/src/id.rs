use std::fmt::Write as _;

use crate::Error;

/// The path below a node's address that stands for the document `id`.
///
/// # Errors
/// [`Error::Id`].
pub fn document_path(id: &str) -> Result<String, Error> {
    let fail = || Error::Id(id.to_owned());
    let mut parts = id.splitn(5, ':');
    let (Some("id"), Some(namespace), Some(document_type), Some(key), Some(name)) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(fail());
    };
    if namespace.is_empty() || document_type.is_empty() || name.is_empty() {
        return Err(fail());
    }
    let mut path = format!("/document/v1/{}/{}/", Encoded(namespace), Encoded(document_type));
    // Writing to a string cannot fail.
    let _ = match key.split_once('=') {
        None if key.is_empty() => write!(path, "docid/{}", Encoded(name)),
        Some(("g", group)) => write!(path, "group/{}/{}", Encoded(group), Encoded(name)),
        Some(("n", number)) => write!(path, "number/{}/{}", Encoded(number), Encoded(name)),
        _ => return Err(fail()),
    };
    Ok(path)
}

/// Text, percent-encoded as one part of a path or one value of a query.
pub(crate) struct Encoded<'a>(pub(crate) &'a str);

impl std::fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const KEPT: &percent_encoding::AsciiSet =
            &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
        percent_encoding::utf8_percent_encode(self.0, KEPT).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        #[track_caller]
        fn check(id: &str, expected: Option<&str>) {
            assert_eq!(document_path(id).ok().as_deref(), expected, "{id}");
        }
        check("id:ns:t::a", Some("/document/v1/ns/t/docid/a"));
        check("id:ns:t::a/b:c æ", Some("/document/v1/ns/t/docid/a%2Fb%3Ac%20%C3%A6"));
        check("id:ns:t:g=x y:1", Some("/document/v1/ns/t/group/x%20y/1"));
        check("id:ns:t:n=7:1", Some("/document/v1/ns/t/number/7/1"));
        check("id:ns:t:q=7:1", None);
        check("id:ns:t::", None);
        check("ns:t::1", None);
    }
}
