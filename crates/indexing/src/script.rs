use millrace_document::{DataType, Value};
use millrace_schema::Place;
use millrace_tensor::TensorType;
use regex::Regex;

use crate::{ComponentCall, Wanted};

/// A sequence of statements.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    pub statements: Vec<Statement>,
}

/// Expressions, each of which gets the value of the previous one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Statement {
    pub steps: Vec<Step>,
}

/// An expression with its location.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub expression: Expression,
    pub place: Place,
}

#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Constant(Value),
    /// `_` or `this`
    This,
    /// A document field, with struct members inside it.
    Input(Vec<String>),
    GetField(String),
    GetValue(String),
    GetVariable(String),
    SetVariable(String),
    /// Writes to a field; by default that of the script.
    Output(String),
    Binary(BinaryOperator, Box<Step>, Box<Step>),
    Concat(Box<Step>, Box<Step>),
    Choice(Vec<Step>),
    Nested(Script),
    ForEach(Script),
    If(Box<If>),
    Switch(Switch),
    SelectInput(Vec<(String, Statement)>),
    Apply(Function),
    /// Hash as an `int` or `long`, depending on the field.
    Hash {
        long: bool,
    },
    Embed {
        call: ComponentCall,
        target: TensorType,
    },
    Chunk(ComponentCall),
    Generate {
        call: ComponentCall,
        wanted: Wanted,
    },
    SetLanguage,
    GetLanguage,
    Now,
    Random(Option<u32>),
    Hostname,
    ClearState,
    /// Writes the value to the log.
    Echo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Debug, Clone)]
pub(crate) struct If {
    pub left: Step,
    pub comparison: Comparison,
    pub right: Step,
    pub then: Script,
    pub otherwise: Option<Script>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone)]
pub(crate) struct Switch {
    pub cases: Vec<(String, Statement)>,
    pub default: Option<Statement>,
}

/// A conversion that depends only on its input.
#[derive(Debug, Clone)]
pub(crate) enum Function {
    /// `to_int` and similar functions.
    Convert(DataType),
    ToArray,
    ToWeightedSet {
        create_if_nonexistent: bool,
        remove_if_zero: bool,
    },
    ToPosition,
    ToEpochSecond,
    Lowercase,
    Normalize,
    Trim,
    Substring(usize, usize),
    Split(Regex),
    Join(String),
    Base64Decode,
    Base64Encode,
    HexDecode,
    HexEncode,
    Binarize(f64),
    PackBits,
    /// `tokenize`, `ngram`, `exact`, `flatten`: no effect here, because words are created with the columns,
    /// by the field's settings.
    Annotate,
}

impl Expression {
    /// True if the expression uses the previous value; without one, it uses the field's own value.
    pub fn needs_input(&self) -> bool {
        match self {
            Expression::This
            | Expression::GetField(_)
            | Expression::GetValue(_)
            | Expression::SetVariable(_)
            | Expression::Output(_)
            | Expression::ForEach(_)
            | Expression::Switch(_)
            | Expression::Apply(_)
            | Expression::Hash { .. }
            | Expression::Embed { .. }
            | Expression::Chunk(_)
            | Expression::Generate { .. }
            | Expression::SetLanguage
            | Expression::Random(None)
            | Expression::Echo => true,
            Expression::Constant(_)
            | Expression::Input(_)
            | Expression::GetVariable(_)
            | Expression::SelectInput(_)
            | Expression::GetLanguage
            | Expression::Now
            | Expression::Random(Some(_))
            | Expression::Hostname
            | Expression::ClearState => false,
            Expression::Binary(_, left, right) | Expression::Concat(left, right) => {
                left.expression.needs_input() || right.expression.needs_input()
            }
            Expression::Choice(steps) => steps.iter().any(|step| step.expression.needs_input()),
            Expression::Nested(script) => script.needs_input(),
            Expression::If(of) => {
                of.left.expression.needs_input() || of.right.expression.needs_input() || of.then.needs_input()
            }
        }
    }

    /// Calls `visit` with this expression and all nested ones, outermost first.
    pub fn visit(&self, visit: &mut impl FnMut(&Expression)) {
        visit(self);
        match self {
            Expression::Binary(_, left, right) | Expression::Concat(left, right) => {
                left.expression.visit(visit);
                right.expression.visit(visit);
            }
            Expression::Choice(steps) => steps.iter().for_each(|step| step.expression.visit(visit)),
            Expression::Nested(script) | Expression::ForEach(script) => script.visit(visit),
            Expression::If(of) => {
                of.left.expression.visit(visit);
                of.right.expression.visit(visit);
                of.then.visit(visit);
                of.otherwise.iter().for_each(|script| script.visit(visit));
            }
            Expression::Switch(switch) => {
                switch.cases.iter().for_each(|(_, statement)| statement.visit(visit));
                switch.default.iter().for_each(|statement| statement.visit(visit));
            }
            Expression::SelectInput(cases) => cases.iter().for_each(|(_, statement)| statement.visit(visit)),
            _ => {}
        }
    }
}

impl Statement {
    pub fn needs_input(&self) -> bool {
        self.steps.first().is_some_and(|step| step.expression.needs_input())
    }

    pub fn visit(&self, visit: &mut impl FnMut(&Expression)) {
        self.steps.iter().for_each(|step| step.expression.visit(visit));
    }
}

impl Script {
    pub fn needs_input(&self) -> bool {
        self.statements.iter().any(Statement::needs_input)
    }

    pub fn visit(&self, visit: &mut impl FnMut(&Expression)) {
        self.statements.iter().for_each(|statement| statement.visit(visit));
    }
}
