//! Checkers: each looks at one bucket and proposes at most one operation. A checker sends nothing and stores
//! nothing.

use std::fmt;

use millrace_bucket::BucketId;
use millrace_cluster::NodeKey;

/// A replica, as a checker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaView {
    /// Its node, which serves.
    pub node: NodeKey,
    /// True if no rows are missing from it.
    pub complete: bool,
    /// Number of documents in it.
    pub documents: u64,
}

/// A bucket, as a checker sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckContext {
    /// Identifier of the bucket.
    pub bucket: BucketId,
    /// Nodes that should have a replica, the most preferred first. Nodes under maintenance keep their
    /// position.
    pub ideal: Vec<NodeKey>,
    /// The ideal nodes that serve.
    pub serving: Vec<NodeKey>,
    /// Replicas on nodes that serve.
    pub replicas: Vec<ReplicaView>,
    /// True if every complete replica is known to have all rows that any replica has.
    pub settled: bool,
    /// True if all nodes of the cluster serve, so that every replica is visible.
    pub all_serve: bool,
}

/// Urgency of an operation; the first is the most urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OperationPriority {
    /// Documents can be lost if one more node fails.
    TooFewReplicas,
    /// Replicas may differ, or rows may be missing from them.
    Diverged,
    /// All replicas exist, but on the wrong nodes.
    Move,
    /// More replicas than required.
    Superfluous,
}

impl OperationPriority {
    /// All priorities, the most urgent first.
    pub const ALL: [OperationPriority; 4] = [
        OperationPriority::TooFewReplicas,
        OperationPriority::Diverged,
        OperationPriority::Move,
        OperationPriority::Superfluous,
    ];
}

/// The action of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BucketAction {
    /// Create replicas on these nodes, then make all replicas equal and complete.
    Merge {
        /// Nodes without a replica.
        create: Vec<NodeKey>,
    },
    /// Delete the replicas on these nodes.
    Delete {
        /// Nodes whose replicas are deleted.
        nodes: Vec<NodeKey>,
    },
}

/// A proposed operation on a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationProposal {
    /// Its urgency.
    pub priority: OperationPriority,
    /// Its action.
    pub action: BucketAction,
    /// Nodes that take part.
    pub nodes: Vec<NodeKey>,
    /// Reason, for operators.
    pub reason: String,
}

/// All checkers, the most urgent first.
pub const CHECKERS: [fn(&CheckContext) -> Option<OperationProposal>; 5] =
    [too_few_replicas, diverged, incomplete, not_ideal, superfluous];

/// Returns the most urgent operation that a bucket needs.
pub fn check(context: &CheckContext) -> Option<OperationProposal> {
    CHECKERS.iter().find_map(|checker| checker(context))
}

/// Proposes a new replica if there are too few and a node without one should have one.
pub fn too_few_replicas(context: &CheckContext) -> Option<OperationProposal> {
    let (there, wanted) = (context.replicas.len(), context.ideal.len());
    if there == 0 || there >= wanted {
        return None;
    }
    let missing = context.missing();
    let reason = format!("{there} of {wanted} replicas; new on {}", NodeList(&missing));
    context.merge(OperationPriority::TooFewReplicas, missing, reason)
}

/// Proposes a merge of replicas that may differ.
pub fn diverged(context: &CheckContext) -> Option<OperationProposal> {
    if context.settled || context.replicas.is_empty() {
        return None;
    }
    let nodes: Vec<NodeKey> = context.replicas.iter().map(|replica| replica.node).collect();
    let reason = format!("replicas on {} may differ", NodeList(&nodes));
    Some(OperationProposal {
        priority: OperationPriority::Diverged,
        action: BucketAction::Merge { create: Vec::new() },
        nodes,
        reason,
    })
}

/// Proposes to fill incomplete replicas where possible: from a complete replica, or from each other if no
/// other replica can exist anywhere.
pub fn incomplete(context: &CheckContext) -> Option<OperationProposal> {
    let incomplete: Vec<NodeKey> =
        context.replicas.iter().filter(|replica| !replica.complete).map(|replica| replica.node).collect();
    let fillable = context.all_serve || incomplete.len() < context.replicas.len();
    if incomplete.is_empty() || !fillable {
        return None;
    }
    let nodes = context.replicas.iter().map(|replica| replica.node).collect();
    let reason = format!("replica on {} is incomplete", NodeList(&incomplete));
    Some(OperationProposal {
        priority: OperationPriority::Diverged,
        action: BucketAction::Merge { create: Vec::new() },
        nodes,
        reason,
    })
}

/// Proposes a replica for a node that should have one and does not.
pub fn not_ideal(context: &CheckContext) -> Option<OperationProposal> {
    if context.replicas.is_empty() {
        return None;
    }
    let missing = context.missing();
    let reason = format!("moves to {}", NodeList(&missing));
    context.merge(OperationPriority::Move, missing, reason)
}

