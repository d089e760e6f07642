//! Parameters of a query: those of the request line, of a form or a JSON body, with defaults from a query
//! profile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Method};
use millrace_node::cluster::ForwardKind;
use millrace_node::pool::BodySizeClass;
use millrace_node::work::WorkKind;
use millrace_node::{CompiledApplication, Error};
use millrace_query::{QueryLimits, is_parameter, is_same_parameter, parameter_precedence, value_of};

use super::format::ResultFormat;
use crate::GatewayState;
use crate::http::{self, BodyBounds, BudgetReservation, RequestParameters};

/// Maximum number of parameters from a node, as a multiple of that from a client: a node adds those of query
/// profiles.
const NODE_FACTOR: usize = 4;

/// The parameters of a request.
pub(super) struct ReadParameters {
    pub(super) parameters: BTreeMap<String, String>,
    /// Limits of the query.
    pub(super) limits: QueryLimits,
    /// Memory that the query takes of the budget, held until it is answered.
    pub(super) room: Arc<BudgetReservation>,
}

/// Limits that bound what a request may ask for. As in Vespa, only query profiles may set them.
pub(super) const LIMITS_OF_PROFILES: &[&str] =
    &["grouping.globalMaxGroups", "maxHits", "maxOffset", "maxQueryItems"];

/// Reads the parameters. The request line takes precedence over a JSON body, and a form over the request
/// line. The format that they ask for is noted before they are checked, so that errors have it.
pub(super) async fn read(
    node: &GatewayState,
    deployment: &CompiledApplication,
    stage: &ForwardKind,
    request: Request,
    format: &mut ResultFormat,
) -> Result<ReadParameters, Error> {
    let (mut parts, body) = request.into_parts();
    let settings = &node.settings().limits;
    // Anyone can write the hop header; without other nodes there is no legitimate reason to.
    let is_of_node = *stage != ForwardKind::Client && !node.cluster().is_alone();
    let (bounds, parameters_max) = match is_of_node {
        false => (node.query_bounds(), settings.parameters_max),
        true => (node.body_bounds(), settings.parameters_max.saturating_mul(NODE_FACTOR)),
    };
    let text = parts.uri.query().unwrap_or("");
    let line = RequestParameters::parse(text, parameters_max)?;
    let kind = WorkKind::Query(deployment.input_block);
    let reserved = parts.extensions.remove::<Arc<BudgetReservation>>();
    let bounds = BodyBounds { is_reserved: reserved.is_some(), ..bounds };
    let room;
    let mut parameters: BTreeMap<String, String> = BTreeMap::new();
    match parts.method {
        Method::GET | Method::HEAD => {
            let mut share = node.budget().share();
            share.work(kind, text.as_bytes()).await?;
            room = Arc::new(share);
            parameters.extend(line.into_pairs());
        }
        Method::POST => {
            let media = BodyMedia::from_headers(&parts.headers)?;
            let (body, mut share) = http::read_body(node, &parts.headers, body, bounds).await?.into_parts();
            let size = body.len();
            room = match reserved {
                Some(reserved) => reserved,
                None => {
                    share.work(kind, &body).await?;
                    Arc::new(share)
                }
            };
            let held = Arc::clone(&room);
            let read = move || {
                let _held = held;
                media.parameters(line, &body, parameters_max)
            };
            parameters = node.pool().run_sized(BodySizeClass::of_query(size), read).await??;
        }
        other => {
            return Err(Error::MethodNotAllowed { method: other.to_string(), allowed: "GET, POST" });
        }
    }
    // A query profile may set another one, and an unknown one is an error of its own.
    if let Ok(asked) = ResultFormat::read(&parameters, &parts.headers) {
        *format = asked;
    }
    if !is_of_node {
        check(&parameters)?;
    }
    let limits = fill_in(node, deployment, &mut parameters)?;
    Ok(ReadParameters { parameters, limits, room })
}

/// Refuses parameters of a client that only query profiles may have, also if they are given for one source.
/// Parameters that a node forwards to another contain the values of query profiles and are not checked.
fn check(parameters: &BTreeMap<String, String>) -> Result<(), Error> {
    parameters.keys().try_for_each(|name| check_is_for_requests(name))
}

