//! The paths below `/document/v1/`.

use millrace_document::{DocumentGroup, DocumentId, Location};
use millrace_node::Error;

use crate::http::decode_path;

/// Object that a path addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DocumentTarget {
    /// One document.
    Document(DocumentId),
    /// All documents in a scope.
    Documents(DocumentScope),
}

/// Scope of a path without a document id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DocumentScope {
    /// Namespace and document type; `None` for all of them, if the path has neither.
    pub(super) namespace_and_type: Option<(String, String)>,
    /// Group, if the path names one.
    pub(super) group: Option<DocumentGroup>,
}

impl DocumentTarget {
    /// Group of all addressed documents, if the path has one.
    pub(super) fn named_group(&self) -> Option<&DocumentGroup> {
        match self {
            DocumentTarget::Document(id) => Some(id.group()),
            DocumentTarget::Documents(documents) => documents.group.as_ref(),
        }
    }

    /// Group of all addressed documents, if that can be in several buckets.
    pub(super) fn group(&self) -> Option<&DocumentGroup> {
        match self {
            DocumentTarget::Document(_) => None,
            DocumentTarget::Documents(documents) => documents.group.as_ref(),
        }
    }

    /// Returns the same documents within a group, if the path names none; `None` if it names one.
    ///
    /// # Errors
    /// The id with the group is not valid.
    pub(super) fn within(&self, group: &DocumentGroup) -> Result<Option<Self>, Error> {
        Ok(match self {
            DocumentTarget::Document(id) if *id.group() == DocumentGroup::None => {
                let id = DocumentId::new(id.namespace(), id.document_type(), group, id.name())?;
                Some(DocumentTarget::Document(id))
            }
            DocumentTarget::Documents(scope) if scope.group.is_none() => {
                Some(DocumentTarget::Documents(DocumentScope { group: Some(group.clone()), ..scope.clone() }))
            }
            _ => None,
        })
    }

    /// Location in the bucket of all addressed documents, if they are in one: that of a group, unless the
    /// group is divided.
    pub(super) fn location(&self) -> Option<Location> {
        match self {
            DocumentTarget::Document(id) => Some(id.location()),
            DocumentTarget::Documents(documents) => {
                let bits = documents.group.as_ref()?.location_bits()?;
                Some(Location::new(u64::from(bits)))
            }
        }
    }

