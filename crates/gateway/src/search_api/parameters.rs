//! The parameters of a query: those of the request line, of a form or a JSON body, and what a query profile says where they are
//! silent.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::Request;
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Method};
use millrace_query::{Limits, is_parameter, is_same_parameter, value_of};

use crate::cluster::Hop;
use crate::http::{self, BodyShare, Parameters};
use crate::{Deployment, Error, Node};

/// Bytes of a query from which on its working memory is reserved: of fewer bytes nothing grows large.
const LARGE_BYTES_MIN: usize = 64 << 10;

/// How many times its bytes a large query may take in memory, as parameters, conditions and plan: they are reserved together.
const WORKING_FACTOR: usize = 8;

/// How many times as many parameters as a client a node may send: it adds those of query profiles.
const NODE_FACTOR: usize = 4;

/// The parameters of a request.
pub(super) struct Read {
    pub(super) parameters: BTreeMap<String, String>,
    /// What the query may ask for at most.
    pub(super) limits: Limits,
    /// The bytes of the budget of bodies that the query takes, to be kept until it is answered.
    pub(super) room: Option<BodyShare>,
}

/// Reads them. Of a parameter that stands in the body and in the request line, that of the body holds.
pub(super) async fn read(
    node: &Node,
    deployment: &Deployment,
    hop: &Hop,
    request: Request,
) -> Result<Read, Error> {
    let (parts, body) = request.into_parts();
    let settings = &node.settings().limits;
    // Anybody can write the header of a hop; where there are no other nodes, nobody has reason to.
    let is_of_node = *hop != Hop::Client && node.cluster().is_some();
    let (bounds, most) = match is_of_node {
        false => (node.query_bounds(), settings.parameters_max),
        true => (node.body_bounds(), settings.parameters_max.saturating_mul(NODE_FACTOR)),
    };
    let line = Parameters::parse(parts.uri.query().unwrap_or(""), most)?;
    let mut room = None;
    let mut parameters: BTreeMap<String, String> = BTreeMap::new();
    match parts.method {
        Method::GET | Method::HEAD => parameters.extend(line.into_pairs()),
        Method::POST => {
            let media = Media::of(&parts.headers)?;
            let (body, mut share) = http::read_body(node, &parts.headers, body, bounds).await?.into_parts();
            let size = body.len();
            if size > LARGE_BYTES_MIN {
                share.grow(size.saturating_mul(WORKING_FACTOR)).await?;
            }
            room = Some(share);
            let read = move || media.parameters(line, &body, most);
            parameters = http::within_or_pooled(node, http::WorkSize::of_query(size), read).await??;
        }
        other => {
            return Err(Error::MethodNotAllowed { method: other.to_string(), allowed: "GET, POST" });
        }
    }
    let limits = fill_in(node, deployment, &mut parameters)?;
    Ok(Read { parameters, limits, room })
}

/// The form of a body.
enum Media {
    Json,
    Form,
}

impl Media {
    fn of(headers: &HeaderMap) -> Result<Self, Error> {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match content_type.and_then(|value| value.split(';').next()).unwrap_or("").trim() {
            "application/json" => Ok(Media::Json),
            "application/x-www-form-urlencoded" | "" => Ok(Media::Form),
            other => Err(Error::BadRequest(format!(
                "content-type '{other}' is not known here; POST the query as application/json or as a form"
            ))),
        }
    }

    /// Those of the request line and of the body.
    fn parameters(
        &self,
        line: Parameters,
        body: &[u8],
        most: usize,
    ) -> Result<BTreeMap<String, String>, Error> {
        if matches!(self, Media::Json) {
            let of_body = millrace_query::flatten(body, most.saturating_sub(line.len()))?;
            let mut parameters: BTreeMap<String, String> = line.into_pairs().collect();
            parameters.extend(of_body);
            return Ok(parameters);
        }
        let text = std::str::from_utf8(body)
            .map_err(|_| Error::BadRequest("the form in the request body is not UTF-8".to_owned()))?;
        if text.trim_start().starts_with('{') {
            let reason =
                "the request body is JSON, but came as a form; send it with 'Content-Type: application/json'";
            return Err(Error::BadRequest(reason.to_owned()));
        }
        Ok(line.and(text, most)?.into_pairs().collect())
    }
}

/// Adds what the query profile says; what a request may ask for at most is for it alone to say.
fn fill_in(
    node: &Node,
    deployment: &Deployment,
    parameters: &mut BTreeMap<String, String>,
) -> Result<Limits, Error> {
    let mut limits = Limits { max_timeout: max_timeout(node, deployment), ..Limits::default() };
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

/// The longest timeout of a query: what services.xml allows where it says so, else the node's own bound.
fn max_timeout(node: &Node, deployment: &Deployment) -> Duration {
    let clusters = &deployment.application.content;
    let allowed = clusters.iter().filter_map(|cluster| cluster.tuning.query_timeout_s);
    let allowed = allowed.filter_map(|seconds| Duration::try_from_secs_f64(seconds).ok()).max();
    allowed.unwrap_or(node.settings().limits.query_timeout_max)
}

fn most(name: &'static str, text: &str) -> Result<usize, Error> {
    text.trim()
        .parse()
        .map_err(|_| Error::parameter(name, format!("expected a whole number, found '{text}'")))
}
