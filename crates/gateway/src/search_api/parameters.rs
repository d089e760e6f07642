//! The parameters of a query: those of the request line, of a form or a JSON body, and what a query profile says where they are
//! silent.

use std::collections::BTreeMap;

use axum::extract::Request;
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use millrace_query::Limits;
use millrace_schema::QueryProfile;

use crate::http::{self, Parameters};
use crate::{Deployment, Error};

/// Reads them. Of a parameter that stands in the body and in the request line, that of the body holds.
pub(super) async fn read(
    deployment: &Deployment,
    limit: usize,
    request: Request,
) -> Result<BTreeMap<String, String>, Error> {
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
    fill_in(deployment, &mut parameters)?;
    Ok(parameters)
}

/// The most that a query may ask for, which only its query profile can change.
pub(super) fn limits(
    deployment: &Deployment,
    parameters: &BTreeMap<String, String>,
) -> Result<Limits, Error> {
    let mut limits = Limits::default();
    let Some(profile) = profile(deployment, parameters)? else { return Ok(limits) };
    for (name, limit) in [("maxHits", &mut limits.max_hits), ("maxOffset", &mut limits.max_offset)] {
        if let Some(text) = profile.fields.get(name) {
            *limit = text.parse().map_err(|_| {
                Error::parameter(name, format!("the query profile sets it to '{text}', which is no number"))
            })?;
        }
    }
    Ok(limits)
}

/// The query profile that a query names, or else that of the name `default`.
fn profile<'d>(
    deployment: &'d Deployment,
    parameters: &BTreeMap<String, String>,
) -> Result<Option<&'d QueryProfile>, Error> {
    let profiles = &deployment.application.query_profiles;
    match parameters.get("queryProfile") {
        Some(id) => profiles.get(id).map(Some).ok_or_else(|| {
            let known: Vec<&str> = profiles.keys().map(String::as_str).collect();
            Error::parameter(
                "queryProfile",
                format!("there is none with id '{id}', only: {}", known.join(", ")),
            )
        }),
        None => Ok(profiles.get("default")),
    }
}

/// Adds what the query profile says.
fn fill_in(deployment: &Deployment, parameters: &mut BTreeMap<String, String>) -> Result<(), Error> {
    let Some(profile) = profile(deployment, parameters)? else { return Ok(()) };
    for (name, value) in &profile.fields {
        if profile.fixed.contains(name) {
            parameters.insert(name.clone(), value.clone());
        } else {
            parameters.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    Ok(())
}