    /// Parses the percent-encoded path of a request. An encoded slash does not end a part; the document's own
    /// name may have plain ones.
    pub(super) fn parse(path: &str) -> Result<Self, Error> {
        let unknown = || {
            Error::NotFound(format!(
                "nothing is at {path}; documents are at /document/v1/NAMESPACE/TYPE/docid/ID, \
                 /document/v1/NAMESPACE/TYPE/group/GROUP/ID and /document/v1/NAMESPACE/TYPE/number/NUMBER/ID"
            ))
        };
        let rest = path.strip_prefix("/document/v1").ok_or_else(unknown)?;
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        if rest.is_empty() {
            return Ok(DocumentTarget::Documents(DocumentScope::default()));
        }
        let mut parts = rest.splitn(4, '/');
        let (Some(namespace), Some(document_type), Some(kind)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(unknown());
        };
        let namespace = decode_path(namespace)?.into_owned();
        let document_type = decode_path(document_type)?.into_owned();
        let rest = parts.next().unwrap_or("");
        let (group, name) = match kind {
            "docid" => (None, rest),
            "group" | "number" => {
                let (group, name) = rest.split_once('/').unwrap_or((rest, ""));
                if group.is_empty() {
                    return Err(unknown());
                }
                let group = decode_path(group)?.into_owned();
                if group.chars().any(char::is_control) {
                    return Err(Error::BadRequest(
                        "the name of the group has a control character".to_owned(),
                    ));
                }
                let group = match kind {
                    "number" => DocumentGroup::Number(group.parse().map_err(|_| {
                        Error::BadRequest(format!(
                            "'{group}' is not a number; after /number/ comes one of up to 64 bits"
                        ))
                    })?),
                    _ => DocumentGroup::Name(group),
                };
                (Some(group), name)
            }
            _ => return Err(unknown()),
        };
        if name.is_empty() {
            return Ok(DocumentTarget::Documents(DocumentScope {
                namespace_and_type: Some((namespace, document_type)),
                group,
            }));
        }
        let group = group.unwrap_or(DocumentGroup::None);
        let id = DocumentId::new(&namespace, &document_type, &group, &decode_path(name)?)?;
        Ok(DocumentTarget::Document(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_documents() {
        #[track_caller]
        fn check(path: &str, expected: &str) {
            match DocumentTarget::parse(path) {
                Ok(DocumentTarget::Document(id)) => assert_eq!(id.as_str(), expected),
                other => panic!("{path}: {other:?}"),
            }
        }
        check("/document/v1/ns/t/docid/a", "id:ns:t::a");
        check("/document/v1/ns/t/docid/a/b", "id:ns:t::a/b");
        check("/document/v1/ns/t/docid/a%2Fb", "id:ns:t::a/b");
        check("/document/v1/ns/t/docid/http://x:1/y", "id:ns:t::http://x:1/y");
        check("/document/v1/ns/t/docid/a+b%20c", "id:ns:t::a+b c");
        check("/document/v1/ns/t/group/g%2Fh/a", "id:ns:t:g=g/h:a");
        check("/document/v1/ns/t/number/23/a", "id:ns:t:n=23:a");
        check("/document/v1/ns/t/docid/æ", "id:ns:t::æ");
    }

    #[test]
    fn paths_of_many() {
        #[track_caller]
        fn check(path: &str, of: Option<(&str, &str)>, group: Option<DocumentGroup>) {
            let namespace_and_type = of.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
            assert_eq!(
                DocumentTarget::parse(path).ok(),
                Some(DocumentTarget::Documents(DocumentScope { namespace_and_type, group })),
                "{path}"
            );
        }
        check("/document/v1", None, None);
        check("/document/v1/", None, None);
        check("/document/v1/ns/t/docid", Some(("ns", "t")), None);
        check("/document/v1/ns/t/docid/", Some(("ns", "t")), None);
        check("/document/v1/ns/t/group/g", Some(("ns", "t")), Some(DocumentGroup::Name("g".to_owned())));
        check("/document/v1/ns/t/number/7/", Some(("ns", "t")), Some(DocumentGroup::Number(7)));
    }

    proptest::proptest! {
        #[test]
        fn no_path_is_too_strange(path in "(/document/v1)?(/[a-z%0-9]{0,3}|/docid|/group|/number|/[^/]{0,4}|/){0,7}") {
            if let Ok(DocumentTarget::Document(id)) = DocumentTarget::parse(&path) {
                proptest::prop_assert!(!id.name().is_empty());
            }
        }
    }

    #[test]
    fn paths_of_nothing() {
        #[track_caller]
        fn check(path: &str) {
            assert!(DocumentTarget::parse(path).is_err(), "{path}");
        }
        check("/document/v1/ns");
        check("/document/v1/ns/t");
        check("/document/v1/ns/t/what/a");
        check("/document/v1/ns/t/group/");
        check("/document/v1/ns/t/number/x/a");
        check("/document/v1/ns/t/docid/a%01b");
        check("/document/v1/ns/t/group/a%01b");
        check("/document/v1/ns/t/group/a%0Ab/");
        check("/document/v1/ns/t/group/a%C2%85b/1");
        for path in
            ["%ff/t/docid/a", "ns/%c3/docid/a", "ns/t/docid/a%e2%82", "ns/t/group/%80/1", "ns/t/group/%80"]
        {
            let error = DocumentTarget::parse(&format!("/document/v1/{path}")).expect_err(path);
            assert!(
                matches!(&error, Error::BadRequest(text) if text.contains("not percent-encoded UTF-8")),
                "{error}"
            );
        }
    }
}
