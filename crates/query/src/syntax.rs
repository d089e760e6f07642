//! Syntax tree before operators are interpreted; shared by YQL and the JSON `select`.

use crate::{Error, Number};

/// A part of the text with its annotations.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Position: a byte offset in YQL, the number of a path in JSON.
    pub at: usize,
    /// Annotations in order, outermost first.
    pub annotations: Vec<(String, Node)>,
    /// The part itself.
    pub form: Form,
}

/// Kind of a part.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    Number(Number),
    String(String),
    Bool(bool),
    /// Name or path of a field.
    Name(String),
    /// `@name`.
    Parameter(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
    Call(String, Vec<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Compare(Comparison, Box<Node>, Box<Node>),
    Contains(Box<Node>, Box<Node>),
    Matches(Box<Node>, Box<Node>),
    In(Box<Node>, Vec<Node>),
    /// `field[index]`.
    Element(String, u32),
}

/// A comparison of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Node {
    pub(crate) fn new(at: usize, form: Form) -> Self {
        Node { at, annotations: Vec::new(), form }
    }

    /// Description for messages: `the number 5`.
    pub(crate) fn describe(&self) -> String {
        match &self.form {
            Form::Number(number) => format!("the number {number}"),
            Form::String(text) => format!("the string {text:?}"),
            Form::Bool(value) => value.to_string(),
            Form::Name(name) => format!("the name {name}"),
            Form::Parameter(name) => format!("@{name}"),
            Form::List(_) => "a list".to_owned(),
            Form::Map(_) => "a map".to_owned(),
            Form::Call(name, _) => format!("{name}(…)"),
            Form::And(_) => "a condition with 'and'".to_owned(),
            Form::Or(_) => "a condition with 'or'".to_owned(),
            Form::Not(_) => "a negated condition".to_owned(),
            Form::Compare(..) => "a comparison".to_owned(),
            Form::Contains(..) => "a condition with 'contains'".to_owned(),
            Form::Matches(..) => "a condition with 'matches'".to_owned(),
            Form::In(..) => "a condition with 'in'".to_owned(),
            Form::Element(field, index) => format!("{field}[{index}]"),
        }
    }
}

/// An error, with its [`Node::at`].
#[derive(Debug)]
pub(crate) struct Fault {
    pub at: usize,
    pub reason: String,
}

impl Fault {
    pub(crate) fn new(at: usize, reason: impl Into<String>) -> Self {
        Fault { at, reason: reason.into() }
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
