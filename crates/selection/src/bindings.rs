//! Outcomes under assignments of variables: `music.people[$x].name == "Ann" and music.people[$x].age > 30` is
//! true if both conditions are for the same element.

use millrace_document::DocumentValue;

use crate::SelectionOutcome;

/// Maximum number of assignments that are kept for one condition. With more, its outcome is invalid.
const ASSIGNMENTS: usize = 100_000;

/// An element that a variable stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum BoundElement<'d> {
    /// Place in an array.
    Index(usize),
    /// Key of a map or a weighted set.
    Key(&'d DocumentValue),
}

/// Variables with their elements, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct VariableAssignment<'d>(Vec<(&'d str, BoundElement<'d>)>);

impl<'d> VariableAssignment<'d> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, variable: &str) -> Option<BoundElement<'d>> {
        let at = self.0.binary_search_by(|(name, _)| (*name).cmp(variable)).ok()?;
        Some(self.0[at].1)
    }

    /// The assignment with one more variable, which it does not have yet.
    pub fn with(&self, variable: &'d str, element: BoundElement<'d>) -> Self {
        let mut all = self.0.clone();
        let at = all.partition_point(|(name, _)| *name < variable);
        all.insert(at, (variable, element));
        VariableAssignment(all)
    }

    /// Both assignments together; `None` if they disagree about a variable.
    fn joined(&self, other: &Self) -> Option<Self> {
        let mut all = self.clone();
        for (name, element) in &other.0 {
            match all.get(name) {
                None => all = all.with(name, *element),
                Some(same) if same == *element => {}
                Some(_) => return None,
            }
        }
        Some(all)
    }
}

/// Outcome of a condition: one, or one for each assignment of its variables.
#[derive(Debug, Clone)]
pub(crate) enum BoundOutcome<'d> {
    Plain(SelectionOutcome),
    Assigned(Vec<(VariableAssignment<'d>, SelectionOutcome)>),
}

impl<'d> BoundOutcome<'d> {
    /// The outcome as a whole: true if it is for one assignment, invalid if it is for all of them.
    pub fn combined(&self) -> SelectionOutcome {
        let all = match self {
            BoundOutcome::Plain(outcome) => return *outcome,
            BoundOutcome::Assigned(all) => all,
        };
        let has = |wanted| all.iter().any(|(_, outcome)| *outcome == wanted);
        if has(SelectionOutcome::True) {
            SelectionOutcome::True
        } else if all.is_empty() || has(SelectionOutcome::False) {
            SelectionOutcome::False
        } else {
            SelectionOutcome::Invalid
        }
    }

    /// The outcomes with another, where their assignments agree.
    pub fn join(self, other: Self, join: fn(SelectionOutcome, SelectionOutcome) -> SelectionOutcome) -> Self {
        match (self, other) {
            (BoundOutcome::Plain(one), BoundOutcome::Plain(other)) => BoundOutcome::Plain(join(one, other)),
            (BoundOutcome::Plain(one), BoundOutcome::Assigned(mut all))
            | (BoundOutcome::Assigned(mut all), BoundOutcome::Plain(one)) => {
                all.iter_mut().for_each(|(_, outcome)| *outcome = join(*outcome, one));
                BoundOutcome::Assigned(all)
            }
            (BoundOutcome::Assigned(one), BoundOutcome::Assigned(other)) => {
                let mut all = Vec::new();
                for (left, first) in &one {
                    for (right, second) in &other {
                        let Some(joined) = left.joined(right) else { continue };
                        if all.len() == ASSIGNMENTS {
                            return BoundOutcome::Plain(SelectionOutcome::Invalid);
                        }
                        all.push((joined, join(*first, *second)));
                    }
                }
                BoundOutcome::Assigned(all)
            }
        }
    }
}

impl std::ops::Not for BoundOutcome<'_> {
    type Output = Self;

    fn not(self) -> Self {
        match self {
            BoundOutcome::Plain(outcome) => BoundOutcome::Plain(!outcome),
            BoundOutcome::Assigned(mut all) => {
                all.iter_mut().for_each(|(_, outcome)| *outcome = !*outcome);
                BoundOutcome::Assigned(all)
            }
        }
    }
}
