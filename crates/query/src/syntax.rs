//! Syntax tree before operators are interpreted; shared by YQL and the JSON `select`.

use crate::{Error, QueryNumber};

/// A part of the text with its annotations.
#[derive(Debug, Clone)]
pub(crate) struct SyntaxNode {
    /// Position: a byte offset in YQL, the number of a path in JSON.
    pub at: usize,
    /// Annotations in order, outermost first.
    pub annotations: Vec<(String, SyntaxNode)>,
    /// The part itself.
    pub form: SyntaxForm,
}

/// Kind of a part.
#[derive(Debug, Clone)]
pub(crate) enum SyntaxForm {
    Number(QueryNumber),
    String(String),
    Bool(bool),
    /// Name or path of a field.
    Name(String),
    /// `@name`.
    Parameter(String),
    List(Vec<SyntaxNode>),
    Map(Vec<(String, SyntaxNode)>),
    Call(String, Vec<SyntaxNode>),
    And(Vec<SyntaxNode>),
    Or(Vec<SyntaxNode>),
    Not(Box<SyntaxNode>),
    /// A number after a minus sign.
    Negative(Box<SyntaxNode>),
    Compare(NumberComparison, Box<SyntaxNode>, Box<SyntaxNode>),
    Contains(Box<SyntaxNode>, Box<SyntaxNode>),
    Matches(Box<SyntaxNode>, Box<SyntaxNode>),
    In(Box<SyntaxNode>, Vec<SyntaxNode>),
    /// `field[index]`.
    Element(String, u32),
}

/// A comparison of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberComparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl SyntaxNode {
    pub(crate) fn new(at: usize, form: SyntaxForm) -> Self {
        SyntaxNode { at, annotations: Vec::new(), form }
    }

    /// Description for messages: `the number 5`.
    pub(crate) fn describe(&self) -> String {
        match &self.form {
            SyntaxForm::Number(number) => format!("the number {number}"),
            SyntaxForm::String(text) => format!("the string {text:?}"),
            SyntaxForm::Bool(value) => value.to_string(),
            SyntaxForm::Name(name) => format!("the name {name}"),
            SyntaxForm::Parameter(name) => format!("@{name}"),
            SyntaxForm::List(_) => "a list".to_owned(),
            SyntaxForm::Map(_) => "a map".to_owned(),
            SyntaxForm::Call(name, _) => format!("{name}(…)"),
            SyntaxForm::And(_) => "a condition with 'and'".to_owned(),
            SyntaxForm::Or(_) => "a condition with 'or'".to_owned(),
            SyntaxForm::Not(_) => "a negated condition".to_owned(),
            SyntaxForm::Negative(number) => format!("{} after '-'", number.describe()),
            SyntaxForm::Compare(..) => "a comparison".to_owned(),
            SyntaxForm::Contains(..) => "a condition with 'contains'".to_owned(),
            SyntaxForm::Matches(..) => "a condition with 'matches'".to_owned(),
            SyntaxForm::In(..) => "a condition with 'in'".to_owned(),
            SyntaxForm::Element(field, index) => format!("{field}[{index}]"),
        }
    }
}

/// An error, with its [`SyntaxNode::at`].
#[derive(Debug)]
pub(crate) struct SyntaxFault {
    pub at: usize,
    pub reason: String,
}

impl SyntaxFault {
    pub(crate) fn new(at: usize, reason: impl ToString) -> Self {
        SyntaxFault { at, reason: reason.to_string() }
    }

    /// Error for a fault at a byte offset of `text`.
    pub(crate) fn in_text(self, language: &'static str, text: &str) -> Error {
        let before = &text.as_bytes()[..self.at.min(text.len())];
        let line_start = last_newline(before).map_or(0, |at| at + 1);
        Error::Syntax {
            language,
            line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
            column: String::from_utf8_lossy(&before[line_start..]).chars().count() + 1,
            reason: self.reason,
        }
    }
}

fn last_newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|&byte| byte == b'\n')
}
