//! Destinations that a node may connect to because an application package names them.
//!
//! A package is written by a deployer, who may deploy but does not own the machine. Without a rule, a package
//! could make the server send requests to addresses that only the server reaches: other services of the
//! machine, a private network, the metadata service of a cloud.
//!
//! The rules are checked at the time of the connection, for the addresses that the name has resolved to, and
//! the connection goes to one of the checked addresses. So a redirect, or a name that resolves differently
//! the second time, does not bypass the rules.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use hyper::Uri;

use crate::{AddressRange, Error};

/// Rules of the operator for connections to other services.
///
/// The default permits every public address, and nothing in private networks or on the machine itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundPolicy {
    rules: Vec<OutboundRule>,
}

/// A permitted destination.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OutboundRule {
    /// Every address of the public internet.
    Public,
    /// A name that may resolve to any address except a link-local one.
    Name { name: String, limits: RuleLimits },
    /// Addresses, for any name that resolves to them.
    Range { range: AddressRange, limits: RuleLimits },
}

/// Part of a rule apart from its host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RuleLimits {
    scheme: Option<String>,
    port: Option<u16>,
}

impl RuleLimits {
    fn permit(&self, destination: &OutboundDestination) -> bool {
        self.scheme.as_ref().is_none_or(|scheme| *scheme == destination.scheme)
            && self.port.is_none_or(|port| port == destination.port)
    }
}

/// Destination in a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutboundDestination {
    pub scheme: String,
    /// Host in lower case, without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
}

impl OutboundDestination {
    /// Extracts the destination of a URL.
    pub fn of(uri: &Uri) -> Result<Self, Error> {
        let fault = |fault: &str| Error::Destination { url: uri.to_string(), fault: fault.to_owned() };
        let scheme = uri.scheme_str().unwrap_or_default().to_ascii_lowercase();
        let port = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return Err(fault(" is not an address that begins with http:// or https://")),
        };
        let wrong_port = || fault(": the port is not a number from 1 to 65535");
        let host = uri.host().map(bare_host).filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| fault(" has no host"))?;
        if !is_host_name(&host) && host.parse::<IpAddr>().is_err() {
            return Err(fault(": the host is neither a name nor an address"));
        }
        let port = match uri.port() {
            None => port,
            Some(given) => Some(given.as_u16()).filter(|given| *given > 0).ok_or_else(wrong_port)?,
        };
        // A port that is not a number would otherwise count as none.
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let has_wrong_port = uri.port().is_none()
            && authority.ends_with(|last: char| last.is_ascii_digit())
            && authority
                .rsplit_once(':')
                .is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        if has_wrong_port {
            return Err(wrong_port());
        }
        Ok(OutboundDestination { scheme, host, port })
    }

    /// IP address that the URL contains in place of a name.
    pub fn literal(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for OutboundDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutboundDestination { scheme, host, port } = self;
        match host.contains(':') {
            true => write!(f, "{scheme}://[{host}]:{port}"),
            false => write!(f, "{scheme}://{host}:{port}"),
        }
    }
}

/// Normalizes a host: in lower case, without brackets and without the dot that may end a full name.
fn bare_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase()
}

/// True if the text has only the characters of names.
fn is_host_name(text: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    !text.is_empty() && text.chars().all(is_of_name)
}

/// Refusal of a connection by the operator's rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; if the server should connect to it, start it with --outbound-allow {cure}")]
pub struct OutboundRefusal {
    reason: String,
    cure: String,
}

impl OutboundPolicy {
    /// Parses a list of rules: `public`, `none`, `HOST`, `HOST:PORT`, `SCHEME://HOST:PORT`, or a range of
    /// addresses such as `10.0.0.0/8`.
    ///
    /// # Errors
    /// A rule is invalid, or `none` is combined with other rules.
    pub fn parse(rules: &[impl AsRef<str>]) -> Result<Self, Error> {
        let rules: Vec<&str> =
            rules.iter().map(|rule| rule.as_ref().trim()).filter(|rule| !rule.is_empty()).collect();
        if rules.is_empty() {
            return Err(Error::NoRules);
        }
        if rules == ["none"] {
            return Ok(OutboundPolicy { rules: Vec::new() });
        }
        let rules = rules.into_iter().map(str::parse).collect::<Result<_, _>>()?;
        Ok(OutboundPolicy { rules })
    }

    /// Permits the host and port of one URL, for whatever address the name has.
    ///
    /// # Errors
    /// The text is not a URL.
    pub(crate) fn for_url(url: &str) -> Result<Self, Error> {
        let uri: Uri = url.parse().map_err(|error| Error::Destination {
            url: url.to_owned(),
            fault: format!(" is not an address: {error}"),
        })?;
        OutboundPolicy::parse(&[OutboundDestination::of(&uri)?.to_string()])
    }

