//! The table of all operations over HTTP, in the order of the reference, and of their parameters.

use millrace_access::PortKind::{self, Config, Data};

/// An operation over HTTP.
pub(super) struct ApiOperation {
    /// Ports at which it is.
    pub(super) ports: &'static [PortKind],
    /// Method in capitals.
    pub(super) method: &'static str,
    /// Path with parameters in braces.
    pub(super) path: &'static str,
    /// Effect, as a verb phrase.
    pub(super) summary: &'static str,
    /// Names of parameters, of [`PARAMETERS`].
    pub(super) parameters: &'static [&'static str],
    /// Media type of the body, if it has one.
    pub(super) body: Option<&'static str>,
    /// Media type of the answer.
    pub(super) answer: &'static str,
}

/// A section of operations.
pub(super) struct ApiSection {
    pub(super) name: &'static str,
    /// Page of the documentation.
    pub(super) page: &'static str,
    pub(super) operations: &'static [ApiOperation],
}

impl ApiOperation {
    const fn new(
        ports: &'static [PortKind],
        method: &'static str,
        path: &'static str,
        summary: &'static str,
    ) -> Self {
        ApiOperation { ports, method, path, summary, parameters: &[], body: None, answer: JSON }
    }

    const fn takes(self, parameters: &'static [&'static str]) -> Self {
        ApiOperation { parameters, ..self }
    }

    const fn body(self, body: &'static str) -> Self {
        ApiOperation { body: Some(body), ..self }
    }

    const fn answers(self, answer: &'static str) -> Self {
        ApiOperation { answer, ..self }
    }
}

/// Creates an operation at the data port.
const fn data(method: &'static str, path: &'static str, summary: &'static str) -> ApiOperation {
    ApiOperation::new(&[Data], method, path, summary)
}

/// Creates an operation at the config port.
const fn config(method: &'static str, path: &'static str, summary: &'static str) -> ApiOperation {
    ApiOperation::new(&[Config], method, path, summary)
}

/// Creates an operation at both ports.
const fn at_both_ports(method: &'static str, path: &'static str, summary: &'static str) -> ApiOperation {
    ApiOperation::new(&[Data, Config], method, path, summary)
}

const JSON: &str = "application/json";
const LINES: &str = "application/jsonl";
const ARROW: &str = "application/vnd.apache.arrow.stream";
const TEXT: &str = "text/plain";
const HTML: &str = "text/html";
const SCRIPT: &str = "text/javascript";
const BINARY: &str = "application/octet-stream";
const ANY: &str = "*/*";
const ZIP: &str = "application/zip";

const QUERY: &[&str] = &[
    "yql",
    "query",
    "hits",
    "offset",
    "ranking.profile",
    "input.query(NAME)",
    "streaming.groupname",
    "streaming.groupnames",
    "streaming.userid",
    "streaming.selection",
    "model.sources",
    "model.restrict",
    "presentation.summary",
    "presentation.format",
    "timeout",
    "trace.level",
];
const GET: &[&str] = &["fieldSet", "format.tensors", "cluster", "timeout", "tracelevel"];
const WRITE: &[&str] = &["condition", "create", "route", "timeout", "dryRun", "tracelevel"];
const REMOVE: &[&str] = &["condition", "route", "timeout", "dryRun", "tracelevel"];
const VISIT: &[&str] = &[
    "cluster",
    "selection",
    "continuation",
    "wantedDocumentCount",
    "fieldSet",
    "format.tensors",
    "concurrency",
    "stream",
    "slices",
    "sliceId",
    "fromTimestamp",
    "toTimestamp",
    "includeRemoves",
    "bucketSpace",
    "timeout",
    "tracelevel",
];
const SWEEP: &[&str] =
    &["cluster", "selection", "continuation", "timeChunk", "timeout", "tracelevel", "wholeGroup"];
const GROUP: &[&str] = &["kind", "timeout"];

const EVALUATION: &[&str] = &["format.tensors", "missing-value"];

const FEED: &[&str] = &["timeout", "durability", "dedupe", "type", "namespace", "id", "group", "groupname"];

/// Description of a parameter.
pub(super) struct ApiParameter {
    pub(super) name: &'static str,
    /// Type as in JSON Schema.
    pub(super) kind: &'static str,
    pub(super) description: &'static str,
}

const fn text(name: &'static str, description: &'static str) -> ApiParameter {
    ApiParameter { name, kind: "string", description }
}

