//! Operators with function syntax: one table row each, with example, description, and code.

mod conditions;
mod terms;

use std::ops::RangeInclusive;

pub(crate) use conditions::{kilometres, predicate_subqueries};

use super::annotations::TextReading;
use super::{AnnotationScope, BuildResult, ItemBuilder};
use crate::item::{NEAR_DISTANCE, TARGET_HITS};
use crate::syntax::{SyntaxFault, SyntaxForm, SyntaxNode};
use crate::{
    ItemAnnotations, QueryGrammar, QueryItem, TermMatch, TermText, TextSyntax, UserText, WordComposite,
};

/// Length of one degree along a meridian.
pub(crate) const KILOMETRES_PER_DEGREE: f64 = std::f64::consts::PI * 6356.752 / 180.0;
/// Maximum number of arguments of operators that accept any number.
const MANY: usize = usize::MAX;

/// A YQL operator with function syntax.
pub struct YqlOperator {
    /// Name; case is ignored.
    pub name: &'static str,
    /// Role of its calls.
    pub role: OperatorRole,
    /// Number of arguments.
    pub arity: RangeInclusive<usize>,
    /// Example of its use.
    pub example: &'static str,
    /// Description.
    pub doc: &'static str,
    code: Code,
}

/// Role of the calls of an operator in a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorRole {
    /// A condition by itself.
    Condition,
    /// The operand of `field contains`.
    Term,
}

type Code = fn(&ItemBuilder<'_>, &OperatorCall<'_>) -> BuildResult<QueryItem>;

/// An operator with its arguments.
struct OperatorCall<'a> {
    operator: &'static YqlOperator,
    at: usize,
    /// Field of a term operator.
    field: &'a str,
    arguments: &'a [SyntaxNode],
    scope: &'a AnnotationScope<'a>,
}

/// Table rows: name, role, arity, example, description, code.
macro_rules! operators {
    ($($name:literal, $role:ident, $arity:expr, $example:literal, $doc:literal, $code:expr;)*) => {
        &[$(YqlOperator { name: $name, role: OperatorRole::$role, arity: $arity, example: $example, doc: $doc, code: $code }),*]
    };
}

