use std::sync::Arc;
use std::time::Duration;

/// Meaning of a source name in queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTarget {
    /// The chain that answers by default.
    pub leader: SourceChain,
    /// Chains that a query may select instead, by their providers (`source.NAME.provider`).
    pub participants: Vec<SourceChain>,
    /// True if it is searched by queries that name no sources.
    pub is_default: bool,
}

/// A chain that answers for a source by searching one content cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceChain {
    /// Id of its provider; that of the cluster if no provider represents it.
    pub provider: Arc<str>,
    /// Name of the content cluster.
    pub cluster: Arc<str>,
    /// Wait options.
    pub options: FederationOptions,
}

/// Wait options of a source (`<federationoptions>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FederationOptions {
    /// Timeout, if it is shorter than that of the query.
    pub timeout: Option<Duration>,
    /// True to wait no longer than for the other sources; the default is false.
    pub optional: Option<bool>,
}

impl FederationOptions {
    /// Combines both: these options take precedence over the `defaults`.
    pub fn with_defaults(self, defaults: FederationOptions) -> FederationOptions {
        FederationOptions {
            timeout: self.timeout.or(defaults.timeout),
            optional: self.optional.or(defaults.optional),
        }
    }
}

/// Sources of a search chain, and the form of their results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederationConfig {
    /// Its sources; queries may select among them.
    pub sources: Vec<FederatedSource>,
    /// True to merge all hits into one list; otherwise each source's hits stay separate, in a group.
    pub blends: bool,
}

/// A source of a search chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederatedSource {
    /// Name of the source.
    pub name: String,
    /// Wait options of this chain; they override those of the source.
    pub options: FederationOptions,
}