    /// Checks a URL as far as that is possible before its name is resolved.
    ///
    /// # Errors
    /// No rule permits the destination, or the text is not a URL.
    pub fn check_url(&self, url: &str) -> Result<(), Error> {
        let uri: Uri = url.parse().map_err(|error| Error::Destination {
            url: url.to_owned(),
            fault: format!(" is not an address: {error}"),
        })?;
        let destination = OutboundDestination::of(&uri)?;
        Ok(self.check_destination(&destination)?)
    }

    /// Checks a destination before its name is resolved, to avoid unnecessary requests to name servers.
    ///
    /// # Errors
    /// No rule permits it, for any address of its name.
    pub(crate) fn check_destination(&self, destination: &OutboundDestination) -> Result<(), OutboundRefusal> {
        match destination.literal() {
            Some(address) => self.permitted(destination, &[address]).map(drop),
            None if self.could_permit(destination) => Ok(()),
            None => Err(refusal(destination, &[])),
        }
    }

    /// True if the name could resolve to an address that a rule permits.
    fn could_permit(&self, destination: &OutboundDestination) -> bool {
        self.rules.iter().any(|rule| match rule {
            OutboundRule::Public => true,
            OutboundRule::Name { name, limits } => *name == destination.host && limits.permit(destination),
            OutboundRule::Range { limits, .. } => limits.permit(destination),
        })
    }

    /// Filters the addresses that the server may connect to. The list is never empty.
    ///
    /// # Errors
    /// No rule permits any of them.
    pub(crate) fn permitted(
        &self,
        destination: &OutboundDestination,
        addresses: &[IpAddr],
    ) -> Result<Vec<IpAddr>, OutboundRefusal> {
        let permitted: Vec<IpAddr> =
            addresses.iter().copied().filter(|address| self.permits(destination, *address)).collect();
        match permitted.is_empty() {
            true => Err(refusal(destination, addresses)),
            false => Ok(permitted),
        }
    }

    fn permits(&self, destination: &OutboundDestination, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.rules.iter().any(|rule| match rule {
            OutboundRule::Public => is_public(address),
            OutboundRule::Name { name, limits } => {
                *name == destination.host && limits.permit(destination) && !is_link_local(address)
            }
            OutboundRule::Range { range, limits } => range.contains(address) && limits.permit(destination),
        })
    }
}

impl Default for OutboundPolicy {
    fn default() -> Self {
        OutboundPolicy { rules: vec![OutboundRule::Public] }
    }
}

impl FromStr for OutboundRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |reason: &str| Error::Setting {
            text: text.to_owned(),
            expected: format!(
                "is not a rule for connections to other services: {reason}; write public, none, HOST, HOST:PORT, \
                 http://HOST:PORT, or a range of addresses such as 10.0.0.0/8"
            ),
        };
        if text == "public" {
            return Ok(OutboundRule::Public);
        }
        if text == "none" {
            return Err(wrong("'none' stands alone"));
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (Some(scheme.to_owned()), rest),
            Some(_) => return Err(wrong("the scheme is http or https")),
            None => (None, text),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if let Ok(range) = rest.parse() {
            return Ok(OutboundRule::Range { range, limits: RuleLimits { scheme, port: None } });
        }
        let (host, port) = match rest.rsplit_once(':').filter(|_| !rest.ends_with(']')) {
            Some((host, port)) => {
                let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
                let number = port.parse().ok().filter(|number| is_number && *number > 0);
                (host, Some(number.ok_or_else(|| wrong("the port is not a number from 1 to 65535"))?))
            }
            None => (rest, None),
        };
        let (name, limits) = (bare_host(host), RuleLimits { scheme, port });
        if let Ok(address) = name.parse::<IpAddr>() {
            return Ok(OutboundRule::Range { range: AddressRange::of(address), limits });
        }
        if !is_host_name(&name) {
            return Err(wrong("the host is neither a name nor an address"));
        }
        Ok(OutboundRule::Name { name, limits })
    }
}