/// All operators with function syntax.
#[rustfmt::skip]
pub static OPERATORS: &[YqlOperator] = operators! {
    "range", Condition, 3..=3, "range(year, 2000, 2010) or range(year, 2000, Infinity)",
        "Numbers between two bounds, both included unless `bounds` says open, leftOpen or rightOpen.", conditions::range;
    "rank", Condition, 1..=MANY, "rank(title contains \"a\", body contains \"b\")",
        "What the first argument matches; the others only count for ranking.", conditions::rank;
    "labeled", Condition, 3..=3, "labeled(title contains \"a\", \"mine\", 2.5)",
        "What the first argument matches; `itemRawScore(mine)` is the number where it does.", conditions::labeled;
    "weakAnd", Condition, 1..=MANY, "({targetHits: 10}weakAnd(title contains \"a\", body contains \"b\"))",
        "What any argument matches, scored by all: or.", conditions::weak_and;
    "wand", Condition, 2..=2, "wand(tags, {\"a\": 1, \"b\": 2}) or wand(tags, @tokens)",
        "Any of the tokens, scored by the sum of weights; with `scoreThreshold` only above it.", conditions::weighted_operator;
    "dotProduct", Condition, 2..=2, "dotProduct(tags, {\"a\": 1, \"b\": 2}) or dotProduct(tags, @tokens)",
        "Any of the tokens, scored by the sum of weights.", conditions::weighted_operator;
    "weightedSet", Condition, 2..=2, "weightedSet(tags, {\"a\": 1, \"b\": 2}) or weightedSet(tags, @tokens)",
        "Any of the tokens, with the weights of the ones that match.", conditions::weighted_operator;
    "nearestNeighbor", Condition, 2..=2, "({targetHits: 10}nearestNeighbor(embedding, q)) with the parameter input.query(q)=[…]",
        "The documents whose vectors are nearest to the query's; exact.", conditions::nearest_neighbor;
    "geoLocation", Condition, 4..=4, "geoLocation(place, 63.5, 10.5, \"200 km\")",
        "Positions within a distance of a place.", conditions::geo_location;
    "geoBoundingBox", Condition, 5..=5, "geoBoundingBox(place, 63.25, 10.01, 63.45, 10.61), which are south, west, north, east",
        "Positions within a box.", conditions::geo_bounding_box;
    "userInput", Condition, 1..=1, "userInput(@text)",
        "Text that a person typed, read as `grammar` says.", conditions::user_input;
    "userQuery", Condition, 0..=1, "userQuery() with the parameter query=…",
        "The text of the parameter `query`, read as `type` says. An argument, as in `userQuery(void)`, is passed over.", conditions::user_query;
    "nonEmpty", Condition, 1..=1, "nonEmpty(title contains @text)",
        "The condition; an error where a term in it has no text.", conditions::non_empty;
    "predicate", Condition, 3..=3, "predicate(conditions, {\"gender\": \"female\"}, {\"age\": 20})",
        "Documents whose predicate is true for these attributes and numbers; `0`, `void` or `null` stands for none.", conditions::predicate;
    "phrase", Term, 1..=MANY, "phrase(\"new\", \"york\")",
        "The words one after another; each can be a part of its word, as in `phrase(\"new\", prefix(\"yo\"))`, a phrase, or alternatives.", terms::phrase;
    "near", Term, 1..=MANY, "({distance: 5}near(\"web\", \"search\"))",
        "The terms at most `distance` apart, in any order; those negated at least `exclusionDistance` away.", terms::near;
    "onear", Term, 1..=MANY, "({distance: 5}onear(\"web\", \"search\"))", "As near, in this order.", terms::near;
    "equiv", Term, 1..=MANY, "equiv(\"car\", \"automobile\")", "Any of the terms, which rank as one.", terms::equiv;
    "alternatives", Term, 1..=1, "alternatives({\"sneakers\": 1.0, \"shoes\": 0.7})",
        "Any of the words, which rank as one.", terms::alternatives;
    "fuzzy", Term, 1..=1, "({maxEditDistance: 1, prefixLength: 2}fuzzy(\"parantesis\"))",
        "Words that differ in at most `maxEditDistance` (2; at most 1,000) letters, not in the first `prefixLength` (0).", terms::fuzzy;
    "prefix", Term, 1..=1, "prefix(\"wor\")", "Words that begin with the text.", terms::prefix;
    "substring", Term, 1..=1, "substring(\"or\")", "Words that have the text inside.", terms::substring;
    "suffix", Term, 1..=1, "suffix(\"ord\")", "Words that end with the text.", terms::suffix;
    "sameElement", Term, 1..=MANY, "persons contains sameElement(first_name contains \"Joe\", year_of_birth < 1940)",
        "One element of the field matches all the conditions; with `elementFilter` one of the given elements.", terms::same_element;
    "text", Term, 1..=1, "text(\"some words\") or text(@words)",
        "The words of a text, put together as `grammar.composite` says.", terms::text;
    "uri", Term, 1..=1, "uri(\"example.org/page\")", "The words of an address, one after another.", terms::uri;
};

