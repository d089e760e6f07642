use std::collections::BTreeSet;

use millrace_document::{DocumentGroup, DocumentId};

use crate::DocumentSelection;
use crate::expression::{
    IdPart, SelectionComparison, SelectionCondition, SelectionOperand, SelectionOperator,
};

impl DocumentSelection {
    /// The selection as given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Groups that selected documents can be in; `None` if the selection does not restrict them. Empty if it
    /// selects nothing.
    ///
    /// A visit need not read other groups: no document outside of these groups is selected.
    pub fn groups(&self) -> Option<BTreeSet<DocumentGroup>> {
        self.root.groups()
    }

    /// Groups whose documents are exactly those that are selected: the selection only names groups, as in
    /// `id.group == "a" or id.user == 5`. `None` for any other selection.
    pub fn named_groups(&self) -> Option<BTreeSet<DocumentGroup>> {
        self.root.named_groups()
    }

    /// Returns true for the selection `true`, which selects every document. Other selections may do so as
    /// well: they are not analysed.
    pub fn selects_all(&self) -> bool {
        matches!(self.root, SelectionCondition::Constant(true))
    }
}

impl SelectionCondition {
    fn named_groups(&self) -> Option<BTreeSet<DocumentGroup>> {
        match self {
            SelectionCondition::Or(parts) => {
                parts.iter().map(SelectionCondition::named_groups).try_fold(BTreeSet::new(), |mut all, of| {
                    all.extend(of?);
                    Some(all)
                })
            }
            SelectionCondition::Compare(comparison) => {
                let sides = [&comparison.left, &comparison.right];
                let names_group = sides
                    .iter()
                    .any(|side| matches!(side, SelectionOperand::Id(IdPart::Group | IdPart::User)));
                comparison.groups().filter(|_| names_group)
            }
            SelectionCondition::Constant(_)
            | SelectionCondition::Type(_)
            | SelectionCondition::Not(_)
            | SelectionCondition::And(_) => None,
        }
    }

    fn groups(&self) -> Option<BTreeSet<DocumentGroup>> {
        match self {
            SelectionCondition::Constant(false) => Some(BTreeSet::new()),
            SelectionCondition::Constant(true) | SelectionCondition::Type(_) | SelectionCondition::Not(_) => {
                None
            }
            SelectionCondition::And(parts) => parts
                .iter()
                .filter_map(SelectionCondition::groups)
                .reduce(|one, other| one.intersection(&other).cloned().collect()),
            SelectionCondition::Or(parts) => {
                parts.iter().map(SelectionCondition::groups).try_fold(BTreeSet::new(), |mut all, of| {
                    all.extend(of?);
                    Some(all)
                })
            }
            SelectionCondition::Compare(comparison) => comparison.groups(),
        }
    }
}

impl SelectionComparison {
    fn groups(&self) -> Option<BTreeSet<DocumentGroup>> {
        let (part, value) = match (&self.left, &self.right) {
            (SelectionOperand::Id(part), value) => (part, value),
            (value, SelectionOperand::Id(part)) if self.operator == SelectionOperator::Equal => (part, value),
            _ => return None,
        };
        let exact = match (self.operator, value) {
            (SelectionOperator::Equal, _) => true,
            (SelectionOperator::Glob, SelectionOperand::Text(pattern)) => !pattern.contains(['*', '?']),
            (SelectionOperator::Glob, _) => true,
            _ => false,
        };
        let group = match (part, value) {
            _ if !exact => return None,
            (IdPart::User, SelectionOperand::Integer(number)) => {
                u64::try_from(*number).ok().map(DocumentGroup::Number)
            }
            (IdPart::Group, SelectionOperand::Text(name)) => Some(DocumentGroup::Name(name.clone())),
            (IdPart::Whole, SelectionOperand::Text(id)) => {
                DocumentId::parse(id).ok().map(|id| id.group().clone())
            }
            _ => return None,
        };
        Some(group.into_iter().collect())
    }
}
