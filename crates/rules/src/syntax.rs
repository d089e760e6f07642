//! Syntax tree of rule bases.

use std::sync::Arc;

use millrace_schema::Place;

/// A parsed rule base.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) name: String,
    /// Location of `@default`, if present.
    pub(crate) default: Option<Place>,
    /// `@stemming`.
    pub(crate) stemming: bool,
    /// `@language`.
    pub(crate) language: Option<String>,
    pub(crate) statements: Vec<Statement>,
}

impl File {
    /// Names of the included rule bases.
    pub(crate) fn includes(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().filter_map(|statement| match statement {
            Statement::Include { base, .. } => Some(base.as_str()),
            _ => None,
        })
    }
}

#[derive(Debug)]
pub(crate) enum Statement {
    Include { base: String, place: Place },
    Condition { name: String, place: Place, condition: Condition },
    Rule(Arc<Rule>),
}

/// A production rule.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) place: Place,
    pub(crate) condition: Condition,
    pub(crate) kind: RuleKind,
    pub(crate) productions: Vec<Production>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleKind {
    /// `->`.
    Replacing,
    /// `+>`.
    Adding,
}

#[derive(Debug, Clone)]
pub(crate) enum Condition {
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
        place: Place,
    },
    /// A condition whose match can be referred to by this name; with `all`, so can all terms of this named
    /// condition.
    Named {
        name: String,
        all: Option<String>,
        condition: Box<Condition>,
    },
    /// `…`, or `[…]`, whose terms belong to the match. The last one in a rule matches everything up to the
    /// end.
    Ellipsis {
        referable: bool,
        last: bool,
    },
    /// A condition on terms with this label.
    Labelled(String, Box<Condition>),
    Sequence(Vec<Condition>),
    Choice(Vec<Condition>),
    /// Conditions that all hold at the same position.
    And(Vec<Condition>),
    Not(Box<Condition>),
    Comparison {
        left: Box<Condition>,
        operator: Comparison,
        right: Box<Condition>,
    },
    /// A condition at the start of the query.
    Start(Box<Condition>),
    /// A condition that extends to the end of the query.
    End(Box<Condition>),
    /// The condition with the same name in an included rule base.
    Super(Place),
    /// That condition, resolved.
    Included(Arc<Condition>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    AtMost,
    AtLeast,
    Less,
    More,
    /// The left value contains the right one.
    Contains,
}

/// Output of a rule.
#[derive(Debug)]
pub(crate) struct Production {
    pub(crate) term_type: TermType,
    /// Field of the output.
    pub(crate) label: Option<String>,
    pub(crate) made: Made,
    /// Weight in percent.
    pub(crate) weight: Option<i32>,
}

#[derive(Debug)]
pub(crate) enum Made {
    Term(String),
    Phrase(Vec<String>),
    /// Sets a parameter to a value.
    Parameter {
        name: String,
        value: String,
    },
    /// The terms matched under this name; with `all`, all terms of the condition that it names.
    Reference {
        name: String,
        all: bool,
        place: Place,
    },
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
}

impl Condition {
    /// Conditions directly inside it, without those that it refers to.
    pub(crate) fn inner(&self) -> Vec<&Condition> {
        match self {
            Condition::Term(_)
            | Condition::Phrase(_)
            | Condition::Parameter(_)
            | Condition::Literal(_)
            | Condition::Reference { .. }
            | Condition::Ellipsis { .. }
            | Condition::Super(_) => Vec::new(),
            Condition::Named { condition, .. }
            | Condition::Labelled(_, condition)
            | Condition::Not(condition)
            | Condition::Start(condition)
            | Condition::End(condition) => vec![condition],
            Condition::Comparison { left, right, .. } => vec![left, right],
            Condition::Sequence(conditions) | Condition::Choice(conditions) | Condition::And(conditions) => {
                conditions.iter().collect()
            }
            Condition::Included(condition) => vec![condition],
        }
    }

    /// Replaces every `@super` inside by the result of `included` for its location.
    pub(crate) fn with_super<E>(
        self,
        included: &mut dyn FnMut(Place) -> Result<Arc<Condition>, E>,
    ) -> Result<Condition, E> {
        let mut boxed = |condition: Box<Condition>| condition.with_super(included).map(Box::new);
        Ok(match self {
            Condition::Super(place) => Condition::Included(included(place)?),
            Condition::Named { name, all, condition } => {
                Condition::Named { name, all, condition: boxed(condition)? }
            }
            Condition::Labelled(label, condition) => Condition::Labelled(label, boxed(condition)?),
            Condition::Not(condition) => Condition::Not(boxed(condition)?),
            Condition::Start(condition) => Condition::Start(boxed(condition)?),
            Condition::End(condition) => Condition::End(boxed(condition)?),
            Condition::Comparison { left, operator, right } => {
                Condition::Comparison { left: boxed(left)?, operator, right: boxed(right)? }
            }
            Condition::Sequence(conditions) => Condition::Sequence(each(conditions, included)?),
            Condition::Choice(conditions) => Condition::Choice(each(conditions, included)?),
            Condition::And(conditions) => Condition::And(each(conditions, included)?),
            other => other,
        })
    }
}

fn each<E>(
    conditions: Vec<Condition>,
    included: &mut dyn FnMut(Place) -> Result<Arc<Condition>, E>,
) -> Result<Vec<Condition>, E> {
    conditions.into_iter().map(|condition| condition.with_super(included)).collect()
}
