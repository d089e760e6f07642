//! Hosts and origins under fuzzing.

use std::net::IpAddr;

use super::{HostNames, WebOrigins, authority_of_origin, host_of};

/// Parses the first line as names of hosts, separated by commas, and the others as values of `Host`; for
/// fuzzing.
///
/// # Panics
/// A name does not permit its own host or is another after it is parsed again, or a host is permitted that is
/// neither named nor an address nor `localhost`.
pub fn hosts(text: &str) {
    let (listed, authorities) = text.split_once('\n').unwrap_or((text, text));
    let listed: Vec<&str> = listed.split(',').collect();
    let names = HostNames::parse(&listed).unwrap_or_else(|error| {
        assert!(
            error.to_string().contains("is not the name of a host"),
            "an error that says nothing: {error}"
        );
        HostNames::default()
    });
    for name in names.iter() {
        assert_eq!(
            HostNames::parse(&[name]),
            HostNames::parse(&[format!("{name}.")]),
            "'{name}' ends with a dot"
        );
        assert!(
            HostNames::parse(&[name]).is_ok_and(|again| again.iter().eq([name])),
            "'{name}' is another again"
        );
        assert!(names.permits(name), "'{name}' does not permit itself");
    }
    for authority in authorities.lines() {
        let Some(host) = host_of(authority).filter(|host| names.permits(host)) else { continue };
        let plain = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let bare = plain.strip_prefix('[').and_then(|plain| plain.strip_suffix(']')).unwrap_or(&plain);
        let is_known =
            plain == "localhost" || bare.parse::<IpAddr>().is_ok() || names.iter().any(|name| name == plain);
        assert!(is_known, "'{authority}' is permitted");
    }
}

/// Parses the first line as origins, separated by commas, and the others as values of `Origin`, which are
/// compared with `localhost:8080`; for fuzzing.
///
/// # Panics
/// An origin does not permit itself or is another after it is parsed again, or one that is not of
/// `localhost:8080` is the server's own.
pub fn origins(text: &str) {
    let (listed, given) = text.split_once('\n').unwrap_or((text, text));
    let listed: Vec<&str> = listed.split(',').collect();
    let origins = WebOrigins::parse(&listed).unwrap_or_else(|error| {
        assert!(
            error.to_string().contains("is not the origin of a web page"),
            "an error that says nothing: {error}"
        );
        WebOrigins::default()
    });
    for origin in origins.iter() {
        let again = WebOrigins::parse(&[origin]);
        assert!(again.is_ok_and(|again| again.iter().eq([origin])), "'{origin}' is another again");
        assert!(origins.permits(origin), "'{origin}' does not permit itself");
    }
    for origin in given.lines() {
        let is_own = authority_of_origin(origin).is_some_and(|parts| parts.is("localhost:8080"));
        let lower = origin.to_ascii_lowercase();
        let expected = ["http://localhost:8080", "https://localhost:8080"].contains(&lower.as_str());
        assert_eq!(is_own, expected, "'{origin}'");
        assert!(!origins.permits(origin) || authority_of_origin(origin).is_some(), "'{origin}' is permitted");
    }
}
