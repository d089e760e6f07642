//! Description of all operations over HTTP, at `/openapi.json` of both ports, and as a page of the
//! documentation. Rights are those that [`AccessRule`] requires, so they cannot differ from it.

mod operations;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use millrace_access::{AccessRule, PortKind, RequestMethod};
use serde_json::{Map, Value, json};

use self::operations::{ApiOperation, ApiParameter, ApiSection, PARAMETERS, PATH_PARAMETERS, SECTIONS};
use crate::GatewayState;
use crate::http;

/// Ports in the description.
#[derive(Debug, Clone, Copy)]
pub struct DescribedPorts {
    /// Port for documents and queries.
    pub data: u16,
    /// Port for deployment.
    pub config: u16,
}

impl Default for DescribedPorts {
    fn default() -> Self {
        DescribedPorts { data: 8080, config: 19071 }
    }
}

impl DescribedPorts {
    fn servers(self, ports: &[PortKind]) -> Value {
        let server = |port: &PortKind| match port {
            PortKind::Config => json!({ "url": format!("http://localhost:{}", self.config) }),
            PortKind::Data | PortKind::Elastic => json!({ "url": format!("http://localhost:{}", self.data) }),
        };
        ports.iter().map(server).collect()
    }
}

/// Answers with the description.
pub(crate) async fn handle(State(node): State<Arc<GatewayState>>) -> Response {
    let ports = DescribedPorts { data: node.port(), config: node.settings().config_port };
    http::json(StatusCode::OK, &openapi_document(ports))
}

/// Returns the description as an OpenAPI document.
pub fn openapi_document(ports: DescribedPorts) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for section in SECTIONS {
        for operation in section.operations {
            let path = paths.entry(operation.path.to_owned()).or_insert_with(|| json!({}));
            path[operation.method.to_ascii_lowercase()] = described(section, operation, ports);
        }
    }
    let tags = SECTIONS.iter().map(|section| json!({ "name": section.name }));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Millrace",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": "The operations of the data port are also below /person/NAME, restricted to the group NAME, and below /person-number/NUMBER.",
        },
        "servers": ports.servers(&[PortKind::Data]),
        "security": [{ "token": [] }],
        "tags": tags.collect::<Vec<_>>(),
        "paths": paths,
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
    })
}

fn described(section: &ApiSection, operation: &ApiOperation, ports: DescribedPorts) -> Value {
    let in_path = names_in(operation.path).map(|name| (name, "path", true, PATH_PARAMETERS));
    let in_query = operation.parameters.iter().map(|name| (*name, "query", false, PARAMETERS));
    let parameters = in_path.chain(in_query).map(|(name, place, required, known)| {
        let ApiParameter { name, kind, description } = parameter(name, known);
        json!({
            "name": name, "in": place, "required": required, "description": description,
            "schema": { "type": kind },
        })
    });
    let mut described = json!({
        "operationId": operation_id(operation),
        "tags": [section.name],
        "summary": operation.summary,
        "description": format!("Right: {}.", right(operation)),
        "servers": ports.servers(operation.ports),
        "responses": {
            "200": { "description": "Success", "content": { operation.answer: {} } },
            "default": { "description": "Error", "content": { "application/json": {} } },
        },
    });
    let parameters: Vec<Value> = parameters.collect();
    if !parameters.is_empty() {
        described["parameters"] = parameters.into();
    }
    if let Some(body) = operation.body {
        described["requestBody"] = json!({ "content": { body: {} } });
    }
    if operation.ports.iter().all(|port| rule(operation, *port) == AccessRule::Open) {
        described["security"] = json!([]);
    }
    described
}

/// Names of the parameters in a path, in order.
fn names_in(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

fn parameter(name: &str, known: &'static [ApiParameter]) -> &'static ApiParameter {
    let found = known.iter().find(|parameter| parameter.name == name);
    found.expect("every named parameter is described: a test looks all of them up")
}

/// Identifier for generated clients: the method, and the words of the path.
fn operation_id(operation: &ApiOperation) -> String {
    let mut id = operation.method.to_ascii_lowercase();
    let words = operation.path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    for word in words {
        let (first, rest) = word.split_at(1);
        id.push_str(&first.to_ascii_uppercase());
        id.push_str(rest);
    }
    id
}

fn rule(operation: &ApiOperation, port: PortKind) -> AccessRule {
    let method = match operation.method {
        "GET" => RequestMethod::Safe,
        "DELETE" => RequestMethod::Delete,
        _ => RequestMethod::Other,
    };
    AccessRule::of(port, method, operation.path)
}

/// Right that an operation requires, in words; for each port where they differ.
fn right(operation: &ApiOperation) -> String {
    let mut rights: Vec<String> = operation.ports.iter().map(|port| right_at(operation, *port)).collect();
    if rights.iter().all(|right| *right == rights[0]) {
        rights.truncate(1);
        return rights.concat();
    }
    let named = operation.ports.iter().zip(&rights);
    named.map(|(port, right)| format!("{}: {right}", port_name(port))).collect::<Vec<_>>().join("; ")
}

fn port_name(port: &PortKind) -> &'static str {
    if *port == PortKind::Config { "config" } else { "data" }
}

fn right_at(operation: &ApiOperation, port: PortKind) -> String {
    let any = |rights: &[millrace_access::AccessRight]| {
        rights.iter().map(|right| right.name()).collect::<Vec<_>>().join(" or ")
    };
    match rule(operation, port) {
        AccessRule::Open => "none".to_owned(),
        AccessRule::AnyOf([]) => "any credential".to_owned(),
        AccessRule::AnyOf(rights) => any(rights),
        AccessRule::Whole(rights) => format!("{}, or read of all groups", any(rights)),
    }
}

/// Returns the description as a page of the documentation.
pub fn openapi_page() -> String {
    let mut text = String::from(
        "# HTTP reference\n\nAll operations over HTTP, as `GET /openapi.json` of both ports describes them. \
         Port *data* is 8080\nunless set otherwise, *config* is 19071. The operations of the data port are \
         also below `/person/NAME`,\nrestricted to the group NAME, and below `/person-number/NUMBER` \
         ([security.md](../security.md)).\n",
    );
    for section in SECTIONS {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n## {}\n\nMore in [{page}](../{page}).\n\n| operation | port | right | effect | parameters |\n\
             |---|---|---|---|---|\n",
            section.name,
            page = section.page
        );
        for operation in section.operations {
            let ports: Vec<&str> = operation.ports.iter().map(port_name).collect();
            let parameters: Vec<String> =
                operation.parameters.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(
                text,
                "| `{} {}` | {} | {} | {} | {} |",
                operation.method,
                operation.path,
                ports.join(", "),
                right(operation),
                operation.summary,
                parameters.join(", ")
            );
        }
    }
    text.push_str("\n## Parameters\n\n| parameter | type | meaning |\n|---|---|---|\n");
    for ApiParameter { name, kind, description } in PARAMETERS {
        let _ = writeln!(text, "| `{name}` | {kind} | {description} |");
    }
    text
}
