//! Complete ids in the conditions of requests for other nodes.
//!
//! At the endpoint of a group, conditions can have ids without the group. Nodes of earlier versions do not
//! know that a group is implied there, and would compare such an id as it is.

use axum::body::Body;
use hyper::Method;
use millrace_cluster::SHORT_IDS;
use millrace_document::DocumentGroup;
use millrace_node::Error;
use millrace_node::pool::BodySizeClass;
use millrace_selection::DocumentSelection;

use super::DocumentCall;
use super::path::DocumentTarget;
use crate::forwarding::ForwardedRequest;
use crate::http::{self, BodyBounds, RequestParameters};

/// Parameters that have ids in conditions.
const CONDITIONS: [&str; 2] = ["selection", CONDITION];

/// Parameter with the condition of a write, in place of that in its body.
const CONDITION: &str = "condition";

/// Parameters of a client's request for other nodes, with complete ids; `None` if they stay as they are,
/// since no group is implied, or all nodes know it.
///
/// # Errors
/// The body cannot be unpacked.
pub(super) async fn parameters(
    call: &DocumentCall,
    target: &DocumentTarget,
    request: &ForwardedRequest,
) -> Result<Option<RequestParameters>, Error> {
    let Some(group) = call.implied_group() else { return Ok(None) };
    if call.node.speaks(SHORT_IDS) {
        return Ok(None);
    }
    let has_own = matches!(target, DocumentTarget::Document(_)) && call.parameters.get(CONDITION).is_none();
    let of_body = match has_own {
        true => condition_of_body(call, request).await?,
        false => None,
    };
    Ok(Some(completed(group, &call.parameters, of_body.as_deref())))
}

/// The parameters with the group in the ids of their conditions, and that of the body as one of them.
fn completed(
    group: &DocumentGroup,
    parameters: &RequestParameters,
    of_body: Option<&str>,
) -> RequestParameters {
    // A text that is not a selection is refused where it is executed.
    let complete = |text: &str| {
        DocumentSelection::parse(text).map_or_else(|_| text.to_owned(), |parsed| parsed.text_within(group))
    };
    let given = parameters.iter().chain(of_body.map(|condition| (CONDITION, condition)));
    let complete_pair = |(name, value): (&str, &str)| {
        let value = if CONDITIONS.contains(&name) { complete(value) } else { value.to_owned() };
        (name.to_owned(), value)
    };
    given.map(complete_pair).collect()
}

/// Condition in the body of a write. A body that cannot be read has none: it is refused where it is executed.
async fn condition_of_body(call: &DocumentCall, request: &ForwardedRequest) -> Result<Option<String>, Error> {
    #[derive(serde::Deserialize)]
    struct ConditionOfBody {
        condition: Option<String>,
    }
    if ![Method::POST, Method::PUT].contains(&request.method) {
        return Ok(None);
    }
    let bounds = BodyBounds { is_reserved: true, ..call.body_bounds() };
    let body = Body::from(request.body.clone());
    let body = http::read_body(&call.node, &request.headers, body, bounds).await?;
    let size = BodySizeClass::of_document(body.len());
    let (body, _room) = body.into_parts();
    let find = move || serde_json::from_slice::<ConditionOfBody>(&body).ok().and_then(|body| body.condition);
    call.node.pool().run_sized(size, find).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_get_complete_ids() {
        let group = DocumentGroup::Name("ann".to_owned());
        for (parameters, of_body, expected) in [
            ("cluster=notes", None, "cluster=notes"),
            (
                r#"selection=id!="id:n:note::1"&cluster=notes"#,
                None,
                r#"selection=id!="id:n:note:g=ann:1"&cluster=notes"#,
            ),
            (r#"selection=id="id:n:note:g=bob:1""#, None, r#"selection=id="id:n:note:g=bob:1""#),
            (r#"condition=id="id:n:note::1""#, None, r#"condition=id="id:n:note:g=ann:1""#),
            (
                "route=default",
                Some(r#"id=="id:n:note::1""#),
                r#"route=default&condition=id=="id:n:note:g=ann:1""#,
            ),
            ("selection=(&continuation=id", None, "selection=(&continuation=id"),
            (r#"continuation="id:n:note::1""#, None, r#"continuation="id:n:note::1""#),
        ] {
            let given = RequestParameters::parse(parameters, 100).expect("few parameters");
            let found = completed(&group, &given, of_body);
            let pairs: Vec<String> = found.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(pairs.join("&"), expected, "{parameters}");
        }
    }
}
