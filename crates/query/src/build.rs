//! Conversion of parsed [`SyntaxNode`]s to [`QueryItem`]s, with parameters substituted.

mod annotations;
mod arguments;
mod copies;
mod degrees;
mod operators;
mod order;
pub(crate) mod weights;

use std::collections::BTreeMap;

pub(crate) use arguments::parse_number;
pub(crate) use copies::CopyBudget;
pub(crate) use operators::{KILOMETRES_PER_DEGREE, kilometres, predicate_subqueries};
pub use operators::{OPERATORS, OperatorRole, YqlOperator};
pub(crate) use order::sort_key;

use crate::number_text::{self, NumberText};
use crate::syntax::{NumberComparison, SyntaxFault, SyntaxForm, SyntaxNode};
use crate::{Error, QueryGrammar, QueryItem, QueryNumber, RangeBound, TermMatch, TermText};

/// Context of a query's text.
pub(crate) struct BuildContext<'a> {
    /// Parameters of the request, for `@name`.
    pub parameters: &'a BTreeMap<String, String>,
    /// Default field of user text.
    pub default_field: &'a str,
    /// Grammar of `userQuery()`.
    pub query_grammar: QueryGrammar,
    /// Default grammar of `userInput` and `text`.
    pub input_grammar: QueryGrammar,
    /// Text of `userQuery()`.
    pub user_query: Option<&'a str>,
    /// Value of `model.filter`, which is combined with it.
    pub filter: Option<&'a str>,
    /// Bytes that items may still copy from parameters and annotations.
    pub copies: CopyBudget,
}

/// Maximum length in bytes of the name of a field: each word that is looked for in it has the name.
const NAME_BYTES_MAX: usize = 512;

/// Checks the length of a name that several conditions copy, that of a field or of a predicate's attribute.
///
/// # Errors
/// It is longer than any name should be.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    match name.len() {
        0..=NAME_BYTES_MAX => Ok(()),
        bytes => Err(Error::value(format!(
            "a name of a field or an attribute has {bytes} bytes, and at most {NAME_BYTES_MAX} are permitted"
        ))),
    }
}

/// Position of an item in the tree, with the annotations of its ancestors.
#[derive(Clone, Copy)]
struct AnnotationScope<'a> {
    annotations: &'a [(String, SyntaxNode)],
    parent: Option<&'a AnnotationScope<'a>>,
    /// Number of annotations of the item and its ancestors.
    count: usize,
    /// True inside `sameElement`, where a plain string is a term of the element itself.
    in_element: bool,
}

const ROOT: AnnotationScope<'static> =
    AnnotationScope { annotations: &[], parent: None, count: 0, in_element: false };

type BuildResult<T> = Result<T, SyntaxFault>;

/// Error of a `userQuery()` that needs words and has none.
const NO_USER_QUERY: &str = "userQuery() reads the parameter 'query', which is not given; add query=…";

/// The item of all conditions. A `userQuery()` alone needs words, unless `allowEmpty` says otherwise.
pub(crate) fn item(node: &SyntaxNode, context: &BuildContext<'_>) -> BuildResult<QueryItem> {
    let mut item = ItemBuilder { context }.item(node, &ROOT)?;
    let is_user_query =
        matches!(&node.form, SyntaxForm::Call(name, _) if name.eq_ignore_ascii_case("userQuery"));
    if let QueryItem::Text(text) = &mut item
        && is_user_query
        && ROOT.inside(node).annotation("allowEmpty").is_none()
    {
        if context.user_query.is_none() {
            return Err(SyntaxFault::new(node.at, NO_USER_QUERY));
        }
        text.allow_empty = false;
    }
    Ok(item)
}

/// A non-negative whole number: `limit`, `offset`, `timeout`.
pub(crate) fn amount(node: &SyntaxNode, context: &BuildContext<'_>, what: &str) -> BuildResult<usize> {
    match (ItemBuilder { context }).number(node)? {
        QueryNumber::Integer(number) if number >= 0 => usize::try_from(number).ok(),
        _ => None,
    }
    .ok_or_else(|| {
        SyntaxFault::new(node.at, format!("expected a whole number from 0 for {what}, as in {what} 10"))
    })
}

struct ItemBuilder<'a> {
    context: &'a BuildContext<'a>,
}

