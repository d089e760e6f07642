//! Secrets of the environment, and the hosts that each may be sent to.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use hyper::Uri;
use hyper::http::uri::Authority;

use crate::Error;

/// Prefix of environment variables with secrets.
const SECRET_PREFIX: &str = "MILLRACE_SECRET_";
/// Alternative prefix as in Vespa, for names in upper snake case.
const VESPA_SECRET_PREFIX: &str = "VESPA_SECRET_";

/// A secret by its name in services.xml, and a host that it may be sent to.
///
/// A package names secrets, but its author need not know them: without a host, a package could have every
/// secret of the environment sent anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretBinding {
    name: String,
    /// Host in lower case.
    host: String,
    /// `None`: any port.
    port: Option<u16>,
}

impl FromStr for SecretBinding {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Setting {
            text: text.to_owned(),
            expected: "does not bind a secret to a host: write NAME=HOST, such as openai-key=api.openai.com"
                .to_owned(),
        };
        let (name, authority) = text.split_once('=').ok_or_else(wrong)?;
        let given = authority.trim();
        let url: Uri = format!("https://{given}/").parse().map_err(|_| wrong())?;
        let is_whole = |found: &&Authority| found.as_str() == given && !given.contains('@');
        let authority = url.authority().filter(is_whole).ok_or_else(wrong)?;
        // A port that is not a number would otherwise count as no port, and so as any.
        let has_wrong_port =
            authority.as_str().len() > authority.host().len() && authority.port_u16().is_none();
        if name.trim().is_empty() || url.path() != "/" || has_wrong_port || !is_host(authority.host()) {
            return Err(wrong());
        }
        Ok(SecretBinding {
            name: name.trim().to_owned(),
            host: authority.host().to_ascii_lowercase(),
            port: authority.port_u16(),
        })
    }
}

/// True for an address or a name of a host. The parser of URLs lets more signs pass.
fn is_host(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => !text.is_empty() && text.bytes().all(is_of_name),
    }
}

impl fmt::Display for SecretBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Parses bindings, one a line, and compares each with the endpoints after the first empty line; for fuzzing.
///
/// # Panics
/// A binding is another after it is printed and parsed, or a recommended one does not permit its endpoint.
pub fn fuzz(text: &str) {
    let (bindings, endpoints) = text.split_once("\n\n").unwrap_or((text, text));
    let endpoints: Vec<Uri> = endpoints.lines().filter_map(|endpoint| endpoint.parse().ok()).collect();
    for line in bindings.lines() {
        match line.parse::<SecretBinding>() {
            Ok(binding) => {
                assert_eq!(
                    binding.to_string().parse(),
                    Ok(binding.clone()),
                    "'{line}' is printed as '{binding}'"
                );
                for endpoint in &endpoints {
                    let recommended = SecretBinding::of(&binding.name, endpoint);
                    let helps = recommended.is_none_or(|binding| binding.permits(&binding.name, endpoint));
                    assert!(helps, "the binding for {endpoint} does not permit it");
                }
            }
            Err(error) => {
                assert!(error.to_string().contains("NAME=HOST"), "an error without its cure: {error}")
            }
        }
    }
}

impl SecretBinding {
    /// Binding that permits a secret to be sent to this endpoint; `None` if no text names its host.
    fn of(name: &str, endpoint: &Uri) -> Option<Self> {
        let host = endpoint.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
        let binding = SecretBinding { name: name.to_owned(), host, port: endpoint.port_u16() };
        binding.to_string().parse().ok().filter(|parsed| *parsed == binding)
    }

    fn permits(&self, name: &str, endpoint: &Uri) -> bool {
        let default = if endpoint.scheme_str() == Some("http") { 80 } else { 443 };
        let port = endpoint.port_u16().unwrap_or(default);
        self.name == name
            && endpoint.host().is_some_and(|host| host.eq_ignore_ascii_case(&self.host))
            && self.port.is_none_or(|own| own == port)
    }
}

/// Returns a secret of services.xml to be sent to `endpoint`: the environment's value under its name in
/// capitals, or under the name that Vespa uses.
///
/// # Errors
/// The environment does not have it, or no binding permits the host of the endpoint.
pub fn secret(bindings: &[SecretBinding], name: &str, endpoint: &str) -> Result<String, Error> {
    let capital = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let ours = format!("{SECRET_PREFIX}{}", name.chars().map(capital).collect::<String>());
    let theirs = format!("{VESPA_SECRET_PREFIX}{}", upper_snake(name));
    let value = [&ours, &theirs]
        .into_iter()
        .find_map(|variable| std::env::var(variable).ok())
        .ok_or_else(|| Error::NoSecret { name: name.to_owned(), variable: ours.clone() })?;
    let uri: Uri = endpoint.parse().map_err(|error| Error::Destination {
        url: endpoint.to_owned(),
        fault: format!(" is not an address: {error}"),
    })?;
    if bindings.iter().any(|binding| binding.permits(name, &uri)) {
        return Ok(value);
    }
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let cure = match SecretBinding::of(name, &uri) {
        Some(binding) => format!("; if it belongs there, start the server with --secret {binding}"),
        None => ": write a name without '=' and a URL with a host and a valid port".to_owned(),
    };
    Err(Error::SecretHost { name: name.to_owned(), host: host.to_owned(), cure })
}

/// Converts `myApiKey` to `MY_API_KEY`.
fn upper_snake(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    let mut before = '_';
    for c in name.chars() {
        if c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            text.push('_');
        }
        text.push(if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
        before = c;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_become_those_of_variables() {
        for (name, expected) in
            [("myApiKey", "MY_API_KEY"), ("openai-key", "OPENAI_KEY"), ("key2B", "KEY2_B"), ("OPEN", "OPEN")]
        {
            assert_eq!(upper_snake(name), expected);
        }
    }

    #[test]
    fn a_secret_goes_to_its_host_alone() {
        for (binding, name, endpoint, expected) in [
            ("key=api.example", "key", "https://api.example/v1", true),
            ("key=api.example", "key", "https://API.Example:8443/v1", true),
            ("key=api.example", "key", "https://api.example.evil/v1", false),
            ("key=api.example", "key", "https://evil/api.example", false),
            ("key=api.example", "key", "https://api.example@evil/v1", false),
            ("key=api.example", "other", "https://api.example/v1", false),
            ("key=api.example:8000", "key", "http://api.example:8000/v1", true),
            ("key=api.example:8000", "key", "http://api.example/v1", false),
            ("key=api.example:443", "key", "https://api.example/v1", true),
            ("key=api.example:443", "key", "http://api.example/v1", false),
            ("key=[::1]:8000", "key", "http://[::1]:8000/v1", true),
            ("key=127.0.0.1", "key", "http://127.0.0.1:9/v1", true),
        ] {
            let parsed: SecretBinding = binding.parse().expect("a binding");
            assert_eq!(
                parsed.permits(name, &endpoint.parse().expect("a URL")),
                expected,
                "{binding} {endpoint}"
            );
        }
        for text in
            ["", "key", "=api.example", "key=", "key=a/b", "key=user@host", "key=a b", "key=a?b", "key=a#b"]
        {
            assert!(text.parse::<SecretBinding>().is_err(), "{text}");
        }
    }
}