/// Proposes to delete replicas on nodes that should have none, once all ideal replicas exist and are
/// complete.
pub fn superfluous(context: &CheckContext) -> Option<OperationProposal> {
    let nodes = context.superfluous();
    let replica = |node: &NodeKey| context.replicas.iter().find(|replica| replica.node == *node);
    let all_there = context.ideal.iter().all(|node| replica(node).is_some_and(|replica| replica.complete));
    if nodes.is_empty() || context.ideal.is_empty() || !all_there || !context.settled {
        return None;
    }
    let reason = format!("replica on {} is one too many", NodeList(&nodes));
    let all = context.replicas.iter().map(|replica| replica.node).collect();
    Some(OperationProposal {
        priority: OperationPriority::Superfluous,
        action: BucketAction::Delete { nodes },
        nodes: all,
        reason,
    })
}

impl CheckContext {
    /// Nodes that should have a replica, serve, and have none.
    fn missing(&self) -> Vec<NodeKey> {
        let has = |node: &&NodeKey| self.replicas.iter().any(|replica| replica.node == **node);
        self.serving.iter().filter(|node| !has(node)).copied().collect()
    }

    /// Nodes that have a replica and should have none.
    fn superfluous(&self) -> Vec<NodeKey> {
        self.replicas.iter().map(|replica| replica.node).filter(|node| !self.ideal.contains(node)).collect()
    }

    /// Number of replicas to create, fill or delete until the bucket is in its ideal state.
    pub fn distance(&self) -> u64 {
        if self.replicas.is_empty() {
            return 0;
        }
        let incomplete = self.replicas.iter().filter(|replica| !replica.complete).count();
        let superfluous = if self.ideal.is_empty() { 0 } else { self.superfluous().len() };
        (self.missing().len() + incomplete + superfluous + usize::from(!self.settled)) as u64
    }

    fn merge(
        &self,
        priority: OperationPriority,
        create: Vec<NodeKey>,
        reason: String,
    ) -> Option<OperationProposal> {
        if create.is_empty() {
            return None;
        }
        let mut nodes: Vec<NodeKey> = self.replicas.iter().map(|replica| replica.node).collect();
        nodes.extend(&create);
        Some(OperationProposal { priority, action: BucketAction::Merge { create }, nodes, reason })
    }
}

/// List of nodes, formatted for operators.
struct NodeList<'a>(&'a [NodeKey]);

impl fmt::Display for NodeList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, node) in self.0.iter().enumerate() {
            write!(f, "{}{node}", if index > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a bucket given as one line: the ideal nodes (`m`: under maintenance), then its replicas with
    /// their documents (`i`: incomplete), then `diverged`, and `away` if some node of the cluster does not
    /// serve.
    #[track_caller]
    fn check_line(line: &str, expected: &str) {
        let parts: Vec<&str> = line.split(" | ").collect();
        let key = |text: &str| NodeKey(text.trim_end_matches(['m', 'i']).parse().expect("a node's key"));
        let ideal: Vec<&str> = parts[0].split_whitespace().collect();
        let replica = |text: &str| {
            let (node, documents) = text.split_once('=').expect("node=documents");
            ReplicaView {
                node: key(node),
                complete: !documents.ends_with('i'),
                documents: documents.trim_end_matches('i').parse().expect("a count"),
            }
        };
        let context = CheckContext {
            bucket: BucketId::new(8, 1),
            ideal: ideal.iter().map(|node| key(node)).collect(),
            serving: ideal.iter().filter(|node| !node.ends_with('m')).map(|node| key(node)).collect(),
            replicas: parts[1].split_whitespace().map(replica).collect(),
            settled: !line.contains("diverged"),
            all_serve: !line.contains("away") && !parts[0].contains('m'),
        };
        let found = check(&context).map_or("nothing".to_owned(), |proposal| proposal.reason);
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn the_most_urgent_need_of_a_bucket_is_proposed() {
        for (line, expected) in [
            ("0 1 | 0=5 1=5", "nothing"),
            ("0 1 | ", "nothing"),
            // Too few replicas come first, even while replicas differ.
            ("0 1 2 | 0=5 1=4 | diverged", "2 of 3 replicas; new on 2"),
            ("0 1 | 3=5", "1 of 2 replicas; new on 0, 1"),
            // A node under maintenance keeps its position: no replacement is created for it, and nothing is
            // deleted before it is back.
            ("0m 1 | 1=5", "nothing"),
            ("0m 1 | 1=5 2=5", "nothing"),
            ("0 1 | 0=5 1=4 | diverged", "replicas on 0, 1 may differ"),
            ("0 1 | 0=5 | diverged | away", "1 of 2 replicas; new on 1"),
            ("0 | 0=5 | diverged", "replicas on 0 may differ"),
            ("0 1 | 0=5 1=0i", "replica on 1 is incomplete"),
            // No replica is declared complete while only absent nodes know what belongs in it.
            ("0 1 | 0=5i 1=5i | away", "nothing"),
            ("0 1 | 0=5i 1=5i", "replica on 0, 1 is incomplete"),
            ("0 1 | 0=5 2=5", "moves to 1"),
            ("0 1 | 2=5 3=5", "moves to 0, 1"),
            // Nothing is deleted while a remaining replica is incomplete.
            ("0 1 | 0=5 1=0i 2=5", "replica on 1 is incomplete"),
            ("0 1 | 0=5 1=5 2=5 | diverged", "replicas on 0, 1, 2 may differ"),
            ("0 1 | 0=5 1=5 2=5 3=5", "replica on 2, 3 is one too many"),
            // All nodes are retired: existing replicas stay.
            (" | 2=5", "nothing"),
        ] {
            check_line(line, expected);
        }
    }
}
