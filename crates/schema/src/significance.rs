//! Word rarity in large collections: the models named by `<significance>` in services.xml.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;

use crate::unpack;

/// Models of word rarity, by language.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignificanceModels {
    languages: BTreeMap<String, Arc<WordFrequencies>>,
}

/// Number of documents in a collection that contain each word.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct WordFrequencies {
    #[serde(rename = "document-count")]
    documents: u64,
    #[serde(rename = "document-frequencies")]
    frequencies: HashMap<String, u64>,
}

/// A model file. Vespa reads any version, and none: later ones have had the same form.
#[derive(Deserialize)]
struct SignificanceFile {
    languages: BTreeMap<String, WordFrequencies>,
}

/// Language name that models use for text of unknown language.
const UNKNOWN: &str = "un";
/// Fallback languages if none is given.
const WITHOUT_LANGUAGE: [&str; 2] = [UNKNOWN, "en"];

impl SignificanceModels {
    /// Adds the languages of a model file; they replace those of earlier models.
    ///
    /// # Errors
    /// The file is invalid; the text gives cause and position.
    pub(crate) fn add(&mut self, file: &[u8]) -> Result<(), String> {
        /// First bytes of Zstandard data.
        const COMPRESSED: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
        let unpacked = if file.starts_with(COMPRESSED) {
            Some(unpack::zstd(file).map_err(|error| error.to_string())?)
        } else {
            None
        };
        let file = unpacked.as_deref().unwrap_or(file);
        let model: SignificanceFile = serde_json::from_slice(file).map_err(|error| {
            format!("{error}; a model has languages with document-count and document-frequencies")
        })?;
        for (tags, frequencies) in model.languages {
            let frequencies = Arc::new(frequencies);
            for tag in tags.split(',') {
                self.languages.insert(tag.trim().to_ascii_lowercase(), Arc::clone(&frequencies));
            }
        }
        Ok(())
    }

    /// True if there are no models.
    pub fn is_empty(&self) -> bool {
        self.languages.is_empty()
    }

    /// The model of a language (`en`, `zh-hant`); without a language, that of unknown text, or else English.
    pub fn of_language(&self, tag: Option<&str>) -> Option<&WordFrequencies> {
        let find = |tag: &str| self.languages.get(tag).map(|found| &**found);
        match tag.map(|tag| tag.replace('_', "-").to_ascii_lowercase()) {
            Some(tag) if tag != UNKNOWN => find(&tag).or_else(|| find(tag.split('-').next()?)),
            _ => WITHOUT_LANGUAGE.into_iter().find_map(find),
        }
    }

    /// Names of the languages, for messages.
    pub fn languages(&self) -> impl Iterator<Item = &str> {
        self.languages.keys().map(String::as_str)
    }
}

impl WordFrequencies {
    /// Share of documents that contain a word in lower case; an unknown word counts as occurring in one
    /// document.
    pub fn share(&self, word: &str) -> f64 {
        let frequency = self.frequencies.get(word).copied().unwrap_or(1);
        (frequency as f64 / self.documents.max(1) as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: &str = r#"{"version": 1, "id": "x", "languages": {"en,und": {"document-count": 10, "document-frequencies": {"the": 8}}}}"#;
    const OTHERS: &str = r#"{"version": 1, "languages": {
        "en": {"document-count": 4, "document-frequencies": {"the": 3}},
        "un": {"document-count": 100, "document-frequencies": {}}}}"#;

    #[test]
    fn the_last_model_of_a_language_counts() {
        let mut models = SignificanceModels::default();
        models.add(ENGLISH.as_bytes()).expect("a model");
        let share =
            |models: &SignificanceModels, tag, word| models.of_language(tag).map(|found| found.share(word));
        assert_eq!(share(&models, Some("en-US"), "the"), Some(0.8));
        assert_eq!(share(&models, None, "rare"), Some(0.1), "English stands in for what is not known");
        assert_eq!(share(&models, Some("no"), "the"), None);
        models.add(OTHERS.as_bytes()).expect("a model");
        assert_eq!(share(&models, Some("EN_us"), "the"), Some(0.75));
        assert_eq!(share(&models, Some("und"), "the"), Some(0.8));
        assert_eq!(share(&models, None, "the"), Some(0.01));
    }

    #[test]
    fn models_of_the_tool_are_read() {
        let file = include_bytes!("../tests/compressed/significance.json.zst");
        for version in ["1", "1.5", "\"1\"", "\"1.0\"", "2", "\"2.0\"", "\"\"", "null"] {
            let model = ENGLISH.replace("\"version\": 1", &format!("\"version\": {version}"));
            SignificanceModels::default().add(model.as_bytes()).expect(version);
        }
        let without = ENGLISH.replace("\"version\": 1, ", "");
        SignificanceModels::default().add(without.as_bytes()).expect("a model without a version");
        let mut models = SignificanceModels::default();
        models.add(file).expect("a compressed model");
        assert_eq!(models.of_language(Some("nb")).map(|model| model.share("og")), Some(0.5));
    }

    #[test]
    fn what_is_no_model_says_why() {
        let refused = |file: &[u8]| SignificanceModels::default().add(file).expect_err("no model");
        assert!(refused(b"{").contains("line 1 column 1"));
        assert!(refused(br#"{"version": 2}"#).contains("missing field `languages`"));
        assert!(refused(&[0x28, 0xb5, 0x2f, 0xfd, 0]).contains("Zstandard"));
    }
}
