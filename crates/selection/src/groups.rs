use std::collections::BTreeSet;

use millrace_document::{DocumentId, Group};

use crate::Selection;
use crate::expression::{Comparison, Condition, IdPart, Operand, Operator};

impl Selection {
    /// Groups that selected documents can be in; `None` if the selection does not restrict them. Empty if it
    /// selects nothing.
    ///
    /// A visit need not read other groups: no document outside of these groups is selected.
    pub fn groups(&self) -> Option<BTreeSet<Group>> {
        self.root.groups()
    }

    /// Whether it is `true`, and so selects every document. Other selections may do so as well: they are not looked through.
    pub fn selects_all(&self) -> bool {
        matches!(self.root, Condition::Constant(true))
    }
}

impl Condition {
    fn groups(&self) -> Option<BTreeSet<Group>> {
        match self {
            Condition::Constant(false) => Some(BTreeSet::new()),
            Condition::Constant(true) | Condition::Type(_) | Condition::Not(_) => None,
            Condition::And(parts) => parts
                .iter()
                .filter_map(Condition::groups)
                .reduce(|one, other| one.intersection(&other).cloned().collect()),
            Condition::Or(parts) => {
                parts.iter().map(Condition::groups).try_fold(BTreeSet::new(), |mut all, of| {
                    all.extend(of?);
                    Some(all)
                })
            }
            Condition::Compare(comparison) => comparison.groups(),
        }
    }
}

impl Comparison {
    fn groups(&self) -> Option<BTreeSet<Group>> {
        let (part, value) = match (&self.left, &self.right) {
            (Operand::Id(part), value) => (part, value),
            (value, Operand::Id(part)) if self.operator == Operator::Equal => (part, value),
            _ => return None,
        };
        let exact = match (self.operator, value) {
            (Operator::Equal, _) => true,
            (Operator::Glob, Operand::Text(pattern)) => !pattern.contains(['*', '?']),
            (Operator::Glob, _) => true,
            _ => false,
        };
        let group = match (part, value) {
            _ if !exact => return None,
            (IdPart::User, Operand::Integer(number)) => u64::try_from(*number).ok().map(Group::Number),
            (IdPart::Group, Operand::Text(name)) => Some(Group::Name(name.clone())),
            (IdPart::Whole, Operand::Text(id)) => DocumentId::parse(id).ok().map(|id| id.group().clone()),
            _ => return None,
        };
        Some(group.into_iter().collect())
    }
}