const fn number(name: &'static str, description: &'static str) -> ApiParameter {
    ApiParameter { name, kind: "integer", description }
}

const fn flag(name: &'static str, description: &'static str) -> ApiParameter {
    ApiParameter { name, kind: "boolean", description }
}

/// All parameters in queries of URLs.
pub(super) const PARAMETERS: &[ApiParameter] = &[
    text("at", "Time after the snapshot as of which the documents are taken, such as 2026-01-31T12:00:00Z"),
    text("bucketSpace", "Bucket space: default"),
    text("cluster", "Content cluster of the documents"),
    text("clusterId", "Content clusters, with commas between them"),
    number("concurrency", "Number of buckets that are read at a time"),
    text("condition", "Selection that the stored document must match"),
    text("continuation", "Value of the previous answer, for the next page"),
    number("count", "Maximum number of groups, 1 to 1,000; 100 by default"),
    flag("create", "Creates the document by an update if it does not exist"),
    text("dedupe", "body: the same body sent again is executed once, as under an Idempotency-Key"),
    text("destinationCluster", "Not supported: copying between content clusters is refused"),
    text("documentType", "Document types, with commas between them"),
    flag("dryRun", "Reads the request and changes nothing"),
    text("durability", "Durability of acknowledged operations"),
    flag("erase", "The same as within=0"),
    flag("erasures", "Lists the receipts of deleted groups instead of groups"),
    text("fieldSet", "Fields of the answer: [document], [all], or TYPE:FIELD,FIELD"),
    flag("force", "Forgets a node even if it has the only copy of some documents"),
    text("format.tensors", "Form of tensors: short, long, short-value, long-value, hex"),
    text("from", "Active application from which the package is copied"),
    number("fromTimestamp", "Minimum time of the documents, in microseconds since 1970"),
    text("group", "Column of a table with the groups of its rows"),
    text("groupname", "Group of all rows of a table"),
    number("hits", "Maximum number of hits; 10 by default"),
    text("id", "Column of a table with the ids of its rows, or their names; id by default"),
    flag("includeRemoves", "Returns removals as well"),
    flag("indexedOnly", "Restricts it to indexed types"),
    text("input.query(NAME)", "Input of the rank profile: a number, a tensor, or embed(…)"),
    text("kind", "Kind of the group in the path: name (default) or number"),
    text("model.restrict", "Schemas to search, with commas between them"),
    text("model.sources", "Content clusters to search, with commas between them"),
    text("method", "Origin of moved copies that the time is estimated for: auto, file or rebuild"),
    flag("missing", "With snapshot or at: writes only documents that are missing, and removes none"),
    text("missing-value", "Value of the arguments of a model that are not given"),
    text("name", "Name of the snapshot: letters, digits, - and _"),
    text("namespace", "Namespace of the rows of a table; the document type by default"),
    number("offset", "Number of hits to skip"),
    text("presentation.format", "Format of the result: json, cbor, xml"),
    text("presentation.summary", "Document summary of the hits"),
    text("query", "Query in the simple query language"),
    text("ranking.profile", "Rank profile"),
    text("recursive", "Lists what is below as well: true"),
    text("return", "Part of the answer: status"),
    text("route", "Route of the operation; the content cluster, or default"),
    text("selection", "Selection of the documents, for example true"),
    number("sliceId", "Slice of this request, from 0"),
    number("slices", "Number of slices of a visit"),
    text("snapshot", "Snapshot whose documents are taken; requires the right to administer"),
    number("speed", "Speed of reindexing, 0 to 10; 1 by default"),
    text("streaming.groupname", "Name of the group to search; commas belong to the name"),
    text("streaming.groupnames", "Names of groups to search, as a JSON list: [\"ann\", \"bob\"]"),
    text("streaming.userid", "Number of the group to search"),
    text("streaming.selection", "Selection of the documents to search; true for all groups"),
    flag("stream", "Streams the answer"),
    text("timeChunk", "Time after which the answer comes with a continuation"),
    text("timeout", "Time limit, for example 500ms or 2s"),
    number("toTimestamp", "Maximum time of the documents, in microseconds since 1970"),
    number("trace.level", "Detail of the trace in the result"),
    number("tracelevel", "Detail of the trace in the answer"),
    text("type", "Document type of the rows of a table"),
    number("wantedDocumentCount", "Minimum number of documents in an answer, if there are so many"),
    flag("wholeGroup", "Drops all documents of a group at once, also those that are written meanwhile"),
    text(
        "within",
        "Time within which the bytes of a deleted group leave the disk, such as 7d; less than --erase-within-s requires the right to administer",
    ),
    text("yql", "Query in YQL"),
];