impl ItemBuilder<'_> {
    fn item(&self, node: &SyntaxNode, above: &AnnotationScope<'_>) -> BuildResult<QueryItem> {
        let scope = &above.inside(node);
        match &node.form {
            SyntaxForm::And(children) => self.and(children, scope),
            SyntaxForm::Or(children) => Ok(QueryItem::Or(
                children.iter().map(|child| self.item(child, scope)).collect::<BuildResult<_>>()?,
            )),
            SyntaxForm::Not(child) => Ok(QueryItem::Not {
                positive: Box::new(QueryItem::True),
                negatives: vec![self.item(child, scope)?],
            }),
            SyntaxForm::Bool(true) => Ok(QueryItem::True),
            SyntaxForm::Bool(false) => Ok(QueryItem::False),
            SyntaxForm::Compare(comparison, left, right) => self.compare(*comparison, left, right, scope),
            SyntaxForm::Contains(field, value) => self.contains(field, value, scope),
            SyntaxForm::Matches(field, pattern) => {
                let (field, element) = self.field(field)?;
                let pattern_scope = scope.inside(pattern);
                let item = QueryItem::Term {
                    field: element.map_or(field.to_owned(), |_| String::new()),
                    text: self.text(pattern)?,
                    matching: TermMatch::Regex,
                    annotations: self.annotations(&pattern_scope)?,
                };
                self.in_element(field, element, item)
            }
            SyntaxForm::In(field, values) => {
                let (field, element) = self.field(field)?;
                let item = QueryItem::In {
                    field: element.map_or(field.to_owned(), |_| String::new()),
                    values: self.values(values)?,
                    annotations: self.annotations(scope)?,
                };
                self.in_element(field, element, item)
            }
            SyntaxForm::Call(name, arguments) => self.call(node.at, name, arguments, scope),
            SyntaxForm::String(_) | SyntaxForm::Parameter(_) | SyntaxForm::Number(_) if above.in_element => {
                self.value("", node, above)
            }
            _ => Err(SyntaxFault::new(
                node.at,
                format!(
                    "expected a condition, found {}; for example: title contains \"word\"",
                    node.describe()
                ),
            )),
        }
    }

    /// Conjunction: negated children must not match, the others must.
    fn and(&self, children: &[SyntaxNode], scope: &AnnotationScope<'_>) -> BuildResult<QueryItem> {
        let (mut positives, mut negatives) = (Vec::new(), Vec::new());
        for child in children {
            match &child.form {
                SyntaxForm::Not(negated) => negatives.push(self.item(negated, &scope.inside(child))?),
                _ => positives.push(self.item(child, scope)?),
            }
        }
        if negatives.is_empty() {
            return Ok(QueryItem::And(positives));
        }
        let positive = match positives.len() {
            0 => QueryItem::True,
            1 => positives.remove(0),
            _ => QueryItem::And(positives),
        };
        Ok(QueryItem::Not { positive: Box::new(positive), negatives })
    }

    fn compare(
        &self,
        comparison: NumberComparison,
        left: &SyntaxNode,
        right: &SyntaxNode,
        scope: &AnnotationScope<'_>,
    ) -> BuildResult<QueryItem> {
        let is_field = |node: &SyntaxNode| matches!(node.form, SyntaxForm::Name(_) | SyntaxForm::Element(..));
        let (field, value, comparison) = match (is_field(left), is_field(right)) {
            (true, _) => (left, right, comparison),
            (false, true) => (right, left, comparison.with_sides_exchanged()),
            (false, false) => {
                return Err(SyntaxFault::new(
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
        if comparison == NumberComparison::Equal
            && element.is_none()
            && let Some(item) = self.equal_to_text(field, value, value_scope)?
        {
            return Ok(item);
        }
        let name = element.map_or(field.to_owned(), |_| String::new());
        let item = match &value.form {
            // The value of an element is a word, whatever the type of the field.
            _ if element.is_some() && comparison == NumberComparison::Equal => QueryItem::Term {
                field: name,
                text: self.text(value)?,
                matching: TermMatch::Word,
                annotations,
            },
            SyntaxForm::String(text)
                if comparison == NumberComparison::Equal && text.parse::<f64>().is_err() =>
            {
                return Err(SyntaxFault::new(
                    value.at,
                    format!(
                        "'=' compares numbers and truth values; for text write: {field} contains {text:?}"
                    ),
                ));
            }
            _ => {
                let number = self.number(value)?;
                let (low, high) = match comparison {
                    NumberComparison::Equal => (RangeBound::Inclusive(number), RangeBound::Inclusive(number)),
                    NumberComparison::Less => (RangeBound::Open, RangeBound::Exclusive(number)),
                    NumberComparison::LessOrEqual => (RangeBound::Open, RangeBound::Inclusive(number)),
                    NumberComparison::Greater => (RangeBound::Exclusive(number), RangeBound::Open),
                    NumberComparison::GreaterOrEqual => (RangeBound::Inclusive(number), RangeBound::Open),
                };
                let hit_limit = self.hit_limit(value_scope)?;
                QueryItem::Range { field: name, low, high, hit_limit, annotations }
            }
        };
        self.in_element(field, element, item)
    }

    /// Condition `field = value` for a value that is not a number but a truth value, or a range: `"[1;5]"`.
    fn equal_to_text(
        &self,
        field: &str,
        value: &SyntaxNode,
        scope: &AnnotationScope<'_>,
    ) -> BuildResult<Option<QueryItem>> {
        let text = match &value.form {
            SyntaxForm::Bool(true) => "true",
            SyntaxForm::Bool(false) => "false",
            SyntaxForm::String(text) => text.trim(),
            SyntaxForm::Parameter(name) => self.parameter(value.at, name)?.trim(),
            _ => return Ok(None),
        };
        let annotations = self.annotations(scope)?;
        let field = field.to_owned();
        if matches!(text, "true" | "false") {
            let (text, matching) = (TermText::from(text), TermMatch::Word);
            return Ok(Some(QueryItem::Term { field, text, matching, annotations }));
        }
        let range = text.starts_with(['[', '<', '>']).then(|| number_text::parse(text)).flatten();
        let Some(NumberText { low, high, hit_limit }) = range else { return Ok(None) };
        let hit_limit = if hit_limit.is_none() { self.hit_limit(scope)? } else { hit_limit };
        Ok(Some(QueryItem::Range { field, low, high, hit_limit, annotations }))
    }

    /// Name of a field, with the element index if one is given.
    fn field<'n>(&self, node: &'n SyntaxNode) -> BuildResult<(&'n str, Option<u32>)> {
        let (name, element) = match &node.form {
            SyntaxForm::Name(name) => (name.as_str(), None),
            SyntaxForm::String(name) if !name.is_empty() => (name.as_str(), None),
            SyntaxForm::Element(name, index) => (name.as_str(), Some(*index)),
            _ => {
                return Err(SyntaxFault::new(
                    node.at,
                    format!(
                        "expected the name of a field, found {}; for example: title contains \"word\"",
                        node.describe()
                    ),
                ));
            }
        };
        check_name(name).map_err(|reason| SyntaxFault::new(node.at, reason))?;
        Ok((name, element))
    }

    /// Restricts a condition to one element of a field: `numbers[2] = 42`.
    fn in_element(&self, field: &str, element: Option<u32>, item: QueryItem) -> BuildResult<QueryItem> {
        Ok(match element {
            None => item,
            Some(index) => QueryItem::SameElement {
                field: field.to_owned(),
                children: vec![item],
                elements: vec![index],
                annotations: Default::default(),
            },
        })
    }
}

impl<'a> AnnotationScope<'a> {
    /// Scope of the content of `node`, or of the node itself.
    fn inside(&'a self, node: &'a SyntaxNode) -> AnnotationScope<'a> {
        AnnotationScope {
            annotations: &node.annotations,
            parent: Some(self),
            count: self.count + node.annotations.len(),
            in_element: self.in_element,
        }
    }
}

impl NumberComparison {
    /// The same comparison with its sides exchanged.
    fn with_sides_exchanged(self) -> Self {
        match self {
            NumberComparison::Equal => NumberComparison::Equal,
            NumberComparison::Less => NumberComparison::Greater,
            NumberComparison::LessOrEqual => NumberComparison::GreaterOrEqual,
            NumberComparison::Greater => NumberComparison::Less,
            NumberComparison::GreaterOrEqual => NumberComparison::LessOrEqual,
        }
    }
}
