//! Conversion of parsed [`Node`]s to [`Item`]s, with parameters substituted.

mod annotations;
mod arguments;
mod operators;
mod order;
pub(crate) mod weights;

use std::collections::BTreeMap;

pub(crate) use arguments::parse_number;
pub(crate) use operators::kilometres;
pub use operators::{OPERATORS, Operator, OperatorPlace};
pub(crate) use order::sort_key;

use crate::syntax::{Comparison, Fault, Form, Node};
use crate::{Bound, Grammar, Item, Match, Number, TermText};

/// Context of a query's text.
pub(crate) struct Context<'a> {
    /// Parameters of the request, for `@name`.
    pub parameters: &'a BTreeMap<String, String>,
    /// Default field of user text.
    pub default_field: &'a str,
    /// Grammar of `userQuery()`.
    pub query_grammar: Grammar,
    /// Default grammar of `userInput` and `text`.
    pub input_grammar: Grammar,
    /// Text of `userQuery()`.
    pub user_query: Option<&'a str>,
    /// Value of `model.filter`, which is combined with it.
    pub filter: Option<&'a str>,
}

/// Position of an item in the tree, with the annotations of its ancestors.
#[derive(Clone, Copy)]
struct Scope<'a> {
    annotations: &'a [(String, Node)],
    parent: Option<&'a Scope<'a>>,
    /// True inside `sameElement`, where a plain string is a term of the element itself.
    in_element: bool,
}

const ROOT: Scope<'static> = Scope { annotations: &[], parent: None, in_element: false };

type Built<T> = Result<T, Fault>;

/// The item of a condition.
pub(crate) fn item(node: &Node, context: &Context<'_>) -> Built<Item> {
    Builder { context }.item(node, &ROOT)
}

/// A non-negative whole number: `limit`, `offset`, `timeout`.
pub(crate) fn amount(node: &Node, context: &Context<'_>, what: &str) -> Built<usize> {
    match (Builder { context }).number(node)? {
        Number::Integer(number) if number >= 0 => usize::try_from(number).ok(),
        _ => None,
    }
    .ok_or_else(|| Fault::new(node.at, format!("expected a whole number from 0 for {what}, as in {what} 10")))
}

struct Builder<'a> {
    context: &'a Context<'a>,
}