/// Descriptions of the parameters in paths.
pub(super) const PATH_PARAMETERS: &[ApiParameter] = &[
    text("action", "Action: build, rebuild, verify, or move for a placed index"),
    text("cluster", "Content cluster"),
    text("file", "Path of a file in the package"),
    text("function", "Function of the model"),
    text("group", "Name of the group, percent-encoded"),
    text("id", "Document's own part of its id"),
    text("key", "Id of the API key"),
    text("model", "Model of the application"),
    text("name", "Name"),
    text("namespace", "Namespace of the documents"),
    text("node", "Distribution key of a node"),
    text("number", "Number of the group"),
    text("path", "Path of Elasticsearch's interface"),
    text("service", "Service: storage or distributor"),
    number("session", "Number of a session"),
    text("snapshot", "Name of a snapshot"),
    text("type", "Document type"),
];

const QUERIES: &[ApiOperation] = &[
    data("GET", "/search/", "Answers a query").takes(QUERY),
    data("POST", "/search/", "Answers a query whose parameters are the members of the body")
        .takes(QUERY)
        .body(JSON),
];

const DOCUMENTS: &[ApiOperation] = &[
    data("GET", "/document/v1/", "Visits documents of all types").takes(VISIT),
    data("DELETE", "/document/v1/", "Removes the documents that a selection matches").takes(SWEEP),
    data("GET", "/document/v1/{namespace}/{type}/docid/", "Visits the documents of a type").takes(VISIT),
    data("PUT", "/document/v1/{namespace}/{type}/docid/", "Updates the documents that a selection matches")
        .takes(SWEEP)
        .body(JSON),
    data(
        "DELETE",
        "/document/v1/{namespace}/{type}/docid/",
        "Removes the documents that a selection matches",
    )
    .takes(SWEEP),
    data("GET", "/document/v1/{namespace}/{type}/docid/{id}", "Returns a document").takes(GET),
    data("POST", "/document/v1/{namespace}/{type}/docid/{id}", "Puts a document").takes(WRITE).body(JSON),
    data("PUT", "/document/v1/{namespace}/{type}/docid/{id}", "Updates a document").takes(WRITE).body(JSON),
    data("DELETE", "/document/v1/{namespace}/{type}/docid/{id}", "Removes a document").takes(REMOVE),
    data("GET", "/document/v1/{namespace}/{type}/group/{group}/", "Visits the documents of a group")
        .takes(VISIT),
    data(
        "PUT",
        "/document/v1/{namespace}/{type}/group/{group}/",
        "Updates the documents of a group that a selection matches",
    )
    .takes(SWEEP)
    .body(JSON),
    data(
        "DELETE",
        "/document/v1/{namespace}/{type}/group/{group}/",
        "Removes the documents of a group that a selection matches",
    )
    .takes(SWEEP),
    data("GET", "/document/v1/{namespace}/{type}/group/{group}/{id}", "Returns a document of a group")
        .takes(GET),
    data("POST", "/document/v1/{namespace}/{type}/group/{group}/{id}", "Puts a document of a group")
        .takes(WRITE)
        .body(JSON),
    data("PUT", "/document/v1/{namespace}/{type}/group/{group}/{id}", "Updates a document of a group")
        .takes(WRITE)
        .body(JSON),
    data("DELETE", "/document/v1/{namespace}/{type}/group/{group}/{id}", "Removes a document of a group")
        .takes(REMOVE),
    data("GET", "/document/v1/{namespace}/{type}/number/{number}/", "Visits the documents of a group")
        .takes(VISIT),
    data(
        "PUT",
        "/document/v1/{namespace}/{type}/number/{number}/",
        "Updates the documents of a group that a selection matches",
    )
    .takes(SWEEP)
    .body(JSON),
    data(
        "DELETE",
        "/document/v1/{namespace}/{type}/number/{number}/",
        "Removes the documents of a group that a selection matches",
    )
    .takes(SWEEP),
    data("GET", "/document/v1/{namespace}/{type}/number/{number}/{id}", "Returns a document of a group")
        .takes(GET),
    data("POST", "/document/v1/{namespace}/{type}/number/{number}/{id}", "Puts a document of a group")
        .takes(WRITE)
        .body(JSON),
    data("PUT", "/document/v1/{namespace}/{type}/number/{number}/{id}", "Updates a document of a group")
        .takes(WRITE)
        .body(JSON),
    data("DELETE", "/document/v1/{namespace}/{type}/number/{number}/{id}", "Removes a document of a group")
        .takes(REMOVE),
];

