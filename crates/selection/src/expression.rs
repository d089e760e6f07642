use std::ops::Range;

use regex::Regex;

/// A parsed document selection.
#[derive(Debug, Clone)]
pub struct DocumentSelection {
    pub(crate) text: String,
    pub(crate) root: SelectionCondition,
    /// Texts that are compared with whole ids, in their order.
    pub(crate) id_literals: Vec<IdLiteral>,
}

/// A text that is compared with the whole ids of documents.
#[derive(Debug, Clone)]
pub(crate) struct IdLiteral {
    /// Position in the text of the selection, with the quotes.
    pub range: Range<usize>,
    pub text: String,
    /// True if `*` and `?` stand for other characters.
    pub is_pattern: bool,
}

/// A condition on a document: true, false or invalid.
#[derive(Debug, Clone)]
pub(crate) enum SelectionCondition {
    Constant(bool),
    /// The document has this type.
    Type(String),
    Not(Box<SelectionCondition>),
    And(Vec<SelectionCondition>),
    Or(Vec<SelectionCondition>),
    Compare(Box<SelectionComparison>),
}

#[derive(Debug, Clone)]
pub(crate) struct SelectionComparison {
    pub left: SelectionOperand,
    pub operator: SelectionOperator,
    pub right: SelectionOperand,
    /// Pattern of `=~`, if it is the same for all documents.
    pub pattern: Option<Regex>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelectionOperator {
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
pub(crate) enum SelectionOperand {
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
    Arithmetic(SelectionArithmetic, Box<SelectionOperand>, Box<SelectionOperand>),
    Call(SelectionFunction, Box<SelectionOperand>),
}

/// A field of documents of one type, and the path inside its value.
#[derive(Debug, Clone)]
pub(crate) struct FieldReference {
    pub document_type: String,
    /// Types that inherit `document_type`; their documents have the field as well.
    pub heirs: Vec<String>,
    pub field: String,
    pub steps: Vec<SelectionStep>,
}

impl FieldReference {
    /// True if documents of this type have the field.
    pub fn is_of(&self, document_type: &str) -> bool {
        self.document_type == document_type || self.heirs.iter().any(|heir| heir == document_type)
    }
}

#[derive(Debug, Clone)]
pub(crate) enum SelectionStep {
    Member(String),
    Key(String),
    Index(usize),
    /// Any element; the same wherever a selection names the variable.
    Variable(String),
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
    Bucket,
    GlobalId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelectionArithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelectionFunction {
    Abs,
    Hash,
    Lowercase,
}

impl SelectionCondition {
    /// Calls `visit` with every operand, outermost first.
    pub fn visit_operands<'c>(&'c self, visit: &mut impl FnMut(&'c SelectionOperand)) {
        match self {
            SelectionCondition::Constant(_) | SelectionCondition::Type(_) => {}
            SelectionCondition::Not(inner) => inner.visit_operands(visit),
            SelectionCondition::And(parts) | SelectionCondition::Or(parts) => {
                parts.iter().for_each(|part| part.visit_operands(visit));
            }
            SelectionCondition::Compare(comparison) => {
                comparison.left.visit(visit);
                comparison.right.visit(visit);
            }
        }
    }

    /// Calls `visit` with every document type used as a condition.
    pub fn visit_types<'c>(&'c self, visit: &mut impl FnMut(&'c str)) {
        match self {
            SelectionCondition::Type(name) => visit(name),
            SelectionCondition::Not(inner) => inner.visit_types(visit),
            SelectionCondition::And(parts) | SelectionCondition::Or(parts) => {
                parts.iter().for_each(|part| part.visit_types(visit))
            }
            SelectionCondition::Constant(_) | SelectionCondition::Compare(_) => {}
        }
    }
}

impl SelectionCondition {
    /// Calls `visit` with every reference to a field.
    pub fn visit_fields_mut(&mut self, visit: &mut impl FnMut(&mut FieldReference)) {
        match self {
            SelectionCondition::Constant(_) | SelectionCondition::Type(_) => {}
            SelectionCondition::Not(inner) => inner.visit_fields_mut(visit),
            SelectionCondition::And(parts) | SelectionCondition::Or(parts) => {
                parts.iter_mut().for_each(|part| part.visit_fields_mut(visit));
            }
            SelectionCondition::Compare(comparison) => {
                comparison.left.visit_fields_mut(visit);
                comparison.right.visit_fields_mut(visit);
            }
        }
    }
}

impl SelectionOperand {
    fn visit_fields_mut(&mut self, visit: &mut impl FnMut(&mut FieldReference)) {
        match self {
            SelectionOperand::Field(field) => visit(field),
            SelectionOperand::Arithmetic(_, left, right) => {
                left.visit_fields_mut(visit);
                right.visit_fields_mut(visit);
            }
            SelectionOperand::Call(_, inner) => inner.visit_fields_mut(visit),
            _ => {}
        }
    }

    pub fn visit<'c>(&'c self, visit: &mut impl FnMut(&'c SelectionOperand)) {
        visit(self);
        match self {
            SelectionOperand::Arithmetic(_, left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
            SelectionOperand::Call(_, inner) => inner.visit(visit),
            _ => {}
        }
    }
}
