//! Headers in which a proxy names the group of a request, after it has identified the person.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, CONNECTION, HOST, HeaderName, HeaderValue, TRANSFER_ENCODING};
use millrace_document::{DocumentGroup, DocumentId};

use super::fault::EdgeNameFault;
use super::refusal::EdgeRefusal;

/// Headers that have another meaning.
const OTHERS: [HeaderName; 4] = [AUTHORIZATION, CONNECTION, HOST, TRANSFER_ENCODING];

/// Reads the group in the value of a header.
type GroupReader = fn(&HeaderValue) -> Option<DocumentGroup>;

/// Headers that name the group to which a request is restricted. Only those of trusted proxies count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupHeaders {
    /// Header with the name of a group.
    name: Option<HeaderName>,
    /// Header with the number of a group.
    number: Option<HeaderName>,
    /// True if a request may have none of them.
    is_optional: bool,
}

impl GroupHeaders {
    /// Parses the names of the headers: of that for names, and of that for numbers.
    ///
    /// # Errors
    /// A text is not the name of a header, or of one with another meaning.
    pub fn parse(name: Option<&str>, number: Option<&str>) -> Result<Self, EdgeNameFault> {
        let header = |text: &str| {
            let header = text.trim().parse::<HeaderName>().ok();
            let is_other = |header: &HeaderName| {
                let name = header.as_str();
                OTHERS.contains(header) || name.starts_with("content-") || name.starts_with("millrace-")
            };
            let header = header.filter(|header| !is_other(header));
            header.ok_or_else(|| EdgeNameFault::GroupHeader(text.to_owned()))
        };
        let headers = GroupHeaders {
            name: name.map(header).transpose()?,
            number: number.map(header).transpose()?,
            is_optional: false,
        };
        match &headers.number {
            Some(number) if headers.name.as_ref() == Some(number) => {
                Err(EdgeNameFault::GroupHeader(number.to_string()))
            }
            _ => Ok(headers),
        }
    }

    /// Returns the same headers; `is_optional` is true if a request may have none of them.
    #[must_use]
    pub fn optional(self, is_optional: bool) -> Self {
        GroupHeaders { is_optional, ..self }
    }

    /// Header that a request has to have, or that for numbers in its place; `None` if it may have none.
    pub(super) fn required(&self) -> Option<&HeaderName> {
        self.name.as_ref().or(self.number.as_ref()).filter(|_| !self.is_optional)
    }

    /// Takes the group out of the headers of a request. They are not forwarded: other nodes know the group by
    /// the caller.
    ///
    /// # Errors
    /// The sender is no trusted proxy; there are several groups; the value is no group.
    pub(super) fn take_out(
        &self,
        headers: &mut HeaderMap,
        is_trusted: bool,
    ) -> Result<Option<DocumentGroup>, EdgeRefusal> {
        let readers: [(&Option<HeaderName>, GroupReader); 2] =
            [(&self.name, group_of_name), (&self.number, group_of_number)];
        let mut group = None;
        for (header, read) in readers {
            let Some(header) = header else { continue };
            let mut values = headers.get_all(header).iter();
            let Some(value) = values.next() else { continue };
            if !is_trusted {
                return Err(EdgeRefusal::GroupHeader(header.clone()));
            }
            if values.next().is_some() || group.is_some() {
                return Err(EdgeRefusal::SeveralGroups(header.clone()));
            }
            group = Some(read(value).ok_or_else(|| EdgeRefusal::NoGroup(header.clone()))?);
        }
        if group.is_some() {
            for header in self.name.iter().chain(&self.number) {
                headers.remove(header);
            }
        }
        Ok(group)
    }
}

/// Group with this name: the value as it is, in UTF-8. An empty one, or one that no id can have, is none. So
/// is one with a comma: proxies join the values of several headers so, and the first one can be the client's.
fn group_of_name(value: &HeaderValue) -> Option<DocumentGroup> {
    let name = std::str::from_utf8(value.as_bytes()).ok().filter(|name| !name.contains(','))?;
    let group = DocumentGroup::Name(name.to_owned());
    DocumentId::new("any", "any", &group, "any").is_ok().then_some(group)
}

