//! Matching of conditions against the children of a group.
//!
//! A condition is tried at a position together with its continuation, so later conditions can make it try
//! alternatives. The search is bounded: a query has a limited number of steps, and conditions a limited
//! nesting.

use std::collections::BTreeMap;

use millrace_query::value_of;

use crate::base::RuleBase;
use crate::syntax::{RuleComparison, RuleCondition};
use crate::tree::{RuleGroupKind, RuleNode};

/// Maximum number of conditions in progress at a time, nested or pending.
pub(crate) const DEPTH_MAX: usize = 400;

/// A match of a condition.
#[derive(Debug, Clone)]
pub(crate) struct ConditionMatch {
    /// Indices of the matched children, ascending.
    pub(crate) taken: Vec<usize>,
    /// Named parts of the match, in order.
    pub(crate) referred: Vec<ReferredChildren>,
}

/// Children matched by a named part of a condition.
#[derive(Debug, Clone)]
pub(crate) struct ReferredChildren {
    pub(crate) name: String,
    pub(crate) taken: Vec<usize>,
    /// The named condition whose terms are all meant.
    pub(crate) all: Option<String>,
}

/// Matcher of conditions against the children of one group.
pub(crate) struct ConditionMatcher<'m> {
    base: &'m RuleBase,
    parameters: &'m BTreeMap<String, String>,
    children: &'m [RuleNode],
    is_phrase: bool,
    /// True if its first and last child can be the ends of what was asked.
    has_ends: bool,
    steps: &'m mut usize,
    depth: usize,
    /// Number of comparisons in progress.
    compared: usize,
    taken: Vec<usize>,
    referred: Vec<ReferredChildren>,
}

/// Continuation of a condition: called with the position after it and the condition's value.
type ConditionContinuation<'t, 'm> =
    &'t mut dyn FnMut(&mut ConditionMatcher<'m>, usize, Option<String>) -> bool;

impl<'m> ConditionMatcher<'m> {
    /// Creates a matcher for the children of this group; `None` if the node is not a group. Each tried
    /// condition uses one of `steps`; without remaining steps, nothing matches.
    pub(crate) fn new(
        base: &'m RuleBase,
        parameters: &'m BTreeMap<String, String>,
        group: &'m RuleNode,
        steps: &'m mut usize,
    ) -> Option<Self> {
        let RuleNode::Group(group) = group else { return None };
        Some(ConditionMatcher {
            base,
            parameters,
            children: &group.children,
            is_phrase: matches!(group.kind, RuleGroupKind::Phrase { .. }),
            has_ends: !matches!(group.kind, RuleGroupKind::Phrase { .. } | RuleGroupKind::Segment),
            steps,
            depth: 0,
            compared: 0,
            taken: Vec::new(),
            referred: Vec::new(),
        })
    }