const FEEDS: &[ApiOperation] = &[
    data("POST", "/feed/v1", "Executes a stream of operations, and answers with one line for each failure")
        .takes(FEED)
        .body(LINES)
        .answers(LINES),
    data(
        "GET",
        "/feed/v1",
        "Returns the columns of a table of a document type, as an Arrow table without rows",
    )
    .takes(&["type"])
    .answers(ARROW),
    data("POST", "/v1/logs", "Stores log records of OpenTelemetry").body("application/x-protobuf"),
];

const GROUPS: &[ApiOperation] = &[
    data("GET", "/group/v1/", "Lists the groups with their sizes").takes(&[
        "count",
        "continuation",
        "erasures",
        "timeout",
    ]),
    data("GET", "/group/v1/{group}", "Returns the size of a group").takes(GROUP),
    data("DELETE", "/group/v1/{group}", "Removes all documents of a group")
        .takes(&["kind", "within", "erase", "timeout"]),
    data("POST", "/group/v1/{group}/export", "Returns the documents of a group as JSON lines")
        .takes(&["kind", "type", "snapshot", "at"])
        .answers(LINES),
    data("POST", "/group/v1/{group}/restore", "Executes a stream of operations for documents of a group")
        .takes(&["kind", "timeout", "type", "namespace", "id", "snapshot", "at", "missing"])
        .body(LINES)
        .answers(LINES),
];

const MODELS: &[ApiOperation] = &[
    data("GET", "/model-evaluation/v1/", "Lists the models of the application"),
    data("GET", "/model-evaluation/v1/{model}", "Describes a model"),
    data("GET", "/model-evaluation/v1/{model}/eval", "Evaluates a model").takes(EVALUATION),
    data("POST", "/model-evaluation/v1/{model}/eval", "Evaluates a model, its inputs in the body")
        .takes(EVALUATION)
        .body("application/x-www-form-urlencoded"),
    data("GET", "/model-evaluation/v1/{model}/{function}", "Describes a function of a model"),
    data("GET", "/model-evaluation/v1/{model}/{function}/eval", "Evaluates a function of a model")
        .takes(EVALUATION),
    data("POST", "/model-evaluation/v1/{model}/{function}/eval", "Evaluates a function of a model")
        .takes(EVALUATION)
        .body("application/x-www-form-urlencoded"),
];

const AGENTS: &[ApiOperation] =
    &[data("POST", "/mcp/", "Answers a request of the Model Context Protocol").body(JSON)];

const ELASTIC: &[ApiOperation] = &[
    data("GET", "/elastic/", "Names the server, as clients of Elasticsearch ask"),
    data("GET", "/elastic/{path}", "Answers a request of Elasticsearch's interfaces").answers(ANY),
    data("POST", "/elastic/{path}", "Answers a request of Elasticsearch's interfaces").body(ANY).answers(ANY),
    data("PUT", "/elastic/{path}", "Answers a request of Elasticsearch's interfaces").body(ANY).answers(ANY),
    data("DELETE", "/elastic/{path}", "Answers a request of Elasticsearch's interfaces").answers(ANY),
];

const DEPLOYMENT: &[ApiOperation] = &[
    config("POST", "/application/v2/tenant/default/prepareandactivate", "Deploys an application package")
        .body(ZIP),
    config("POST", "/application/v2/tenant/default/session", "Creates a session with a package, or a copy")
        .takes(&["from"])
        .body(ZIP),
    config("PUT", "/application/v2/tenant/default/session/{session}/prepared", "Checks a session's package"),
    config("GET", "/application/v2/tenant/default/session/{session}/prepared", "Returns the check's result"),
    config("PUT", "/application/v2/tenant/default/session/{session}/active", "Activates a session's package"),
    config("GET", "/application/v2/tenant/default/session/{session}/content/{file}", "Returns a file")
        .takes(&["recursive", "return"])
        .answers(ANY),
    config("PUT", "/application/v2/tenant/default/session/{session}/content/{file}", "Writes a file")
        .body(ANY),
    config("DELETE", "/application/v2/tenant/default/session/{session}/content/{file}", "Deletes a file"),
    config("GET", "/application/v2/tenant/", "Lists the tenants: default"),
    config("GET", "/application/v2/tenant/default", "Describes the tenant"),
    config("PUT", "/application/v2/tenant/default", "Creates the tenant, which exists"),
    config("GET", "/application/v2/tenant/default/application/", "Lists the applications"),
    config("GET", "/application/v2/tenant/default/application/default", "Describes the active application"),
    config("DELETE", "/application/v2/tenant/default/application/default", "Deactivates the application"),
    config("GET", "/application/v2/tenant/default/application/default/content/{file}", "Returns a file")
        .takes(&["recursive", "return"])
        .answers(ANY),
    config(
        "GET",
        "/application/v2/tenant/default/application/default/serviceconverge",
        "Returns the generation that is in use",
    ),
    config(
        "GET",
        "/application/v2/tenant/default/application/default/reindexing",
        "Returns the progress of reindexing",
    ),
    config("POST", "/application/v2/tenant/default/application/default/reindex", "Starts reindexing")
        .takes(&["clusterId", "documentType", "indexedOnly", "speed"]),
    config("PUT", "/application/v2/tenant/default/application/default/reindex", "Changes its speed")
        .takes(&["clusterId", "documentType", "indexedOnly", "speed"]),
    config("GET", "/application/v2/host/{name}", "Names the application of a host"),
];