/// Group with this number.
fn group_of_number(value: &HeaderValue) -> Option<DocumentGroup> {
    let digits = value.to_str().ok()?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number).map(DocumentGroup::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "x-group";
    const NUMBER: &str = "x-group-number";

    /// Values of the two headers, and the group or the status of the refusal.
    #[test]
    fn only_a_trusted_proxy_names_a_group() {
        let both = GroupHeaders::parse(Some("X-Group"), Some("X-Group-Number")).expect("headers");
        let name = |name: &str| Ok(Some(DocumentGroup::Name(name.to_owned())));
        for (values, is_trusted, expected) in [
            (&[][..], true, Ok(None)),
            (&[], false, Ok(None)),
            (&[(NAME, "ann")], true, name("ann")),
            (&[(NAME, "n=7")], true, name("n=7")),
            (&[(NAME, "a%2Fb c")], true, name("a%2Fb c")),
            (&[(NAME, "é")], true, name("é")),
            (&[(NUMBER, "7")], true, Ok(Some(DocumentGroup::Number(7)))),
            (&[(NAME, "ann")], false, Err(403)),
            (&[(NUMBER, "7")], false, Err(403)),
            (&[(NAME, "")], false, Err(403)),
            (&[(NAME, "")], true, Err(400)),
            (&[(NAME, "a:b")], true, Err(400)),
            (&[(NAME, "ann,bob")], true, Err(400)),
            (&[(NAME, "ann, bob")], true, Err(400)),
            (&[(NAME, "ann,")], true, Err(400)),
            (&[(NUMBER, "7,8")], true, Err(400)),
            (&[(NAME, "a\tb")], true, Err(400)),
            (&[(NUMBER, "")], true, Err(400)),
            (&[(NUMBER, "-7")], true, Err(400)),
            (&[(NUMBER, "+7")], true, Err(400)),
            (&[(NUMBER, "18446744073709551616")], true, Err(400)),
            (&[(NAME, "ann"), (NAME, "bob")], true, Err(400)),
            (&[(NAME, "ann"), (NAME, "ann")], true, Err(400)),
            (&[(NAME, "ann"), (NUMBER, "7")], true, Err(400)),
        ] {
            let mut headers = HeaderMap::new();
            for &(header, value) in values {
                let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
                headers.append(HeaderName::from_static(header), value);
            }
            let taken = both.take_out(&mut headers, is_trusted);
            assert!(taken.is_err() || headers.is_empty(), "{values:?}");
            assert_eq!(taken.map_err(|refusal| refusal.status().as_u16()), expected, "{values:?}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(NAME), HeaderValue::from_static("ann"));
        let none = GroupHeaders::default().take_out(&mut headers, false);
        assert!(none.is_ok_and(|group| group.is_none()), "a server without the setting knows no such header");
    }

    #[test]
    fn a_header_is_required_unless_it_is_optional() {
        let name = |headers: &GroupHeaders| headers.required().map(HeaderName::to_string);
        for (given, expected) in [
            ((None, None), None),
            ((Some(NAME), None), Some(NAME)),
            ((None, Some(NUMBER)), Some(NUMBER)),
            ((Some(NAME), Some(NUMBER)), Some(NAME)),
        ] {
            let headers = GroupHeaders::parse(given.0, given.1).expect("headers");
            assert_eq!(name(&headers).as_deref(), expected);
            assert_eq!(name(&headers.optional(true)), None);
        }
    }

    #[test]
    fn headers_with_another_meaning_name_no_group() {
        for (name, number) in [
            (Some("x group"), None),
            (Some(""), None),
            (Some("Authorization"), None),
            (None, Some("content-type")),
            (Some("Millrace-Groups"), None),
            (Some("X-Group"), Some("x-group")),
        ] {
            assert!(GroupHeaders::parse(name, number).is_err(), "{name:?} {number:?}");
        }
        assert_eq!(GroupHeaders::parse(None, None), Ok(GroupHeaders::default()));
    }
}
