use std::fmt;

use millrace_document::{DocumentGroup, DocumentId};

use crate::Error;

/// Request path of the document `id` below a node's address.
///
/// # Errors
/// [`Error::Id`] for an invalid id.
pub fn document_path(id: &str) -> Result<String, Error> {
    Ok(path_of(&DocumentId::parse(id)?))
}

/// Request path of a parsed id.
pub(crate) fn path_of(id: &DocumentId) -> String {
    let (namespace, document_type, name) =
        (PercentEncoded(id.namespace()), PercentEncoded(id.document_type()), PercentEncoded(id.name()));
    let start = format!("/document/v1/{namespace}/{document_type}");
    match id.group() {
        DocumentGroup::None => format!("{start}/docid/{name}"),
        DocumentGroup::Name(group) => format!("{start}/group/{}/{name}", PercentEncoded(group)),
        DocumentGroup::Number(number) => format!("{start}/number/{number}/{name}"),
    }
}

/// `text`, percent-encoded as one part of a path or one value of a query.
pub fn encoded(text: &str) -> String {
    PercentEncoded(text).to_string()
}

/// Text that is percent-encoded on display.
pub(crate) struct PercentEncoded<'a>(pub(crate) &'a str);

impl fmt::Display for PercentEncoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