const INDEXES: &[ApiOperation] = &[
    config("GET", "/index/v1/", "Lists the indexes"),
    config("GET", "/index/v1/{cluster}/{name}", "Describes an index"),
    config("POST", "/index/v1/{cluster}/{name}/{action}", "Builds, rebuilds, verifies or moves an index")
        .body(JSON),
    config("GET", "/index/v1/plan", "Returns what a rebalance of placed indexes would move")
        .takes(&["method"]),
    config("GET", "/index/v1/rebalance", "Returns the progress of a rebalance"),
    config("POST", "/index/v1/rebalance", "Begins a rebalance"),
    config("DELETE", "/index/v1/rebalance", "Begins no further moves of a rebalance"),
    config("GET", "/index/v1/settings", "Returns the settings of placement"),
    config("PUT", "/index/v1/settings", "Changes settings of placement").body(JSON),
];

const SNAPSHOTS: &[ApiOperation] = &[
    config("GET", "/snapshot/v1/", "Lists the snapshots").takes(&["timeout"]),
    config("POST", "/snapshot/v1/", "Makes a snapshot, on all nodes of a cluster")
        .takes(&["name", "timeout"]),
    config("GET", "/snapshot/v1/{snapshot}", "Describes a snapshot").takes(&["timeout"]),
    config("DELETE", "/snapshot/v1/{snapshot}", "Deletes a snapshot").takes(&["timeout"]),
];

const ACCESS: &[ApiOperation] = &[
    config("GET", "/access/v1/key", "Lists the API keys of the cluster"),
    config("POST", "/access/v1/key", "Adds an API key to the cluster, by its record with a hash")
        .takes(&["timeout"])
        .body(JSON),
    config("DELETE", "/access/v1/key/{key}", "Revokes an API key on all nodes").takes(&["timeout"]),
];

const CLUSTER: &[ApiOperation] = &[
    at_both_ports("GET", "/cluster/v2/", "Lists the content clusters").takes(&["recursive"]),
    at_both_ports("GET", "/cluster/v2/{cluster}", "Describes a content cluster").takes(&["recursive"]),
    at_both_ports("GET", "/cluster/v2/{cluster}/{service}", "Lists the nodes of a service")
        .takes(&["recursive"]),
    at_both_ports("GET", "/cluster/v2/{cluster}/{service}/{node}", "Describes a node").takes(&["recursive"]),
    config("PUT", "/cluster/v2/{cluster}/{service}/{node}", "Sets the state wanted of a node").body(JSON),
    config("DELETE", "/cluster/v2/{cluster}/{service}/{node}", "Forgets a node that is gone")
        .takes(&["force"]),
    data("GET", "/state/v1/cluster", "Returns a node's data and transfers, on nodes of a cluster"),
    data("POST", "/state/v1/cluster/readers", "Names the readers of buckets, for other nodes")
        .body(BINARY)
        .answers(BINARY),
    data("POST", "/state/v1/cluster/erasures", "Reports erasures of deleted groups, for other nodes")
        .body(BINARY)
        .answers(BINARY),
    data(
        "POST",
        "/state/v1/cluster/documents",
        "Reads and writes documents of log partitions, for other nodes",
    )
    .body(BINARY)
    .answers(BINARY),
    data("POST", "/state/v1/cluster/groups", "Counts groups in buckets, for other nodes")
        .body(BINARY)
        .answers(BINARY),
    data("POST", "/state/v1/cluster/indexes", "Answers about its indexes, for other nodes")
        .body(BINARY)
        .answers(BINARY),
    data("POST", "/state/v1/cluster/placed-indexes", "Keeps copies of placed indexes, for other nodes")
        .body(BINARY)
        .answers(BINARY),
    data("POST", "/state/v1/cluster/snapshots", "Answers about its snapshots, for other nodes")
        .body(BINARY)
        .answers(BINARY),
];

