//! Latitude and longitude as numbers or as text: `63.5`, `"N63.5"`, `"10E25.982"`, `"W122o01'28"`,
//! `"-122o01'28"`.

use millrace_document::scalar::{self, GlobeAxis};

use super::{BuildResult, ItemBuilder};
use crate::syntax::{SyntaxFault, SyntaxForm, SyntaxNode};

impl ItemBuilder<'_> {
    /// Latitude and longitude of two arguments, which come in this order unless their texts have points of
    /// the compass that say otherwise.
    pub(super) fn coordinates(&self, first: &SyntaxNode, second: &SyntaxNode) -> BuildResult<(f64, f64)> {
        let one = self.degrees(first, GlobeAxis::Latitude)?;
        let other = self.degrees(second, GlobeAxis::Longitude)?;
        match (one, other) {
            ((latitude, GlobeAxis::Latitude), (longitude, GlobeAxis::Longitude))
            | ((longitude, GlobeAxis::Longitude), (latitude, GlobeAxis::Latitude)) => {
                Ok((latitude, longitude))
            }
            _ => Err(SyntaxFault::new(
                second.at,
                "expected a latitude and a longitude, found two of a kind; for example: \"N63.5\", \"E10.5\"",
            )),
        }
    }

    fn degrees(&self, node: &SyntaxNode, assumed: GlobeAxis) -> BuildResult<(f64, GlobeAxis)> {
        let text = match &node.form {
            SyntaxForm::String(text) => text,
            SyntaxForm::Parameter(name) => self.parameter(node.at, name)?,
            _ => return Ok((self.number(node)?.as_f64(), assumed)),
        };
        let signed = || Some((scalar::signed_degrees(text.trim())?, assumed));
        scalar::degrees(text.trim()).or_else(signed).ok_or_else(|| {
            let reason = format!("{text:?} is not degrees; for example: 63.5, \"N63.5\" or \"63N30.25\"");
            SyntaxFault::new(node.at, reason)
        })
    }
}