impl Builder<'_> {
    fn item(&self, node: &Node, above: &Scope<'_>) -> Built<Item> {
        let scope = &above.inside(node);
        match &node.form {
            Form::And(children) => self.and(children, scope),
            Form::Or(children) => {
                Ok(Item::Or(children.iter().map(|child| self.item(child, scope)).collect::<Built<_>>()?))
            }
            Form::Not(child) => {
                Ok(Item::Not { positive: Box::new(Item::True), negatives: vec![self.item(child, scope)?] })
            }
            Form::Bool(true) => Ok(Item::True),
            Form::Bool(false) => Ok(Item::False),
            Form::Compare(comparison, left, right) => self.compare(*comparison, left, right, scope),
            Form::Contains(field, value) => self.contains(field, value, scope),
            Form::Matches(field, pattern) => {
                let (field, element) = self.field(field)?;
                let pattern_scope = scope.inside(pattern);
                let item = Item::Term {
                    field: element.map_or(field.to_owned(), |_| String::new()),
                    text: self.text(pattern)?,
                    matching: Match::Regex,
                    annotations: self.annotations(&pattern_scope)?,
                };
                self.in_element(field, element, item)
            }
            Form::In(field, values) => {
                let (field, element) = self.field(field)?;
                let item = Item::In {
                    field: element.map_or(field.to_owned(), |_| String::new()),
                    values: self.values(values)?,
                    annotations: self.annotations(scope)?,
                };
                self.in_element(field, element, item)
            }
            Form::Call(name, arguments) => self.call(node.at, name, arguments, scope),
            Form::String(_) | Form::Parameter(_) | Form::Number(_) if above.in_element => {
                self.value("", node, above)
            }
            _ => Err(Fault::new(
                node.at,
                format!(
                    "expected a condition, found {}; for example: title contains \"word\"",
                    node.describe()
                ),
            )),
        }
    }

    /// Conjunction: negated children must not match, the others must.
    fn and(&self, children: &[Node], scope: &Scope<'_>) -> Built<Item> {
        let (mut positives, mut negatives) = (Vec::new(), Vec::new());
        for child in children {
            match &child.form {
                Form::Not(negated) => negatives.push(self.item(negated, &scope.inside(child))?),
                _ => positives.push(self.item(child, scope)?),
            }
        }
        if negatives.is_empty() {
            return Ok(Item::And(positives));
        }
        let positive = match positives.len() {
            0 => Item::True,
            1 => positives.remove(0),
            _ => Item::And(positives),
        };
        Ok(Item::Not { positive: Box::new(positive), negatives })
    }

    fn compare(&self, comparison: Comparison, left: &Node, right: &Node, scope: &Scope<'_>) -> Built<Item> {
        let is_field = |node: &Node| matches!(node.form, Form::Name(_) | Form::Element(..));
        let (field, value, comparison) = match (is_field(left), is_field(right)) {
            (true, _) => (left, right, comparison),
            (false, true) => (right, left, comparison.turned()),
            (false, false) => {
                return Err(Fault::new(
                    left.at,
                    format!(
                        "expected a field on one side, found {} and {}; for example: year > 2000",
                        left.describe(),
                        right.describe()
                    ),
                ));
            }
        };
        let value_scope = &scope.inside(value);
        let annotations = self.annotations(value_scope)?;
        let (field, element) = self.field(field)?;
        let name = element.map_or(field.to_owned(), |_| String::new());
        let item = match &value.form {
            Form::Bool(truth) if comparison == Comparison::Equal => Item::Term {
                field: name,
                text: TermText::from(if *truth { "true" } else { "false" }),
                matching: Match::Word,
                annotations,
            },
            Form::String(text) if comparison == Comparison::Equal && text.parse::<f64>().is_err() => {
                return Err(Fault::new(
                    value.at,
                    format!(
                        "'=' compares numbers and truth values; for text write: {field} contains {text:?}"
                    ),
                ));
            }
            _ => {
                let number = self.number(value)?;
                let (low, high) = match comparison {
                    Comparison::Equal => (Bound::Inclusive(number), Bound::Inclusive(number)),
                    Comparison::Less => (Bound::Open, Bound::Exclusive(number)),
                    Comparison::LessOrEqual => (Bound::Open, Bound::Inclusive(number)),
                    Comparison::Greater => (Bound::Exclusive(number), Bound::Open),
                    Comparison::GreaterOrEqual => (Bound::Inclusive(number), Bound::Open),
                };
                let hit_limit = self.hit_limit(value_scope)?;
                Item::Range { field: name, low, high, hit_limit, annotations }
            }
        };
        self.in_element(field, element, item)
    }

    /// Name of a field, with the element index if one is given.
    fn field<'n>(&self, node: &'n Node) -> Built<(&'n str, Option<u32>)> {
        match &node.form {
            Form::Name(name) => Ok((name, None)),
            Form::String(name) if !name.is_empty() => Ok((name, None)),
            Form::Element(name, index) => Ok((name, Some(*index))),
            _ => Err(Fault::new(
                node.at,
                format!(
                    "expected the name of a field, found {}; for example: title contains \"word\"",
                    node.describe()
                ),
            )),
        }
    }

    /// Restricts a condition to one element of a field: `numbers[2] = 42`.
    fn in_element(&self, field: &str, element: Option<u32>, item: Item) -> Built<Item> {
        Ok(match element {
            None => item,
            Some(index) => Item::SameElement {
                field: field.to_owned(),
                children: vec![item],
                elements: vec![index],
                annotations: Default::default(),
            },
        })
    }
}

impl<'a> Scope<'a> {
    /// Scope of the content of `node`, or of the node itself.
    fn inside(&'a self, node: &'a Node) -> Scope<'a> {
        Scope { annotations: &node.annotations, parent: Some(self), in_element: self.in_element }
    }
}

impl Comparison {
    /// The same comparison with its sides exchanged.
    fn turned(self) -> Self {
        match self {
            Comparison::Equal => Comparison::Equal,
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        }
    }
}
