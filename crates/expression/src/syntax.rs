use std::fmt;
use std::sync::Arc;

use millrace_tensor::TensorType;

use crate::Error;
use crate::operators::BinaryNumberOp;

/// A parsed expression: text with valid syntax whose names are not yet resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedExpression {
    pub(crate) source: Arc<str>,
    pub(crate) root: ExpressionNode,
}

impl ParsedExpression {
    /// Parses the text of an expression.
    ///
    /// # Errors
    /// [`Error::Syntax`] if the text is not an expression.
    pub fn parse(text: &str) -> Result<Self, Error> {
        crate::parser::parse(text)
    }

    /// Text of the expression.
    pub fn source(&self) -> &str {
        &self.source
    }
}

/// A node of the syntax tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExpressionNode {
    /// Byte offset of its start in the source.
    pub at: usize,
    pub kind: ExpressionKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExpressionKind {
    Number(f64),
    Text(String),
    Negate(Box<ExpressionNode>),
    Not(Box<ExpressionNode>),
    /// Operators of one precedence, applied from the left. The list is flat, so that a sum of thousands of
    /// terms is not a deep tree.
    Chain(Box<ExpressionNode>, Vec<(BinaryNumberOp, ExpressionNode)>),
    If(Box<[ExpressionNode; 3]>),
    In(Box<ExpressionNode>, Vec<ExpressionNode>),
    /// A feature, a call of a function, or the name of a parameter.
    Name(QualifiedName),
    /// A built-in function with its arguments.
    Call(&'static crate::BuiltinFunction, Vec<FunctionArgument>),
    Generate(TensorType, Box<ExpressionNode>),
    Literal(TensorType, Vec<LiteralCell>),
    Slice(Box<ExpressionNode>, Vec<(Option<String>, SliceLabel)>),
}

/// One cell of a tensor literal: its labels in the order of the type's mapped dimensions, and its index in
/// the dense subspace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LiteralCell {
    pub labels: Vec<String>,
    pub index: usize,
    pub value: ExpressionNode,
}

/// Label of one dimension in a slice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SliceLabel {
    /// A word or a number.
    Fixed(String),
    /// Text in quotes.
    Quoted(String),
    Computed(ExpressionNode),
}

/// An argument of a built-in function.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FunctionArgument {
    Value(ExpressionNode),
    /// `f(x,y)(…)`
    Lambda(Vec<String>, ExpressionNode),
    /// `(a,b)`: dimension names.
    Names(Vec<String>),
}

/// `name(arguments).output`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QualifiedName {
    pub name: String,
    pub arguments: Vec<NameArgument>,
    pub output: Option<String>,
}

/// An argument of a name that is not built in: the text for features, and the tree (if it is an expression)
/// for functions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NameArgument {
    pub text: String,
    pub tree: Option<ExpressionNode>,
}

/// Full name of a rank feature.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FeatureName {
    /// Name before the parentheses.
    pub name: String,
    /// Parameters, without quotes and outer white space.
    pub parameters: Vec<String>,
    /// Output, the text after the `.`.
    pub output: Option<String>,
}

impl FeatureName {
    /// Parses `name(parameter,…).output`.
    ///
    /// # Errors
    /// [`Error::Syntax`] if the text is not exactly one feature.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let expression = ParsedExpression::parse(text)?;
        match expression.root.kind {
            ExpressionKind::Name(name) => Ok(FeatureName {
                name: name.name,
                parameters: name.arguments.into_iter().map(|argument| argument.text).collect(),
                output: name.output,
            }),
            _ => Err(Error::Syntax {
                spot: crate::ExpressionSpot::of(text, 0, None),
                reason: format!("expected a rank feature such as bm25(title), found '{text}'"),
            }),
        }
    }
}

impl fmt::Display for FeatureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.parameters.is_empty() {
            f.write_str("(")?;
            for (i, parameter) in self.parameters.iter().enumerate() {
                if i > 0 {
                    f.write_str(",")?;
                }
                if is_plain(parameter) {
                    f.write_str(parameter)?;
                } else {
                    write!(f, "\"{}\"", parameter.replace('\\', "\\\\").replace('"', "\\\""))?;
                }
            }
            f.write_str(")")?;
        }
        match &self.output {
            Some(output) => write!(f, ".{output}"),
            None => Ok(()),
        }
    }
}

/// True if a parameter needs no quotes in a feature's name: words, numbers, and feature names.
fn is_plain(parameter: &str) -> bool {
    let mut depth = 0i32;
    let allowed = parameter.chars().all(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth >= 0 && (c.is_alphanumeric() || "_.-:@$()".contains(c) || depth > 0 && c == ',')
    });
    allowed && depth == 0 && !parameter.is_empty()
}