fn check_is_for_requests(name: &str) -> Result<(), Error> {
    let is_of_source = name.starts_with("source.") || name.starts_with("provider.");
    // `source.NAME.…`: a name may have dots itself.
    let mut tails = name.match_indices('.').map(|(at, _)| &name[at + 1..]).filter(|_| is_of_source);
    let limit = |name: &str| LIMITS_OF_PROFILES.iter().find(|limit| is_same_parameter(name, limit));
    match limit(name).or_else(|| tails.find_map(limit)) {
        Some(limit) => Err(Error::parameter(
            limit,
            "must be specified in a query profile: it bounds what a request may ask for",
        )),
        None => Ok(()),
    }
}

/// The form of a body.
enum BodyMedia {
    Json,
    Form,
}

impl BodyMedia {
    fn from_headers(headers: &HeaderMap) -> Result<Self, Error> {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = content_type.and_then(|value| value.split(';').next()).unwrap_or("").trim();
        // Media types are names in any letter case.
        match essence.to_ascii_lowercase().as_str() {
            "application/json" => Ok(BodyMedia::Json),
            "application/x-www-form-urlencoded" | "" => Ok(BodyMedia::Form),
            other => Err(Error::BadRequest(format!(
                "content-type '{other}' is not known here; POST the query as application/json or as a form"
            ))),
        }
    }

    /// Parameters of the request line and of the body.
    fn parameters(
        &self,
        line: RequestParameters,
        body: &[u8],
        parameters_max: usize,
    ) -> Result<BTreeMap<String, String>, Error> {
        if matches!(self, BodyMedia::Json) {
            let mut parameters = millrace_query::flatten(body, parameters_max.saturating_sub(line.len()))?;
            parameters.extend(line.into_pairs());
            return Ok(parameters);
        }
        let text = std::str::from_utf8(body)
            .map_err(|_| Error::BadRequest("the form in the request body is not UTF-8".to_owned()))?;
        if text.trim_start().starts_with('{') {
            let reason =
                "the request body is JSON, but came as a form; send it with 'Content-Type: application/json'";
            return Err(Error::BadRequest(reason.to_owned()));
        }
        Ok(line.and(text, parameters_max)?.into_pairs().collect())
    }
}

/// Adds the values of the query profile; only the profile itself may set limits of a request.
fn fill_in(
    node: &GatewayState,
    deployment: &CompiledApplication,
    parameters: &mut BTreeMap<String, String>,
) -> Result<QueryLimits, Error> {
    let of_requests = &node.settings().limits;
    let mut limits = QueryLimits {
        max_timeout: max_timeout(node, deployment),
        text_bytes_max: of_requests.query_text_bytes_max,
        tokens_max: of_requests.query_tokens_max,
        values_max: of_requests.query_values_max,
        ..QueryLimits::default()
    };
    let profiles = &deployment.application.query_profiles;
    // The groups to search are always set by the request.
    let is_built_in = |name: &str| is_parameter(name) || name.starts_with("streaming.");
    let mut values = profiles.values(parameters, &is_built_in, value_of)?;
    // A profile may have several names of one parameter, of which the first that is set stays.
    values.sort_by_key(|value| parameter_precedence(&value.name));
    for value in values {
        match value.name.as_str() {
            "maxHits" => limits.max_hits = limit("maxHits", &value.value)?,
            "maxOffset" => limits.max_offset = limit("maxOffset", &value.value)?,
            name if value.overridable && value_of(parameters, name).is_some() => {}
            name => {
                parameters.retain(|given, _| !is_same_parameter(given, name));
                parameters.insert(name.to_owned(), value.value);
            }
        }
    }
    Ok(limits)
}

/// Maximum timeout of a query: that of services.xml, otherwise the node's own limit.
fn max_timeout(node: &GatewayState, deployment: &CompiledApplication) -> Duration {
    let clusters = &deployment.application.content;
    let allowed = clusters.iter().filter_map(|cluster| cluster.tuning.query_timeout_s);
    let allowed = allowed.filter_map(|seconds| Duration::try_from_secs_f64(seconds).ok()).max();
    allowed.unwrap_or(node.settings().limits.query_timeout_max)
}

fn limit(name: &'static str, text: &str) -> Result<usize, Error> {
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
