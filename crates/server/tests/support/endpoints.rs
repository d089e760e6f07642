//! Endpoints of both ports, with the rights that each requires.

use serde_json::{Value, json};

/// An endpoint, and the rights of which one suffices.
pub struct GuardedEndpoint {
    pub is_config_port: bool,
    pub method: &'static str,
    pub path: &'static str,
    /// Names of rights, with spaces between.
    pub permitted: &'static str,
}

impl GuardedEndpoint {
    /// True if an answer has its reason, and its status, in the places where clients of its API look.
    #[allow(dead_code, reason = "not all tests read refusals")]
    pub fn is_told(&self, status: u16, body: &Value) -> bool {
        let GuardedEndpoint { is_config_port, path, .. } = *self;
        let (message, others): (&str, Vec<(&str, Value)>) = match path {
            _ if is_config_port
                && ["/application", "/access", "/snapshot"].iter().any(|api| path.starts_with(api)) =>
            {
                let code = if status == 401 { "UNAUTHORIZED" } else { "FORBIDDEN" };
                ("/message", vec![("/error-code", json!(code))])
            }
            _ if path.starts_with("/search") => {
                ("/root/errors/0/message", vec![("/root/errors/0/code", json!(status))])
            }
            _ if path.starts_with("/elastic") => {
                let (kind, place) = (json!("security_exception"), "/error/root_cause/0/type");
                (
                    "/error/reason",
                    vec![("/error/type", kind.clone()), (place, kind), ("/status", json!(status))],
                )
            }
            _ if path.starts_with("/v1/logs") => {
                ("/message", vec![("/code", json!(if status == 401 { 16 } else { 7 }))])
            }
            _ if path.starts_with("/document") || path.starts_with("/feed") => {
                let path = path.split('?').next().unwrap_or_default();
                ("/message", vec![("/pathId", json!(path))])
            }
            _ => ("/message", Vec::new()),
        };
        let has_reason =
            body.pointer(message).and_then(Value::as_str).is_some_and(|reason| reason.len() > 20);
        has_reason && others.iter().all(|(place, expected)| body.pointer(place) == Some(expected))
    }
}

const fn data(method: &'static str, path: &'static str, permitted: &'static str) -> GuardedEndpoint {
    GuardedEndpoint { is_config_port: false, method, path, permitted }
}

const fn config(method: &'static str, path: &'static str, permitted: &'static str) -> GuardedEndpoint {
    GuardedEndpoint { is_config_port: true, method, path, permitted }
}

pub const ENDPOINTS: [GuardedEndpoint; 44] = [
    data("GET", "/search/?yql=select%20*%20from%20note%20where%20true&streaming.groupname=ann", "read"),
    data("POST", "/search/", "read"),
    data("POST", "/mcp/", "read"),
    data("GET", "/model-evaluation/v1/", "read"),
    data("GET", "/document/v1/n/note/group/ann/1", "read"),
    data("POST", "/document/v1/n/note/group/ann/9", "write"),
    data("PUT", "/document/v1/n/note/group/ann/9", "write"),
    data("DELETE", "/document/v1/n/note/group/ann/9", "write"),
    data("POST", "/v1/logs", "write"),
    data("POST", "/elastic/note/_search?routing=ann", "read"),
    data("PUT", "/elastic/note/_doc/9?routing=ann", "write"),
    data("GET", "/elastic/", "read write"),
    data("POST", "/feed/v1", "write"),
    data("GET", "/group/v1/", "read"),
    data("GET", "/group/v1/ann", "read"),
    data("POST", "/group/v1/ann/export", "read"),
    data("POST", "/group/v1/nobody/restore", "write"),
    data("DELETE", "/group/v1/nobody", "write"),
    data("DELETE", "/group/v1/export", "write"),
    data("GET", "/state/v1/metrics", "read admin"),
    data("GET", "/prometheus/v1/values", "read admin"),
    data("GET", "/ApplicationStatus", "read admin"),
    data("GET", "/page/application", "read"),
    data("GET", "/cluster/v2/?recursive=true", "read admin"),
    data("PUT", "/cluster/v2/c/storage/0", "read admin"),
    data("POST", "/state/v1/cluster/groups", "admin"),
    data("POST", "/state/v1/cluster/documents", "admin"),
    data("GET", "/", "read write deploy admin"),
    data("GET", "/nothing", "read write deploy admin"),
    config("GET", "/application/v2/tenant/", "deploy admin"),
    config("POST", "/application/v2/tenant/default/session", "deploy admin"),
    config("POST", "/application/v2/tenant/default/prepareandactivate", "deploy admin"),
    config("GET", "/cluster/v2/?recursive=true", "read deploy admin"),
    config("PUT", "/cluster/v2/c/storage/0", "admin"),
    config("GET", "/access/v1/key", "admin"),
    config("POST", "/access/v1/key", "admin"),
    config("DELETE", "/access/v1/key/abcdefghijkl", "admin"),
    config("GET", "/snapshot/v1/", "admin"),
    config("POST", "/snapshot/v1/?name=a.b", "admin"),
    config("GET", "/snapshot/v1/none", "admin"),
    config("DELETE", "/snapshot/v1/none", "admin"),
    config("GET", "/state/v1/metrics", "read deploy admin"),
    config("GET", "/nothing", "admin"),
    config("DELETE", "/application/v2/tenant/default/application/none", "admin"),
];
