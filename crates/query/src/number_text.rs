//! Numbers and ranges in the text of a term: `42`, `<5`, `>=3`, `[1;5]`, `[1;5>`, `<;5;-10]`.

use crate::build::parse_number;
use crate::{QueryNumber, RangeBound};

/// The range given by a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NumberText {
    /// The lower bound.
    pub low: RangeBound,
    /// The upper bound.
    pub high: RangeBound,
    /// The third part of a range: maximum number of hits from the low end (negative: from the high end).
    pub hit_limit: Option<i64>,
}

/// Parses a number or a range; `None` for other text. Whole numbers are limited to the range of 64 bits.
pub fn parse(text: &str) -> Option<NumberText> {
    let text = text.trim();
    let single = |low, high| Some(NumberText { low, high, hit_limit: None });
    if let Some((left, inner, right)) = brackets(text) {
        let mut parts = inner.split(';').map(str::trim);
        let mut bound = |is_open: bool| match parts.next() {
            None | Some("") => Some(RangeBound::Open),
            Some(text) if is_open => number(text).map(RangeBound::Exclusive),
            Some(text) => number(text).map(RangeBound::Inclusive),
        };
        let (low, high) = in_order(bound(left == '<')?, bound(right == '>')?);
        return Some(NumberText { low, high, hit_limit: parts.next().and_then(|limit| limit.parse().ok()) });
    }
    for (sign, less, inclusive) in
        [("<=", true, true), (">=", false, true), ("<", true, false), (">", false, false)]
    {
        if let Some(rest) = text.strip_prefix(sign) {
            let number = number(rest)?;
            let bound = if inclusive { RangeBound::Inclusive(number) } else { RangeBound::Exclusive(number) };
            return if less { single(RangeBound::Open, bound) } else { single(bound, RangeBound::Open) };
        }
    }
    let number = RangeBound::Inclusive(number(text)?);
    single(number, number)
}

/// The bounds of a range, which may be given in either order: the lower one first.
pub(crate) fn in_order(one: RangeBound, other: RangeBound) -> (RangeBound, RangeBound) {
    match (one.number(), other.number()) {
        (Some(low), Some(high)) if low > high => (other, one),
        _ => (one, other),
    }
}

impl RangeBound {
    /// The number; `None` where there is no limit.
    pub(crate) fn number(self) -> Option<f64> {
        match self {
            RangeBound::Open => None,
            RangeBound::Inclusive(number) | RangeBound::Exclusive(number) => Some(number.as_f64()),
        }
    }
}

/// Length in bytes of the range, or the comparison, at the start of `text`.
pub(crate) fn length(text: &str) -> usize {
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
    let signs = text.find(|c| !matches!(c, '<' | '>' | '=')).unwrap_or(text.len());
    let rest = &text[signs..];
    let digits = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
    if text.starts_with('[') || rest[digits..].starts_with(';') {
        return text[1..].find([']', '>']).map_or(text.len(), |close| close + 2);
    }
    signs + digits
}

/// Brackets around a range with a semicolon, and the text between them.
fn brackets(text: &str) -> Option<(char, &str, char)> {
    let mut chars = text.chars();
    let (left, right) = (chars.next()?, chars.next_back()?);
    let inner = chars.as_str();
    (matches!(left, '[' | '<') && matches!(right, ']' | '>') && inner.contains(';'))
        .then_some((left, inner, right))
}

fn number(text: &str) -> Option<QueryNumber> {
    let text = text.trim();
    let is_whole = text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit());
    match parse_number(text)? {
        QueryNumber::Float(number) if is_whole => {
            Some(QueryNumber::Integer(if number < 0.0 { i64::MIN } else { i64::MAX }))
        }
        number => Some(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges() {
        use RangeBound::{Exclusive, Inclusive, Open};
        let whole = QueryNumber::Integer;
        for (text, low, high, hit_limit) in [
            ("42", Inclusive(whole(42)), Inclusive(whole(42)), None),
            (" -1.5 ", Inclusive(QueryNumber::Float(-1.5)), Inclusive(QueryNumber::Float(-1.5)), None),
            ("<5", Open, Exclusive(whole(5)), None),
            (">=5", Inclusive(whole(5)), Open, None),
            ("[1;5]", Inclusive(whole(1)), Inclusive(whole(5)), None),
            ("<1;5]", Exclusive(whole(1)), Inclusive(whole(5)), None),
            ("[1;5>", Inclusive(whole(1)), Exclusive(whole(5)), None),
            ("[5;1>", Exclusive(whole(1)), Inclusive(whole(5)), None),
            ("<;>", Open, Open, None),
            ("[;5;-10]", Open, Inclusive(whole(5)), Some(-10)),
            ("-9223372036854775809", Inclusive(whole(i64::MIN)), Inclusive(whole(i64::MIN)), None),
            ("9223372036854775808", Inclusive(whole(i64::MAX)), Inclusive(whole(i64::MAX)), None),
        ] {
            assert_eq!(parse(text), Some(NumberText { low, high, hit_limit }), "{text}");
        }
        for text in ["", "[]", "[1]", "x", "[x;1]", "<", "1;2", "é;é"] {
            assert_eq!(parse(text), None, "{text}");
        }
        for (text, taken) in
            [("[1;5] x", 5), ("<1;5> x", 5), ("<5 x", 2), (">=5", 3), ("[1;5", 4), ("<", 1), ("<;2] ", 4)]
        {
            assert_eq!(length(text), taken, "{text}");
        }
    }
}