/// Parses rules, one a line, and checks the URLs after the first empty line; for fuzzing.
///
/// # Panics
/// A rule that a refusal recommends is invalid, or does not permit what was refused.
pub fn fuzz(text: &str) {
    let (rules, urls) = text.split_once("\n\n").unwrap_or((text, text));
    let rules: Vec<&str> = rules.lines().collect();
    let policy = OutboundPolicy::parse(&rules).unwrap_or_else(|error| {
        assert!(error.to_string().len() > 8, "an error that says nothing: '{error}'");
        OutboundPolicy { rules: Vec::new() }
    });
    let resolved =
        ["127.0.0.1", "169.254.169.254", "10.0.0.1", "8.8.8.8", "fe80::1", "::ffff:169.254.1.2", "2000::1"];
    for url in urls.lines() {
        let Ok(destination) =
            url.parse().map_err(drop).and_then(|uri| OutboundDestination::of(&uri).map_err(drop))
        else {
            continue;
        };
        let addresses = match destination.literal() {
            Some(address) => vec![address],
            None => resolved.iter().filter_map(|address| address.parse().ok()).collect(),
        };
        for address in addresses {
            let Err(refusal) = policy.permitted(&destination, &[address]) else { continue };
            let cured = OutboundPolicy::parse(&[&refusal.cure]);
            assert!(cured.is_ok(), "the cure of '{refusal}' is not a rule: {cured:?}");
            let helps = cured.is_ok_and(|cured| cured.permitted(&destination, &[address]).is_ok());
            assert!(helps, "the cure does not help: {refusal}");
        }
    }
}

fn refusal(destination: &OutboundDestination, addresses: &[IpAddr]) -> OutboundRefusal {
    let OutboundDestination { host, .. } = destination;
    let kind = addresses.iter().copied().map(kind_of).next().unwrap_or("that no rule names");
    let reason = match (addresses, destination.literal()) {
        ([], _) => {
            format!("the server may not connect to {destination}: no rule of --outbound-allow permits it")
        }
        (_, Some(_)) => format!("the server may not connect to {destination}: {host} is an address {kind}"),
        ([address, ..], None) => {
            format!("the server may not connect to {destination}: {host} is at {address}, an address {kind}")
        }
    };
    let is_link_local = addresses.iter().any(|address| is_link_local(address.to_canonical()));
    let cure = match addresses {
        [address, ..] if is_link_local => address.to_string(),
        _ => destination.to_string(),
    };
    OutboundRefusal { reason, cure }
}