const STATUS: &[ApiOperation] = &[
    at_both_ports(
        "GET",
        "/state/v1/health",
        "Returns 200 if the node can answer requests, and 503 otherwise",
    ),
    at_both_ports("GET", "/status.html", "Returns 200 if the node can answer requests, and 503 otherwise")
        .answers(HTML),
    at_both_ports("GET", "/state/v1/", "Lists the resources of the state"),
    at_both_ports("GET", "/state/v1/config", "Returns the generation of the application"),
    at_both_ports("GET", "/state/v1/version", "Returns the version"),
    at_both_ports("GET", "/state/v1/metrics", "Returns the metrics with their descriptions"),
    at_both_ports(
        "GET",
        "/state/v1/fields",
        "Returns the bytes on the node's disk by document type, field and form, the time that sealing took for them, and the uses of each field by queries",
    ),
    at_both_ports("GET", "/metrics/v1/", "Lists the resources of the metrics by service"),
    at_both_ports("GET", "/metrics/v1/values", "Returns the metrics by service"),
    at_both_ports("GET", "/metrics/v2/", "Lists the resources of the metrics by node"),
    at_both_ports("GET", "/metrics/v2/values", "Returns the metrics by node"),
    at_both_ports("GET", "/metrics", "Returns the metrics for Prometheus").answers(TEXT),
    at_both_ports("GET", "/prometheus/v1/", "Lists the resources of the metrics for Prometheus"),
    at_both_ports("GET", "/prometheus/v1/values", "Returns the metrics for Prometheus").answers(TEXT),
    at_both_ports("GET", "/ApplicationStatus", "Describes the application and the handlers"),
    at_both_ports("GET", "/openapi.json", "Returns the description of all operations over HTTP"),
];

const PAGE: &[ApiOperation] = &[
    data("GET", "/", "Lists the handlers; returns the page to a browser"),
    data("GET", "/page/application", "Describes the schemas of the application, for the page"),
    data("GET", "/page/style.css", "Returns a file of the page").answers("text/css"),
    data("GET", "/page/page.js", "Returns a file of the page").answers(SCRIPT),
    data("GET", "/page/dom.js", "Returns a file of the page").answers(SCRIPT),
    data("GET", "/page/exact.js", "Returns a file of the page").answers(SCRIPT),
    data("GET", "/page/fields.js", "Returns a file of the page").answers(SCRIPT),
    data("GET", "/page/search.js", "Returns a file of the page").answers(SCRIPT),
    data("GET", "/page/application.js", "Returns a file of the page").answers(SCRIPT),
    data("GET", "/page/node.js", "Returns a file of the page").answers(SCRIPT),
];

/// All sections, in the order of the reference.
pub(super) const SECTIONS: &[ApiSection] = &[
    ApiSection { name: "Queries", page: "guide.md", operations: QUERIES },
    ApiSection { name: "Documents", page: "guide.md", operations: DOCUMENTS },
    ApiSection { name: "Streams of operations", page: "loading.md", operations: FEEDS },
    ApiSection { name: "Groups", page: "groups.md", operations: GROUPS },
    ApiSection { name: "Models", page: "models.md", operations: MODELS },
    ApiSection { name: "Agents", page: "rag.md", operations: AGENTS },
    ApiSection { name: "Elasticsearch's interfaces", page: "elastic.md", operations: ELASTIC },
    ApiSection { name: "Deployment", page: "operations.md", operations: DEPLOYMENT },
    ApiSection { name: "Indexes", page: "indexes.md", operations: INDEXES },
    ApiSection { name: "Snapshots", page: "snapshots.md", operations: SNAPSHOTS },
    ApiSection { name: "API keys of a cluster", page: "security.md", operations: ACCESS },
    ApiSection { name: "Cluster", page: "operations.md", operations: CLUSTER },
    ApiSection { name: "Status and metrics", page: "operations.md", operations: STATUS },
    ApiSection { name: "Page", page: "page.md", operations: PAGE },
];
