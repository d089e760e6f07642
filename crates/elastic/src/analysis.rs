//! `_analyze`: the words of a text, as searches compare them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::analyzers;
use crate::catalog::OpenIndex;
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
    const MEMBERS: [&str; 6] = ["text", "analyzer", "field", "tokenizer", "filter", "char_filter"];
    if let Some(other) = body.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(Error::unsupported(&format!("[{other}] of [_analyze]")));
    }
    let texts = match body.get("text").map(names_of) {
        Some(texts) if !texts.is_empty() => texts,
        _ => return Err(Error::Validation(vec!["text is missing".to_owned()])),
    };
    let division = division_of(service, parameters, expression, &body)?;
    let (mut tokens, mut position, mut offset) = (Vec::new(), 0, 0);
    for text in &texts {
        // Offsets are those of UTF-16, at the beginnings and the ends of words.
        let divided = division.divided(text);
        let mut places: Vec<usize> =
            divided.iter().flat_map(|word| [word.span.start, word.span.end]).collect();
        places.sort_unstable();
        places.dedup();
        let (mut units, mut last, mut before) = (BTreeMap::new(), 0, offset);
        for place in places {
            before += text[last..place].encode_utf16().count();
            last = place;
            units.insert(place, before);
        }
        let mut own = 0;
        for word in divided {
            let token = json!({
                "token": word.text, "start_offset": units.get(&word.span.start),
                "end_offset": units.get(&word.span.end), "type": word.kind, "position": position + word.position,
            });
            take_answer(&service.answer_memory, &token)?;
            tokens.push(token);
            own = word.position + 1;
        }
        position += own + TEXT_GAP;
        offset = before + text[last..].encode_utf16().count() + 1;
    }
    ReplyContent::ok(json!({ "tokens": tokens }))
}

/// Division that a request names: an analyzer, that of a field, or the parts of one.
fn division_of(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
    body: &Map<String, Value>,
) -> Result<TextDivision, Error> {
    let parts = ["tokenizer", "filter", "char_filter"];
    let has_parts = parts.into_iter().any(|part| body.contains_key(part));
    if let Some(analyzer) = body.get("analyzer") {
        if has_parts {
            return Err(Error::Validation(vec!["[analyzer] has its own tokenizer and filters".to_owned()]));
        }
        let analyzers = first_index(service, parameters, expression)?;
        let analyzers = analyzers.map_or_else(Arc::default, |index| index.analyzers);
        return analyzers.of_request(&text_of(analyzer));
    }
    if has_parts {
        let index = first_index(service, parameters, expression)?;
        let settings = index.map(|index| index.entry.settings.clone()).unwrap_or_default();
        return analyzers::of_parts(body, &settings);
    }
    match body.get("field") {
        Some(field) => of_field(service, parameters, expression, &text_of(field)),
        None => Ok(TextDivision::Words),
    }
}

/// First index of a request, whose settings define analyzers; `None` if it names none.
fn first_index(
    service: &ElasticService,
    parameters: &ElasticParameters,
    expression: &str,
) -> Result<Option<OpenIndex>, Error> {
    if expression.is_empty() {
        return Ok(None);
    }
    let options = NameOptions::LENIENT.with(parameters)?;
    Ok(names::resolve(&*service.catalog.read()?, expression, options)?.into_iter().next())
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
            FieldValueKind::Text => index.analyzers.of_field(definition),
            _ => TextDivision::Whole,
        }))
    });
    let divisions = divisions.collect::<Result<Vec<_>, Error>>()?;
    Ok(divisions.into_iter().flatten().next().unwrap_or_default())
}
