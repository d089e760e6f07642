//! What should be done about a bucket: each checker looks at one bucket and proposes one operation, or none. It sends nothing and keeps
//! nothing.

use std::fmt;

use millrace_bucket::BucketId;

use crate::NodeKey;

/// A replica, as a checker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaView {
    /// On which node; it serves.
    pub node: NodeKey,
    /// Whether it lacks nothing.
    pub complete: bool,
    /// Documents in it.
    pub documents: u64,
}

/// A bucket, as a checker sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    /// Which bucket.
    pub bucket: BucketId,
    /// Nodes that should have a replica, the most preferred first. Those under maintenance keep their place.
    pub ideal: Vec<NodeKey>,
    /// Those of them that serve.
    pub serving: Vec<NodeKey>,
    /// The replicas on nodes that serve.
    pub replicas: Vec<ReplicaView>,
    /// Whether every complete replica is known to have all that any of them has.
    pub settled: bool,
    /// Whether all nodes of the cluster serve, so that no replica is out of sight.
    pub all_serve: bool,
}

/// How urgent an operation is; the first is the most urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// One more node lost, and documents can be.
    TooFewReplicas,
    /// Replicas may differ, or lack something.
    Diverged,
    /// All is there, in the wrong place.
    Move,
    /// There is more than has to be.
    Superfluous,
}

impl Priority {
    /// All of them, the most urgent first.
    pub const ALL: [Priority; 4] =
        [Priority::TooFewReplicas, Priority::Diverged, Priority::Move, Priority::Superfluous];
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make replicas on these nodes, then make all replicas equal and complete.
    Merge {
        /// The nodes without a replica.
        create: Vec<NodeKey>,
    },
    /// Delete the replicas on these nodes.
    Delete {
        /// The nodes.
        nodes: Vec<NodeKey>,
    },
}

/// An operation on a bucket that should be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// How urgent it is.
    pub priority: Priority,
    /// What is to be done.
    pub action: Action,
    /// The nodes that take part.
    pub nodes: Vec<NodeKey>,
    /// Why, for operators.
    pub reason: String,
}

/// The checkers, the most urgent first.
pub const CHECKERS: [fn(&Context) -> Option<Proposal>; 5] =
    [too_few_replicas, diverged, incomplete, not_ideal, superfluous];

/// The most urgent operation that a bucket needs.
pub fn check(context: &Context) -> Option<Proposal> {
    CHECKERS.iter().find_map(|checker| checker(context))
}

/// Fewer replicas than there should be, and a node that should have one.
pub fn too_few_replicas(context: &Context) -> Option<Proposal> {
    let (there, wanted) = (context.replicas.len(), context.ideal.len());
    if there == 0 || there >= wanted {
        return None;
    }
    let missing = context.missing();
    let reason = format!("{there} of {wanted} replicas; new on {}", List(&missing));
    context.merge(Priority::TooFewReplicas, missing, reason)
}

/// Replicas that may differ.
pub fn diverged(context: &Context) -> Option<Proposal> {
    if context.settled || context.replicas.is_empty() {
        return None;
    }
    let nodes: Vec<NodeKey> = context.replicas.iter().map(|replica| replica.node).collect();
    let reason = format!("replicas on {} may differ", List(&nodes));
    Some(Proposal {
        priority: Priority::Diverged,
        action: Action::Merge { create: Vec::new() },
        nodes,
        reason,
    })
}

/// Replicas that were not filled, and can be: from a complete one, or from each other where no other can be anywhere.
pub fn incomplete(context: &Context) -> Option<Proposal> {
    let incomplete: Vec<NodeKey> =
        context.replicas.iter().filter(|replica| !replica.complete).map(|replica| replica.node).collect();
    let fillable = context.all_serve || incomplete.len() < context.replicas.len();
    if incomplete.is_empty() || !fillable {
        return None;
    }
    let nodes = context.replicas.iter().map(|replica| replica.node).collect();
    let reason = format!("replica on {} is incomplete", List(&incomplete));
    Some(Proposal {
        priority: Priority::Diverged,
        action: Action::Merge { create: Vec::new() },
        nodes,
        reason,
    })
}

/// A node that should have a replica has none.
pub fn not_ideal(context: &Context) -> Option<Proposal> {
    if context.replicas.is_empty() {
        return None;
    }
    let missing = context.missing();
    let reason = format!("moves to {}", List(&missing));
    context.merge(Priority::Move, missing, reason)
}

