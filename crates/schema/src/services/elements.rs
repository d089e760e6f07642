//! Elements that services.xml may contain, and their meaning.

/// A known element.
pub(super) struct KnownElement {
    pub name: &'static str,
    pub meaning: ElementSupport,
    pub children: &'static [KnownElement],
}

/// Effect of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementSupport {
    /// Read, or of the same effect with any content.
    Known,
    /// Known; its content is not checked.
    Closed,
    /// Without effect, for this reason.
    NoEffect(&'static str),
    /// Not supported, for this reason.
    Refused(&'static str),
}

const fn known(name: &'static str, children: &'static [KnownElement]) -> KnownElement {
    KnownElement { name, meaning: ElementSupport::Known, children }
}

const fn closed(name: &'static str) -> KnownElement {
    KnownElement { name, meaning: ElementSupport::Closed, children: &[] }
}

const fn no_effect(name: &'static str, reason: &'static str) -> KnownElement {
    KnownElement { name, meaning: ElementSupport::NoEffect(reason), children: &[] }
}

const fn refused(name: &'static str, reason: &'static str) -> KnownElement {
    KnownElement { name, meaning: ElementSupport::Refused(reason), children: &[] }
}

const JAVA: &str = "Java components do not run here: remove it, and do its work in the client";
const CONFIG: &str = "config overrides are not read: settings are in millrace's own configuration";
const ONE_PROCESS: &str = "the process scales its threads itself";

/// Elements of `services`.
pub(super) const SERVICES: &[KnownElement] = &[
    known("container", CONTAINER),
    known("content", CONTENT),
    closed("admin"),
    no_effect("routing", "operations go straight to their content cluster"),
    no_effect("config", CONFIG),
    refused("jdisc", "the element is named 'container' now: rename it"),
    known("legacy", &[no_effect("v7-geo-positions", "positions are shown as latitude and longitude")]),
    closed("preprocess:properties"),
    refused("include", "files are included by name: <preprocess:include file='…'/>"),
];

const CONTAINER: &[KnownElement] = &[
    known("search", SEARCH),
    known("document-api", DOCUMENT_API),
    known(
        "document-processing",
        &[
            closed("include"),
            known(
                "chain",
                &[
                    closed("inherits"),
                    closed("phase"),
                    closed("map"),
                    refused("documentprocessor", JAVA),
                    no_effect("config", CONFIG),
                ],
            ),
            refused("documentprocessor", JAVA),
            no_effect("config", CONFIG),
            closed("threadpool"),
        ],
    ),
    known(
        "processing",
        &[
            closed("binding"),
            closed("include"),
            refused("processor", JAVA),
            refused("renderer", JAVA),
            known(
                "chain",
                &[
                    closed("inherits"),
                    closed("phase"),
                    refused("processor", JAVA),
                    no_effect("config", CONFIG),
                ],
            ),
            no_effect("config", CONFIG),
        ],
    ),
    known(
        "http",
        &[
            known("server", &[no_effect("ssl", TLS), no_effect("ssl-provider", TLS), closed("config")]),
            known("filtering", FILTERING),
        ],
    ),
    known("components", &[closed("component"), closed("include")]),
    // Components are distinguished by type and class.
    closed("component"),
    // Handlers are distinguished by class.
    closed("handler"),
    refused("server", JAVA),
    no_effect("client-authorize", TLS),
    known("clients", &[known("client", &[closed("certificate"), closed("token")])]),
    known("model-evaluation", &[known("onnx", &[known("models", &[closed("model")])])]),
    closed("inference"),
    refused("document", "concrete document classes are Java: remove it, documents need no classes here"),
    closed("accesslog"),
    no_effect("config", CONFIG),
    closed("include"),
    closed("nodes"),
    closed("threadpool"),
    closed("zookeeper"),
    no_effect("secrets", "secrets are given in the server's own configuration"),
    no_effect("secret-store", "secrets are given in the server's own configuration"),
    closed("jvm"),
    closed("environment-variables"),
    closed("identity"),
    closed("rest-api"),
];

const TLS: &str = "TLS is set in the server's own configuration";

const FILTERING: &[KnownElement] = &[
    refused("filter", JAVA),
    known("request-chain", HTTP_CHAIN),
    known("response-chain", HTTP_CHAIN),
    closed("access-control"),
];

const HTTP_CHAIN: &[KnownElement] = &[
    closed("binding"),
    closed("inherits"),
    closed("phase"),
    refused("filter", JAVA),
    no_effect("config", CONFIG),
];

const SEARCH: &[KnownElement] = &[
    closed("binding"),
    closed("include"),
    known(
        "chain",
        &[
            closed("inherits"),
            closed("phase"),
            closed("exclude"),
            // Searchers are distinguished by class.
            closed("searcher"),
            known("federation", FEDERATION),
            no_effect("config", CONFIG),
        ],
    ),
    closed("searcher"),
    known("federation", FEDERATION),
    // Providers are distinguished by type.
    known("provider", PROVIDER),
    refused("renderer", JAVA),
    known("significance", &[closed("model")]),
    no_effect("semantic-rules", "the rule bases of rules/ are applied without it"),
    closed("threadpool"),
    no_effect("config", CONFIG),
];

const FEDERATION: &[KnownElement] = &[
    known("source", &[closed("federationoptions")]),
    closed("source-set"),
    refused("target-selector", "Java components do not run here: remove it, and name sources in the query"),
];

const PROVIDER: &[KnownElement] = &[
    closed("federationoptions"),
    known(
        "source",
        &[
            closed("federationoptions"),
            closed("inherits"),
            closed("phase"),
            closed("searcher"),
            no_effect("config", CONFIG),
        ],
    ),
    closed("inherits"),
    closed("phase"),
    // Searchers are distinguished by class.
    closed("searcher"),
    closed("nodes"),
    no_effect("config", CONFIG),
    refused("federation", "a provider asks one content cluster: put it into a <chain>"),
];

const DOCUMENT_API: &[KnownElement] = &[
    closed("binding"),
    closed("abortondocumenterror"),
    closed("retryenabled"),
    closed("route"),
    closed("maxpendingdocs"),
    closed("maxpendingbytes"),
    closed("retrydelay"),
    closed("timeout"),
    closed("tracelevel"),
    closed("mbusport"),
    closed("ignore-undefined-fields"),
    closed("max-document-size"),
    closed("threadpool"),
    closed("rest-api"),
    no_effect("config", CONFIG),
    no_effect("http-client-api", "the older feed API is gone"),
];

const CONTENT: &[KnownElement] = &[
    known(
        "documents",
        &[
            closed("document"),
            no_effect("document-processing", "indexing statements run where operations arrive"),
        ],
    ),
    closed("min-redundancy"),
    closed("redundancy"),
    closed("coverage-policy"),
    known("nodes", &[closed("node"), closed("resources")]),
    known("group", GROUP),
    known(
        "engine",
        &[
            known("proton", PROTON),
            no_effect("dummy", "documents are always kept by millrace's own store"),
            refused("vds", "the element is named 'proton' now"),
        ],
    ),
    known(
        "search",
        &[
            closed("query-timeout"),
            closed("visibility-delay"),
            known(
                "coverage",
                &[
                    closed("minimum"),
                    closed("min-wait-after-coverage-factor"),
                    closed("max-wait-after-coverage-factor"),
                ],
            ),
        ],
    ),
    known("tuning", TUNING),
    closed("index-service"),
    closed("dispatch"),
    // Controllers are elected among the nodes.
    closed("controllers"),
    no_effect("config", CONFIG),
];

const GROUP: &[KnownElement] = &[closed("distribution"), closed("node"), closed("nodes"), closed("group")];

const PROTON: &[KnownElement] = &[
    closed("searchable-copies"),
    closed("sync-transactionlog"),
    closed("flush-on-shutdown"),
    // The older place of settings in <search>.
    closed("query-timeout"),
    closed("visibility-delay"),
    known("resource-limits", &[closed("disk"), closed("memory")]),
    known("tuning", &[known("searchnode", SEARCHNODE), closed("dispatch")]),
];

const SEARCHNODE: &[KnownElement] = &[
    closed("lidspace"),
    no_effect("requestthreads", ONE_PROCESS),
    closed("flushstrategy"),
    closed("initialize"),
    closed("resizing"),
    closed("feeding"),
    closed("index"),
    known("removed-db", &[known("prune", &[closed("age"), closed("interval")])]),
    closed("summary"),
    closed("attribute"),
];

const TUNING: &[KnownElement] = &[
    closed("bucket-splitting"),
    closed("min-node-ratio-per-group"),
    closed("distribution"),
    closed("maintenance"),
    closed("max-document-size"),
    closed("merges"),
    no_effect("persistence-threads", ONE_PROCESS),
    known("resource-limits", &[closed("disk"), closed("memory")]),
    known("visitors", &[closed("max-concurrent")]),
    known(
        "dispatch",
        &[
            closed("max-hits-per-partition"),
            closed("dispatch-policy"),
            closed("prioritize-availability"),
            closed("min-active-docs-coverage"),
            closed("top-k-probability"),
        ],
    ),
    known(
        "cluster-controller",
        &[
            closed("init-progress-time"),
            closed("transition-time"),
            closed("max-premature-crashes"),
            closed("stable-state-period"),
            closed("min-distributor-up-ratio"),
            closed("min-storage-up-ratio"),
            closed("groups-allowed-down-ratio"),
        ],
    ),
];
