use crate::AccessRight;
use crate::AccessRight::{Admin, Deploy, Read, Write};

/// Port of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// The port for documents and queries.
    Data,
    /// The deployment port.
    Config,
    /// The port of Elasticsearch's interfaces.
    Elastic,
}

/// Kind of HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestMethod {
    /// `GET`, `HEAD` and `OPTIONS`, which change nothing.
    Safe,
    /// `DELETE`.
    Delete,
    /// Any other method.
    Other,
}

/// Requirement of an endpoint on its callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessRule {
    /// No credential is required.
    Open,
    /// A credential with one of these rights is required; any credential if there are none.
    AnyOf(&'static [AccessRight]),
    /// A credential with one of these rights is required, or one for all groups with the right to read.
    Whole(&'static [AccessRight]),
}

/// Endpoints of both ports that require no credential: load balancers ask for the first three, generators of
/// clients for the fourth, and browsers for the files of the page. They have no data.
const OPEN: [&str; 12] = [
    "/state/v1/health",
    "/state/v1/health/",
    "/status.html",
    "/openapi.json",
    "/page/style.css",
    "/page/page.js",
    "/page/dom.js",
    "/page/exact.js",
    "/page/fields.js",
    "/page/search.js",
    "/page/application.js",
    "/page/node.js",
];

impl AccessRule {
    /// Returns the rule for a path and a method.
    ///
    /// An unknown path requires the right to administer on the deployment port, and any credential on the
    /// data port: a new endpoint is never open by omission.
    pub fn of(port: PortKind, method: RequestMethod, path: &str) -> AccessRule {
        let is_safe = method == RequestMethod::Safe;
        if is_safe && OPEN.contains(&path) {
            return AccessRule::Open;
        }
        let below = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_export = method == RequestMethod::Other && path.ends_with("/export");
        let measures = ["/state/v1", "/metrics", "/prometheus", "/ApplicationStatus"];
        match port {
            PortKind::Data => match () {
                () if below("/document/v1") && is_safe => AccessRule::AnyOf(&[Read]),
                () if below("/group/v1") && (is_safe || is_export) => AccessRule::AnyOf(&[Read]),
                // The columns of a table.
                () if below("/feed/v1") && is_safe => AccessRule::AnyOf(&[Read, Write]),
                () if ["/document/v1", "/feed/v1", "/group/v1", "/v1/logs"].into_iter().any(below) => {
                    AccessRule::AnyOf(&[Write])
                }
                () if ["/search", "/mcp", "/model-evaluation", "/page/application"]
                    .into_iter()
                    .any(below) =>
                {
                    AccessRule::AnyOf(&[Read])
                }
                // What it reads and writes is checked with the request: it needs all groups.
                () if below("/elastic") => AccessRule::AnyOf(&[Read, Write]),
                () if below("/state/v1/cluster") && !is_safe => AccessRule::AnyOf(&[Admin]),
                () if measures.into_iter().chain(["/cluster/v2"]).any(below) => AccessRule::Whole(&[Admin]),
                () => AccessRule::AnyOf(&[]),
            },
            PortKind::Elastic => AccessRule::AnyOf(&[Read, Write]),
            PortKind::Config => match () {
                () if below("/application/v2") && method == RequestMethod::Delete => {
                    AccessRule::AnyOf(&[Admin])
                }
                () if below("/application/v2") => AccessRule::AnyOf(&[Deploy, Admin]),
                () if measures.into_iter().chain(["/cluster/v2"]).any(below) && is_safe => {
                    AccessRule::Whole(&[Admin, Deploy])
                }
                () => AccessRule::AnyOf(&[Admin]),
            },
        }
    }
}
