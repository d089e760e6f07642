//! Syntax tree of rule bases.

use std::sync::Arc;

use millrace_query::QueryNumber;
use millrace_schema::SourcePosition;

/// A parsed rule base.
#[derive(Debug)]
pub(crate) struct RuleFile {
    pub(crate) name: String,
    /// Location of `@default`, if present.
    pub(crate) default: Option<SourcePosition>,
    /// `@stemming`.
    pub(crate) stemming: bool,
    /// `@language`.
    pub(crate) language: Option<String>,
    pub(crate) statements: Vec<RuleStatement>,
}

impl RuleFile {
    /// Names of the included rule bases.
    pub(crate) fn includes(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().filter_map(|statement| match statement {
            RuleStatement::Include { base, .. } => Some(base.as_str()),
            _ => None,
        })
    }
}

#[derive(Debug)]
pub(crate) enum RuleStatement {
    Include { base: String, position: SourcePosition },
    Condition { name: String, position: SourcePosition, condition: RuleCondition },
    Rule(Arc<ProductionRule>),
}

/// A production rule.
#[derive(Debug)]
pub(crate) struct ProductionRule {
    pub(crate) position: SourcePosition,
    pub(crate) condition: RuleCondition,
    pub(crate) kind: RuleKind,
    pub(crate) productions: Vec<RuleProduction>,
}

impl ProductionRule {
    /// True if it replaces what it matches by nothing.
    pub(crate) fn removes(&self) -> bool {
        self.kind == RuleKind::Replacing && self.productions.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleKind {
    /// `->`.
    Replacing,
    /// `+>`.
    Adding,
}

#[derive(Debug, Clone)]
pub(crate) enum RuleCondition {
    /// A term of the query.
    Term(String),
    /// Words in sequence within a phrase of the query.
    Phrase(Vec<String>),
    /// `parameter.NAME`.
    Parameter(String),
    /// A value for comparison.
    Literal(String),
    /// A named condition.
    Reference {
        name: String,
        position: SourcePosition,
    },
    /// A condition whose match can be referred to by this name; with `all`, so can all terms of this named
    /// condition.
    Named {
        name: String,
        all: Option<String>,
        condition: Box<RuleCondition>,
    },
    /// `…`, or `[…]`, whose terms belong to the match. The last one in a rule matches everything up to the
    /// end.
    Ellipsis {
        referable: bool,
        last: bool,
    },
    /// A condition on terms with this label.
    Labelled(String, Box<RuleCondition>),
    Sequence(Vec<RuleCondition>),
    Choice(Vec<RuleCondition>),
    /// Conditions that all hold at the same position.
    And(Vec<RuleCondition>),
    Not(Box<RuleCondition>),
    Comparison {
        left: Box<RuleCondition>,
        operator: RuleComparison,
        right: Box<RuleCondition>,
    },
    /// A condition at the start of the query.
    Start(Box<RuleCondition>),
    /// A condition that extends to the end of the query.
    End(Box<RuleCondition>),
    /// The condition with the same name in an included rule base.
    Super(SourcePosition),
    /// The resolved condition of a [`RuleCondition::Super`].
    Included(Arc<RuleCondition>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleComparison {
    Equal,
    AtMost,
    AtLeast,
    Less,
    More,
    /// The left value contains the right one.
    Contains,
    Different,
}

/// Output of a rule.
#[derive(Debug)]
pub(crate) struct RuleProduction {
    pub(crate) term_type: TermType,
    /// Field of the output.
    pub(crate) label: Option<String>,
    pub(crate) term: ProducedTerm,
    /// Weight in percent.
    pub(crate) weight: Option<i32>,
}

#[derive(Debug)]
pub(crate) enum ProducedTerm {
    Term(String),
    Phrase(Vec<String>),
    /// All numbers on one side of a number.
    Beyond(ProducedBound, QueryNumber),
    /// Sets a parameter to a value.
    Parameter {
        name: String,
        value: String,
    },
    /// The terms matched under this name; with `all`, all terms of the condition that it names; with a bound,
    /// the numbers on that side of those that are numbers.
    Reference {
        name: String,
        all: bool,
        bound: Option<ProducedBound>,
        position: SourcePosition,
    },
}

/// Side of a number, which does not belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProducedBound {
    /// `<`.
    Below,
    /// `>`.
    Above,
}

/// Way in which output is added to the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TermType {
    /// Like its surroundings.
    Context,
    Or,
    Equiv,
    And,
    Rank,
    Not,
    WeakAnd,
}

impl RuleCondition {
    /// Conditions directly inside it, without those that it refers to.
    pub(crate) fn inner(&self) -> Vec<&RuleCondition> {
        match self {
            RuleCondition::Term(_)
            | RuleCondition::Phrase(_)
            | RuleCondition::Parameter(_)
            | RuleCondition::Literal(_)
            | RuleCondition::Reference { .. }
            | RuleCondition::Ellipsis { .. }
            | RuleCondition::Super(_) => Vec::new(),
            RuleCondition::Named { condition, .. }
            | RuleCondition::Labelled(_, condition)
            | RuleCondition::Not(condition)
            | RuleCondition::Start(condition)
            | RuleCondition::End(condition) => vec![condition],
            RuleCondition::Comparison { left, right, .. } => vec![left, right],
            RuleCondition::Sequence(conditions)
            | RuleCondition::Choice(conditions)
            | RuleCondition::And(conditions) => conditions.iter().collect(),
            RuleCondition::Included(condition) => vec![condition],
        }
    }

    /// True if an ellipsis is part of it, apart from negations and from conditions that it refers to.
    pub(crate) fn has_ellipsis(&self) -> bool {
        match self {
            RuleCondition::Ellipsis { .. } => true,
            RuleCondition::Not(_) => false,
            other => other.inner().into_iter().any(RuleCondition::has_ellipsis),
        }
    }

    /// Replaces every `@super` inside by the result of `included` for its location.
    pub(crate) fn with_super<E>(
        self,
        included: &mut dyn FnMut(SourcePosition) -> Result<Arc<RuleCondition>, E>,
    ) -> Result<RuleCondition, E> {
        let mut boxed = |condition: Box<RuleCondition>| condition.with_super(included).map(Box::new);
        Ok(match self {
            RuleCondition::Super(position) => RuleCondition::Included(included(position)?),
            RuleCondition::Named { name, all, condition } => {
                RuleCondition::Named { name, all, condition: boxed(condition)? }
            }
            RuleCondition::Labelled(label, condition) => RuleCondition::Labelled(label, boxed(condition)?),
            RuleCondition::Not(condition) => RuleCondition::Not(boxed(condition)?),
            RuleCondition::Start(condition) => RuleCondition::Start(boxed(condition)?),
            RuleCondition::End(condition) => RuleCondition::End(boxed(condition)?),
            RuleCondition::Comparison { left, operator, right } => {
                RuleCondition::Comparison { left: boxed(left)?, operator, right: boxed(right)? }
            }
            RuleCondition::Sequence(conditions) => RuleCondition::Sequence(each(conditions, included)?),
            RuleCondition::Choice(conditions) => RuleCondition::Choice(each(conditions, included)?),
            RuleCondition::And(conditions) => RuleCondition::And(each(conditions, included)?),
            other => other,
        })
    }
}

fn each<E>(
    conditions: Vec<RuleCondition>,
    included: &mut dyn FnMut(SourcePosition) -> Result<Arc<RuleCondition>, E>,
) -> Result<Vec<RuleCondition>, E> {
    conditions.into_iter().map(|condition| condition.with_super(included)).collect()
}