/// Kind of an address that is not permitted, for messages.
fn kind_of(address: IpAddr) -> &'static str {
    match address.to_canonical() {
        address if address.is_loopback() => "of this machine itself (loopback)",
        address if is_link_local(address) => "of the local link, where clouds have their metadata",
        address if !is_public(address) => "of a private network or for a special purpose",
        _ => "that no rule of --outbound-allow permits",
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// True for addresses of the public internet, by the registries of special-purpose addresses (RFC 6890).
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0
        || a >= 224
        || (a == 100 && b & 0xc0 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && b & 0xfe == 18);
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match a {
        // IPv4 addresses that are reached through a translator or a tunnel.
        0x0064 if [b, c, d, e, f] == [0xff9b, 0, 0, 0, 0] => embedded(g, h),
        0x2002 => embedded(b, c),
        // Teredo and other protocol assignments, and documentation.
        0x2001 if b < 0x0200 || b == 0x0db8 => false,
        0x3fff if b < 0x1000 => false,
        // Only 2000::/3 is assigned to the public internet.
        _ => a & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(rules: &[&str], url: &str, address: &str) -> bool {
        let policy = OutboundPolicy::parse(rules).expect("these are rules");
        let destination = OutboundDestination::of(&url.parse().expect("an address")).expect("it has a host");
        policy.permitted(&destination, &[address.parse().expect("an address")]).is_ok()
    }

    #[test]
    fn kinds_of_addresses() {
        for (address, expected) in [
            ("8.8.8.8", true),
            ("100.63.255.255", true),
            ("100.64.0.1", false),
            ("172.15.0.1", true),
            ("172.16.0.1", false),
            ("10.1.2.3", false),
            ("192.168.1.1", false),
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("169.254.169.254", false),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("192.0.0.170", false),
            ("198.18.0.1", false),
            ("203.0.113.7", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:4700::1111", true),
            ("::1", false),
            ("::", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:8.8.8.8", true),
            ("::127.0.0.1", false),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b::808:808", true),
            ("2002:7f00:1::", false),
            ("2002:0808:0808::1", true),
            ("2001:0:1::1", false),
            ("2001:db8::1", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("fd00:ec2::254", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(address.parse().expect("an address")), expected, "{address}");
            assert_eq!(permits(&["public"], "http://any.example/", address), expected, "{address}");
        }
    }

    #[test]
    fn rules_and_destinations() {
        for (rules, url, address, expected) in [
            (&["none"][..], "https://api.example/", "8.8.8.8", false),
            (&["api.example"], "https://api.example/v1", "8.8.8.8", true),
            (&["api.example"], "https://API.example./v1", "8.8.8.8", true),
            (&["api.example"], "https://other.example/", "8.8.8.8", false),
            (&["api.example"], "https://api.example/", "10.0.0.1", true),
            (&["api.example"], "https://api.example/", "169.254.169.254", false),
            (&["api.example"], "https://api.example/", "fe80::1", false),
            (&["http://api.example:8000"], "http://api.example:8000/", "10.0.0.1", true),
            (&["http://api.example:8000"], "http://api.example/", "10.0.0.1", false),
            (&["http://api.example:8000"], "https://api.example:8000/", "10.0.0.1", false),
            (&["public", "http://llm:8000"], "http://llm:9999/", "10.0.0.1", false),
            (&["https://api.example"], "https://api.example:444/", "8.8.8.8", true),
            (&["127.0.0.1"], "http://127.0.0.1:9/", "127.0.0.1", true),
            (&["127.0.0.1"], "http://localhost:9/", "127.0.0.1", true),
            (&["127.0.0.1"], "http://localhost:9/", "127.0.0.2", false),
            (&["127.0.0.1:9"], "http://localhost:8/", "127.0.0.1", false),
            (&["127.0.0.1"], "http://any.example/", "::ffff:127.0.0.1", true),
            (&["[::1]:80"], "http://[::1]/", "::1", true),
            (&["::1"], "http://[::1]/", "::1", true),
            (&["10.0.0.0/8"], "http://any.example/", "10.255.0.1", true),
            (&["10.0.0.0/8"], "http://any.example/", "11.0.0.1", false),
            (&["169.254.169.254"], "http://169.254.169.254/", "169.254.169.254", true),
        ] {
            assert_eq!(permits(rules, url, address), expected, "{rules:?} {url} {address}");
        }
    }

    #[test]
    fn ports_and_hosts_are_ones() {
        for rule in ["a:0", "a:+80", "a:65536", "a:", "[::1]:x", "a~b"] {
            assert!(OutboundPolicy::parse(&[rule]).is_err(), "{rule}");
        }
        assert!(permits(&["[::1]"], "http://[::1]:9/", "::1"));
        for url in ["http://a:0/", "http://a:65536/", "http://a:99999", "http://a~b/", "http:///"] {
            let destination = url.parse().ok().map(|uri| OutboundDestination::of(&uri));
            assert!(!matches!(destination, Some(Ok(_))), "{url}");
        }
        for url in ["http://a/", "http://a:/", "http://[::1]/", "http://user:9@a/"] {
            let destination = OutboundDestination::of(&url.parse().expect("a URL")).expect("it has a host");
            assert_eq!(destination.port, 80, "{url}");
        }
    }

    #[test]
    fn of_several_addresses_only_those_that_are_permitted() {
        let destination =
            OutboundDestination::of(&Uri::from_static("http://both.example/")).expect("it has a host");
        let addresses = ["127.0.0.1", "8.8.8.8"].map(|address| address.parse().expect("an address"));
        assert_eq!(OutboundPolicy::default().permitted(&destination, &addresses), Ok(vec![addresses[1]]));
    }

    #[test]
    fn urls_before_they_are_resolved() {
        let check = |rules: &[&str], url: &str, expected: Option<&str>| {
            let outcome = OutboundPolicy::parse(rules).expect("these are rules").check_url(url);
            match (outcome, expected) {
                (Ok(()), None) => {}
                (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{url}: {error}"),
                (outcome, _) => panic!("{rules:?} {url}: {outcome:?}"),
            }
        };
        check(&["public"], "https://api.example/", None);
        check(&["public"], "http://127.0.0.1:8000/v1", Some("--outbound-allow http://127.0.0.1:8000"));
        check(&["public"], "http://[::1]/v1", Some("--outbound-allow http://[::1]:80"));
        check(&["public"], "http://169.254.169.254/latest", Some("where clouds have their metadata"));
        check(&["none"], "https://api.example/", Some("--outbound-allow https://api.example:443"));
        check(&["other.example"], "https://api.example/", Some("no rule of --outbound-allow permits it"));
        check(&["public"], "file:///etc/passwd", Some("is not an address"));
        check(&["public"], "ftp://api.example/", Some("http:// or https://"));
        check(&["public"], "/etc/passwd", Some("http:// or https://"));
        check(&["public"], "no address", Some("is not an address"));
    }

    #[test]
    fn what_is_not_a_rule() {
        for text in ["", "ftp://a", "a:b", "a b", "http://", "10.0.0.0/33", "user@host", "a/b"] {
            assert!(OutboundPolicy::parse(&[text]).is_err(), "{text}");
        }
        assert!(OutboundPolicy::parse(&["none", "public"]).is_err());
        assert!(OutboundPolicy::parse(&Vec::<String>::new()).is_err());
    }
}
