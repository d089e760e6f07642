use rust_stemmers::Algorithm;

/// The language of a text, as far as it changes how its words are stemmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// Not said; taken for English, as most text without a language is.
    #[default]
    Unknown,
    /// One with a stemmer.
    Stemmed(Algorithm),
    /// One without: words stay as they are.
    Unstemmed,
}

impl Language {
    /// The language of a BCP 47 tag (`en`, `de-CH`, `pt_BR`); only its first part counts. Empty and `un` are unknown.
    pub fn from_tag(tag: &str) -> Self {
        let primary = tag.split(['-', '_']).next().unwrap_or_default().to_ascii_lowercase();
        Language::Stemmed(match primary.as_str() {
            "" | "un" | "und" => return Language::Unknown,
            "ar" => Algorithm::Arabic,
            "da" => Algorithm::Danish,
            "de" => Algorithm::German,
            "el" => Algorithm::Greek,
            "en" => Algorithm::English,
            "es" => Algorithm::Spanish,
            "fi" => Algorithm::Finnish,
            "fr" => Algorithm::French,
            "hu" => Algorithm::Hungarian,
            "it" => Algorithm::Italian,
            "nb" | "nn" | "no" => Algorithm::Norwegian,
            "nl" => Algorithm::Dutch,
            "pt" => Algorithm::Portuguese,
            "ro" => Algorithm::Romanian,
            "ru" => Algorithm::Russian,
            "sv" => Algorithm::Swedish,
            "ta" => Algorithm::Tamil,
            "tr" => Algorithm::Turkish,
            _ => return Language::Unstemmed,
        })
    }

    pub(crate) fn algorithm(self) -> Option<Algorithm> {
        match self {
            Language::Unknown => Some(Algorithm::English),
            Language::Stemmed(algorithm) => Some(algorithm),
            Language::Unstemmed => None,
        }
    }
}
