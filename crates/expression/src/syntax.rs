use std::fmt;
use std::sync::Arc;

use millrace_tensor::TensorType;

use crate::Error;
use crate::operators::Binary;

/// A parsed expression: text that follows the syntax, its names not yet looked up.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    pub(crate) source: Arc<str>,
    pub(crate) root: Expr,
}

impl Expression {
    /// Parses the text of an expression.
    ///
    /// # Errors
    /// [`Error::Syntax`]
    pub fn parse(text: &str) -> Result<Self, Error> {
        crate::parser::parse(text)
    }

    /// The text.
    pub fn source(&self) -> &str {
        &self.source
    }
}

/// A node of the syntax tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expr {
    /// The byte of the source where it begins.
    pub at: usize,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Number(f64),
    Text(String),
    Negate(Box<Expr>),
    Not(Box<Expr>),
    /// Operators of one precedence, applied from the left. Flat, so that a sum of thousands of terms is no deep tree.
    Chain(Box<Expr>, Vec<(Binary, Expr)>),
    If(Box<[Expr; 3]>),
    In(Box<Expr>, Vec<Expr>),
    /// A feature, a call of a function, or the name of a parameter.
    Name(Name),
    /// A built-in function of the table with its arguments.
    Call(&'static crate::Function, Vec<Argument>),
    Generate(TensorType, Box<Expr>),
    Literal(TensorType, Vec<LiteralCell>),
    Slice(Box<Expr>, Vec<(Option<String>, Label)>),
}

/// One cell of a tensor literal: its labels in the order of the type's mapped dimensions, its place in the dense subspace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LiteralCell {
    pub labels: Vec<String>,
    pub place: usize,
    pub value: Expr,
}

/// The label of one dimension in a slice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Label {
    Fixed(String),
    Computed(Expr),
}

/// An argument of a built-in function.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Argument {
    Value(Expr),
    /// `f(x,y)(…)`
    Lambda(Vec<String>, Expr),
    /// `(a,b)`: names of dimensions.
    Names(Vec<String>),
}

/// `name(arguments).output`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Name {
    pub name: String,
    pub arguments: Vec<NameArgument>,
    pub output: Option<String>,
}

/// An argument of something that is not built in: the text for features, the tree (where it is one) for functions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NameArgument {
    pub text: String,
    pub tree: Option<Expr>,
}

/// The full name of a rank feature.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FeatureName {
    /// The name before the parentheses.
    pub name: String,
    /// The parameters, without quotes and outer white space.
    pub parameters: Vec<String>,
    /// What stands after the `.`.
    pub output: Option<String>,
}

impl FeatureName {
    /// Parses `name(parameter,…).output`.
    ///
    /// # Errors
    /// [`Error::Syntax`] when it is not one feature and nothing else.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let expression = Expression::parse(text)?;
        match expression.root.kind {
            Kind::Name(name) => Ok(FeatureName {
                name: name.name,
                parameters: name.arguments.into_iter().map(|argument| argument.text).collect(),
                output: name.output,
            }),
            _ => Err(Error::Syntax {
                spot: crate::Spot::of(text, 0, None),
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

/// Whether a parameter can stand in a feature's name without quotes: words, numbers, and feature names.
fn is_plain(parameter: &str) -> bool {
    let mut depth = 0i32;
    let allowed = parameter.chars().all(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth >= 0 && (c.is_alphanumeric() || "_.-:@$()".contains(c) || depth > 0 && c == ',')
    });
    allowed && depth == 0 && !parameter.is_empty()
}
