//! Outcomes under assignments of variables: `music.people[$x].name == "Ann" and music.people[$x].age > 30` is
//! true if both conditions are for the same element.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use millrace_document::{DocumentValue, scalar};

use crate::SelectionOutcome;

/// Maximum number of pairs of assignments that are compared for one condition. With more, its outcome is
/// invalid.
const COMPARED: usize = 100_000;

/// An element that a variable stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum BoundElement<'d> {
    /// Place in an array.
    Index(usize),
    /// Key of a map or a weighted set.
    Key(&'d DocumentValue),
}

impl BoundElement<'_> {
    /// A number that equal elements have in common.
    fn hash(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self {
            BoundElement::Index(index) => index.hash(&mut hasher),
            BoundElement::Key(DocumentValue::String(text)) => text.hash(&mut hasher),
            BoundElement::Key(value) => scalar::to_text(value).hash(&mut hasher),
        }
        hasher.finish()
    }
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
    Assigned(Vec<AssignedOutcome<'d>>),
}

/// Outcome under one assignment.
type AssignedOutcome<'d> = (VariableAssignment<'d>, SelectionOutcome);

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
                let candidates = JoinCandidates::new(&one, &other);
                let (mut all, mut compared) = (Vec::new(), 0);
                for (left, first) in &one {
                    for (right, second) in candidates.for_assignment(left).map(|at| &other[at]) {
                        compared += 1;
                        if compared > COMPARED {
                            return BoundOutcome::Plain(SelectionOutcome::Invalid);
                        }
                        all.extend(left.joined(right).map(|joined| (joined, join(*first, *second))));
                    }
                }
                BoundOutcome::Assigned(all)
            }
        }
    }
}

/// Assignments by the element of one variable, so that only those with the same one are compared.
struct JoinCandidates<'o> {
    variable: Option<&'o str>,
    by_element: HashMap<u64, Vec<usize>>,
    /// Assignments without the variable.
    others: Vec<usize>,
}

impl<'o> JoinCandidates<'o> {
    /// Candidates among `other`, by a variable that both have.
    fn new(one: &'o [AssignedOutcome<'_>], other: &[AssignedOutcome<'_>]) -> Self {
        let has = |variable: &str| other.first().is_some_and(|(first, _)| first.get(variable).is_some());
        let of_one = one.first().into_iter().flat_map(|(first, _)| first.0.iter().map(|(name, _)| *name));
        let variable = of_one.into_iter().find(|variable| has(variable));
        let mut candidates = JoinCandidates { variable, by_element: HashMap::new(), others: Vec::new() };
        for (at, (assignment, _)) in other.iter().enumerate() {
            match variable.and_then(|variable| assignment.get(variable)) {
                Some(element) => candidates.by_element.entry(element.hash()).or_default().push(at),
                None => candidates.others.push(at),
            }
        }
        candidates
    }

    /// Places of the assignments that may agree with this one.
    fn for_assignment(&self, assignment: &VariableAssignment<'_>) -> impl Iterator<Item = usize> + '_ {
        let element = self.variable.and_then(|variable| assignment.get(variable)).map(BoundElement::hash);
        let same: Vec<&Vec<usize>> = match element {
            Some(element) => self.by_element.get(&element).into_iter().collect(),
            None => self.by_element.values().collect(),
        };
        same.into_iter().flatten().chain(&self.others).copied()
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