/// Names of the operators for a position, as part of a sentence.
fn names(role: OperatorRole) -> String {
    let names: Vec<&str> =
        OPERATORS.iter().filter(|operator| operator.role == role).map(|operator| operator.name).collect();
    match names.split_last() {
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

fn operator(name: &str, role: OperatorRole) -> Option<&'static YqlOperator> {
    OPERATORS.iter().find(|operator| operator.role == role && operator.name.eq_ignore_ascii_case(name))
}

impl ItemBuilder<'_> {
    /// Condition `field contains value`.
    pub(super) fn contains(
        &self,
        field: &SyntaxNode,
        value: &SyntaxNode,
        scope: &AnnotationScope<'_>,
    ) -> BuildResult<QueryItem> {
        let (name, element) = self.field(field)?;
        let item = self.value(element.map_or(name, |_| ""), value, scope)?;
        self.in_element(name, element, item)
    }

    /// Operand after `contains`.
    pub(super) fn value(
        &self,
        field: &str,
        node: &SyntaxNode,
        above: &AnnotationScope<'_>,
    ) -> BuildResult<QueryItem> {
        let scope = &above.inside(node);
        match &node.form {
            SyntaxForm::String(_)
            | SyntaxForm::Name(_)
            | SyntaxForm::Number(_)
            | SyntaxForm::Bool(_)
            | SyntaxForm::Parameter(_) => Ok(QueryItem::Term {
                field: field.to_owned(),
                text: self.text(node)?,
                matching: self.matching(scope)?,
                annotations: self.annotations(scope)?,
            }),
            SyntaxForm::Call(name, arguments) => self.term_function(field, node.at, name, arguments, scope),
            _ => Err(SyntaxFault::new(
                node.at,
                format!(
                    "expected text or a function of text, found {}; for example: \"word\" or phrase(\"two\", \"words\")",
                    node.describe()
                ),
            )),
        }
    }

    /// A term operator.
    fn term_function(
        &self,
        field: &str,
        at: usize,
        name: &str,
        arguments: &[SyntaxNode],
        scope: &AnnotationScope<'_>,
    ) -> BuildResult<QueryItem> {
        let Some(operator) = operator(name, OperatorRole::Term) else {
            let known = names(OperatorRole::Term);
            return Err(SyntaxFault::new(
                at,
                format!("'{name}' is not a function of text; there are {known}"),
            ));
        };
        self.apply(&OperatorCall { operator, at, field, arguments, scope })
    }

    /// An operator that is a condition.
    pub(super) fn call(
        &self,
        at: usize,
        name: &str,
        arguments: &[SyntaxNode],
        scope: &AnnotationScope<'_>,
    ) -> BuildResult<QueryItem> {
        match operator(name, OperatorRole::Condition) {
            Some(operator) => self.apply(&OperatorCall { operator, at, field: "", arguments, scope }),
            None if scope.in_element => self.term_function("", at, name, arguments, scope),
            None if operator(name, OperatorRole::Term).is_some() => Err(SyntaxFault::new(
                at,
                format!("{name}(…) needs a field; for example: title contains {name}(\"word\")"),
            )),
            None => {
                let known = names(OperatorRole::Condition);
                Err(SyntaxFault::new(at, format!("no operator '{name}'; there are {known}")))
            }
        }
    }

    fn apply(&self, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
        let YqlOperator { name, arity, example, code, .. } = call.operator;
        if !arity.contains(&call.arguments.len()) {
            let count = call.arguments.len();
            let reason = format!("{name}(…) cannot have {count} arguments; for example: {example}");
            return Err(SyntaxFault::new(call.at, reason));
        }
        code(self, call)
    }

    /// Arguments, as conditions.
    fn children(&self, call: &OperatorCall<'_>) -> BuildResult<Vec<QueryItem>> {
        call.arguments.iter().map(|child| self.item(child, call.scope)).collect()
    }

    fn user_text(
        &self,
        field: &str,
        text: &SyntaxNode,
        scope: &AnnotationScope<'_>,
        syntax: TextSyntax,
    ) -> BuildResult<QueryItem> {
        let scope = &scope.inside(text);
        let default = QueryGrammar { syntax, ..self.context.input_grammar };
        let annotations: ItemAnnotations = self.annotations(scope)?;
        let allow_empty = self.flag(scope, "allowEmpty", false)?;
        let is_missing =
            matches!(&text.form, SyntaxForm::Parameter(name) if !self.context.parameters.contains_key(name));
        let words = if allow_empty && is_missing { String::new() } else { self.text(text)?.text };
        self.count_words(text.at, &words, &annotations)?;
        let term = |annotations| {
            Ok(QueryItem::Term {
                field: field.to_owned(),
                text: TermText::from(words.as_str()),
                matching: self.matching(scope)?,
                annotations,
            })
        };
        let grammar = match self.grammar(scope, default)? {
            TextReading::Grammar(grammar) => grammar,
            // An empty text is left out, with any reading of words.
            _ if allow_empty && words.is_empty() => default,
            TextReading::Raw => return term(ItemAnnotations { implicit_transforms: false, ..annotations }),
            TextReading::Segment => return term(annotations),
        };
        let near = matches!(grammar.composite, WordComposite::Near | WordComposite::OrderedNear);
        Ok(QueryItem::Text(UserText {
            field: field.to_owned(),
            text: words,
            grammar,
            filter: None,
            allow_empty,
            target_hits: self.target_hits(scope)?.unwrap_or(TARGET_HITS),
            distance: if near {
                self.count(scope, "distance")?.unwrap_or(NEAR_DISTANCE)
            } else {
                NEAR_DISTANCE
            },
            annotations,
        }))
    }

    /// Counts the annotations of a text as often as it can have words.
    fn count_words(&self, at: usize, text: &str, annotations: &ItemAnnotations) -> BuildResult<()> {
        self.context.copies.take(at, annotations.text_bytes().saturating_mul(text.len().div_ceil(2)))
    }

    /// Match type given by `prefix`, `substring` and `suffix` of a term.
    fn matching(&self, scope: &AnnotationScope<'_>) -> BuildResult<TermMatch> {
        self.count_annotations(scope)?;
        let kinds = [
            ("substring", TermMatch::Substring),
            ("prefix", TermMatch::Prefix),
            ("suffix", TermMatch::Suffix),
        ];
        let mut matching = TermMatch::Word;
        for (name, kind) in kinds {
            if !self.flag(scope, name, false)? {
                continue;
            }
            if matching != TermMatch::Word {
                let at = scope.annotation(name).map_or(0, |node| node.at);
                return Err(SyntaxFault::new(at, "only one of prefix, substring and suffix can be set"));
            }
            matching = kind;
        }
        Ok(matching)
    }
}
