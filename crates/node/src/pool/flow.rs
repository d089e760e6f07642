//! The queues of waiting work: one for each class of work and owner of the documents.

use std::sync::Arc;

use millrace_document::DocumentGroup;
use millrace_store::ViewScope;

/// Precedence of work. Earlier classes go first; each later one keeps a share of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkClass {
    /// Single documents, and parsing of what was sent: a fraction of a millisecond each.
    Short,
    /// Queries and visits of named groups.
    Grouped,
    /// Work that reads the documents of all groups.
    AllGroups,
}

/// The name of a queue of waiting work: its class, and the set of groups whose documents are read. Queues of
/// one class are served in turns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkFlow {
    class: WorkClass,
    owner: FlowOwner,
}

/// The owner of a queue within its class.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum FlowOwner {
    /// Common owner of all work without an owner of its own.
    Common,
    /// These groups, in order, each once.
    Groups(Arc<[DocumentGroup]>),
}

impl WorkFlow {
    /// Short work without a group, such as parsing a body.
    pub fn short() -> Self {
        WorkFlow { class: WorkClass::Short, owner: FlowOwner::Common }
    }

    /// Short work on a single document of a group.
    pub fn short_of(group: &DocumentGroup) -> Self {
        WorkFlow { class: WorkClass::Short, owner: FlowOwner::Groups(Arc::from([group.clone()])) }
    }

    /// Reading or changing many documents of one group.
    pub fn of_group(group: &DocumentGroup) -> Self {
        WorkFlow { class: WorkClass::Grouped, owner: FlowOwner::Groups(Arc::from([group.clone()])) }
    }

    /// Work for operators, such as a deployment: one flow beside those of the groups.
    pub fn administration() -> Self {
        WorkFlow { class: WorkClass::Grouped, owner: FlowOwner::Common }
    }

    /// Reading of the documents in a scope: the flow of its groups, or that of all groups if it names none.
    pub fn of_scope(scope: &ViewScope) -> Self {
        match scope {
            ViewScope::Groups(groups) | ViewScope::GroupsIn(groups, _) => {
                let mut groups = groups.clone();
                groups.sort_unstable();
                groups.dedup();
                WorkFlow { class: WorkClass::Grouped, owner: FlowOwner::Groups(groups.into()) }
            }
            ViewScope::Buckets(_) | ViewScope::All => {
                WorkFlow { class: WorkClass::AllGroups, owner: FlowOwner::Common }
            }
        }
    }

    /// True for the flow of a set of groups: a client can send queries over any number of such sets, each of
    /// which is new.
    pub(crate) fn is_of_several(&self) -> bool {
        matches!(&self.owner, FlowOwner::Groups(groups) if groups.len() > 1)
    }

    pub(crate) fn class(&self) -> WorkClass {
        self.class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_groups_does_not_matter_and_all_groups_are_a_class_of_their_own() {
        let group = |name: &str| DocumentGroup::Name(name.to_owned());
        let flow = |names: &[&str]| {
            WorkFlow::of_scope(&ViewScope::Groups(names.iter().map(|name| group(name)).collect()))
        };
        assert_eq!(flow(&["a", "b"]), flow(&["b", "a", "b"]));
        assert_ne!(flow(&["a"]), flow(&["a", "b"]));
        assert_ne!(flow(&["1"]), WorkFlow::of_scope(&ViewScope::Groups(vec![DocumentGroup::Number(1)])));
        assert_ne!(flow(&["a"]), WorkFlow::short_of(&group("a")), "gets do not wait for queries");
        let classes = [
            (ViewScope::Groups(vec![group("a")]), WorkClass::Grouped),
            (ViewScope::GroupsIn(vec![group("a")], Vec::new()), WorkClass::Grouped),
            (ViewScope::Buckets(Vec::new()), WorkClass::AllGroups),
            (ViewScope::All, WorkClass::AllGroups),
        ];
        for (scope, class) in classes {
            assert_eq!(WorkFlow::of_scope(&scope).class(), class, "{scope:?}");
        }
    }
}
