use regex::Regex;

/// A parsed document selection.
#[derive(Debug, Clone)]
pub struct Selection {
    pub(crate) text: String,
    pub(crate) root: Condition,
}

/// A condition on a document: true, false or invalid.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    Constant(bool),
    /// The document has this type.
    Type(String),
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Compare(Box<Comparison>),
}

#[derive(Debug, Clone)]
pub(crate) struct Comparison {
    pub left: Operand,
    pub operator: Operator,
    pub right: Operand,
    /// Pattern of `=~`, if it is the same for all documents.
    pub pattern: Option<Regex>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Glob,
    Regex,
}

/// An operand with a value.
#[derive(Debug, Clone)]
pub(crate) enum Operand {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    Now,
    Field(FieldReference),
    /// A document type by itself, valid only for `version()`.
    Type(String),
    Version(String),
    Id(IdPart),
    Arithmetic(Arithmetic, Box<Operand>, Box<Operand>),
    Call(Function, Box<Operand>),
}

/// A field of documents of one type, and the path inside its value.
#[derive(Debug, Clone)]
pub(crate) struct FieldReference {
    pub document_type: String,
    pub field: String,
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Member(String),
    Key(String),
    Index(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdPart {
    Whole,
    Scheme,
    Namespace,
    Type,
    Specific,
    User,
    Group,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Hash,
    Lowercase,
}

impl Condition {
    /// Calls `visit` with every operand, outermost first.
    pub fn visit_operands<'c>(&'c self, visit: &mut impl FnMut(&'c Operand)) {
        match self {
            Condition::Constant(_) | Condition::Type(_) => {}
            Condition::Not(inner) => inner.visit_operands(visit),
            Condition::And(parts) | Condition::Or(parts) => {
                parts.iter().for_each(|part| part.visit_operands(visit));
            }
            Condition::Compare(comparison) => {
                comparison.left.visit(visit);
                comparison.right.visit(visit);
            }
        }
    }

    /// Calls `visit` with every document type used as a condition.
    pub fn visit_types<'c>(&'c self, visit: &mut impl FnMut(&'c str)) {
        match self {
            Condition::Type(name) => visit(name),
            Condition::Not(inner) => inner.visit_types(visit),
            Condition::And(parts) | Condition::Or(parts) => {
                parts.iter().for_each(|part| part.visit_types(visit))
            }
            Condition::Constant(_) | Condition::Compare(_) => {}
        }
    }
}

impl Operand {
    fn visit<'c>(&'c self, visit: &mut impl FnMut(&'c Operand)) {
        visit(self);
        match self {
            Operand::Arithmetic(_, left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
            Operand::Call(_, inner) => inner.visit(visit),
            _ => {}
        }
    }
}
