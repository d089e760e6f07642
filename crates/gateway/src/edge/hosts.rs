use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

use super::fault::EdgeNameFault;

/// The names by which clients may address a server, in addition to addresses and `localhost`.
///
/// An address is always permitted: DNS rebinding needs a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNames(BTreeSet<String>);

impl HostNames {
    /// Parses names, without ports.
    ///
    /// # Errors
    /// Text that is not the name of a host.
    pub fn parse(names: &[impl AsRef<str>]) -> Result<Self, EdgeNameFault> {
        let name = |text: &str| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
            let name = text.trim().trim_end_matches('.').to_ascii_lowercase();
            let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
            match bare.parse() {
                Ok(IpAddr::V4(address)) => Ok(address.to_string()),
                Ok(IpAddr::V6(address)) => Ok(format!("[{address}]")),
                Err(_) if !name.is_empty() && name.chars().all(is_name) => Ok(name),
                Err(_) => Err(EdgeNameFault::Host(text.to_owned())),
            }
        };
        names.iter().map(|text| name(text.as_ref())).collect::<Result<_, _>>().map(HostNames)
    }

    /// Adds one more name.
    #[must_use]
    pub fn with(mut self, name: &str) -> Self {
        self.0.insert(name.trim_end_matches('.').to_ascii_lowercase());
        self
    }

    /// The names, in lower case and without a dot at the end.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns true if a request may be for this host, given without a port.
    pub(super) fn permits(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        if host.eq_ignore_ascii_case("localhost") || is_address(host) {
            return true;
        }
        match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => self.0.contains(&host.to_ascii_lowercase()),
            false => self.0.contains(host),
        }
    }
}

fn is_address(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(bare) => bare.parse::<Ipv6Addr>().is_ok(),
        None => host.parse::<std::net::Ipv4Addr>().is_ok(),
    }
}

/// Returns the host of `host[:port]`; `None` if that is malformed.
pub(super) fn host_of(authority: &str) -> Option<&str> {
    let end = authority.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match authority[end..].find(':') {
        Some(colon) => (&authority[..end + colon], &authority[end + colon + 1..]),
        None => (authority, ""),
    };
    let is_port = port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    (!host.is_empty() && is_port).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        for (authority, expected) in [
            ("a", Some("a")),
            ("a:80", Some("a")),
            ("a:", Some("a")),
            ("127.0.0.1:8080", Some("127.0.0.1")),
            ("[::1]", Some("[::1]")),
            ("[::1]:8080", Some("[::1]")),
            ("[::1]80", Some("[::1]80")),
            ("::1", None),
            ("", None),
            (":80", None),
            ("a:b", None),
            ("a:123456", None),
            ("user@a:80", Some("user@a")),
            ("[::1]:x", None),
        ] {
            assert_eq!(host_of(authority), expected, "{authority}");
        }
    }

    #[test]
    fn names_of_a_server() {
        let names = HostNames::parse(&["Search.Example.com.", "nas"]).expect("names").with("n0.local");
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST.", true),
            ("127.0.0.1", true),
            ("10.0.0.7", true),
            ("[::1]", true),
            ("search.example.com", true),
            ("SEARCH.example.com.", true),
            ("nas", true),
            ("n0.local", true),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("sub.search.example.com", false),
            ("127.0.0.1.evil.example", false),
            ("2130706433", false),
            ("0x7f.1", false),
            ("[evil]", false),
            ("user@localhost", false),
            ("", false),
        ] {
            assert_eq!(names.permits(host), expected, "{host}");
        }
        for text in ["", "http://a", "a:80", "*", "a b", "a/b"] {
            assert!(HostNames::parse(&[text]).is_err(), "{text}");
        }
    }
}
