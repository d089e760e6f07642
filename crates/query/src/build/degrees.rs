//! Degrees of latitude and longitude, as numbers or as text: `63.5`, `"N63.5"`, `"10E25.982"`,
//! `"W122o01'28"`.

use super::{Built, ItemBuilder};
use crate::syntax::{SyntaxFault, SyntaxForm, SyntaxNode};

/// One of the two directions on a globe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DegreeAxis {
    Latitude,
    Longitude,
}

impl ItemBuilder<'_> {
    /// Latitude and longitude of two arguments, which come in this order unless their texts have points of
    /// the compass that say otherwise.
    pub(super) fn place(&self, first: &SyntaxNode, second: &SyntaxNode) -> Built<(f64, f64)> {
        let one = self.degrees(first, DegreeAxis::Latitude)?;
        let other = self.degrees(second, DegreeAxis::Longitude)?;
        match (one, other) {
            ((latitude, DegreeAxis::Latitude), (longitude, DegreeAxis::Longitude))
            | ((longitude, DegreeAxis::Longitude), (latitude, DegreeAxis::Latitude)) => {
                Ok((latitude, longitude))
            }
            _ => Err(SyntaxFault::new(
                second.at,
                "expected a latitude and a longitude, found two of a kind; for example: \"N63.5\", \"E10.5\"",
            )),
        }
    }

    fn degrees(&self, node: &SyntaxNode, assumed: DegreeAxis) -> Built<(f64, DegreeAxis)> {
        let text = match &node.form {
            SyntaxForm::String(text) => text,
            SyntaxForm::Parameter(name) => self.parameter(node.at, name)?,
            _ => return Ok((self.number(node)?.as_f64(), assumed)),
        };
        parse(text, assumed).ok_or_else(|| {
            let reason = format!("{text:?} is not degrees; for example: 63.5, \"N63.5\" or \"63N30.25\"");
            SyntaxFault::new(node.at, reason)
        })
    }
}

/// Parses degrees, minutes and seconds, with a sign before them or a point of the compass anywhere. The last
/// number may have a fraction.
fn parse(text: &str, assumed: DegreeAxis) -> Option<(f64, DegreeAxis)> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let (mut degrees, mut numbers, mut complete, mut direction) = (0.0, 0, false, None);
    let mut rest = unsigned;
    while let Some(next) = rest.chars().next() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if end > 0 {
            let (number, after) = rest.split_at(end);
            if complete || numbers == 3 {
                return None;
            }
            degrees += number.parse::<f64>().ok()? / [1.0, 60.0, 3600.0][numbers];
            numbers += 1;
            complete = number.contains('.');
            let separators: &[char] = match numbers {
                1 => &['\u{b0}', 'o'],
                2 => &['\''],
                _ => &[],
            };
            rest = if complete { after } else { after.strip_prefix(separators).unwrap_or(after) };
            continue;
        }
        let (axis, towards) = match next {
            'N' => (DegreeAxis::Latitude, 1.0),
            'S' => (DegreeAxis::Latitude, -1.0),
            'E' => (DegreeAxis::Longitude, 1.0),
            'W' => (DegreeAxis::Longitude, -1.0),
            _ => return None,
        };
        if direction.replace(axis).is_some() {
            return None;
        }
        sign = towards;
        rest = &rest[1..];
    }
    (numbers > 0).then_some((sign * degrees, direction.unwrap_or(assumed)))
}
