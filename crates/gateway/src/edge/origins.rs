use std::collections::BTreeSet;

use hyper::Uri;

use super::fault::EdgeNameFault;

/// The web pages that may send requests and read the responses, in addition to the server's own: origins such
/// as `https://app.example.com`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebOrigins(BTreeSet<String>);

impl WebOrigins {
    /// Parses origins in the form of browsers: scheme, host, and a port other than the scheme's own.
    ///
    /// # Errors
    /// Text that is not an origin. `*` and `null` are not permitted, since every page can be such a page.
    pub fn parse(origins: &[impl AsRef<str>]) -> Result<Self, EdgeNameFault> {
        let origin = |text: &str| {
            let origin = text.trim().trim_end_matches('/').to_ascii_lowercase();
            match authority_of_origin(&origin) {
                Some(own) if !own.authority.is_empty() => Ok(own.to_origin()),
                _ => Err(EdgeNameFault::Origin(text.to_owned())),
            }
        };
        origins.iter().map(|text| origin(text.as_ref())).collect::<Result<_, _>>().map(WebOrigins)
    }

    /// The origins, in lower case and without default ports.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns true if pages of this origin may send requests.
    pub(super) fn permits(&self, origin: &str) -> bool {
        !self.0.is_empty()
            && authority_of_origin(&origin.to_ascii_lowercase())
                .is_some_and(|own| self.0.contains(&own.to_origin()))
    }
}

/// The parts of an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OriginParts<'a> {
    scheme: &'a str,
    /// Host and port; without the default port of the scheme.
    authority: &'a str,
}

impl OriginParts<'_> {
    /// Returns true for the origin of pages from this `host[:port]`, with any scheme: a proxy may have taken
    /// TLS off.
    pub(super) fn is(self, host: &str) -> bool {
        let same = |host: &str| host.eq_ignore_ascii_case(self.authority);
        same(host) || same(without_default_port(self.scheme, host))
    }

    fn to_origin(self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }
}

/// Parses an origin of the web; `None` for `null`, other schemes, and malformed text.
pub(super) fn authority_of_origin(origin: &str) -> Option<OriginParts<'_>> {
    let (scheme, authority) = origin.split_once("://")?;
    let known = ["http", "https"].into_iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let plain = authority
        .parse::<Uri>()
        .is_ok_and(|uri| uri.authority().is_some_and(|found| found.as_str() == authority));
    let is_authority = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '[' | ']');
    (known && plain && authority.chars().all(is_authority))
        .then(|| OriginParts { scheme, authority: without_default_port(scheme, authority) })
}

fn without_default_port<'a>(scheme: &str, authority: &'a str) -> &'a str {
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    authority.strip_suffix(port).unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_origins() {
        for (origin, host, expected) in [
            ("http://localhost:8080", "localhost:8080", true),
            ("http://LocalHost:8080", "localhost:8080", true),
            ("https://search.example", "search.example", true),
            ("https://search.example", "search.example:443", true),
            ("https://search.example:443", "search.example", true),
            ("http://search.example", "search.example:80", true),
            ("http://[::1]:8080", "[::1]:8080", true),
            ("http://localhost:3000", "localhost:8080", false),
            ("http://localhost", "localhost:8080", false),
            ("https://evil.example", "localhost:8080", false),
            ("null", "localhost:8080", false),
            ("null", "null", false),
            ("", "", false),
            ("file://", "", false),
            ("http://", "", false),
            ("http://user@localhost:8080", "localhost:8080", false),
        ] {
            let own = authority_of_origin(origin).is_some_and(|own| own.is(host));
            assert_eq!(own, expected, "{origin} {host}");
        }
    }

    #[test]
    fn origins_that_are_permitted() {
        let origins =
            WebOrigins::parse(&["https://App.example.com/", "http://localhost:3000", "http://a:80"]);
        let origins = origins.expect("origins");
        for (origin, expected) in [
            ("https://app.example.com", true),
            ("https://APP.example.com:443", true),
            ("http://app.example.com", false),
            ("https://app.example.com:8443", false),
            ("https://app.example.com.evil.example", false),
            ("http://localhost:3000", true),
            ("http://localhost", false),
            ("http://a", true),
            ("null", false),
        ] {
            assert_eq!(origins.permits(origin), expected, "{origin}");
        }
        for text in
            ["", "*", "null", "app.example.com", "ftp://a", "https://a/b", "https://a b", "https://*.a"]
        {
            assert!(WebOrigins::parse(&[text]).is_err(), "{text}");
        }
    }
}
