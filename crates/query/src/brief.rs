//! Short form of items in traces: `AND title:fox (OR red body:"old dog")`.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use crate::display::{RangeText, uri_text};
use crate::{QueryItem, TermMatch, TermText, WeightedOperator};

/// An item displayed in short form: without annotations, and without the field name `default`.
#[derive(Debug, Clone, Copy)]
pub struct BriefItem<'i>(pub &'i QueryItem);

/// A nested item: operators with operands get parentheses.
struct NestedItem<'i>(&'i QueryItem);

impl Display for NestedItem<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            QueryItem::And(_)
            | QueryItem::Or(_)
            | QueryItem::Rank(_)
            | QueryItem::Not { .. }
            | QueryItem::Labeled { .. }
            | QueryItem::WeakAnd { .. } => {
                write!(f, "({})", BriefItem(self.0))
            }
            QueryItem::Typed(inner) => NestedItem(inner).fmt(f),
            other => BriefItem(other).fmt(f),
        }
    }
}

impl Display for BriefItem<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            QueryItem::True => f.write_str("TRUE"),
            QueryItem::False => f.write_str("FALSE"),
            QueryItem::And(children) => operator(f, "AND", children),
            QueryItem::Or(children) => operator(f, "OR", children),
            QueryItem::Rank(children) => operator(f, "RANK", children),
            QueryItem::WeakAnd { children, .. } => operator(f, "WEAKAND", children),
            QueryItem::Not { positive, negatives } => {
                write!(f, "+{}", NestedItem(positive))?;
                negatives.iter().try_for_each(|negative| write!(f, " -{}", NestedItem(negative)))
            }
            QueryItem::Term { field, text, matching, .. } => {
                name(f, field)?;
                f.write_str(&matched(text, matching))
            }
            QueryItem::Phrase { field, words, .. } => {
                let words: Vec<_> = words.iter().map(|word| matched(&word.text, &word.matching)).collect();
                name(f, field)?;
                write!(f, "\"{}\"", words.join(" "))
            }
            QueryItem::Near { field, words, distance, ordered, .. } => {
                name(f, field)?;
                call(f, &format!("{}({distance})", if *ordered { "ONEAR" } else { "NEAR" }), words)
            }
            QueryItem::Equiv { field, words, .. } => {
                name(f, field)?;
                call(f, "EQUIV", words)
            }
            QueryItem::Alternatives { field, words, .. } => {
                name(f, field)?;
                let words: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
                write!(f, "WORD_ALTERNATIVES[{}]", words.join(" "))
            }
            QueryItem::SameElement { field, children, .. } => {
                name(f, field)?;
                call(f, "", children)
            }
            QueryItem::Range { field, low, high, .. } => {
                name(f, field)?;
                write!(f, "{}", RangeText(*low, *high))
            }
            QueryItem::In { field, values, .. } => {
                name(f, field)?;
                write!(f, "IN({})", values.join(","))
            }
            QueryItem::Weighted { operator, field, tokens, .. } => {
                let operator = match operator {
                    WeightedOperator::WeightedSet => "WEIGHTEDSET",
                    WeightedOperator::DotProduct => "DOTPRODUCT",
                    WeightedOperator::Wand { .. } => "WAND",
                };
                name(f, field)?;
                let tokens: Vec<String> =
                    tokens.iter().map(|(token, weight)| format!("{token}:{weight}")).collect();
                write!(f, "{operator}{{{}}}", tokens.join(","))
            }
            QueryItem::Text(text) => {
                name(f, &text.field)?;
                write!(f, "{:?}", text.text)
            }
            QueryItem::Typed(inner) => BriefItem(inner).fmt(f),
            QueryItem::Labeled { item, label, score } => {
                write!(f, "LABELED({label}={score}) {}", NestedItem(item))
            }
            other @ (QueryItem::NearestNeighbor(_)
            | QueryItem::GeoLocation { .. }
            | QueryItem::GeoBoundingBox { .. }
            | QueryItem::Predicate { .. }) => other.fmt(f),
        }
    }
}

fn matched<'t>(TermText { text, .. }: &'t TermText, matching: &TermMatch) -> Cow<'t, str> {
    match matching {
        TermMatch::Word | TermMatch::Fuzzy { .. } => text.into(),
        TermMatch::Uri { start, end } => uri_text(text, *start, *end).into(),
        TermMatch::Prefix => format!("{text}*").into(),
        TermMatch::Suffix => format!("*{text}").into(),
        TermMatch::Substring => format!("*{text}*").into(),
        TermMatch::Regex => format!("/{text}/").into(),
    }
}

fn name(f: &mut Formatter<'_>, field: &str) -> fmt::Result {
    if field.is_empty() || field == "default" { Ok(()) } else { write!(f, "{field}:") }
}

fn operator(f: &mut Formatter<'_>, operator: &str, children: &[QueryItem]) -> fmt::Result {
    f.write_str(operator)?;
    children.iter().try_for_each(|child| write!(f, " {}", NestedItem(child)))
}

fn call(f: &mut Formatter<'_>, operator: &str, children: &[QueryItem]) -> fmt::Result {
    let children: Vec<String> = children.iter().map(|child| NestedItem(child).to_string()).collect();
    write!(f, "{operator}{{{}}}", children.join(" "))
}
