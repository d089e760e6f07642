//! Erasures of deleted groups on the nodes of a cluster: each erases by itself, and is asked about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_document::DocumentGroup;
use millrace_store::GroupErasure;
use tokio::task::JoinSet;

use super::{ClusterView, ListedNode, NodeAddress};
use crate::{Error, Node};

/// Question of a node for erasures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasureQuestion {
    /// The group; `None` for all that were deleted.
    pub group: Option<DocumentGroup>,
    /// Bound to which that of the group is lowered, as a time after the deletion.
    pub within: Option<Duration>,
}

/// Answers a question for the erasures of this node. That of a single group includes the places that still
/// have something of it.
///
/// # Errors
/// The ledger of erasures cannot be written; the files cannot be listed.
pub async fn own_erasures(node: &Arc<Node>, question: ErasureQuestion) -> Result<Vec<GroupErasure>, Error> {
    let store = node.store().clone();
    let answer = move || -> Result<Vec<GroupErasure>, Error> {
        let ErasureQuestion { group, within } = question;
        let Some(group) = group else { return Ok(store.erasures()) };
        let erasure = match within {
            Some(within) => store.erase_within(&group, within)?,
            None => store.erasure(&group)?,
        };
        Ok(erasure.into_iter().collect())
    };
    node.pool().run(answer).await?
}

/// Asks all nodes of the cluster for their erasures until a deadline, and returns the answer of each, by key.
/// Nodes that do not serve are not asked.
///
/// # Errors
/// The cluster has no state yet.
pub async fn erasures_of_all(
    node: &Arc<Node>,
    cluster: &dyn ClusterView,
    question: &ErasureQuestion,
    deadline: Instant,
) -> Result<Vec<(ListedNode, Result<Vec<GroupErasure>, Error>)>, Error> {
    let mut asked = JoinSet::new();
    let mut answers = Vec::new();
    for listed in ListedNode::all(&*cluster.state()?) {
        if let Some(state) = listed.away {
            let reason = format!("the node is {state}; it erases when it is back, within its own bound");
            answers.push((listed, Err(Error::Unsettled(reason))));
            continue;
        }
        let (node, place, question) = (Arc::clone(node), cluster.place(listed.key), question.clone());
        asked.spawn(async move {
            let answer = async {
                match place? {
                    NodeAddress::Here => own_erasures(&node, question).await,
                    NodeAddress::At(remote) => {
                        let silent = || Error::Unreachable {
                            address: remote.address.clone(),
                            reason: "it does not answer about its erasures in time".to_owned(),
                            sent: true,
                        };
                        let answer = node.transport()?.erasures(remote.clone(), question);
                        tokio::time::timeout_at(deadline.into(), answer).await.map_err(|_| silent())?
                    }
                }
            };
            (listed, answer.await)
        });
    }
    while let Some(answer) = asked.join_next().await {
        answers.push(answer.map_err(|error| Error::Internal(error.to_string()))?);
    }
    answers.sort_by_key(|(listed, _)| listed.key);
    Ok(answers)
}