/// Replicas where none should be, while all that should be are there and complete.
pub fn superfluous(context: &Context) -> Option<Proposal> {
    let nodes = context.superfluous();
    let replica = |node: &NodeKey| context.replicas.iter().find(|replica| replica.node == *node);
    let all_there = context.ideal.iter().all(|node| replica(node).is_some_and(|replica| replica.complete));
    if nodes.is_empty() || context.ideal.is_empty() || !all_there || !context.settled {
        return None;
    }
    let reason = format!("replica on {} is one too many", List(&nodes));
    let all = context.replicas.iter().map(|replica| replica.node).collect();
    Some(Proposal { priority: Priority::Superfluous, action: Action::Delete { nodes }, nodes: all, reason })
}

impl Context {
    /// Nodes that should have a replica, serve, and have none.
    fn missing(&self) -> Vec<NodeKey> {
        let has = |node: &&NodeKey| self.replicas.iter().any(|replica| replica.node == **node);
        self.serving.iter().filter(|node| !has(node)).copied().collect()
    }

    /// Nodes with a replica that should have none.
    fn superfluous(&self) -> Vec<NodeKey> {
        self.replicas.iter().map(|replica| replica.node).filter(|node| !self.ideal.contains(node)).collect()
    }

    /// How many replicas are to be made, filled or deleted until the bucket is as it should be.
    pub fn distance(&self) -> u64 {
        if self.replicas.is_empty() {
            return 0;
        }
        let incomplete = self.replicas.iter().filter(|replica| !replica.complete).count();
        let superfluous = if self.ideal.is_empty() { 0 } else { self.superfluous().len() };
        (self.missing().len() + incomplete + superfluous + usize::from(!self.settled)) as u64
    }

    fn merge(&self, priority: Priority, create: Vec<NodeKey>, reason: String) -> Option<Proposal> {
        if create.is_empty() {
            return None;
        }
        let mut nodes: Vec<NodeKey> = self.replicas.iter().map(|replica| replica.node).collect();
        nodes.extend(&create);
        Some(Proposal { priority, action: Action::Merge { create }, nodes, reason })
    }
}

/// Nodes, as operators read them.
struct List<'a>(&'a [NodeKey]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, node) in self.0.iter().enumerate() {
            write!(f, "{}{node}", if place > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bucket in a line: the ideal nodes (`m`: under maintenance), then its replicas with their documents (`i`: incomplete), then
    /// `diverged`, and `away` where some node of the cluster does not serve.
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
        let context = Context {
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
            // Too few comes first, even while replicas differ.
            ("0 1 2 | 0=5 1=4 | diverged", "2 of 3 replicas; new on 2"),
            ("0 1 | 3=5", "1 of 2 replicas; new on 0, 1"),
            // A node under maintenance keeps its place: nothing is made anew for it, and nothing deleted before it is back.
            ("0m 1 | 1=5", "nothing"),
            ("0m 1 | 1=5 2=5", "nothing"),
            ("0 1 | 0=5 1=4 | diverged", "replicas on 0, 1 may differ"),
            ("0 1 | 0=5 | diverged | away", "1 of 2 replicas; new on 1"),
            ("0 | 0=5 | diverged", "replicas on 0 may differ"),
            ("0 1 | 0=5 1=0i", "replica on 1 is incomplete"),
            // What only the nodes that are away can tell is not declared.
            ("0 1 | 0=5i 1=5i | away", "nothing"),
            ("0 1 | 0=5i 1=5i", "replica on 0, 1 is incomplete"),
            ("0 1 | 0=5 2=5", "moves to 1"),
            ("0 1 | 2=5 3=5", "moves to 0, 1"),
            // Nothing is deleted while a replica that stays lacks something.
            ("0 1 | 0=5 1=0i 2=5", "replica on 1 is incomplete"),
            ("0 1 | 0=5 1=5 2=5 | diverged", "replicas on 0, 1, 2 may differ"),
            ("0 1 | 0=5 1=5 2=5 3=5", "replica on 2, 3 is one too many"),
            // All nodes retired: what there is stays.
            (" | 2=5", "nothing"),
        ] {
            check_line(line, expected);
        }
    }
}
