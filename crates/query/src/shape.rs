//! Shape of a query, for logs: its operators and fields, without words, numbers and positions.

use std::fmt::{self, Display, Formatter, Write as _};

use crate::{QueryItem, RangeBound, TermMatch, WeightedOperator};

/// An item displayed as its shape: `AND(title:? stars:>? OR(tags:? x3))`. Everything that a user may have
/// typed is a `?`, or a number of them; equal operands that follow each other are counted.
#[derive(Debug, Clone, Copy)]
pub struct ItemShape<'i>(pub &'i QueryItem);

impl Display for ItemShape<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            QueryItem::True => f.write_str("TRUE"),
            QueryItem::False => f.write_str("FALSE"),
            QueryItem::And(children) => operator(f, "AND", children),
            QueryItem::Or(children) => operator(f, "OR", children),
            QueryItem::Rank(children) => operator(f, "RANK", children),
            QueryItem::WeakAnd { children, .. } => operator(f, "WEAKAND", children),
            QueryItem::Not { positive, negatives } => {
                write!(f, "NOT({} ", ItemShape(positive))?;
                operands(f, negatives)?;
                f.write_char(')')
            }
            QueryItem::Term { field, matching, .. } => write!(f, "{}{}", name(field), value(matching)),
            QueryItem::Phrase { field, words, .. } => write!(f, "{}PHRASE({})", name(field), words.len()),
            QueryItem::Near { field, words, ordered, .. } => {
                operator(f, &format!("{}{}", name(field), if *ordered { "ONEAR" } else { "NEAR" }), words)
            }
            QueryItem::Alternatives { field, words, .. } => {
                write!(f, "{}ALTERNATIVES({})", name(field), words.len())
            }
            QueryItem::Equiv { field, words, .. } => operator(f, &format!("{}EQUIV", name(field)), words),
            QueryItem::SameElement { field, children, .. } => {
                operator(f, &format!("{}SAMEELEMENT", name(field)), children)
            }
            QueryItem::Range { field, low, high, .. } => {
                let range = match (low, high) {
                    (RangeBound::Inclusive(low), RangeBound::Inclusive(high)) if low == high => "=?",
                    (RangeBound::Open, RangeBound::Open) => "[;]",
                    (RangeBound::Open, _) => "<?",
                    (_, RangeBound::Open) => ">?",
                    _ => "[?;?]",
                };
                write!(f, "{}{range}", name(field))
            }
            QueryItem::In { field, values, .. } => write!(f, "{}IN({})", name(field), values.len()),
            QueryItem::Weighted { operator, field, tokens, .. } => {
                let operator = match operator {
                    WeightedOperator::WeightedSet => "WEIGHTEDSET",
                    WeightedOperator::DotProduct => "DOTPRODUCT",
                    WeightedOperator::Wand { .. } => "WAND",
                };
                write!(f, "{}{operator}({})", name(field), tokens.len())
            }
            QueryItem::NearestNeighbor(nearest) => {
                write!(f, "{}NEAREST({})", name(&nearest.field), nearest.target_hits)
            }
            QueryItem::GeoLocation { field, .. } => write!(f, "{}CIRCLE", name(field)),
            QueryItem::GeoBoundingBox { field, .. } => write!(f, "{}BOX", name(field)),
            QueryItem::Predicate { field, attributes, ranges, .. } => {
                write!(f, "{}PREDICATE({})", name(field), attributes.len() + ranges.len())
            }
            QueryItem::Text(text) => {
                write!(f, "{}TEXT({})", name(&text.field), text.text.split_whitespace().count())
            }
            QueryItem::Typed(inner) | QueryItem::Labeled { item: inner, .. } => ItemShape(inner).fmt(f),
        }
    }
}

/// Field before an operator or a value.
fn name(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("{field}:") }
}

fn value(matching: &TermMatch) -> &'static str {
    match matching {
        TermMatch::Word => "?",
        TermMatch::Prefix => "?*",
        TermMatch::Suffix => "*?",
        TermMatch::Substring => "*?*",
        TermMatch::Regex => "/?/",
        TermMatch::Uri { .. } => "URI(?)",
        TermMatch::Fuzzy { .. } => "~?",
    }
}

fn operator(f: &mut Formatter<'_>, operator: &str, children: &[QueryItem]) -> fmt::Result {
    write!(f, "{operator}(")?;
    operands(f, children)?;
    f.write_char(')')
}

/// Operands with spaces between; of equal ones that follow each other, the first and their number.
fn operands(f: &mut Formatter<'_>, children: &[QueryItem]) -> fmt::Result {
    let shapes: Vec<String> = children.iter().map(|child| ItemShape(child).to_string()).collect();
    for (at, equal) in shapes.chunk_by(|one, other| one == other).enumerate() {
        let space = if at == 0 { "" } else { " " };
        let [first, ..] = equal else { continue };
        write!(f, "{space}{first}")?;
        if equal.len() > 1 {
            write!(f, " x{}", equal.len())?;
        }
    }
    Ok(())
}
