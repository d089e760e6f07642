//! Media types of bodies and answers: JSON, and lines of JSON.

use crate::{ElasticRequest, Error};

/// Media types of bodies. Those with `vnd` may name the version of the interfaces.
const TAKEN: [&str; 5] = [
    "application/json",
    "application/x-ndjson",
    "application/*",
    "application/vnd.elasticsearch+json",
    "application/vnd.elasticsearch+x-ndjson",
];

/// Encodings of answers that Elasticsearch has, and this server has not.
const OTHERS: [&str; 4] = ["cbor", "smile", "yaml", "x-yaml"];

/// Versions that clients may ask to be compatible with.
const VERSIONS: [&str; 3] = ["7", "8", "9"];

/// Checks the media types of a request: that of its body, if it has one, and those that it takes as answers.
///
/// # Errors
/// One is not known, the body has none, or a version does not exist.
pub(crate) fn check(request: &ElasticRequest, has_body: bool) -> Result<(), Error> {
    // Some clients name a type without a body when they read. What changes something is checked all the same:
    // forms of web pages are refused, also empty ones.
    let is_read = !has_body && ["GET", "HEAD"].contains(&request.method.as_str());
    match essence(&request.content_type).as_str() {
        _ if is_read => {}
        "" if !has_body => {}
        "" => {
            return Err(Error::NotAcceptable(
                "Content-Type header is missing; send application/json or application/x-ndjson".to_owned(),
            ));
        }
        media_type if TAKEN.contains(&media_type) => {}
        _ => {
            return Err(Error::NotAcceptable(format!(
                "Content-Type header [{}] is not supported; send application/json or application/x-ndjson",
                request.content_type
            )));
        }
    }
    check_version("Content-Type", &request.content_type)?;
    let is_other = |one: &str| {
        let media_type = essence(one);
        let kind = media_type.strip_prefix("application/").unwrap_or_default();
        OTHERS.contains(&kind.strip_prefix("vnd.elasticsearch+").unwrap_or(kind))
    };
    let mut accepted = request.accept.split(',').filter(|one| !one.trim().is_empty()).peekable();
    if accepted.peek().is_some() && accepted.all(is_other) {
        return Err(Error::NotAcceptable(format!(
            "Accept header [{}] is not supported; answers are application/json",
            request.accept
        )));
    }
    request.accept.split(',').try_for_each(|one| check_version("Accept", one))
}

/// A media type without its parameters, in lower case.
fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn check_version(header: &'static str, media_type: &str) -> Result<(), Error> {
    let parameters = media_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let named = parameters.map(|(name, value)| (name.trim(), value.trim().trim_matches('"')));
    for (name, version) in named {
        if name.eq_ignore_ascii_case("compatible-with") && !VERSIONS.contains(&version) {
            let reason = format!(
                "no version [{version}] to be compatible with; name one of [{}]",
                VERSIONS.join(", ")
            );
            return Err(Error::MediaVersion { header, reason });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_one(content_type: &str, accept: &str, has_body: bool, expected: u16) {
        let request = ElasticRequest {
            content_type: content_type.to_owned(),
            accept: accept.to_owned(),
            ..ElasticRequest::default()
        };
        let status = check(&request, has_body).map_or_else(|error| error.status(), |()| 200);
        assert_eq!(status, expected, "[{content_type}] [{accept}] {has_body}");
    }

    #[test]
    fn json_alone_is_taken() {
        for (content_type, expected) in [
            ("application/json", 200),
            ("Application/JSON; charset=utf-8", 200),
            ("application/x-ndjson", 200),
            ("application/vnd.elasticsearch+json; compatible-with=8", 200),
            ("application/vnd.elasticsearch+x-ndjson;compatible-with=9", 200),
            ("application/vnd.elasticsearch+json; compatible-with=\"7\"", 200),
            ("application/vnd.elasticsearch+json; compatible-with=12", 400),
            ("application/vnd.elasticsearch+json; compatible-with=", 400),
            ("application/vnd.elasticsearch+cbor; compatible-with=8", 406),
            ("application/cbor", 406),
            ("application/smile", 406),
            ("application/yaml", 406),
            ("text/plain", 406),
            ("application/x-www-form-urlencoded", 406),
            ("multipart/form-data; boundary=x", 406),
            ("x", 406),
        ] {
            check_one(content_type, "", true, expected);
            check_one(content_type, "*/*", false, expected);
        }
        check_one("", "", true, 406);
        check_one("", "", false, 200);
        let form = "application/x-www-form-urlencoded".to_owned();
        let request =
            ElasticRequest { method: "GET".to_owned(), content_type: form, ..ElasticRequest::default() };
        assert!(check(&request, false).is_ok() && check(&request, true).is_err());
    }

    #[test]
    fn answers_are_json() {
        for (accept, expected) in [
            ("*/*", 200),
            ("application/json", 200),
            ("text/html,application/xhtml+xml,*/*;q=0.8", 200),
            ("application/vnd.elasticsearch+json;compatible-with=8", 200),
            ("application/vnd.elasticsearch+json; compatible-with=12", 400),
            ("application/cbor", 406),
            ("application/cbor, application/json", 200),
            ("application/smile,application/vnd.elasticsearch+cbor; compatible-with=8", 406),
            ("application/yaml", 406),
            ("text/plain", 200),
        ] {
            check_one("", accept, false, expected);
        }
    }
}
