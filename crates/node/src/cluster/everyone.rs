//! Questions for all nodes of a cluster.

use std::time::Instant;

use millrace_cluster::{ClusterState, NodeEntry, NodeKey, NodeState};
use tokio::task::JoinSet;

use super::{ClusterView, NodeAddress};
use crate::Error;

/// Node of a cluster, as the cluster state has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedNode {
    /// Its key.
    pub key: NodeKey,
    /// Its name.
    pub name: String,
    /// Reason for which it does not serve, for example `down`; `None` if it does.
    pub away: Option<&'static str>,
}

impl ListedNode {
    /// Nodes of a cluster state, by their keys.
    pub fn all(state: &ClusterState) -> Vec<ListedNode> {
        let listed = |(key, entry): (&NodeKey, &NodeEntry)| ListedNode {
            key: *key,
            name: entry.name.clone(),
            away: match entry.state {
                NodeState::Up | NodeState::Retired => None,
                NodeState::Maintenance => Some("in maintenance"),
                NodeState::Down => Some("down"),
            },
        };
        state.nodes().iter().map(listed).collect()
    }
}

/// Answer of a node, or the reason why there is none.
pub type ListedAnswer<A> = (ListedNode, Result<A, Error>);

/// Texts of errors about a question.
pub(super) struct QuestionWords {
    /// Subject, as in "it does not answer about its erasures in time".
    pub subject: &'static str,
    /// Consequence for a node that does not serve.
    pub away: &'static str,
}

/// Asks all nodes that serve until a deadline, at the same time, and returns their answers by key.
///
/// # Errors
/// The cluster has no state yet.
pub(super) async fn ask_all<A, F>(
    cluster: &dyn ClusterView,
    deadline: Instant,
    words: QuestionWords,
    ask: impl Fn(NodeAddress) -> F,
) -> Result<Vec<ListedAnswer<A>>, Error>
where
    A: Send + 'static,
    F: Future<Output = Result<A, Error>> + Send + 'static,
{
    let mut requested = JoinSet::new();
    let mut answers = Vec::new();
    for listed in ListedNode::all(&*cluster.state()?) {
        if let Some(state) = listed.away {
            let reason = format!("the node is {state}{}", words.away);
            answers.push((listed, Err(Error::Unsettled(reason))));
            continue;
        }
        let address = match cluster.address(listed.key) {
            Ok(address) => address,
            Err(error) => {
                answers.push((listed, Err(error.into())));
                continue;
            }
        };
        let silent = Error::Unreachable {
            address: match &address {
                NodeAddress::Local => listed.name.clone(),
                NodeAddress::Remote(remote) => remote.address.clone(),
            },
            reason: format!("it does not answer about {} in time", words.subject),
            sent: true,
        };
        let answer = ask(address);
        requested.spawn(async move {
            let answer = tokio::time::timeout_at(deadline.into(), answer).await;
            (listed, answer.unwrap_or(Err(silent)))
        });
    }
    while let Some(answer) = requested.join_next().await {
        answers.push(answer.map_err(|error| Error::Internal(error.to_string()))?);
    }
    answers.sort_by_key(|(listed, _)| listed.key);
    Ok(answers)
}
