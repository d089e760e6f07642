//! Token inputs of transformer models in profiles: `tokenInputIds(…)` and related features.

use millrace_expression::{FeatureName, SequencePart, TokenSequence};

use crate::Error;

/// BERT tokens at the start of a text and after each of its parts.
const BERT: (f64, f64) = (101.0, 102.0);

/// The token sequence of a feature with this name; `None` for other features.
pub(crate) fn sequence(name: &FeatureName) -> Option<Result<TokenSequence, Error>> {
    let part = match name.name.as_str() {
        "tokenInputIds" | "customTokenInputIds" => SequencePart::Ids,
        "tokenTypeIds" => SequencePart::Types,
        "tokenAttentionMask" => SequencePart::Mask,
        _ => return None,
    };
    let custom = name.name == "customTokenInputIds";
    let usage = || match custom {
        true => Error::setup(format!("{name}: write customTokenInputIds(start,separator,length,input,…)")),
        false => Error::setup(format!(
            "{name}: write {}(length,input,…), the length at most {}",
            name.name,
            TokenSequence::LENGTH_MAX
        )),
    };
    let (special, rest) = name.parameters.split_at(if custom { name.parameters.len().min(2) } else { 0 });
    let number = |at: usize| special.get(at)?.parse::<f64>().ok();
    let tokens = if custom { number(0).zip(number(1)) } else { Some(BERT) };
    let (Some((start, separator)), [length, inputs @ ..]) = (tokens, rest) else { return Some(Err(usage())) };
    let length = length.parse().ok().filter(|length| (1..=TokenSequence::LENGTH_MAX).contains(length));
    let (Some(length), false) = (length, inputs.is_empty()) else { return Some(Err(usage())) };
    Some(Ok(TokenSequence { part, start, separator, length, inputs: inputs.to_vec() }))
}
