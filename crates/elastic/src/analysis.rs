//! `_analyze`: the words of a text, as searches compare them.

use serde_json::json;

use crate::Error;
use crate::evaluation::{FieldValueKind, kind_of};
use crate::fields::names_of;
use crate::kept_hits::take_answer;
use crate::mapping::{field_at, type_of};
use crate::names::{self, NameOptions};
use crate::query::text_of;
use crate::request::{ElasticParameters, ElasticRequest, ReplyContent, object_of};
use crate::service::ElasticService;
use crate::text_division::TextDivision;

/// Positions between the words of two texts, so that no phrase has words of both.
const TEXT_GAP: usize = 100;

/// `_analyze`.
pub(crate) fn analyze(
    service: &ElasticService,
    request: &ElasticRequest,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<ReplyContent, Error> {
    let body = object_of(&request.body)?;
    if let Some(other) = body.keys().find(|name| !["text", "analyzer", "field"].contains(&name.as_str())) {
        return Err(Error::unsupported(&format!("[{other}] of [_analyze]")));
    }
    let texts = match body.get("text").map(names_of) {
        Some(texts) if !texts.is_empty() => texts,
        _ => return Err(Error::Validation(vec!["text is missing".to_owned()])),
    };
    let division = match (body.get("analyzer"), body.get("field")) {
        (Some(analyzer), _) => TextDivision::of_analyzer(&text_of(analyzer))?,
        (None, Some(field)) => of_field(service, parameters, expression, &text_of(field))?,
        (None, None) => TextDivision::Words,
    };
    let (mut tokens, mut position, mut offset) = (Vec::new(), 0, 0);
    for text in &texts {
        // Offsets are those of UTF-16.
        let units = |part: &str| part.encode_utf16().count();
        let (mut last, mut before) = (0, offset);
        for span in division.spans(text) {
            let word = division.compared(&text[span.clone()]);
            let start = before + units(&text[last..span.start]);
            let end = start + units(&text[span.clone()]);
            (last, before) = (span.end, end);
            let kind = division.kind_of_word(&word);
            let token = json!({
                "token": word, "start_offset": start, "end_offset": end, "type": kind, "position": position,
            });
            take_answer(&service.answer_memory, &token)?;
            tokens.push(token);
            position += 1;
        }
        position += TEXT_GAP;
        offset = before + units(&text[last..]) + 1;
    }
    ReplyContent::ok(json!({ "tokens": tokens }))
}

/// Division of the texts of a field. Without an index there are no fields.
fn of_field(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
    field: &str,
) -> Result<TextDivision, Error> {
    if expression.is_empty() {
        return Err(Error::Validation(vec!["index is missing: it has the [field]".to_owned()]));
    }
    let options = NameOptions::LENIENT.with(parameters)?;
    let indexes = names::resolve(&*service.catalog.read()?, expression, options)?;
    let divisions = indexes.into_iter().map(|index| -> Result<Option<TextDivision>, Error> {
        let index = index.with_observed(&service.node)?;
        let definition = field_at(&index.entry.mappings, field).map(|(definition, _)| definition);
        Ok(definition.map(|definition| match kind_of(type_of(definition)) {
            FieldValueKind::Text => TextDivision::of_field(definition),
            _ => TextDivision::Whole,
        }))
    });
    let divisions = divisions.collect::<Result<Vec<_>, Error>>()?;
    Ok(divisions.into_iter().flatten().next().unwrap_or_default())
}
