//! Examples of queries, for assistants that do not know YQL.

use serde_json::{Value, json};

use super::RpcRefusal;

/// The examples, as Markdown.
pub(super) const TEXT: &str = include_str!("examples.md");

/// Address of the resource. Clients check that it is absolute.
const URI: &str = "millrace:///resources/queryExamples";

/// Address that Vespa gives to the resource.
const RELATIVE_URI: &str = "/resources/queryExamples";

const MEDIA_TYPE: &str = "text/plain";

/// Description of the resource.
pub(super) fn resource() -> Value {
    json!({
        "name": "queryExamples",
        "uri": URI,
        "description": "Examples of queries in YQL, and how to call executeQuery with them. The application is an example too: getSchemas shows the fields that there are.",
        "mimeType": MEDIA_TYPE,
    })
}

/// Contents of the resource at `uri`.
pub(super) fn read(uri: &str) -> Result<Value, RpcRefusal> {
    if uri != URI && uri != RELATIVE_URI {
        let message = format!("no resource '{uri}'; there is {URI}");
        return Err(RpcRefusal::new(RpcRefusal::NO_SUCH_RESOURCE, message));
    }
    Ok(json!({ "contents": [{ "uri": uri, "mimeType": MEDIA_TYPE, "text": TEXT }] }))
}
