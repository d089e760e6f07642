//! Normalizers: the form in which the values of a `keyword` are compared.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::Error;
use crate::fields::names_of;

/// Step of a normalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NormalizerStep {
    Lower,
    Upper,
    /// Letters with accents, and others that are written with those of ASCII, become these.
    Ascii,
    /// Blanks before and after the value are dropped.
    Trim,
}

impl NormalizerStep {
    fn named(name: &str) -> Option<Self> {
        match name {
            "lowercase" => Some(NormalizerStep::Lower),
            "uppercase" => Some(NormalizerStep::Upper),
            "asciifolding" => Some(NormalizerStep::Ascii),
            "trim" => Some(NormalizerStep::Trim),
            _ => None,
        }
    }

    fn apply(self, text: &str) -> String {
        match self {
            NormalizerStep::Lower => text.to_lowercase(),
            NormalizerStep::Upper => text.to_uppercase(),
            NormalizerStep::Ascii => ascii(text),
            NormalizerStep::Trim => text.trim().to_owned(),
        }
    }
}

/// A text with letters of ASCII in the place of those that are written with them.
pub(crate) fn ascii(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            'ß' => folded.push_str("ss"),
            'ẞ' => folded.push_str("SS"),
            'æ' => folded.push_str("ae"),
            'Æ' => folded.push_str("AE"),
            'œ' => folded.push_str("oe"),
            'Œ' => folded.push_str("OE"),
            'þ' => folded.push_str("th"),
            'Þ' => folded.push_str("TH"),
            'ø' => folded.push('o'),
            'Ø' => folded.push('O'),
            'đ' | 'ð' => folded.push('d'),
            'Đ' | 'Ð' => folded.push('D'),
            'ł' => folded.push('l'),
            'Ł' => folded.push('L'),
            'ı' => folded.push('i'),
            letter if letter.is_ascii() => folded.push(letter),
            letter => {
                let parts = || std::iter::once(letter).nfkd().filter(|part| !is_combining_mark(*part));
                // Letters of other scripts keep their accents.
                match parts().next().is_some() && parts().all(|part| part.is_ascii()) {
                    true => folded.extend(parts()),
                    false => folded.push(letter),
                }
            }
        }
    }
    folded
}

/// Form in which the values of a field are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueNormalizer(Vec<NormalizerStep>);

impl ValueNormalizer {
    /// The normalizer of a field by the settings of its index; `None` if it has none.
    pub(crate) fn of(definition: &Map<String, Value>, settings: &BTreeMap<String, Value>) -> Option<Self> {
        let name = definition.get("normalizer")?.as_str()?;
        Self::named(name, settings).ok()
    }

    /// A normalizer by its name.
    ///
    /// # Errors
    /// The settings do not define it, or with filters that there are not.
    pub(crate) fn named(name: &str, settings: &BTreeMap<String, Value>) -> Result<Self, Error> {
        let member = |member: &str| settings.get(&format!("index.analysis.normalizer.{name}.{member}"));
        let is_defined = ["type", "filter", "char_filter"].iter().any(|of| member(of).is_some());
        if !is_defined {
            return match NormalizerStep::named(name) {
                Some(step @ NormalizerStep::Lower) => Ok(ValueNormalizer(vec![step])),
                _ => Err(Error::mapping(format!("normalizer [{name}] not found"))),
            };
        }
        let unsupported = |what: &str| {
            Err(Error::unsupported(&format!(
                "{what} of the normalizer [{name}], as all but the filters [lowercase], [uppercase], [asciifolding] and [trim],"
            )))
        };
        if let Some(kind) = member("type").filter(|kind| *kind != "custom" && *kind != "lowercase") {
            return unsupported(&format!("the type {kind}"));
        }
        if let Some(filter) = member("char_filter").map(names_of).unwrap_or_default().first() {
            return unsupported(&format!("the character filter [{filter}]"));
        }
        let mut steps = Vec::new();
        if member("type").is_some_and(|kind| kind == "lowercase") {
            steps.push(NormalizerStep::Lower);
        }
        for filter in member("filter").map(names_of).unwrap_or_default() {
            match NormalizerStep::named(&filter) {
                Some(step) => steps.push(step),
                None => return unsupported(&format!("the filter [{filter}]")),
            }
        }
        Ok(ValueNormalizer(steps))
    }

    /// A text in this form.
    pub(crate) fn apply(&self, text: &str) -> String {
        let mut steps = self.0.iter();
        let first = steps.next().map_or_else(|| text.to_owned(), |step| step.apply(text));
        steps.fold(first, |text, step| step.apply(&text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_the_form_of_their_normalizer() {
        let settings = json!({
            "index.analysis.normalizer.plain.type": "custom",
            "index.analysis.normalizer.plain.filter": ["lowercase", "asciifolding"],
            "index.analysis.normalizer.loud.filter": "uppercase",
            "index.analysis.normalizer.neat.filter": ["trim"],
            "index.analysis.normalizer.empty.type": "custom",
            "index.analysis.normalizer.english.filter": ["porter_stem"],
            "index.analysis.normalizer.mapped.char_filter": ["dashes"],
        });
        let settings: BTreeMap<String, Value> = serde_json::from_value(settings).expect("settings");
        for (name, text, expected) in [
            ("lowercase", "BÀR Baz", Ok("bàr baz")),
            ("plain", "BÀR Straße Øre ﬁn", Ok("bar strasse ore fin")),
            ("plain", "Ά Й 日", Ok("ά й 日")),
            ("loud", "bàr", Ok("BÀR")),
            ("neat", " a B ", Ok("a B")),
            ("empty", " A ", Ok(" A ")),
            ("none", "", Err("normalizer [none] not found")),
            ("uppercase", "", Err("normalizer [uppercase] not found")),
            ("english", "", Err("the filter [porter_stem] of the normalizer [english]")),
            ("mapped", "", Err("the character filter [dashes] of the normalizer [mapped]")),
        ] {
            match (ValueNormalizer::named(name, &settings), expected) {
                (Ok(normalizer), Ok(expected)) => {
                    assert_eq!(normalizer.apply(text), expected, "{name}: {text}")
                }
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().starts_with(expected), "{name}: {error}");
                    assert_eq!(error.status(), 400, "{name}");
                }
                (found, _) => panic!("{name}: {found:?}"),
            }
        }
    }
}
