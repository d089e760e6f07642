use std::sync::Arc;
use std::time::Duration;

/// What a name leads to that queries may give as a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The chain that answers for it.
    pub leader: SourceChain,
    /// The chains that a query may choose instead, by their providers (`source.NAME.provider`).
    pub participants: Vec<SourceChain>,
    /// Whether queries ask it that name no sources.
    pub is_default: bool,
}

/// A chain that answers for a source: it asks one content cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceChain {
    /// The id of its provider; of the cluster itself where no provider stands for that.
    pub provider: Arc<str>,
    /// The content cluster.
    pub cluster: Arc<str>,
    /// How it is waited for.
    pub options: FederationOptions,
}

/// How a source is waited for (`<federationoptions>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FederationOptions {
    /// How long it may take, where that is less than the query may.
    pub timeout: Option<Duration>,
    /// Whether it is waited for no longer than others are; it is where nothing is said.
    pub optional: Option<bool>,
}

impl FederationOptions {
    /// Both together: what these say not, those below say.
    pub fn over(self, below: FederationOptions) -> FederationOptions {
        FederationOptions {
            timeout: self.timeout.or(below.timeout),
            optional: self.optional.or(below.optional),
        }
    }
}

/// Which sources a search chain asks, and what it makes of their results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Federation {
    /// Its sources; queries may choose among them.
    pub sources: Vec<FederatedSource>,
    /// Whether all hits become one list; else each source's stay by themselves, in a group.
    pub blends: bool,
}

/// A source of a search chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederatedSource {
    /// The source's name.
    pub name: String,
    /// How this chain waits for it; over what the source says itself.
    pub options: FederationOptions,
}
