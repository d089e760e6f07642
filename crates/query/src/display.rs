//! Text form of items, for traces and tests: `AND(title:"word" year:[2000;])`.

use std::fmt::{self, Display, Formatter};

use crate::{
    ItemAnnotations, PhraseWord, QueryItem, RangeBound, TermMatch, TermText, TextSyntax, UserText,
    WeightedOperator, WordComposite,
};

impl Display for QueryItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            QueryItem::True => f.write_str("TRUE"),
            QueryItem::False => f.write_str("FALSE"),
            QueryItem::And(children) => list(f, "AND", children),
            QueryItem::Or(children) => list(f, "OR", children),
            QueryItem::Rank(children) => list(f, "RANK", children),
            QueryItem::Labeled { item, label, score } => write!(f, "LABELED({item} {label:?} {score})"),
            QueryItem::Not { positive, negatives } => {
                write!(f, "NOT({positive}")?;
                negatives.iter().try_for_each(|negative| write!(f, " {negative}"))?;
                f.write_str(")")
            }
            QueryItem::Term { field, text, matching, annotations } => {
                name(f, field)?;
                matched(f, text, matching)?;
                write!(f, "{annotations}")
            }
            QueryItem::Phrase { field, words, annotations } => {
                name(f, field)?;
                list(f, "PHRASE", words)?;
                write!(f, "{annotations}")
            }
            QueryItem::Near {
                field,
                words,
                excluded,
                distance,
                exclusion_distance,
                ordered,
                annotations,
            } => {
                name(f, field)?;
                write!(f, "{}/{distance}(", if *ordered { "ONEAR" } else { "NEAR" })?;
                joined(f, words)?;
                if !excluded.is_empty() {
                    write!(f, " !{exclusion_distance}(")?;
                    joined(f, excluded)?;
                    f.write_str(")")?;
                }
                write!(f, "){annotations}")
            }
            QueryItem::Equiv { field, words, annotations } => {
                name(f, field)?;
                list(f, "EQUIV", words)?;
                write!(f, "{annotations}")
            }
            QueryItem::Alternatives { field, words, annotations } => {
                name(f, field)?;
                let words: Vec<String> =
                    words.iter().map(|(word, exactness)| format!("{word:?}={exactness}")).collect();
                write!(f, "ALTERNATIVES({}){annotations}", words.join(" "))
            }
            QueryItem::SameElement { field, children, elements, annotations } => {
                name(f, field)?;
                f.write_str("SAME_ELEMENT")?;
                if !elements.is_empty() {
                    write!(f, "{elements:?}")?;
                }
                list(f, "", children)?;
                write!(f, "{annotations}")
            }
            QueryItem::Range { field, low, high, hit_limit, annotations } => {
                name(f, field)?;
                write!(f, "{}", RangeText(*low, *high))?;
                if let Some(limit) = hit_limit {
                    write!(f, "#{limit}")?;
                }
                write!(f, "{annotations}")
            }
            QueryItem::In { field, values, annotations } => {
                name(f, field)?;
                let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
                write!(f, "IN({}){annotations}", values.join(" "))
            }
            QueryItem::Weighted { operator, field, tokens, annotations } => {
                name(f, field)?;
                weighted(f, operator)?;
                let tokens: Vec<String> =
                    tokens.iter().map(|(token, weight)| format!("{token:?}={weight}")).collect();
                write!(f, "({}){annotations}", tokens.join(" "))
            }
            QueryItem::WeakAnd { children, target_hits, annotations } => {
                list(f, &format!("WEAKAND/{target_hits}"), children)?;
                write!(f, "{annotations}")
            }
            QueryItem::NearestNeighbor(near) => {
                name(f, &near.field)?;
                write!(f, "NEAREST/{}({}", near.target_hits, near.query_tensor)?;
                if let Some(threshold) = near.distance_threshold {
                    write!(f, "<={threshold}")?;
                }
                write!(f, "){}", near.annotations)
            }
            QueryItem::GeoLocation { field, latitude, longitude, radius_km, annotations } => {
                name(f, field)?;
                write!(f, "CIRCLE({latitude} {longitude} {radius_km:.3}km){annotations}")
            }
            QueryItem::GeoBoundingBox { field, corners: [south, west, north, east], annotations } => {
                name(f, field)?;
                write!(f, "BOX({south} {west} {north} {east}){annotations}")
            }
            QueryItem::Predicate { field, attributes, ranges, annotations } => {
                name(f, field)?;
                let attributes = attributes.iter().map(ToString::to_string);
                let ranges = ranges.iter().map(ToString::to_string);
                let all = attributes.chain(ranges).collect::<Vec<_>>();
                write!(f, "PREDICATE({}){annotations}", all.join(" "))
            }
            QueryItem::Text(text) => write!(f, "{text}"),
            QueryItem::Typed(inner) => write!(f, "TYPED({inner})"),
        }
    }
}

impl Display for UserText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        name(f, &self.field)?;
        let composite = match self.grammar.composite {
            WordComposite::WeakAnd => format!("weakAnd/{}", self.target_hits),
            WordComposite::And => "and".to_owned(),
            WordComposite::Or => "or".to_owned(),
            WordComposite::Phrase => "phrase".to_owned(),
            WordComposite::Near => format!("near/{}", self.distance),
            WordComposite::OrderedNear => format!("oNear/{}", self.distance),
        };
        let syntax = match self.grammar.syntax {
            TextSyntax::None => "none",
            TextSyntax::Simple => "simple",
            TextSyntax::Web => "web",
            TextSyntax::Advanced => "advanced",
        };
        write!(f, "TEXT({:?} {composite} {syntax}", self.text)?;
        if let Some(filter) = &self.filter {
            write!(f, " filter {filter:?}")?;
        }
        write!(f, "{}){}", if self.allow_empty { " may be empty" } else { "" }, self.annotations)
    }
}

