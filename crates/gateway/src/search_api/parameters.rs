//! The parameters of a query: those of the request line, of a form or a JSON body, and what a query profile says where they are
//! silent.

use std::collections::BTreeMap;

use axum::extract::Request;
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use millrace_query::{Limits, is_parameter, is_same_parameter, value_of};

use crate::http::{self, Parameters};
use crate::{Deployment, Error};

/// The bound of groups and hits that a grouping may give. Vespa takes it from query profiles alone as well.
const GLOBAL_MAX_GROUPS: &str = "grouping.globalMaxGroups";

/// Reads them. Of a parameter that stands in the body and in the request line, that of the body holds.
pub(super) async fn read(limit: usize, request: Request) -> Result<BTreeMap<String, String>, Error> {
    let (parts, body) = request.into_parts();
    let mut parameters: BTreeMap<String, String> = Parameters::parse(parts.uri.query().unwrap_or(""))
        .iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    match parts.method {
        Method::GET | Method::HEAD => {}
        Method::POST => {
            let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let media = content_type.and_then(|value| value.split(';').next()).unwrap_or("").trim();
            let body = http::read_body(&parts.headers, body, limit).await?;
            match media {
                "application/json" => parameters.extend(millrace_query::flatten(&body)?),
                "application/x-www-form-urlencoded" | "" => {
                    let text = std::str::from_utf8(&body).map_err(|_| {
                        Error::BadRequest("the form in the request body is not UTF-8".to_owned())
                    })?;
                    if text.trim_start().starts_with('{') {
                        let reason = "the request body is JSON, but came as a form; send it with 'Content-Type: application/json'";
                        return Err(Error::BadRequest(reason.to_owned()));
                    }
                    let form = Parameters::parse(text);
                    parameters.extend(form.iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
                }
                other => {
                    return Err(Error::BadRequest(format!(
                        "content-type '{other}' is not known here; POST the query as application/json or as a form"
                    )));
                }
            }
        }
        other => {
            return Err(Error::MethodNotAllowed { method: other.to_string(), allowed: "GET, POST" });
        }
    }
    Ok(parameters)
}

/// Refuses parameters of a client that only query profiles may have, also where they are given for one source
/// alone. What a node hands on to another has the query profile's values and is not checked.
pub(super) fn check(parameters: &BTreeMap<String, String>) -> Result<(), Error> {
    parameters.keys().try_for_each(|name| check_is_for_requests(name))
}

fn check_is_for_requests(name: &str) -> Result<(), Error> {
    let is_of_source = name.starts_with("source.") || name.starts_with("provider.");
    // `source.NAME.…`: a name may have dots itself.
    let mut tails = name.match_indices('.').map(|(at, _)| &name[at + 1..]).filter(|_| is_of_source);
    let is = |name: &str| is_same_parameter(name, GLOBAL_MAX_GROUPS);
    match is(name) || tails.any(is) {
        true => Err(Error::parameter(
            GLOBAL_MAX_GROUPS,
            "must be specified in a query profile: it bounds what a request may ask for",
        )),
        false => Ok(()),
    }
}

/// Adds what the query profile says; what a request may ask for at most is for it alone to say.
pub(super) fn fill_in(
    deployment: &Deployment,
    parameters: &mut BTreeMap<String, String>,
) -> Result<Limits, Error> {
    let mut limits = Limits::default();
    let profiles = &deployment.application.query_profiles;
    // Whose documents are searched is always for the request to say.
    let is_built_in = |name: &str| is_parameter(name) || name.starts_with("streaming.");
    for value in profiles.values(parameters, &is_built_in)? {
        match value.name.as_str() {
            "maxHits" => limits.max_hits = most("maxHits", &value.value)?,
            "maxOffset" => limits.max_offset = most("maxOffset", &value.value)?,
            name if value.overridable && value_of(parameters, name).is_some() => {}
            name => {
                parameters.retain(|given, _| !is_same_parameter(given, name));
                parameters.insert(name.to_owned(), value.value);
            }
        }
    }
    Ok(limits)
}

fn most(name: &'static str, text: &str) -> Result<usize, Error> {
    text.trim()
        .parse()
        .map_err(|_| Error::parameter(name, format!("expected a whole number, found '{text}'")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_groupings_is_for_query_profiles() {
        let refused = [
            "grouping.globalMaxGroups",
            "grouping.globalmaxgroups",
            "GROUPING.GLOBALMAXGROUPS",
            "source.music.grouping.globalMaxGroups",
            "source.a.b.grouping.globalMaxGroups",
            "provider.music.grouping.globalmaxgroups",
        ];
        for name in refused {
            let error = check_is_for_requests(name).expect_err(name).to_string();
            assert_eq!(
                error,
                "parameter 'grouping.globalMaxGroups': must be specified in a query profile: it bounds what a request may ask for",
            );
        }
        let taken =
            ["grouping.defaultMaxGroups", "grouping.defaultMaxHits", "hits", "x.grouping.globalMaxGroups"];
        for name in taken {
            assert!(check_is_for_requests(name).is_ok(), "{name}");
        }
    }
}
