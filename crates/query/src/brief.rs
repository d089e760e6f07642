//! Short form of items in traces: `AND title:fox (OR red body:"old dog")`.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use crate::{Bound, Item, Match, TermText, WeightedOperator};

/// An item displayed in short form: without annotations, and without the field name `default`.
#[derive(Debug, Clone, Copy)]
pub struct Brief<'i>(pub &'i Item);

/// A nested item: operators with operands get parentheses.
struct Inside<'i>(&'i Item);

impl Display for Inside<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Item::And(_) | Item::Or(_) | Item::Rank(_) | Item::Not { .. } | Item::WeakAnd { .. } => {
                write!(f, "({})", Brief(self.0))
            }
            Item::Typed(inner) => Inside(inner).fmt(f),
            other => Brief(other).fmt(f),
        }
    }
}

impl Display for Brief<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Item::True => f.write_str("TRUE"),
            Item::False => f.write_str("FALSE"),
            Item::And(children) => operator(f, "AND", children),
            Item::Or(children) => operator(f, "OR", children),
            Item::Rank(children) => operator(f, "RANK", children),
            Item::WeakAnd { children, .. } => operator(f, "WEAKAND", children),
            Item::Not { positive, negatives } => {
                write!(f, "+{}", Inside(positive))?;
                negatives.iter().try_for_each(|negative| write!(f, " -{}", Inside(negative)))
            }
            Item::Term { field, text, matching, .. } => {
                name(f, field)?;
                f.write_str(&matched(text, matching))
            }
            Item::Phrase { field, words, .. } => {
                let words: Vec<_> = words.iter().map(|word| matched(&word.text, &word.matching)).collect();
                name(f, field)?;
                write!(f, "\"{}\"", words.join(" "))
            }
            Item::Near { field, words, distance, ordered, .. } => {
                name(f, field)?;
                call(f, &format!("{}({distance})", if *ordered { "ONEAR" } else { "NEAR" }), words)
            }
            Item::Equiv { field, words, .. } => {
                name(f, field)?;
                call(f, "EQUIV", words)
            }
            Item::Alternatives { field, words, .. } => {
                name(f, field)?;
                let words: Vec<&str> = words.iter().map(|(word, _)| word.as_str()).collect();
                write!(f, "WORD_ALTERNATIVES[{}]", words.join(" "))
            }
            Item::SameElement { field, children, .. } => {
                name(f, field)?;
                call(f, "", children)
            }
            Item::Range { field, low, high, .. } => {
                name(f, field)?;
                match (low, high) {
                    (Bound::Inclusive(low), Bound::Inclusive(high)) if low == high => write!(f, "{low}"),
                    (Bound::Open, Bound::Exclusive(high)) => write!(f, "<{high}"),
                    (Bound::Exclusive(low), Bound::Open) => write!(f, ">{low}"),
                    _ => {
                        match low {
                            Bound::Open => f.write_str("[;")?,
                            Bound::Inclusive(low) => write!(f, "[{low};")?,
                            Bound::Exclusive(low) => write!(f, "<{low};")?,
                        }
                        match high {
                            Bound::Open => f.write_str("]"),
                            Bound::Inclusive(high) => write!(f, "{high}]"),
                            Bound::Exclusive(high) => write!(f, "{high}>"),
                        }
                    }
                }
            }
            Item::In { field, values, .. } => {
                name(f, field)?;
                write!(f, "IN({})", values.join(","))
            }
            Item::Weighted { operator, field, tokens, .. } => {
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
            Item::Text(text) => {
                name(f, &text.field)?;
                write!(f, "{:?}", text.text)
            }
            Item::Typed(inner) => Brief(inner).fmt(f),
            other @ (Item::NearestNeighbor(_)
            | Item::GeoLocation { .. }
            | Item::GeoBoundingBox { .. }
            | Item::Predicate { .. }) => other.fmt(f),
        }
    }
}

fn matched<'t>(TermText { text, .. }: &'t TermText, matching: &Match) -> Cow<'t, str> {
    match matching {
        Match::Word | Match::Fuzzy { .. } => text.into(),
        Match::Prefix => format!("{text}*").into(),
        Match::Suffix => format!("*{text}").into(),
        Match::Substring => format!("*{text}*").into(),
        Match::Regex => format!("/{text}/").into(),
    }
}

fn name(f: &mut Formatter<'_>, field: &str) -> fmt::Result {
    if field.is_empty() || field == "default" { Ok(()) } else { write!(f, "{field}:") }
}

fn operator(f: &mut Formatter<'_>, operator: &str, children: &[Item]) -> fmt::Result {
    f.write_str(operator)?;
    children.iter().try_for_each(|child| write!(f, " {}", Inside(child)))
}

fn call(f: &mut Formatter<'_>, operator: &str, children: &[Item]) -> fmt::Result {
    let children: Vec<String> = children.iter().map(|child| Inside(child).to_string()).collect();
    write!(f, "{operator}{{{}}}", children.join(" "))
}
