//! What assistants can ask for.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use hyper::header::CONTENT_TYPE;
use millrace_schema::{InputType, Schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Refusal;
use crate::{Node, http, search_api};

/// Calls of a tool.
#[derive(Deserialize)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// The tools, as they are listed.
pub(super) fn all() -> Value {
    json!([
        {
            "name": "getSchemas",
            "description": "The schemas that can be searched: their fields with types and what can be done with them, rank profiles with their inputs, and document summaries.",
            "inputSchema": { "type": "object", "properties": {} },
        },
        {
            "name": "executeQuery",
            "description": "Searches the documents of one group, best first. Give the conditions in YQL, such as: select * from sources * where title contains \"fox\" and year > 2000 limit 5",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "yql": { "type": "string", "description": "The query in YQL." },
                    "groupname": { "type": "string", "description": "Whose documents to search: the group's name." },
                    "parameters": {
                        "type": "object",
                        "description": "Further parameters of the query API by name, such as ranking, hits, query (for userQuery()) or input.query(name).",
                    },
                },
                "required": ["yql"],
            },
        },
    ])
}

/// The result of a call.
pub(super) async fn call(node: &Arc<Node>, parameters: Value) -> Result<Value, Refusal> {
    let wrong = |message: String| Refusal::new(Refusal::WRONG_PARAMETERS, message);
    let Call { name, arguments } = serde_json::from_value(parameters)
        .map_err(|error| wrong(format!("a call has the name of a tool and its arguments: {error}")))?;
    match name.as_str() {
        "getSchemas" => {
            let deployment = node.deployments().current().map_err(|error| wrong(error.to_string()))?;
            let schemas = deployment.application.schemas.values();
            Ok(content(&Value::Array(schemas.map(|schema| described(schema)).collect()), false))
        }
        "executeQuery" => {
            let (answer, is_error) = query(node, arguments).await.map_err(wrong)?;
            Ok(content(&answer, is_error))
        }
        other => Err(wrong(format!("there is no tool '{other}'; there are getSchemas and executeQuery"))),
    }
}

fn content(answer: &Value, is_error: bool) -> Value {
    json!({ "content": [{ "type": "text", "text": answer.to_string() }], "isError": is_error })
}

/// What `/search/` answers to the query, and whether it is refused.
async fn query(node: &Arc<Node>, mut arguments: Map<String, Value>) -> Result<(Value, bool), String> {
    let mut asked = match arguments.remove("parameters") {
        None => Map::new(),
        Some(Value::Object(parameters)) => parameters,
        Some(_) => return Err("'parameters' is an object, as in {\"hits\": 5}".to_owned()),
    };
    for (argument, parameter) in [("yql", "yql"), ("groupname", "streaming.groupname")] {
        asked.extend(arguments.remove(argument).map(|value| (parameter.to_owned(), value)));
    }
    if let Some(unknown) = arguments.keys().next() {
        return Err(format!(
            "executeQuery has no argument '{unknown}'; there are yql, groupname and parameters"
        ));
    }
    let request = Request::post("/search/")
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(Value::Object(asked).to_string()))
        .map_err(|error| error.to_string())?;
    let response = search_api::handle(State(Arc::clone(node)), request).await;
    let is_error = !response.status().is_success();
    let body = http::collect(response.into_body(), usize::MAX).await.map_err(|error| error.to_string())?;
    let answer = serde_json::from_slice(&body)
        .map_err(|_| "the result is not JSON: leave out presentation.format".to_owned())?;
    Ok((answer, is_error))
}

/// A schema, as far as queries are concerned.
fn described(schema: &Schema) -> Value {
    let fields: Vec<Value> = schema
        .fields
        .values()
        .map(|field| {
            json!({
                "name": &*field.name,
                "type": field.data_type.to_string(),
                "searchedAsText": field.is_text(),
                "attribute": field.attribute.is_some(),
            })
        })
        .collect();
    let profiles: Vec<Value> = schema
        .rank_profiles
        .values()
        .map(|profile| {
            let inputs: Map<String, Value> = profile
                .inputs
                .iter()
                .map(|(name, input)| {
                    let input_type = match &input.input_type {
                        InputType::Tensor(tensor_type) => tensor_type.to_string(),
                        InputType::String => "string".to_owned(),
                    };
                    (format!("query({name})"), input_type.into())
                })
                .collect();
            json!({ "name": profile.name, "inputs": inputs })
        })
        .collect();
    json!({
        "name": &*schema.name,
        "fields": fields,
        "fieldsets": schema.fieldsets.keys().collect::<Vec<_>>(),
        "rankProfiles": profiles,
        "documentSummaries": schema.summaries.keys().collect::<Vec<_>>(),
    })
}
