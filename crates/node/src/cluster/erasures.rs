//! Erasures of deleted groups on the nodes of a cluster: each erases by itself, and is asked about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_document::DocumentGroup;
use millrace_store::GroupErasure;

use super::everyone::{ListedAnswer, QuestionWords, ask_all};
use super::{ClusterView, NodeAddress};
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
) -> Result<Vec<ListedAnswer<Vec<GroupErasure>>>, Error> {
    let words =
        QuestionWords { subject: "its erasures", away: "; it erases when it is back, within its own bound" };
    let ask = |address| {
        let (node, question) = (Arc::clone(node), question.clone());
        async move {
            match address {
                NodeAddress::Local => own_erasures(&node, question).await,
                NodeAddress::Remote(remote) => node.transport()?.erasures(remote, question).await,
            }
        }
    };
    ask_all(cluster, deadline, words, ask).await
}
