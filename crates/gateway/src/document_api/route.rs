//! Destination of an operation: the parameters `route` and `cluster`.
//!
//! There is one store, and every document is stored in it once; a route chooses the content clusters that a
//! document may belong to.

use millrace_node::deployment::CompiledDocumentType;
use millrace_node::{CompiledApplication, Error};

use super::DocumentCall;

/// Content clusters that an operation is sent to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WriteDestination {
    All,
    Clusters(Vec<String>),
}

impl WriteDestination {
    /// Reads the parameters of a request.
    pub(super) fn read(
        call: &DocumentCall,
        deployment: &CompiledApplication,
        kind: &CompiledDocumentType,
    ) -> Result<Self, Error> {
        if let Some(cluster) = call.parameters.get("cluster") {
            deployment.cluster(cluster)?;
        }
        let Some(route) = call.parameters.get("route").filter(|route| !route.trim().is_empty()) else {
            return Ok(WriteDestination::All);
        };
        let clusters = deployment.application.content.iter().map(|cluster| &*cluster.id);
        WriteDestination::of_route(route, &clusters.collect::<Vec<_>>()).ok_or_else(|| {
            Error::parameter(
                "route",
                format!(
                    "'{route}' leads nowhere; use 'default' or a content cluster: {}",
                    kind.cluster_names()
                ),
            )
        })
    }

    /// True if it is sent to this cluster.
    pub(super) fn includes(&self, cluster: &str) -> bool {
        match self {
            WriteDestination::All => true,
            WriteDestination::Clusters(clusters) => clusters.iter().any(|known| known == cluster),
        }
    }

    /// Destination of a route: its hops, separated by white space, several at once as `[AND:a b]`. Hops that
    /// are not clusters are ignored: no others exist here. `None` if no hop leads to a cluster.
    fn of_route(route: &str, known: &[&str]) -> Option<Self> {
        let mut clusters = Vec::new();
        let parts = route.split(|c: char| c.is_whitespace() || "[]\",".contains(c));
        for hop in parts.map(|hop| hop.trim_start_matches("AND:").trim_start_matches('?')) {
            if matches!(hop, "default" | "indexing") {
                return Some(WriteDestination::All);
            }
            let name = ["storage/cluster.", "search/cluster."]
                .iter()
                .find_map(|prefix| hop.strip_prefix(prefix))
                .map_or(hop, |rest| rest.split('/').next().unwrap_or_default());
            let name =
                ["-index", "-direct"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
            clusters.extend(
                known.iter().filter(|known| **known == name || **known == hop).map(|id| (*id).to_owned()),
            );
        }
        (!clusters.is_empty()).then_some(WriteDestination::Clusters(clusters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_lead_to_clusters() {
        #[track_caller]
        fn check(route: &str, expected: Option<&[&str]>) {
            let clusters =
                |ids: &[&str]| WriteDestination::Clusters(ids.iter().map(|id| (*id).to_owned()).collect());
            let expected =
                expected.map(|ids| if ids == ["*"] { WriteDestination::All } else { clusters(ids) });
            assert_eq!(WriteDestination::of_route(route, &["music", "books-index"]), expected, "{route}");
        }
        check("default", Some(&["*"]));
        check("indexing", Some(&["*"]));
        check("music", Some(&["music"]));
        check("music-index", Some(&["music"]));
        check("music-direct", Some(&["music"]));
        check("books-index", Some(&["books-index"]));
        check("storage/cluster.music", Some(&["music"]));
        check("storage/cluster.music/distributor/default", Some(&["music"]));
        check("\"[AND:music ?backup]\"", Some(&["music"]));
        check("[AND:default music]", Some(&["*"]));
        check("nowhere", None);
        check("[AND:]", None);
    }
}