impl Display for PhraseWord {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        matched(f, &self.text, &self.matching)
    }
}

/// A range as it may be typed: `[1;5>`, `<5`, `>5`, and a number if no other is in it.
pub(crate) struct RangeText(pub(crate) RangeBound, pub(crate) RangeBound);

impl Display for RangeText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let RangeText(low, high) = self;
        match (low, high) {
            (RangeBound::Inclusive(low), RangeBound::Inclusive(high)) if low == high => {
                return write!(f, "{low}");
            }
            (RangeBound::Open, RangeBound::Exclusive(high)) => return write!(f, "<{high}"),
            (RangeBound::Exclusive(low), RangeBound::Open) => return write!(f, ">{low}"),
            _ => {}
        }
        match low {
            RangeBound::Open => f.write_str("[;")?,
            RangeBound::Inclusive(low) => write!(f, "[{low};")?,
            RangeBound::Exclusive(low) => write!(f, "<{low};")?,
        }
        match high {
            RangeBound::Open => f.write_str("]"),
            RangeBound::Inclusive(high) => write!(f, "{high}]"),
            RangeBound::Exclusive(high) => write!(f, "{high}>"),
        }
    }
}

/// Text of a term that matches a URI, with the marks of its ends that must match.
pub(crate) fn uri_text(text: impl Display, starts: bool, ends: Option<bool>) -> String {
    let start = if starts { "^" } else { "" };
    let end = ends.map_or("", |ends| if ends { "$" } else { "*" });
    format!("{start}{text}{end}")
}

fn matched(f: &mut Formatter<'_>, text: &TermText, matching: &TermMatch) -> fmt::Result {
    match matching {
        TermMatch::Word => write!(f, "{text}"),
        TermMatch::Prefix => write!(f, "PREFIX({text})"),
        TermMatch::Suffix => write!(f, "SUFFIX({text})"),
        TermMatch::Substring => write!(f, "SUBSTRING({text})"),
        TermMatch::Regex => write!(f, "REGEX({text})"),
        TermMatch::Uri { start, end } => write!(f, "URI({})", uri_text(text, *start, *end)),
        TermMatch::Fuzzy { max_edit_distance, prefix_length, prefix } => {
            let prefix = if *prefix { " prefix" } else { "" };
            write!(f, "FUZZY({text} {max_edit_distance} {prefix_length}{prefix})")
        }
    }
}

impl Display for TermText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

/// Annotations that differ from their defaults, in braces; empty if there are none.
impl Display for ItemAnnotations {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut part = |show: bool, text: String| {
            if show {
                parts.push(text);
            }
        };
        part(self.weight != 100, format!("weight:{}", self.weight));
        part(self.id.is_some(), format!("id:{}", self.id.unwrap_or_default()));
        part(self.label.is_some(), format!("label:{}", self.label.as_deref().unwrap_or_default()));
        part(self.significance.is_some(), format!("significance:{}", self.significance.unwrap_or_default()));
        let (to, strength) = self.connectivity.unwrap_or_default();
        let share = self.document_frequency.unwrap_or_default();
        part(self.document_frequency.is_some(), format!("documentFrequency:{share}"));
        part(self.connectivity.is_some(), format!("connectivity:{to}*{strength}"));
        part(!self.ranked, "unranked".to_owned());
        part(self.filter, "filter".to_owned());
        part(!self.stem, "unstemmed".to_owned());
        part(!self.normalize_case, "cased".to_owned());
        part(!self.accent_drop, "accented".to_owned());
        part(!self.implicit_transforms, "raw".to_owned());
        part(!self.use_position_data, "unpositioned".to_owned());
        part(self.language.is_some(), format!("language:{}", self.language.as_deref().unwrap_or_default()));
        parts.extend(self.other.iter().map(|(key, value)| format!("{key}:{value}")));
        if parts.is_empty() { Ok(()) } else { write!(f, "{{{}}}", parts.join(" ")) }
    }
}

fn weighted(f: &mut Formatter<'_>, operator: &WeightedOperator) -> fmt::Result {
    match operator {
        WeightedOperator::WeightedSet => f.write_str("WEIGHTED_SET"),
        WeightedOperator::DotProduct => f.write_str("DOT_PRODUCT"),
        WeightedOperator::Wand { target_hits, score_threshold } => {
            write!(f, "WAND/{target_hits}")?;
            if score_threshold.is_finite() { write!(f, ">{score_threshold}") } else { Ok(()) }
        }
    }
}

fn name(f: &mut Formatter<'_>, field: &str) -> fmt::Result {
    if field.is_empty() { Ok(()) } else { write!(f, "{field}:") }
}

fn list(f: &mut Formatter<'_>, operator: &str, children: &[impl Display]) -> fmt::Result {
    write!(f, "{operator}(")?;
    joined(f, children)?;
    f.write_str(")")
}

fn joined(f: &mut Formatter<'_>, children: &[impl Display]) -> fmt::Result {
    for (index, child) in children.iter().enumerate() {
        write!(f, "{}{child}", if index > 0 { " " } else { "" })?;
    }
    Ok(())
}