    /// The first position from which the condition has a match that `wanted` accepts.
    pub(crate) fn find(
        &mut self,
        condition: &'m RuleCondition,
        wanted: &dyn Fn(&ConditionMatch) -> bool,
    ) -> Option<ConditionMatch> {
        for at in 0..self.children.len().max(1) {
            self.taken.clear();
            self.referred.clear();
            let mut found = None;
            self.holds(condition, at, None, &mut |matcher, _, _| {
                // The cost of examining a match is its number of terms.
                *matcher.steps = matcher.steps.saturating_sub(matcher.taken.len());
                let mut taken = matcher.taken.clone();
                taken.sort_unstable();
                taken.dedup();
                let this = ConditionMatch { taken, referred: matcher.referred.clone() };
                let is_wanted = wanted(&this);
                found = is_wanted.then_some(this);
                is_wanted
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// True if a condition and its continuation hold at a position.
    fn holds(
        &mut self,
        condition: &'m RuleCondition,
        at: usize,
        label: Option<&'m str>,
        then: ConditionContinuation<'_, 'm>,
    ) -> bool {
        if *self.steps == 0 || self.depth == DEPTH_MAX {
            return false;
        }
        *self.steps -= 1;
        self.depth += 1;
        let (taken, referred) = (self.taken.len(), self.referred.len());
        let holds = self.attempt(condition, at, label, then);
        if !holds {
            self.taken.truncate(taken);
            self.referred.truncate(referred);
        }
        self.depth -= 1;
        holds
    }

    /// [`ConditionMatcher::holds`], without its bounds and the removal of what a failed attempt has taken.
    fn attempt(
        &mut self,
        condition: &'m RuleCondition,
        at: usize,
        label: Option<&'m str>,
        then: ConditionContinuation<'_, 'm>,
    ) -> bool {
        match condition {
            RuleCondition::Term(term) => self.term(term, at, label).is_some_and(|text| {
                self.taken.push(at);
                then(self, at + 1, Some(text))
            }),
            RuleCondition::Phrase(terms) => self.phrase(terms, at, label, then),
            RuleCondition::Parameter(name) => {
                value_of(self.parameters, name).is_some_and(|value| then(self, at, Some(value.to_owned())))
            }
            RuleCondition::Literal(value) => then(self, at, Some(value.clone())),
            RuleCondition::Reference { name, .. } => match self.base.conditions.get(name) {
                Some(named) => self.holds(named, at, label, then),
                None => false,
            },
            RuleCondition::Named { name, all, condition } => {
                let before = self.taken.len();
                self.holds(condition, at, label, &mut |matcher, end, value| {
                    let taken = matcher.taken[before..].to_vec();
                    let count = matcher.referred.len();
                    matcher.referred.push(ReferredChildren { name: name.clone(), taken, all: all.clone() });
                    let holds = then(matcher, end, value);
                    if !holds {
                        matcher.referred.truncate(count);
                    }
                    holds
                })
            }
            RuleCondition::Ellipsis { referable, last } => self.ellipsis(at, *referable, *last, then),
            RuleCondition::Labelled(label, condition) => self.holds(condition, at, Some(label), then),
            RuleCondition::Sequence(conditions) => self.sequence(conditions, at, label, None, then),
            RuleCondition::Choice(conditions) => {
                conditions.iter().any(|condition| self.holds(condition, at, label, then))
            }
            RuleCondition::And(conditions) => self.conjunction(conditions, at, label, then),
            RuleCondition::Not(condition) => {
                let (taken, referred) = (self.taken.len(), self.referred.len());
                let holds = self.holds(condition, at, label, &mut |_, _, _| true);
                self.taken.truncate(taken);
                self.referred.truncate(referred);
                !holds && then(self, at, None)
            }
            RuleCondition::Comparison { left, operator, right } => {
                self.comparison(left, *operator, right, at, label, then)
            }
            RuleCondition::Start(condition) => {
                at == 0 && self.has_ends && self.holds(condition, at, label, then)
            }
            RuleCondition::End(condition) => self.holds(condition, at, label, &mut |matcher, end, value| {
                end == matcher.children.len() && matcher.has_ends && then(matcher, end, value)
            }),
            RuleCondition::Included(condition) => self.holds(condition, at, label, then),
            // A validated rule base has none left.
            RuleCondition::Super(_) => false,
        }
    }

    fn phrase(
        &mut self,
        terms: &'m [String],
        at: usize,
        label: Option<&'m str>,
        then: ConditionContinuation<'_, 'm>,
    ) -> bool {
        let mut terms_in_order = terms.iter().enumerate();
        let holds = self.is_phrase
            && terms_in_order.all(|(offset, term)| self.term(term, at + offset, label).is_some());
        if holds {
            self.taken.extend(at..at + terms.len());
        }
        holds && then(self, at + terms.len(), Some(terms.join(" ")))
    }

    /// Compares the values of two conditions that begin at the same term. Only here a value is asked for.
    fn comparison(
        &mut self,
        left: &'m RuleCondition,
        operator: RuleComparison,
        right: &'m RuleCondition,
        at: usize,
        label: Option<&'m str>,
        then: ConditionContinuation<'_, 'm>,
    ) -> bool {
        self.compared += 1;
        let holds = self.holds(left, at, label, &mut |matcher, left_end, left| {
            matcher.holds(right, at, label, &mut |matcher, right_end, right| {
                operator.holds(left.as_deref(), right.as_deref())
                    && then(matcher, left_end.max(right_end), right)
            })
        });
        self.compared -= 1;
        holds
    }

    /// Text of the term at a position, if it is this one.
    fn term(&self, term: &str, at: usize, label: Option<&str>) -> Option<String> {
        let Some(RuleNode::Term(found)) = self.children.get(at) else { return None };
        let words = self.base.words_of(term);
        let same = !words.is_empty() && found.words == words && found.has_label(label);
        same.then(|| found.text().to_owned())
    }

    fn ellipsis(
        &mut self,
        at: usize,
        referable: bool,
        last: bool,
        then: ConditionContinuation<'_, 'm>,
    ) -> bool {
        let rest = self.children.get(at..).unwrap_or_default();
        let count_max = rest.iter().take_while(|child| matches!(child, RuleNode::Term(_))).count();
        let (children, compares) = (self.children, self.compared > 0);
        let text = |length: usize| {
            let taken = children.get(at..at + length).unwrap_or_default();
            let terms = taken.iter().filter_map(|child| match child {
                RuleNode::Term(term) => Some(term.text()),
                _ => None,
            });
            terms.collect::<Vec<_>>().join(" ")
        };
        let mut with = |length: usize| {
            let before = self.taken.len();
            if referable {
                self.taken.extend(at..at + length);
            }
            let holds = then(self, at + length, compares.then(|| text(length)));
            if !holds {
                self.taken.truncate(before);
            }
            holds
        };
        if last { (0..=count_max).rev().any(&mut with) } else { (0..=count_max).any(&mut with) }
    }

    fn sequence(
        &mut self,
        conditions: &'m [RuleCondition],
        at: usize,
        label: Option<&'m str>,
        value: Option<String>,
        then: ConditionContinuation<'_, 'm>,
    ) -> bool {
        match conditions.split_first() {
            None => then(self, at, value),
            Some((first, rest)) => self.holds(first, at, label, &mut |matcher, end, value| {
                matcher.sequence(rest, end, label, value, then)
            }),
        }
    }

    fn conjunction(
        &mut self,
        conditions: &'m [RuleCondition],
        at: usize,
        label: Option<&'m str>,
        then: ConditionContinuation<'_, 'm>,
    ) -> bool {
        match conditions.split_first() {
            None => false,
            Some((last, [])) => self.holds(last, at, label, then),
            Some((first, rest)) => {
                self.holds(first, at, label, &mut |matcher, _, _| matcher.conjunction(rest, at, label, then))
            }
        }
    }
}

impl RuleComparison {
    /// Compares as numbers if both are numbers; false if a value is missing, but for a difference.
    fn holds(self, left: Option<&str>, right: Option<&str>) -> bool {
        if self == RuleComparison::Different {
            return left.is_some() != right.is_some()
                || left.is_some() && !RuleComparison::Equal.holds(left, right);
        }
        let (Some(left), Some(right)) = (left, right) else { return false };
        let numbers = left.trim().parse::<f64>().ok().zip(right.trim().parse::<f64>().ok());
        let order = match numbers {
            Some((left, right)) => left.partial_cmp(&right),
            None => Some(left.cmp(right)),
        };
        match self {
            RuleComparison::Equal => order.is_some_and(|order| order.is_eq()),
            RuleComparison::AtMost => order.is_some_and(|order| order.is_le()),
            RuleComparison::AtLeast => order.is_some_and(|order| order.is_ge()),
            RuleComparison::Less => order.is_some_and(|order| order.is_lt()),
            RuleComparison::More => order.is_some_and(|order| order.is_gt()),
            RuleComparison::Contains => left.contains(right),
            RuleComparison::Different => !order.is_some_and(|order| order.is_eq()),
        }
    }
}
